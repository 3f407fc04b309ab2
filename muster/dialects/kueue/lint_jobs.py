"""Lint's rules on jobs and pods. Called by `lint`."""

from __future__ import annotations

from collections.abc import Iterator

from muster.dialects.kueue import names
from muster.dialects.kueue.lint_cards import is_extended
from muster.dialects.kueue.lint_suggest import Suggestions
from muster.dialects.kueue.lint_view import (
    CLAIM,
    JOB,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    Finding,
    Item,
    JobView,
    ObjectSet,
    Severity,
    Template,
    listed,
    mapping,
    text,
    whole,
)
from muster.model.fields import shown

BUILT_IN_PRIORITY_PREFIX = "system-"
SHOWN_FLAVORS = 3
RESTART_POLICIES = ("Never", "OnFailure")


def queue_in_annotation(objects: ObjectSet) -> Iterator[Finding]:
    """The queue is named in a label; the annotation is of Kueue's first days."""
    for job in objects.jobs:
        queue = job.item.annotations.get(names.QUEUE_NAME)
        if queue and names.QUEUE_NAME not in job.item.labels:
            yield Finding(
                code="queue-in-annotation",
                source=job.item.source,
                reference=job.item.reference,
                path=f"metadata.annotations[{names.QUEUE_NAME}]",
                problem="names the queue in an annotation, which Kueue no longer reads",
                what_to_write=f"metadata.labels: {{{names.QUEUE_NAME}: {queue}}}",
                severity=Severity.WARNING,
            )


def missing_local_queues(objects: ObjectSet) -> Iterator[Finding]:
    """A job's queue is in the job's own namespace."""
    for job in objects.jobs:
        namespace, queue = job.item.namespace, job.queue
        if not queue or objects.find(LOCAL_QUEUE, queue, namespace):
            continue
        elsewhere = objects.homes.get(queue, [])
        there = f"; namespace {elsewhere[0]} has one" if elsewhere else ""
        here = objects.some_names(LOCAL_QUEUE, namespace)
        new = f"a LocalQueue {queue} in namespace {namespace}"
        yield Finding(
            code="missing-local-queue",
            source=job.item.source,
            reference=job.item.reference,
            path=job.queue_path,
            problem=f"names queue {queue}, which namespace {namespace} does not have in this set{there}",
            what_to_write=f"one of {', '.join(here)}, or {new}" if here else new,
            severity=Severity.WARNING if objects.of(LOCAL_QUEUE) else Severity.NOTE,
        )


def uncovered_resources(objects: ObjectSet) -> Iterator[Finding]:
    """A queue admits only jobs whose resources it counts."""
    suggestions = Suggestions(objects)
    for job in objects.jobs:
        queue = objects.queue_behind(job)
        if queue is None:
            continue
        missing = uncovered(job, queue.covered)
        if missing:
            yield Finding(
                code="uncovered-resource",
                source=job.item.source,
                reference=job.item.reference,
                path=f"{job.templates[0].path}.containers",
                problem=f"asks for {_and(missing)}, which {queue.reference} does not cover, and so is never admitted",
                what_to_write=_quotas_for(suggestions, queue, job, missing),
                severity=Severity.ERROR,
            )


def _quotas_for(suggestions: Suggestions, queue: Item, job: JobView, missing: list[str]) -> str:
    """Where the resources go, and quotas that would do."""
    where = f"of {queue.reference} ({queue.source})"
    group = suggestions.group_for(queue, job)
    if group is None:
        return f"a resource group with {_and(missing)} in the spec {where}"
    quotas = []
    for flavor in group.flavors[:SHOWN_FLAVORS]:
        lines = (f"{name}: {suggestions.quota_text(queue, group, flavor, name)}" for name in missing)
        quotas.append(f"{', '.join(lines)} in {flavor.name}")
    return f"{_and(missing)} in {group.path}.coveredResources {where}, with quotas such as {'; '.join(quotas)}"


def uncovered(job: JobView, covered: frozenset[str]) -> list[str]:
    """The resources a job asks some of and a queue does not count."""
    return sorted(resource for resource, asked in job.requests.items() if asked > 0 and resource not in covered)


def priority_in_annotation(objects: ObjectSet) -> Iterator[Finding]:
    """The priority class of a workload is named in a label."""
    for job in objects.jobs:
        name = job.item.annotations.get(names.PRIORITY_CLASS)
        if name and names.PRIORITY_CLASS not in job.item.labels:
            yield Finding(
                code="priority-in-annotation",
                source=job.item.source,
                reference=job.item.reference,
                path=f"metadata.annotations[{names.PRIORITY_CLASS}]",
                problem="names the priority class in an annotation, which Kueue does not read",
                what_to_write=f"metadata.labels: {{{names.PRIORITY_CLASS}: {name}}}",
                severity=Severity.WARNING,
            )


def wrong_priority_classes(objects: ObjectSet) -> Iterator[Finding]:
    """The label wants a WorkloadPriorityClass, the pod a PriorityClass; neither stands in for the other."""
    for job in objects.jobs:
        for name, path in _workload_classes_of(job):
            if objects.find(WORKLOAD_PRIORITY_CLASS, name):
                continue
            namesake = objects.find(PRIORITY_CLASS, name)
            if namesake is not None:
                problem = f"names {name}, which is a PriorityClass ({namesake.source}) and no WorkloadPriorityClass"
            else:
                problem = f"names {name}, a WorkloadPriorityClass that is not in this set"
            known = objects.of(WORKLOAD_PRIORITY_CLASS)
            value = whole(namesake.value.get("value")) if namesake else 1000
            yield Finding(
                code="wrong-priority-class" if namesake else "missing-priority-class",
                source=job.item.source,
                reference=job.item.reference,
                path=path,
                problem=problem,
                what_to_write=f"{{kind: WorkloadPriorityClass, metadata: {{name: {name}}}, value: {value}}}",
                severity=Severity.WARNING if known or namesake else Severity.NOTE,
            )
        yield from _missing_pod_classes(objects, job)


