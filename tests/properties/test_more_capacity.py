"""More capacity never admits less, where the rules promise it: here are the classes for which they do, and why.

Nobody may preempt, workloads start whole, there is one flavor and no topology; everybody is there from the start and
nobody leaves. Cycles run until nothing changes. Then with more quota, all else being equal:

- One strict queue, any sizes, any resources: everybody who was admitted still is. A strict line admits those ahead of
  the first that does not fit, and that one comes no sooner with more.
- One best-effort queue, any sizes, one resource: the amount admitted is no less. The two runs first part at a
  workload that fits only with more; with it alone the amount is above all that there was before. The number is not
  promised: that workload may be as large as all the others together.
- Any tree of queues with any limits, workloads of one size of which all quotas are multiples: the number admitted is
  no less, whichever nominal quota, borrowing or lending limit is raised. Such a tree is a network of pipes, and
  whoever fills it as long as anything fits, in whatever order, gets the same number through. Best-effort lines, so
  that nobody who waits in vain keeps quota from others cycle after cycle; in a flat cohort strict lines as well.

Outside of these it is not promised. `NOT_PROMISED` has a small example for each reason: more capacity lets somebody
in, or lets it in elsewhere, who then is in the way of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from muster.engine.invariants import violations
from muster.engine.state import EngineState
from muster.model.flavor import Flavor
from muster.model.queue import Order, Queue, Quota
from muster.model.resources import UNLIMITED, FlavorResource
from muster.model.settings import Settings
from muster.model.topology import HOSTNAME, Node, TopologyRequest
from muster.model.workload import Workload
from tests.engine.builders import (
    CPU,
    FLAVOR,
    GPU,
    GPUS,
    LOWER,
    Part,
    cohort,
    name_of,
    pod_set,
    preempts,
    queue,
    run_until_quiet,
    state_of,
    workload,
)
from tests.engine.fair_builders import FAIR
from tests.properties.oracle import QuotaOracle
from tests.properties.strategies import chances, maybe
from tests.support import proof_count

BLOCKS = 10
RUNS = 10_000
STRICT, BEST_EFFORT = Order.STRICT_FIFO, Order.BEST_EFFORT_FIFO


def outcome(*parts: Part, settings: Settings | None = None) -> EngineState:
    """What it comes to when all cycles are over."""
    state = state_of(*parts, settings=settings)
    run_until_quiet(state)
    assert not list(violations(state))
    return state


def admitted(state: EngineState) -> set[str]:
    return {name_of(held.workload.key) for held in state.holders.all()}


def amount(state: EngineState) -> int:
    return sum(sum(held.usage.values()) for held in state.holders.all())


# One queue -------------------------------------------------------------------------------------------------------


def in_line(chance: Random, resources: Sequence[str]) -> list[Workload]:
    """Workloads of any size in any order; a few are alike."""
    found = []
    for number in range(chance.randint(1, 8)):
        requests = {resource: chance.randint(0, 5) for resource in resources}
        count, priority = chance.choice((1, 1, 2)), chance.randrange(3)
        one = workload(
            f"w{number}",
            pod_sets=(pod_set(count=count, requests=requests),),
            priority=priority,
            queued_at=float(chance.randrange(5)),
            kind_key=f"{count} {requests} {priority}",
        )
        found.append(one)
    return found


def check_strict(chance: Random) -> None:
    """Everybody who was admitted still is."""
    resources = (GPU, CPU)[: chance.choice((1, 2))]
    workloads = in_line(chance, resources)
    less = {resource: chance.randrange(16) for resource in resources}
    more = {resource: amount + chance.randrange(5) for resource, amount in less.items()}
    before, after = (
        outcome(queue("team-a", flavors={FLAVOR: quotas}, order=STRICT), *workloads) for quotas in (less, more)
    )
    assert admitted(before) <= admitted(after)


def check_best_effort(chance: Random) -> None:
    """The amount is no less."""
    workloads, less = in_line(chance, (GPU,)), chance.randrange(16)
    more = less + chance.randint(1, 5)
    before, after = (outcome(queue("team-a", gpus=gpus, order=BEST_EFFORT), *workloads) for gpus in (less, more))
    assert amount(before) <= amount(after)


# Trees -----------------------------------------------------------------------------------------------------------


def a_tree(chance: Random, size: int) -> tuple[list[Queue], list[Queue]]:
    """Cohorts and queues whose quotas and limits are all multiples of one size."""
    orders = (STRICT, BEST_EFFORT) if (is_flat := maybe(chance, one_in=3)) else (BEST_EFFORT,)
    cohorts = [cohort("top", gpus=multiples(chance, size))]
    for number in range(0 if is_flat else chance.randint(1, 3)):
        cohorts.append(cohort(f"c{number}", parent=chance.choice(cohorts).name, gpus=multiples(chance, size)))
    queues = [
        queue(
            f"q{number}",
            cohort=chance.choice(cohorts).name,
            gpus=multiples(chance, size),
            order=chance.choice(orders),
        )
        for number in range(chance.randint(2, 4))
    ]
    return cohorts, queues


def multiples(chance: Random, size: int) -> Quota:
    limits = (UNLIMITED, UNLIMITED, 0, size, 2 * size)
    return Quota(chance.randint(0, 4) * size, chance.choice(limits), chance.choice(limits))


def raised(chance: Random, one: Queue, size: int) -> Queue:
    """The same node with one of its numbers larger."""
    known, more = one.quotas[GPUS], size * chance.randint(1, 3)
    name = chance.choice(("nominal", "nominal", "borrowable", "lendable"))
    return replace(one, quotas={GPUS: replace(known, **{name: min(UNLIMITED, getattr(known, name) + more)})})


def most(chance: Random, nodes: Sequence[Queue], workloads: Sequence[Workload]) -> int:
    """How many get through when they are let in one by one in any order."""
    used: dict[str, dict[FlavorResource, int]] = {one.name: {} for one in nodes}
    count = 0
    for one in chance.sample(workloads, len(workloads)):
        size = one.pod_sets[0].requests[GPU]
        if size <= QuotaOracle(nodes, used).available(one.queue, GPUS):
            used[one.queue][GPUS] = used[one.queue].get(GPUS, 0) + size
            count += 1
    return count


def check_tree(chance: Random) -> None:
    """The number is no less, and it is the same in whatever order they come."""
    size = chance.choice((1, 1, 2, 3))
    cohorts, queues = a_tree(chance, size)
    nodes = [*cohorts, *queues]
    shares = FAIR if maybe(chance, one_in=3) else None
    workloads = [
        workload(
            f"w{number:02}",
            gpus=size,
            queue=chance.choice(queues).name,
            priority=chance.randrange(3),
            queued_at=float(chance.randrange(5)),
        )
        for number in range(chance.randint(3, 12))
    ]
    if maybe(chance, one_in=2):  # some were there first
        begun = outcome(*nodes, *workloads[: len(workloads) // 2], settings=shares)
        workloads = [begun.workloads.get(one.key, one) for one in workloads]
    before = outcome(*nodes, *workloads, settings=shares)
    index = chance.randrange(len(nodes))
    nodes[index] = raised(chance, nodes[index], size)
    after = outcome(*nodes, *workloads, settings=shares)
    assert len(admitted(before)) <= len(admitted(after))
    assert len(admitted(after)) == most(chance, nodes, workloads)


# Proofs ----------------------------------------------------------------------------------------------------------

CLASSES = {"a strict queue": check_strict, "a best-effort queue": check_best_effort, "a tree of one size": check_tree}


@pytest.mark.parametrize("name", CLASSES)
@given(chance=chances)
@settings(max_examples=50)
def test_more_capacity_never_admits_less(name, chance):
    CLASSES[name](chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("name", CLASSES)
def test_more_capacity_never_admits_less_in_many_runs(name, block):
    for number in range(block, proof_count(RUNS), BLOCKS):
        try:
            CLASSES[name](Random(number))
        except AssertionError as problem:
            raise AssertionError(f"{CLASSES[name].__name__}(Random({number}))") from problem


# Where it is not promised ----------------------------------------------------------------------------------------


def line(*sizes: int) -> list[Workload]:
    return [workload(f"w{number}", gpus=size, queued_at=number) for number, size in enumerate(sizes)]


def of(name: str, gpus: int = 0, cpu: int = 0, **fields: int) -> Workload:
    return workload(name, pod_sets=(pod_set(requests={GPU: gpus, CPU: cpu}),), **fields)


def host(rack: str, name: str, gpus: int) -> Node:
    return Node(name=name, labels={"rack": rack, HOSTNAME: name}, allocatable={GPU: gpus, "pods": 9})


def near(name: str, count: int, request: TopologyRequest, **fields: int) -> Workload:
    return workload(name, pod_sets=(pod_set(count=count, topology=request),), **fields)


RACKS = [
    Flavor(name=FLAVOR, topology="racks", topology_levels=("rack", HOSTNAME)),
    queue("team-a", gpus=9),
    host("r1", "a", 2),
    host("r1", "b", 1),
    host("r2", "c", 3),
    near("w0", 3, TopologyRequest(preferred="rack")),
    near("w1", 3, TopologyRequest(required=HOSTNAME), queued_at=1),
]
PREEMPTING = preempts(within=LOWER)

# What there is anyway, what is less, what is more, and who is admitted with either.
NOT_PROMISED = {
    "a best-effort line lets small ones pass a large one only while that one does not fit": (
        line(4, 1, 1, 1),
        [queue("team-a", gpus=3)],
        [queue("team-a", gpus=4)],
        ({"w1", "w2", "w3"}, {"w0"}),
    ),
    "two resources: more cards let in one that takes all the cpu": (
        [of("w0", gpus=1, cpu=2), of("w1", cpu=1, queued_at=1), of("w2", cpu=1, queued_at=2)],
        [queue("team-a", flavors={FLAVOR: {GPU: 0, CPU: 2}})],
        [queue("team-a", flavors={FLAVOR: {GPU: 1, CPU: 2}})],
        ({"w1", "w2"}, {"w0"}),
    ),
    "two flavors: the others no longer fill both": (
        line(5, 1, 3, 3),
        [queue("team-a", flavors={"red": 4, "green": 3})],
        [queue("team-a", flavors={"red": 5, "green": 3})],
        ({"w1", "w2", "w3"}, {"w0", "w1"}),
    ),
    "two queues and two sizes: the head of the one that was raised goes first": (
        [
            cohort("x"),
            queue("team-b", cohort="x", gpus=2),
            workload("w0", gpus=3, queue="team-a"),
            workload("w1", gpus=4, queue="team-b", priority=1),
        ],
        [queue("team-a", cohort="x", gpus=2)],
        [queue("team-a", cohort="x", gpus=3)],
        ({"w1"}, {"w0"}),
    ),
    "preemption: now it is worth it": (
        [*line(1, 1, 1), workload("high", gpus=4, priority=1)],
        [queue("team-a", gpus=3, preemption=PREEMPTING)],
        [queue("team-a", gpus=4, preemption=PREEMPTING)],
        ({"w0", "w1", "w2"}, {"high"}),
    ),
    "workloads that may start smaller take what is there": (
        [workload("w0", pods=9, least=4), workload("w1", queued_at=1), workload("w2", queued_at=2)],
        [queue("team-a", gpus=3)],
        [queue("team-a", gpus=4)],
        ({"w1", "w2"}, {"w0"}),
    ),
    "topology: a rack that has grown is not the tightest any more": (
        RACKS,
        [],
        [host("r1", "d", 1)],
        ({"w0", "w1"}, {"w0"}),
    ),
}


@pytest.mark.parametrize("reason", NOT_PROMISED)
def test_more_capacity_may_admit_less(reason):
    always, less, more, want = NOT_PROMISED[reason]
    assert (admitted(outcome(*always, *less)), admitted(outcome(*always, *more))) == want
