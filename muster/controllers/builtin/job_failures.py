"""What the end of a pod means for its job: the rules of its pod failure policy, and how long to wait before the next.

Pure functions, used by `job_steps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.controllers.builtin.pods import created_s, moment_s, phase_of
from muster.store.kinds import Object
from muster.store.metadata import finalizers_of, is_deleting

FINALIZER = "batch.kubernetes.io/job-tracking"  # of pods that wait to be counted
FIRST_WAIT_S = 10.0  # before a pod that failed is replaced; each further failure doubles it
LONGEST_WAIT_S = 600.0
FAIL_JOB, FAIL_INDEX, IGNORE, COUNT = "FailJob", "FailIndex", "Ignore", "Count"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a policy says of a failed pod."""

    action: str = ""  # empty: no rule is about it, and it counts
    message: str = ""  # why the whole job fails, if it does

    @property
    def is_counted(self) -> bool:
        return self.action != IGNORE


COUNTED = Verdict()


@dataclass(frozen=True, slots=True)
class Ending:
    """When a pod has ended, and how."""

    finished_s: float
    is_success: bool


def is_tracked(pod: Object) -> bool:
    """Whether a pod waits to be counted."""
    return FINALIZER in finalizers_of(pod)


def replaces_failed_only(job: Object) -> bool:
    """Whether a pod that is on its way out is replaced only when it has ended."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def has_failed(pod: Object, job: Object) -> bool:
    """Whether a pod counts as failed; one that was deleted, though not along with its job, may never get to say so."""
    phase = phase_of(pod)
    if phase == "Failed":
        return True
    is_lost = is_deleting(pod) and not is_deleting(job) and phase != "Succeeded"
    return is_lost and not replaces_failed_only(job)


# Policies ------------------------------------------------------------------------------------------------------------


def verdict(job: Object, pod: Object) -> Verdict:
    """What the pod failure policy of a job says of a failed pod; the first rule that matches decides."""
    policy = job["spec"].get("podFailurePolicy")
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        action = str(rule.get("action"))
        ending = f"matching {action} rule at index {number}"
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if rule.get("onExitCodes") is not None:
            status = _exited(pod, rule["onExitCodes"])
            if status is not None:
                code = status["state"]["terminated"].get("exitCode", 0)
                message = f"Container {status['name']} for pod {name} failed with exit code {code} {ending}"
                return Verdict(action, message if action == FAIL_JOB else "")
        elif (found := _condition(pod, rule.get("onPodConditions") or ())) is not None:
            message = f"Pod {name} has condition {found['type']} {ending}"
            return Verdict(action, message if action == FAIL_JOB else "")
    return COUNTED


def _container_statuses(pod: Object) -> Iterator[Object]:
    status = pod.get("status") or {}
    yield from status.get("containerStatuses") or ()
    yield from status.get("initContainerStatuses") or ()


def _exited(pod: Object, rule: Mapping[str, Any]) -> Object | None:
    """The first container whose exit code a rule names."""
    codes = rule.get("values") or ()
    for status in _container_statuses(pod):
        terminated = (status.get("state") or {}).get("terminated")
        code = (terminated or {}).get("exitCode", 0)
        if code == 0 or rule.get("containerName") not in (None, status["name"]):
            continue
        if (code in codes) is (rule.get("operator") == "In"):
            return status
    return None


def _condition(pod: Object, patterns: Iterable[Mapping[str, Any]]) -> Object | None:
    """The first condition of a pod that a rule names."""
    wanted = {(one.get("type"), one.get("status")) for one in patterns}
    conditions: list[Object] = (pod.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if (one.get("type"), one.get("status")) in wanted), None)


def restarts(pods: Iterable[Object]) -> int:
    """How often the containers of pods that have not ended were restarted."""
    alive = (pod for pod in pods if phase_of(pod) in ("Pending", "Running"))
    return sum(int(status.get("restartCount") or 0) for pod in alive for status in _container_statuses(pod))


# Waiting -------------------------------------------------------------------------------------------------------------


def finished_s(pod: Object) -> float:
    """When a pod has ended, by the best witness there is."""
    status = pod.get("status") or {}
    ends = [_terminated_s(one) for one in status.get("containerStatuses") or ()]
    known = [end for end in ends if end is not None]
    if known and len(known) == len(ends):
        return max(known)
    for one in status.get("conditions") or ():
        if one.get("type") == "Ready" and one.get("status") == "False" and one.get("lastTransitionTime"):
            return moment_s(one["lastTransitionTime"]) or 0.0
    if is_deleting(pod):
        deleted_s = moment_s(pod["metadata"]["deletionTimestamp"]) or 0.0
        return deleted_s - float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    return created_s(pod)


def _terminated_s(status: Object) -> float | None:
    terminated = (status.get("state") or {}).get("terminated")
    return None if terminated is None else moment_s(terminated.get("finishedAt"))


def endings_of(job: Object, pods: Iterable[Object]) -> dict[str, Ending]:
    """The ends of pods, by their uid; those that the job itself has let go and deleted do not matter."""
    found = {}
    for pod in pods:
        if is_deleting(pod) and not is_tracked(pod):
            continue
        is_success = phase_of(pod) == "Succeeded"
        if is_success or has_failed(pod, job):
            found[pod["metadata"]["uid"]] = Ending(finished_s(pod), is_success)
    return found


def since_success(endings: Mapping[str, Ending]) -> dict[str, Ending]:
    """What still matters of the ends of pods: the last success and the failures after it."""
    success_s = max((one.finished_s for one in endings.values() if one.is_success), default=None)
    if success_s is None:
        return dict(endings)
    last = next(uid for uid, one in endings.items() if one.is_success and one.finished_s == success_s)
    later = {uid: one for uid, one in endings.items() if not one.is_success and one.finished_s > success_s}
    return {last: endings[last], **later}


def wait_s(endings: Mapping[str, Ending], now_s: float) -> float:
    """How long no pod is to be made after failures in a row."""
    failures = [one.finished_s for one in since_success(endings).values() if not one.is_success]
    return wait_after_s(len(failures), max(failures, default=0.0), now_s)


def wait_after_s(failures: int, last_s: float, now_s: float) -> float:
    """How long to wait after so many failures, the last at a given time."""
    if not failures:
        return 0.0
    whole_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failures - 1, 20))
    return max(0.0, last_s + whole_s - now_s)
