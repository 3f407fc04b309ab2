"""Whatever stands in Volcano's objects, a plan comes of it: mistakes are told of, and nothing breaks or takes long."""

from __future__ import annotations

import json
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from muster.app.plan import PlanOptions, plan_objects
from muster.dialects.volcano.configuration import ACTIONS
from muster.model.documents import Document
from tests.stopwatch import is_done_within
from tests.support import proof_count

GARBAGE: tuple[Any, ...] = (
    None, "", 0, -1, 1.5, 10**40, True, [], {}, "x" * 300, [None], {"a": None}, "1e999", "-5", float("inf"), ["a", 1],
    {"cpu": "-1"}, {"cpu": 10**50}, "*", "50%", "(((", 2**63, {"": ""},
)  # fmt: skip
PLUGINS = [
    "priority",
    "gang",
    "conformance",
    "drf",
    "proportion",
    "capacity",
    "predicates",
    "nodeorder",
    "binpack",
    "overcommit",
    "sla",
    "tdm",
    "numa-aware",
    "task-topology",
    "network-topology-aware",
    "nodegroup",
    "resourcequota",
    "resource-strategy-fit",
    "usage",
    "rescheduling",
    "pdb",
    "cdp",
    "deviceshare",
    "fifo",
    "sjf",
    "roundrobin",
]
NEAR = {"mode": "hard", "highestTierAllowed": 1}
VOLCANO, TOPOLOGY = "scheduling.volcano.sh/v1beta1", "topology.volcano.sh/v1alpha1"


def obj(kind: str, name: str, version: str = "v1", **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", **parts.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def containers(cards: int) -> list[dict[str, Any]]:
    return [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": cards}}}]


def hyper_node(name: str, tier: int, kind: str, member: str) -> dict[str, Any]:
    members = [{"type": kind, "selector": {"exactMatch": {"name": member}}}]
    return obj("HyperNode", name, TOPOLOGY, spec={"tier": tier, "tierName": "rack", "members": members})


def objects(chance: Random) -> list[dict[str, Any]]:
    """One of everything that is read, and a configuration of some actions and plugins."""
    room = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "4"}}
    spec = {
        "weight": 2,
        "parent": "team",
        "capability": {"cpu": "8"},
        "guarantee": {"resource": {"cpu": "1"}},
        "deserved": {"cpu": "2"},
        "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}},
    }
    said = {"volcano.sh/hierarchy": "root/a", "volcano.sh/nodegroup-resource-limits": '{"a":{"cpu":"1"}}'}
    rule = {"name": "r", "matchLabelKeys": ["x"], "subGroupSize": 1, "minSubGroups": 1}
    group = {
        "minMember": 2,
        "minResources": {"cpu": "1"},
        "queue": "q",
        "networkTopology": NEAR,
        "subGroupPolicy": [rule],
    }
    pods = []
    for number in range(3):
        annotations = {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-priority": "3"}
        place = {"nodeName": "n0"} if not number else {}
        metadata = {"annotations": annotations, "labels": {"x": "1"}}
        pod = {"containers": containers(number), **place}
        pods.append(obj("Pod", f"p{number}", metadata=metadata, spec=pod, status={"phase": "Running" if place else ""}))
    uses = [{"name": name, "enableHierarchy": chance.random() < 0.3} for name in chance.sample(PLUGINS, 8)]
    text = json.dumps({"actions": chance.sample(ACTIONS, 5), "tiers": [{"plugins": uses}]})
    cores = {"cpuDetail": {"0": {"numa": 0}}, "numares": {"cpu": {"allocatable": "0-1"}}, "policies": {}}
    task = {"name": "w", "replicas": 2, "template": {"spec": {"containers": containers(1)}}}
    return [
        *(obj("Node", name, status=room) for name in ("n0", "n1")),
        obj("Queue", "team", VOLCANO, spec={}),
        obj("Queue", "q", VOLCANO, metadata={"annotations": said}, spec=spec),
        obj("PodGroup", "g", VOLCANO, spec=group, status={"phase": "Inqueue"}),
        hyper_node("h1", 1, "Node", "n0"),
        hyper_node("h2", 2, "HyperNode", "h1"),
        obj("Numatopology", "n0", "nodeinfo.volcano.sh/v1alpha1", spec=cores),
        *pods,
        obj("Job", "j", "batch.volcano.sh/v1alpha1", spec={"tasks": [task], "queue": "q", "networkTopology": NEAR}),
        obj("ConfigMap", "c", data={"volcano-scheduler.conf": text}),
        obj("ResourceQuota", "rq", spec={"hard": {"cpu": "4"}}),
        obj("PodDisruptionBudget", "b", "policy/v1", spec={"selector": {}}, status={"disruptionsAllowed": 1}),
    ]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in an object: what holds it, and the key or index."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


def plan(given: list[dict[str, Any]]) -> Any:
    return plan_objects([Document(value, "test", 1) for value in given], PlanOptions(now=0.0))


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(proof_count(3000)))
def test_garbage_is_told_of(seed):
    chance = Random(seed)
    given = objects(chance)
    for _ in range(chance.randint(0, 3)):
        inside, key = chance.choice([place for place in places(chance.choice(given)) if place[1] not in ("kind",)])
        inside[key] = deepcopy(chance.choice(GARBAGE))
    plan(given)


def test_a_big_cluster_of_domains_takes_no_time():
    nodes = [obj("Node", f"n{index}", status={"allocatable": {"cpu": "4", "pods": "10"}}) for index in range(300)]
    racks = [hyper_node(f"r{index}", 1, "Node", f"n{index}") for index in range(300)]
    task = {"name": "w", "replicas": 8, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
    task["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    job = obj("Job", "j", "batch.volcano.sh/v1alpha1", spec={"tasks": [task], "networkTopology": NEAR})
    text = "actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: network-topology-aware}]\n"
    configuration = obj("ConfigMap", "c", data={"volcano-scheduler.conf": text})
    assert is_done_within(10, lambda: plan([*nodes, *racks, job, configuration]))
