"""What it takes to decide on nodes: readers for pods and cards, the table of nodes, and queues for those without one.

Called by `muster plan` and by whoever runs the engine where Muster places pods. Loads numpy, so it is only imported
where a profile places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import replace

from muster.app.config import Configuration
from muster.app.intake import NO_QUEUE, PODS_ALONE_MOST
from muster.app.plugins import vendors
from muster.app.policies import build_tiers
from muster.dialects.hami.cards import card_ask, card_requests, held_slices, table_devices
from muster.dialects.hami.settings import HamiSettings
from muster.engine.contracts import Vendor
from muster.engine.devices_order import BINPACK
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.profile import POD_BY_POD, Batch, Profile
from muster.engine.reading import PlacementReader
from muster.engine.slots import CARDS_MOST, CardKinds, HooksOf, NodeSlots
from muster.engine.tiers import Tiers
from muster.model.device import Device
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.labels import Selector
from muster.model.queue import PreemptionPolicy, PreemptionRules, Queue
from muster.model.resources import amount_of
from muster.model.slices import CardRequests
from muster.model.snapshot import Snapshot
from muster.model.topology import Node, levels_of
from muster.model.workload import Workload

# Unless a pod says otherwise, slices fill cards in use: HAMi itself spreads them, and big ones find no card then.
PACKED = HamiSettings(card_policy=BINPACK)
POD_PACE_S = 1.0  # a job's controller makes its pods one after the other


def placement_reader(given: tuple[Vendor, ...] | None = None) -> PlacementReader:
    """How pods and nodes are read, with the cards of some vendors; of all that are known where none are given."""
    known = tuple(vendors().values()) if given is None else given
    return PlacementReader(
        cards_of=lambda pod: _cards_of(pod, known),
        devices_of=lambda node: _devices_of(node, known),
        slices_of=lambda pod, devices: held_slices(pod, devices, known).slices,
        doubts_of=lambda obj, devices: _doubts_of(obj, devices, known),
        card_parts=frozenset(name for one in known for name in one.resources.names - {one.resources.count}),
    )


def _cards_of(pod: Fields, known: tuple[Vendor, ...]) -> CardRequests | None:
    """What a pod asks of cards; its wishes are tried here, where whoever wrote them can be told."""
    asked = card_requests(pod, known)
    if asked is not None:
        try:
            card_ask(asked, known)
        except InvalidObject as problem:
            raise InvalidObject(pod.at(problem.path), problem.problem, problem.hint) from None
    return asked


def _devices_of(node: Fields, known: tuple[Vendor, ...]) -> tuple[Device, ...]:
    """The cards of a node. Every node of the table is as wide as the widest, so none may be absurdly wide."""
    allocatable = node.child("status").child("allocatable")
    amounts = node.child("status").quantities("allocatable")
    for name in (vendor.resources.count for vendor in known if vendor.is_counted):
        if name in amounts and amount_of(name, amounts[name]) > CARDS_MOST:
            hint = f"a node has at most {CARDS_MOST} cards"
            raise InvalidObject(f"{allocatable.path}[{name}]", f"is {shown(allocatable.raw(name))}", hint)
    devices = table_devices(node, known).devices
    if len(devices) > CARDS_MOST:
        path = node.child("metadata").at("annotations")
        raise InvalidObject(path, f"register {len(devices)} cards", f"a node has at most {CARDS_MOST}")
    return devices


def _doubts_of(obj: Fields, devices: tuple[Device, ...], known: tuple[Vendor, ...]) -> tuple[InvalidObject, ...]:
    """What a node registers in vain, or a bound pod claims of its node's cards."""
    if obj.text("kind") != "Node":
        return held_slices(obj, devices, known).problems
    return table_devices(obj, known).problems


def tiers_of(configuration: Configuration) -> Tiers:
    """The policies that choose among nodes; where somebody else would place pods, those of the kube-scheduler."""
    if configuration.tiers is not None:
        return configuration.tiers
    return build_tiers(configuration.profile.tiers or POD_BY_POD.tiers)


