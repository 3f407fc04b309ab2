"""Preemption: what it costs to find five hundred victims in a full cluster, and to screen domains for a gang.

`python -m bench.preemption` prints the figures. Engine only: the table, the placer and the search.
"""

from __future__ import annotations

import gc
import sys
import time
from random import Random

from muster.engine.gang_domains import Domains, DomainWish
from muster.engine.gangs import Gang, GangPlaced, GangRefused, Member, Task, place_gang
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import Placed, TableNode, demand
from muster.engine.pod_victims import VictimRules, Victims, find_victims
from muster.engine.running_pods import RunningPods
from muster.model.resources import CPU, PODS
from muster.policies import binpack

CARDS = 8
POD = demand({CPU: 4_000, PODS: 1}, cards=1)
NODES = 5_000
GANG = 500
HIGH = 100
GANG_SIZES = (1, 1, 8, 100)  # of the pods that fill the cluster: every other one is by itself


def cluster(nodes: int) -> NodeTable:
    """Equal nodes with eight cards each."""
    amounts = {CPU: 128_000, PODS: 110}
    return NodeTable(TableNode(name=f"node-{index}", amounts=amounts, cards=CARDS) for index in range(nodes))


def full_cluster(nodes: int = NODES, seed: int = 1) -> tuple[Placer, RunningPods]:
    """A cluster whose every card is held by a pod of lower priority, some of them in gangs, at random."""
    chance = Random(seed)
    table = cluster(nodes)
    placer = Placer(table, [binpack.POLICY.hooks()])
    places = [Placed(row, (card,)) for row in range(nodes) for card in range(CARDS)]
    chance.shuffle(places)
    running = RunningPods()
    count = 0
    while places:
        size = min(chance.choice(GANG_SIZES), len(places))
        key = f"gang-{count}" if size > 1 else ""
        least = chance.choice((size, size - size // 8))  # some can spare an eighth
        if key:
            running.learn(gang_of(key, size, least))
        priority, started_at = chance.randrange(5), float(chance.randrange(10_000))
        for number in range(size):
            place = places.pop()
            table.charge(place.row, POD, place.cards)
            running.put(
                Member(
                    pod=f"team/pod-{count}-{number}",
                    gang=key,
                    task="worker",
                    demand=POD,
                    place=place,
                    priority=priority,
                    started_at=started_at,
                )
            )
        count += 1
    table.commit()
    return placer, running


def gang_of(key: str, count: int, count_least: int, *, wish: DomainWish | None = None, priority: int = 0) -> Gang:
    """A gang of one-card pods."""
    task = Task(name="worker", demand=POD, count=count, count_least=count_least)
    return Gang(
        key=key, tasks=(task,), count_least=count_least, priority=priority, domains=wish if wish else DomainWish()
    )


def victims_s(nodes: int = NODES, count: int = GANG) -> float:
    """CPU seconds until the victims for a gang are found, all pods of which are as old as the cluster."""
    placer, running = full_cluster(nodes)
    gc.collect()
    started = time.process_time()
    found = find_victims(placer, gang_of("high", count, count), running, VictimRules(priority_below=HIGH))
    spent = time.process_time() - started
    assert isinstance(found, Victims), f"there are enough to go: {found}"
    assert found.placed.count == count, "the gang has its places"
    return spent


def domains_s(domain_count: int = 640, nodes: int = 16_000, *, count: int = 100) -> float:
    """CPU seconds to place a gang in the tightest of many racks once its kind of pod is known."""
    table = cluster(nodes)
    placer = Placer(table, [binpack.POLICY.hooks()])
    domains = Domains(("rack",))
    for row in range(nodes):
        domains.put(row, {"rack": f"rack-{row % domain_count}"})
    gang = gang_of("near", count, count, wish=DomainWish(required="rack"))
    spent = []
    for _ in range(5):
        started = time.process_time()
        placed = place_gang(placer, gang, domains=domains)
        spent.append(time.process_time() - started)
        assert isinstance(placed, GangPlaced), f"a rack has {nodes // domain_count * CARDS} cards"
        table.commit()
    return min(spent)


def hopeless_s(nodes: int = NODES) -> float:
    """CPU seconds to refuse a gang that is larger than any cluster."""
    placer = Placer(cluster(nodes), [binpack.POLICY.hooks()])
    gang = gang_of("absurd", 10**9, 10**9)
    started = time.process_time()
    refused = place_gang(placer, gang)
    spent = time.process_time() - started
    assert isinstance(refused, GangRefused), "no cluster is that large"
    return spent


def main() -> int:
    print(f"victims: {min(victims_s() for _ in range(3)):.3f} CPU-s for {GANG} on {NODES} full nodes (at most 1)")
    print(f"domains: {domains_s() * 1e3:.2f} CPU-ms for 100 pods in one of 640 racks of 16,000 nodes (at most 10)")
    print(f"hopeless: {hopeless_s() * 1e3:.2f} CPU-ms to refuse a thousand million pods (at most 10)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
