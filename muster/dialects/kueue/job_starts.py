"""What the pods of a job get when its workload is admitted: nodes, tolerations, labels, gates. Used by `job_steps`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.dialects.kueue import names
from muster.dialects.kueue.gates import FeatureGates
from muster.engine.contracts import JobPodSet, PodSetStart
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown


def pod_sets_in(workload: Fields) -> tuple[JobPodSet, ...]:
    """The pod sets as the job had them when its workload was made of it."""
    return tuple(
        JobPodSet(
            name=item.text("name", "main"),
            count=item.integer("count", 1),
            template=item.child("template").values,
            template_path="",
        )
        for item in workload.child("spec").children("podSets")
    )


def missing_flavors(workload: Fields, flavors: Mapping[str, Fields]) -> list[str]:
    """Flavors of the admission that are not there (yet)."""
    found = {name for item in _assignments(workload) for name in item.text_map("flavors").values()}
    return sorted(found - flavors.keys())


def starts_of(workload: Fields, flavors: Mapping[str, Fields], gates: FeatureGates) -> tuple[PodSetStart, ...]:
    """What each pod set gets; raises where flavors and checks contradict each other."""
    return tuple(_start(workload, item, flavors, gates) for item in _assignments(workload))


def _start(workload: Fields, item: Fields, flavors: Mapping[str, Fields], gates: FeatureGates) -> PodSetStart:
    name = item.text("name", "main")
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    closed: tuple[str, ...] = ()
    if gates.is_on("TopologyAwareScheduling"):
        labels[names.POD_SET] = name
        annotations[names.WORKLOAD] = workload.child("metadata").text("name")
        if item.has("topologyAssignment") or item.has("delayedTopologyRequest"):
            labels[names.TOPOLOGY_MANAGED] = "true"
            closed = (names.TOPOLOGY_GATE,)
    given = [flavors[flavor].child("spec") for flavor in dict.fromkeys(item.text_map("flavors").values())]
    node_labels = [spec.text_map("nodeLabels") for spec in given]
    tolerations: list[Any] = [one for spec in given for one in spec.items("tolerations")]
    updates = list(_updates(workload, name))
    tolerations += [one for update in updates for one in update.items("tolerations")]
    return PodSetStart(
        name=name,
        count=item.integer("count", 1, least=0),
        node_labels=_united(*node_labels, *(update.text_map("nodeSelector") for update in updates)),
        tolerations=tuple(one for index, one in enumerate(tolerations) if one not in tolerations[:index]),
        labels=_united(labels, *(update.text_map("labels") for update in updates)),
        annotations=_united(annotations, *(update.text_map("annotations") for update in updates)),
        gates=closed,
    )


def _assignments(workload: Fields) -> Iterator[Fields]:
    return workload.child("status").child("admission").children("podSetAssignments")


def _updates(workload: Fields, name: str) -> Iterator[Fields]:
    """What admission checks change in the pods of a set."""
    for check in workload.child("status").children("admissionChecks"):
        for update in check.children("podSetUpdates"):
            if update.text("name") == name:
                yield update


def _united(*maps: Mapping[str, str]) -> dict[str, str]:
    """All of them; raises where two say different things of one key."""
    result: dict[str, str] = {}
    for one in maps:
        for key, value in one.items():
            if result.setdefault(key, value) != value:
                problem = f"asks for {shown(result[key])} and {shown(value)} as {key}"
                raise InvalidObject("status.admission", problem, "give flavors and checks that agree")
    return result
