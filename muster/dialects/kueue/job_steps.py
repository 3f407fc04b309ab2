"""What comes next for a job and its workload: one write, which follows from the objects alone.

Called by the job controller again and again until nothing is left to do. As every step is a function of what is
stored, it does not matter after which of them a controller was stopped and started anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

from muster.dialects.kueue import job_statuses as statuses
from muster.dialects.kueue.defaults import IN_USE_FINALIZER
from muster.dialects.kueue.job_matching import is_matching, is_of_class, updated_spec
from muster.dialects.kueue.job_starts import missing_flavors, pod_sets_in, starts_of
from muster.dialects.kueue.job_workloads import (
    Surroundings,
    namespace_of,
    prebuilt_name,
    unchecked_workload,
    workload_of,
)
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.validate_workload import has_condition, has_quota
from muster.dialects.kueue.write import Event
from muster.engine.contracts import Ending, Integration
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.plain import is_same

WORKLOADS = f"workloads.{GROUP}"
NOT_ADMITTED = "Not admitted by cluster queue"
MISSING = "Missing Workload; unable to restore pod templates"
NOT_MATCHING = "No matching Workload; restoring pod templates according to existent Workload"
OUT_OF_SYNC = "The prebuilt workload is out of sync with its user job"


class Verb(Enum):
    """What a write does."""

    CREATE = "create"
    UPDATE = "update"
    UPDATE_STATUS = "update status"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Step:
    """One write, and what is told about the job once it is made."""

    verb: Verb
    resource: str
    obj: dict[str, Any]
    event: Event | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job with all that decides on its next step."""

    job: Fields
    integration: Integration
    workloads: tuple[Fields, ...]  # its own, or the one that it names
    flavors: Mapping[str, Fields]
    surroundings: Surroundings
    has_readiness: bool = True  # whether workloads tell that their pods are ready

    @property
    def now(self) -> float:
        return self.surroundings.now

    @cached_property
    def ending(self) -> Ending | None:
        return self.integration.finished(self.job)

    @cached_property
    def is_suspended(self) -> bool:
        return self.integration.is_suspended(self.job)

    @property
    def is_active(self) -> bool:
        return self.integration.is_active(self.job)

    @property
    def is_prebuilt(self) -> bool:
        return bool(prebuilt_name(self.job))


def next_step(case: Case) -> Step | None:
    """The write that brings a managed job on; `None` when there is nothing to do but wait."""
    if _is_deleting(case.job):
        return _let_go(case)
    workload, doubles = _sorted_out(case.workloads)
    for double in doubles:
        return _removed(case, double)
    if workload is None:
        return _without_workload(case)
    if case.ending is not None or has_condition(workload, "Finished"):
        return _ended(case, workload)
    if _is_deleting(workload):
        stopping = _stopped(case, workload, "Workload is deleted")
        return stopping or (None if case.is_active else without_finalizer(WORKLOADS, workload, IN_USE_FINALIZER))
    if case.is_prebuilt and not _is_owner(case.job, workload):
        return _owned(case, workload)
    made = _made_now(case, workload)
    if not is_matching(made, workload, is_waiting=not has_quota(workload) and not case.is_prebuilt):
        return _parted(case, workload, made)
    return _classified(case, workload, made) or _noted(case, workload) or _moved(case, workload)


def without_finalizer(resource: str, obj: Fields, finalizer: str) -> Step | None:
    """Let an object go, as far as it is up to us."""
    metadata = obj.child("metadata")
    finalizers = metadata.items("finalizers")
    if not finalizer or finalizer not in finalizers:
        return None
    left = [one for one in finalizers if one != finalizer]
    return Step(Verb.UPDATE, resource, {**obj.values, "metadata": {**metadata.values, "finalizers": left}})


# The ways a job can go ----------------------------------------------------------------------------------------------


def _let_go(case: Case) -> Step | None:
    """A job that is being deleted keeps neither its workload nor itself."""
    for workload in case.workloads:
        if step := without_finalizer(WORKLOADS, workload, IN_USE_FINALIZER):
            return step
    return without_finalizer(case.integration.resource, case.job, case.integration.finalizer)


