"""What becomes of a workload whose queue sends it to other clusters, as its own cluster writes it down.

Called by the controllers of `multikueue` again and again. A workload that holds quota is offered to some clusters
(`nominatedClusterNames`); the first that has room for it gets it, which is written down (`clusterName`) before its job
is made there. So a job is in one cluster alone, whichever write was the last before a restart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from muster.dialects.kueue import job_statuses as statuses
from muster.dialects.kueue import names
from muster.dialects.kueue.job_steps import WORKLOADS, Step, Verb
from muster.dialects.kueue.validate_workload import has_condition, has_quota
from muster.dialects.kueue.write import Event, status_of
from muster.engine.contracts import Integration
from muster.engine.dispatch import Candidate, Dispatch, next_round_s, nominated
from muster.engine.job_forms import named_at
from muster.model.fields import Fields
from muster.model.times import moment_text

PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"
LOST = "Reserving remote lost"
DIGEST = "muster.dev/multikueue-spec"  # the annotation of a copy that says what it is a copy of
DATA = "muster.dev/data"  # the annotation that names sets of data: those a job needs, or those near a cluster
_DELAY_MOST_S = 300
_COUNTS = ("succeeded", "failed")  # of pods, which never become fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingRules:
    """What the configuration says of several clusters."""

    kinds: tuple[Integration, ...] = ()  # the jobs that can be sent
    dispatch: Dispatch = field(default_factory=Dispatch)
    origin: str = "multikueue"  # the label that copies get
    lost_s: float = 900.0  # for how long a cluster may be away before its jobs are sent elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """What is known of a workload and its job in one cluster."""

    cluster: str
    is_reachable: bool = True
    lost_at: float | None = None  # since when it cannot be reached; None: it can, or nobody has tried yet
    workload: Fields | None = None
    job: Fields | None = None

    @property
    def is_gone(self) -> bool:
        return self.is_reachable and self.workload is None and self.job is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A workload with all that decides on where it goes."""

    workload: Fields
    check: str
    copies: tuple[Copy, ...]  # one for each cluster of the check, in its order
    job: Fields | None = None
    kind: Integration | None = None  # None: it is none that can be sent
    candidates: tuple[Candidate, ...] = ()
    rules: SendingRules = field(default_factory=SendingRules)
    now: float = 0.0

    @property
    def state(self) -> str:
        return _check_of(self.workload, self.check).text("state", PENDING)

    @property
    def offers(self) -> tuple[str, ...]:
        return self.workload.child("status").texts("nominatedClusterNames")

    def copy_in(self, cluster: str) -> Copy:
        """The copy in a cluster; one that the check no longer names is lost for good."""
        found = (one for one in self.copies if one.cluster == cluster)
        return next(found, Copy(cluster=cluster, is_reachable=False, lost_at=float("-inf")))

    def is_lost(self, copy: Copy) -> bool:
        return not copy.is_reachable and (due_s := self.lost_due_s(copy)) is not None and due_s <= self.now

    def lost_due_s(self, copy: Copy) -> float | None:
        return None if copy.is_reachable or copy.lost_at is None else copy.lost_at + self.rules.lost_s


@dataclass(frozen=True, slots=True)
class Course:
    """What comes next for a workload: writes in their order, and when to look again if nothing happens before."""

    steps: tuple[Step, ...] = ()
    due_s: float | None = None


NOTHING = Course()


def is_wanted(workload: Fields) -> bool:
    """Whether a workload may run somewhere."""
    if workload.child("metadata").has("deletionTimestamp") or not workload.child("spec").flag("active", True):
        return False
    is_over = has_condition(workload, "Finished") or has_condition(workload, "Evicted")
    return has_quota(workload) and not is_over


def digest_of(workload: Fields) -> str:
    """A text that differs where two workloads ask for different things."""
    asked = {name: value for name, value in workload.child("spec").values.items() if name != "active"}
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def is_copy_of(workload: Fields, copy: Fields) -> bool:
    """Whether a copy asks for what the workload asks for now."""
    return copy.child("metadata").text_map("annotations").get(DIGEST) == digest_of(workload)


