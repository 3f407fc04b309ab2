"""Nodes: what it costs to place pods of one card in clusters of eight-card nodes, alike pods in bulk and others singly.

`python -m bench.nodes [POLICY]` prints the figures. Engine only: the table, the columns and a policy.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence

from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import Demand, Placed, TableNode, demand
from muster.engine.policy import AnyPolicy, Hooks
from muster.model.resources import CPU, PODS
from muster.policies import bestfit, binpack, fgd, spread

CARDS = 8
GANG = 100
NODES, PODS_IN_ALL = 5_000, 50_000
GIB = 2**30
POLICIES: dict[str, AnyPolicy] = {one.POLICY.name: one.POLICY for one in (fgd, bestfit, binpack, spread)}


def cluster(nodes: int) -> NodeTable:
    """Equal nodes with eight cards each."""
    amounts = {CPU: 128_000, "memory": 1_024 * GIB, PODS: 110}
    return NodeTable(TableNode(name=f"node-{index}", amounts=amounts, cards=CARDS, model="a") for index in range(nodes))


def pod(kind: int = 0) -> Demand:
    """A pod of one card; kinds differ in how much cpu and memory it asks for."""
    return demand({CPU: 4_000 + kind % 8_000, "memory": 8 * GIB + kind, PODS: 1}, cards=1)


def alike_rate(policy: str, nodes: int = NODES, pods: int = PODS_IN_ALL) -> float:
    """Pods per CPU-second where the pods of a gang are alike; each gang is of another kind than the one before.

    When the cluster is full the oldest gangs leave, so that there is always one to place.
    """
    table = cluster(nodes)
    placer = Placer(table, [_hooks(policy)])
    gc.collect()
    started = time.process_time()
    running: list[tuple[Demand, tuple[Placed, ...]]] = []
    for gang in range(pods // GANG):
        wanted = pod(gang)
        placed = placer.place_many(wanted, GANG)
        while placed is None:
            _leave(table, *running.pop(0))
            placed = placer.place_many(wanted, GANG)
        running.append((wanted, placed))
        table.commit()
    return pods / (time.process_time() - started)


def different_rate(policy: str, nodes: int = NODES, pods: int = PODS_IN_ALL) -> float:
    """Pods per CPU-second where every pod is of a kind not seen before; gangs are still all or nothing."""
    table = cluster(nodes)
    placer = Placer(table, [_hooks(policy)])
    gc.collect()
    started = time.process_time()
    running: list[tuple[list[Demand], tuple[Placed, ...]]] = []
    kind = 0
    while kind < pods:
        gang = [pod(kind + index) for index in range(GANG)]
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
        table.release(place.row, wanted, place.cards)


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
        print(f"{policy}: 16,000 nodes to 4,000, alike {nodes_ratio(policy):.2f} (at most 4)", flush=True)
        print(f"{policy}: 16,000 nodes to 4,000, different {different_nodes_ratio(policy):.2f} (at most 4)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