def _workload_classes_of(job: JobView) -> Iterator[tuple[str, str]]:
    if job.item.kind == WORKLOAD:
        ref = mapping(job.item.spec.get("priorityClassRef"))
        if ref.get("kind") == WORKLOAD_PRIORITY_CLASS[1] and text(ref.get("name")):
            yield text(ref.get("name")), "spec.priorityClassRef.name"
        return
    for where, values in (("labels", job.item.labels), ("annotations", job.item.annotations)):
        if name := values.get(names.PRIORITY_CLASS):
            yield name, f"metadata.{where}[{names.PRIORITY_CLASS}]"
            return


def _missing_pod_classes(objects: ObjectSet, job: JobView) -> Iterator[Finding]:
    for template in job.templates:
        name = text(template.spec.get("priorityClassName"))
        if not name or name.startswith(BUILT_IN_PRIORITY_PREFIX) or objects.find(PRIORITY_CLASS, name):
            continue
        yield Finding(
            code="missing-pod-priority-class",
            source=job.item.source,
            reference=job.item.reference,
            path=f"{template.path}.priorityClassName",
            problem=f"names PriorityClass {name}, which is not in this set, and Kubernetes refuses the pod without it",
            what_to_write=f"a PriorityClass named {name}, or leave it out",
            severity=Severity.WARNING if objects.of(PRIORITY_CLASS) else Severity.NOTE,
        )


def capped_completions(objects: ObjectSet) -> Iterator[Finding]:
    """A job never runs more pods at once than it still has to complete."""
    for job in objects.of(JOB):
        completions, parallelism = whole(job.spec.get("completions")), whole(job.spec.get("parallelism"))
        if completions is not None and parallelism is not None and 0 <= completions < parallelism:
            yield Finding(
                code="completions-below-parallelism",
                source=job.source,
                reference=job.reference,
                path="spec.completions",
                problem=f"is {completions}, which caps the {parallelism} pods of parallelism at {completions}",
                what_to_write=f"completions: {parallelism}, or leave it out",
                severity=Severity.WARNING,
            )


def missing_claims(objects: ObjectSet) -> Iterator[Finding]:
    """A pod does not start before the claims it names exist."""
    for job in objects.jobs:
        for template in job.templates:
            for name, path in claims_of(template):
                if objects.find(CLAIM, name, job.item.namespace) is None:
                    yield Finding(
                        code="missing-claim",
                        source=job.item.source,
                        reference=job.item.reference,
                        path=path,
                        problem=f"names claim {name}, which namespace {job.item.namespace} does not have in this set, "
                        "and the pods do not start without it",
                        what_to_write=f"a PersistentVolumeClaim {name} in namespace {job.item.namespace}",
                        severity=Severity.WARNING,
                    )


def claims_of(template: Template) -> Iterator[tuple[str, str]]:
    """The claims a pod names, each with the path of its name."""
    for index, volume in enumerate(listed(template.spec.get("volumes"))):
        name = text(mapping(mapping(volume).get("persistentVolumeClaim")).get("claimName"))
        if name:
            yield name, f"{template.path}.volumes[{index}].persistentVolumeClaim.claimName"


def requests_without_limits(objects: ObjectSet) -> Iterator[Finding]:
    """Kubernetes does not overcommit extended resources: a request needs a limit of the same size."""
    for job in objects.jobs:
        for template in job.templates:
            for path, container in template.containers:
                for resource in unlimited_requests(container):
                    asked = mapping(mapping(container.get("resources")).get("requests"))[resource]
                    yield Finding(
                        code="request-without-limit",
                        source=job.item.source,
                        reference=job.item.reference,
                        path=f"{path}.resources.requests[{resource}]",
                        problem=f"asks for {resource} without a limit, which Kubernetes refuses",
                        what_to_write=f"limits: {{{resource}: {shown(asked)}}}",
                        severity=Severity.ERROR,
                    )


def unlimited_requests(container: dict[str, object]) -> list[str]:
    """The extended resources a container requests and sets no limit for."""
    resources = mapping(container.get("resources"))
    limits = mapping(resources.get("limits"))
    return [
        resource
        for resource, asked in mapping(resources.get("requests")).items()
        if isinstance(resource, str) and is_extended(resource) and asked is not None and limits.get(resource) is None
    ]


def restart_policies(objects: ObjectSet) -> Iterator[Finding]:
    """A job's pods end, so their restart policy cannot be the default Always."""
    for job in objects.jobs:
        if job.item.kind != JOB:
            continue
        pod_spec = mapping(mapping(job.item.spec.get("template")).get("spec"))
        policy = pod_spec.get("restartPolicy")
        if policy in RESTART_POLICIES:
            continue
        yield Finding(
            code="restart-policy",
            source=job.item.source,
            reference=job.item.reference,
            path="spec.template.spec.restartPolicy",
            problem="is missing" if policy is None else "is neither Never nor OnFailure",
            what_to_write="restartPolicy: Never, or OnFailure",
            severity=Severity.ERROR,
        )


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
