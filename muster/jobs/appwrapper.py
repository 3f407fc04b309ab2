"""AppWrapper: any objects together, whose pods are named by the places of their templates.

Found by `app` through INTEGRATION. What its pods get at a start is written beside each component, not into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from muster.engine.contracts import Ending, GroupVersionKind, Integration, JobPodSet, PodSetStart
from muster.engine.job_forms import Role, Steps, TemplateForm, fields_at, has_true_condition, unmarked, with_value
from muster.engine.pod_templates import started
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown

# Where the pods of well-known kinds are and how many, for components that do not say it.
KNOWN = {
    "Pod": ("template", ""),
    "Deployment": ("template.spec.template", "replicas"),
    "StatefulSet": ("template.spec.template", "replicas"),
    "ReplicaSet": ("template.spec.template", "replicas"),
    "Job": ("template.spec.template", "parallelism"),
}
STEP = re.compile(r"^([^\[\].]+)((?:\[\d{1,4}\])*)$", re.ASCII)
PATH_MOST = 500


def _components(wrapper: Fields) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """Each component with the paths of its templates and their counts."""
    for number, component in enumerate(wrapper.child("spec").children("components")):
        named = [(one.text("path"), one.integer("replicas", 1, least=0)) for one in component.children("podSets")]
        inner = component.child("template")
        if not named and inner.text("kind") in KNOWN:
            path, count = KNOWN[inner.text("kind")]
            named = [(path, inner.child("spec").integer(count, 1, least=0) if count else 1)]
        yield number, named


def _roles(wrapper: Fields) -> Iterator[Role]:
    name, index = wrapper.child("metadata").text("name"), 0
    for number, named in _components(wrapper):
        for path, count in named:
            at = ("spec", "components", number, *_steps(path, f"spec.components[{number}].podSets"))
            yield Role(name=f"{name}-{index}", count=count, at=at)
            index += 1


def _steps(path: str, place: str) -> Steps:
    steps: list[str | int] = []
    for part in path[:PATH_MOST].split("."):
        found = STEP.match(part)
        if found is None:
            raise InvalidObject(place, f"has the path {shown(path)}", "give one such as template.spec.template")
        steps += [found[1], *(int(number) for number in re.findall(r"\d+", found[2]))]
    return tuple(steps)


def _problems(wrapper: Fields) -> Iterator[InvalidObject]:
    spec = wrapper.child("spec")
    if not spec.items("components"):
        yield spec.error("components", "is missing", "give at least one object")


def _start(wrapper: Fields, starts: tuple[PodSetStart, ...]) -> dict[str, Any]:
    given, result = {one.name: one for one in starts}, wrapper
    roles = list(_roles(wrapper))
    for number, named in _components(wrapper):
        own, roles = roles[: len(named)], roles[len(named) :]
        for role in own:
            started(fields_at(wrapper, role.at), given[role.name])  # raises where the template says otherwise
        infos = [_info(given[role.name]) for role in own]
        result = Fields(with_value(result, ("spec", "components", number, "podSetInfos"), infos))
    return with_value(result, ("spec", "suspend"), False)


def _info(given: PodSetStart) -> Mapping[str, Any]:
    info = {
        "labels": dict(given.labels),
        "annotations": dict(given.annotations),
        "nodeSelector": dict(given.node_labels),
        "tolerations": [dict(one) for one in given.tolerations],
        "schedulingGates": [{"name": name} for name in given.gates],
    }
    return {name: value for name, value in info.items() if value}


def _restore(wrapper: Fields, _pod_sets: tuple[JobPodSet, ...]) -> dict[str, Any]:
    components = [
        {name: value for name, value in one.values.items() if name != "podSetInfos"}
        for one in wrapper.child("spec").children("components")
    ]
    return unmarked(Fields(with_value(wrapper, ("spec", "components"), components)))


def _finished(wrapper: Fields) -> Ending | None:
    phase = wrapper.child("status").text("phase")
    return Ending(phase == "Succeeded") if phase in ("Succeeded", "Failed") else None


FORM = TemplateForm(roles=_roles, problems=_problems, switch=("spec", "suspend"))
INTEGRATION = Integration(
    name="workload.codeflare.dev/appwrapper",
    gvk=GroupVersionKind("workload.codeflare.dev", "v1beta2", "AppWrapper"),
    plural="appwrappers",
    pod_sets=FORM.pod_sets,
    is_suspended=FORM.is_suspended,
    hold=FORM.hold,
    start=_start,
    suspend=FORM.suspend,
    restore=_restore,
    finished=_finished,
    is_active=lambda wrapper: has_true_condition(wrapper.child("status"), "QuotaReserved"),
    is_ready=lambda wrapper: has_true_condition(wrapper.child("status"), "PodsReady"),
    managed_by=("spec", "managedBy"),
    own_controller="workload.codeflare.dev/appwrapper-controller",
)
