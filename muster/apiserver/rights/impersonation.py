"""Acting as somebody else, by headers, for those who have the right to. Called by `asgi` once it is known who asks."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from muster.apiserver.authentication import UNAUTHENTICATED
from muster.apiserver.requests import User
from muster.apiserver.rights.access import Access
from muster.apiserver.rights.rbac import Question, account_groups, account_of
from muster.apiserver.rights.service_accounts import AUTHENTICATED
from muster.apiserver.statuses import Problem, bad_request

PREFIX = b"impersonate-"
_EXTRA = b"impersonate-extra-"
_IDENTITY = "authentication.k8s.io"
_ANONYMOUS = "system:anonymous"
_MOST = 256  # headers: each is a question of its own
Headers = list[tuple[bytes, bytes]]


def acting_as(access: Access, user: User, headers: Headers) -> User:
    """Whom a user acts as: itself, unless headers name another."""
    given = [(name, value.decode("utf-8", "replace")) for name, value in headers if name.startswith(PREFIX)]
    if not given:
        return user
    if len(given) > _MOST:
        raise bad_request(f"the request has more than {_MOST} headers that say whom to act as")
    wanted = _wanted(given)
    if not wanted.name:
        raise bad_request("requested groups, a uid or extras without impersonating a user name")
    for asked in _questions(wanted):
        access.check(user, asked)
    return _complete(wanted)


def _wanted(given: list[tuple[bytes, str]]) -> User:
    name, uid = "", ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for header, value in given:
        if header == b"impersonate-user":
            name = value
        elif header == b"impersonate-group":
            groups.append(value)
        elif header == b"impersonate-uid":
            uid = value
        elif header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA).decode("latin-1")).lower()
            extra.setdefault(key, []).append(value)
        else:
            raise Problem(400, "BadRequest", "a header says to act as somebody in a way that is not known")
    return User(name, tuple(groups), uid, tuple((key, tuple(values)) for key, values in extra.items()))


def _questions(wanted: User) -> Iterator[Question]:
    account = account_of(wanted.name)
    if account is not None:
        yield Question("impersonate", "", "serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Question("impersonate", "", "users", name=wanted.name)
    for group in wanted.groups:
        yield Question("impersonate", "", "groups", name=group)
    for key, values in wanted.extra:
        for value in values:
            yield Question("impersonate", _IDENTITY, "userextras", key, name=value)
    if wanted.uid:
        yield Question("impersonate", _IDENTITY, "uids", name=wanted.uid)


def _complete(wanted: User) -> User:
    """The user with the groups that everybody of its sort is in."""
    groups = wanted.groups
    account = account_of(wanted.name)
    if account is not None and not groups:
        groups = account_groups(account[0])
    if AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, UNAUTHENTICATED if wanted.name == _ANONYMOUS else AUTHENTICATED)
    return wanted._replace(groups=groups)
