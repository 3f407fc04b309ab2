"""Reading pods and nodes for placement: rules, volumes and cards, beside what quota counts.

Filled by `app` from the vendors' parts and handed to the dialects' readers; without it nothing of this is read, so
that who decides on quota alone is neither slowed down nor refused for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from muster.model.device import Device
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.labels import NodeTerms, read_node_terms
from muster.model.pod_rules import PodRules, read_pod_rules
from muster.model.slices import CardRequests, Slices
from muster.model.topology import BoundPod, Node

CardsOfPod = Callable[[Fields], CardRequests | None]
DevicesOfNode = Callable[[Fields], tuple[Device, ...]]
SlicesOfPod = Callable[[Fields, tuple[Device, ...]], Slices | None]
Doubts = Callable[[Fields, tuple[Device, ...]], tuple[InvalidObject, ...]]


def _no_doubts(_obj: Fields, _devices: tuple[Device, ...]) -> tuple[InvalidObject, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementReader:
    """How pods and nodes are read where Muster decides on nodes."""

    cards_of: CardsOfPod
    devices_of: DevicesOfNode
    slices_of: SlicesOfPod
    doubts_of: Doubts = (
        _no_doubts  # what a node registers or a bound pod claims, with its node's cards, is not believed
    )
    volumes: Mapping[str, tuple[NodeTerms, ...]] = field(default_factory=dict)  # by namespace/claim
    card_parts: frozenset[str] = frozenset()  # resources that nodes do not have: each card has its own of them

    def with_volumes(self, claims: Iterable[Fields], volumes: Iterable[Fields]) -> PlacementReader:
        """The same with the nodes that the volumes bound to claims can be reached from."""
        terms = {_name(one): terms_of_volume(one) for one in volumes}
        bound = {f"{_namespace(one)}/{_name(one)}": terms.get(one.child("spec").text("volumeName")) for one in claims}
        return replace(self, volumes={key: (found,) for key, found in bound.items() if found is not None})

    def rules_of(self, pod: Fields) -> PodRules:
        """The rules of a pod that has a namespace."""
        namespace = _namespace(pod)
        found = (self.volumes.get(f"{namespace}/{claim}", ()) for claim in _claims_of(pod))
        return read_pod_rules(pod, volumes=tuple(terms for each in found for terms in each))

    def node(self, node: Node, obj: Fields) -> Node:
        """A node with the cards that it registers."""
        return replace(node, devices=self.devices_of(obj))

    def bound_pod(self, pod: BoundPod, obj: Fields, node: Node | None) -> BoundPod:
        """A pod that holds a part of a node, with its rules and what it holds of cards."""
        devices = node.devices if node is not None else ()
        cards = self.cards_of(_without_annotations(obj))  # it has its cards, whatever it once wished for
        return replace(pod, rules=self.rules_of(obj), cards=cards, slices=self.slices_of(obj, devices))


def _claims_of(pod: Fields) -> Iterator[str]:
    for volume in pod.child("spec").children("volumes"):
        if claim := volume.child("persistentVolumeClaim").text("claimName"):
            yield claim
        elif volume.has("ephemeral"):
            yield f"{_name(pod)}-{volume.text('name')}"


def template_as_pod(template: Fields, namespace: str) -> Fields:
    """A pod template as the pod that will be made of it."""
    metadata = {**template.child("metadata").values, "namespace": namespace}
    return Fields({**template.values, "metadata": metadata}, template.path)


def _without_annotations(pod: Fields) -> Fields:
    metadata = {name: value for name, value in pod.child("metadata").values.items() if name != "annotations"}
    return Fields({**pod.values, "metadata": metadata}, pod.path)


def terms_of_volume(volume: Fields) -> NodeTerms | None:
    """The nodes from which a volume can be reached; `None`: all of them."""
    affinity = volume.child("spec").child("nodeAffinity")
    return read_node_terms(affinity.child("required")) if affinity.has("required") else None


def _name(obj: Fields) -> str:
    return obj.child("metadata").text("name")


def _namespace(obj: Fields) -> str:
    return obj.child("metadata").text("namespace")
