"""Volcano's objects read into what a session decides on. Called by `app` and by the conformance cases.

Whatever is wrong with an object raises `InvalidObject` from the function that reads it; `read` leaves such an object
out and says so, so that one mistake does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from muster.dialects.volcano.names import ALLOCATED_DOMAIN, DEFAULT_QUEUE, PREEMPTABLE, ROOT_QUEUE
from muster.dialects.volcano.read_domains import read_domains
from muster.dialects.volcano.read_numa import read_numa
from muster.dialects.volcano.read_pods import PodReader, read_pod
from muster.engine.reading import PlacementReader
from muster.model.errors import InvalidObject
from muster.model.fields import INT32_MAX, Fields
from muster.model.groups import (
    DisruptionBudget,
    FairQueue,
    Group,
    GroupPhase,
    GroupSnapshot,
    NamespaceQuota,
    NearWish,
    NodeGroupWish,
    SubGroupRule,
)
from muster.model.labels import read_selector
from muster.model.resources import amount_of
from muster.model.times import moment
from muster.model.topology import Node, read_node

Read = TypeVar("Read")
Problem = tuple[str, InvalidObject]  # the object, and what is wrong with it

WEIGHT_MOST = 65_535
SUB_GROUPS_MOST = 100
_REQUIRED, _PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


@dataclass(frozen=True, slots=True)
class Reading:
    """A snapshot, and what could not be read."""

    snapshot: GroupSnapshot
    refused: tuple[Problem, ...]


def read(objects: Iterable[Fields], now: float, placement: PlacementReader | None = None) -> Reading:
    """A snapshot of objects of all kinds; those of other kinds are passed over."""
    by_kind: dict[str, list[Fields]] = {}
    refused: list[Problem] = []
    for obj in objects:
        try:
            key_of(obj)
            by_kind.setdefault(_kind_of(obj), []).append(obj)
        except InvalidObject as problem:
            refused.append((f"{obj.raw('kind')} without a name", problem))

    def each(kind: str, reader: Callable[[Fields], Read]) -> list[Read]:
        found = []
        for obj in by_kind.get(kind, ()):
            try:
                found.append(reader(obj))
            except InvalidObject as problem:
                refused.append((f"{kind} {key_of(obj)}", problem))
        return found

    priorities = {name: value for name, value, _ in each("PriorityClass", read_priority_class)}
    default = next((value for _, value, is_default in each("PriorityClass", read_priority_class) if is_default), 0)
    nodes = {node.name: node for node in each("Node", lambda obj: _read_node(obj, placement))}
    claims = frozenset(name for name, is_bound in each("PersistentVolumeClaim", _claim) if not is_bound)
    reader = PodReader(placement=placement, open_claims=claims, nodes=nodes)
    pods = each("Pod", lambda obj: read_pod(obj, reader))
    parts = placement.card_parts if placement is not None else frozenset()
    groups = each("PodGroup", lambda obj: _without(read_group(obj, priorities, default), parts))
    domains = read_domains(by_kind.get("HyperNode", ()), nodes, refused)
    namespaces = dict(each("Namespace", lambda obj: (key_of(obj), obj.child("metadata").text_map("labels"))))
    snapshot = GroupSnapshot(
        now=now,
        nodes=nodes,
        queues={queue.name: queue for queue in each("Queue", read_queue)},
        groups={group.key: group for group in groups},
        pods={pod.key: pod for pod in pods if pod is not None},
        domains=domains,
        quotas=tuple(each("ResourceQuota", read_quota)),
        budgets=tuple(each("PodDisruptionBudget", read_budget)),
        namespaces=namespaces,
        numa=dict(each("Numatopology", read_numa)),
    )
    return Reading(snapshot, tuple(refused))


def key_of(obj: Fields) -> str:
    """namespace/name, or the name alone where there is no namespace."""
    metadata = obj.child("metadata")
    namespace, name = metadata.text("namespace"), metadata.text("name")
    return f"{namespace}/{name}" if namespace else name


def _kind_of(obj: Fields) -> str:
    """The kind; other groups' kinds of the same name are not meant."""
    kind, version = obj.text("kind"), obj.text("apiVersion")
    if kind in ("Queue", "PodGroup") and not version.startswith("scheduling.volcano.sh/"):
        return ""
    return kind


def _read_node(obj: Fields, placement: PlacementReader | None) -> Node:
    # Volcano looks at the taints of a node, not at its conditions.
    node = replace(read_node(obj), is_ready=True)
    return placement.node(node, obj) if placement is not None else node


def _claim(obj: Fields) -> tuple[str, bool]:
    """A claim of a volume, and whether it has one."""
    is_bound = bool(obj.child("spec").text("volumeName")) or obj.child("status").text("phase") == "Bound"
    return key_of(obj), is_bound


def read_amounts(parent: Fields, name: str) -> dict[str, int]:
    """A list of resources as amounts."""
    return {key: amount_of(key, quantity) for key, quantity in parent.quantities(name).items()}


def read_priority_class(obj: Fields) -> tuple[str, int, bool]:
    """The name of a priority class, its value, and whether it is for all that name none."""
    return obj.child("metadata").text("name"), obj.integer("value"), obj.flag("globalDefault")


# Queues --------------------------------------------------------------------------------------------------------------


