"""Volcano's objects as a session gets them."""

from __future__ import annotations

import pytest

from muster.dialects.volcano.jobs import expand_job, expand_pod
from muster.dialects.volcano.read import read, read_group, read_queue
from muster.dialects.volcano.read_numa import read_numa
from muster.engine.session_domains import DomainTree
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.groups import GroupPhase, NearWish, NetworkDomain, NodeGroupWish, PodStatus
from tests.stopwatch import is_done_within

GROUP_NAME = "scheduling.k8s.io/group-name"


def obj(kind, name, version="scheduling.volcano.sh/v1beta1", **parts):
    metadata = {"name": name, **parts.pop("metadata", {})}
    return Fields.of({"apiVersion": version, "kind": kind, "metadata": metadata, **parts})


def pod(name="p", metadata=None, spec=None, status=None):
    annotations = {GROUP_NAME: "g", **(metadata or {}).pop("annotations", {})}
    given = {"namespace": "ns", "annotations": annotations, **(metadata or {})}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    return obj("Pod", name, "v1", metadata=given, spec={"containers": containers, **(spec or {})}, status=status or {})


def read_one(given):
    found = read([given], 0.0)
    assert not found.refused
    [one] = found.snapshot.pods.values()
    return one


def test_a_queue_in_full():
    spec = {
        "weight": 3,
        "priority": 2,
        "parent": "team",
        "reclaimable": False,
        "capability": {"cpu": "4"},
        "guarantee": {"resource": {"memory": "1Gi"}},
        "deserved": {"nvidia.com/gpu": 2},
        "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}},
    }
    found = read_queue(obj("Queue", "q", spec=spec, status={"state": "Closing"}))
    assert (found.weight, found.priority, found.parent, found.is_reclaimable, found.is_open) == (
        3,
        2,
        "team",
        False,
        False,
    )
    assert (found.capability, found.guarantee, found.deserved) == (
        {"cpu": 4000},
        {"memory": 2**30},
        {"nvidia.com/gpu": 2},
    )
    assert found.node_groups == NodeGroupWish(required=("a",))


def test_a_queue_that_says_nothing():
    found = read_queue(obj("Queue", "q"))
    assert (found.weight, found.is_open, found.is_reclaimable, found.capability) == (1, True, True, None)


def test_a_group_in_full():
    rule = {"name": "r", "matchLabelKeys": ["x"], "subGroupSize": 2, "minSubGroups": 3}
    spec = {
        "minMember": 4,
        "minTaskMember": {"worker": 3},
        "minResources": {"cpu": "2"},
        "priorityClassName": "high",
        "networkTopology": {"mode": "soft", "highestTierName": "rack"},
        "subGroupPolicy": [rule],
    }
    found = read_group(obj("PodGroup", "g", metadata={"namespace": "ns"}, spec=spec), {"high": 7})
    assert (found.key, found.queue, found.priority, found.minimum) == ("ns/g", "default", 7, 4)
    assert (found.minimum_by_role, found.resources_least) == ({"worker": 3}, {"cpu": 2000})
    assert found.near == NearWish(is_hard=False, tier_name="rack")
    assert (found.sub_groups[0].size, found.sub_groups[0].least) == (2, 3)
    assert found.phase is GroupPhase.PENDING


def test_a_tier_by_number_and_name_is_one_too_many():
    given = {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}}
    with pytest.raises(InvalidObject, match="beside highestTierAllowed"):
        read_group(obj("PodGroup", "g", spec=given), {})


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({}, PodStatus.PENDING, id="waits"),
        pytest.param({"spec": {"nodeName": "n"}}, PodStatus.BOUND, id="has a node"),
        pytest.param({"status": {"phase": "Running"}}, PodStatus.RUNNING, id="runs"),
        pytest.param(
            {"status": {"phase": "Running"}, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            PodStatus.RELEASING,
            id="leaves",
        ),
        pytest.param({"status": {"phase": "Failed"}}, PodStatus.FAILED, id="failed"),
        pytest.param({"status": {"phase": "Odd"}}, PodStatus.UNKNOWN, id="odd"),
    ],
)
def test_where_a_pod_stands(given, want):
    assert read_one(pod(**given)).status is want


@pytest.mark.parametrize(
    ("annotations", "labels", "want"),
    [
        pytest.param({}, {}, True, id="says nothing"),
        pytest.param({}, {"volcano.sh/preemptable": "false"}, False, id="a label"),
        pytest.param({"volcano.sh/preemptable": "true"}, {"volcano.sh/preemptable": "false"}, True, id="both"),
        pytest.param({"volcano.sh/preemptable": "perhaps"}, {}, False, id="no truth value"),
    ],
)
def test_who_may_be_preempted(annotations, labels, want):
    assert read_one(pod(metadata={"annotations": annotations, "labels": labels})).is_preemptable is want


def test_the_priority_of_a_pod():
    assert read_one(pod()).priority == 1
    assert read_one(pod(spec={"priority": 9})).priority == 9
    assert read_one(pod(metadata={"annotations": {"volcano.sh/task-priority": "-3"}})).priority == -3


def test_pods_of_no_group_are_nobodys():
    alone = obj("Pod", "p", "v1", metadata={"namespace": "ns"}, spec={"containers": []})
    assert not read([alone], 0.0).snapshot.pods


def test_one_mistake_does_not_stop_the_others():
    found = read([obj("Queue", "a", spec={"weight": "x"}), obj("Queue", "b")], 0.0)
    assert list(found.snapshot.queues) == ["b"]
    assert [(name, problem.path) for name, problem in found.refused] == [("Queue a", "spec.weight")]


# Domains -------------------------------------------------------------------------------------------------------------


