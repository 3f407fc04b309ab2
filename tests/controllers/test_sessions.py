"""Stories of groups on a living cluster: Volcano's objects are made, and the store tells what becomes of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from muster.controllers import sessions
from muster.store.kinds import Object
from muster.store.records import Key
from tests.controllers.cluster import WORKLOADS, Cluster, node, pod, queue, workload
from tests.controllers.test_scheduler import story

QUEUES, GROUPS = "queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh"
VOLCANO = "scheduling.volcano.sh/v1beta1"


def fair_queue(name: str, **spec: Any) -> Object:
    """A Queue of Volcano's."""
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def pod_group(name: str, least: int, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": least, **spec}}


def member(name: str, group: str, *, priority: int = 0, **asked: str) -> Object:
    """A pod of a group."""
    made = pod(name, priority=priority, **asked)
    made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group}
    made["spec"]["schedulerName"] = "volcano"
    return made


def phase(cluster: Cluster, name: str) -> str:
    return (cluster.get(GROUPS, name).get("status") or {}).get("phase", "")


@story
async def test_a_gang_waits_until_all_of_it_fits(cluster):
    await cluster.set_up(nodes=[node("n1", cpu="2")])
    await cluster.start()
    await cluster.add(GROUPS, pod_group("gang", 3))
    for number in range(3):
        await cluster.add("pods", member(f"p{number}", "gang", cpu="1"))
    await cluster.settle()
    assert set(cluster.nodes_of_pods().values()) == {""}
    assert phase(cluster, "gang") == "Inqueue"
    assert cluster.conditions("gang", GROUPS) == {"Unschedulable": ("True", "NotEnoughResources")}
    assert cluster.conditions("p0", "pods")["PodScheduled"] == ("False", "Unschedulable")
    await cluster.add_node(node("n2", cpu="1"))
    await cluster.settle()
    assert sorted(cluster.nodes_of_pods().values()) == ["n1", "n1", "n2"]
    assert phase(cluster, "gang") == "Running"
    assert {one["reason"] for one in cluster.all("events")} >= {"FailedScheduling", "Scheduled", "Unschedulable"}


@story
async def test_a_queue_takes_back_what_it_deserves(cluster):
    """Reclaim: pods of a queue above its share are told to go, and the place is kept for those that wait."""
    await configure(cluster, "actions: enqueue, allocate, reclaim\n" + PROPORTION)
    await cluster.set_up(nodes=[node("n", cpu="4")])
    for name in ("a", "b"):
        await cluster.add(QUEUES, fair_queue(name, weight=1, reclaimable=True))
    await cluster.start()
    await cluster.add(GROUPS, pod_group("first", 1, queue="a"))
    for number in range(4):
        await cluster.add("pods", member(f"a{number}", "first", cpu="1"))
    await cluster.settle()
    assert set(cluster.nodes_of_pods().values()) == {"n"}
    for number in range(4):
        await cluster.set_status("pods", f"a{number}", {"phase": "Running"})
    await cluster.settle()
    assert cluster.get(GROUPS, "first")["status"]["running"] == 4
    await cluster.add(GROUPS, pod_group("second", 1, queue="b"))
    await cluster.add("pods", member("b0", "second", cpu="1"))
    await cluster.settle()
    leaving = [one["metadata"]["name"] for one in cluster.all("pods") if one["metadata"].get("deletionTimestamp")]
    gone = {f"a{number}" for number in range(4)} - cluster.nodes_of_pods().keys() | set(leaving)
    assert len(gone) == 1, "no more are told to go than is needed"
    await cluster.add("pods", pod("plain", cpu="1"))
    await cluster.settle()
    for name in leaving:
        await cluster.remove("pods", name)
    await cluster.settle()
    assert cluster.nodes_of_pods()["b0"] == "n"
    assert cluster.nodes_of_pods()["plain"] == "", "what was promised is nobody else's"
    assert "Evict" in {one["reason"] for one in cluster.all("events")}
    status = cluster.get(QUEUES, "b", "")["status"]
    assert (status["state"], status["running"], status["allocated"]["cpu"]) == ("Open", 1, "1")


