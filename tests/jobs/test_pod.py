"""A plain Pod: a set of one, held back by a gate."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.contracts import Ending, PodSetStart
from muster.jobs.pod import ADMISSION_GATE, INTEGRATION, MANAGED, TOPOLOGY_GATE
from muster.model.errors import InvalidObjects
from muster.model.fields import Fields


def pod(status: Any = None, **spec: Any) -> Fields:
    containers = [{"name": "main", "image": "example.com/serve:1"}]
    metadata = {"name": "one", "labels": {"app": "serve"}, "uid": "u1"}
    return Fields({"metadata": metadata, "spec": {"containers": containers, **spec}, "status": status})


def test_a_pod_is_a_set_of_one():
    (pod_set,) = INTEGRATION.pod_sets(pod(nodeSelector={"zone": "a"}))
    assert (pod_set.count, pod_set.count_least, pod_set.template_path) == (1, None, "")
    assert pod_set.template["spec"]["nodeSelector"] == {"zone": "a"}
    assert pod_set.template["metadata"] == {"labels": {"app": "serve"}}, "what makes it this pod is left out"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": []}, "spec.containers", id="no containers"),
        pytest.param({"containers": {}}, "spec.containers", id="containers that are no list"),
        pytest.param({"restartPolicy": "Sometimes"}, "spec.restartPolicy", id="unknown policy"),
    ],
)
def test_mistakes(spec, want):
    with pytest.raises(InvalidObjects) as caught:
        INTEGRATION.pod_sets(pod(**spec))
    assert [one.path for one in caught.value.problems] == [want]


@pytest.mark.parametrize(
    ("gates", "want"),
    [
        pytest.param([{"name": ADMISSION_GATE}], True, id="gated"),
        pytest.param([{"name": "example.com/other"}], False, id="another's gate"),
        pytest.param(None, False, id="none"),
    ],
)
def test_is_suspended(gates, want):
    assert INTEGRATION.is_suspended(pod(schedulingGates=gates)) is want


@pytest.mark.parametrize(
    ("phase", "want"),
    [("Running", None), ("Pending", None), ("Succeeded", Ending(True)), ("Failed", Ending(False))],
)
def test_finished(phase, want):
    assert INTEGRATION.finished(pod(status={"phase": phase})) == want


# Running ------------------------------------------------------------------------------------------------------------

START = PodSetStart(name="main", count=1, node_labels={"instance": "spot"}, gates=(TOPOLOGY_GATE,))


def test_a_new_pod_is_held_behind_its_gate():
    held = INTEGRATION.hold(pod())
    assert held["spec"]["schedulingGates"] == [{"name": ADMISSION_GATE}]
    assert (held["metadata"]["labels"][MANAGED], held["metadata"]["finalizers"]) == ("true", [MANAGED])
    assert INTEGRATION.hold(Fields(held)) == held
    assert (INTEGRATION.is_marked(Fields(held)), INTEGRATION.is_marked(pod())) == (True, False)


def test_a_pod_that_wants_a_place_is_held_twice():
    given = pod()
    metadata = {**given.values["metadata"], "annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    held = Fields(INTEGRATION.hold(Fields({**given.values, "metadata": metadata})))
    assert [gate["name"] for gate in held.values["spec"]["schedulingGates"]] == [ADMISSION_GATE, TOPOLOGY_GATE]
    assert INTEGRATION.start(held, (START,))["spec"]["schedulingGates"] == [{"name": TOPOLOGY_GATE}]


def test_a_start_opens_the_gate_and_names_the_nodes():
    begun = INTEGRATION.start(Fields(INTEGRATION.hold(pod())), (START,))
    assert "schedulingGates" not in begun["spec"], "a gate that it was not made with cannot be added"
    assert begun["spec"]["nodeSelector"] == {"instance": "spot"}
    assert not INTEGRATION.is_suspended(Fields(begun))


@pytest.mark.parametrize(
    ("status", "gates", "want"),
    [
        pytest.param({"phase": "Pending"}, [ADMISSION_GATE], (False, False), id="behind its gate"),
        pytest.param({"phase": "Running"}, [], (True, False), id="on a node"),
        pytest.param(
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, [], (True, True), id="ready"
        ),
        pytest.param({"phase": "Succeeded"}, [], (False, True), id="done"),
        pytest.param({"phase": "Failed"}, [], (False, False), id="failed"),
    ],
)
def test_active_and_ready(status, gates, want):
    value = pod(status, schedulingGates=[{"name": name} for name in gates])
    assert (INTEGRATION.is_active(value), INTEGRATION.is_ready(value)) == want
