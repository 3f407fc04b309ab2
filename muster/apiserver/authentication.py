"""Who asks: whoever has the token. Asked by `asgi` for every request."""

from __future__ import annotations

import hashlib
import hmac
from typing import Protocol

from muster.apiserver.requests import User

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
_BEARER = b"bearer "


class Authenticator(Protocol):
    """Knows users by what they show."""

    def user(self, headers: list[tuple[bytes, bytes]]) -> User | None:
        """Who sends these headers; `None` for somebody unknown."""

    def user_of_token(self, token: str) -> User | None:
        """Whose token this is."""


class Tokens:
    """Knows the administrator by a token. Only a digest of it is kept in memory."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token.encode())

    def user(self, headers: list[tuple[bytes, bytes]]) -> User | None:
        for name, value in headers:
            if name == b"authorization":
                return ADMIN if self._is_right(value) else None
        return None

    def user_of_token(self, token: str) -> User | None:
        return ADMIN if hmac.compare_digest(_digest(token.encode()), self._digest) else None

    def _is_right(self, header: bytes) -> bool:
        if header[: len(_BEARER)].lower() != _BEARER:
            return False
        return hmac.compare_digest(_digest(header[len(_BEARER) :].strip()), self._digest)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
