"""Task groups: the parts of a gang, as an annotation defines them, and for how long a gang is waited for.

A group says how many pods it needs at least and what each asks for. That much is held for it before any of its pods
runs, whether or not the pods are there already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.model.documents import parse_value
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.quantity import ZERO
from muster.model.resources import CPU, PODS, amount_of

TIMEOUT_S = 15 * 60.0  # where the gang says nothing else
GROUPS_MOST = 1000
VCORE = "vcore"
HARD = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTerms:
    """What becomes of a gang that cannot start in time."""

    timeout_s: float = TIMEOUT_S
    is_hard: bool = False  # the application fails; else its pods start one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup:
    """`members_least` equal pods that have to start together with those of the other groups."""

    name: str
    members_least: int
    resources: Mapping[str, int]  # of one pod, in the engine's units
    spec: Mapping[str, Any] = field(default_factory=dict)  # of a pod that stands for one of its pods
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def as_pod(self, namespace: str, priority_class: str) -> Fields:
        """A pod that asks for as much and may be where those of the group may be."""
        metadata = {"namespace": namespace, "labels": dict(self.labels), "annotations": dict(self.annotations)}
        return Fields({"metadata": metadata, "spec": {**self.spec, "priorityClassName": priority_class}})


def gang_terms(text: str) -> GangTerms:
    """The terms of a policy's parameters, such as "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard"."""
    values = dict(part.split("=", 1) for part in text.split() if "=" in part)
    seconds = values.get("placeholderTimeoutInSeconds", "")
    is_number = seconds.isascii() and seconds.isdigit() and len(seconds) < 12
    timeout_s = float(seconds) if is_number and int(seconds) > 0 else TIMEOUT_S
    return GangTerms(timeout_s=timeout_s, is_hard=values.get("gangSchedulingStyle", "").lower() == HARD)


def read_task_groups(text: str, path: str) -> tuple[TaskGroup, ...]:
    """The task groups of an annotation."""
    value = parse_value(text, path)
    if not isinstance(value, list):
        raise InvalidObject(path, f"is {shown(value)}", "give a list of task groups")
    if len(value) > GROUPS_MOST:
        raise InvalidObject(path, f"has {len(value)} task groups", f"give at most {GROUPS_MOST}")
    groups = tuple(_group(Fields.of(item, f"{path}[{index}]")) for index, item in enumerate(value))
    seen: set[str] = set()
    for index, group in enumerate(groups):
        if group.name in seen:
            raise InvalidObject(f"{path}[{index}].name", f"is {shown(group.name)} again", "name each group once")
        seen.add(group.name)
    return groups


def _group(item: Fields) -> TaskGroup:
    name = item.text("name")
    if not name:
        raise item.error("name", "is missing", "name the group, as its pods do")
    members_least = item.integer("minMember")
    if members_least <= 0:
        raise item.error("minMember", f"is {members_least}", "give 1 or more")
    if not item.has("minResource"):
        raise item.error("minResource", "is missing", "say what one pod asks for")
    asked = _asked(item)
    spec = {
        key: item.raw(key)
        for key in ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
        if item.has(key)
    }
    container = {"name": "main", "resources": {"requests": asked, "limits": asked}}
    return TaskGroup(
        name=name,
        members_least=members_least,
        resources={key: amount_of(key, one) for key, one in Fields({"asked": asked}).quantities("asked").items()},
        spec={**spec, "containers": [container]},
        labels=item.text_map("labels"),
        annotations=item.text_map("annotations"),
    )


def _asked(item: Fields) -> dict[str, Any]:
    """What one pod asks for, by Kubernetes' names."""
    quantities = item.quantities("minResource")
    for name, quantity in quantities.items():
        if quantity < ZERO:
            raise InvalidObject(f"{item.at('minResource')}[{name}]", "is less than nothing", "give 0 or more")
    if CPU in quantities and VCORE in quantities:
        raise item.error("minResource", "has both cpu and vcore", "give one of them")
    if PODS in quantities:
        raise item.error("minResource", "has pods", "take it out: each pod is one")
    return {CPU if name == VCORE else name: value for name, value in item.child("minResource").values.items()}
