"""A group of pods as one job: an object made of its pods, and the writes to pods that follow from a write to it. Pure.

Called by the controller of pod groups. What comes next for a group is asked of `job_steps`, as for every job: here is
what that needs to know of a group, and the translation of the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.dialects.kueue import names
from muster.dialects.kueue.job_starts import pod_sets_in
from muster.dialects.kueue.job_steps import WORKLOADS, Step, Verb
from muster.dialects.kueue.job_workloads import PREBUILT
from muster.dialects.kueue.validate_workload import has_condition, has_quota
from muster.engine.contracts import Ending, Integration, JobPodSet, PodSetStart
from muster.engine.pod_groups import RETRIABLE, PodGroup, group_of, role_of
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

PODS = "pods"
GROUPS = "pod groups"  # no resource of a server: the key under which a group is looked at
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")


def group_kind(pod_kind: Integration) -> Integration:
    """The kind of job that groups are, on objects that `group_object` has made."""

    def members(group: Fields) -> list[Fields]:
        return list(group.children("pods"))

    def live(group: Fields) -> list[Fields]:
        return [pod for pod in members(group) if _is_live(pod, pod_kind)]

    def pod_sets(group: Fields) -> tuple[JobPodSet, ...]:
        if group.has("podSets"):
            return pod_sets_in(Fields({"spec": {"podSets": group.values["podSets"]}}))
        return _counted(live(group), pod_kind)

    def is_suspended(group: Fields) -> bool:
        held = [pod_kind.is_suspended(pod) for pod in live(group)]
        return any(held) if group.flag("isAdmitted") else all(held)

    def finished(group: Fields) -> Ending | None:
        return _ending(members(group), pod_kind)

    def start(group: Fields, starts: tuple[PodSetStart, ...]) -> dict[str, Any]:
        given = {one.name: one for one in starts}
        begun = [_started(pod, pod_kind, given) for pod in members(group)]
        return {**group.values, "pods": begun}

    def is_ready(group: Fields) -> bool:
        return sum(pod_kind.is_ready(pod) for pod in members(group)) >= _group(members(group)).total

    def reclaimable(group: Fields) -> Mapping[str, int]:
        if _group(members(group)).is_serving:
            return {}
        return Counter(role_of(pod) for pod in members(group) if _phase(pod) == "Succeeded")

    return replace(
        pod_kind,
        pod_sets=pod_sets,
        is_suspended=is_suspended,
        finished=finished,
        start=start,
        is_active=lambda group: any(pod_kind.is_active(pod) for pod in members(group)),
        is_ready=is_ready,
        reclaimable=reclaimable,
        is_marked=lambda _group: True,
    )


def group_object(pods: Sequence[Fields], workload: Fields | None, pod_kind: Integration) -> Fields:
    """The pods of one group, at least one, as one object; raises where they contradict each other."""
    group, first = _group(pods), pods[0].child("metadata")
    labels = first.text_map("labels")
    for pod in pods:
        metadata = pod.child("metadata")
        if group_of(pod) != group or metadata.text_map("labels").get(names.QUEUE_NAME) != labels.get(names.QUEUE_NAME):
            problem = f"says another size or queue of the group {group.name} than {first.text('name')} does"
            raise InvalidObject(f"pods[{metadata.text('name')}].metadata", problem, "give all pods of a group the same")
    kept = sorted({one for pod in pods for one in pod.child("metadata").items("finalizers")} & {pod_kind.finalizer})
    made: dict[str, Any] = {
        "metadata": {
            **{
                name: value for name, value in first.values.items() if name in ("namespace", "uid", "creationTimestamp")
            },
            "name": group.name,
            "labels": {name: value for name, value in labels.items() if name != PREBUILT},
            "annotations": {n: v for n, v in first.text_map("annotations").items() if n != PREBUILT},
            "finalizers": kept,
        },
        "pods": [pod.values for pod in pods],
    }
    if workload is not None:
        is_let = has_quota(workload) and has_condition(workload, "Admitted") and not has_condition(workload, "Evicted")
        return Fields({**made, "podSets": workload.child("spec").items("podSets"), "isAdmitted": is_let})
    return Fields(made)


def is_complete(pods: Sequence[Fields], pod_kind: Integration) -> bool:
    """Whether a workload can be made of a group: all its pods are there, or one that stands for all."""
    group = _group(pods)
    return group.is_fast or sum(_counts(pod, pod_kind) for pod in pods) >= group.total


def first_write(pods: Sequence[Fields], pod_kind: Integration) -> Step | None:
    """What is settled before the group is looked at as a whole: pods that go, and pods that are too many."""
    for pod in pods:
        metadata = pod.child("metadata")
        if metadata.has("deletionTimestamp") and pod_kind.finalizer in metadata.items("finalizers"):
            return Step(Verb.UPDATE, PODS, _let_go(pod, pod_kind.finalizer))
    counting = [pod for pod in pods if _counts(pod, pod_kind)]
    if len(counting) <= _group(pods).total:
        return None
    waiting = [pod for pod in counting if pod_kind.is_suspended(pod)]
    return Step(Verb.DELETE, PODS, dict((waiting or counting)[-1].values))


def pod_writes(step: Step, pods: Sequence[Fields], pod_kind: Integration) -> Iterator[Step]:
    """The writes that a step of a group amounts to."""
    if step.resource == WORKLOADS:
        yield replace(step, obj=_of_group(step.obj, pods)) if step.verb is Verb.CREATE else step
    elif step.verb is Verb.DELETE:
        for pod in pods:
            if _is_live(pod, pod_kind) and not pod_kind.is_suspended(pod):
                yield replace(step, resource=PODS, obj=dict(pod.values))
    else:
        is_let_go = not step.obj["metadata"].get("finalizers")
        for before, after in zip(pods, step.obj["pods"], strict=True):
            written = _let_go(Fields(after), pod_kind.finalizer) if is_let_go else after
            if written != before.values:
                yield replace(step, resource=PODS, obj=dict(written))


def missing_owners(pods: Sequence[Fields], workload: Fields) -> Step | None:
    """The workload with the owners of pods that have come later, so that it stays as long as any of them."""
    metadata = workload.child("metadata")
    known = {owner.text("uid") for owner in metadata.children("ownerReferences")}
    new = [owner for owner in _owners(pods) if owner["uid"] not in known]
    if not new or metadata.has("deletionTimestamp"):
        return None
    changed = {**metadata.values, "ownerReferences": [*metadata.items("ownerReferences"), *new]}
    return Step(Verb.UPDATE, WORKLOADS, {**workload.values, "metadata": changed})


# Pods ---------------------------------------------------------------------------------------------------------------


def _group(pods: Sequence[Fields]) -> PodGroup:
    group = group_of(pods[0])
    assert group is not None, "only pods of a group are taken for one"
    return group


def _phase(pod: Fields) -> str:
    return pod.child("status").text("phase")


def _is_live(pod: Fields, pod_kind: Integration) -> bool:
    """Whether a pod waits or runs, and is not on its way out."""
    return pod_kind.finished(pod) is None and not pod.child("metadata").has("deletionTimestamp")


def _counts(pod: Fields, pod_kind: Integration) -> bool:
    """Whether a pod takes one of the group's places: one that has succeeded does, one that failed can be replaced."""
    return _is_live(pod, pod_kind) or _phase(pod) == "Succeeded"


