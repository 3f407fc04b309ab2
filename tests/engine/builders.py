"""Builders with good defaults, so that a row of a table shows only what matters. Used by the tests of the engine.

Queues count cards in the one flavor `default` unless they say otherwise; a cohort that is only named comes into
being by itself, and so does a flavor. Results are read by a workload's plain name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from muster.engine.decide import decide
from muster.engine.state import EngineState
from muster.engine.tree import QuotaNode
from muster.model.flavor import Flavor
from muster.model.labels import EVERYTHING
from muster.model.plan import Evict, Plan
from muster.model.podspec import PodShape
from muster.model.queue import (
    FlavorRules,
    PreemptionPolicy,
    PreemptionRules,
    Queue,
    Quota,
    ResourceGroup,
    SubmitQueue,
)
from muster.model.reason import Code
from muster.model.resources import UNLIMITED, FlavorResource
from muster.model.settings import PreemptionGuards, Settings
from muster.model.snapshot import Snapshot
from muster.model.topology import BoundPod, Node
from muster.model.workload import Admission, PodSet, PodSetAdmission, Workload

GPU = "nvidia.com/gpu"
CPU = "cpu"
FLAVOR = "default"
GPUS: FlavorResource = (FLAVOR, GPU)
NAMESPACE = "default"
NOW = 1000.0

NEVER = PreemptionPolicy.NEVER
LOWER = PreemptionPolicy.LOWER_PRIORITY
NEWER = PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY
ANY = PreemptionPolicy.ANY

Declared = int | Quota  # of one resource
Flavored = Declared | Mapping[str, Declared]  # of one flavor: its cards, or each resource by name

# Queues ----------------------------------------------------------------------------------------------------------


def quota(nominal: int = 0, *, borrow: int = UNLIMITED, lend: int = UNLIMITED) -> Quota:
    """A quota; without limits it borrows and lends everything."""
    return Quota(nominal, borrow, lend)


def queue(
    name: str,
    *,
    cohort: str | None = None,
    gpus: Declared = 0,
    flavors: Mapping[str, Flavored] | None = None,
    **fields: Any,
) -> Queue:
    """A queue that workloads wait in, and that admits every namespace. `flavors` replaces `gpus`."""
    offered = flavors if flavors is not None else {FLAVOR: gpus}
    quotas = quotas_of(offered)
    resources = tuple(dict.fromkeys(resource for _, resource in quotas))
    defaults: dict[str, Any] = {
        "title": name,
        "is_leaf": True,
        "parent": cohort,
        "quotas": quotas,
        "groups": (ResourceGroup(resources, tuple(offered)),),
        "admits_namespaces": EVERYTHING,
    }
    return Queue(name=name, **(defaults | fields))


def cohort(
    name: str,
    *,
    parent: str | None = None,
    gpus: Declared | None = None,
    flavors: Mapping[str, Flavored] | None = None,
    **fields: Any,
) -> Queue:
    """An inner node of the tree, without quota of its own unless told."""
    quotas = quotas_of(flavors if flavors is not None else {FLAVOR: gpus} if gpus is not None else {})
    return Queue(name=name, title=name, is_leaf=False, parent=parent, quotas=quotas, **fields)


def quotas_of(flavors: Mapping[str, Flavored]) -> dict[FlavorResource, Quota]:
    """Quotas by flavor and resource from their short form."""
    result = {}
    for flavor, declared in flavors.items():
        by_resource = declared if isinstance(declared, Mapping) else {GPU: declared}
        for resource, amount in by_resource.items():
            result[flavor, resource] = amount if isinstance(amount, Quota) else Quota(amount)
    return result


def preempts(*, within: PreemptionPolicy = NEVER, reclaim: PreemptionPolicy = NEVER, **fields: Any) -> PreemptionRules:
    """Whom a queue may preempt."""
    return PreemptionRules(within_queue=within, reclaim=reclaim, **fields)


def guarded(**fields: Any) -> Settings:
    """Settings with limits on preemption."""
    return Settings(guards=PreemptionGuards(**fields))


TRIES_ALL = FlavorRules(next_instead_of_borrowing=True, next_instead_of_preempting=True)
STOPS_EARLY = FlavorRules(next_instead_of_borrowing=False, next_instead_of_preempting=False)

# Workloads -------------------------------------------------------------------------------------------------------


def pod_set(name: str = "main", *, count: int = 1, least: int | None = None, gpus: int = 1, **fields: Any) -> PodSet:
    """`count` pods of `gpus` cards each; `requests` replaces the cards."""
    requests = fields.pop("requests", {GPU: gpus})
    shape = replace(fields.pop("shape", PodShape()), requests=requests)
    least = count if least is None else least
    return PodSet(name=name, count=count, count_least=least, requests=requests, shape=shape, **fields)


def workload(name: str, *, gpus: int = 1, queue: str = "team-a", pods: int = 1, **fields: Any) -> Workload:
    """A workload that waits: `pods` pods of `gpus` cards each, `least` of them enough to start."""
    least = fields.pop("least", None)
    namespace = fields.get("namespace", NAMESPACE)
    defaults: dict[str, Any] = {
        "key": key_of(name, namespace),
        "uid": f"uid-{name}",
        "namespace": namespace,
        "queue": queue,
        "pod_sets": (pod_set(count=pods, least=least, gpus=gpus),),
    }
    return Workload(**(defaults | fields))


def running(name: str, *, gpus: int = 1, queue: str = "team-a", flavor: str = FLAVOR, **fields: Any) -> Workload:
    """A workload that holds quota of its queue in one flavor since the beginning."""
    waiting = workload(name, gpus=gpus, queue=queue, **fields)
    defaults: dict[str, Any] = {
        "admission": admission_of(waiting, queue, flavor),
        "is_admitted": True,
        "is_ready": True,
        "reserved_at": 0.0,
    }
    return replace(waiting, **(defaults | fields_of_workload(fields)))


def fields_of_workload(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a builder was told about the workload itself and not about its pods."""
    return {name: value for name, value in fields.items() if name not in ("pods", "least")}


