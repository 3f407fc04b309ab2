"""SparkApplication: a driver and its executors. Found by `app` through INTEGRATION.

It has no pod templates word by word: `pods` says what its pods ask for, and a start changes the fields of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.engine.contracts import Ending, GroupVersionKind, Integration, JobPodSet, PodSetStart
from muster.engine.job_forms import Role, TemplateForm, unmarked, with_value
from muster.engine.pod_templates import started
from muster.jobs.sparkapplication.pods import template_of
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown

PARTS = ("driver", "executor")
GATES = "schedulingGates"
CHANGED = ("labels", "annotations", "nodeSelector", "tolerations", "template")  # what a start may change of a part
WITHOUT_PODS = ("", "SUSPENDED", "COMPLETED", "FAILED")


def _roles(application: Fields) -> Iterator[Role]:
    spec = application.child("spec")
    executors = spec.child("executor").integer("instances", 1, least=0)
    for name, count in zip(PARTS, (1, executors), strict=True):
        yield Role(name=name, count=count, at=("spec", name), template=template_of(spec, name))


def _problems(application: Fields) -> Iterator[InvalidObject]:
    spec = application.child("spec")
    if (mode := spec.text("mode", "cluster")) != "cluster":
        yield spec.error("mode", f"is {shown(mode)}", "give cluster: the driver of another mode is nobody's pod")
    if spec.child("dynamicAllocation").flag("enabled"):
        hint = "take it out: an application in a queue has the executors that were counted"
        yield spec.child("dynamicAllocation").error("enabled", "is true", hint)


def _start(application: Fields, starts: tuple[PodSetStart, ...]) -> dict[str, Any]:
    result = application
    for given in starts:
        part = application.child("spec").child(given.name)
        result = Fields(with_value(result, ("spec", given.name), _with_template(part, started(_template(part), given))))
    return with_value(result, ("spec", "suspend"), False)


def _restore(application: Fields, pod_sets: tuple[JobPodSet, ...]) -> dict[str, Any]:
    result = application
    for pod_set in pod_sets:
        part, before = application.child("spec").child(pod_set.name), Fields(pod_set.template)
        metadata, spec = before.child("metadata"), before.child("spec")
        had: dict[str, Any] = {
            "metadata": {name: _common(part, metadata, name) for name in ("labels", "annotations")},
            "spec": {
                "nodeSelector": _common(part, spec, "nodeSelector"),
                "tolerations": [one for one in part.items("tolerations") if one in spec.items("tolerations")],
                "schedulingGates": spec.items("schedulingGates"),
            },
        }
        result = Fields(with_value(result, ("spec", pod_set.name), _with_template(part, had)))
    return unmarked(result)


def _common(part: Fields, before: Fields, name: str) -> dict[str, str]:
    """What a part has now and its pods had before: a start only adds."""
    had = before.text_map(name)
    return {key: value for key, value in part.text_map(name).items() if key in had}


def _template(part: Fields) -> Fields:
    """What a start may change of a part, in the form of a pod template."""
    gates = part.child("template").child("spec").items("schedulingGates")
    metadata = {"labels": part.text_map("labels"), "annotations": part.text_map("annotations")}
    spec = {"nodeSelector": part.text_map("nodeSelector"), "tolerations": part.items("tolerations")}
    return Fields({"metadata": metadata, "spec": {**spec, "schedulingGates": gates}}, part.path)


def _with_template(part: Fields, template: dict[str, Any]) -> dict[str, Any]:
    """A part with what was changed in its template."""
    spec = dict(template.get("spec") or {})
    gates = spec.pop("schedulingGates", [])
    pod = {name: value for name, value in part.child("template").child("spec").values.items() if name != GATES}
    inner = {name: value for name, value in part.child("template").values.items() if name != "spec"}
    pod |= {GATES: gates} if gates else {}
    inner |= {"spec": pod} if pod else {}
    changes = {**(template.get("metadata") or {}), **spec, "template": inner}
    kept = {name: value for name, value in part.values.items() if name not in CHANGED}
    return {**kept, **{name: changes[name] for name in CHANGED if changes.get(name)}}


def _finished(application: Fields) -> Ending | None:
    state = application.child("status").child("applicationState")
    if state.text("state") not in ("COMPLETED", "FAILED"):
        return None
    return Ending(state.text("state") == "COMPLETED", state.text("errorMessage"))


def _state(application: Fields) -> str:
    return application.child("status").child("applicationState").text("state")


FORM = TemplateForm(roles=_roles, problems=_problems, switch=("spec", "suspend"))
INTEGRATION = Integration(
    name="sparkoperator.k8s.io/sparkapplication",
    gvk=GroupVersionKind("sparkoperator.k8s.io", "v1beta2", "SparkApplication"),
    plural="sparkapplications",
    pod_sets=FORM.pod_sets,
    is_suspended=FORM.is_suspended,
    hold=FORM.hold,
    start=_start,
    suspend=FORM.suspend,
    restore=_restore,
    finished=_finished,
    is_active=lambda application: _state(application) not in WITHOUT_PODS,
    is_ready=lambda application: _state(application) == "RUNNING",
    priority_class=("spec", "batchSchedulerOptions", "priorityClassName"),
)
