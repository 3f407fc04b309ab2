"""What is to be done next for a Volcano job: pods, its group, the objects of its plugins, and its status.

Called by `controllers.volcano_jobs` with everything that is known of a job. One action at a time: what follows from it
is seen the next time. An action deletes pods first and is written down then, so that an interrupted one is begun anew;
the pod that it is about goes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.dialects.volcano.job.counting import PodOfJob, TaskPods, by_task, counted, is_ready, read_pod, task_counts
from muster.dialects.volcano.job.group import Object, Priorities, group_name, group_of
from muster.dialects.volcano.job.plugins import PLUGINS, PluginObject, read_flags
from muster.dialects.volcano.job.pods import PodPlace, claims_of, pod_name, pod_of
from muster.dialects.volcano.job.policies import Request, Resolved, next_action, requests_of
from muster.dialects.volcano.job.spec import Task, VolcanoJob, read_job
from muster.dialects.volcano.job.states import Counts, Deed, Standing, deed_of, is_retry, phase_after
from muster.dialects.volcano.job.statuses import StatusOfJob, read_status, written_status
from muster.dialects.volcano.job.words import PARTIAL, Action, Phase
from muster.model.fields import Fields

PODS_AT_ONCE = 500  # made in one turn
_WAITING = ("", "Pending")  # phases of a group that has no room yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All that is known of a job."""

    job: Mapping[str, Any]
    pods: Iterable[Mapping[str, Any]]
    now_s: float
    group: Mapping[str, Any] | None = None
    requests: Iterable[Request] = ()  # commands, and what became of pods that are gone
    begun: Resolved | None = None  # an action that was begun and not brought to its end
    priorities: Priorities = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Steps:
    """What follows, in this order."""

    status: Object
    kill: list[Object] = field(default_factory=list)  # pods to mark and delete
    group: Object | None = None  # as it has to be
    has_group: bool = True  # whether the job is to have one
    claims: list[Object] = field(default_factory=list)
    objects: list[PluginObject] = field(default_factory=list)
    has_objects: bool = True
    create: list[Object] = field(default_factory=list)
    resolved: Resolved | None = None
    problems: list[str] = field(default_factory=list)  # to tell of
    again_s: float | None = None


def next_steps(sight: Sight) -> Steps:
    """The next steps for a job; raises `InvalidObject` where the job has no meaning."""
    job = read_job(Fields(sight.job))
    status = read_status(Fields(sight.job).child("status"))
    pods = [read_pod(pod, job) for pod in sight.pods]
    tasks = by_task(job, pods, status.version)
    found, again_s = sight.begun, None
    if found is None:
        requests = _requests(sight, job, status, tasks)
        found, again_s = next_action(job, requests, sight.now_s)
    action = found.action if found is not None else Action.SYNC
    case = _Case(sight, job, status, pods, tasks)
    deed = deed_of(status.phase, action)
    steps = case.sync() if deed is Deed.SYNC else case.kill(deed, action, found.request if found else None)
    steps.resolved, steps.again_s = found, again_s
    return steps


def _requests(sight: Sight, job: VolcanoJob, status: StatusOfJob, tasks: Mapping[str, TaskPods]) -> Iterator[Request]:
    """What has happened: commands always count, the rest only while the job is to run."""
    yield from (one for one in sight.requests if one.action)
    if status.phase in (Phase.PENDING, Phase.RUNNING, Phase.RESTARTING):
        yield from (one for one in sight.requests if not one.action and (one.version or 0) >= status.version)
        yield from requests_of(job, tasks, group=None if _is_leaving(sight.group) else sight.group)


def _is_leaving(given: Mapping[str, Any] | None) -> bool:
    return given is not None and bool(given["metadata"].get("deletionTimestamp"))


