"""The pods of a job as they are: by task and number, with what decides on the job. Used by all files of this folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.dialects.volcano.job.spec import Task, VolcanoJob
from muster.dialects.volcano.job.states import Counts
from muster.dialects.volcano.job.words import JOB_VERSION, OUT_OF_SYNC, TASK_INDEX, TASK_SPEC
from muster.model.fields import Fields
from muster.model.times import moment

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOfJob:
    """What is known of one pod."""

    name: str
    uid: str
    task: str
    index: int
    phase: str
    version: int = 0
    partition: int | None = None
    is_deleting: bool = False
    is_out_of_sync: bool = False  # the controller wants it gone
    is_ready: bool = False
    exit_code: int = 0
    restarts: int = 0
    created_s: float = 0.0
    ended_s: float = 0.0
    stored: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def has_ended(self) -> bool:
        return self.phase in _ENDED


@dataclass(frozen=True, slots=True)
class TaskPods:
    """The pods of one task."""

    by_index: Mapping[int, PodOfJob]
    present: tuple[PodOfJob, ...]  # of the present version, and nobody wants them gone


def read_pod(pod: Mapping[str, Any], job: VolcanoJob) -> PodOfJob:
    """What is known of a pod of a job."""
    fields = Fields(pod)
    metadata, status = fields.child("metadata"), fields.child("status")
    notes = metadata.text_map("annotations")
    task = job.task(notes.get(TASK_SPEC, ""))
    index = _number(notes.get(TASK_INDEX), -1)
    statuses = list(status.children("containerStatuses"))
    ends = [one.child("state").child("terminated") for one in statuses]
    created_s = moment(metadata, "creationTimestamp") or 0.0
    deadline = [moment(end, "finishedAt") for end in ends]
    return PodOfJob(
        name=metadata.text("name"),
        uid=metadata.text("uid"),
        task=notes.get(TASK_SPEC, ""),
        index=index,
        phase=status.text("phase") or "Pending",
        version=_number(notes.get(JOB_VERSION), 0),
        partition=partition_of(task, index),
        is_deleting=metadata.has("deletionTimestamp"),
        is_out_of_sync=OUT_OF_SYNC in notes,
        is_ready=bool(statuses) and all(one.flag("ready") for one in statuses),
        exit_code=ends[0].integer("exitCode") if ends else 0,
        restarts=sum(one.integer("restartCount") for one in statuses + list(status.children("initContainerStatuses"))),
        created_s=created_s,
        ended_s=max((one for one in deadline if one is not None), default=created_s),
        stored=pod,
    )


def partition_of(task: Task | None, index: int) -> int | None:
    """The part of a task that a number belongs to, where the task has parts."""
    if task is None or task.partition is None or task.partition.size <= 0:
        return None
    return index // task.partition.size


def by_task(job: VolcanoJob, pods: Iterable[PodOfJob], version: int) -> dict[str, TaskPods]:
    """The pods of a job by the name of their task."""
    found: dict[str, dict[int, PodOfJob]] = {task.name: {} for task in job.tasks}
    for pod in pods:
        if pod.task in found:
            found[pod.task][pod.index] = pod
    return {
        task.name: TaskPods(
            found[task.name],
            tuple(pod for _, pod in sorted(found[task.name].items()) if _is_present(pod, task, version)),
        )
        for task in job.tasks
    }


def _is_present(pod: PodOfJob, task: Task, version: int) -> bool:
    return pod.version >= version and not pod.is_out_of_sync and not pod.is_deleting and 0 <= pod.index < task.replicas


def counted(pods: Iterable[PodOfJob]) -> Counts:
    """How many pods there are of each sort."""
    sorts = Counter(_sort(pod) for pod in pods)
    return Counts(**sorts)


def _sort(pod: PodOfJob) -> str:
    if pod.is_deleting:
        return "terminating"
    return pod.phase.lower() if pod.phase in ("Pending", "Running", *_ENDED) else "unknown"


def task_counts(pods: Iterable[PodOfJob]) -> dict[str, dict[str, int]]:
    """How many pods of each task are in each phase."""
    found: dict[str, Counter[str]] = {}
    for pod in pods:
        if not pod.is_deleting:
            found.setdefault(pod.task, Counter())[pod.phase] += 1
    return {task: dict(sorted(phases.items())) for task, phases in sorted(found.items())}


def is_ready(job: VolcanoJob, task: Task, tasks: Mapping[str, TaskPods]) -> bool:
    """Whether the tasks that a task depends on let its pods be made."""
    if not all(_is_complete(job.task(name), tasks) for name in task.after):
        return False
    targets = [one for one in (job.task(name) for name in task.depends_on) if one is not None]
    ready = [_has_enough(target, tasks[target.name]) for target in targets]
    if task.is_any_enough and len(task.depends_on) > 1:
        return any(ready)
    return len(targets) == len(task.depends_on) and all(ready)


def _is_complete(target: Task | None, tasks: Mapping[str, TaskPods]) -> bool:
    if target is None:
        return False
    return sum(pod.phase == "Succeeded" for pod in tasks[target.name].by_index.values()) >= target.replicas


def _has_enough(target: Task, found: TaskPods) -> bool:
    good = (
        pod.phase == "Succeeded" or (pod.phase == "Running" and pod.is_ready and not pod.is_deleting)
        for pod in found.by_index.values()
    )
    return sum(good) >= target.least


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 12 else otherwise
