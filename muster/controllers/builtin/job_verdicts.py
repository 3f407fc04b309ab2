"""Whether a job has failed or succeeded as a whole. Pure functions, used by `job_steps`."""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.builtin.job_conditions import Finish
from muster.controllers.builtin.job_failures import FAIL_INDEX, has_failed, restarts, verdict
from muster.controllers.builtin.job_indexes import Indexes, parse_indexes
from muster.controllers.builtin.job_pods import failures_of, index_of
from muster.controllers.builtin.pods import moment_s
from muster.store.kinds import Object


def failure(job: Object, pods: list[Object], *, failed: int, now_s: float) -> Finish | None:
    """Why a job fails because of its pods or its age; `failed` says how many of its pods did."""
    ended = (verdict(job, pod) for pod in pods if has_failed(pod, job))
    message = next((one.message for one in ended if one.message), "")
    if message:
        return Finish(False, "PodFailurePolicy", message)
    if failed > job["spec"]["backoffLimit"] or _is_restarted_too_often(job, pods):
        return Finish(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if (left_s := deadline_left_s(job, now_s)) is not None and left_s <= 0:
        return Finish(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _is_restarted_too_often(job: Object, pods: list[Object]) -> bool:
    """Where containers are restarted in place their restarts count instead of failed pods."""
    if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    limit = job["spec"]["backoffLimit"]
    count = restarts(pods)
    return count >= limit if limit else count > 0


def deadline_left_s(job: Object, now_s: float) -> float | None:
    """How long a job may still run; `None` where nothing limits it, or the time does not run yet."""
    limit_s = job["spec"].get("activeDeadlineSeconds")
    started_s = moment_s((job.get("status") or {}).get("startTime"))
    if limit_s is None or started_s is None or job["spec"].get("suspend"):
        return None
    return float(started_s + limit_s - now_s)


def index_failure(job: Object, done: Indexes, lost: Indexes) -> Finish | None:
    """Why a job fails because of indexes that did."""
    most = job["spec"].get("maxFailedIndexes")
    if most is not None and lost.total > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Finish(False, "MaxFailedIndexesExceeded", message)
    if lost.total and lost.total + done.total >= job["spec"]["completions"]:
        return Finish(False, "FailedIndexes", "Job has failed indexes")
    return None


def policy_success(job: Object, done: Indexes) -> Finish | None:
    """Why a job has succeeded before all of its indexes have."""
    for number, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        text, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        wanted = None if text is None else parse_indexes(text, job["spec"]["completions"])
        reached = done.total if wanted is None else done.common(wanted)
        least = count if count is not None else (wanted.total if wanted is not None else 0)
        if reached >= least:
            return Finish(True, "SuccessPolicy", f"Matched rules at index {number}")
    return None


def failed_indexes(job: Object, pods: Iterable[Object]) -> Indexes:
    """The indexes that are not tried again."""
    below = job["spec"]["completions"]
    known = parse_indexes((job.get("status") or {}).get("failedIndexes") or "", below)
    new = []
    for pod in pods:
        index = index_of(pod, below)
        if index is not None and index not in known and _has_index_failed(job, pod):
            new.append(index)
    return known.plus(new)


def _has_index_failed(job: Object, pod: Object) -> bool:
    if not has_failed(pod, job):
        return False
    said = verdict(job, pod)
    if said.action == FAIL_INDEX:
        return True
    return said.is_counted and failures_of(pod) >= int(job["spec"]["backoffLimitPerIndex"])
