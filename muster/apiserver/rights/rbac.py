"""Roles and bindings as an index by subject, and the answers that follow from them. Pure; kept current by `access`.

Kubernetes' rules: whatever no rule of a bound role allows is denied, and a role that does not exist allows nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.apiserver.requests import User
from muster.store.kinds import Object
from muster.store.records import Key

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
BINDINGS, CLUSTER_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
RESOURCES = (ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS)
_ACCOUNT = "system:serviceaccount:"
ALL = "*"


class Question(NamedTuple):
    """What somebody wants to do: to a resource, or with a path that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None  # instead of all of these

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Verdict(NamedTuple):
    """Whether it is allowed, and by what."""

    is_allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role; the lists are as the role has them."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    _verbs: frozenset[str] = field(init=False, repr=False, compare=False)
    _groups: frozenset[str] = field(init=False, repr=False, compare=False)
    _resources: frozenset[str] = field(init=False, repr=False, compare=False)
    _names: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("verbs", "groups", "resources", "names"):
            object.__setattr__(self, f"_{name}", frozenset(getattr(self, name)))

    @staticmethod
    def of(given: Object) -> Rule:
        """The rule that an object of the API holds."""
        names = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return Rule(*(tuple(given.get(name) or ()) for name in names))

    def object(self) -> Object:
        """The rule as the API shows it; empty lists are left out."""
        lists = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.paths,
        }
        return {name: list(values) for name, values in lists.items() if values}

    def allows(self, asked: Question) -> bool:
        """Whether the rule alone is enough."""
        if asked.verb not in self._verbs and ALL not in self._verbs:
            return False
        if asked.path is not None:
            return any(_covers_path(one, asked.path) for one in self.paths)
        return (
            (asked.group in self._groups or ALL in self._groups)
            and self._has_resource(asked.resource, asked.subresource)
            and (not self._names or asked.name in self._names)
        )

    def covers(self, other: Rule) -> bool:
        """Whether everything that the other rule allows is allowed by this one."""
        if not (ALL in self._verbs or self._verbs.issuperset(other.verbs)):
            return False
        if not all(any(_covers_path(mine, one) for mine in self.paths) for one in other.paths):
            return False
        if not (ALL in self._groups or self._groups.issuperset(other.groups)):
            return False
        if not all(self._has_resource(*_parts(one)) for one in other.resources):
            return False
        # A rule without names is for all of them; one with names can cover only such as it has.
        return not self._names or (bool(other.names) and self._names.issuperset(other.names))

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if ALL in self._resources:
            return True
        if not subresource:
            return resource in self._resources
        return f"{resource}/{subresource}" in self._resources or f"*/{subresource}" in self._resources


def _parts(resource: str) -> tuple[str, str]:
    name, _, part = resource.partition("/")
    return name, part


def _covers_path(rule: str, path: str) -> bool:
    return rule in (ALL, path) or (rule.endswith(ALL) and path.startswith(rule.rstrip(ALL)))


class Binding(NamedTuple):
    """A role for some subjects, in one namespace or (empty) everywhere."""

    key: Key
    role: Key
    subjects: tuple[tuple[str, str], ...]  # what users are known by, and how messages call them


def quoted(text: str) -> str:
    """A text as messages quote it."""
    return json.dumps(text, ensure_ascii=False)


def account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{_ACCOUNT}{namespace}:{name}"


def account_of(user_name: str) -> tuple[str, str] | None:
    """The namespace and name of the service account that a user name stands for."""
    namespace, _, name = user_name.removeprefix(_ACCOUNT).partition(":")
    is_account = user_name.startswith(_ACCOUNT) and namespace and name and ":" not in name
    return (namespace, name) if is_account else None


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of the service accounts in a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def _read_binding(key: Key, given: Object) -> Binding:
    reference = given["roleRef"]
    is_local = reference["kind"] == "Role"
    role = Key(ROLES if is_local else CLUSTER_ROLES, key.namespace if is_local else "", reference["name"])
    subjects = tuple(_read_subject(one, key.namespace) for one in given.get("subjects") or ())
    return Binding(key, role, subjects)