def _without_workload(case: Case) -> Step | None:
    if case.ending is not None:
        return without_finalizer(case.integration.resource, case.job, case.integration.finalizer)
    if not case.is_suspended:
        return _stopped(case, None, MISSING)
    if case.is_active or case.is_prebuilt:
        return None
    made = workload_of(case.job, case.integration, case.surroundings).obj
    metadata = {name: value for name, value in made["metadata"].items() if name != "creationTimestamp"}
    event = _event(case, "CreatedWorkload", f"Created Workload: {_key(Fields(made))}")
    return Step(Verb.CREATE, WORKLOADS, {**made, "metadata": metadata}, event)


def _ended(case: Case, workload: Fields) -> Step | None:
    """A job or its workload has come to an end: the workload says so, and nothing holds either of them."""
    if _is_deleting(workload) and (step := without_finalizer(WORKLOADS, workload, IN_USE_FINALIZER)):
        return step
    ending = case.ending
    if ending is not None and not has_condition(workload, "Finished"):
        reason = statuses.SUCCEEDED if ending.has_succeeded else statuses.FAILED
        event = _event(case, "FinishedWorkload", f"Workload '{_key(workload)}' is declared finished")
        return _status(workload, statuses.finished(workload, reason, ending.message, case.now), event)
    return (
        None if ending is None else without_finalizer(case.integration.resource, case.job, case.integration.finalizer)
    )


def _made_now(case: Case, workload: Fields) -> Fields:
    """The workload that would be made of the job now, had it never been started."""
    if case.integration.suspend is None and not case.is_suspended:
        return workload  # It runs as it is; what may still change of it needs no other quota.
    asked = case.job
    if has_quota(workload) or not case.is_suspended:
        asked = Fields(case.integration.restore(case.job, pod_sets_in(workload)))
    # What was right when the workload was made is not judged again: a job has to be stopped whatever it looks like.
    return Fields(unchecked_workload(asked, case.integration, replace(case.surroundings, strict=False))[0])


def _parted(case: Case, workload: Fields, made: Fields) -> Step | None:
    """A workload that is no longer what its job asks for follows it, or makes room for another."""
    if case.is_prebuilt:
        return _status(workload, statuses.finished(workload, "OutOfSync", OUT_OF_SYNC, case.now))
    if not case.is_suspended:
        return _stopped(case, workload, NOT_MATCHING)
    if has_quota(workload):
        return None if case.is_active else _removed(case, workload)
    event = _event(case, "UpdatedWorkload", f"Updated not matching Workload for suspended job: {_key(workload)}")
    return Step(Verb.UPDATE, WORKLOADS, {**workload.values, "spec": updated_spec(workload, made)}, event)


def _classified(case: Case, workload: Fields, made: Fields) -> Step | None:
    """A workload gets the priority of another class as soon as its job names it."""
    if case.is_prebuilt or is_of_class(workload, made, is_waiting=not has_quota(workload)):
        return None
    names = ("priority", "priorityClassRef")
    spec = {**workload.child("spec").values, **{name: made.child("spec").values.get(name) for name in names}}
    event = _event(case, "UpdatedWorkload", f"Updated workload priority class: {_key(workload)}")
    return Step(Verb.UPDATE, WORKLOADS, {**workload.values, "spec": spec}, event)


def _noted(case: Case, workload: Fields) -> Step | None:
    """What the status of a workload tells of its job."""
    is_evicted = has_condition(workload, "Evicted")
    is_counted = has_condition(workload, "Admitted") and case.surroundings.gates.is_on("ReclaimablePods")
    done = case.integration.reclaimable(case.job) if is_counted else {}
    if (status := statuses.reclaimed(workload, done)) is not None:
        return _status(workload, status)
    if case.is_suspended and has_quota(workload) and has_condition(workload, "Admitted") and not is_evicted:
        return None  # It may start, which goes first: its pods should not have to wait for a note.
    is_ready = not case.is_suspended and case.integration.is_ready(case.job)
    if case.has_readiness and (status := statuses.readiness(workload, is_ready, case.now)) is not None:
        return _status(workload, status)
    return None


def _moved(case: Case, workload: Fields) -> Step | None:
    """Start a job that may run, stop one that may not, and give back what a stopped one has held."""
    holds_quota, is_evicted = has_quota(workload), has_condition(workload, "Evicted")
    if is_evicted and (holds_quota or not case.is_suspended):
        if step := _stopped(case, workload, statuses.message_of(workload, "Evicted")):
            return step
        if not holds_quota or case.is_active:
            return None
        return _status(workload, statuses.released(workload, case.now))
    is_admitted = holds_quota and has_condition(workload, "Admitted")
    if case.is_suspended:
        return _started(case, workload) if is_admitted else None
    if is_admitted and not _is_stopping(case):
        return None
    return _stopped(case, workload, NOT_ADMITTED)  # A stop that was begun is ended before the job may start again.