def read_queue(obj: Fields) -> FairQueue:
    """A Queue object."""
    metadata, spec, status = obj.child("metadata"), obj.child("spec"), obj.child("status")
    name = metadata.text("name")
    parent = spec.text("parent")
    if parent == name:
        raise spec.error("parent", f"is {name} itself", f"name another queue, or {ROOT_QUEUE}")
    return FairQueue(
        name=name,
        created_at=moment(metadata, "creationTimestamp") or 0.0,
        weight=spec.integer("weight", 1, least=0, most=WEIGHT_MOST) or 1,
        priority=spec.integer("priority", 0, least=0, most=INT32_MAX),
        parent=parent,
        capability=read_amounts(spec, "capability") if spec.has("capability") else None,
        guarantee=read_amounts(spec.child("guarantee"), "resource"),
        deserved=read_amounts(spec, "deserved"),
        is_open=status.choice("state", ("Open", "Closed", "Closing", "Unknown"), "Open") == "Open",
        is_reclaimable=spec.flag("reclaimable", True),
        node_groups=_read_node_groups(spec),
        annotations=metadata.text_map("annotations"),
    )


def _read_node_groups(spec: Fields) -> NodeGroupWish | None:
    if not spec.has("affinity"):
        return None
    affinity = spec.child("affinity")
    near, away = affinity.child("nodeGroupAffinity"), affinity.child("nodeGroupAntiAffinity")
    return NodeGroupWish(
        required=near.texts(_REQUIRED),
        preferred=near.texts(_PREFERRED),
        forbidden=away.texts(_REQUIRED),
        disliked=away.texts(_PREFERRED),
    )


# Groups --------------------------------------------------------------------------------------------------------------


def read_group(obj: Fields, priorities: Mapping[str, int], default_priority: int = 0) -> Group:
    """A PodGroup object."""
    metadata, spec, status = obj.child("metadata"), obj.child("spec"), obj.child("status")
    annotations, labels = metadata.text_map("annotations"), metadata.text_map("labels")
    phases = tuple(phase.value for phase in GroupPhase)
    rules = tuple(_read_sub_group(item) for item in spec.children("subGroupPolicy"))
    if len(rules) > SUB_GROUPS_MOST:
        raise spec.error("subGroupPolicy", f"holds {len(rules)} entries", f"give at most {SUB_GROUPS_MOST}")
    return Group(
        key=key_of(obj),
        queue=spec.text("queue") or DEFAULT_QUEUE,
        namespace=metadata.text("namespace"),
        priority=priorities.get(spec.text("priorityClassName"), default_priority),
        created_at=moment(metadata, "creationTimestamp") or 0.0,
        minimum=spec.integer("minMember", 0, least=0),
        minimum_by_role=_read_counts(spec.child("minTaskMember")),
        resources_least=read_amounts(spec, "minResources") if spec.has("minResources") else None,
        sub_groups=rules,
        near=read_near(spec),
        domain=annotations.get(ALLOCATED_DOMAIN, ""),
        phase=GroupPhase(status.choice("phase", phases, "Pending") or "Pending"),
        is_preemptable=annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE, "")).lower() in ("true", "1", "t"),
        labels=labels,
        annotations=annotations,
    )


def _without(group: Group, parts: frozenset[str]) -> Group:
    """A group that needs nothing of what queues do not count: memory and cores of cards."""
    if group.resources_least is None or parts.isdisjoint(group.resources_least):
        return group
    kept = {name: amount for name, amount in group.resources_least.items() if name not in parts}
    return replace(group, resources_least=kept)


def _read_counts(fields: Fields) -> dict[str, int]:
    return {str(role): fields.integer(role, least=0) for role in fields.values if fields.has(role)}


def _read_sub_group(fields: Fields) -> SubGroupRule:
    return SubGroupRule(
        name=fields.text("name"),
        label_keys=fields.texts("matchLabelKeys"),
        selector=read_selector(fields, "labelSelector"),
        size=fields.integer("subGroupSize", 1, least=0),
        least=fields.integer("minSubGroups", 0, least=0),
        near=read_near(fields),
    )


def read_near(parent: Fields) -> NearWish | None:
    """How near to each other pods have to be; a tier goes by its number or by its name."""
    if not parent.has("networkTopology"):
        return None
    fields = parent.child("networkTopology")
    if fields.has("highestTierAllowed") and fields.text("highestTierName"):
        raise fields.error("highestTierName", "is given beside highestTierAllowed", "give one of them")
    return NearWish(
        is_hard=fields.choice("mode", ("hard", "soft"), "hard") == "hard",
        tier=fields.integer("highestTierAllowed", least=0) if fields.has("highestTierAllowed") else None,
        tier_name=fields.text("highestTierName"),
    )


# Limits of namespaces ------------------------------------------------------------------------------------------------


def read_quota(obj: Fields) -> NamespaceQuota:
    """A ResourceQuota: what its status has, where it has been counted."""
    status, spec = obj.child("status"), obj.child("spec")
    hard = read_amounts(status, "hard") or read_amounts(spec, "hard")
    return NamespaceQuota(
        key=key_of(obj),
        namespace=obj.child("metadata").text("namespace"),
        hard=_plain(hard),
        used=_plain(read_amounts(status, "used")),
    )


def _plain(amounts: Mapping[str, int]) -> dict[str, int]:
    """Quotas of requests as the resources that pods ask for; counts of objects and limits are for others to keep."""
    plain: dict[str, int] = {}
    for name, amount in amounts.items():
        known = name.removeprefix("requests.")
        if not name.startswith(("limits.", "count/")):
            plain[known] = min(plain.get(known, amount), amount)
    return plain


def read_budget(obj: Fields) -> DisruptionBudget:
    """A PodDisruptionBudget: how many of its pods may go now."""
    return DisruptionBudget(
        key=key_of(obj),
        namespace=obj.child("metadata").text("namespace"),
        selector=read_selector(obj.child("spec"), "selector"),
        allowed=obj.child("status").integer("disruptionsAllowed", 0, least=0),
    )
