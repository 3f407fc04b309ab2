"""The ledger: who uses how much, with every change recorded so that a try can be taken back exactly.

It is the only thing in the engine that changes. A cycle takes a checkpoint, charges and releases as it tries
things, and rolls back; the owner of the state charges what really happened and commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.engine.places import Mark as PlaceMark
from muster.engine.places import Places, Use
from muster.engine.tree import QuotaNode
from muster.model.resources import Amounts, FlavorResource

Mark = tuple[int, PlaceMark | None]


@dataclass(frozen=True, slots=True)
class _Leaving:
    """A workload that was taken out or put back."""

    workload: str
    was_gone: bool


_Change = _Leaving | tuple[QuotaNode, FlavorResource, int]


def _set_usage(node: QuotaNode, key: FlavorResource, amount: int) -> None:
    """Zero is stored as absence, so that a usage table compares equal however it came about."""
    if amount:
        node.usage[key] = amount
    else:
        node.usage.pop(key, None)
    parent = node.parent
    if parent is not None:
        borrowers = parent.borrowers.get(key)
        if amount > node.cells[key].subtree:
            if borrowers is None:
                parent.borrowers[key] = {node: None}
            else:
                borrowers[node] = None
        elif borrowers:
            borrowers.pop(node, None)


class Ledger:
    """Usage of quota and places, and the workloads set aside in a try, with an undo record."""

    def __init__(self, places: Places | None = None) -> None:
        self.places = places if places is not None and places.is_any else None
        self._record: list[_Change] = []
        self._gone: dict[str, None] = {}  # workloads taken out in this try

    def checkpoint(self) -> Mark:
        """A mark that `rollback` returns to."""
        return len(self._record), self.places.checkpoint() if self.places is not None else None

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark, newest first."""
        changes, place_mark = mark
        assert changes <= len(self._record), "a checkpoint is rolled back once, and inner ones before outer ones"
        if self.places is not None and place_mark is not None:
            self.places.rollback(place_mark)
        while len(self._record) > changes:
            change = self._record.pop()
            if isinstance(change, _Leaving):
                self._set_gone(change.workload, change.was_gone)
            else:
                node, key, before = change
                _set_usage(node, key, before)

    def commit(self) -> None:
        """Keep everything: what happened cannot be undone."""
        self._record.clear()
        self._gone.clear()
        if self.places is not None:
            self.places.commit()

    def charge(self, queue: QuotaNode, amounts: Amounts) -> None:
        """Use quota of a queue; what its reserve does not cover is used of its parent too."""
        for key, left in amounts.items():
            for node in queue.path:
                if left <= 0:
                    break
                used = node.usage.get(key, 0)
                self._record.append((node, key, used))
                _set_usage(node, key, used + left)
                reserved = node.cells[key].reserved
                if used < reserved:
                    left -= reserved - used

    def release(self, queue: QuotaNode, amounts: Amounts) -> None:
        """Give quota back; the parent gets back what it had given."""
        for key, left in amounts.items():
            for node in queue.path:
                if left <= 0:
                    break
                used = node.usage.get(key, 0)
                assert left <= used, f"{node.name} gives back {left} of {key} and uses only {used}"
                self._record.append((node, key, used))
                _set_usage(node, key, used - left)
                left = min(left, used - node.cells[key].reserved)

    def charge_places(self, uses: Iterable[Use]) -> None:
        """Hold places of nodes."""
        if self.places is not None:
            self.places.charge(uses)

    def release_places(self, uses: Iterable[Use]) -> None:
        """Give places of nodes back."""
        if self.places is not None:
            self.places.release(uses)

    def has_room(self, uses: Sequence[Use]) -> bool:
        """Whether places are all there and free."""
        return not uses or self.places is None or self.places.has_room(uses)

    def take_out(self, workload: str, queue: QuotaNode, amounts: Amounts, uses: Sequence[Use] = ()) -> None:
        """Act as if a workload had left: its quota is free and it can be no victim any more."""
        assert workload not in self._gone, f"{workload} left already"
        self._record.append(_Leaving(workload, was_gone=False))
        self._set_gone(workload, True)
        self.release(queue, amounts)
        self.release_places(uses)

    def put_back(self, workload: str, queue: QuotaNode, amounts: Amounts, uses: Sequence[Use] = ()) -> None:
        """Undo `take_out` of one workload without undoing what came after it."""
        assert workload in self._gone, f"{workload} had not left"
        self._record.append(_Leaving(workload, was_gone=True))
        self._set_gone(workload, False)
        self.charge(queue, amounts)
        self.charge_places(uses)

    def set_aside(self, workload: str) -> None:
        """Leave a workload alone for the rest of the try: what is recorded of it is not what it holds any more."""
        if workload not in self._gone:
            self._record.append(_Leaving(workload, was_gone=False))
            self._set_gone(workload, True)

    def is_gone(self, workload: str) -> bool:
        return workload in self._gone

    def gone(self) -> Iterable[str]:
        return self._gone

    def _set_gone(self, workload: str, is_gone: bool) -> None:
        if is_gone:
            self._gone[workload] = None
        else:
            self._gone.pop(workload, None)
