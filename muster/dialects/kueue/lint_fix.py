"""Repairs of what lint finds: the set as its author meant it. Called by `muster lint --fix`.

Each step repairs one kind of finding in copies of the objects; what needs a decision that the manifests do not hold
(which queue a job should use, what a missing flavor looks like) is left as it is, and lint goes on naming it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from muster.dialects.kueue import lint_fix_queues as queues
from muster.dialects.kueue import names
from muster.dialects.kueue.lint_jobs import RESTART_POLICIES, claims_of, unlimited_requests
from muster.dialects.kueue.lint_view import (
    CLAIM,
    CLUSTER_QUEUE,
    JOB,
    LOCAL_QUEUE,
    POD,
    PRIORITY_CLASS,
    WORKLOAD_PRIORITY_CLASS,
    Item,
    JobView,
    Object,
    ObjectSet,
    Sourced,
    mapping,
    text,
    whole,
)
from muster.model.plain import copied

DEFAULT_VERSION = f"{names.GROUP}/v1beta2"
CLAIM_SIZE = "100Gi"

Step = Callable[[ObjectSet], list[Sourced]]


def fixed(objects: Iterable[Sourced]) -> list[Sourced]:
    """A repaired copy of the set; a new object stands in the file of the object that needs it."""
    current: list[Sourced] = [(source, copied(value)) for source, value in objects]
    for step in STEPS:
        current = step(ObjectSet(current))
    return current


def _sourced(objects: ObjectSet) -> list[Sourced]:
    return [(item.source, item.value) for item in objects.items]


def _with_new(objects: ObjectSet, before: dict[int, list[Object]]) -> list[Sourced]:
    """The set with new objects, each before the item whose number it is given for, in the same file."""
    result: list[Sourced] = []
    for number, item in enumerate(objects.items):
        result += [(item.source, new) for new in before.get(number, [])]
        result.append((item.source, item.value))
    return result


def kueue_version(objects: ObjectSet) -> str:
    """The version that the set's own Kueue objects are written in."""
    written = (text(item.value.get("apiVersion")) for item in objects.items if item.kind[0] == names.GROUP)
    return next(written, DEFAULT_VERSION)


def labels_for_annotations(objects: ObjectSet) -> list[Sourced]:
    """Queue and priority class are named in labels."""
    for job in objects.jobs:
        for key in (names.QUEUE_NAME, names.PRIORITY_CLASS):
            value = job.item.annotations.get(key)
            if not value or key in job.item.labels:
                continue
            metadata = job.item.metadata
            del metadata["annotations"][key]
            if not metadata["annotations"]:
                del metadata["annotations"]
            if not isinstance(metadata.get("labels"), dict):
                metadata["labels"] = {}
            metadata["labels"][key] = value
    return _sourced(objects)


def workload_priority_classes(objects: ObjectSet) -> list[Sourced]:
    """Where a label names a PriorityClass, all of the set's get a WorkloadPriorityClass of the same name and value.

    Jobs that had the cluster's default priority then name it too, so that their order stays what it was.
    """
    wanted = [name for job in objects.jobs if (name := job.item.labels.get(names.PRIORITY_CLASS))]
    if not any(_is_confused(objects, name) for name in wanted):
        return _sourced(objects)
    before: dict[int, list[Object]] = {}
    default = ""
    for number, item in enumerate(objects.items):
        if item.kind != PRIORITY_CLASS or objects.find(WORKLOAD_PRIORITY_CLASS, item.name):
            continue
        before[number] = [_workload_class(item, kueue_version(objects))]
        if item.value.get("globalDefault") is True:
            default = item.name
    for job in objects.jobs:
        has_class = any(template.spec.get("priorityClassName") for template in job.templates)
        if default and job.queue and not has_class and job.item.kind in (JOB, POD):
            labels = job.item.metadata.get("labels")
            if isinstance(labels, dict):
                labels.setdefault(names.PRIORITY_CLASS, default)
    return _with_new(objects, before)


def _is_confused(objects: ObjectSet, name: str) -> bool:
    is_ours = objects.find(WORKLOAD_PRIORITY_CLASS, name) is not None
    return not is_ours and objects.find(PRIORITY_CLASS, name) is not None