@story
async def test_everybody_shares_the_same_nodes(cluster):
    """A workload of Kueue's, a gang and a plain pod: each is counted once, and the last one waits."""
    await cluster.set_up(queue("q", {"cpu": "9"}), nodes=[node("n1", cpu="2"), node("n2", cpu="2")])
    await cluster.start()
    await cluster.add(GROUPS, pod_group("gang", 2))
    for number in range(2):
        await cluster.add("pods", member(f"g{number}", "gang", cpu="1"))
    await cluster.settle()
    await cluster.add(WORKLOADS, workload("w", "q", 1, cpu="1"))
    await cluster.add("pods", pod("w0", "w", cpu="1"))
    await cluster.settle()
    await cluster.add("pods", pod("plain", cpu="1"))
    await cluster.settle()
    assert sorted(cluster.nodes_of_pods().values()) == ["n1", "n1", "n2", "n2"]
    await cluster.add(GROUPS, pod_group("late", 1))
    await cluster.add("pods", member("l0", "late", cpu="1"))
    await cluster.add("pods", pod("later", cpu="1"))
    await cluster.settle()
    assert (cluster.nodes_of_pods()["l0"], cluster.nodes_of_pods()["later"]) == ("", "")
    await cluster.remove("pods", "g0")
    await cluster.settle()
    assert (cluster.nodes_of_pods()["l0"] != "") != (cluster.nodes_of_pods()["later"] != "")


@story
async def test_a_scheduler_that_knows_nothing_goes_on(cluster):
    await cluster.set_up(nodes=[node("n", cpu="3")])
    await cluster.start()
    await cluster.add(GROUPS, pod_group("gang", 2))
    for number in range(2):
        await cluster.add("pods", member(f"g{number}", "gang", cpu="1"))
    await cluster.settle()
    await cluster.stop()
    await cluster.add(GROUPS, pod_group("other", 2))
    for number in range(2):
        await cluster.add("pods", member(f"o{number}", "other", cpu="1"))
    await cluster.start()
    await cluster.settle()
    assert {name: on for name, on in cluster.nodes_of_pods().items() if on} == {"g0": "n", "g1": "n"}
    assert (phase(cluster, "gang"), phase(cluster, "other")) == ("Running", "Inqueue")
    revision = cluster.store.revision
    await cluster.settle(for_s=60)
    assert cluster.store.revision == revision, "nothing is written that says nothing new"


@story
async def test_a_broken_configuration_is_told_and_the_last_good_one_stays(cluster):
    await configure(cluster, "actions: allocate\n" + PROPORTION)
    await cluster.set_up(nodes=[node("n", cpu="3")])
    await cluster.start()
    await cluster.settle()
    key = Key("configmaps", "volcano-system", "volcano-scheduler-configmap")
    broken = cluster.get("configmaps", key.name, key.namespace)
    broken["data"]["volcano-scheduler.conf"] = "actions: dance\n"
    await cluster.plain.update(key, broken)
    await cluster.settle()
    told = [one["message"] for one in cluster.all("events") if one["involvedObject"]["kind"] == "ConfigMap"]
    assert len(told) == 1 and "dance" in told[0]
    assert cluster.scheduling.scheduler.cache.groups.configured.configuration.actions == ("allocate",)
    await cluster.add(GROUPS, pod_group("gang", 1))
    await cluster.add("pods", member("g0", "gang", cpu="1"))
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"g0": "n"}


@story
async def test_pods_say_why_they_wait(cluster):
    await cluster.set_up(nodes=[node("n", cpu="1")])
    await cluster.start()
    await cluster.add("pods", member("lost", "nowhere"))
    await cluster.add(GROUPS, pod_group("stray", 1, queue="gone"))
    await cluster.add("pods", member("s0", "stray"))
    await cluster.settle()
    assert "team/nowhere is not there" in cluster.message("lost", "PodScheduled", "pods")
    assert "queue gone is not there" in cluster.message("s0", "PodScheduled", "pods")
    await cluster.add(GROUPS, pod_group("nowhere", 1))
    await cluster.settle()
    assert cluster.nodes_of_pods()["lost"] == "n"


