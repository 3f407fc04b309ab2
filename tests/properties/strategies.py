"""Random quota trees, workloads and contention states, small enough to be understood when one of them fails.

Every generator takes its chance as an argument. Hypothesis hands in one that it can shrink, a long proof hands in
`Random(seed)`: both make the same kinds of states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from muster.engine.state import EngineState
from muster.model.queue import FlavorRules, Order, PreemptionRules, Queue, Quota
from muster.model.resources import UNLIMITED, FlavorResource
from muster.model.settings import FairSharing, PreemptionGuards, Settings
from muster.model.snapshot import Snapshot
from muster.model.workload import Workload
from tests.engine.builders import (
    ANY,
    CPU,
    GPU,
    LOWER,
    NEVER,
    NEWER,
    NOW,
    cohort,
    pod_set,
    queue,
    running,
    snapshot_of,
    workload,
)
from tests.properties.oracle import QuotaOracle, used_by

chances = st.randoms(use_true_random=False)  # a shrinkable source of chance for the generators below

FLAVORS = ("red", "green", "blue")
RESOURCES = (GPU, CPU)
WEIGHTS = (0.0, 0.5, 1.0, 1.0, 2.0, 1e7)


def maybe(chance: Random, *, one_in: int) -> bool:
    return chance.randrange(one_in) == 0


# Trees -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ground:
    """What a tree is made of: its flavors and resources."""

    flavors: tuple[str, ...]
    resources: tuple[str, ...]

    @property
    def keys(self) -> list[FlavorResource]:
        return [(flavor, resource) for flavor in self.flavors for resource in self.resources]


def ground(chance: Random) -> Ground:
    """Mostly one or two flavors of one resource."""
    return Ground(FLAVORS[: chance.choice((1, 1, 2, 2, 3))], RESOURCES[: chance.choice((1, 1, 1, 2))])


def ground_of(snapshot: Snapshot) -> Ground:
    """What the tree of a snapshot is made of."""
    keys = sorted({key for queue in snapshot.queues.values() for key in queue.quotas})
    return Ground(tuple({flavor: None for flavor, _ in keys}), tuple({resource: None for _, resource in keys}))


def a_quota(chance: Random, most: int = 6) -> Quota:
    """A quota with or without limits on borrowing and lending."""
    nominal = chance.randint(0, most)
    borrowable = chance.randint(0, most) if maybe(chance, one_in=3) else UNLIMITED
    lendable = chance.randint(0, nominal) if maybe(chance, one_in=3) else UNLIMITED
    return Quota(nominal, borrowable, lendable)


def some_cohorts(chance: Random, on: Ground, *, least: int = 0, most: int = 3) -> list[Queue]:
    """A chain, a fan or a forest of cohorts, some with quota of their own."""
    found: list[Queue] = []
    for index in range(chance.randint(least, most)):
        above = [None, *(one.name for one in found for _ in range(2))]  # rather a tree than a forest
        quotas = {key: a_quota(chance, 4) for key in on.keys if maybe(chance, one_in=3)}
        weight = chance.choice(WEIGHTS)
        found.append(replace(cohort(f"cohort-{index}", parent=chance.choice(above), weight=weight), quotas=quotas))
    return found


def some_queues(chance: Random, on: Ground, cohorts: Sequence[Queue], *, most: int = 6) -> list[Queue]:
    """Leaves with random rules, most of them in a cohort."""
    return [a_queue(chance, f"queue-{index}", on, cohorts) for index in range(chance.randint(2, most))]


def a_queue(chance: Random, name: str, on: Ground, cohorts: Sequence[Queue]) -> Queue:
    parent = chance.choice(cohorts).name if cohorts and not maybe(chance, one_in=8) else None
    flavors = chance.sample(on.flavors, chance.randint(1, len(on.flavors)))
    quotas = {flavor: {resource: a_quota(chance) for resource in on.resources} for flavor in flavors}
    return queue(
        name,
        cohort=parent,
        flavors=quotas,
        order=chance.choice((Order.STRICT_FIFO, Order.BEST_EFFORT_FIFO, Order.BEST_EFFORT_FIFO)),
        flavor_rules=FlavorRules(
            next_instead_of_borrowing=maybe(chance, one_in=2),
            next_instead_of_preempting=maybe(chance, one_in=2),
            prefers_preempting=maybe(chance, one_in=3),
        ),
        preemption=some_preemption(chance),
        weight=chance.choice(WEIGHTS),
    )


def some_preemption(chance: Random) -> PreemptionRules:
    """Any combination of rules that an admission check lets pass, most of them quarrelsome."""
    within = chance.choice((NEVER, LOWER, NEWER, NEWER))
    reclaim = chance.choice((NEVER, LOWER, ANY, ANY))
    may_borrow = reclaim is not NEVER and maybe(chance, one_in=2)
    threshold = chance.randint(0, 3) if may_borrow and maybe(chance, one_in=2) else None
    return PreemptionRules(within_queue=within, reclaim=reclaim, may_borrow=may_borrow, borrow_priority_most=threshold)


# Workloads -------------------------------------------------------------------------------------------------------


def a_workload(chance: Random, name: str, queues: Sequence[Queue], on: Ground) -> Workload:
    """A workload for one of the queues; a few may start smaller than they ask for."""
    count = chance.choice((1, 1, 1, 2, 3))
    least = chance.randint(1, count) if maybe(chance, one_in=4) else count
    requests = {resource: chance.randint(1, 4) for resource in on.resources}
    made = workload(
        name,
        queue=chance.choice(queues).name,
        priority=chance.randint(0, 3),
        queued_at=float(chance.randint(0, 9)),
        pod_sets=(pod_set(count=count, least=least, requests=requests),),
    )
    return of_its_kind(made)


def of_its_kind(workload: Workload) -> Workload:
    """The workload with the key of its kind: equal for those that ask for the same."""
    sets = [
        (pods.name, pods.count, pods.count_least, pods.finished_pods, sorted(pods.requests.items()))
        for pods in workload.pod_sets
    ]
    return replace(workload, kind_key=f"{sets} {workload.priority}")


def started(chance: Random, waiting: Workload, queues: Sequence[Queue]) -> Workload:
    """The same workload holding quota in some flavor of its queue."""
    home = next(one for one in queues if one.name == waiting.queue)
    flavor = chance.choice(home.groups[0].flavors)
    held = running(
        "any", queue=waiting.queue, flavor=flavor, pod_sets=waiting.pod_sets, reserved_at=float(chance.randint(10, 19))
    )
    return replace(waiting, admission=held.admission, is_admitted=True, is_ready=True, reserved_at=held.reserved_at)


# Contention ------------------------------------------------------------------------------------------------------


def a_contention(chance: Random, *, is_fair: bool | None = None) -> Snapshot:
    """A state in which more is asked for than there is: two to six queues, four to fourteen workloads."""
    on = ground(chance)
    cohorts = some_cohorts(chance, on, least=0 if maybe(chance, one_in=8) else 1)
    queues = some_queues(chance, on, cohorts)
    fair = maybe(chance, one_in=4) if is_fair is None else is_fair
    workloads: list[Workload] = []
    is_cut = maybe(chance, one_in=10)  # somebody has lowered quotas under running workloads
    for index in range(chance.randint(4, 14)):
        one = a_workload(chance, f"w{index:02}", queues, on)
        if index % 2 == 0:
            holding = started(chance, one, queues)
            if is_cut or _has_room([*queues, *cohorts], workloads, holding):
                one = holding
        workloads.append(one)
    return snapshot_of(*queues, *cohorts, *workloads, settings=some_settings(chance, is_fair=fair), now=NOW)


def _has_room(queues: Sequence[Queue], workloads: Sequence[Workload], holding: Workload) -> bool:
    assert holding.admission is not None
    oracle = QuotaOracle(queues, used_by(workloads, {one.name: one for one in queues}))
    leaf = holding.admission.queue
    return all(amount <= oracle.available(leaf, key) for key, amount in holding.admission.usage().items())


def some_settings(chance: Random, *, is_fair: bool) -> Settings:
    """The defaults, with one or the other switch turned now and then."""
    fair = None
    if is_fair:
        strategies = chance.choice(
            (
                ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
                ("LessThanOrEqualToFinalShare",),
                ("LessThanInitialShare",),
            )
        )
        fair = FairSharing(
            strategies=strategies,
            spares_nominal_comparison=not maybe(chance, one_in=3),
            favours_non_borrowing=not maybe(chance, one_in=3),
        )
    return Settings(
        fair_sharing=fair,
        partial_admission=not maybe(chance, one_in=8),
        searches_flavors=not maybe(chance, one_in=8),
        keeps_scan_progress=not maybe(chance, one_in=4),
        orders_by_priority=not maybe(chance, one_in=8),
        preemptors_first=maybe(chance, one_in=4),
        recomputes_overlap=not maybe(chance, one_in=4),
        parks_alike=not maybe(chance, one_in=4),
        guards=PreemptionGuards(),
    )


def contention_state(seed: int) -> EngineState:
    """The contention state of a number."""
    return EngineState(a_contention(Random(seed)))