def admission_of(workload: Workload, queue: str, flavor: str = FLAVOR) -> Admission:
    """All of a workload's pods in one flavor."""
    given = [
        PodSetAdmission(
            name=pods.name,
            count=pods.count,
            flavors=dict.fromkeys(pods.requests, flavor),
            usage={resource: amount * pods.count for resource, amount in pods.requests.items()},
        )
        for pods in workload.pod_sets
    ]
    return Admission(queue=queue, pod_sets=tuple(given))


def evicted_from(workload: Workload) -> Workload:
    """The workload after it was told to go and has gone: it waits again."""
    return replace(workload, admission=None, is_admitted=False, is_evicted=False, is_ready=False, reserved_at=None)


def key_of(name: str, namespace: str = NAMESPACE) -> str:
    return f"{namespace}/{name}"


def name_of(key: str) -> str:
    """The plain name in a workload's key."""
    return key.rpartition("/")[2]


# State -----------------------------------------------------------------------------------------------------------

Part = Queue | Workload | Flavor | SubmitQueue | Node | BoundPod


def snapshot_of(*parts: Part, settings: Settings | None = None, now: float = NOW, **fields: Any) -> Snapshot:
    """A snapshot of queues, workloads, flavors, submit queues, nodes and pods in any order."""
    queues = {part.name: part for part in parts if isinstance(part, Queue)}
    for part in list(queues.values()):
        if part.parent is not None and part.parent not in queues:
            queues[part.parent] = cohort(part.parent)
    flavors = {name: Flavor(name=name) for part in queues.values() for group in part.groups for name in group.flavors}
    flavors |= {part.name: part for part in parts if isinstance(part, Flavor)}
    defaults: dict[str, Any] = {
        "queues": queues,
        "flavors": flavors,
        "workloads": {part.key: part for part in parts if isinstance(part, Workload)},
        "submit_queues": {part.key: part for part in parts if isinstance(part, SubmitQueue)},
        "nodes": {part.name: part for part in parts if isinstance(part, Node)},
        "bound_pods": {part.key: part for part in parts if isinstance(part, BoundPod)},
        "namespaces": {NAMESPACE: {}},
        "settings": settings or Settings(),
        "now": now,
    }
    return Snapshot(**(defaults | fields))


def state_of(*parts: Part, settings: Settings | None = None, now: float = NOW, **fields: Any) -> EngineState:
    """The engine's state of queues, workloads, flavors, submit queues, nodes and pods in any order."""
    return EngineState(snapshot_of(*parts, settings=settings, now=now, **fields))


def node_of(state: EngineState, name: str) -> QuotaNode:
    return state.tree.nodes[name]


# Cycles ----------------------------------------------------------------------------------------------------------


def plan_of(*parts: Part, settings: Settings | None = None, **fields: Any) -> Plan:
    """What the first cycle over these objects decides."""
    state = state_of(*parts, settings=settings, **fields)
    state.begin_cycle(state.now)
    return decide(state)


def run_cycle(state: EngineState, *, after_s: float = 1.0, victims_leave: bool = True) -> Plan:
    """One cycle, carried out: those told to go have gone when it ends, unless they take their time."""
    state.begin_cycle(state.now + after_s)
    plan = decide(state)
    state.apply(plan)
    if victims_leave:
        let_go(state, plan.evictions)
    return plan


