"""Small numbers for keys that come and go, so that columns can be kept by number. Used by the engine's node side."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Numbering(Generic[Key]):
    """Numbers keys from zero on and counts how often each is in use; an unused number is given out again."""

    def __init__(self) -> None:
        self.number_by_key: dict[Key, int] = {}
        self.keys: list[Key] = []  # by number; those out of use are stale
        self.counts: list[int] = []  # by number
        self._unused: list[int] = []

    def enter(self, key: Key) -> int:
        """Use a key once more. Gives its number."""
        number = self.number_by_key.get(key)
        if number is None:
            if self._unused:
                number = self._unused.pop()
                self.keys[number] = key
            else:
                number = len(self.keys)
                self.keys.append(key)
                self.counts.append(0)
            self.number_by_key[key] = number
        self.counts[number] += 1
        return number

    def leave(self, number: int) -> None:
        """Use the key of a number once less."""
        self.counts[number] -= 1
        assert self.counts[number] >= 0, f"{self.keys[number]!r} left more often than it came"
        if not self.counts[number]:
            del self.number_by_key[self.keys[number]]
            self._unused.append(number)
