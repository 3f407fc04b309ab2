"""Load shapes: queues, cohorts and workloads made by rule, so that every run is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from muster.model.flavor import Flavor
from muster.model.labels import EVERYTHING
from muster.model.podspec import PodShape
from muster.model.queue import PreemptionPolicy, PreemptionRules, Queue, Quota, ResourceGroup
from muster.model.snapshot import Snapshot
from muster.model.workload import PodSet, Workload

CPU_MILLI = 1000
NAMESPACE = "bench"


@dataclass(frozen=True)
class Class:
    """Workloads of one kind in each queue."""

    name: str
    count: int
    cpus: int
    run_s: float
    priority: int


# Per queue: many small, some medium, few large; the large ones go first.
MIXED = (
    Class("small", 35, 1, 0.15, 50),
    Class("medium", 11, 5, 0.35, 100),
    Class("large", 4, 20, 0.70, 200),
)


def queues(*, cohorts: int, per_cohort: int, nominal: int = 20, borrowable: int = 100) -> dict[str, Queue]:
    """Cohorts of equal queues that may borrow, take back anything, and preempt lower priorities."""
    result = {}
    for c in range(cohorts):
        cohort = f"cohort {c}"
        result[cohort] = Queue(name=cohort, title=str(c), is_leaf=False)
        for q in range(per_cohort):
            name = f"queue-{c}-{q}"
            result[name] = Queue(
                name=name,
                title=name,
                is_leaf=True,
                parent=cohort,
                quotas={("default", "cpu"): Quota(nominal=nominal * CPU_MILLI, borrowable=borrowable * CPU_MILLI)},
                groups=(ResourceGroup(("cpu",), ("default",)),),
                preemption=PreemptionRules(within_queue=PreemptionPolicy.LOWER_PRIORITY, reclaim=PreemptionPolicy.ANY),
                admits_namespaces=EVERYTHING,
            )
    return result


def workloads_of(queue: str, classes: tuple[Class, ...] = MIXED, *, times: int = 1) -> Iterator[tuple[Workload, float]]:
    """The workloads of one queue with their run times."""
    for kind in classes:
        shape = PodShape(requests={"cpu": kind.cpus * CPU_MILLI})
        pod_sets = (PodSet(name="main", count=1, count_least=1, requests=shape.requests, shape=shape),)
        for n in range(kind.count * times):
            key = f"{NAMESPACE}/{queue}-{kind.name}-{n}"
            yield (
                Workload(
                    key=key,
                    uid=key,
                    namespace=NAMESPACE,
                    submit_queue=f"{NAMESPACE}/{queue}",
                    queue=queue,
                    priority=kind.priority,
                    created_at=float(n),
                    queued_at=float(n),
                    pod_sets=pod_sets,
                    kind_key=kind.name,
                ),
                kind.run_s,
            )


def snapshot_of(all_queues: dict[str, Queue]) -> Snapshot:
    return Snapshot(
        queues=all_queues,
        flavors={"default": Flavor(name="default")},
        namespaces={NAMESPACE: {}},
    )
