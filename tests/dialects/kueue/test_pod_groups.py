"""Groups of pods as jobs: when they are whole, how they end, and which writes to pods one to the group amounts to."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.job_steps import WORKLOADS, Step, Verb
from muster.dialects.kueue.pod_groups import (
    first_write,
    group_kind,
    group_object,
    is_complete,
    missing_owners,
    pod_writes,
)
from muster.engine.contracts import Ending
from muster.engine.pod_groups import FAST_ADMISSION, GROUP_NAME, RETRIABLE, ROLE, SERVING, TOTAL_COUNT
from muster.jobs.pod import ADMISSION_GATE, INTEGRATION, MANAGED
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

KIND = group_kind(INTEGRATION)


def pod(name: str, phase: str = "Pending", *, is_held: bool = False, metadata: Any = None, **more: str) -> Fields:
    given = {GROUP_NAME: "team", TOTAL_COUNT: "2", ROLE: "main", **more}
    whole = {"name": name, "uid": name, "annotations": given, "finalizers": [MANAGED], **(metadata or {})}
    spec = {"containers": [{"name": "main"}], **({"schedulingGates": [{"name": ADMISSION_GATE}]} if is_held else {})}
    return Fields({"metadata": whole, "spec": spec, "status": {"phase": phase}})


DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod("a")], False, id="one is missing"),
        pytest.param([pod("a"), pod("b")], True, id="all"),
        pytest.param([pod("a"), pod("b", "Succeeded")], True, id="one has done its work"),
        pytest.param([pod("a"), pod("b", "Failed")], False, id="one has failed"),
        pytest.param([pod("a"), pod("b", metadata=DELETING)], False, id="one goes"),
        pytest.param([pod("a", **{FAST_ADMISSION: "true"})], True, id="one for all"),
    ],
)
def test_whole(pods, want):
    assert is_complete(pods, INTEGRATION) is want


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod("a", "Succeeded"), pod("b", "Running")], None, id="one still runs"),
        pytest.param([pod("a", "Succeeded"), pod("b", "Succeeded")], Ending(True, "Pods succeeded: 2/2."), id="all"),
        pytest.param([pod("a", "Succeeded"), pod("b", "Failed")], None, id="a failed one can be replaced"),
        pytest.param(
            [pod("a", "Succeeded"), pod("b", "Failed", **{RETRIABLE: "false"})],
            Ending(False, "Pods succeeded: 1/2."),
            id="unless it says that it cannot",
        ),
        pytest.param([pod(name, "Succeeded", **{SERVING: "true"}) for name in "ab"], None, id="what serves goes on"),
    ],
)
def test_ends(pods, want):
    assert KIND.finished(group_object(pods, None, INTEGRATION)) == want


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod("a"), pod("b")], None, id="nothing to settle"),
        pytest.param([pod("a"), pod("b", metadata=DELETING)], (Verb.UPDATE, "b"), id="one that goes is let go"),
        pytest.param([pod("a"), pod("b"), pod("c")], (Verb.DELETE, "c"), id="the newest of too many goes"),
        pytest.param([pod("a"), pod("b", is_held=True), pod("c")], (Verb.DELETE, "b"), id="one that waits goes first"),
        pytest.param([pod("a"), pod("b"), pod("c", "Failed")], None, id="a failed one takes no place"),
    ],
)
def test_what_is_settled_first(pods, want):
    step = first_write(pods, INTEGRATION)
    assert (None if step is None else (step.verb, step.obj["metadata"]["name"])) == want


@pytest.mark.parametrize("is_admitted", [False, True])
def test_a_group_waits_as_long_as_its_workload_has_a_use_for_it(is_admitted):
    status = [{"type": name, "status": "True"} for name in ("QuotaReserved", "Admitted")] if is_admitted else []
    workload = Fields({"spec": {"podSets": []}, "status": {"conditions": status}})
    group = group_object([pod("a"), pod("b", is_held=True)], workload, INTEGRATION)
    assert KIND.is_suspended(group) is is_admitted, "one that waits starts, or those that run stop"


def test_a_stop_deletes_what_runs_and_an_end_lets_all_go():
    pods = [pod("a"), pod("b", is_held=True), pod("c", metadata=DELETING), pod("d", "Succeeded")]
    group = group_object(pods, None, INTEGRATION)
    stop = Step(Verb.DELETE, "pods", dict(group.values))
    assert [one.obj["metadata"]["name"] for one in pod_writes(stop, pods, INTEGRATION)] == ["a"]
    ended = {**group.values, "metadata": {**group.values["metadata"], "finalizers": []}}
    written = list(pod_writes(Step(Verb.UPDATE, "pods", ended), pods, INTEGRATION))
    assert [one.obj["metadata"]["finalizers"] for one in written] == [[]] * 4


def test_whoever_makes_the_pods_owns_the_workload():
    maker = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": "s", "controller": True}
    workload = Fields({"metadata": {"name": "team", "ownerReferences": [{"uid": "a", "kind": "Pod"}]}})
    step = missing_owners([pod("a"), pod("b", metadata={"ownerReferences": [maker]})], workload)
    assert step is not None and step.resource == WORKLOADS
    assert [one["uid"] for one in step.obj["metadata"]["ownerReferences"]] == ["a", "s"]
    assert missing_owners([pod("a")], workload) is None


def test_pods_that_contradict_each_other():
    with pytest.raises(InvalidObject, match=r"pods\[b\].*another size or queue"):
        group_object([pod("a"), pod("b", **{TOTAL_COUNT: "3"})], None, INTEGRATION)