def _read_subject(subject: Object, namespace: str) -> tuple[str, str]:
    name = subject["name"]
    if subject["kind"] == "ServiceAccount":
        place = subject.get("namespace") or namespace
        return f"User {account_name(place, name)}", f"ServiceAccount {quoted(f'{name}/{place}')}"
    return f"{subject['kind']} {name}", f"{subject['kind']} {quoted(name)}"


class RoleBook:
    """All roles and bindings, found by whom they are for."""

    def __init__(self) -> None:
        self._roles: dict[Key, tuple[Rule, ...]] = {}
        self._bindings: dict[Key, Binding] = {}
        self._of: dict[str, dict[str, dict[Key, str]]] = {}  # subject -> namespace -> its bindings, and its name there

    def put(self, key: Key, given: Object) -> None:
        """Take in a role or a binding."""
        if key.resource in (ROLES, CLUSTER_ROLES):
            self._roles[key] = tuple(Rule.of(one) for one in given.get("rules") or ())
            return
        self._unbind(key)
        binding = self._bindings[key] = _read_binding(key, given)
        for subject, shown in binding.subjects:
            self._of.setdefault(subject, {}).setdefault(key.namespace, {})[key] = shown

    def remove(self, key: Key) -> None:
        """Forget a role or a binding."""
        self._roles.pop(key, None)
        self._unbind(key)

    def _unbind(self, key: Key) -> None:
        binding = self._bindings.pop(key, None)
        for subject, _ in binding.subjects if binding is not None else ():
            places = self._of.get(subject)
            if places is None:
                continue  # it was named twice
            places.get(key.namespace, {}).pop(key, None)
            if not places.get(key.namespace):
                places.pop(key.namespace, None)
            if not places:
                del self._of[subject]

    def rules_in(self, role: Key) -> tuple[Rule, ...] | None:
        """The rules of a role; `None` where there is no such role."""
        return self._roles.get(role)

    def verdict(self, user: User, asked: Question) -> Verdict:
        """Whether a user may do something."""
        missing: list[Key] = []
        for binding, shown in self._bound(user, asked.namespace if asked.path is None else ""):
            rules = self._roles.get(binding.role)
            if rules is None:
                missing.append(binding.role)
                continue
            for rule in rules:
                if rule.allows(asked):
                    return Verdict(True, _why(binding, shown))
        return Verdict(False, _without(missing))

    def rules_of(self, user: User, namespace: str) -> tuple[list[Rule], list[Key]]:
        """All rules that a user has in a namespace, and the roles that should give more and do not exist."""
        found: list[Rule] = []
        missing: dict[Key, None] = {}
        for binding, _ in self._bound(user, namespace):
            rules = self._roles.get(binding.role)
            if rules is None:
                missing[binding.role] = None
            else:
                found += rules
        return found, list(missing)

    def _bound(self, user: User, namespace: str) -> Iterator[tuple[Binding, str]]:
        """The bindings for a user, those for the whole cluster first."""
        subjects = (f"User {user.name}", *(f"Group {one}" for one in user.groups))
        found = [places for subject in subjects if (places := self._of.get(subject))]
        for place in ("", namespace) if namespace else ("",):
            for places in found:
                for key, shown in places.get(place, {}).items():
                    yield self._bindings[key], shown


def _why(binding: Binding, shown: str) -> str:
    key, role = binding.key, binding.role
    kind = "RoleBinding" if key.namespace else "ClusterRoleBinding"
    name = f"{key.name}/{key.namespace}" if key.namespace else key.name
    role_kind = "Role" if role.namespace else "ClusterRole"
    return f"RBAC: allowed by {kind} {quoted(name)} of {role_kind} {quoted(role.name)} to {shown}"


def _without(missing: Iterable[Key]) -> str:
    text = missing_text(missing)
    return f"RBAC: {text}" if text else ""


def missing_text(missing: Iterable[Key]) -> str:
    """Which roles do not exist, as Kubernetes says it of somebody who would have them."""
    kinds = {ROLES: "role", CLUSTER_ROLES: "clusterrole"}
    texts = list(dict.fromkeys(f"{kinds[one.resource]}.{GROUP} {quoted(one.name)} not found" for one in missing))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
