"""Short texts that stand for a template or for an attempt, and end the names of what controllers make."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

# Without vowels and look-alikes, as Kubernetes has it: no words come out by chance.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
DIGEST_LENGTH = 5
HASH_LENGTH = 10
_REVISION_PREFIX_MOST = 223


def digest(given: Any, length: int = DIGEST_LENGTH) -> str:
    """A text of some letters that is the same for the same JSON value."""
    text = msgspec.json.encode(given, order="sorted")
    number = int.from_bytes(hashlib.sha256(text).digest(), "big")
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def template_hash(template: Any, collisions: int) -> str:
    """What stands for a pod template; each collision of names gives another one."""
    return digest([template, collisions], HASH_LENGTH)


def revision_name(owner: str, text: str) -> str:
    """The name of a revision of an owner."""
    return f"{owner[:_REVISION_PREFIX_MOST]}-{text}"
