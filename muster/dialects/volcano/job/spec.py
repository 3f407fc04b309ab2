"""A Volcano job as its author wrote it, read into plain values. Called by whatever decides on jobs.

What Volcano's webhook would fill in is filled in here too, so that a job that came another way means the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.dialects.volcano.job.cards import whole_cards, with_texts
from muster.dialects.volcano.job.words import ENQUEUE, MAX_RETRY
from muster.dialects.volcano.jobs import PODS_MOST, TASKS_MOST
from muster.dialects.volcano.names import DEFAULT_QUEUE, SCHEDULER
from muster.model.durations import NANOSECONDS, duration_ns
from muster.model.fields import INT32_MAX, Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is done when something happens."""

    action: str
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout_s: float | None = None  # None: at once
    condition: str = ""  # the task whose end it is about, where tasks wait for a policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Equal parts of a task that are placed, and may be restarted, each as a whole."""

    total: int
    size: int
    least: int = 0
    topology: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Pods of one template."""

    name: str
    replicas: int
    least: int  # pods that have to start together
    max_retry: int = MAX_RETRY  # restarts of containers after which the task has failed; -1: never
    policies: tuple[Policy, ...] = ()
    depends_on: tuple[str, ...] = ()
    is_any_enough: bool = False  # whether one of the tasks that it depends on is enough
    after: tuple[str, ...] = ()  # tasks that have to be complete before
    partition: Partition | None = None
    numa_policy: str = ""
    template: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""  # where it stands in the job

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        return self.template.get("spec") or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A claim that every container of a job mounts."""

    path: str
    claim_name: str = ""
    claim: Mapping[str, Any] | None = None  # what to ask for, where no claim is named


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoJob:
    """A job: its name, its tasks and what holds for all of them."""

    name: str
    namespace: str
    uid: str
    tasks: tuple[Task, ...]
    least: int
    success_least: int | None = None
    max_retry: int = MAX_RETRY
    policies: tuple[Policy, ...] = ()
    queue: str = DEFAULT_QUEUE
    scheduler: str = SCHEDULER
    priority_class: str = ""
    plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    ttl_s: int | None = None
    topology: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def replicas(self) -> int:
        return sum(task.replicas for task in self.tasks)

    def task(self, name: str) -> Task | None:
        """The task of a name."""
        return next((task for task in self.tasks if task.name == name), None)


def read_job(job: Fields) -> VolcanoJob:
    """The meaning of a Job object; raises `InvalidObject` where it has none."""
    metadata, spec = job.child("metadata"), job.child("spec")
    policies = read_policies(spec)
    tasks = _in_order(read_tasks(spec), policies)
    if sum(task.replicas for task in tasks) > PODS_MOST:
        raise spec.error("tasks", f"ask for more than {PODS_MOST} pods", "make several jobs")
    return VolcanoJob(
        name=metadata.text("name"),
        namespace=metadata.text("namespace"),
        uid=metadata.text("uid"),
        tasks=tasks,
        least=spec.integer("minAvailable", least=0) or sum(task.least for task in tasks),
        success_least=spec.integer("minSuccess") if spec.has("minSuccess") else None,
        max_retry=spec.integer("maxRetry") or MAX_RETRY,
        policies=policies,
        queue=spec.text("queue") or DEFAULT_QUEUE,
        scheduler=spec.text("schedulerName") or SCHEDULER,
        priority_class=spec.text("priorityClassName"),
        plugins=read_plugins(spec),
        volumes=tuple(_read_volume(one) for one in spec.children("volumes")),
        ttl_s=spec.integer("ttlSecondsAfterFinished", least=0) if spec.has("ttlSecondsAfterFinished") else None,
        topology=spec.child("networkTopology").values,
        labels=metadata.text_map("labels"),
        annotations=metadata.text_map("annotations"),
    )


def read_tasks(spec: Fields) -> tuple[Task, ...]:
    """The tasks of a job's spec."""
    count = len(spec.items("tasks"))
    if count > TASKS_MOST:
        raise spec.error("tasks", f"holds {count} entries", f"give at most {TASKS_MOST}")
    return tuple(_read_task(task, number) for number, task in enumerate(spec.children("tasks")))


def _in_order(tasks: tuple[Task, ...], policies: tuple[Policy, ...]) -> tuple[Task, ...]:
    """The tasks, each after those that policies let the others begin with."""
    first = tuple(dict.fromkeys(one.condition for one in policies if one.action == ENQUEUE and one.condition))
    return tuple(task if task.name in first else replace(task, after=first) for task in tasks) if first else tasks


def _read_task(task: Fields, number: int) -> Task:
    depends = task.child("dependsOn")
    replicas = task.integer("replicas", 0, least=0, most=INT32_MAX)
    partition = _read_partition(task.child("partitionPolicy")) if task.has("partitionPolicy") else None
    least = replicas if partition is None or partition.least <= 0 else partition.least * partition.size
    return Task(
        name=task.text("name") or f"default{number}",
        replicas=replicas,
        least=task.integer("minAvailable", least, least=0),
        max_retry=task.integer("maxRetry") or MAX_RETRY,
        policies=read_policies(task),
        depends_on=depends.texts("name"),
        is_any_enough=depends.text("iteration") == "any",
        partition=partition,
        numa_policy=task.text("topologyPolicy"),
        template=whole_cards(Fields(with_texts(task.child("template").values), task.at("template"))),
        path=task.path,
    )


def _read_partition(given: Fields) -> Partition:
    return Partition(
        total=given.integer("totalPartitions"),
        size=given.integer("partitionSize"),
        least=given.integer("minPartitions"),
        topology=given.child("networkTopology").values,
    )


def _read_volume(given: Fields) -> Volume:
    return Volume(
        path=given.text("mountPath"),
        claim_name=given.text("volumeClaimName"),
        claim=with_texts(given.child("volumeClaim").values) if given.has("volumeClaim") else None,
    )


def read_policies(owner: Fields) -> tuple[Policy, ...]:
    """The policies of a job's spec or of a task."""
    return tuple(_read_policy(one) for one in owner.children("policies"))


def _read_policy(given: Fields) -> Policy:
    timeout_ns = duration_ns(given.text("timeout"), given.at("timeout")) if given.text("timeout") else None
    return Policy(
        action=given.text("action"),
        events=tuple(events_of(given)),
        exit_code=given.integer("exitCode") if given.has("exitCode") else None,
        timeout_s=None if timeout_ns is None else max(0.0, timeout_ns / NANOSECONDS),
        condition=given.child("condition").text("taskName"),
    )


def events_of(policy: Fields) -> Iterator[str]:
    """The events of a policy: the older field has one, the newer a list."""
    if policy.text("event"):
        yield policy.text("event")
    yield from policy.texts("events")


def read_plugins(spec: Fields) -> dict[str, tuple[str, ...]]:
    """The plugins of a job with their flags; those that others need are there with them."""
    given = spec.child("plugins")
    found = {str(name): given.texts(name) for name in given.values}
    if found.keys() & {"tensorflow", "mpi", "pytorch", "ray"}:
        found.setdefault("svc", ())
    if "mpi" in found:
        found.setdefault("ssh", ())
    return found
