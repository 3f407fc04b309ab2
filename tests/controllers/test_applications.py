"""Stories of YuniKorn's applications on a living cluster: pods come, and the store tells what becomes of them."""

from __future__ import annotations

import json
from typing import Any

from muster.store.kinds import Object
from muster.store.records import Key
from tests.controllers.cluster import Cluster, node, pod
from tests.controllers.test_scheduler import story

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: small
            resources: {max: {vcore: '2'}}
          - name: own
            resources: {guaranteed: {vcore: '3'}}
          - name: lent
"""


def of_application(name: str, application: str, queue: str = "root.own", *, notes: Object | None = None, **asked: str):
    """A pod of an application."""
    made = pod(name, **asked)
    labels = {"applicationId": application, "queue": queue}
    made["metadata"] |= {"labels": labels, "annotations": notes or {}}
    made["spec"]["schedulerName"] = "yunikorn"
    return made


def in_group(group: str, *groups: tuple[str, int], parameters: str = "") -> Object:
    """The annotations of a pod of a task group."""
    defined = [{"name": name, "minMember": least, "minResource": {"cpu": "1"}} for name, least in groups]
    notes = {"yunikorn.apache.org/task-group-name": group, "yunikorn.apache.org/task-groups": json.dumps(defined)}
    return notes | ({"yunikorn.apache.org/schedulingPolicyParameters": parameters} if parameters else {})


async def configure(cluster: Cluster, text: str = QUEUES) -> None:
    metadata = {"name": "yunikorn-configs", "namespace": "default"}
    given: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await cluster.add("configmaps", {**given, "data": {"queues.yaml": text}})


@story
async def test_a_queue_gives_no_more_than_its_maximum(cluster):
    await cluster.set_up(nodes=[node("n", cpu="8")])
    await configure(cluster)
    await cluster.start()
    for number in range(3):
        await cluster.add("pods", of_application(f"p{number}", "a", "root.small", cpu="1"))
    await cluster.settle()
    assert sorted(cluster.nodes_of_pods().values()) == ["", "n", "n"]
    waiting = next(name for name, on in cluster.nodes_of_pods().items() if not on)
    assert cluster.conditions(waiting, "pods")["PodScheduled"] == ("False", "Unschedulable")
    assert "root.small" in cluster.message(waiting, "PodScheduled", "pods")
    gone = next(name for name, on in cluster.nodes_of_pods().items() if on)
    await cluster.remove("pods", gone)
    await cluster.settle()
    assert set(cluster.nodes_of_pods().values()) == {"n"}


@story
async def test_a_gang_starts_together_and_keeps_places_for_those_to_come(cluster):
    await cluster.set_up(nodes=[node("n", cpu="2")])
    await configure(cluster)
    await cluster.start()
    groups = (("driver", 1), ("worker", 2))
    await cluster.add("pods", of_application("d", "spark", notes=in_group("driver", *groups), cpu="1"))
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"d": ""}, "there is no room for what it needs at least"
    await cluster.add_node(node("m", cpu="1"))
    await cluster.settle()
    assert cluster.nodes_of_pods()["d"] != ""
    await cluster.add("pods", pod("plain", cpu="1"))
    await cluster.settle()
    assert cluster.nodes_of_pods()["plain"] == "", "the places of workers that are yet to come are kept"
    for number in range(2):
        await cluster.add("pods", of_application(f"w{number}", "spark", notes=in_group("worker"), cpu="1"))
    await cluster.settle()
    on = cluster.nodes_of_pods()
    assert sorted(on[name] for name in ("d", "w0", "w1")) == ["m", "n", "n"]
    state = cluster.scheduling.scheduler.cache.state
    assert not state.places.slots.foreign, "each pod is charged once"
    await cluster.remove("pods", "w0")
    await cluster.remove("pods", "w1")
    await cluster.remove("pods", "d")
    await cluster.settle()
    assert cluster.nodes_of_pods()["plain"] != ""


@story
async def test_a_gang_is_not_waited_for_longer_than_it_says(cluster):
    await cluster.set_up(nodes=[node("n", cpu="1")])
    await configure(cluster)
    await cluster.start()
    soft, hard = "placeholderTimeoutInSeconds=60", "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard"
    for name, style in (("soft", soft), ("hard", hard)):
        notes = in_group("g", ("g", 2), parameters=style)
        await cluster.add("pods", of_application(name, name, notes=notes, cpu="1"))
    await cluster.settle()
    assert set(cluster.nodes_of_pods().values()) == {""}
    await cluster.settle(for_s=61)
    assert cluster.nodes_of_pods() == {"soft": "n", "hard": ""}
    assert "style is Hard" in cluster.message("hard", "PodScheduled", "pods")


@story
async def test_a_queue_takes_back_what_it_is_guaranteed(cluster):
    await cluster.set_up(nodes=[node("n", cpu="4")])
    await configure(cluster)
    await cluster.start()
    for number in range(4):
        await cluster.add("pods", of_application(f"l{number}", "lender", "root.lent", cpu="1"))
    await cluster.settle()
    assert set(cluster.nodes_of_pods().values()) == {"n"}
    await cluster.add("pods", of_application("mine", "owner", "root.own", cpu="1"))
    await cluster.settle()
    assert not any(one["metadata"].get("deletionTimestamp") for one in cluster.all("pods")), "it has to wait first"
    await cluster.settle(30.0)
    for one in cluster.all("pods"):
        if one["metadata"].get("deletionTimestamp"):
            await cluster.remove("pods", one["metadata"]["name"])
    await cluster.settle()
    assert cluster.nodes_of_pods()["mine"] == "n"
    assert len(cluster.nodes_of_pods()) == 4


@story
async def test_a_gang_that_no_node_lets_in_names_the_taint(cluster):
    await cluster.set_up(nodes=[node("n", cpu="8")])
    await cluster.taint("n", {"key": "team", "value": "red", "effect": "NoSchedule"})
    await cluster.start()
    for number in range(2):
        await cluster.add("pods", of_application(f"p{number}", "a", notes=in_group("main", ("main", 2)), cpu="1"))
    await cluster.settle()
    assert "team=red:NoSchedule" in cluster.message("p0", "PodScheduled", "pods")


LOWERED = """
partitions:
  - name: default
    preemption: {quotapreemptionenabled: true}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: own
            resources: {max: {vcore: 'MOST'}}
            properties: {quota.preemption.delay: 60s}
