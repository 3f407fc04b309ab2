"""Kubeflow's TrainJob: a run of a runtime that somebody has prepared. Found by `app` through INTEGRATION.

Its pods are described by the runtime, so what is needed of that is kept on the job from its creation on: `runtime`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.engine.contracts import GroupVersionKind, Integration, JobPodSet, PodSetStart
from muster.engine.job_forms import Role, TemplateForm, ended_by_condition, unmarked, with_value
from muster.engine.pod_templates import started
from muster.jobs.trainjob.runtime import GROUP, KEPT, RESOURCES, kept_runtime, roles_of, with_runtime
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

_ANNOTATIONS = ("metadata", "annotations")
# What pods get beside their runtime: the first is the field of older versions, which knows no labels and no gates.
SPEC_OVERRIDES, TEMPLATE_OVERRIDES = "podSpecOverrides", "podTemplateOverrides"
ADDED = "muster.dev/overrides"  # how many of them a start has added


def _roles(job: Fields) -> Iterator[Role]:
    return roles_of(job, kept_runtime(job))


def _problems(job: Fields) -> Iterator[InvalidObject]:
    if not job.child("spec").child("runtimeRef").text("name"):
        yield job.child("spec").child("runtimeRef").error("name", "is missing", "name the runtime to run")


def _start(job: Fields, starts: tuple[PodSetStart, ...]) -> dict[str, Any]:
    for pod_set, given in zip(FORM.pod_sets(job), starts, strict=True):
        started(Fields(pod_set.template, pod_set.template_path), given)  # raises where the runtime says otherwise
    spec = job.child("spec")
    places = [{"targetJobs": [{"name": one.name}], **_place(one)} for one in starts]
    templates = [{"targetJobs": [{"name": one.name}], **_template(one)} for one in starts]
    changed = {
        **spec.values,
        SPEC_OVERRIDES: [*spec.items(SPEC_OVERRIDES), *places],
        TEMPLATE_OVERRIDES: [*spec.items(TEMPLATE_OVERRIDES), *templates],
        "suspend": False,
    }
    annotations = {**job.child("metadata").text_map("annotations"), ADDED: str(len(starts))}
    return with_value(Fields({**job.values, "spec": changed}), _ANNOTATIONS, annotations)


def _place(given: PodSetStart) -> dict[str, Any]:
    tolerations = [dict(one) for one in given.tolerations]
    parts = {"nodeSelector": dict(given.node_labels), "tolerations": tolerations}
    return {name: value for name, value in parts.items() if value}


def _template(given: PodSetStart) -> dict[str, Any]:
    metadata = {"labels": dict(given.labels), "annotations": dict(given.annotations)}
    gates = [{"name": name} for name in given.gates]
    return {"metadata": metadata, "spec": {**_place(given), **({"schedulingGates": gates} if gates else {})}}


def _restore(job: Fields, _pod_sets: tuple[JobPodSet, ...]) -> dict[str, Any]:
    spec, annotations = job.child("spec"), job.child("metadata").text_map("annotations")
    added = annotations.pop(ADDED, "0")
    count = int(added) if added.isascii() and added.isdigit() and len(added) < 4 else 0
    changed = dict(spec.values)
    for name in (SPEC_OVERRIDES, TEMPLATE_OVERRIDES) if count else ():
        if left := spec.items(name)[:-count]:
            changed[name] = left
        else:
            changed.pop(name, None)
    return unmarked(
        Fields(with_value(Fields({**job.values, "spec": changed}), ("metadata", "annotations"), annotations))
    )


def _changes(new: Fields, before: Fields) -> Iterator[InvalidObject]:
    now, had = (one.child("metadata").text_map("annotations").get(KEPT) for one in (new, before))
    if now != had:
        yield InvalidObject(
            f"metadata.annotations[{KEPT}]", "was changed", "leave it: it says what the job is counted by"
        )


def _done(job: Fields, *names: str) -> dict[str, int]:
    """How many jobs of each role are in one of some states."""
    found = job.child("status").children("jobsStatus")
    return {one.text("name"): sum(one.integer(name) for name in names) for one in found}


def _is_ready(job: Fields) -> bool:
    ready = _done(job, "ready", "succeeded")
    return all(ready.get(role.name, 0) >= max(1, role.group_count) for role in _roles(job))


def _reclaimable(job: Fields) -> Mapping[str, int]:
    succeeded = _done(job, "succeeded")
    return {one.name: one.count for one in _roles(job) if succeeded.get(one.name, 0) >= max(1, one.group_count)}


FORM = TemplateForm(roles=_roles, problems=_problems, switch=("spec", "suspend"))
INTEGRATION = Integration(
    name=f"{GROUP}/trainjob",
    gvk=GroupVersionKind(GROUP, "v1alpha1", "TrainJob"),
    plural="trainjobs",
    pod_sets=FORM.pod_sets,
    is_suspended=FORM.is_suspended,
    hold=FORM.hold,
    start=_start,
    suspend=FORM.suspend,
    restore=_restore,
    finished=lambda job: ended_by_condition(job, "Complete"),
    is_active=lambda job: any(_done(job, "active").values()),
    is_ready=_is_ready,
    reclaimable=_reclaimable,
    changes=_changes,
    also_read=tuple(RESOURCES.values()),
    settle=with_runtime,
    managed_by=("spec", "managedBy"),
    own_controller="trainer.kubeflow.org/trainjob-controller",
)
