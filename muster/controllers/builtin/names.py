"""Short texts that stand for a template or for an attempt, and end the names of what controllers make."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from muster.store.metadata import GENERATED_MOST

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


def free_name(prefix: str, given: Any, is_taken: Callable[[str], bool]) -> str:
    """The first name after a prefix that follows from a JSON value and that nobody is known to have.

    Whoever has made an object and lost the answer comes to the same name again, and is told that it exists.
    """
    number = 0
    while True:
        name = prefix[:GENERATED_MOST] + digest([given, number])
        if not is_taken(name):
            return name
        number += 1


def template_hash(template: Any, collisions: int) -> str:
    """What stands for a pod template; each collision of names gives another one."""
    return digest([template, collisions], HASH_LENGTH)


def revision_name(owner: str, text: str) -> str:
    """The name of a revision of an owner."""
    return f"{owner[:_REVISION_PREFIX_MOST]}-{text}"
