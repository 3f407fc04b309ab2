"""AppWrapper: pods named by the places of their templates, and what they get written beside each component."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.contracts import Ending, PodSetStart
from muster.jobs.appwrapper import INTEGRATION
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

POD = {"containers": [{"name": "main"}]}


def wrapper(*components: Any, phase: str = "") -> Fields:
    status = {"phase": phase} if phase else {}
    return Fields({"metadata": {"name": "app"}, "spec": {"components": list(components)}, "status": status})


def component(kind: str, spec: Any, *pod_sets: Any) -> dict[str, Any]:
    inner = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "inner"}, "spec": spec}
    return {"template": inner, **({"podSets": list(pod_sets)} if pod_sets else {})}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(component("Pod", POD), [("app-0", 1)], id="a pod"),
        pytest.param(component("Deployment", {"replicas": 3, "template": {"spec": POD}}), [("app-0", 3)], id="known"),
        pytest.param(
            component(
                "Odd",
                {"parts": [{"template": {"spec": POD}}, {"template": {"spec": POD}}]},
                {"path": "template.spec.parts[0].template"},
                {"path": "template.spec.parts[1].template", "replicas": 4},
            ),
            [("app-0", 1), ("app-1", 4)],
            id="named by their places",
        ),
        pytest.param(component("Service", {}), [], id="no pods at all"),
    ],
)
def test_pods(given, want):
    assert [(one.name, one.count) for one in INTEGRATION.pod_sets(wrapper(given))] == want


def test_a_start_is_written_beside_each_component():
    value = wrapper(component("Pod", POD), component("Service", {}), component("Pod", POD))
    starts = tuple(PodSetStart(name=f"app-{n}", count=1, node_labels={"rack": str(n)}) for n in range(2))
    begun = INTEGRATION.start(value, starts)["spec"]["components"]
    assert [one["podSetInfos"] for one in begun] == [
        [{"nodeSelector": {"rack": "0"}}],
        [],
        [{"nodeSelector": {"rack": "1"}}],
    ]
    assert [one["template"] for one in begun] == [one["template"] for one in value.values["spec"]["components"]]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(wrapper(), r"spec\.components", id="empty"),
        pytest.param(wrapper(component("Odd", {}, {"path": "a..b"})), r"spec\.components\[0\]\.podSets", id="no path"),
        pytest.param(
            wrapper(component("Odd", {}, {"path": "template.spec"})),
            r"spec\.components\[0\]\.template\.spec\.spec\.containers",
            id="nothing there",
        ),
    ],
)
def test_mistakes(value, want):
    with pytest.raises(InvalidObject, match=want):
        INTEGRATION.pod_sets(value)


@pytest.mark.parametrize(("phase", "want"), [("Running", None), ("Succeeded", Ending(True)), ("Failed", Ending(False))])
def test_finished(phase, want):
    assert INTEGRATION.finished(wrapper(phase=phase)) == want
