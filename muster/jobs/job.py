"""Kubernetes' own Job: one pod set of as many pods as run at once. Found by `app` through INTEGRATION."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.engine.contracts import Ending, GroupVersionKind, Integration, JobPodSet
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"
STOPPING = "kueue.x-k8s.io/stopping"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
POD_SET = "main"
RESTART_POLICIES = ("OnFailure", "Never")
INDEXED = "Indexed"
MODES = ("NonIndexed", INDEXED)
# The job's controller writes these on its pods; they are no part of what the user asked for.
CONTROLLER_LABELS = frozenset(
    ("job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid")
)
# What Go reads as a truth value; Kueue reads the annotation so.
TRUE, FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
NUMBER_LENGTH = 10


def pod_sets(job: Fields) -> tuple[JobPodSet, ...]:
    """The pods that run at once; with the annotation for it, the job may start with fewer of them."""
    problems = tuple(_problems(job))
    if problems:
        raise InvalidObjects(problems)
    template = job.child("spec").child("template")
    return (
        JobPodSet(
            name=POD_SET,
            count=pod_count(job),
            count_least=_count_least(job),
            template=_without_controller_labels(template),
            template_path=template.path,
            index_label=INDEX_LABEL,
        ),
    )


def pod_count(job: Fields) -> int:
    """As many as may run at once, but never more than have to complete."""
    spec = job.child("spec")
    parallelism = spec.integer("parallelism", 1, least=0)
    return min(parallelism, spec.integer("completions", parallelism, least=0))


def is_suspended(job: Fields) -> bool:
    """Whether its pods are held back; one that is being stopped still has pods."""
    is_stopping = job.child("metadata").text_map("annotations").get(STOPPING) == "true"
    return job.child("spec").flag("suspend") and not is_stopping


def finished(job: Fields) -> Ending | None:
    """How the job ended, as its conditions say."""
    for condition in job.child("status").children("conditions"):
        kind = condition.text("type")
        if kind in ("Complete", "Failed") and condition.text("status") == "True":
            return Ending(kind == "Complete", condition.text("message"))
    return None


def _problems(job: Fields) -> Iterator[InvalidObject]:
    """What Kubernetes or Kueue would refuse of the job's own fields; the pod's are the workload's part to check."""
    checks = (_spec_problems, _template_problems, _annotation_problems)
    for check in checks:
        try:
            yield from check(job)
        except InvalidObject as problem:
            yield problem


def _spec_problems(job: Fields) -> Iterator[InvalidObject]:
    spec = job.child("spec")
    pod_count(job)
    spec.flag("suspend")
    if spec.choice("completionMode", MODES) == INDEXED and not spec.has("completions"):
        yield spec.error("completions", "is missing", "an Indexed job needs it")


def _template_problems(job: Fields) -> Iterator[InvalidObject]:
    pod = job.child("spec").child("template").child("spec")
    policy = pod.text("restartPolicy")
    if policy not in RESTART_POLICIES:
        problem = f"is {shown(policy)}" if policy else "is missing"
        yield pod.error("restartPolicy", problem, "give OnFailure or Never: a job's pods end")
    if not pod.items("containers"):
        yield pod.error("containers", "is missing", "give at least one container")


def _annotation_problems(job: Fields) -> Iterator[InvalidObject]:
    spec, metadata = job.child("spec"), job.child("metadata")
    annotations = metadata.text_map("annotations")
    least = annotations.get(MIN_PARALLELISM)
    if least is not None:
        number, count = _whole(least), pod_count(job)
        if number is None or not 0 < number < count:
            path = f"{metadata.at('annotations')}[{MIN_PARALLELISM}]"
            hint = f"give a whole number above 0 and below {count}, the pods that run at once"
            yield InvalidObject(path, f"is {shown(least)}", hint)
    equal = annotations.get(COMPLETIONS_EQUAL_PARALLELISM)
    if equal is None:
        return
    path = f"{metadata.at('annotations')}[{COMPLETIONS_EQUAL_PARALLELISM}]"
    if equal not in (*TRUE, *FALSE):
        yield InvalidObject(path, f"is {shown(equal)}", 'give "true" or "false"')
    elif equal in TRUE:
        is_equal = spec.integer("parallelism", 1) == spec.integer("completions", -1)
        if spec.text("completionMode") != INDEXED or not is_equal:
            hint = "give completionMode Indexed and as many completions as parallelism"
            yield InvalidObject(path, "is true for a job that is not of that form", hint)


def _count_least(job: Fields) -> int | None:
    text = job.child("metadata").text_map("annotations").get(MIN_PARALLELISM)
    return _whole(text) if text is not None else None


def _whole(text: str) -> int | None:
    """A plain whole number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= NUMBER_LENGTH else None


def _without_controller_labels(template: Fields) -> Mapping[str, Any]:
    metadata = template.child("metadata")
    labels = metadata.text_map("labels")
    if CONTROLLER_LABELS.isdisjoint(labels):
        return template.values
    kept = {key: value for key, value in labels.items() if key not in CONTROLLER_LABELS}
    return {**template.values, "metadata": {**metadata.values, "labels": kept}}


INTEGRATION = Integration(
    name="batch/job",
    gvk=GroupVersionKind("batch", "v1", "Job"),
    pod_sets=pod_sets,
    is_suspended=is_suspended,
    finished=finished,
)
