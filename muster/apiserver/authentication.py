"""Who asks: whoever has the administrator's token, or one for a service account. Asked by `asgi` for every request.

Client certificates are the connection's own: `certificates` knows their users, and `server` says so in the scope.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple, Protocol

from muster.apiserver.requests import User
from muster.apiserver.rights.access import MASTERS
from muster.apiserver.rights.rbac import quoted
from muster.apiserver.rights.service_accounts import AUTHENTICATED, ISSUER, ServiceAccounts, WrongAudience

UNAUTHENTICATED = "system:unauthenticated"
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))
ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
_BEARER = b"bearer "


class Reviewed(NamedTuple):
    """What is known of a token that somebody asks about."""

    user: User | None
    audiences: tuple[str, ...] = ()  # that it is good for, of those asked about
    problem: str = ""


class Authenticator(Protocol):
    """Knows users by what they show."""

    def user(self, headers: list[tuple[bytes, bytes]]) -> User | None:
        """Who sends these headers; `None` for somebody unknown."""

    def review(self, token: str, audiences: tuple[str, ...]) -> Reviewed:
        """Whose token this is, and for whom; without audiences, for this server."""


class Tokens:
    """Knows the administrator by a token, of which only a digest is kept in memory, and service accounts by theirs."""

    def __init__(self, token: str, accounts: ServiceAccounts | None = None) -> None:
        self._digest = _digest(token.encode())
        self._accounts = accounts

    def user(self, headers: list[tuple[bytes, bytes]]) -> User | None:
        for name, value in headers:
            if name == b"authorization":
                return self._user_of(value)
        return None

    def _user_of(self, header: bytes) -> User | None:
        if header[: len(_BEARER)].lower() != _BEARER:
            return None
        token = header[len(_BEARER) :].strip()
        if hmac.compare_digest(_digest(token), self._digest):
            return ADMIN
        if self._accounts is None or not token.isascii():
            return None
        found = self._accounts.user(token.decode("ascii"))
        return found if isinstance(found, User) else None

    def review(self, token: str, audiences: tuple[str, ...]) -> Reviewed:
        wanted = audiences or (ISSUER,)
        if hmac.compare_digest(_digest(token.encode("utf-8", "replace")), self._digest):
            found: User | WrongAudience | None = ADMIN if ISSUER in wanted else WrongAudience((ISSUER,))
        else:
            found = self._accounts.user(token, wanted) if self._accounts is not None else None
        if isinstance(found, User):
            if found is ADMIN or self._accounts is None:
                return Reviewed(found, (ISSUER,))
            return Reviewed(found, self._accounts.audiences_of(token, wanted))
        if isinstance(found, WrongAudience):
            given, asked = (" ".join(map(quoted, one)) for one in (found.audiences, wanted))
            why = f"token audiences [{given}] is invalid for the target audiences [{asked}]"
            return Reviewed(None, problem=f"[invalid bearer token, {why}]")
        return Reviewed(None, problem="invalid bearer token")


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
