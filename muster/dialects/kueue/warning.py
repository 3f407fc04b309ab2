"""What an object's author should know although the object is accepted; shown as an API warning and by lint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectWarning:
    """The field, what is odd about it, and what to write instead; the same three parts as a refusal has."""

    path: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        what_to_do = f"; {self.hint}" if self.hint else ""
        return f"{where}{self.problem}{what_to_do}"