def _started(case: Case, workload: Fields) -> Step:
    if missing := missing_flavors(workload, case.flavors):
        problem = f"names the ResourceFlavor {missing[0]}, which is not there"
        raise InvalidObject("status.admission.podSetAssignments", problem, "create it")
    try:
        starts = starts_of(workload, case.flavors, case.surroundings.gates)
        job = case.integration.start(case.job, starts)
    except InvalidObject as problem:
        return _status(workload, statuses.finished(workload, "FailedToStart", str(problem), case.now))
    queue = workload.child("status").child("admission").text("clusterQueue")
    event = _event(case, "Started", f"Admitted by clusterQueue {queue}")
    return Step(Verb.UPDATE, case.integration.resource, job, event)


def _is_stopping(case: Case) -> bool:
    """Whether a job that still has its places was told to stop."""
    return case.integration.suspend is not None and case.integration.suspend(case.job) == case.job.values


def _stopped(case: Case, workload: Fields | None, why: str) -> Step | None:
    """The next step on the way to a job that waits as it did before it ever ran; `None` when it does."""
    kind, job = case.integration, case.job
    event = _event(case, "Stopped", why)
    if kind.suspend is None:
        return None if case.is_suspended else Step(Verb.DELETE, kind.resource, dict(job.values), event)
    suspended = kind.suspend(job)
    if suspended != job.values:
        return Step(Verb.UPDATE, kind.resource, suspended, event)
    restored = kind.restore(job, pod_sets_in(workload) if workload is not None else ())
    if is_same(restored, job.values):
        return None
    reset = kind.reset(job)
    if reset != job.values:
        return Step(Verb.UPDATE_STATUS, kind.resource, reset)
    return Step(Verb.UPDATE, kind.resource, restored)


# Workloads ----------------------------------------------------------------------------------------------------------


def _sorted_out(workloads: tuple[Fields, ...]) -> tuple[Fields | None, tuple[Fields, ...]]:
    """The workload of a job, and those that it has too many: the one that holds quota stays, else the oldest."""

    def rank(workload: Fields) -> tuple[bool, bool, str, str]:
        metadata = workload.child("metadata")
        is_on_its_way = _is_deleting(workload)
        return (not has_quota(workload), is_on_its_way, metadata.text("creationTimestamp"), metadata.text("name"))

    ranked = sorted(workloads, key=rank)
    return (ranked[0] if ranked else None), tuple(ranked[1:])


def _removed(case: Case, workload: Fields) -> Step | None:
    if _is_deleting(workload):
        return without_finalizer(WORKLOADS, workload, IN_USE_FINALIZER)
    event = _event(case, "DeletedWorkload", f"Deleted not matching Workload: {_key(workload)}")
    return Step(Verb.DELETE, WORKLOADS, dict(workload.values), event)


def _owned(case: Case, workload: Fields) -> Step | None:
    """Make a workload that was built before its job the job's own, unless it is another's."""
    metadata = workload.child("metadata")
    owners = metadata.items("ownerReferences")
    if any(owner.flag("controller") for owner in metadata.children("ownerReferences")):
        return None
    made = workload_of(case.job, case.integration, case.surroundings).obj["metadata"]
    changed = {
        **metadata.values,
        "ownerReferences": [*owners, *made["ownerReferences"]],
        "finalizers": list(dict.fromkeys((*metadata.items("finalizers"), IN_USE_FINALIZER))),
    }
    return Step(Verb.UPDATE, WORKLOADS, {**workload.values, "metadata": changed})


def _is_owner(job: Fields, workload: Fields) -> bool:
    uid = job.child("metadata").text("uid")
    return any(owner.text("uid") == uid for owner in workload.child("metadata").children("ownerReferences"))


def _is_deleting(obj: Fields) -> bool:
    return obj.child("metadata").has("deletionTimestamp")


def _status(workload: Fields, status: dict[str, Any], event: Event | None = None) -> Step:
    return Step(Verb.UPDATE_STATUS, WORKLOADS, {**workload.values, "status": status}, event)


def _event(case: Case, reason: str, message: str) -> Event:
    return Event("Normal", _key(case.job), reason, message)


def _key(obj: Fields) -> str:
    return f"{namespace_of(obj)}/{obj.child('metadata').text('name')}"