def node_slots(
    snapshot: Snapshot,
    configuration: Configuration,
    *,
    hooks_of: HooksOf | None = None,
    known: tuple[Vendor, ...] | None = None,
) -> NodeSlots:
    """The nodes of a snapshot as policies choose among them, those of a workload or of all; the state fills them in."""
    tiers = tiers_of(configuration)
    pods = PodsOnNodes(NodeFacts())
    for name, labels in snapshot.namespaces.items():
        pods.put_namespace(name, labels)
    return NodeSlots(
        Placer(NodeTable(), tiers.hooks, pods),
        flavors=snapshot.flavors,
        levels=_levels(snapshot),
        cards=_card_kinds(snapshot, tuple(vendors().values()) if known is None else known),
        hooks_of=hooks_of,
    )


def frame_of(nodes: Iterable[Node]) -> Hashable:
    """What the table takes from all nodes together: when this changes, another table is needed."""
    known = list(nodes)
    return levels_of(known), _usual_mib(known)


def _usual_mib(nodes: Iterable[Node]) -> int:
    """The memory that most cards have."""
    sizes = Counter(device.memory_mib for node in nodes for device in node.devices)
    return min(sizes, key=lambda size: (-sizes[size], size), default=0)


def _levels(snapshot: Snapshot) -> tuple[str, ...]:
    """The levels by which nodes stand together: a topology's where there is one, else what their labels amount to."""
    named = max((flavor.topology_levels for flavor in snapshot.flavors.values()), key=len, default=())
    return named or levels_of(snapshot.nodes.values())


def _card_kinds(snapshot: Snapshot, known: tuple[Vendor, ...]) -> CardKinds:
    return CardKinds(
        counts=tuple(vendor.resources.count for vendor in known if vendor.is_counted),
        resources=frozenset(name for vendor in known for name in vendor.resources.names),
        read=lambda asked: card_ask(asked, known, PACKED),
        usual_mib=_usual_mib(snapshot.nodes.values()),
    )


# Those without a queue -----------------------------------------------------------------------------------------------


def with_plain_queue(snapshot: Snapshot, profile: Profile, without_queue: Collection[str]) -> Snapshot:
    """The snapshot with a queue for workloads that name none; pod by pod where the profile knows no workloads."""
    workloads: dict[str, Workload] = {}
    for key, workload in snapshot.workloads.items():
        if profile.batch is Batch.PODS and workload.admission is None:
            workloads.update((one.key, one) for one in _pods_of(workload))
        else:
            workloads[key] = replace(workload, queue=NO_QUEUE) if key in without_queue else workload
    return replace(snapshot, workloads=workloads, queues={**snapshot.queues, NO_QUEUE: plain_queue()})


def plain_queue() -> Queue:
    """The queue of those that name none: without limits, by priority."""
    return Queue(
        name=NO_QUEUE,
        title=NO_QUEUE,
        is_leaf=True,
        preemption=PreemptionRules(within_queue=PreemptionPolicy.LOWER_PRIORITY),
        admits_namespaces=Selector(),
        is_unlimited=True,
    )


def _pods_of(workload: Workload) -> Iterator[Workload]:
    """Each pod by itself, as a scheduler sees them that knows nothing of workloads; of very many the first ones."""
    number = 0
    for pod_set in workload.pod_sets:
        alone = replace(pod_set, count=1, count_least=1, topology=None)
        for _ in range(min(pod_set.count_left, PODS_ALONE_MOST - number)):
            name = f"{workload.key}-{number}"
            yield replace(
                workload,
                key=name,
                uid=f"{workload.uid}-{number}",
                queue=NO_QUEUE,
                pod_sets=(alone,),
                pods_least=0,
                is_elastic=False,
                queued_at=workload.queued_at + POD_PACE_S * number,
                kind_key=f"{workload.kind_key} {pod_set.name}",
            )
            number += 1