def _counted(pods: Sequence[Fields], pod_kind: Integration) -> tuple[JobPodSet, ...]:
    """The roles of a group by name; where one pod stands for all, there is one role."""
    group = _group(pods)
    by_role: dict[str, list[Fields]] = {}
    for pod in pods:
        by_role.setdefault(role_of(pod), []).append(pod)
    if group.is_fast and len(by_role) == 1:
        counts = dict.fromkeys(by_role, group.total)
    else:
        counts = {name: len(members) for name, members in by_role.items()}
    sets = []
    for name in sorted(by_role):
        (one,) = pod_kind.pod_sets(by_role[name][0])
        sets.append(replace(one, name=name, count=counts[name]))
    return tuple(sets)


def _started(pod: Fields, pod_kind: Integration, given: Mapping[str, PodSetStart]) -> Mapping[str, Any]:
    if not _is_live(pod, pod_kind) or not pod_kind.is_suspended(pod):
        return pod.values
    start = given.get(role_of(pod))
    return pod.values if start is None else pod_kind.start(pod, (start,))


def _ending(pods: Sequence[Fields], pod_kind: Integration) -> Ending | None:
    group = _group(pods)
    if group.is_serving:
        return None
    succeeded = sum(_phase(pod) == "Succeeded" for pod in pods)
    message = f"Pods succeeded: {succeeded}/{group.total}."
    if succeeded >= group.total:
        return Ending(True, message)
    is_final = any(pod.child("metadata").text_map("annotations").get(RETRIABLE) == "false" for pod in pods)
    has_begun = any(pod_kind.finished(pod) is not None for pod in pods)
    if is_final and has_begun and not any(_is_live(pod, pod_kind) for pod in pods):
        return Ending(False, message)
    return None


def _let_go(pod: Fields, finalizer: str) -> dict[str, Any]:
    metadata = pod.child("metadata")
    finalizers = metadata.items("finalizers")
    if finalizer not in finalizers:
        return dict(pod.values)
    left = [one for one in finalizers if one != finalizer]
    return {**pod.values, "metadata": {**metadata.values, "finalizers": left}}


def _owners(pods: Sequence[Fields]) -> list[dict[str, Any]]:
    """Whoever makes the pods, as that stays when they come and go; else the pods themselves."""
    found: dict[str, dict[str, Any]] = {}
    for pod in pods:
        metadata = pod.child("metadata")
        makers = [one for one in metadata.children("ownerReferences") if one.flag("controller")]
        itself = {"apiVersion": "v1", "kind": "Pod", "name": metadata.text("name"), "uid": metadata.text("uid")}
        for owner in [{name: one.text(name) for name in _OWNER_FIELDS} for one in makers] or [itself]:
            found[owner["uid"]] = owner
    return list(found.values())


def _of_group(workload: dict[str, Any], pods: Sequence[Fields]) -> dict[str, Any]:
    """A new workload under the name of its group."""
    metadata = workload["metadata"]
    changed = {
        **metadata,
        "name": _group(pods).name,
        "annotations": {**metadata.get("annotations", {}), names.IS_GROUP: "true"},
        "ownerReferences": _owners(pods),
    }
    return {**workload, "metadata": changed}
