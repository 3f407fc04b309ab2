"""Ways into objects: what is found at their end, and the object with something else there."""

from __future__ import annotations

import pytest

from muster.engine.contracts import Ending
from muster.engine.job_forms import STOPPING, ended_by_condition, fields_at, is_stopping, marked, unmarked, with_value
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

JOB = Fields({"spec": {"parts": [{"name": "a"}, {"name": "b"}], "count": 3}})


@pytest.mark.parametrize(
    ("way", "values", "path"),
    [
        pytest.param(("spec", "parts", 1), {"name": "b"}, "spec.parts[1]", id="in a list"),
        pytest.param(("spec", "parts", 9, "inner"), {}, "spec.parts[9].inner", id="beyond the end"),
        pytest.param(("other", "inner"), {}, "other.inner", id="nothing there"),
        pytest.param((), JOB.values, "", id="nowhere to go"),
    ],
)
def test_what_is_at_the_end_of_a_way(way, values, path):
    assert fields_at(JOB, way) == Fields(values, path)


def test_what_is_no_object_on_a_way_is_named():
    with pytest.raises(InvalidObject, match=r"^spec\.count: is 3"):
        fields_at(JOB, ("spec", "count", "inner"))


@pytest.mark.parametrize(
    ("way", "want"),
    [
        pytest.param(("spec", "parts", 0, "name"), {"parts": [{"name": 7}, {"name": "b"}], "count": 3}, id="in a list"),
        pytest.param(("spec", "x", "y"), {**JOB.values["spec"], "x": {"y": 7}}, id="what is missing is made"),
    ],
)
def test_another_value_at_the_end_of_a_way(way, want):
    before = {"spec": {"parts": [{"name": "a"}, {"name": "b"}], "count": 3}}
    assert with_value(JOB, way, 7)["spec"] == want
    assert JOB.values == before, "the object itself stays as it is"


def test_the_mark_of_a_stop_comes_and_goes():
    job = Fields({"metadata": {"name": "a"}})
    begun = Fields(marked(job))
    assert is_stopping(begun) and begun.values["metadata"]["annotations"] == {STOPPING: "true"}
    assert unmarked(begun) == job.values == unmarked(job)
    others = Fields({"metadata": {"annotations": {"a": "b"}}})
    assert unmarked(Fields(marked(others))) == others.values


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ([], None),
        ([{"type": "Done", "status": "False"}], None),
        ([{"type": "Other", "status": "True"}, {"type": "Done", "status": "True", "message": "m"}], Ending(True, "m")),
        ([{"type": "Failed", "status": "True"}], Ending(False)),
    ],
)
def test_an_end_that_a_condition_tells(conditions, want):
    assert ended_by_condition(Fields({"status": {"conditions": conditions}}), "Done") == want
