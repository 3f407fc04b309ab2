"""What is asked of nodes and what is held of them, pod set by pod set. Light enough for those who place nothing.

`muster/engine/slots.py` answers and charges these; `muster/engine/placing.py` asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from muster.model.topology import PlacedPods, TopologyAssignment, TopologyRequest
from muster.model.workload import Slot

if TYPE_CHECKING:
    from muster.engine.node_table_rows import Demand

PODS_MOST = 100_000  # of one workload: each is placed and written down by itself


@dataclass(slots=True, kw_only=True)
class SlotAsk:
    """A pod set that looks for nodes: how many pods, of what demand, and where a topology has put them already.

    Nobody changes one (to freeze it takes long).
    """

    name: str
    demand: Demand
    count: int
    place: TopologyAssignment | None = None
    request: TopologyRequest | None = None  # how near to each other, where no topology decides it
    kept: tuple[Slot, ...] = ()  # pods that stay where they are

    def without(self, node: str) -> SlotAsk:
        """The ask of a pod set that lost a node: those who were there look for another."""
        return replace(self, kept=tuple(slot for slot in self.kept if slot.node != node))

    @property
    def is_lone(self) -> bool:
        """Whether it is one pod that may go anywhere."""
        return self.count == 1 and not self.kept and self.place is None and self.request is None

    @property
    def missing(self) -> int:
        """The pods that have no node yet."""
        return max(0, self.count - len(self.kept))


class SlotUse(NamedTuple):
    """What the pods of one pod set hold of nodes."""

    demand: Demand
    slots: tuple[Slot, ...]

    def by_node(self) -> Iterator[tuple[str, list[Slot]]]:
        """The slots node by node."""
        if len(self.slots) == 1:
            return iter(((self.slots[0].node, [self.slots[0]]),))
        groups: dict[str, list[Slot]] = {}
        for slot in self.slots:
            groups.setdefault(slot.node, []).append(slot)
        return iter(groups.items())


@dataclass(frozen=True, slots=True)
class SlotRefusal:
    """Pods found no nodes."""

    pod_set: str  # empty: all of them together
    text: str
    is_final: bool = False  # not even if nothing else ran
    short: tuple[PlacedPods, ...] = ()  # domains of a topology whose nodes take fewer pods than it says: so many


def too_many(asks: Sequence[SlotAsk]) -> SlotRefusal | None:
    """Why so many pods are not placed one by one at all."""
    count = sum([ask.count for ask in asks])
    if count <= PODS_MOST:
        return None
    return SlotRefusal(
        "", f"{count} pods are more than the {PODS_MOST} that one workload gets nodes for", is_final=True
    )
