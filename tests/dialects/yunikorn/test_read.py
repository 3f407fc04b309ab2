"""Reading pods: workloads of one pod, gangs, pods on nodes, applications that are rejected, and namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.yunikorn.configuration import QueueConfiguration
from muster.dialects.yunikorn.read import Surroundings, read_pods
from muster.dialects.yunikorn.read_queues import FLAVOR
from tests.dialects.yunikorn.builders import DOMAIN, groups, pod, reading


def sizes(got: Any) -> dict[str, dict[str, int]]:
    return {key: {one.name: one.count for one in workload.pod_sets} for key, workload in got.workloads.items()}


def test_pods_are_workloads_in_the_order_of_their_applications() -> None:
    got = reading(
        pod("late", at=2.0, app="b", queue="root.q"),
        pod("first", at=1.0, app="a", queue="root.q", priority=7),
        pod("second", at=3.0, app="a", queue="root.other"),
    )
    workloads = {key: (one.queue, one.queued_at, one.application) for key, one in got.workloads.items()}
    assert workloads == {
        "default/pod/first": ("yunikorn/root.q", 1.0, "a"),
        "default/pod/second": ("yunikorn/root.q", 1.0, "a"),
        "default/pod/late": ("yunikorn/root.q", 2.0, "b"),
    }
    assert got.workloads["default/pod/first"].priority == 7
    assert got.owners["default/pod/late"] == "Pod default/late"


def test_a_pod_that_names_no_queue_goes_to_that_of_its_namespace() -> None:
    got = reading(pod("p", namespace="lab"))
    assert got.workloads["lab/pod/p"].queue == "yunikorn/root.lab"


def test_a_pod_on_a_node_holds_its_quota() -> None:
    got = reading(pod("p", node="node-1", cpu="2"), root={"queues": [{"name": "default"}]})
    (workload,) = got.workloads.values()
    assert workload.is_admitted
    assert workload.admission is not None
    assert workload.admission.usage() == {(FLAVOR, "cpu"): 2000}


def test_where_pods_are_counted_one_on_a_node_holds_one() -> None:
    got = reading(pod("p", node="node-1"), root={"queues": [{"name": "default", "resources": {"max": {"pods": 3}}}]})
    (workload,) = got.workloads.values()
    assert workload.admission is not None
    assert workload.admission.usage()[FLAVOR, "pods"] == 1


GANG = groups(("driver", 1, "1"), ("worker", 3, "2"))


@pytest.mark.parametrize(
    ("members", "want"),
    [
        pytest.param([], {"default/app/one": {"driver": 1, "worker": 3}}, id="what is held where only the driver is"),
        pytest.param(
            [{"group": "worker", "cpu": "2"}] * 2,
            {"default/app/one": {"driver": 1, "worker": 3}},
            id="its pods stand in for it",
        ),
        pytest.param(
            [{"group": "worker", "cpu": "2"}] * 4,
            {"default/app/one": {"driver": 1, "worker": 3}, "default/pod/m3": {"main": 1}},
            id="one more goes by itself",
        ),
        pytest.param(
            [{"group": "worker", "cpu": "3"}],
            {"default/app/one": {"driver": 1, "worker": 3}, "default/pod/m0": {"main": 1}},
            id="one that asks for more than is held goes by itself",
        ),
        pytest.param(
            [{"group": "worker", "cpu": "2", "node": "n"}] * 3,
            {
                "default/app/one": {"driver": 1},
                "default/pod/m0": {"main": 1},
                "default/pod/m1": {"main": 1},
                "default/pod/m2": {"main": 1},
            },
            id="those on nodes are not held for again",
        ),
        pytest.param(
            [{"group": "other"}, {}],
            {
                "default/app/one": {"driver": 1, "worker": 3},
                "default/pod/m0": {"main": 1},
                "default/pod/m1": {"main": 1},
            },
            id="pods of no group",
        ),
        pytest.param(
            [{"group": "worker", "annotations": {"internal.yunikorn.apache.org/placeholder": "true"}}],
            {"default/app/one": {"driver": 1, "worker": 3}},
            id="a placeholder is what is held itself",
        ),
    ],
)
def test_gangs(members: list[dict[str, Any]], want: dict[str, dict[str, int]]) -> None:
    pods = [pod("driver", app="one", group="driver", annotations=GANG)]
    pods += [pod(f"m{number}", at=1.0, app="one", **one) for number, one in enumerate(members)]
    assert sizes(reading(*pods)) == want


@pytest.mark.parametrize(
    ("style", "waited_s", "want", "rejected"),
    [
        ("Soft", 59.0, ["default/app/one"], []),
        ("Soft", 60.0, ["default/pod/driver"], []),
        ("Hard", 59.0, ["default/app/one"], []),
        ("Hard", 60.0, [], ["default/driver"]),
    ],
)
def test_a_gang_that_waits_too_long(style: str, waited_s: float, want: list[str], rejected: list[str]) -> None:
    terms = f"placeholderTimeoutInSeconds=60 gangSchedulingStyle={style}"
    annotations = groups(("driver", 1, "1"), parameters=terms)
    driver = pod("driver", at=100.0, app="one", group="driver", annotations=annotations)
    got = reading(driver, now=100.0 + waited_s)
    assert list(got.workloads) == want
    assert [one.key for one, _ in got.rejected] == rejected


def test_an_application_without_a_queue_is_rejected_whole() -> None:
    pods = [pod(name, app="one", queue="root.missing") for name in ("a", "b")]
    got = reading(*pods, root={"queues": [{"name": "other"}]})
    assert not got.workloads
    assert [(one.key, why.partition(":")[0]) for one, why in got.rejected] == [
        ("default/a", "application one"),
        ("default/b", "application one"),
    ]


def test_a_pod_that_cannot_be_read_is_rejected_alone() -> None:
    got = reading(pod("good", app="one"), pod("bad", at=1.0, app="one", cpu="much"))
    assert list(got.workloads) == ["default/pod/good"]
    assert [one.key for one, _ in got.rejected] == ["default/bad"]


def test_pods_need_the_partition_default() -> None:
    got = read_pods([pod("p")], QueueConfiguration(), Surroundings())
    assert [why for _, why in got.rejected] == ["the configuration has no partition default, only none"]


def test_a_namespace_limits_the_queue_that_is_made_for_it() -> None:
    annotations = {
        f"{DOMAIN}namespace.quota": '{"cpu": "5", "memory": "1Gi"}',
        f"{DOMAIN}namespace.guaranteed": '{"cpu": "2"}',
        f"{DOMAIN}namespace.maxApps": "3",
    }
    got = reading(pod("p", namespace="lab"), namespace_annotations={"lab": annotations}, total={"cpu": 50_000})
    quota = got.queues["yunikorn/root.lab"].quotas[FLAVOR, "cpu"]
    assert (quota.nominal, quota.nominal + quota.borrowable) == (2000, 5000)
    assert got.queues["yunikorn/root.lab"].quotas[FLAVOR, "memory"].borrowable == 2**30
    assert got.shared_limits["root.lab applications"].applications_most == 3


def test_the_old_annotations_of_a_namespace_count_where_there_are_no_new_ones() -> None:
    annotations = {f"{DOMAIN}namespace.max.cpu": "5", f"{DOMAIN}namespace.max.memory": "1Gi"}
    got = reading(pod("p", namespace="lab"), namespace_annotations={"lab": annotations}, total={"cpu": 50_000})
    assert got.queues["yunikorn/root.lab"].quotas[FLAVOR, "cpu"].borrowable == 5000


@pytest.mark.parametrize("quota", ["{", "5", '{"cpu": "-1"}', '{"cpu": "x"}'])
def test_what_a_namespace_says_wrongly_does_not_count(quota: str) -> None:
    got = reading(
        pod("p", namespace="lab"), namespace_annotations={"lab": {f"{DOMAIN}namespace.quota": quota}}, total={"cpu": 1}
    )
    assert list(got.workloads) == ["lab/pod/p"]
    assert len(got.doubts) == 1


def test_a_pod_says_that_it_is_not_to_be_preempted() -> None:
    got = reading(pod("p", annotations={f"{DOMAIN}allow-preemption": "false"}), pod("q", at=1.0))
    assert [one.is_preemptible for one in got.workloads.values()] == [False, True]


def test_a_pod_says_that_it_preempts_nobody() -> None:
    never = pod("p")
    assert isinstance(never.pod.values["spec"], dict)
    never.pod.values["spec"]["preemptionPolicy"] = "Never"
    got = reading(never, pod("q", at=1.0))
    assert [one.may_preempt for one in got.workloads.values()] == [False, True]