@story
async def test_what_no_node_lets_in_names_the_taint(cluster):
    await cluster.set_up(nodes=[node("n", cpu="8")])
    await cluster.taint("n", {"key": "team", "value": "red", "effect": "NoSchedule"})
    await cluster.start()
    await cluster.add(GROUPS, pod_group("gang", 2))
    for number in range(2):
        await cluster.add("pods", member(f"p{number}", "gang", cpu="1"))
    await cluster.settle()
    assert "team=red:NoSchedule" in cluster.message("p0", "PodScheduled", "pods")
    assert "team=red:NoSchedule" in cluster.message("gang", "Unschedulable", GROUPS)


@story
async def test_members_beyond_the_minimum_are_placed_one_by_one(cluster):
    await cluster.set_up(nodes=[node("n1", cpu="3")])
    await cluster.start()
    await cluster.add(GROUPS, pod_group("elastic", 2))
    for number in range(4):
        await cluster.add("pods", member(f"p{number}", "elastic", cpu="1"))
    await cluster.settle()
    assert sorted(cluster.nodes_of_pods().values()) == ["", "n1", "n1", "n1"]
    assert phase(cluster, "elastic") == "Running"
    (waits,) = [name for name, on in cluster.nodes_of_pods().items() if not on]
    assert cluster.conditions(waits, "pods")["PodScheduled"] == ("False", "Unschedulable")
    await cluster.add_node(node("n2", cpu="1"))
    await cluster.settle()
    assert cluster.nodes_of_pods()[waits] == "n2"
    await cluster.add("pods", member("p4", "elastic", cpu="1"))
    await cluster.settle()
    assert cluster.nodes_of_pods()["p4"] == ""


PROPORTION = "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: proportion}]\n"


async def configure(cluster: Cluster, text: str) -> None:
    await cluster.add("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}})
    metadata = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    data = {"volcano-scheduler.conf": text}
    await cluster.add("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


@story
async def test_a_pod_without_a_group_gets_one_of_its_own(cluster):
    await cluster.set_up(nodes=[node("n", cpu="3")])
    await cluster.start()
    alone = pod("alone", cpu="1")
    alone["spec"]["schedulerName"] = "volcano"
    made = await cluster.add("pods", alone)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "owner-uid", "controller": True}
    for number in range(2):
        of_many = pod(f"r-{number}", cpu="1")
        of_many["spec"]["schedulerName"] = "volcano"
        of_many["metadata"]["ownerReferences"] = [owner]
        await cluster.add("pods", of_many)
    await cluster.settle()
    groups = {one["metadata"]["name"]: one for one in cluster.all(GROUPS)}
    assert set(groups) == {f"podgroup-{made['metadata']['uid']}", "podgroup-owner-uid"}
    assert groups["podgroup-owner-uid"]["spec"] == {
        "minMember": 1,
        "queue": "default",
        "minResources": {"cpu": "1"},
        "priorityClassName": "",
    }
    assert set(cluster.nodes_of_pods().values()) == {"n"}
    assert {one["status"]["phase"] for one in groups.values()} == {"Running"}


def test_sessions_of_many_pods_keep_a_pace(monkeypatch):
    """Each looks at all pods, so that changes are gathered; nothing is lost by it."""
    monkeypatch.setattr(sessions, "MANY_PODS", 1)
    begun: list[float] = []
    run = sessions.run_until_settled
    monkeypatch.setattr(sessions, "run_until_settled", lambda one, names: (begun.append(one.now), run(one, names)))

    @story
    async def play(cluster):
        await cluster.set_up(nodes=[node("n", cpu="8")])
        await cluster.start()
        await cluster.add(GROUPS, pod_group("gang", 2))
        for number in range(6):
            await cluster.add("pods", member(f"p{number}", "gang", cpu="1"))
            await cluster.settle(for_s=0.3)
        await cluster.settle(for_s=3)
        assert set(cluster.nodes_of_pods().values()) == {"n"}
        assert phase(cluster, "gang") == "Running"

    play()
    assert min(after - before for before, after in pairwise(begun[3:])) >= sessions.PERIOD_S
