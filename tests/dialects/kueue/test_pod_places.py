"""Pods of a workload with a place: which part each goes to, and that no part gets more than it was counted for."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.pod_places import placed_pods
from muster.dialects.kueue.topology_assignment import compacted
from muster.model.fields import Fields

GATES = [{"name": "kueue.x-k8s.io/topology"}]
INDEX = "batch.kubernetes.io/job-completion-index"


def workload(index_label: str = "") -> Fields:
    domains = [{"values": ["r1", "h1"], "count": 2}, {"values": ["r1", "h2"], "count": 1}]
    place = compacted({"levels": ["rack", "host"], "domains": domains})
    request = {"required": "rack", **({"podIndexLabel": index_label} if index_label else {})}
    spec = {"podSets": [{"name": "main", "count": 3, "topologyRequest": request}]}
    assignments = [{"name": "main", "count": 3, "topologyAssignment": place}]
    return Fields({"spec": spec, "status": {"admission": {"podSetAssignments": assignments}}})


def pod(name: str, host: str = "", number: str | None = None, phase: str = "Pending") -> Fields:
    labels = {"kueue.x-k8s.io/podset": "main", **({INDEX: number} if number is not None else {})}
    spec: dict[str, Any] = {"nodeSelector": {"rack": "r1", "host": host}} if host else {"schedulingGates": GATES}
    return Fields({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("pods", "index_label", "want"),
    [
        pytest.param([pod("a"), pod("b"), pod("c")], "", {"a": "h1", "b": "h1", "c": "h2"}, id="all at once"),
        pytest.param([pod("a", "h1"), pod("b"), pod("c")], "", {"b": "h1", "c": "h2"}, id="one has its place"),
        pytest.param([pod("a", "h2"), pod("b")], "", {"b": "h1"}, id="the later part is taken"),
        pytest.param([pod(n) for n in "abcd"], "", {"a": "h1", "b": "h1", "c": "h2"}, id="one too many waits"),
        pytest.param(
            [pod("a", "h1", phase="Failed"), pod("b", "h1"), pod("c")],
            "",
            {"c": "h1"},
            id="in place of one that failed",
        ),
        pytest.param(
            [pod("a", number="2"), pod("b", number="0")], INDEX, {"a": "h2", "b": "h1"}, id="in the order of numbers"
        ),
        pytest.param([pod("a", number="9"), pod("b")], INDEX, {"a": "h1", "b": "h1"}, id="numbers that say nothing"),
        pytest.param([pod("a", "h2"), pod("b", number="2")], INDEX, {}, id="the number's part is still taken"),
    ],
)
def test_who_goes_where(pods, index_label, want):
    found = list(placed_pods(workload(index_label), pods))
    assert {one["metadata"]["name"]: one["spec"]["nodeSelector"]["host"] for one in found} == want
    assert all(one["spec"]["nodeSelector"]["rack"] == "r1" and "schedulingGates" not in one["spec"] for one in found)


def test_a_workload_without_a_place_opens_nothing():
    assert list(placed_pods(Fields({"spec": {}, "status": {}}), [pod("a")])) == []


def test_pods_of_numbered_groups_go_where_the_numbers_of_both_say():
    given = workload(INDEX)
    (pod_set,) = given.values["spec"]["podSets"]
    pod_set["topologyRequest"] |= {"subGroupIndexLabel": "group", "subGroupCount": 3}
    pods = [pod("a", number="0"), pod("b", number="0")]
    for one, group in zip(pods, ("2", "0"), strict=True):
        one.values["metadata"]["labels"]["group"] = group
    found = {one["metadata"]["name"]: one["spec"]["nodeSelector"]["host"] for one in placed_pods(given, pods)}
    assert found == {"a": "h2", "b": "h1"}
