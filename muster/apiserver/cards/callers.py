"""Who may ask the extender: a scheduler with a certificate of its own, or with the token that it was given.

kube-scheduler can show a certificate (`tlsConfig` of an extender); others may find a token easier. Used by `asgi`.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from muster.apiserver.certificates import CERTIFIED, Certified
from muster.apiserver.requests import Message
from muster.apiserver.statuses import Problem

_BEARER = b"bearer "
LEAST_TOKEN = 16  # characters; what is shorter can be guessed


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """Whom the extender answers."""

    token_digest: bytes = b""  # empty: nobody has a token
    users: frozenset[str] = frozenset()  # whose certificates count; empty: of everybody whom the authority vouches for
    has_authority: bool = False  # whether certificates are asked for at all

    def check(self, scope: Message, now_s: float) -> None:
        """Refuse strangers by raising."""
        shown: Certified | None = scope.get(CERTIFIED)
        if self.has_authority and shown is not None and shown.ends_s > now_s:
            if not self.users or shown.user.name in self.users:
                return
            raise Problem(403, "Forbidden", "this certificate is not one that may ask for cards")
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        is_bearer = bool(self.token_digest) and given[: len(_BEARER)].lower() == _BEARER
        if not is_bearer or not hmac.compare_digest(digest(given[len(_BEARER) :].strip()), self.token_digest):
            raise Problem(401, "Unauthorized", "Unauthorized")


def digest(token: bytes) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token).digest()
