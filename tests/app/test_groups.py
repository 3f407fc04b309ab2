"""Volcano's objects in a plan, beside everybody else's and over the same nodes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from muster.app.groups import NO_NODES
from muster.app.manifests import read_manifests
from muster.app.plan import Admitted, PlanOptions, PlanReport, plan_objects
from muster.model.documents import Document
from tests.support import ROOT

GPU = "nvidia.com/gpu"


def plan(*objects: dict[str, Any]) -> PlanReport:
    return plan_objects([Document(value, "test", 1) for value in objects], PlanOptions(now=0.0))


def obj(kind: str, name: str, version: str = "v1", namespace: str = "", **parts: Any) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place}, **parts}


def node(name: str, cards: int = 4) -> dict[str, Any]:
    return obj("Node", name, status={"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110", GPU: str(cards)}})


def pod_spec(cards: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1"}, "limits": {GPU: str(cards)}} if cards else {"requests": {"cpu": "1"}}
    return {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "resources": resources}]}


def volcano_job(name: str, count: int, cards: int, **spec: Any) -> dict[str, Any]:
    tasks = [{"name": "w", "replicas": count, "template": {"spec": pod_spec(cards)}}]
    return obj("Job", name, "batch.volcano.sh/v1alpha1", "ns", spec={"tasks": tasks, **spec})


def plain_job(name: str, count: int, cards: int) -> dict[str, Any]:
    return obj("Job", name, "batch/v1", "ns", spec={"parallelism": count, "template": {"spec": pod_spec(cards)}})


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return obj("Queue", name, "scheduling.volcano.sh/v1beta1", spec=spec)


def cards_given(report: PlanReport, asked: dict[str, int]) -> Counter[str]:
    """Cards by node, of all that start or will."""
    given: Counter[str] = Counter()
    for step in report.steps:
        if isinstance(step, Admitted):
            for pod_set in step.pod_sets:
                for slot in pod_set.slots:
                    given[slot.node] += len(slot.cards)
    for group in report.groups:
        for name in (*group.binds.values(), *group.promised.values()):
            given[name] += asked[group.key]
    return given


def test_a_job_starts_whole_or_waits():
    report = plan(node("n1"), node("n2"), volcano_job("fits", 2, 4), volcano_job("waits", 1, 1, queue="default"))
    by_name = {group.key: group for group in report.groups}
    assert set(by_name["ns/fits"].binds.values()) == {"n1", "n2"}
    assert by_name["ns/waits"].waiting == 1
    assert by_name["ns/waits"].why == "its queue may not take ns/waits-w-0 beside what it has"


def test_plain_jobs_and_groups_share_the_cards():
    report = plan(node("n1"), plain_job("plain", 3, 1), volcano_job("one", 1, 1), volcano_job("two", 1, 1))
    assert cards_given(report, {"ns/one": 1, "ns/two": 1}) == {"n1": 4}


def test_running_pods_of_groups_hold_their_cards_once():
    running = obj("Pod", "r", namespace="ns", spec={**pod_spec(3), "nodeName": "n1"}, status={"phase": "Running"})
    running["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    group = obj("PodGroup", "g", "scheduling.volcano.sh/v1beta1", "ns", spec={"minMember": 1})
    report = plan(node("n1"), running, group, plain_job("plain", 1, 1), volcano_job("late", 1, 1))
    by_name = {one.key: one for one in report.groups}
    assert by_name["ns/g"].phase == "Running"
    assert by_name["ns/late"].waiting == 1


def test_without_nodes_nothing_is_placed():
    [group] = plan(volcano_job("a", 1, 0)).groups
    assert (group.waiting, group.why) == (1, NO_NODES)


def test_a_configuration_comes_with_the_objects():
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
    configuration = obj("ConfigMap", "c", namespace="volcano-system", data={"volcano-scheduler.conf": text})
    report = plan(node("n1"), configuration, volcano_job("a", 1, 1))
    assert not report.refused
    assert len(report.groups[0].binds) == 1


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("actions: dance", "has 'dance'", id="action"),
        pytest.param("tiers: [{plugins: [{name: nobody}]}]", "'nobody', which is no policy", id="plugin"),
        pytest.param("tiers: [{plugins: [{name: drf, arguments: {x: 1}}]}]", "is no argument of drf", id="argument"),
        pytest.param("tiers: 5", "is 5", id="no list"),
    ],
)
def test_a_configuration_with_mistakes_is_refused_and_the_defaults_hold(text, want):
    configuration = obj("ConfigMap", "c", namespace="volcano-system", data={"volcano-scheduler.conf": text})
    report = plan(node("n1"), configuration, volcano_job("a", 1, 1))
    assert any(want in str(one) for one in report.refused)
    assert len(report.groups[0].binds) == 1


def test_queues_that_promise_too_much_are_refused_and_their_groups_wait():
    report = plan(
        node("n1"),
        queue("q", capability={"cpu": "1"}, deserved={"cpu": "2"}),
        volcano_job("a", 1, 1, queue="q"),
    )
    assert [one.object for one in report.refused] == ["Queue q"]
    assert report.groups[0].why == "queue q is not there"


def test_domains_that_go_round_are_told_of():
    members = {"type": "HyperNode", "selector": {"exactMatch": {"name": "h"}}}
    domain = obj("HyperNode", "h", "topology.volcano.sh/v1alpha1", spec={"tier": 1, "members": [members]})
    report = plan(node("n1"), domain, volcano_job("a", 1, 1))
    assert [str(one) for one in report.refused] == ["HyperNode h: spec.members: would be above and below h"]
    assert report.groups[0].binds


def test_slices_of_cards_are_no_matter_of_queues():
    """Nodes have no memory of cards to share out: each card has its own."""
    card = {"id": "c", "index": 0, "count": 4, "devmem": 10000, "devcore": 100, "type": "NVIDIA-A10", "health": True}
    sliced = node("n1")
    sliced["metadata"]["annotations"] = {"hami.io/node-nvidia-register": json.dumps([card])}
    job = volcano_job("a", 3, 1)
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "4000"
    job["spec"]["minAvailable"] = 2
    [group] = plan(sliced, job).groups
    assert [one.slices.shares[0].memory_mib for one in group.slots.values() if one.slices] == [4000, 4000]
    assert group.waiting == 1


def test_the_example():
    """Production takes back a rack for a job that has to be in one; research keeps what it deserves."""
    documents = read_manifests([str(ROOT / "examples" / "volcano")])
    report = plan_objects(documents, PlanOptions(now=0.0))
    assert not report.refused
    by_name = {group.key: group for group in report.groups}
    assert set(by_name["production/serve"].binds.values()) == {"a2"}
    assert set(by_name["production/train"].promised.values()) == {"b1", "b2"}
    assert by_name["research/sweep"].evicted == ("research/sweep-1",)
