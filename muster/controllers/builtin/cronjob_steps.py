"""What is to be done next for a cron job: which job to start or delete, and its status. Pure, used by `cronjob`.

A job's name is made of the minute it was due: a start that was interrupted is met again and not doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from zoneinfo import ZoneInfo

from muster.controllers.builtin.cron_schedule import Schedule, parse_schedule
from muster.controllers.builtin.job_conditions import COMPLETE, FAILED, finished_as
from muster.controllers.builtin.owners import reference_to
from muster.controllers.builtin.pods import created_s, moment_s
from muster.controllers.events import NORMAL, WARNING, Note
from muster.model.errors import InvalidObject
from muster.model.times import moment_text
from muster.store.kinds import Object
from muster.store.metadata import is_deleting

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"  # annotation
MISSED_MOST = 100
_LATE_S = 0.1  # looked at a little later than due, so that it is certainly due
_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
_FORBIDDEN = "Not starting job because prior execution is running and concurrency policy is Forbid"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForm:
    """What a cron job has to know of the jobs that it starts."""

    api_version: str
    scheduled_at: str  # the annotation that says when a job was due
    finished_as: Callable[[Object], str | None]  # COMPLETE, FAILED, or nothing yet
    ended_at: Callable[[Object], str | None]  # the moment when it ended
    started_at: Callable[[Object], str | None]


KUBERNETES = JobForm(
    api_version="batch/v1",
    scheduled_at=SCHEDULED_AT,
    finished_as=finished_as,
    ended_at=lambda job: job["status"].get("completionTime"),
    started_at=lambda job: (job.get("status") or {}).get("startTime"),
)


@dataclass(slots=True, kw_only=True)
class CronSteps:
    """What follows."""

    status: Object
    create: Object | None = None  # a job; once it is made, it is active and was the last one due
    due_s: float = 0.0  # when that job was due
    delete: list[Object] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    again_s: float | None = None
    form: JobForm = KUBERNETES


@dataclass(frozen=True, slots=True)
class Due:
    """Where a schedule stands."""

    last_s: float | None  # the latest time that was due and has not been seen to
    next_s: float | None
    missed: int  # about how many times were due


def cron_steps(cron_job: Object, jobs: list[Object], now_s: float, form: JobForm = KUBERNETES) -> CronSteps:
    """The next steps for a cron job that has these jobs."""
    steps = CronSteps(status=dict(cron_job.get("status") or {}), form=form)
    _look_at_jobs(jobs, steps)
    if not is_deleting(cron_job) and not cron_job["spec"].get("suspend"):
        try:
            zone = cron_job["spec"].get("timeZone") or ""
            schedule = parse_schedule(cron_job["spec"].get("schedule") or "", zone)
        except InvalidObject as problem:
            reason = "UnknownTimeZone" if problem.path == "spec.timeZone" else "UnparseableSchedule"
            steps.notes.append(Note(WARNING, reason, str(problem)))
        else:
            _start(cron_job, jobs, due(cron_job, schedule, now_s), now_s, steps=steps)
    _tidy(cron_job, jobs, steps)
    return steps


# What has become of its jobs -----------------------------------------------------------------------------------------


def _look_at_jobs(jobs: list[Object], steps: CronSteps) -> None:
    """Take finished and missing jobs off the list of active ones, and note the last success."""
    finished, form = steps.form.finished_as, steps.form
    there = {job["metadata"]["uid"]: job for job in jobs}
    active = []
    for reference in steps.status.get("active") or ():
        job = there.get(reference.get("uid"))
        if job is None:
            steps.notes.append(Note(NORMAL, "MissingJob", f"Active job went missing: {reference.get('name')}"))
        elif kind := finished(job):
            message = f"Saw completed job: {job['metadata']['name']}, condition: {kind}"
            steps.notes.append(Note(NORMAL, "SawCompletedJob", message))
        else:
            active.append(reference)
    known = {reference["uid"] for reference in active}
    for job in jobs:
        if finished(job) or job["metadata"]["uid"] in known:
            continue
        if form.scheduled_at in (job["metadata"].get("annotations") or {}):
            active.append(reference_in_status(job, form))  # it was started, and that could not be written down
        else:
            message = f"Saw a job that the controller did not create or forgot: {job['metadata']['name']}"
            steps.notes.append(Note(WARNING, "UnexpectedJob", message))
    _set_active(steps.status, active)
    ends = [form.ended_at(job) for job in jobs if finished(job) == COMPLETE]
    last = max((end for end in (*ends, steps.status.get("lastSuccessfulTime")) if end), default=None)
    if last is not None:
        steps.status["lastSuccessfulTime"] = last


def reference_in_status(job: Object, form: JobForm = KUBERNETES) -> Object:
    """How a cron job's status names a job."""
    metadata = job["metadata"]
    return {
        "apiVersion": form.api_version,
        "kind": "Job",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }


def with_started(steps: CronSteps, job: Object) -> Object:
    """The status once the job is made."""
    status = dict(steps.status)
    active = [one for one in status.get("active") or () if one["uid"] != job["metadata"]["uid"]]
    _set_active(status, [*active, reference_in_status(job, steps.form)])
    status["lastScheduleTime"] = moment_text(steps.due_s)
    return status


def _set_active(status: Object, active: list[Object]) -> None:
    if active:
        status["active"] = active
    else:
        status.pop("active", None)


def _tidy(cron_job: Object, jobs: list[Object], steps: CronSteps) -> None:
    """Delete the oldest of the finished jobs that are more than the history is to hold."""
    for kind, limit in ((COMPLETE, "successfulJobsHistoryLimit"), (FAILED, "failedJobsHistoryLimit")):
        most = cron_job["spec"].get(limit)
        if most is None:
            continue
        ended = (job for job in jobs if steps.form.finished_as(job) == kind and not is_deleting(job))
        finished = sorted(ended, key=lambda job: _age(job, steps.form))
        steps.delete += finished[: max(0, len(finished) - most)]


def _age(job: Object, form: JobForm) -> tuple[float, str]:
    started_s = moment_s(form.started_at(job))
    return (float("inf") if started_s is None else started_s, job["metadata"]["name"])


# What is due ---------------------------------------------------------------------------------------------------------


def due(cron_job: Object, schedule: Schedule, now_s: float) -> Due:
    """Where the schedule of a cron job stands: from its last start on, or from when it was made."""
    earliest_s = moment_s((cron_job.get("status") or {}).get("lastScheduleTime")) or created_s(cron_job)
    deadline_s = cron_job["spec"].get("startingDeadlineSeconds")
    from_s = earliest_s if deadline_s is None else max(earliest_s, now_s - deadline_s)
    first_s = schedule.next_s(from_s)
    if first_s is None:
        return Due(None, None, 0)
    if first_s > now_s:
        return Due(None, schedule.next_s(max(earliest_s, _last(schedule, earliest_s, now_s) or 0.0)), 0)
    second_s = schedule.next_s(first_s)
    missed = 1 if second_s is None or second_s > now_s else 1 + int((now_s - first_s) // (second_s - first_s))
    last_s = schedule.last_s(first_s, now_s)
    return Due(last_s, schedule.next_s(first_s if last_s is None else last_s), missed)


def _last(schedule: Schedule, earliest_s: float, now_s: float) -> float | None:
    first_s = schedule.next_s(earliest_s)
    return None if first_s is None else schedule.last_s(first_s, now_s)


def _start(cron_job: Object, jobs: list[Object], found: Due, now_s: float, *, steps: CronSteps) -> None:
    """Start the job that is due, as far as the others allow it."""
    if found.next_s is not None:
        steps.again_s = max(0.0, found.next_s - now_s) + _LATE_S
    if found.last_s is None:
        return
    spec = cron_job["spec"]
    if found.missed > MISSED_MOST:
        steps.notes.append(Note(WARNING, "TooManyMissedTimes", _TOO_MANY))
    deadline_s = spec.get("startingDeadlineSeconds")
    if deadline_s is not None and found.last_s + deadline_s < now_s:
        moment = format_datetime(datetime.fromtimestamp(found.last_s, UTC))
        steps.notes.append(Note(WARNING, "MissSchedule", f"Missed scheduled time to start a job: {moment}"))
        return
    active = steps.status.get("active") or []
    name = _job_name(cron_job, found.last_s)
    if any(one["name"] == name for one in active):
        steps.status["lastScheduleTime"] = moment_text(found.last_s)
        return
    if active and spec.get("concurrencyPolicy") == "Forbid":
        steps.notes.append(Note(NORMAL, "JobAlreadyActive", _FORBIDDEN))
        return
    if spec.get("concurrencyPolicy") == "Replace":
        replaced = {one["uid"] for one in active}
        steps.delete += [job for job in jobs if job["metadata"]["uid"] in replaced]
        _set_active(steps.status, [])
    steps.create = _job(cron_job, name, found.last_s, steps.form)
    steps.due_s = found.last_s


def _job_name(cron_job: Object, due_s: float) -> str:
    return f"{cron_job['metadata']['name']}-{int(due_s) // 60}"


def _job(cron_job: Object, name: str, due_s: float, form: JobForm) -> Object:
    template = cron_job["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    zone = cron_job["spec"].get("timeZone")
    moment = moment_text(due_s)
    if zone:
        local = datetime.fromtimestamp(int(due_s), ZoneInfo(zone))
        moment = local.isoformat() if local.utcoffset() else moment
    metadata: Object = {
        "name": name,
        "namespace": cron_job["metadata"]["namespace"],
        "annotations": {**(given.get("annotations") or {}), form.scheduled_at: moment},
        "ownerReferences": [reference_to(cron_job)],
    }
    if given.get("labels"):
        metadata["labels"] = dict(given["labels"])
    return {"apiVersion": form.api_version, "kind": "Job", "metadata": metadata, "spec": deepcopy(template["spec"])}