def _workload_class(item: Item, version: str) -> Object:
    made: Object = {"apiVersion": version, "kind": WORKLOAD_PRIORITY_CLASS[1], "metadata": {"name": item.name}}
    made["value"] = whole(item.value.get("value")) or 0
    if description := text(item.value.get("description")):
        made["description"] = description
    return made


def local_queues(objects: ObjectSet) -> list[Sourced]:
    """A queue that jobs name and no object makes is made, where there is only one ClusterQueue to point to."""
    targets = objects.of(CLUSTER_QUEUE)
    before: dict[int, list[Object]] = {}
    made: set[tuple[str, str]] = set()
    numbers = {id(item): number for number, item in enumerate(objects.items)}
    for job in objects.jobs if len(targets) == 1 else ():
        key = (job.item.namespace, job.queue)
        if not job.queue or objects.find(LOCAL_QUEUE, job.queue, job.item.namespace) or key in made:
            continue
        made.add(key)
        queue: Object = {"apiVersion": kueue_version(objects), "kind": LOCAL_QUEUE[1]}
        queue["metadata"] = {"namespace": job.item.namespace, "name": job.queue}
        queue["spec"] = {"clusterQueue": targets[0].name}
        before.setdefault(numbers[id(job.item)], []).append(queue)
    return _with_new(objects, before)


def completions(objects: ObjectSet) -> list[Sourced]:
    """As many completions as pods that run at once."""
    for job in objects.of(JOB):
        done, at_once = whole(job.spec.get("completions")), whole(job.spec.get("parallelism"))
        if done is not None and at_once is not None and 0 <= done < at_once:
            job.spec["completions"] = at_once
    return _sourced(objects)


def restart_policies(objects: ObjectSet) -> list[Sourced]:
    for job in objects.of(JOB):
        pod_spec = mapping(mapping(job.spec.get("template")).get("spec"))
        if pod_spec and pod_spec.get("restartPolicy") not in RESTART_POLICIES:
            pod_spec["restartPolicy"] = RESTART_POLICIES[0]
    return _sourced(objects)


def limits_of_extended_resources(objects: ObjectSet) -> list[Sourced]:
    """A limit as large as the request."""
    for job in objects.jobs:
        for _, container in (pair for template in job.templates for pair in template.containers):
            for resource in unlimited_requests(container):
                resources = container["resources"]
                if not isinstance(resources.get("limits"), dict):
                    resources["limits"] = {}
                resources["limits"][resource] = resources["requests"][resource]
    return _sourced(objects)


def claims(objects: ObjectSet) -> list[Sourced]:
    """A claim for each that pods name; shared between nodes where several pods use it."""
    before: dict[int, list[Object]] = {}
    made: set[tuple[str, str]] = set()
    views = {id(job.item): job for job in objects.jobs}
    for number, item in enumerate(objects.items):
        job = views.get(id(item))
        for name, _ in (pair for template in (job.templates if job else ()) for pair in claims_of(template)):
            key = (item.namespace, name)
            if objects.find(CLAIM, name, item.namespace) is None and key not in made and job is not None:
                made.add(key)
                before.setdefault(number, []).append(_claim(job, name))
    return _with_new(objects, before)


def _claim(job: JobView, name: str) -> Object:
    mode = "ReadWriteMany" if job.pods > 1 or job.item.kind != POD else "ReadWriteOnce"
    return {
        "apiVersion": "v1",
        "kind": CLAIM[1],
        "metadata": {"namespace": job.item.namespace, "name": name},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": CLAIM_SIZE}}},
    }


def _in_place(repair: Callable[[ObjectSet], None]) -> Step:
    def step(objects: ObjectSet) -> list[Sourced]:
        repair(objects)
        return _sourced(objects)

    return step


# Quotas are made right while a shared queue is still one, so that each team gets a share of the right number.
STEPS: tuple[Step, ...] = (
    labels_for_annotations,
    workload_priority_classes,
    local_queues,
    _in_place(queues.cover_quotas),
    _in_place(queues.cover_resources),
    _in_place(queues.complete_flavors),
    _in_place(queues.correct_quotas),
    queues.split_shared_queues,
    _in_place(queues.join_cohorts),
    _in_place(queues.admit_namespaces),
    completions,
    restart_policies,
    limits_of_extended_resources,
    claims,
)