"""


@story
async def test_a_lowered_maximum_is_kept_after_its_delay(cluster):
    await cluster.set_up(nodes=[node("n", cpu="8")])
    await configure(cluster, LOWERED.replace("MOST", "4"))
    await cluster.start()
    for number in range(4):
        await cluster.add("pods", of_application(f"p{number}", "a", cpu="1"))
    await cluster.settle()
    assert set(cluster.nodes_of_pods().values()) == {"n"}
    key = Key("configmaps", "default", "yunikorn-configs")
    given = cluster.get("configmaps", "yunikorn-configs", "default")
    await cluster.plain.update(key, {**given, "data": {"queues.yaml": LOWERED.replace("MOST", "3")}})
    await cluster.settle(30.0)
    assert not any(one["metadata"].get("deletionTimestamp") for one in cluster.all("pods")), "it has its delay"
    await cluster.settle(40.0)
    told = [one["metadata"]["name"] for one in cluster.all("pods") if one["metadata"].get("deletionTimestamp")]
    assert len(told) == 1
    await cluster.remove("pods", told[0])
    await cluster.settle(90.0)
    assert len(cluster.nodes_of_pods()) == 3
    assert not any(one["metadata"].get("deletionTimestamp") for one in cluster.all("pods")), "that was enough"


@story
async def test_a_broken_configuration_is_told_and_the_last_good_one_stays(cluster):
    await cluster.set_up(nodes=[node("n", cpu="8")])
    await configure(cluster)
    await cluster.start()
    await cluster.settle()
    key = Key("configmaps", "default", "yunikorn-configs")
    broken = cluster.get("configmaps", key.name, key.namespace)
    broken["data"]["queues.yaml"] = "partitions: [{name: default, queues: [{name: root, dance: true}]}]"
    await cluster.plain.update(key, broken)
    await cluster.settle()
    assert any(one["involvedObject"]["kind"] == "ConfigMap" for one in cluster.all("events"))
    for number in range(3):
        await cluster.add("pods", of_application(f"p{number}", "a", "root.small", cpu="1"))
    await cluster.settle()
    assert sorted(cluster.nodes_of_pods().values()) == ["", "n", "n"]


@story
async def test_a_scheduler_that_knows_nothing_goes_on(cluster):
    await cluster.set_up(nodes=[node("n", cpu="4")])
    await configure(cluster)
    await cluster.start()
    await cluster.add("pods", of_application("d", "spark", notes=in_group("g", ("g", 3)), cpu="1"))
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"d": "n"}
    await cluster.stop()
    await cluster.start()
    await cluster.settle()
    await cluster.add("pods", pod("big", cpu="2"))
    await cluster.settle()
    assert cluster.nodes_of_pods()["big"] == "", "what is missing of the gang is kept again"
    revision = cluster.store.revision
    await cluster.settle(for_s=60)
    assert cluster.store.revision == revision, "nothing is written that says nothing new"
