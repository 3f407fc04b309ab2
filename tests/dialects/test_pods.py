"""Pods that stand for themselves: what they ask and hold, and whether they are to be bound."""

from __future__ import annotations

from typing import Any

import pytest

from muster.app.placement import placement_reader
from muster.dialects.pods import as_holder, read_alone, waits_for_node, workload_key
from muster.model.fields import Fields
from muster.model.topology import read_bound_pod

READER = placement_reader()


def pod(*, cpu: str = "1", gpus: int = 0, spec: dict[str, Any] | None = None, **metadata: Any) -> Fields:
    amounts = {"cpu": cpu, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    container = {"name": "c", "resources": {"requests": amounts, "limits": amounts}}
    named = {"namespace": "n", "name": "p", "uid": "u", "creationTimestamp": "2023-11-14T22:13:20Z", **metadata}
    return Fields({"metadata": named, "spec": {"containers": [container], "priority": 7, **(spec or {})}})


def test_a_pod_is_a_workload_of_one_pod():
    read = read_alone(pod(), "q", READER)
    assert (read.key, read.queue, read.priority, read.queued_at) == ("n/pod/p", "q", 7, 1_700_000_000.0)
    assert (read.pod_sets[0].count, read.pod_sets[0].requests) == (1, {"cpu": 1000})
    assert read.key == workload_key("n", "p")


def test_pods_that_ask_for_the_same_are_of_one_kind():
    assert read_alone(pod(), "q", READER).kind_key == read_alone(pod(name="other"), "q", READER).kind_key
    assert read_alone(pod(), "q", READER).kind_key != read_alone(pod(cpu="2"), "q", READER).kind_key


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param(pod(), True, id="plain"),
        pytest.param(pod(spec={"schedulerName": "muster"}), True, id="ours"),
        pytest.param(pod(spec={"schedulerName": "another"}), False, id="another's"),
        pytest.param(pod(spec={"nodeName": "x"}), False, id="bound"),
        pytest.param(pod(spec={"schedulingGates": [{"name": "g"}]}), False, id="gated"),
        pytest.param(pod(deletionTimestamp="2023-11-14T22:13:20Z"), False, id="on its way out"),
        pytest.param(Fields({**pod().values, "status": {"phase": "Failed"}}), False, id="over"),
    ],
)
def test_which_pods_are_bound_here(given, wanted):
    assert waits_for_node(given.values) is wanted


def test_a_bound_pod_holds_its_node_unless_it_has_whole_cards():
    def held(given: Fields):
        bound = read_bound_pod(given)
        return as_holder(given, READER.bound_pod(bound, given, None), read_alone(given, "q", READER))

    plain = held(pod(spec={"nodeName": "x"}))
    assert plain.slot_count == 1 and plain.admission.pod_sets[0].slots[0].node == "x" and not plain.is_evicted
    assert held(pod(spec={"nodeName": "x"}, deletionTimestamp="2023-11-14T22:13:20Z")).is_evicted
    assert held(pod(gpus=1, spec={"nodeName": "x"})) is None
    assert held(pod(spec={"nodeName": "x", "schedulerName": "another"})) is None
