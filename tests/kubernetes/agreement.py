"""Counts of verdicts that are the same, that differ on purpose, and that differ. Used by the differential tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.kubernetes.comparison import Verdict
from tests.kubernetes.differences import explanation

SHOWN = 20


class Agreement:
    """How far two servers agree, with the first disagreements."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.disagreements: list[str] = []

    def add(self, kind: str, what: str, ours: Verdict, theirs: Verdict) -> None:
        """Compare two verdicts: the code, the causes, and the object where there is one."""
        if ours.outcome == theirs.outcome and ours.body == theirs.body:
            self.counts["same"] += 1
        elif known := explanation(kind, ours, theirs):
            self.counts[f"on purpose: {known}"] += 1
        else:
            self.counts["different"] += 1
            self.disagreements.append(f"{what}: {_told(ours)}, really {_told(theirs)}{_where(ours, theirs)}")

    def check(self, title: str) -> None:
        """Print the counts, and fail where something differs that should not."""
        print(f"\n{title}: " + ", ".join(f"{count} {name}" for name, count in self.counts.most_common()))
        assert not self.disagreements, "\n".join(self.disagreements[:SHOWN])


def _told(verdict: Verdict) -> str:
    causes = ", ".join(f"{field} {reason}" for field, reason in sorted(verdict.causes))
    return f"{verdict.code} {causes or verdict.message[:200]}".strip()


def _where(ours: Verdict, theirs: Verdict) -> str:
    """The first fields that two objects differ in."""
    if ours.body is None or theirs.body is None:
        return ""
    return "; " + ", ".join(list(_unlike(ours.body, theirs.body, ""))[:5])


def _unlike(ours: object, theirs: object, path: str) -> Iterable[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys()):
            yield from _unlike(ours.get(name), theirs.get(name), f"{path}.{name}")
    elif ours != theirs:
        yield f"{path}: {ours!r} instead of {theirs!r}"[:300]
