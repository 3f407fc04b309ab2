"""Topology: nodes and where they stand, what pods ask of their place, and where they were put.

A topology is a list of node labels, widest first (zone, rack, host). A domain is named by the values of those
labels. Read by the dialects and the controllers' cache, placed by `muster/engine/topology.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from muster.model.device import Device
from muster.model.fields import Fields
from muster.model.labels import Taint, read_taints
from muster.model.pod_rules import ANYWHERE, PodRules
from muster.model.podspec import PodShape, pod_shape
from muster.model.resources import amount_of
from muster.model.slices import CardRequests, Slices

HOSTNAME = "kubernetes.io/hostname"

Path = tuple[str, ...]  # the values of a domain's labels, widest first

# Labels that tell where a node stands, widest first, as clusters without a topology object carry them.
WELL_KNOWN_LEVELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "network.topology.nvidia.com/core",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/accelerator",
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
    "topology.kubernetes.io/block",
    "topology.kubernetes.io/rack",
    HOSTNAME,
)


# Nodes and the pods on them ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine: what it is labelled with, whom it keeps away, and what it can hold."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)  # by resource, in the unit that quota counts
    is_ready: bool = True
    is_schedulable: bool = True  # not cordoned
    devices: tuple[Device, ...] = ()  # cards that it registers one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPod:
    """A pod that holds a part of a node and that no admission accounts for."""

    key: str  # namespace/name
    node: str
    requests: Mapping[str, int]
    rules: PodRules = ANYWHERE  # read where Muster decides on nodes, as are the next two
    cards: CardRequests | None = None
    slices: Slices | None = None  # what its annotations say that it holds of cards


def read_node(node: Fields) -> Node:
    """One Node object."""
    metadata, spec, status = node.child("metadata"), node.child("spec"), node.child("status")
    is_ready = any(
        condition.text("type") == "Ready" and condition.text("status") == "True"
        for condition in status.children("conditions")
    )
    return Node(
        name=metadata.text("name"),
        labels=metadata.text_map("labels"),
        taints=read_taints(spec),
        allocatable={name: amount_of(name, amount) for name, amount in status.quantities("allocatable").items()},
        is_ready=is_ready,
        is_schedulable=not spec.flag("unschedulable"),
    )


def read_bound_pod(pod: Fields, *, limits_as_requests: bool = True) -> BoundPod | None:
    """One Pod object; `None` when it holds nothing, because it has no node yet or is over."""
    metadata, spec = pod.child("metadata"), pod.child("spec")
    if not spec.text("nodeName") or pod.child("status").text("phase") in ("Succeeded", "Failed"):
        return None
    return BoundPod(
        key=f"{metadata.text('namespace')}/{metadata.text('name')}",
        node=spec.text("nodeName"),
        requests=pod_shape(spec, limits_as_requests=limits_as_requests).requests,
    )


def levels_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The levels that the nodes' own labels amount to: the well-known ones that every node carries, widest first."""
    known = list(nodes)
    if not known:
        return ()
    return tuple(label for label in WELL_KNOWN_LEVELS if all(label in node.labels for node in known))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """How near to each other the pods of a set must be."""

    required: str = ""
    preferred: str = ""
    is_unconstrained: bool = False
    slice_level: str = ""
    slice_size: int = 0
    layers: tuple[tuple[str, int], ...] = ()  # (level, size), outermost first
    group: str = ""

    @property
    def is_asked(self) -> bool:
        return bool(self.required or self.preferred or self.is_unconstrained or self.slice_level or self.layers)


# Asks and answers --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlacedPods:
    """So many pods in one domain."""

    values: Path
    count: int


@dataclass(frozen=True, slots=True)
class TopologyAssignment:
    """Where the pods of a pod set go; with hosts as the lowest level, only the hosts are named."""

    levels: tuple[str, ...]
    domains: tuple[PlacedPods, ...]

    @property
    def count(self) -> int:
        return sum(domain.count for domain in self.domains)


@dataclass(frozen=True, slots=True, eq=False)
class NodeRoom:
    """How many pods of a pod set nodes take at most, as one knows who looks closer than at amounts."""

    by_node: Mapping[str, int]
    by_domain: Mapping[Path, int] = field(default_factory=dict)  # of those that were tried: no more than this

    def at(self, domain: Path, nodes: Iterable[str]) -> int:
        """How many pods the nodes of a domain take."""
        most = sum([self.by_node.get(node, 0) for node in nodes])
        return min(most, self.by_domain.get(domain, most))

    def after(self, tried: Iterable[PlacedPods]) -> NodeRoom:
        """The same with domains that took no more pods than this when they were tried."""
        return NodeRoom(self.by_node, {**self.by_domain, **{domain.values: domain.count for domain in tried}})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementAsk:
    """A pod set that looks for a place: how many pods, of what shape, and how near to each other."""

    name: str
    count: int
    shape: PodShape  # of one pod, as its spec has it: quota may count other resources
    request: TopologyRequest | None = None  # None only for pods that are placed although they do not ask for it
    previous: TopologyAssignment | None = None  # of the older slice that the pods take over from
    room: NodeRoom | None = None  # None: amounts tell all

    @property
    def group(self) -> str:
        return self.request.group if self.request is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRules:
    """Settings of the search; the defaults are Kueue's."""

    packs_unconstrained: bool = True  # pods that may go anywhere fill the domains with the least left first
    is_balanced: bool = False  # pods that prefer a level spread evenly over the domains that they need
    has_layers: bool = True  # slices within slices count
    follows_preferred_affinity: bool = False  # liked nodes go before tight ones
    merges_flavors: bool = True  # usage of a host counts in every flavor that has the host


class Unplaced(Enum):
    """Why pods found no place."""

    TOO_FEW = "TooFew"  # not enough room where they must be
    NO_DOMAINS = "NoDomains"  # no node of the flavor takes part
    LEVEL_MISSING = "LevelMissing"
    SLICE_LEVEL_MISSING = "SliceLevelMissing"
    SLICE_LEVEL_ABOVE = "SliceLevelAbove"  # slices wider than the set itself
    SLICE_SIZE_MISSING = "SliceSizeMissing"
    SLICES_UNEVEN = "SlicesUneven"  # the pods or an outer slice are no multiple of a slice
    LAYERS_UNORDERED = "LayersUnordered"  # an inner slice is not below the outer one
    GROUP_WITHOUT_LEADER = "GroupWithoutLeader"  # a group is one leader and its workers
    DOMAIN_GONE = "DomainGone"  # a place that must be kept is not there any more
    NOT_BY_HOST = "NotByHost"  # a node can be replaced only where places are hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRefusal:
    """Pods found no place: why, and the numbers that tell it."""

    why: Unplaced
    topology: str
    level: str = ""  # the label that the refusal is about
    fitting: int = 0  # how many pods, or slices, would have fitted
    asked: int = 0
    is_of_slices: bool = False  # the two numbers count slices
    has_leader: bool = False  # a leader needs a place as well
    by_layer: tuple[
        tuple[str, int, int], ...
    ] = ()  # of slices within slices: level, fitting, asked; only when asked for
    nodes: int = 0  # all that take part
    excluded: tuple[tuple[str, int], ...] = ()  # what kept nodes out and how many; only filled when asked for


Placement = TopologyAssignment | PlacementRefusal
