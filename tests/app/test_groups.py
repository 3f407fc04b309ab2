"""Volcano's objects in a plan, beside everybody else's and over the same nodes."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from muster.app.groups import NO_NODES
from muster.app.manifests import read_manifests
from muster.app.plan import Admitted, PlanOptions, PlanReport, plan_objects
from muster.model.documents import Document
from tests.support import ROOT, proof_count

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


def plain_job(name: str, count: int, cards: int, queue: str = "") -> dict[str, Any]:
    job = obj("Job", name, "batch/v1", "ns", spec={"parallelism": count, "template": {"spec": pod_spec(cards)}})
    if queue:
        job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
        job["spec"]["suspend"] = True
    return job


def yunikorn_pod(name: str, application: str, cards: int) -> dict[str, Any]:
    pod = obj("Pod", name, namespace="ns", spec={**pod_spec(cards), "schedulerName": "yunikorn"})
    pod["metadata"]["labels"] = {"applicationId": application, "queue": "root.default"}
    return pod


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return obj("Queue", name, "scheduling.volcano.sh/v1beta1", spec=spec)


KUEUE = (
    obj("ResourceFlavor", "any", "kueue.x-k8s.io/v1beta1"),
    obj(
        "ClusterQueue",
        "cq",
        "kueue.x-k8s.io/v1beta1",
        spec={
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", GPU],
                    "flavors": [
                        {
                            "name": "any",
                            "resources": [{"name": "cpu", "nominalQuota": 64}, {"name": GPU, "nominalQuota": 6}],
                        }
                    ],
                }
            ],
        },
    ),
    obj("LocalQueue", "lq", "kueue.x-k8s.io/v1beta1", "ns", spec={"clusterQueue": "cq"}),
    obj("Namespace", "ns"),
)


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


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(proof_count(10_000)))
def test_no_card_is_sold_twice_in_mixed_files(seed):
    chance = Random(seed)
    nodes = [node(f"n{index}", chance.randint(0, 8)) for index in range(chance.randint(1, 4))]
    jobs, asked = [], {}
    for index in range(chance.randint(1, 6)):
        count, cards = chance.randint(1, 4), chance.randint(0, 4)
        kind = chance.choice(["volcano", "kueue", "yunikorn", "plain"])
        if kind == "volcano":
            asked[f"ns/v{index}"] = cards
            least = {"minAvailable": chance.randint(1, count)} if chance.random() < 0.5 else {}
            jobs.append(volcano_job(f"v{index}", count, cards, **least))
        elif kind == "yunikorn":
            jobs += [yunikorn_pod(f"y{index}-{number}", f"y{index}", cards) for number in range(count)]
        else:
            jobs.append(plain_job(f"p{index}", count, cards, "lq" if kind == "kueue" else ""))
    objects = [*nodes, *KUEUE, *jobs]
    chance.shuffle(objects)
    report = plan(*objects)
    assert not report.refused
    have = {one["metadata"]["name"]: int(one["status"]["allocatable"][GPU]) for one in nodes}
    for name, cards in cards_given(report, asked).items():
        assert cards <= have[name], f"{name} has {have[name]} cards and gives {cards}"
    for group in report.groups:
        assert not group.binds or len(group.binds) >= group.minimum, f"{group.key} starts below its minimum"


def test_the_example():
    """Production takes back a rack for a job that has to be in one; research keeps what it deserves."""
    documents = read_manifests([str(ROOT / "examples" / "volcano")])
    report = plan_objects(documents, PlanOptions(now=0.0))
    assert not report.refused
    by_name = {group.key: group for group in report.groups}
    assert set(by_name["production/serve"].binds.values()) == {"a2"}
    assert set(by_name["production/train"].promised.values()) == {"b1", "b2"}
    assert by_name["research/sweep"].evicted == ("research/sweep-1",)
