"""The next steps of stateful sets and daemon sets, what services lead to and what budgets allow, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from muster.controllers.builtin.daemonset_nodes import Suits, node_of, pod_for, suits
from muster.controllers.builtin.daemonset_steps import Look, daemon_status, daemon_steps
from muster.controllers.builtin.disruption import Scale, budget_status
from muster.controllers.builtin.endpoints import subsets
from muster.controllers.builtin.endpointslices import slice_steps
from muster.controllers.builtin.revisions import new_revision
from muster.controllers.builtin.statefulset_pods import claims_of, pod_of, with_retention
from muster.controllers.builtin.statefulset_steps import Versions, stateful_steps
from tests.controllers.builtin.workload_cluster import template, workload

NOW_S = 1_700_000_000.0
READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "2023-11-14T22:00:00Z"}]
BROKEN = [{"type": "Ready", "status": "False", "lastTransitionTime": "2023-11-14T22:00:00Z"}]


def owner(kind: str, image: str = "i:1", **spec: Any) -> Any:
    made = workload(kind, **{"template": template(image=image), **spec})
    made["metadata"] |= {"uid": "u", "generation": 1}
    return made


OLD = new_revision(owner("StatefulSet"), 1, collisions=0, hash_label="h")
NEW = new_revision(owner("StatefulSet", "i:2"), 2, collisions=0, hash_label="h")


def numbered(number: int, revision: Any = OLD, *, phase: str = "Running", conditions: Any = READY, **more: Any) -> Any:
    pod = pod_of(owner("StatefulSet"), number, revision)
    pod["metadata"] |= {"uid": f"p{number}", **more}
    return {**pod, "status": {"phase": phase, "conditions": conditions}}


LEAVING = {"deletionTimestamp": "2023-11-14T22:00:00Z"}
PARALLEL = {"podManagementPolicy": "Parallel"}
PARTITION = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}


@pytest.mark.parametrize(
    ("spec", "pods", "update", "created", "deleted"),
    [
        pytest.param({}, [], OLD, [0], [], id="the first"),
        pytest.param({}, [numbered(0)], OLD, [1], [], id="the next when the first is well"),
        pytest.param({}, [numbered(0, conditions=BROKEN)], OLD, [], [], id="none while the first is not"),
        pytest.param({}, [numbered(0, **LEAVING)], OLD, [], [], id="none while the first leaves"),
        pytest.param({}, [numbered(1), numbered(2)], OLD, [0], [], id="the one in between"),
        pytest.param(PARALLEL, [], OLD, [0, 1, 2], [], id="all at once"),
        pytest.param({}, [numbered(0, phase="Failed")], OLD, [], [0], id="one that ended is deleted"),
        pytest.param({"replicas": 1}, [numbered(n) for n in range(3)], OLD, [], [2], id="the highest goes first"),
        pytest.param(
            {"replicas": 1, **PARALLEL}, [numbered(n) for n in range(3)], OLD, [], [2, 1], id="all that are too many go"
        ),
        pytest.param(
            {"replicas": 1}, [numbered(0), numbered(1), numbered(2, **LEAVING)], OLD, [], [], id="one after the other"
        ),
        pytest.param({}, [numbered(n) for n in range(3)], NEW, [], [2], id="an update begins at the end"),
        pytest.param({}, [numbered(0), numbered(1), numbered(2, NEW)], NEW, [], [1], id="and goes on"),
        pytest.param(
            PARALLEL, [numbered(0), numbered(1), numbered(2, NEW, conditions=BROKEN)], NEW, [], [], id="and waits"
        ),
        pytest.param(PARTITION, [numbered(0), numbered(1), numbered(2, NEW)], NEW, [], [], id="up to the partition"),
        pytest.param(
            {"updateStrategy": {"type": "OnDelete"}},
            [numbered(n) for n in range(3)],
            NEW,
            [],
            [],
            id="only on deletion",
        ),
        pytest.param({"ordinals": {"start": 7}}, [], OLD, [7], [], id="from a number on"),
    ],
)
def test_stateful_steps(spec, pods, update, created, deleted):
    steps = stateful_steps(owner("StatefulSet", **spec), pods, Versions(OLD, update), NOW_S)
    assert [number for number, _ in steps.create] == created
    assert [int(pod["metadata"]["name"][2:]) for pod in steps.delete] == deleted


def test_below_the_partition_pods_come_back_as_they_were():
    steps = stateful_steps(owner("StatefulSet", **PARTITION, **PARALLEL), [], Versions(OLD, NEW), NOW_S)
    assert [pod["spec"]["containers"][0]["image"] for _, pod in steps.create] == ["i:1", "i:1", "i:2"]


@pytest.mark.parametrize(
    ("deleted", "scaled", "is_leaving", "want"),
    [
        ("Retain", "Retain", True, []),
        ("Retain", "Delete", False, []),
        ("Retain", "Delete", True, ["Pod"]),
        ("Delete", "Retain", True, ["StatefulSet"]),
        ("Delete", "Delete", False, ["StatefulSet"]),
        ("Delete", "Delete", True, ["Pod"]),
    ],
)
def test_claims_go_when_they_should(deleted, scaled, is_leaving, want):
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    claim = {"metadata": {"name": "d"}, "spec": {}}
    given = owner("StatefulSet", persistentVolumeClaimRetentionPolicy=policy, volumeClaimTemplates=[claim])
    made = next(claims_of(given, 0))
    kept = with_retention(given, made, numbered(0) if is_leaving else None)
    assert [one["kind"] for one in kept["metadata"].get("ownerReferences", [])] == want
    assert with_retention(given, kept, numbered(0) if is_leaving else None) is kept


def node(name: str, *, taints: Any = (), **labels: str) -> Any:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


@pytest.mark.parametrize(
    ("spec", "given", "want"),
    [
        pytest.param({}, node("n"), (True, True), id="any"),
        pytest.param({"nodeSelector": {"d": "s"}}, node("n"), (False, False), id="another label"),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "d", "operator": "Gt", "values": ["x"]}]}
                            ]
                        }
                    }
                }
            },
            node("n", d="1"),
            (False, False),
            id="terms that cannot be read",
        ),
        pytest.param({"nodeName": "m"}, node("n"), (False, False), id="another name"),
        pytest.param({}, node("n", taints=[{"key": "k", "effect": "NoSchedule"}]), (False, True), id="kept away"),
        pytest.param({}, node("n", taints=[{"key": "k", "effect": "NoExecute"}]), (False, False), id="driven out"),
        pytest.param(
            {},
            node("n", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]),
            (True, True),
            id="ill",
        ),
        pytest.param(
            {"hostNetwork": True},
            node("n", taints=[{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]),
            (True, True),
            id="without a network",
        ),
    ],
)
def test_suits(spec, given, want):
    assert suits(owner("DaemonSet", template=template(**spec)), given) == Suits(*want)


def daemon(name: str, revision: str = "r", *, on: str = "", conditions: Any = READY, **more: Any) -> Any:
    pod = pod_for(owner("DaemonSet"), on or name, revision)
    pod["metadata"] |= {"name": name, "uid": name, "creationTimestamp": "2023-11-14T22:00:00Z", **more}
    return {**pod, "status": {"phase": more.get("phase", "Running"), "conditions": conditions}}


def bounds(**given: Any) -> Any:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": given}}


@pytest.mark.parametrize(
    ("spec", "pods", "created", "deleted"),
    [
        pytest.param({}, [daemon("a")], ["b", "c"], [], id="every node has one"),
        pytest.param({}, [daemon(n) for n in "abc"], [], [], id="all is well"),
        pytest.param({}, [daemon("a"), daemon("z", on="a"), *map(daemon, "bc")], [], ["z"], id="only one"),
        pytest.param({}, [daemon("y", on="gone"), *map(daemon, "abc")], [], ["y"], id="no node"),
        pytest.param({}, [daemon("a", "old"), daemon("b", "old"), daemon("c")], [], ["a"], id="one at a time"),
        pytest.param(
            bounds(maxUnavailable=2), [daemon("a", "old"), daemon("b", "old"), daemon("c")], [], ["a", "b"], id="two"
        ),
        pytest.param(
            {}, [daemon("a", "old"), daemon("b", conditions=BROKEN), daemon("c")], [], [], id="one is missing"
        ),
        pytest.param(
            {},
            [daemon("a", "old", conditions=BROKEN), daemon("b", "old"), daemon("c")],
            [],
            ["a"],
            id="the broken first",
        ),
        pytest.param(bounds(maxSurge=1), [daemon("a", "old"), *map(daemon, "bc")], ["a"], [], id="beside the old"),
        pytest.param(
            bounds(maxSurge=1),
            [daemon("a", "old"), daemon("z", on="a"), *map(daemon, "bc")],
            [],
            ["a"],
            id="the old goes",
        ),
        pytest.param(
            bounds(maxSurge=1),
            [daemon("a", "old"), daemon("z", "older", on="a"), *map(daemon, "bc")],
            [],
            ["z"],
            id="only one of the old ones stays",
        ),
        pytest.param(
            bounds(maxSurge=1),
            [daemon("a", "old"), daemon("z", on="a", conditions=BROKEN), daemon("b", "old"), daemon("c")],
            [],
            [],
            id="not before the new serves",
        ),
        pytest.param(
            {"updateStrategy": {"type": "OnDelete"}}, [daemon(n, "old") for n in "abc"], [], [], id="on deletion"
        ),
    ],
)
def test_daemon_steps(spec, pods, created, deleted):
    look = Look(owner("DaemonSet", replicas=None, **spec), pods, [node(name) for name in "abc"], NOW_S)
    steps = daemon_steps(look, "r")
    assert steps.create == created
    assert [pod["metadata"]["name"] for pod in steps.delete] == deleted


def test_daemon_status_counts_nodes():
    nodes = [node("a"), node("b"), node("c", taints=[{"key": "k", "effect": "NoSchedule"}])]
    pods = [daemon("a", "old"), daemon("c")]
    status = daemon_status(Look(owner("DaemonSet", replicas=None), pods, nodes, NOW_S), "r", 0)
    assert status == {
        "currentNumberScheduled": 1,
        "numberMisscheduled": 1,
        "desiredNumberScheduled": 2,
        "numberReady": 1,
        "observedGeneration": 1,
        "numberAvailable": 1,
        "numberUnavailable": 1,
    }
    assert node_of(pods[0]) == "a"


def served(name: str, ip: str, *, conditions: Any = READY, port: int = 8080, **more: Any) -> Any:
    containers = [{"name": "c", "ports": [{"name": "http", "containerPort": port}]}]
    metadata = {"name": name, "namespace": "x", "uid": name, **more}
    return {
        "metadata": metadata,
        "spec": {"containers": containers},
        "status": {"phase": "Running", "podIP": ip, "conditions": conditions},
    }


def service(**spec: Any) -> Any:
    whole = {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": "http"}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "x", "uid": "s"},
        "spec": whole,
    }


def test_endpoints_with_the_same_ports_are_together():
    pods = [served("a", "10.0.0.1"), served("b", "10.0.0.2", conditions=BROKEN), served("c", "10.0.0.3", port=81)]
    pods.append(served("d", "10.0.0.4", **LEAVING))
    found = {one["ports"][0]["port"]: one for one in subsets(service(), pods)}
    assert [one["ip"] for one in found[8080]["addresses"]] == ["10.0.0.1"]
    assert [one["ip"] for one in found[8080]["notReadyAddresses"]] == ["10.0.0.2"]
    assert [one["ip"] for one in found[81]["addresses"]] == ["10.0.0.3"]
    published = subsets(service(publishNotReadyAddresses=True), pods)
    assert sum(len(one["addresses"]) for one in published) == 4


def test_slices_hold_a_hundred_and_keep_what_they_have():
    pods = [served(f"p{number:03}", f"10.0.0.{number}") for number in range(250)]
    first = slice_steps(service(), pods, [], {}, NOW_S)
    assert [len(one["endpoints"]) for one in first.create] == [100, 100, 50]
    assert len({one["metadata"]["name"] for one in first.create}) == 3
    again = slice_steps(service(), pods, first.create, {}, NOW_S)
    assert not again.create
    assert not again.update
    fewer = slice_steps(service(), pods[1:], first.create, {}, NOW_S)
    assert (len(fewer.create), len(fewer.update), len(fewer.delete)) == (0, 1, 0)
    none = slice_steps(service(), [], first.create, {}, NOW_S)
    assert len(none.delete) == 3
    assert [one["endpoints"] for one in none.create] == [[]]


def test_a_slice_says_whether_a_pod_serves():
    pods = [served("a", "10.0.0.1", **LEAVING), served("b", "10.0.0.2", conditions=BROKEN), served("c", "fd00::1")]
    made = slice_steps(service(ipFamilies=["IPv4", "IPv6"]), pods, [], {}, NOW_S).create
    four, six = made
    assert [tuple(one["conditions"].values()) for one in four["endpoints"]] == [
        (False, True, True),
        (False, False, False),
    ]
    assert six["addressType"] == "IPv6"
    assert [one["addresses"] for one in six["endpoints"]] == [["fd00::1"]]


@pytest.mark.parametrize(
    ("spec", "healthy", "count", "scale", "want"),
    [
        pytest.param({"minAvailable": 2}, 3, 3, Scale(), (3, 2, 1), id="a number that stays"),
        pytest.param({"minAvailable": "50%"}, 3, 3, Scale(5), (5, 3, 0), id="a share that stays"),
        pytest.param({"maxUnavailable": 1}, 3, 3, Scale(3), (3, 2, 1), id="a number that may go"),
        pytest.param({"maxUnavailable": "34%"}, 3, 3, Scale(3), (3, 1, 2), id="a share that may go"),
        pytest.param({"maxUnavailable": 9}, 3, 3, Scale(3), (3, 0, 3), id="more than there are"),
        pytest.param({"minAvailable": 0}, 0, 0, Scale(), (0, 0, 0), id="nobody"),
    ],
)
def test_budget_status(spec, healthy, count, scale, want):
    budget = {"metadata": {"generation": 1}, "spec": spec}
    pods = [served(f"p{one}", "10.0.0.1", conditions=READY if one < healthy else BROKEN) for one in range(count)]
    status, _ = budget_status(budget, pods, scale, NOW_S)
    assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == want
    assert status["conditions"][0]["reason"] == ("SufficientPods" if want[2] else "InsufficientPods")


def test_an_eviction_on_its_way_is_believed_for_two_minutes():
    pods = [served("a", "10.0.0.1"), served("b", "10.0.0.2")]
    status = {"disruptedPods": {"a": "2023-11-14T22:12:20Z", "gone": "2023-11-14T22:13:10Z"}}
    budget = {"metadata": {"generation": 1}, "spec": {"minAvailable": 1}, "status": status}
    after, again_s = budget_status(budget, pods, Scale(), NOW_S)
    assert (after["currentHealthy"], after["disruptedPods"], again_s) == (1, {"a": "2023-11-14T22:12:20Z"}, 60.0)
    later, again_s = budget_status(budget, pods, Scale(), NOW_S + 61)
    assert (later["currentHealthy"], "disruptedPods" in later, again_s) == (2, False, None)
    failed, _ = budget_status(budget, pods, Scale(problem="why"), NOW_S)
    assert (failed["disruptionsAllowed"], failed["conditions"][0]["reason"]) == (0, "SyncFailed")
