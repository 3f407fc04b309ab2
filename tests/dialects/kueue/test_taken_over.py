"""What an object takes over from the one before is neither filled in nor looked at again, and comes to the same."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from muster.dialects.kueue.defaults import apply_defaults
from muster.dialects.kueue.read_workloads import WorkloadReader
from muster.dialects.kueue.validate import problems_of
from muster.model.fields import Fields
from muster.model.settings import Settings

POD = {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1000m"}}}]}


def workload(**status: Any) -> dict[str, Any]:
    """A workload as it is kept."""
    given = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "one", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 2, "template": {"spec": POD}}]},
    }
    return apply_defaults({**given, "status": status} if status else given)


@pytest.mark.parametrize("given", [workload(), workload(reclaimablePods=[{"name": "main", "count": 1}])])
def test_defaults_come_to_the_same(given):
    before = workload()
    assert apply_defaults(deepcopy(given), creating=False, known=before) == apply_defaults(given, creating=False)


def test_what_has_not_changed_is_let_pass_and_what_has_is_not():
    before = workload()
    before["spec"]["podSets"][0]["count"] = -1  # as if it had been kept under older rules
    same = {**deepcopy(before), "status": {"reclaimablePods": [{"name": "main", "count": -1}]}}
    assert [one.path for one in problems_of(same, old=before, is_filled=True)[0]] == ["status.reclaimablePods[0].count"]
    changed = deepcopy(before)
    changed["spec"]["podSets"][0]["count"] = -2
    paths = [one.path for one in problems_of(changed, old=before, is_filled=True)[0]]
    assert paths == ["spec.podSets[0].count"]


def test_a_part_that_is_missing_is_told():
    before = workload()
    gone = {name: value for name, value in before.items() if name != "spec"}
    assert problems_of(gone, old=before, is_filled=True)[0] == problems_of(gone, is_filled=True)[0]


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_workload_is_read_like_the_one_before(done):
    reader = WorkloadReader(settings=Settings())
    now = Fields(workload(reclaimablePods=[{"name": "main", "count": done}]))
    assert reader.read(now, reader.read(Fields(workload()))) == reader.read(now)
