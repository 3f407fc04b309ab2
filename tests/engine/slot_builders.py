"""Builders for tests of placement in cycles: machines with cards, states that decide on nodes, and how plans are read.

Everything else is built as in `builders.py`; a queue has quota in plenty unless a test is about quota.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.dialects.hami.cards import card_ask
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.policy import Hooks
from muster.engine.slots import CardKinds, NodeSlots
from muster.engine.state import EngineState
from muster.model.device import Device, DeviceRequest
from muster.model.labels import EVERYTHING
from muster.model.plan import Amend, Plan, Shrink
from muster.model.queue import Queue
from muster.model.resources import PODS
from muster.model.settings import Settings
from muster.model.slices import CardRequests
from muster.model.snapshot import Snapshot
from muster.model.topology import HOSTNAME, Node
from muster.model.workload import Admission, PodSet, PodSetAdmission, Slot, Workload
from muster.policies import binpack, fgd
from muster.vendors.nvidia import VENDOR
from tests.engine.builders import CPU, GPU, LOWER, Part, key_of, name_of, pod_set, preempts, snapshot_of

RACK = "example.com/rack"
LEVELS = (RACK, HOSTNAME)
SIZE_MIB = 16_000  # of a card
KINDS = CardKinds(
    counts=(VENDOR.resources.count,),
    resources=frozenset(VENDOR.resources.names),
    read=lambda asked: card_ask(asked, (VENDOR,)),
    usual_mib=SIZE_MIB,
)
POLICIES: Mapping[str, Hooks] = {"fgd": fgd.POLICY.hooks(), "binpack": binpack.POLICY.hooks()}
MEMORY, CORES, PERCENT = "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage"

# Queues --------------------------------------------------------------------------------------------------------------

PLAIN, ANY_FLAVOR = "(no queue)", "any"


def plain_queue() -> Queue:
    """The queue of those that name none: without limits, by priority."""
    return Queue(
        name=PLAIN,
        title=PLAIN,
        is_leaf=True,
        preemption=preempts(within=LOWER),
        admits_namespaces=EVERYTHING,
        is_unlimited=True,
    )


# Machines ------------------------------------------------------------------------------------------------------------


def machine(name: str, gpus: int = 8, *, rack: str = "", **fields: Any) -> Node:
    """A machine with cards that are only counted; `labels` and amounts (`cpu`, `pods`) come on top."""
    amounts = {GPU: gpus, CPU: fields.pop("cpu", 64), PODS: fields.pop("pods", 99), **fields.pop("amounts", {})}
    labels = {HOSTNAME: name, **({RACK: rack} if rack else {}), **fields.pop("labels", {})}
    return Node(name=name, labels=labels, allocatable=amounts, **fields)


def card(name: str, **fields: Any) -> Device:
    """One card as its node registers it."""
    index = int(name.rpartition("-")[2])
    defaults: dict[str, Any] = {"vendor": VENDOR.name, "model": "NVIDIA", "memory_mib": SIZE_MIB, "slots": 10}
    return Device(uuid=name, index=index, **(defaults | fields))


def sharing(name: str, cards: int = 2, *, device: Mapping[str, Any] | None = None, **fields: Any) -> Node:
    """A machine that registers its cards one by one, so that they can be shared."""
    devices = tuple(card(f"{name}-{number}", **(device or {})) for number in range(cards))
    return replace(machine(name, cards, **fields), devices=devices)


# Pods ----------------------------------------------------------------------------------------------------------------


def slice_of(*, memory_mib: int = 0, percent: int | None = None, cores: int = 0, count: int = 1) -> CardRequests:
    """What one container asks of cards, as HAMi's users write it."""
    asked = DeviceRequest(vendor=VENDOR.name, count=count, memory_mib=memory_mib, memory_percent=percent, cores=cores)
    return CardRequests(by_container=((asked,),))


def sliced(name: str = "main", *, count: int = 1, least: int | None = None, of: CardRequests, **fields: Any) -> PodSet:
    """Pods that ask for slices of cards; quota counts the cards."""
    cards = sum(request.count for requests in of.by_container for request in requests)
    return pod_set(name, count=count, least=least, requests={GPU: cards}, cards=of, **fields)


def on(node: str, *cards: int) -> Slot:
    return Slot(node, cards)


