"""A plain Pod: a set of one, held back by a gate."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.contracts import Ending
from muster.jobs.pod import ADMISSION_GATE, INTEGRATION
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