def let_go(state: EngineState, evictions: Iterable[Evict]) -> None:
    """Those told to go have gone and wait again, at the place in line that the settings give them."""
    for decision in evictions:
        leaving = state.workloads[decision.workload]
        moves_back = decision.reason.code is Code.RECLAIMED_WHILE_BORROWING and not state.settings.orders_by_priority
        if moves_back and leaving.preempted_at is not None:
            # Where priorities do not order the heads of different queues, its time would bring it back at once.
            leaving = replace(leaving, queued_at=leaving.preempted_at + 0.001)
        state.take(evicted_from(leaving))


def run_cycles(state: EngineState, count: int = 1, *, after_s: float = 1.0) -> list[Plan]:
    """Several cycles, each carried out."""
    return [run_cycle(state, after_s=after_s) for _ in range(count)]


def run_until_quiet(state: EngineState, most: int = 100) -> list[Plan]:
    """Cycles until nothing changes any more; fails when that takes too long."""
    plans: list[Plan] = []
    seen: set[object] = set()
    while len(plans) < most:
        plans.append(run_cycle(state))
        if not plans[-1].is_empty:
            seen.clear()
            continue
        # The lines look as they did after an earlier cycle, and nothing was given or taken since.
        if (now := lines_of(state)) in seen:
            return plans
        seen.add(now)
    raise AssertionError(f"not quiet after {most} cycles; lately {[evicted(plan) for plan in plans[-4:]]}")


def lines_of(state: EngineState) -> object:
    """Who is in line where, and how far the search of each went."""
    waiting = [(name, line.sticky, *sorted(w.key for w in line.waiting())) for name, line in state.lines.items()]
    tried = [(key, str(progress.tried)) for key, progress in sorted(state.progress.items())]
    return (*waiting, *tried)


# Results ---------------------------------------------------------------------------------------------------------


def reserved(plan: Plan) -> dict[str, str]:
    """Who got quota, and the flavors that pay."""
    return {
        name_of(decision.workload): "+".join(
            sorted({flavor for given in decision.admission.pod_sets for flavor in given.flavors.values()})
        )
        for decision in plan.reserves
    }


def counts(plan: Plan) -> dict[str, tuple[int, ...]]:
    """Who got quota, and for how many pods of each set."""
    return {
        name_of(decision.workload): tuple(given.count for given in decision.admission.pod_sets)
        for decision in plan.reserves
    }


def evicted(plan: Plan) -> dict[str, Code]:
    """Who is told to go, and by what right."""
    return {name_of(decision.workload): decision.reason.code for decision in plan.evictions}


def waits(plan: Plan) -> dict[str, Code]:
    """Who was tried in vain, and why."""
    return {name_of(key): verdict.code for key, verdict in plan.verdicts.items()}


def usage_of(state: EngineState) -> dict[str, dict[FlavorResource, int]]:
    """What every node of the tree uses; nodes that use nothing are left out."""
    return {name: dict(node.usage) for name, node in state.tree.nodes.items() if node.usage}


def holders_of(state: EngineState) -> dict[str, tuple[str, dict[FlavorResource, int]]]:
    """Who holds quota of which queue, and how much."""
    return {held.workload.key: (held.queue.name, dict(held.usage)) for held in state.holders.all()}


def in_line(state: EngineState, queue: str = "team-a") -> set[str]:
    """The names of the workloads in line."""
    return {name_of(one.key) for one in state.lines[queue].waiting()}


def parked(state: EngineState, queue: str = "team-a") -> set[str]:
    """The names of the workloads that are set aside."""
    return {name_of(one.key) for one in state.lines[queue].parked()}


def remembered(state: EngineState) -> dict[str, object]:
    """Everything that a state knows, in a form that compares equal when it is the same."""
    return {
        "usage": usage_of(state),
        "borrowers": {
            (name, key): sorted(one.name for one in borrowing)
            for name, node in state.tree.nodes.items()
            for key, borrowing in node.borrowers.items()
            if borrowing
        },
        "gone": list(state.ledger.gone()),
        "holders": {held.workload.key: (held.workload, held.queue.name, held.usage) for held in state.holders.all()},
        "workloads": dict(state.workloads),
        "heads": [(node.name, head.key) for node, head in state.heads()],
        "sticky": {name: line.sticky for name, line in state.lines.items()},
        "waiting": {name: sorted(one.key for one in line.waiting()) for name, line in state.lines.items()},
        "parked": {name: sorted(one.key for one in line.parked()) for name, line in state.lines.items()},
        "progress": dict(state.progress),
        "preemptors": sorted(state.preemptors),
        "generations": dict(state.generations),
        "preempted": dict(state.preempted_last),
    }


def leaves(state: EngineState) -> Iterator[QuotaNode]:
    """Every queue that workloads can wait in."""
    return (node for node in state.tree.nodes.values() if node.queue.is_leaf)
