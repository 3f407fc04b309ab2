"""Jobs of several pod templates behind one switch that suspends them: what such kinds share. Used by `jobs`.

A kind says where its templates and its switch are; holding back, starting, stopping and restoring follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.engine.contracts import Ending, JobPodSet, PodSetStart
from muster.engine.pod_templates import restored, started
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields

Steps = tuple[str | int, ...]  # the way to a value inside an object
STOPPING = "kueue.x-k8s.io/stopping"  # on a job from its stop until its templates are as they were
POD_SETS_MOST = 18  # of one workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Equal pods of a job, and where their template stands in it."""

    name: str
    count: int
    at: Steps = ()  # empty: the job has no template for them, so they are as whoever makes them likes
    template: Mapping[str, Any] | None = None  # what they look like, where that is not in the job word by word
    index_label: str = ""  # the label that numbers the pods, where they are numbered
    group_label: str = ""  # the label that numbers equal groups of them
    group_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateForm:
    """Where a kind of job has its pod templates and its switch."""

    roles: Callable[[Fields], Iterable[Role]]
    switch: Steps  # the field that suspends the job
    problems: Callable[[Fields], Iterable[InvalidObject]] = lambda _job: ()  # beyond those of its templates

    def pod_sets(self, job: Fields) -> tuple[JobPodSet, ...]:
        """The pods that the job asks for, in its own order; raises `InvalidObjects` with all that is wrong."""
        problems, sets = list(self.problems(job)), []
        for role in self.roles(job) if not problems else ():
            template = fields_at(job, role.at)
            shown = Fields(_only_template(template.values if role.template is None else role.template), template.path)
            problems += _template_problems(shown)
            sets.append(
                JobPodSet(
                    name=role.name,
                    count=role.count,
                    template=shown.values,
                    template_path=shown.path,
                    index_label=role.index_label,
                    group_label=role.group_label,
                    group_count=role.group_count,
                )
            )
        problems += _set_problems(sets)
        if problems:
            raise InvalidObjects(tuple(problems))
        return tuple(sets)

    def is_suspended(self, job: Fields) -> bool:
        """Whether its pods are held back; one that is being stopped still has pods."""
        return self._is_switched(job) and not is_stopping(job)

    def hold(self, job: Fields) -> dict[str, Any]:
        """A new job that makes no pods yet."""
        return with_value(job, self.switch, True)

    def suspend(self, job: Fields) -> dict[str, Any]:
        """A job whose pods go, marked until its templates are as they were."""
        return dict(job.values) if self._is_switched(job) else marked(Fields(self.hold(job)))

    def start(self, job: Fields, starts: tuple[PodSetStart, ...]) -> dict[str, Any]:
        """A job that makes its pods on the nodes that were assigned."""
        given, result = {one.name: one for one in starts}, job
        for role in self.roles(job):
            if role.at and role.name in given:
                template = started(fields_at(result, role.at), given[role.name])
                result = Fields(with_value(result, role.at, template))
        return with_value(result, self.switch, False)

    def restore(self, job: Fields, pod_sets: tuple[JobPodSet, ...]) -> dict[str, Any]:
        """A stopped job as it was before its start."""
        before, result = {one.name: one.template for one in pod_sets}, job
        for role in self.roles(job):
            if role.at and role.name in before:
                template = restored(fields_at(result, role.at), before[role.name])
                result = Fields(with_value(result, role.at, template))
        return unmarked(result)

    def _is_switched(self, job: Fields) -> bool:
        *way, name = self.switch
        return fields_at(job, tuple(way)).flag(str(name))


def is_stopping(job: Fields) -> bool:
    """Whether a stop has begun and not ended."""
    return job.child("metadata").text_map("annotations").get(STOPPING) == "true"


def marked(job: Fields) -> dict[str, Any]:
    """A job whose stop has begun."""
    metadata = job.child("metadata")
    return with_value(job, ("metadata", "annotations"), {**metadata.text_map("annotations"), STOPPING: "true"})


def unmarked(job: Fields) -> dict[str, Any]:
    """A job whose stop has ended."""
    metadata = job.child("metadata")
    annotations = {key: value for key, value in metadata.text_map("annotations").items() if key != STOPPING}
    kept = {name: value for name, value in metadata.values.items() if name != "annotations"}
    return {**job.values, "metadata": {**kept, **({"annotations": annotations} if annotations else {})}}


def ended_by_condition(job: Fields, succeeded: str, failed: str = "Failed") -> Ending | None:
    """How a job ended, as one of two conditions says; the message is that condition's."""
    for condition in job.child("status").children("conditions"):
        kind = condition.text("type")
        if kind in (succeeded, failed) and condition.text("status") == "True":
            return Ending(kind == succeeded, condition.text("message"))
    return None


def has_true_condition(status: Fields, name: str) -> bool:
    """Whether a status has a condition that is true."""
    conditions = status.children("conditions")
    return any(one.text("type") == name and one.text("status") == "True" for one in conditions)


# Ways into objects --------------------------------------------------------------------------------------------------


def fields_at(job: Fields, at: Steps) -> Fields:
    """The object at the end of a way; an absent one is empty."""
    value: Any = job.values
    path = job.path
    for step in at:
        path = f"{path}[{step}]" if isinstance(step, int) else f"{path}.{step}".removeprefix(".")
        value = _inner(value, step)
        if isinstance(step, str) and value is not None and not isinstance(value, (Mapping, list)):
            break
    return Fields.of(value, path)


def named_at(job: Fields, at: tuple[str, ...]) -> str:
    """The text at the end of a way; an absent one is empty."""
    return fields_at(job, at[:-1]).text(at[-1])


def with_value(job: Fields, at: Steps, value: Any) -> dict[str, Any]:
    """The object with another value at the end of a way; what is missing on it is made."""
    changed: dict[str, Any] = _replaced(job.values, at, value)
    return changed


def _inner(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and step < len(value) else None
    return value.get(step) if isinstance(value, Mapping) else None


def _replaced(old: Any, at: Steps, value: Any) -> Any:
    if not at:
        return value
    step, rest = at[0], at[1:]
    new = _replaced(_inner(old, step), rest, value)
    if isinstance(step, int):
        return [new if index == step else one for index, one in enumerate(old)]
    return {**(old or {}), step: new}


def _only_template(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A template without what makes a whole object of it."""
    return {name: values[name] for name in ("metadata", "spec") if values.get(name) is not None}


# Checks -------------------------------------------------------------------------------------------------------------


def _template_problems(template: Fields) -> list[InvalidObject]:
    try:
        spec = template.child("spec")
        if not spec.items("containers"):
            return [spec.error("containers", "is missing", "give at least one container")]
    except InvalidObject as problem:
        return [problem]
    return []


def _set_problems(sets: list[JobPodSet]) -> list[InvalidObject]:
    if len(sets) > POD_SETS_MOST:
        problem = f"has {len(sets)} kinds of pods"
        return [InvalidObject("spec", problem, f"give at most {POD_SETS_MOST}, or split the job")]
    names = [one.name for one in sets]
    twice = next((one for one in sets if names.count(one.name) > 1), None)
    if twice is not None:
        return [InvalidObject(twice.template_path, f"is a second set by the name {twice.name}", "name each once")]
    return []
