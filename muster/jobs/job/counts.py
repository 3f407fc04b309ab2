"""How many pods a Job runs at once, and the annotations that let it start with fewer."""

from __future__ import annotations

from muster.model.fields import Fields

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"
INDEXED = "Indexed"
# What Go reads as a truth value; Kueue reads the annotation so.
TRUE, FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
NUMBER_LENGTH = 10


def pod_count(job: Fields) -> int:
    """As many as may run at once, but never more than have to complete."""
    spec = job.child("spec")
    parallelism = spec.integer("parallelism", 1, least=0)
    return min(parallelism, spec.integer("completions", parallelism, least=0))


def count_least(job: Fields) -> int | None:
    """With how few pods the job may start; `None`: with all of them."""
    text = job.child("metadata").text_map("annotations").get(MIN_PARALLELISM)
    return whole(text) if text is not None else None


def with_count(job: Fields, count: int) -> dict[str, object]:
    """The spec of a job that runs another number of pods; where its annotation says so, as many complete."""
    spec = {**job.child("spec").values, "parallelism": count}
    if job.child("metadata").text_map("annotations").get(COMPLETIONS_EQUAL_PARALLELISM) in TRUE:
        spec["completions"] = count
    return spec


def whole(text: str) -> int | None:
    """A plain whole number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= NUMBER_LENGTH else None
