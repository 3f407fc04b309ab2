"""Nodes: what it costs to place pods of one card in clusters of eight-card nodes, alike pods in bulk and others singly.

`python -m bench.nodes [POLICY]` prints the figures, for whole cards and for slices of memory on cards that are known
one by one. Engine only: the table, the columns and a policy.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster.engine.devices_pod import PodCards
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import Demand, Placed, TableNode, demand, slice_demand
from muster.engine.policy import AnyPolicy, Hooks
from muster.engine.slices_ask import CardAsk
from muster.model.device import Device, DeviceRequest
from muster.model.resources import CPU, PODS
from muster.policies import bestfit, binpack, fgd, spread
from muster.vendors.nvidia import VENDOR

CARDS = 8
GANG = 100
NODES, PODS_IN_ALL = 5_000, 50_000
GIB = 2**30
AMOUNTS = {CPU: 128_000, "memory": 1_024 * GIB, PODS: 110}
CARD_MIB = 81_920
POLICIES: dict[str, AnyPolicy] = {one.POLICY.name: one.POLICY for one in (fgd, bestfit, binpack, spread)}


@dataclass(frozen=True)
class Shape:
    """Which nodes there are and which pods come; kinds of pods differ in how much they ask for."""

    node: Callable[[int], TableNode]
    pod: Callable[[int], Demand]

    def cluster(self, nodes: int) -> NodeTable:
        return NodeTable(self.node(index) for index in range(nodes))


def counted_node(index: int) -> TableNode:
    """A node of which the number of cards is known."""
    return TableNode(name=f"node-{index}", amounts=AMOUNTS, cards=CARDS, model="a")


def pod(kind: int = 0) -> Demand:
    """A pod of one card."""
    return demand({CPU: 4_000 + kind % 8_000, "memory": 8 * GIB + kind, PODS: 1}, cards=1)


def registered_node(index: int) -> TableNode:
    """A node that registers its cards."""
    devices = (
        Device(
            uuid=f"{index}-{card}",
            index=card,
            vendor=VENDOR.name,
            model=f"{VENDOR.name} a",
            memory_mib=CARD_MIB,
            slots=10,
        )
        for card in range(CARDS)
    )
    return TableNode(name=f"node-{index}", amounts=AMOUNTS, model="a", devices=tuple(devices))


def slice_pod(kind: int = 0) -> Demand:
    """A pod of some memory of one card, between a twentieth and a third of it."""
    request = DeviceRequest(vendor=VENDOR.name, count=1, memory_mib=4_000 + kind % 20_000)
    ask = CardAsk(PodCards(requests=({VENDOR.name: request},), vendors={VENDOR.name: VENDOR}))
    amounts = {CPU: 1_000 + kind % 1_000, "memory": GIB + kind, PODS: 1}
    return slice_demand(amounts, ask, card_memory_mib=CARD_MIB)


WHOLE_CARDS, SLICES = Shape(counted_node, pod), Shape(registered_node, slice_pod)


def cluster(nodes: int) -> NodeTable:
    """Equal nodes with eight cards each."""
    return WHOLE_CARDS.cluster(nodes)


def alike_rate(policy: str, nodes: int = NODES, pods: int = PODS_IN_ALL, *, shape: Shape = WHOLE_CARDS) -> float:
    """Pods per CPU-second where the pods of a gang are alike; each gang is of another kind than the one before.

    When the cluster is full the oldest gangs leave, so that there is always one to place.
    """
    table = shape.cluster(nodes)
    placer = Placer(table, [_hooks(policy)])
    gc.collect()
    started = time.process_time()
    running: list[tuple[Demand, tuple[Placed, ...]]] = []
    for gang in range(pods // GANG):
        wanted = shape.pod(gang)
        placed = placer.place_many(wanted, GANG)
        while placed is None:
            _leave(table, *running.pop(0))
            placed = placer.place_many(wanted, GANG)
        running.append((wanted, placed))
        table.commit()
    return pods / (time.process_time() - started)


def different_rate(policy: str, nodes: int = NODES, pods: int = PODS_IN_ALL, *, shape: Shape = WHOLE_CARDS) -> float:
    """Pods per CPU-second where every pod is of a kind not seen before; gangs are still all or nothing."""
    table = shape.cluster(nodes)
    placer = Placer(table, [_hooks(policy)])
    gc.collect()
    started = time.process_time()
    running: list[tuple[list[Demand], tuple[Placed, ...]]] = []
    kind = 0
    while kind < pods:
        gang = [shape.pod(kind + index) for index in range(GANG)]
        placed = placer.place_all(gang)
        if placed is None:
            for wanted, place in zip(*running.pop(0), strict=True):
                _leave(table, wanted, [place])
            continue
        running.append((gang, placed))
        table.commit()
        kind += GANG
    return pods / (time.process_time() - started)


def nodes_ratio(policy: str) -> float:
    """The cost of a pod in 16,000 nodes to that in 4,000, alike pods in gangs."""
    small = max(alike_rate(policy, 4_000, 20_000) for _ in range(3))
    large = max(alike_rate(policy, 16_000, 20_000) for _ in range(3))
    return small / large


def different_nodes_ratio(policy: str) -> float:
    """The same where every pod is of a kind not seen before."""
    small = max(different_rate(policy, 4_000, 2_000) for _ in range(3))
    large = max(different_rate(policy, 16_000, 2_000) for _ in range(3))
    return small / large


def _leave(table: NodeTable, wanted: Demand, placed: Sequence[Placed]) -> None:
    for place in placed:
        table.release(place.row, wanted, place.held)


def _hooks(policy: str) -> Hooks:
    return POLICIES[policy].hooks()


def main(words: list[str]) -> int:
    for policy in words or list(POLICIES):
        if policy not in POLICIES:
            print(f"there is no policy {policy!r}; known are {', '.join(POLICIES)}", file=sys.stderr)
            return 2
        print(f"{policy}: alike {alike_rate(policy):,.0f} pods per CPU-second (at least 20,000)", flush=True)
        print(
            f"{policy}: all different {different_rate(policy, pods=20_000):,.0f} pods per CPU-second (at least 3,000)",
            flush=True,
        )
        alike, different = (rate(policy, pods=10_000, shape=SLICES) for rate in (alike_rate, different_rate))
        print(f"{policy}: slices, alike {alike:,.0f} pods per CPU-second", flush=True)
        print(f"{policy}: slices, all different {different:,.0f} pods per CPU-second (at least 3,000)", flush=True)
        print(f"{policy}: 16,000 nodes to 4,000, alike {nodes_ratio(policy):.2f} (at most 4)", flush=True)
        print(f"{policy}: 16,000 nodes to 4,000, different {different_nodes_ratio(policy):.2f} (at most 4)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
