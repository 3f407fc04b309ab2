"""What happens to a job, and which action its policies ask for then. Used by `steps`.

What has happened is read off the objects as they are, so that a controller that starts anew comes to the same answer.
Only that a pod is gone has to be told by whoever saw it go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.dialects.volcano.job.counting import PodOfJob, TaskPods
from muster.dialects.volcano.job.spec import Policy, Task, VolcanoJob
from muster.dialects.volcano.job.words import PARTIAL, POLICY_ACTIONS, Action, Event
from muster.model.fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Something that has happened to a job, or that somebody tells it to do."""

    event: Event
    since_s: float = 0.0  # 0: not known yet
    task: str = ""
    pod: str = ""
    partition: int | None = None
    exit_code: int = 0
    action: str = ""  # said by a command
    version: int | None = None  # of the job, when the pod was made that is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The action that follows, and what it is about."""

    action: Action
    request: Request
    due_s: float = 0.0


def requests_of(
    job: VolcanoJob, tasks: Mapping[str, TaskPods], *, group: Mapping[str, Any] | None
) -> Iterator[Request]:
    """What has happened to the pods of a job that are of its present version, and to its group."""
    for task in job.tasks:
        found = tasks.get(task.name)
        if found is not None:
            yield from _of_task(task, found.present)
    if group is not None and Fields.of(group.get("status"), "status").text("phase") == Event.UNKNOWN:
        yield Request(event=Event.UNKNOWN)


def _of_task(task: Task, pods: Sequence[PodOfJob]) -> Iterator[Request]:
    for pod in pods:
        if pod.phase == "Failed":
            yield _about(Event.POD_FAILED, task, pod, pod.ended_s)
        elif pod.phase == "Pending":
            yield _about(Event.POD_PENDING, task, pod, pod.created_s)
    succeeded = [pod for pod in pods if pod.phase == "Succeeded"]
    if succeeded and len(succeeded) >= task.replicas:
        last = max(succeeded, key=lambda pod: (pod.ended_s, pod.name))
        yield _about(Event.TASK_COMPLETED, task, last, last.ended_s)
    live = [pod for pod in pods if pod.phase in ("Pending", "Running")]
    if live and task.max_retry != -1 and sum(pod.restarts for pod in live) >= task.max_retry:
        most = max(live, key=lambda pod: (pod.restarts, pod.name))
        yield _about(Event.TASK_FAILED, task, most, most.created_s)


def _about(event: Event, task: Task, pod: PodOfJob, since_s: float) -> Request:
    return Request(
        event=event,
        since_s=since_s,
        task=task.name,
        pod=pod.name,
        partition=pod.partition,
        exit_code=pod.exit_code,
    )


def next_action(job: VolcanoJob, requests: Iterable[Request], now_s: float) -> tuple[Resolved | None, float | None]:
    """The first action that is due, and the seconds until the next one is that has to wait."""
    soonest_s: float | None = None
    for request in requests:
        found = resolved(job, request)
        if found.action is Action.SYNC:
            continue
        wait_s = found.due_s - now_s
        if wait_s <= 0:
            return found, None
        soonest_s = wait_s if soonest_s is None else min(soonest_s, wait_s)
    return None, soonest_s


def resolved(job: VolcanoJob, request: Request) -> Resolved:
    """The action that follows from something: a command's own, else that of the task's policies, else of the job's."""
    if request.action:
        is_known = request.action in set(Action) - PARTIAL  # a command is about a whole job
        return Resolved(action=Action(request.action) if is_known else Action.SYNC, request=request)
    task = job.task(request.task)
    for policy in (*(task.policies if task is not None else ()), *job.policies):
        if _matches(policy, request) and policy.action in POLICY_ACTIONS:
            action = Action(policy.action)
            if action in PARTIAL and not request.pod:
                break  # there is no pod that it could be about
            return Resolved(action=action, request=request, due_s=request.since_s + (policy.timeout_s or 0.0))
    return Resolved(action=Action.SYNC, request=request)


def is_covered(request: Request, done: Resolved) -> bool:
    """Whether an action has taken care of something else that happened, too."""
    about = done.request
    match done.action:
        case Action.RESTART_POD:
            return request.pod == about.pod
        case Action.RESTART_PARTITION if about.partition is not None:
            return (request.task, request.partition) == (about.task, about.partition)
        case Action.RESTART_TASK | Action.RESTART_PARTITION:
            return request.task == about.task
    return True


def _matches(policy: Policy, request: Request) -> bool:
    if request.event in policy.events or Event.ANY in policy.events:
        return request.event is not Event.POD_PENDING or policy.timeout_s is not None
    return policy.exit_code is not None and request.event is Event.POD_FAILED and policy.exit_code == request.exit_code