def has_room(workload: Fields, copy: Fields | None) -> bool:
    """Whether the cluster of a copy has given it quota, and nothing has come of it yet."""
    if copy is None or copy.child("metadata").has("deletionTimestamp") or not is_copy_of(workload, copy):
        return False
    return has_quota(copy) and not has_condition(copy, "Evicted") and not has_condition(copy, "Finished")


def course(sending: Sending) -> Course:
    """The writes that bring a workload on in its own cluster."""
    workload = sending.workload
    if workload.child("metadata").has("deletionTimestamp") or has_condition(workload, "Finished"):
        return NOTHING
    if chosen := workload.child("status").text("clusterName"):
        return _sent(sending, sending.copy_in(chosen))
    if not is_wanted(workload):
        return Course((_cleared(sending),)) if sending.offers else NOTHING
    if sending.state in (RETRY, REJECTED):
        return NOTHING
    if sending.kind is None:
        owners = workload.child("metadata").children("ownerReferences")
        kinds = ", ".join(one.text("kind") for one in owners) or "nobody"
        return Course((_checked(sending, REJECTED, f"No multikueue adapter found for workloads of {kinds}"),))
    if sending.state == READY:
        return Course((_checked(sending, RETRY, LOST),))
    return _offered(sending)


# Before a cluster has it ---------------------------------------------------------------------------------------------


def _offered(sending: Sending) -> Course:
    """Offer a workload to clusters, and give it to the first that has room."""
    if any(copy.is_reachable and copy.job is not None for copy in sending.copies):
        return NOTHING  # what is left of an earlier try goes first, or it would run twice
    winners = [
        copy
        for copy in sending.copies
        if copy.cluster in sending.offers and copy.is_reachable and has_room(sending.workload, copy.workload)
    ]
    if winners:
        return Course((_given(sending, min(winners, key=_reserved_at)),))
    dispatch = sending.rules.dispatch
    if dispatch.is_outside:
        return NOTHING
    waited_s = sending.now - statuses.condition_of(sending.workload, "QuotaReserved").at
    wanted = nominated(
        sending.candidates, sending.offers, dispatch, waited_s=waited_s, data=_data_of(sending.job or Fields({}))
    )
    due_s = next_round_s(waited_s, dispatch)
    due_s = sending.now + due_s if due_s is not None and len(wanted) < len(sending.copies) else None
    if wanted == sending.offers:
        return Course(due_s=due_s)
    return Course((_status(sending, {**status_of(sending.workload.values), "nominatedClusterNames": list(wanted)}),))


def _given(sending: Sending, copy: Copy) -> Step:
    status = status_of(sending.workload.values)
    status.pop("nominatedClusterNames", None)
    status["clusterName"] = copy.cluster
    made = Fields({**sending.workload.values, "status": status})
    told = f'The workload got reservation on "{copy.cluster}"'
    event = Event("Normal", "", "MultiKueue", told)
    return _checked(sending, _state_of(sending), told, of=made, event=event)


def _state_of(sending: Sending) -> str:
    """Ready, where the job here may be started because nobody here runs it; else it stays held back."""
    kind, job = sending.kind, sending.job
    if kind is None or job is None or not kind.managed_by:
        return PENDING
    return READY if named_at(job, kind.managed_by) == names.MULTIKUEUE else PENDING


def _reserved_at(copy: Copy) -> float:
    assert copy.workload is not None, "it has room"
    return statuses.condition_of(copy.workload, "QuotaReserved").at


def _data_of(obj: Fields) -> frozenset[str]:
    named = obj.child("metadata").text_map("annotations").get(DATA, "")
    return frozenset(part.strip() for part in named.split(",") if part.strip())


# While a cluster has it ----------------------------------------------------------------------------------------------


def _sent(sending: Sending, copy: Copy) -> Course:
    is_lost = sending.is_lost(copy)
    if copy.is_reachable and _has_ended(copy):
        return _ended(sending, copy)
    if not is_wanted(sending.workload):
        if not copy.is_gone and not is_lost:
            return Course(due_s=sending.lost_due_s(copy))
        return Course((*_job_status(sending, _idle(sending.job)), _cleared(sending)))
    if copy.is_reachable and has_room(sending.workload, copy.workload):
        return _running(sending, copy)
    if copy.is_reachable or is_lost:
        return Course((_checked(sending, RETRY, LOST) if sending.state == READY else _cleared(sending),))
    return Course(due_s=sending.lost_due_s(copy))