@dataclass(frozen=True, slots=True)
class _Case:
    """A job that is decided on."""

    sight: Sight
    job: VolcanoJob
    status: StatusOfJob
    pods: list[PodOfJob]
    tasks: Mapping[str, TaskPods]

    # Making what is missing -------------------------------------------------------------------------------------------

    def sync(self) -> Steps:
        job, sight = self.job, self.sight
        name = sight.group["metadata"]["name"] if sight.group is not None else group_name(job)
        steps = Steps(status={}, group=group_of(job, name, sight.priorities), claims=claims_of(job))
        plugins = list(self._plugins(steps))
        steps.objects = [one for plugin, flags in plugins for one in plugin.objects(job, flags)]
        superfluous = [pod for pod in self.pods if self._is_superfluous(pod)]
        steps.kill = [dict(pod.stored) for pod in superfluous if not pod.is_deleting]
        made: list[PodOfJob] = []
        if sight.group is not None and self._group_phase() not in _WAITING:
            for task, index in self._missing():
                place = PodPlace(job, task, index)
                pod = pod_of(place, group=name, version=self.status.version, retries=self.status.retries)
                for plugin, flags in plugins:
                    plugin.add(pod, place, flags)
                steps.create.append(pod)
                made.append(read_pod(pod, job))
        left = {pod.name for pod in superfluous}
        now = [replace(pod, is_deleting=pod.is_deleting or pod.name in left) for pod in self.pods] + made
        told = {f"plugin-{plugin.name}": plugin.name for plugin, _ in plugins if plugin.is_told}
        resources = {
            **told,
            **{f"volume-pvc-{one['metadata']['name']}": one["metadata"]["name"] for one in steps.claims},
        }
        after = replace(self.status, resources=resources)
        steps.status = self._status(after, Action.SYNC, now)
        return steps

    def _plugins(self, steps: Steps) -> Iterator[tuple[Any, dict[str, str]]]:
        for name, plugin in PLUGINS.items():
            if name in self.job.plugins:
                flags, problem = read_flags(plugin, self.job.plugins[name])
                if problem:
                    steps.problems.append(problem)
                yield plugin, flags

    def _group_phase(self) -> str:
        return Fields.of((self.sight.group or {}).get("status"), "status").text("phase")

    def _is_superfluous(self, pod: PodOfJob) -> bool:
        task = self.job.task(pod.task)
        return pod.is_out_of_sync or task is None or not 0 <= pod.index < task.replicas

    def _missing(self) -> Iterator[tuple[Task, int]]:
        """The pods that are to be made, as many as one turn makes."""
        taken = {pod.name for pod in self.pods}
        left = PODS_AT_ONCE
        for task in self.job.tasks:
            if not is_ready(self.job, task, self.tasks):
                continue
            for index in range(task.replicas):
                if pod_name(self.job.name, task.name, index) in taken:
                    continue
                if left == 0:
                    return
                left -= 1
                yield task, index

    # Deleting ---------------------------------------------------------------------------------------------------------

    def kill(self, deed: Deed, action: Action, request: Request | None) -> Steps:
        status = self.status
        is_target = deed is Deed.KILL_TARGET
        is_last = status.retries >= self.job.max_retry - 1
        keeps_ended = not is_target and (deed is Deed.KILL_SOFT or is_last)
        chosen = _targets(self.pods, action, request) if is_target else self.pods
        doomed = [pod for pod in chosen if not (keeps_ended and pod.has_ended)]
        # The pod that it is about goes last: as long as it is there, an interrupted action is begun anew.
        cause = request.pod if request is not None else ""
        doomed.sort(key=lambda pod: (pod.name == cause, pod.name))
        gone = {pod.name for pod in doomed}
        now = [replace(pod, is_deleting=pod.is_deleting or pod.name in gone) for pod in self.pods]
        is_new = request is not None and not is_target
        after = replace(
            status,
            version=status.version + 1 if is_new else status.version,
            retries=status.retries + 1 if is_retry(status.phase, action) else status.retries,
            resources=status.resources if is_target else {},
        )
        steps = Steps(
            status=self._status(after, action, now, request),
            kill=[dict(pod.stored) for pod in doomed if not (pod.is_deleting and pod.is_out_of_sync)],
            has_group=is_target,
            has_objects=is_target,
        )
        if not is_target:
            steps.objects = [one for plugin, flags in self._plugins(steps) for one in plugin.objects(self.job, flags)]
        return steps

    # Telling ----------------------------------------------------------------------------------------------------------

    def _status(
        self, after: StatusOfJob, action: Action, pods: list[PodOfJob], request: Request | None = None
    ) -> Object:
        counts = counted(pods)
        phase = phase_after(after.phase, action, self._standing(after, pods, counts))
        return written_status(
            replace(after, phase=phase, counts=counts, tasks=task_counts(pods), least=self.job.least),
            before=self.sight.job,
            now_s=self.sight.now_s,
            why=request,
        )

    def _standing(self, after: StatusOfJob, pods: list[PodOfJob], counts: Counts) -> Standing:
        succeeded: dict[str, int] = {}
        for pod in pods:
            if pod.phase == "Succeeded" and not pod.is_deleting:
                succeeded[pod.task] = succeeded.get(pod.task, 0) + 1
        return Standing(
            counts=counts,
            replicas=self.job.replicas,
            least=self.job.least,
            success_least=self.job.success_least,
            retries=after.retries,
            max_retry=self.job.max_retry,
            tasks=tuple((task.least, succeeded.get(task.name, 0)) for task in self.job.tasks),
        )


def _targets(pods: list[PodOfJob], action: Action, request: Request | None) -> list[PodOfJob]:
    """The pods that a partial restart is about."""
    assert action in PARTIAL and request is not None, f"{action} is about no pod"
    match action:
        case Action.RESTART_POD:
            return [pod for pod in pods if pod.name == request.pod]
        case Action.RESTART_PARTITION if request.partition is not None:
            return [pod for pod in pods if pod.task == request.task and pod.partition == request.partition]
    return [pod for pod in pods if pod.task == request.task]
