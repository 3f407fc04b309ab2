"""Groups of pods that start together, as one workload each. Started by `app` beside the reconciler of jobs.

It only carries out: what comes next for a group follows from its pods and its workload, as for every job.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.jobs import Jobs, write
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, Terms, View
from muster.dialects.kueue.defaults import IN_USE_FINALIZER
from muster.dialects.kueue.job_statuses import last_change_s, released
from muster.dialects.kueue.job_steps import WORKLOADS, Step, next_step, without_finalizer
from muster.dialects.kueue.names import IS_GROUP
from muster.dialects.kueue.pod_groups import (
    GROUPS,
    PODS,
    first_write,
    group_kind,
    group_object,
    is_complete,
    missing_owners,
    pod_writes,
)
from muster.dialects.kueue.validate_workload import has_condition, has_quota
from muster.engine.contracts import Integration
from muster.engine.pod_groups import group_name
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object
from muster.store.records import Key

MANAGED = "kueue.x-k8s.io/managed"  # the label of pods that were held back when they were made
_ABSENT_S = 60.0  # for so long a workload waits for pods that are being made anew


class PodGroups:
    """The reconciler of pod groups."""

    name = "pod groups"

    def __init__(self, pod_kind: Integration, jobs: Jobs) -> None:
        self._pod_kind = pod_kind
        self._kind = group_kind(pod_kind)
        self._jobs = jobs

    def keys(self, seen: Seen, _view: View) -> Iterable[Key]:
        if seen.key.resource == PODS:
            found = {term for obj in (seen.before, seen.now) if obj is not None for term in _groups_of(obj)}
            yield from (Key(GROUPS, seen.key.namespace, term.partition("/")[2]) for term in sorted(found))
        elif seen.key.resource == WORKLOADS and any(_is_group(obj) for obj in (seen.before, seen.now)):
            yield Key(GROUPS, seen.key.namespace, seen.key.name)

    async def reconcile(self, turn: Turn) -> None:
        view, term = turn.view, f"{turn.key.namespace}/{turn.key.name}"
        found = [pod for pod in view.with_term(PODS, "group", term) if self._jobs.is_ours(pod, view)]
        pods = [Fields(pod) for pod in sorted(found, key=_age)]
        workload = view.get(Key(WORKLOADS, turn.key.namespace, turn.key.name))
        own = Fields(workload) if _is_group(workload) and workload is not None else None
        if not pods:
            await self._without_pods(turn, own)
            return
        try:
            steps = self._steps(turn, pods, own)
        except InvalidObject as problem:
            await self._jobs.tell_problem(turn, dict(pods[0].values), problem)
            return
        for step in steps:
            await write(turn, step)
        if steps:
            await self._jobs.tell(turn, dict(pods[0].values), steps[0])

    def _steps(self, turn: Turn, pods: list[Fields], workload: Fields | None) -> list[Step]:
        if (first := first_write(pods, self._pod_kind)) is not None:
            return [first]
        if workload is None and not is_complete(pods, self._pod_kind):
            return []
        if workload is not None and (step := missing_owners(pods, workload)) is not None:
            return [step]
        group = group_object(pods, workload, self._pod_kind)
        own = [] if workload is None else [dict(workload.values)]
        case = self._jobs.case(turn, self._kind, dict(group.values), own)
        step = next_step(case)
        return [] if step is None else list(pod_writes(step, pods, self._pod_kind))

    async def _without_pods(self, turn: Turn, workload: Fields | None) -> None:
        """A workload without pods waits a while for others, where somebody makes them, and goes then."""
        if workload is None:
            return
        metadata = workload.child("metadata")
        if metadata.has("deletionTimestamp"):
            if (step := without_finalizer(WORKLOADS, workload, IN_USE_FINALIZER)) is not None:
                await write(turn, step)
            return
        if has_quota(workload) and has_condition(workload, "Evicted"):
            status = {**workload.values, "status": released(workload, turn.now_s)}
            await turn.update_status(Key(WORKLOADS, turn.key.namespace, turn.key.name), status)
            return
        has_maker = any(owner.text("kind") != "Pod" for owner in metadata.children("ownerReferences"))
        absent_s = turn.now_s - last_change_s(workload)
        if has_maker and absent_s < _ABSENT_S:
            turn.look_again(_ABSENT_S - absent_s)
            return
        await turn.delete(Key(WORKLOADS, turn.key.namespace, turn.key.name))


def _is_group(workload: Object | None) -> bool:
    annotations = ((workload or {}).get("metadata") or {}).get("annotations") or {}
    return annotations.get(IS_GROUP) == "true"


def _age(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _groups_of(pod: Object) -> Iterable[str]:
    """The group of a pod that was held back when it was made."""
    metadata = pod["metadata"]
    if (metadata.get("labels") or {}).get(MANAGED) != "true":
        return ()  # most pods are made by jobs, so this is asked first
    name = group_name(Fields(pod))
    return (f"{metadata['namespace']}/{name}",) if name else ()


INDEXES: dict[tuple[str, str], Terms] = {(PODS, "group"): _groups_of}