def held(workload: Workload, slots: Mapping[str, Sequence[Slot]] | Sequence[Slot], flavor: str = "default") -> Workload:
    """The workload as it runs in these slots, by pod set or of the only one."""
    by_name = slots if isinstance(slots, Mapping) else {workload.pod_sets[0].name: slots}
    given = []
    for pods in workload.pod_sets:
        mine = tuple(by_name.get(pods.name, ()))
        is_counted = workload.queue != PLAIN
        usage = {resource: amount * len(mine) for resource, amount in pods.requests.items()} if is_counted else {}
        flavors = dict.fromkeys(pods.requests, flavor) if is_counted else {PODS: ANY_FLAVOR}
        given.append(PodSetAdmission(name=pods.name, count=len(mine), flavors=flavors, usage=usage, slots=mine))
    admission = Admission(queue=workload.queue, pod_sets=tuple(given))
    bound = sum(len(one.slots) for one in given)
    facts: dict[str, Any] = {"is_admitted": True, "is_ready": True, "reserved_at": 0.0, "pods_bound": bound}
    return replace(workload, admission=admission, **facts)


# States --------------------------------------------------------------------------------------------------------------


def slots_for(
    snapshot: Snapshot, *, hooks: Sequence[Hooks] = (POLICIES["fgd"],), levels: Sequence[str] = LEVELS
) -> NodeSlots:
    """The slots of a snapshot's nodes, still empty: the state fills them in."""
    pods = PodsOnNodes(NodeFacts())
    for name, labels in snapshot.namespaces.items():
        pods.put_namespace(name, labels)
    return NodeSlots(Placer(NodeTable(), hooks, pods), flavors=snapshot.flavors, levels=levels, cards=KINDS)


def placing_state(*parts: Part, settings: Settings | None = None, policy: str = "fgd", **fields: Any) -> EngineState:
    """A state that decides on nodes too."""
    wanted = replace(settings or Settings(), needs_slots=True)
    snapshot = snapshot_of(*parts, settings=wanted, **fields)
    return EngineState(snapshot, slots_for(snapshot, hooks=[POLICIES[policy]]))


def slots_of(state: EngineState) -> NodeSlots:
    """The slots of a state that decides on nodes."""
    assert state.places.slots is not None, "this state decides on quota alone"
    return state.places.slots


# What happens --------------------------------------------------------------------------------------------------------


def bind(state: EngineState, name: str, count: int, **fields: Any) -> None:
    """So many pods of a workload have their node by now."""
    state.take(replace(state.workloads[key_of(name)], pods_bound=count, **fields))


def gone(workload: Workload) -> Workload:
    """A workload after all its pods have left: it waits again."""
    return replace(
        workload,
        admission=None,
        is_admitted=False,
        is_evicted=False,
        is_ready=False,
        reserved_at=None,
        pods_bound=0,
        unhealthy_nodes=(),
        leaving_slots={},
    )


# Results -------------------------------------------------------------------------------------------------------------


def hosts(admission: Admission | None) -> dict[str, int]:
    """Pods by node, of all pod sets."""
    pod_sets = admission.pod_sets if admission is not None else ()
    return dict(sorted(Counter(slot.node for given in pod_sets for slot in given.slots).items()))


def started(plan: Plan) -> dict[str, dict[str, int]]:
    """Who got slots on which nodes."""
    return {name_of(one.workload): hosts(one.admission) for one in plan.reserves}


def amended(plan: Plan) -> dict[str, dict[str, int]]:
    """Who has its pods on which nodes from now on."""
    found = (one for one in plan.decisions if isinstance(one, Amend))
    return {name_of(one.workload): hosts(one.admission) for one in found}


def shrunk(plan: Plan) -> dict[str, dict[str, int]]:
    """Who has to leave how many slots on which nodes."""
    found = (one for one in plan.decisions if isinstance(one, Shrink))
    return {name_of(one.workload): _by_node(slot for slots in one.slots.values() for slot in slots) for one in found}


def where(state: EngineState, name: str) -> dict[str, int]:
    """On which nodes the pods of a workload are."""
    return hosts(state.workloads[key_of(name)].admission)


def free_cards(state: EngineState, node: str) -> int:
    """How many whole cards of a node are free."""
    table = slots_of(state).placer.table
    return sum(milli == 1000 for milli in table.cards[table.row_of(node)].tolist())


def _by_node(slots: Iterable[Slot]) -> dict[str, int]:
    return dict(sorted(Counter(slot.node for slot in slots).items()))
