"""JobFlow: jobs made from templates, each when those that it depends on allow it. Pure, used by `controllers.volcano`.

A flow makes one job for each of its steps, named after both. A step whose job has failed lets those behind it wait for
ever; the flow has failed then, once nothing of it runs any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from muster.dialects.volcano.job.words import BATCH, TASK_SPEC, Phase
from muster.model.fields import Fields, shown

Object = dict[str, Any]
FLOW_GROUP = "flow.volcano.sh/v1alpha1"
BY_TEMPLATE, BY_FLOW = "volcano.sh/createdByJobTemplate", "volcano.sh/createdByJobFlow"  # labels and annotations
STEPS_MOST = 1_000
_LABEL_MOST = 63
_FAILED = (Phase.FAILED, Phase.ABORTED, Phase.TERMINATED)
_LISTS = {
    "completedJobs": (Phase.COMPLETED,),
    "failedJobs": (Phase.FAILED,),
    "pendingJobs": (Phase.PENDING, ""),
    "runningJobs": (Phase.RUNNING, Phase.RESTARTING, Phase.COMPLETING, Phase.TERMINATING, Phase.ABORTING),
    "terminatedJobs": (Phase.TERMINATED, Phase.ABORTED),
}
# What a definition fills in where the author of a patch has said nothing.
_PATCH_DEFAULTS = {"maxRetry": 3, "queue": "default"}


@dataclass(frozen=True, slots=True)
class Check:
    """A question to a pod: whether a port takes connections, or answers a request well."""

    address: str
    port: int
    path: str = ""  # empty: a connection is enough
    header: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSight:
    """A flow with all that decides on it."""

    flow: Mapping[str, Any]
    jobs: Mapping[str, Mapping[str, Any]]  # those that it has made, by name
    template: Callable[[str], Mapping[str, Any] | None]  # by name
    pods: Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]]  # of a job
    answers: Mapping[Check, bool] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class FlowSteps:
    """What follows."""

    status: Object
    create: list[Object] = field(default_factory=list)
    delete: list[Mapping[str, Any]] = field(default_factory=list)
    asked: set[Check] = field(default_factory=set)  # what has to be asked before more can be done
    problems: list[str] = field(default_factory=list)


def job_name(flow: str, step: str) -> str:
    """The name of a step's job."""
    return f"{flow}-{step}"


def flow_steps(sight: FlowSight) -> FlowSteps:
    """The next steps for a flow; raises `InvalidObject` where it has no meaning."""
    flow = Fields(sight.flow)
    metadata, spec = flow.child("metadata"), flow.child("spec")
    wanted = list(spec.children("flows"))
    _check(spec, wanted)
    name = metadata.text("name")
    had = flow.child("status").child("state").text("phase")
    if had == "Succeed" and spec.text("jobRetainPolicy") == "delete":
        return FlowSteps(status=dict(flow.child("status").values), delete=list(sight.jobs.values()))
    steps = FlowSteps(status={})
    for step in wanted:
        if job_name(name, step.text("name")) in sight.jobs:
            continue
        if not _may_start(sight, step, name, steps):
            continue
        template = sight.template(step.text("name"))
        if template is None:
            steps.problems.append(f"JobTemplate {step.text('name')} is not there")
        else:
            steps.create.append(_job(flow, step, template))
    steps.status = _status(sight, name, [step.text("name") for step in wanted], had)
    return steps


def _check(spec: Fields, wanted: list[Fields]) -> None:
    if len(wanted) > STEPS_MOST:
        raise spec.error("flows", f"holds {len(wanted)} entries", f"give at most {STEPS_MOST}")
    names = {step.text("name") for step in wanted}
    graph: dict[str, tuple[str, ...]] = {}
    for step in wanted:
        name, targets = step.text("name"), step.child("dependsOn").texts("targets")
        if name in graph:
            raise step.error("name", f"is {shown(name)} again", "name each template once")
        unknown = next((one for one in targets if one not in names), None)
        if unknown is not None:
            depends = step.child("dependsOn")
            raise depends.error("targets", f"have {shown(unknown)}, and no step is", "name another step")
        graph[name] = targets
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        circle = " and ".join(sorted(set(found.args[1])))
        raise spec.error("flows", f"wait for each other: {circle}", "let one of them depend on none") from None


# What may start -------------------------------------------------------------------------------------------------------


def phase_of(job: Mapping[str, Any] | None) -> str:
    """How far a job is; empty where it has not begun."""
    return str((((job or {}).get("status") or {}).get("state") or {}).get("phase") or "")


def _may_start(sight: FlowSight, step: Fields, flow: str, steps: FlowSteps) -> bool:
    depends = step.child("dependsOn")
    targets = [sight.jobs.get(job_name(flow, one)) for one in depends.texts("targets")]
    if not depends.has("probe"):
        return all(phase_of(target) == Phase.COMPLETED for target in targets)
    for target in targets:
        if target is None or not _is_proven(sight, depends.child("probe"), target, steps):
            return False
    return True


def _is_proven(sight: FlowSight, probe: Fields, job: Mapping[str, Any], steps: FlowSteps) -> bool:
    """Whether all that is asked of a job's pods holds; notes what has yet to be asked."""
    pods = [Fields(pod) for pod in sight.pods(job)]
    for wanted in probe.children("taskStatusList"):
        found = _of_task(pods, wanted.text("taskName"))
        if not found or any(pod.child("status").text("phase") != wanted.text("phase") for pod in found):
            return False
    checks = list(_checks(probe, pods))
    steps.asked.update(one for one in checks if one is not None)
    return all(one is not None and sight.answers.get(one, False) for one in checks)


