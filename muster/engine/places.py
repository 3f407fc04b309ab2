"""Places: everything that workloads hold of nodes, in topologies and slot by slot, behind one undo record.

Owned by the engine's state, charged and released through the ledger. Topologies count how many pods are in which
domain; slots are single nodes with their cards. A workload may hold both, and a cluster may use one, both or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from muster.engine.slot_asks import SlotUse
from muster.engine.topology import PlacedUse, Topologies
from muster.model.topology import BoundPod, Node

if TYPE_CHECKING:
    from muster.engine.slots import NodeSlots, SlotMark

Use = PlacedUse | SlotUse
Mark = tuple[int, "SlotMark | None"]


class Places:
    """What is held of nodes."""

    def __init__(self, topologies: Topologies | None = None, slots: NodeSlots | None = None) -> None:
        self.topologies = topologies
        self.slots = slots

    @property
    def is_any(self) -> bool:
        """Whether nodes matter at all; where not, nobody pays for them."""
        return self.topologies is not None or self.slots is not None

    def without_slots(self) -> Places:
        """The same for those whose single pods somebody places later."""
        return Places(self.topologies)

    # Changes that come from outside ----------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Learn of a node, new or changed."""
        if self.topologies is not None:
            self.topologies.put_node(node)
        if self.slots is not None:
            self.slots.put_node(node)

    def drop_node(self, name: str) -> None:
        """Learn that a node is gone."""
        if self.topologies is not None:
            self.topologies.drop_node(name)
        if self.slots is not None:
            self.slots.drop_node(name)

    def put_pod(self, pod: BoundPod) -> None:
        """Learn of a pod that holds a part of a node and that no admission accounts for."""
        if self.topologies is not None:
            self.topologies.put_pod(pod)
        if self.slots is not None:
            self.slots.put_pod(pod)

    def drop_pod(self, key: str) -> None:
        """Learn that such a pod is gone."""
        if self.topologies is not None:
            self.topologies.drop_pod(key)
        if self.slots is not None:
            self.slots.drop_pod(key)

    # What workloads hold ---------------------------------------------------------------------------------------------

    def checkpoint(self) -> Mark:
        """A mark that `rollback` returns to."""
        topologies = self.topologies.checkpoint() if self.topologies is not None else 0
        return topologies, self.slots.checkpoint() if self.slots is not None else None

    def rollback(self, mark: Mark) -> None:
        """Undo every charge and release since the mark."""
        if self.topologies is not None:
            self.topologies.rollback(mark[0])
        if self.slots is not None and mark[1] is not None:
            self.slots.rollback(mark[1])

    def commit(self) -> None:
        """Keep everything: what happened cannot be undone."""
        if self.topologies is not None:
            self.topologies.commit()
        if self.slots is not None:
            self.slots.commit()

    def charge(self, uses: Iterable[Use]) -> None:
        """Hold places; one that leaves others no room waits for those who were told to leave it."""
        of_domains, of_slots = _parts(uses)
        if self.slots is not None and of_slots:
            self.slots.charge(of_slots)
        if self.topologies is not None:
            for use in of_domains:
                self.topologies.charge(use)

    def release(self, uses: Iterable[Use]) -> None:
        """Give places back."""
        of_domains, of_slots = _parts(uses)
        if self.slots is not None and of_slots:
            self.slots.release(of_slots)
        if self.topologies is not None:
            for use in of_domains:
                self.topologies.release(use)

    def has_room(self, uses: Iterable[Use]) -> bool:
        """Whether the places are all there and free, at once."""
        of_domains, of_slots = _parts(uses)
        if of_domains and self.topologies is not None and not self.topologies.has_room(of_domains):
            return False
        return not of_slots or self.slots is None or self.slots.has_room(of_slots)


def _parts(uses: Iterable[Use]) -> tuple[list[PlacedUse], list[SlotUse]]:
    """What is held in topologies, and slot by slot."""
    of_domains: list[PlacedUse] = []
    of_slots: list[SlotUse] = []
    for use in uses:
        if isinstance(use, SlotUse):
            of_slots.append(use)
        else:
            of_domains.append(use)
    return of_domains, of_slots
