"""How far YuniKorn's applications are, read off their pods. Used by `controllers.application_states`.

An application has no object of its own, so its state is no memory: it follows from the pods that are there and the
time. `MOVES` says which state may come after which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from muster.dialects.yunikorn.applications import Application, PodOfApplication
from muster.model.times import moment

COMPLETING_S = 30.0  # without a pod that runs or waits, until an application is completed
EXPIRED_S = 3 * 86_400.0  # after its end
REFUSED = "application "  # how the reason begins that pods of an application without a place are told


class State(StrEnum):
    """The states of an application."""

    NEW = "New"
    ACCEPTED = "Accepted"
    RUNNING = "Running"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    FAILING = "Failing"
    FAILED = "Failed"
    REJECTED = "Rejected"
    RESUMING = "Resuming"
    EXPIRED = "Expired"


MOVES: Mapping[State, frozenset[State]] = {
    State.NEW: frozenset((State.ACCEPTED, State.REJECTED, State.RESUMING, State.FAILING)),
    State.ACCEPTED: frozenset((State.RUNNING, State.COMPLETING, State.FAILING, State.RESUMING, State.REJECTED)),
    State.RESUMING: frozenset((State.ACCEPTED, State.RUNNING)),
    State.RUNNING: frozenset((State.COMPLETING, State.FAILING)),
    State.COMPLETING: frozenset((State.RUNNING, State.COMPLETED)),
    State.FAILING: frozenset((State.FAILED,)),
    State.COMPLETED: frozenset((State.EXPIRED,)),
    State.FAILED: frozenset((State.EXPIRED,)),
    State.REJECTED: frozenset((State.EXPIRED,)),
    State.EXPIRED: frozenset(),
}


def state_of(application: Application, now_s: float) -> State:
    """How far an application is."""
    pods = application.pods
    has_started = any(pod.node or pod.is_over for pod in pods)
    waiting = [pod for pod in pods if not pod.node and not pod.is_over]
    if any(pod.node and not pod.is_over for pod in pods):
        return State.FAILING if _has_failed(application, waiting, now_s) else State.RUNNING
    if not waiting:
        return _ended(pods, now_s)
    if _has_failed(application, waiting, now_s):
        return State.FAILED
    if all(_is_refused(pod) for pod in waiting):
        return State.REJECTED
    if has_started:
        return State.RUNNING
    if application.groups and _is_late(application, now_s) and any(pod.is_placeholder for pod in waiting):
        return State.RESUMING  # its placeholders have yet to go
    return State.ACCEPTED if any(_is_seen(pod) for pod in waiting) else State.NEW


def next_due_s(application: Application, now_s: float) -> float | None:
    """In how many seconds an application may come to another state by waiting alone."""
    moments = [application.submitted_at + application.terms.timeout_s] if application.groups else []
    if application.pods and all(pod.is_over for pod in application.pods):
        end_s = max(_end_s(pod) for pod in application.pods)
        moments += [end_s + COMPLETING_S, end_s + COMPLETING_S + EXPIRED_S]
    return min((one - now_s for one in moments if one > now_s), default=None)


def way(before: State, after: State) -> tuple[State, ...]:
    """The states that lie between two, without the first: pods may have been quicker than whoever looks."""
    reached: dict[State, tuple[State, ...]] = {before: ()}
    queue = [before]
    while queue and after not in reached:
        here = queue.pop(0)
        for one in sorted(MOVES[here] - reached.keys(), key=list(State).index):
            reached[one] = (*reached[here], one)
            queue.append(one)
    return reached.get(after, (after,))


def _ended(pods: Sequence[PodOfApplication], now_s: float) -> State:
    idle_s = now_s - max(_end_s(pod) for pod in pods)
    if idle_s < COMPLETING_S:
        return State.COMPLETING
    return State.COMPLETED if idle_s < COMPLETING_S + EXPIRED_S else State.EXPIRED


def _end_s(pod: PodOfApplication) -> float:
    """When a pod has ended, as far as it says so."""
    statuses = pod.pod.child("status").children("containerStatuses")
    ends = [moment(one.child("state").child("terminated"), "finishedAt") for one in statuses]
    return max((one for one in ends if one is not None), default=pod.created_at)


def _is_late(application: Application, now_s: float) -> bool:
    return now_s - application.submitted_at >= application.terms.timeout_s


def _has_failed(application: Application, waiting: Sequence[PodOfApplication], now_s: float) -> bool:
    """Whether a gang that must start as a whole has not, in its time."""
    if not application.groups or not application.terms.is_hard or not _is_late(application, now_s):
        return False
    return bool(waiting) and all(_is_refused(pod) for pod in waiting)


def _conditions(pod: PodOfApplication) -> Mapping[str, str]:
    conditions = pod.pod.child("status").children("conditions")
    return {one.text("type"): one.text("message") for one in conditions if one.text("status") == "False"}


def _is_seen(pod: PodOfApplication) -> bool:
    """Whether the scheduler has said why a pod waits."""
    return "PodScheduled" in _conditions(pod)


def _is_refused(pod: PodOfApplication) -> bool:
    return _conditions(pod).get("PodScheduled", "").startswith(REFUSED)