def _checks(probe: Fields, pods: list[Fields]) -> Iterator[Check | None]:
    """The questions to the pods of a job; `None` where there is nobody to ask yet."""
    for kind in ("httpGetList", "tcpSocketList"):
        for wanted in probe.children(kind):
            header = wanted.child("httpHeader")
            found = _of_task(pods, wanted.text("taskName"))
            if not found:
                yield None
            for pod in found:
                address = pod.child("status").text("podIP")
                if not address:
                    yield None
                    continue
                yield Check(
                    address,
                    wanted.integer("port", least=0, most=65535),
                    (wanted.text("path") or "/") if kind == "httpGetList" else "",
                    (header.text("name"), header.text("value")) if header.text("name") else None,
                )


def _of_task(pods: list[Fields], task: str) -> list[Fields]:
    return [pod for pod in pods if not task or pod.child("metadata").text_map("labels").get(TASK_SPEC) == task]


# New jobs -------------------------------------------------------------------------------------------------------------


def _job(flow: Fields, step: Fields, template: Mapping[str, Any]) -> Object:
    metadata = flow.child("metadata")
    name, namespace = metadata.text("name"), metadata.text("namespace")
    made_by = {BY_TEMPLATE: f"{namespace}.{step.text('name')}", BY_FLOW: f"{namespace}.{name}"}
    patch = step.child("patch").child("jobSpec").values
    said = {key: value for key, value in patch.items() if _PATCH_DEFAULTS.get(key) != value}
    return {
        "apiVersion": BATCH,
        "kind": "Job",
        "metadata": {
            "name": job_name(name, step.text("name")),
            "namespace": namespace,
            "labels": {key: value for key, value in made_by.items() if len(value) <= _LABEL_MOST},
            "annotations": made_by,
            "ownerReferences": [
                {
                    "apiVersion": FLOW_GROUP,
                    "kind": "JobFlow",
                    "name": name,
                    "uid": metadata.text("uid"),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": merged(template.get("spec") or {}, said),
    }


def merged(base: Any, patch: Any) -> Any:
    """One value with another over it: objects by key, lists of named objects by name, everything else replaced."""
    if isinstance(base, Mapping) and isinstance(patch, Mapping):
        both = {key: merged(base[key], value) if key in base else deepcopy(value) for key, value in patch.items()}
        return {**deepcopy(dict(base)), **both}
    if _is_named(base) and _is_named(patch):
        by_name = {one["name"]: one for one in patch}
        known = {one["name"] for one in base}
        kept = [merged(one, by_name[one["name"]]) if one["name"] in by_name else deepcopy(one) for one in base]
        return [*kept, *(deepcopy(one) for one in patch if one["name"] not in known)]
    return deepcopy(patch)


def _is_named(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(one, dict) and one.get("name") for one in given)


# Status ---------------------------------------------------------------------------------------------------------------


def _status(sight: FlowSight, flow: str, wanted: list[str], had: str) -> Object:
    names = [job_name(flow, step) for step in wanted]
    phases = {name: phase_of(sight.jobs[name]) for name in names if name in sight.jobs}
    status: Object = {}
    for field_name, meant in _LISTS.items():
        if found := [name for name in names if name in phases and phases[name] in meant]:
            status[field_name] = found
    if phases:
        status["conditions"] = {name: _condition(sight.jobs[name]) for name in phases}
        status["jobStatusList"] = [_job_status(name, sight.jobs[name]) for name in phases]
    status["state"] = {"phase": _phase(list(phases.values()), len(wanted), had)}
    return status


def _phase(phases: list[str], count: int, had: str) -> str:
    if had in ("Succeed", "Failed") and len(phases) < count:
        return had  # its jobs may be gone by now
    if len(phases) == count and all(phase == Phase.COMPLETED for phase in phases):
        return "Succeed"
    is_busy = any(phase not in (Phase.COMPLETED, *_FAILED) for phase in phases)
    if any(phase in _FAILED for phase in phases) and not is_busy:
        return "Failed"
    has_begun = any(phase not in ("", Phase.PENDING) for phase in phases)
    return "Running" if has_begun else "Pending"


def _condition(job: Mapping[str, Any]) -> Object:
    status = job.get("status") or {}
    found = {
        "phase": phase_of(job),
        "createTime": job["metadata"].get("creationTimestamp"),
        "runningDuration": status.get("runningDuration"),
        "taskStatusCount": status.get("taskStatusCount"),
    }
    return {name: value for name, value in found.items() if value}


def _job_status(name: str, job: Mapping[str, Any]) -> Object:
    status = job.get("status") or {}
    conditions = status.get("conditions") or []
    histories = []
    for number, one in enumerate(conditions):
        entry = {"state": one["status"], "startTimestamp": one.get("lastTransitionTime")}
        if number + 1 < len(conditions):
            entry["endTimestamp"] = conditions[number + 1].get("lastTransitionTime")
        histories.append({key: value for key, value in entry.items() if value})
    found: Object = {"name": name, "state": phase_of(job), "startTimestamp": job["metadata"].get("creationTimestamp")}
    if phase_of(job) in (Phase.COMPLETED, *_FAILED):
        found["endTimestamp"] = (status.get("state") or {}).get("lastTransitionTime")
    if status.get("retryCount"):
        found["restartCount"] = status["retryCount"]
    if histories:
        found["runningHistories"] = histories
    return {key: value for key, value in found.items() if value}