def _has_ended(copy: Copy) -> bool:
    """Whether a cluster says that it has done what it was given: the word of one that has no such job counts not."""
    return copy.workload is not None and copy.job is not None and has_condition(copy.workload, "Finished")


def _ended(sending: Sending, copy: Copy) -> Course:
    """Write down here how it ended there."""
    assert copy.workload is not None and copy.job is not None, "it has ended"
    there = statuses.condition_of(copy.workload, "Finished")
    message = statuses.message_of(copy.workload, "Finished")
    status = statuses.finished(sending.workload, there.reason or statuses.SUCCEEDED, message, sending.now)
    return Course((*_job_status(sending, _mirrored(sending.job, copy.job)), _status(sending, status)))


def _running(sending: Sending, copy: Copy) -> Course:
    steps = []
    state = _state_of(sending)
    if sending.state != state:
        steps.append(_checked(sending, state, f'The workload got reservation on "{copy.cluster}"'))
    kind, job = sending.kind, sending.job
    is_started = kind is not None and job is not None and state == READY and not kind.is_suspended(job)
    if is_started and copy.job is not None:
        steps += _job_status(sending, _mirrored(job, copy.job))
    return Course(tuple(steps))


def _mirrored(job: Fields | None, there: Fields) -> dict[str, Any]:
    """The status of a job as another cluster has it; a cluster that began anew does not undo what was counted."""
    known = job.child("status").values if job is not None else {}
    status = dict(there.child("status").values)
    for name in _COUNTS:
        counts = [one[name] for one in (known, status) if isinstance(one.get(name), int)]
        if counts:
            status[name] = max(counts)
    return status


def _idle(job: Fields | None) -> dict[str, Any]:
    """The status of a job of which nothing runs."""
    known = job.child("status").values if job is not None else {}
    return {name: known[name] for name in _COUNTS if name in known}


def _job_status(sending: Sending, status: Mapping[str, Any]) -> tuple[Step, ...]:
    kind, job = sending.kind, sending.job
    if kind is None or job is None or kind.finished(job) is not None or job.child("status").values == status:
        return ()
    return (Step(Verb.UPDATE_STATUS, kind.resource, {**job.values, "status": dict(status)}),)


# Writes --------------------------------------------------------------------------------------------------------------


def _cleared(sending: Sending) -> Step:
    """No cluster has it any more."""
    status = status_of(sending.workload.values)
    for name in ("clusterName", "nominatedClusterNames"):
        status.pop(name, None)
    return _status(sending, status)


def _check_of(workload: Fields, name: str) -> Fields:
    checks = workload.child("status").children("admissionChecks")
    return next((one for one in checks if one.text("name") == name), Fields({}))


def _checked(
    sending: Sending, state: str, message: str, *, of: Fields | None = None, event: Event | None = None
) -> Step:
    """The write that says how the check of a workload stands."""
    workload = of or sending.workload
    status = status_of(workload.values)
    before = _check_of(workload, sending.check).values
    check = {**before, "name": sending.check, "state": state, "message": message}
    if state == RETRY:
        check["requeueAfterSeconds"] = _delay_s(before.get("retryCount") or 0)
    if before.get("state") != state or "lastTransitionTime" not in before:
        check["lastTransitionTime"] = moment_text(sending.now)
    others = status.get("admissionChecks") or []
    is_known = any(one.get("name") == sending.check for one in others)
    status["admissionChecks"] = (
        [check if one.get("name") == sending.check else one for one in others] if is_known else [*others, check]
    )
    return _status(sending, status, event)


def _delay_s(tries: int) -> int:
    """How long a workload waits before it is sent anew: the first time not at all."""
    return min(_DELAY_MOST_S, 2 ** min(tries, 10)) if tries else 0


def _status(sending: Sending, status: dict[str, Any], event: Event | None = None) -> Step:
    return Step(Verb.UPDATE_STATUS, WORKLOADS, {**sending.workload.values, "status": status}, event)
