"""What Kubernetes or Kueue would refuse of a Job's own fields; the pod's are the workload's part to check."""

from __future__ import annotations

from collections.abc import Iterator

from muster.jobs.job.counts import (
    COMPLETIONS_EQUAL_PARALLELISM,
    FALSE,
    INDEXED,
    MIN_PARALLELISM,
    TRUE,
    pod_count,
    whole,
)
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown

RESTART_POLICIES = ("OnFailure", "Never")
MODES = ("NonIndexed", INDEXED)


def problems(job: Fields) -> Iterator[InvalidObject]:
    """All that is wrong, each with its place."""
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
        number, count = whole(least), pod_count(job)
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


def change_problems(new: Fields, before: Fields) -> Iterator[InvalidObject]:
    """What may not change while the job runs: with how many pods it does, where that was decided for it."""
    if before.child("spec").flag("suspend"):
        return
    annotations, had = (one.child("metadata").text_map("annotations") for one in (new, before))
    spec, hint = new.child("spec"), "suspend the job first"
    if MIN_PARALLELISM in had and spec.integer("parallelism", 1) != before.child("spec").integer("parallelism", 1):
        yield spec.error("parallelism", "was changed although the job may have started with fewer pods", hint)
    if annotations.get(COMPLETIONS_EQUAL_PARALLELISM) != had.get(COMPLETIONS_EQUAL_PARALLELISM):
        path = f"metadata.annotations[{COMPLETIONS_EQUAL_PARALLELISM}]"
        yield InvalidObject(path, "was changed while the job runs", hint)
