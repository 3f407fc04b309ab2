"""May this user do that: the roles of the store, always as of its newest revision. Asked by `asgi` for every request.

What a request asks for is read from what it will be routed to, so that the two cannot differ.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from muster.apiserver.requests import Request, Target, User
from muster.apiserver.rights.rbac import RESOURCES, Question, RoleBook, Rule, Verdict, quoted
from muster.apiserver.selectors import MOST_CHARACTERS, read_fields
from muster.apiserver.statuses import Problem
from muster.store.errors import Expired
from muster.store.objects import decode
from muster.store.port import Store, Watch
from muster.store.records import Action, Key, Scope

MASTERS = "system:masters"
_OF_COLLECTIONS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_OF_OBJECTS = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}


class Access:
    """Answers from the store's roles. Safe on any thread: writes ask on the store's."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._book = RoleBook()
        self._watches: list[Watch] = []
        self._revision = -1

    def verdict(self, user: User, asked: Question) -> Verdict:
        """Whether a user may do something; administrators may do everything, whatever roles there are."""
        if MASTERS in user.groups:
            return Verdict(True)
        with self._lock:
            return self._current().verdict(user, asked)

    def check(self, user: User, asked: Question) -> str:
        """Refuse what is not allowed; else gives what allows it."""
        verdict = self.verdict(user, asked)
        if not verdict.is_allowed:
            raise refusal(user, asked, verdict.reason)
        return verdict.reason

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], list[Key]]:
        """All rules that a user has in a namespace, and the roles that are missing."""
        with self._lock:
            return self._current().rules_of(user, namespace)

    def rules_in(self, role: Key) -> tuple[Rule, ...] | None:
        """The rules of a role; `None` where there is no such role."""
        with self._lock:
            return self._current().rules_in(role)

    def _current(self) -> RoleBook:
        """The roles as of now. Most of the time nothing has happened to them, which costs a look at four places."""
        revision = self._store.revision
        if revision == self._revision:
            return self._book
        try:
            for watch in self._watches:
                for event in watch.take().events:
                    key = event.record.key
                    if event.action is Action.DELETED:
                        self._book.remove(key)
                    else:
                        self._book.put(key, decode(event.record))
        except Expired:
            self._revision = -1
        if self._revision < 0:
            self._read_all(revision)
        self._revision = revision
        return self._book

    def _read_all(self, revision: int) -> None:
        for watch in self._watches:
            watch.close()
        self._watches = [self._store.watch(Scope(one), revision, _not_waiting) for one in RESOURCES]
        self._book = RoleBook()
        for resource in RESOURCES:
            for record in self._store.page(Scope(resource)).records:
                self._book.put(record.key, decode(record))


def _not_waiting() -> None:
    """News is looked for when somebody asks."""


# What is asked -------------------------------------------------------------------------------------------------------


def question_of(request: Request, target: Target | None) -> Question:
    """What a request wants to do; without a target, by its path alone."""
    if target is None:
        asked = _unserved(request)
        return asked or Question(request.method.lower(), path=request.path)
    kind = target.served.kind
    is_namespace = kind.plural == "namespaces" and not kind.group
    return Question(
        _verb(request, has_name=bool(target.name)),
        kind.group,
        kind.plural,
        target.subresource,
        target.name if is_namespace else target.namespace,  # Kubernetes: a namespace is within itself
        target.name or _selected_name(request, target),
    )


def _verb(request: Request, *, has_name: bool) -> str:
    verb = (_OF_OBJECTS if has_name else _OF_COLLECTIONS).get(request.method, request.method.lower())
    return "watch" if verb == "list" and request.flag("watch") else verb


def _selected_name(request: Request, target: Target) -> str:
    """A list of the one object that a selector names needs no more than that object's rights."""
    text = request.option("fieldSelector")
    if request.method not in ("GET", "HEAD") or "metadata.name" not in text or len(text) > MOST_CHARACTERS:
        return ""
    try:
        terms = list(read_fields(text, target.served))
    except Problem:
        return ""  # it is refused later, if it comes to that
    return next((one.value for one in terms if one.name == "metadata.name" and one.is_equal), "")


def _unserved(request: Request) -> Question | None:
    """The question about a resource that is not served: who may not ask for it is not told so."""
    parts = request.path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    resource, name, subresource, *_ = [*rest, "", ""]
    return Question(_verb(request, has_name=bool(name)), group, resource, subresource, namespace, name)


# Refusals ------------------------------------------------------------------------------------------------------------


def refusal(user: User, asked: Question, reason: str = "") -> Problem:
    """The answer to somebody who may not, in Kubernetes' words."""
    message = "".join(_sentence(user, asked)) + (f": {reason}" if reason else "")
    if asked.path is not None:
        return Problem(403, "Forbidden", f"forbidden: {message}", details={})
    resource = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    named = f"{resource} {quoted(asked.name)}" if asked.name else resource
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    given = {key: value for key, value in details.items() if value}
    return Problem(403, "Forbidden", f"{named} is forbidden: {message}", details=given)


def _sentence(user: User, asked: Question) -> Iterator[str]:
    yield f"User {quoted(user.name)} cannot {asked.verb} "
    if asked.path is not None:
        yield f"path {quoted(asked.path)}"
        return
    yield f"resource {quoted(asked.full_resource)} in API group {quoted(asked.group)} "
    yield f"in the namespace {quoted(asked.namespace)}" if asked.namespace else "at the cluster scope"
