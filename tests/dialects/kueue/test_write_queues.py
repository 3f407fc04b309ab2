"""The status of queues: counts, usage with what is borrowed, and whether they take workloads."""

from __future__ import annotations

import pytest

from muster.dialects.kueue.write_queues import Counts, cluster_queue_status, local_queue_status
from muster.model.queue import Queue, Quota, ResourceGroup, Stop

GROUP = ResourceGroup(resources=frozenset({"cpu"}), flavors=("a", "b"))
COUNTS = Counts(pending=3, reserving=2, admitted=1, reserved={("a", "cpu"): 6000}, used={("a", "cpu"): 2000})


def queue(**parts) -> Queue:
    quotas = {("a", "cpu"): Quota(nominal=4000), ("b", "cpu"): Quota(nominal=1000)}
    return Queue(name="q", title="q", is_leaf=True, groups=(GROUP,), quotas=quotas, **parts)


def test_the_status_of_a_cluster_queue():
    status = cluster_queue_status({"metadata": {"generation": 4}}, queue(), COUNTS, 0.0)
    assert (status["pendingWorkloads"], status["reservingWorkloads"], status["admittedWorkloads"]) == (3, 2, 1)
    assert status["flavorsReservation"] == [
        {"name": "a", "resources": [{"name": "cpu", "total": "6", "borrowed": "2"}]},
        {"name": "b", "resources": [{"name": "cpu", "total": "0", "borrowed": "0"}]},
    ]
    assert status["flavorsUsage"][0]["resources"] == [{"name": "cpu", "total": "2", "borrowed": "0"}]
    assert status["conditions"][0] | {"lastTransitionTime": ""} == {
        "type": "Active",
        "status": "True",
        "reason": "Ready",
        "message": "Can admit new workloads",
        "observedGeneration": 4,
        "lastTransitionTime": "",
    }
    assert cluster_queue_status({"metadata": {"generation": 4}, "status": status}, queue(), COUNTS, 99.0) == status


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"stop": Stop.HOLD}, "Stopped"),
        ({"inactive_because": "it is being deleted"}, "Terminating"),
        ({"inactive_because": "the flavors x do not exist"}, "FlavorNotFound"),
        ({"inactive_because": "the topologies of the flavors x do not exist"}, "TopologyNotFound"),
        ({"inactive_because": "the admission checks x are not active"}, "CheckNotFoundOrInactive"),
    ],
)
def test_why_a_queue_takes_nobody(parts, reason):
    condition = cluster_queue_status({}, queue(**parts), COUNTS, 0.0)["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", reason)
    local = local_queue_status({}, queue(**parts), COUNTS, 0.0)["conditions"][0]
    assert (local["status"], local["reason"]) == ("False", "ClusterQueueIsInactive")


@pytest.mark.parametrize(
    ("spec", "leads_to", "reason"),
    [
        ({}, queue(), "Ready"),
        ({}, None, "ClusterQueueDoesNotExist"),
        ({"stopPolicy": "Hold"}, queue(), "Stopped"),
    ],
)
def test_the_status_of_a_local_queue(spec, leads_to, reason):
    status = local_queue_status({"spec": spec}, leads_to, COUNTS, 0.0)
    assert status["conditions"][0]["reason"] == reason
    assert status["pendingWorkloads"] == 3
    usage = status["flavorsUsage"]
    assert usage[0]["resources"] == [{"name": "cpu", "total": "2"}] if leads_to is not None else usage == []