def hyper(name, tier, *members):
    return obj("HyperNode", name, "topology.volcano.sh/v1alpha1", spec={"tier": tier, "members": list(members)})


def test_members_by_name_label_and_pattern():
    nodes = [obj("Node", f"n{index}", "v1", metadata={"labels": {"rack": str(index % 2)}}) for index in range(4)]
    domains = [
        hyper("exact", 1, {"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}),
        hyper("label", 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "1"}}}}),
        hyper("regex", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": "n[23]"}}}),
        hyper("top", 2, {"type": "HyperNode", "selector": {"exactMatch": {"name": "exact"}}}),
    ]
    found = read([*nodes, *domains], 0.0).snapshot.domains
    assert {name: one.nodes for name, one in found.items()} == {
        "exact": ("n0",),
        "label": ("n1", "n3"),
        "regex": ("n2", "n3"),
        "top": (),
    }
    assert found["top"].domains == ("exact",)


@pytest.mark.parametrize("pattern", ["(", "", "x" * 300, "\\"])
def test_patterns_that_are_none_are_refused(pattern):
    given = hyper("h", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}})
    [(name, problem)] = read([given], 0.0).refused
    assert name == "HyperNode h"
    assert problem.path.endswith("regexMatch.pattern")


def test_a_hostile_pattern_takes_no_time():
    nodes = [obj("Node", "a" * 60 + f"{index}", "v1") for index in range(1000)]
    given = hyper("h", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": "(a+)+$"}}})
    assert is_done_within(5, lambda: read([*nodes, given], 0.0))


@pytest.mark.parametrize(
    ("domains", "want"),
    [
        pytest.param({"a": (1, "b"), "b": (1, "a")}, "is of tier 1, not below that of a", id="a loop"),
        pytest.param({"a": (2, "a")}, "would be above and below a", id="itself"),
        pytest.param({"a": (2, "c"), "b": (2, "c"), "c": (1,)}, "is a member of a and of b", id="two parents"),
        pytest.param({"a": (2, "x")}, "its member x is not there", id="nobody"),
    ],
)
def test_domains_that_are_no_tree(domains, want):
    given = {
        name: NetworkDomain(name=name, tier=tier, domains=tuple(below)) for name, (tier, *below) in domains.items()
    }
    tree = DomainTree(given, [])
    assert want in [problem for _, problem in tree.problems]
    assert all(one in tree.top.below() for one in tree.nodes.values())


# Jobs ----------------------------------------------------------------------------------------------------------------


def job(**spec):
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    tasks = spec.pop("tasks", [{"name": "w", "replicas": 3, "template": template}])
    return obj("Job", "j", "batch.volcano.sh/v1alpha1", metadata={"namespace": "ns"}, spec={"tasks": tasks, **spec})


def test_a_job_is_a_group_and_its_pods():
    group, *pods = expand_job(job(minAvailable=2, queue="q"))
    assert group["spec"] == {
        "minMember": 2,
        "minTaskMember": {"w": 3},
        "queue": "q",
        "minResources": {"cpu": "4"},
        "priorityClassName": "",
    }
    assert [one["metadata"]["name"] for one in pods] == ["j-w-0", "j-w-1", "j-w-2"]
    assert {one["metadata"]["annotations"][GROUP_NAME] for one in pods} == {"j"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"tasks": []}, "spec.tasks: holds 0 entries", id="no tasks"),
        pytest.param({"minAvailable": 4}, "spec.minAvailable: is 4", id="more than there are"),
        pytest.param({"tasks": [{"replicas": 10**9}]}, "at most 5000 pods", id="absurdly many"),
        pytest.param({"tasks": [{"name": "a"}, {"name": "a"}]}, "is a again", id="twice"),
        pytest.param({"tasks": [{"replicas": 1, "minAvailable": 2}]}, "is 2 of 1 replicas", id="a task's minimum"),
    ],
)
def test_jobs_that_cannot_be(spec, want):
    with pytest.raises(InvalidObject) as caught:
        expand_job(job(**spec))
    assert want in str(caught.value)


def test_a_pod_alone_gets_a_group():
    group, made = expand_pod(obj("Pod", "p", "v1", spec={"containers": []}))
    assert group["metadata"]["name"] == made["metadata"]["annotations"][GROUP_NAME] == "podgroup-p"


def test_cores_by_numa_node():
    detail = {str(core): {"numa": core // 2} for core in range(4)}
    policies = {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"}
    spec = {"cpuDetail": detail, "numares": {"cpu": {"allocatable": "0,2-3"}}, "policies": policies}
    name, found = read_numa(obj("Numatopology", "n", "nodeinfo.volcano.sh/v1alpha1", spec=spec))
    assert (name, found.capacity, found.free, found.policy, found.is_static) == (
        "n",
        (2, 2),
        (1, 2),
        "restricted",
        True,
    )


@pytest.mark.parametrize(
    ("containers", "want"),
    [
        pytest.param([{"limits": {"cpu": "2", "memory": "1Gi"}}], (2,), id="all that it may have is what it asks for"),
        pytest.param([{"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}], (), id="asks for less"),
        pytest.param([{"limits": {"cpu": "2"}}], (), id="memory is not bounded"),
        pytest.param([{"limits": {"cpu": "1500m", "memory": "1Gi"}}], (), id="no whole cores"),
        pytest.param([{"limits": {"cpu": str(count), "memory": "1Gi"}} for count in (1, 3)], (1, 3), id="two of them"),
        pytest.param([{"limits": {"cpu": "2", "memory": "1Gi"}}, {}], (), id="another one is not bounded"),
    ],
)
def test_cores_that_containers_get_for_themselves(containers, want):
    named = [{"name": f"c{index}", "resources": resources} for index, resources in enumerate(containers)]
    assert read_one(pod(spec={"containers": named})).cores_alone == want
