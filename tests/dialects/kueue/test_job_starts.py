"""What pods get when their workload is admitted: from flavors, from checks, and for their place."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.gates import DEFAULT_GATES
from muster.dialects.kueue.job_starts import missing_flavors, starts_of
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

TOLERATION = {"key": "spot", "operator": "Exists"}
FLAVORS = {
    "spot": Fields({"spec": {"nodeLabels": {"instance": "spot"}, "tolerations": [TOLERATION]}}),
    "a100": Fields({"spec": {"nodeLabels": {"gpu": "a100"}, "tolerations": [TOLERATION]}}),
    "fixed": Fields({"spec": {"nodeLabels": {"instance": "fixed"}}}),
    "any": Fields({"spec": {}}),
}


def workload(flavors: dict[str, str], updates: list[dict[str, Any]] | None = None, **assignment: Any) -> Fields:
    given = {"name": "main", "count": 2, "flavors": flavors, **assignment}
    checks = [{"name": "check", "state": "Ready", "podSetUpdates": updates or []}]
    status = {"admission": {"clusterQueue": "all", "podSetAssignments": [given]}, "admissionChecks": checks}
    return Fields({"metadata": {"name": "job-train-1"}, "status": status})


def test_every_flavor_counts_once():
    (start,) = starts_of(workload({"cpu": "spot", "memory": "spot", "gpu": "a100"}), FLAVORS, DEFAULT_GATES)
    assert (start.count, start.node_labels) == (2, {"instance": "spot", "gpu": "a100"})
    assert start.tolerations == (TOLERATION,)
    assert start.labels == {"kueue.x-k8s.io/podset": "main"}
    assert start.annotations == {"kueue.x-k8s.io/workload": "job-train-1"}
    assert start.gates == ()


@pytest.mark.parametrize(
    "assignment",
    [
        pytest.param({"topologyAssignment": {"levels": ["host"]}}, id="a place"),
        pytest.param({"delayedTopologyRequest": "Pending"}, id="a place that is decided later"),
    ],
)
def test_pods_with_a_place_are_held_until_each_knows_its_own(assignment):
    (start,) = starts_of(workload({"cpu": "any"}, **assignment), FLAVORS, DEFAULT_GATES)
    assert start.gates == ("kueue.x-k8s.io/topology",)
    assert start.labels["kueue.x-k8s.io/tas"] == "true"


def test_checks_add_to_the_pods_of_their_set():
    toleration = {"key": "new", "operator": "Exists"}
    updates = [
        {"name": "main", "nodeSelector": {"pool": "new"}, "labels": {"a": "1"}, "tolerations": [toleration]},
        {"name": "other", "nodeSelector": {"pool": "old"}},
    ]
    (start,) = starts_of(workload({"cpu": "spot"}, updates), FLAVORS, DEFAULT_GATES)
    assert start.node_labels == {"instance": "spot", "pool": "new"}
    assert (start.labels["a"], start.tolerations) == ("1", (TOLERATION, toleration))


def test_flavors_that_contradict_each_other_are_named():
    with pytest.raises(InvalidObject, match="'spot' and 'fixed' as instance"):
        starts_of(workload({"cpu": "spot", "memory": "fixed"}), FLAVORS, DEFAULT_GATES)


def test_missing_flavors():
    assert missing_flavors(workload({"cpu": "spot", "memory": "gone"}), FLAVORS) == ["gone"]
