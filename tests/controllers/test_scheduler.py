"""Stories of the scheduler: objects are made, and what becomes of them is read from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from muster.store.records import Key
from tests.controllers.cluster import GPU, GROUP, WORKLOADS, Cluster, node, pod, queue, workload

WHEN = "2023-11-14T22:13:20Z"
BY_PRIORITY = {"withinClusterQueue": "LowerPriority"}


def story(play: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
    """A test that plays with a cluster."""

    def test() -> None:
        async def run() -> None:
            cluster = Cluster()
            try:
                await play(cluster)
            finally:
                await cluster.stop()

        asyncio.run(run())

    test.__doc__ = play.__doc__
    return test


@story
async def test_a_workload_made_by_hand_is_admitted(cluster):
    await cluster.set_up(queue("q", {"cpu": "4"}), nodes=[node("n")])
    await cluster.start()
    await cluster.add(WORKLOADS, workload("w", "q", 2))
    await cluster.settle()
    assert cluster.conditions("w") == {
        "QuotaReserved": ("True", "QuotaReserved"),
        "Admitted": ("True", "Admitted"),
        "muster.dev/Slots": ("True", "Placed"),
    }
    status = cluster.get(WORKLOADS, "w")["status"]
    assert status["admission"]["clusterQueue"] == "q"
    assert status["admission"]["podSetAssignments"][0]["resourceUsage"] == {"cpu": "2"}
    assert cluster.message("w", "muster.dev/Slots") == '{"main":[["n",[],2]]}'


@story
async def test_two_teams_contend_and_the_second_waits_until_the_first_leaves(cluster):
    queues = [queue(name, {"cpu": "2"}, cohort="all") for name in ("a", "b")]
    await cluster.set_up(*queues, nodes=[node("n", cpu="16")])
    await cluster.start()
    await cluster.add(WORKLOADS, workload("a1", "a", 3))
    await cluster.settle()
    await cluster.add(WORKLOADS, workload("b1", "b", 2))
    await cluster.settle()
    assert (cluster.is_admitted("a1"), cluster.is_admitted("b1")) == (True, False)
    assert cluster.conditions("b1")["QuotaReserved"] == ("False", "WaitingForQuota")
    assert "1 free" in cluster.message("b1", "QuotaReserved")
    done = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": WHEN}
    conditions = cluster.get(WORKLOADS, "a1")["status"]["conditions"]
    await cluster.set_status(WORKLOADS, "a1", {"conditions": [*conditions, done]})
    await cluster.settle()
    assert cluster.is_admitted("b1")


@story
async def test_a_workload_is_preempted_and_comes_back(cluster):
    await cluster.set_up(queue("q", {"cpu": "2"}, preemption=BY_PRIORITY), nodes=[node("n")])
    await cluster.start()
    await cluster.add(WORKLOADS, workload("low", "q", 2))
    await cluster.settle()
    await cluster.add(WORKLOADS, workload("high", "q", 2, priority=5))
    await cluster.settle()
    assert cluster.conditions("low")["Evicted"] == ("True", "Preempted")
    assert not cluster.is_admitted("high"), "the place is taken until the other has left"
    await cluster.let_go("low")
    await cluster.settle()
    assert (cluster.is_admitted("low"), cluster.is_admitted("high")) == (False, True)
    await cluster.remove(WORKLOADS, "high")
    await cluster.settle()
    assert cluster.is_admitted("low")
    assert cluster.conditions("low")["Evicted"] == ("False", "QuotaReserved")


@story
async def test_the_pods_of_a_gang_go_where_it_was_decided(cluster):
    await cluster.set_up(queue("q", {GPU: "8"}), nodes=[node("n1", gpus=4), node("n2", gpus=4)])
    await cluster.start()
    await cluster.add(WORKLOADS, workload("gang", "q", 4, gpu="2"))
    await cluster.settle()
    for number in range(4):
        await cluster.add("pods", pod(f"p{number}", "gang", gpu="2"))
    await cluster.settle()
    assert sorted(cluster.nodes_of_pods().values()) == ["n1", "n1", "n2", "n2"]
    assert {one["reason"] for one in cluster.all("events")} >= {"QuotaReserved", "Admitted", "Scheduled"}
    state = cluster.scheduling.scheduler.cache.state
    assert not state.places.slots.foreign, "each pod is charged once, through its workload"


@story
async def test_a_gang_starts_as_a_whole_or_not_at_all(cluster):
    await cluster.set_up(queue("q", {GPU: "99"}), nodes=[node("n1", gpus=4)])
    await cluster.start()
    await cluster.add(WORKLOADS, workload("gang", "q", 3, gpu="2"))
    await cluster.settle()
    assert cluster.conditions("gang")["QuotaReserved"] == ("False", "WaitingForNodes")
    await cluster.add_node(node("n2", gpus=2))
    await cluster.settle()
    assert cluster.is_admitted("gang")


@story
async def test_a_gang_that_is_not_bound_in_time_gives_everything_back(cluster):
    await cluster.set_up(queue("q", {GPU: "8"}), nodes=[node("n1", gpus=4)])
    await cluster.start()
    await cluster.add(WORKLOADS, workload("gang", "q", 2, gpu="2"))
    await cluster.settle()
    await cluster.add("pods", pod("p0", "gang", gpu="2"))
    await cluster.settle(299)
    assert "Evicted" not in cluster.conditions("gang")
    await cluster.settle(2)
    assert cluster.conditions("gang")["Evicted"] == ("True", "GangDeadline")


@story
async def test_a_pod_without_a_queue_is_bound_or_told_why_not(cluster):
    await cluster.set_up(nodes=[node("n", gpus=2)])
    await cluster.start()
    await cluster.add("pods", pod("a", gpu="2"))
    await cluster.settle()
    await cluster.add("pods", pod("b", gpu="1"))
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"a": "n", "b": ""}
    assert cluster.conditions("b", "pods")["PodScheduled"] == ("False", "Unschedulable")
    text = f"0/1 nodes are available: 1 Insufficient {GPU}."
    assert cluster.message("b", "PodScheduled", "pods") == text
    await cluster.remove("pods", "a")
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"b": "n"}


@story
async def test_pods_and_workloads_share_the_cards_of_a_node(cluster):
    await cluster.set_up(queue("q", {GPU: "8"}), nodes=[node("n", gpus=4)])
    await cluster.start()
    await cluster.add("pods", pod("alone", gpu="1"))
    await cluster.settle()
    await cluster.add(WORKLOADS, workload("big", "q", 1, gpu="4"))
    await cluster.add(WORKLOADS, workload("fits", "q", 1, gpu="3"))
    await cluster.settle()
    assert (cluster.is_admitted("big"), cluster.is_admitted("fits")) == (False, True)


@story
async def test_a_pod_that_fails_leaves_its_slot_to_the_one_that_comes_for_it(cluster):
    await cluster.set_up(queue("q", {GPU: "4"}), nodes=[node("n", gpus=4)])
    await cluster.start()
    await cluster.add(WORKLOADS, workload("w", "q", 1, gpu="4"))
    await cluster.add("pods", pod("p1", "w", gpu="4"))
    await cluster.settle()
    await cluster.add("pods", pod("p2", "w", gpu="4"))
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"p1": "n", "p2": ""}
    assert cluster.message("p2", "PodScheduled", "pods") == "its workload has no slot left for it"
    await cluster.set_status("pods", "p1", {"phase": "Failed"})
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"p1": "n", "p2": "n"}


@story
async def test_a_workload_of_an_unknown_queue_is_told_so(cluster):
    await cluster.set_up(nodes=[node("n")])
    await cluster.start()
    await cluster.add(WORKLOADS, workload("w", "nowhere"))
    await cluster.settle()
    assert cluster.conditions("w")["QuotaReserved"][0] == "False"
    assert "does not exist" in cluster.message("w", "QuotaReserved")


@story
async def test_checks_are_opened_with_the_quota_and_admit_when_all_are_ready(cluster):
    check = {"apiVersion": f"{GROUP}/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "c"}}
    await cluster.set_up(
        queue("q", {"cpu": "4"}, admissionChecksStrategy={"admissionChecks": [{"name": "c"}]}), nodes=[node("n")]
    )
    await cluster.start()
    await cluster.add(f"admissionchecks.{GROUP}", {**check, "spec": {"controllerName": "example.com/c"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": WHEN}
    await cluster.set_status(f"admissionchecks.{GROUP}", "c", {"conditions": [active]}, "")
    await cluster.add(WORKLOADS, workload("w", "q"))
    await cluster.settle()
    assert cluster.conditions("w")["QuotaReserved"][0] == "True" and not cluster.is_admitted("w")
    opened = cluster.get(WORKLOADS, "w")["status"]["admissionChecks"]
    assert [(one["name"], one["state"]) for one in opened] == [("c", "Pending")]
    await cluster.set_status(WORKLOADS, "w", {"admissionChecks": [{**opened[0], "state": "Ready"}]})
    await cluster.settle()
    assert cluster.is_admitted("w")


@story
async def test_queues_tell_what_is_in_them(cluster):
    await cluster.set_up(queue("q", {"cpu": "4"}), nodes=[node("n")])
    await cluster.start()
    for number in range(3):
        await cluster.add(WORKLOADS, workload(f"w{number}", "q", 2))
    await cluster.settle()
    for resource, namespace in ((f"clusterqueues.{GROUP}", ""), (f"localqueues.{GROUP}", "team")):
        status = cluster.get(resource, "q", namespace)["status"]
        numbers = [status[f"{name}Workloads"] for name in ("pending", "reserving", "admitted")]
        assert numbers == [1, 2, 2]
        assert status["flavorsUsage"][0]["resources"][0]["total"] == "4"
        assert status["conditions"][0]["type"] == "Active" and status["conditions"][0]["status"] == "True"


@story
async def test_a_pod_of_higher_priority_takes_the_place_of_others(cluster):
    await cluster.set_up(nodes=[node("n", cpu="2")])
    await cluster.start()
    for name in ("low1", "low2"):
        await cluster.add("pods", pod(name, cpu="1"))
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"low1": "n", "low2": "n"}
    await cluster.add("pods", pod("high", priority=9, cpu="1"))
    await cluster.settle()
    left = [one["metadata"]["name"] for one in cluster.all("pods") if not one["metadata"].get("deletionTimestamp")]
    assert len(left) == 2 and "high" in left
    gone = next(name for name in ("low1", "low2") if name not in left)
    assert cluster.nodes_of_pods()["high"] == "", "it waits until the other has gone"
    await cluster.remove("pods", gone)
    await cluster.settle()
    assert cluster.nodes_of_pods()["high"] == "n"


@story
async def test_a_workload_for_which_nobody_makes_pods_keeps_its_quota(cluster):
    await cluster.set_up(queue("q", {"cpu": "4"}), nodes=[node("n")])
    await cluster.start()
    await cluster.add(WORKLOADS, workload("w", "q", 2))
    await cluster.settle(1000)
    assert cluster.is_admitted("w") and "Evicted" not in cluster.conditions("w")


@story
async def test_what_cannot_be_written_is_left_out_until_it_changes(cluster):
    await cluster.set_up(queue("q", {"cpu": "9"}), nodes=[node("n")])
    await cluster.add(WORKLOADS, workload("w", "q", 2))
    conditions = [
        {"type": f"example.com/{number}", "status": "True", "reason": "R", "message": "", "lastTransitionTime": WHEN}
        for number in range(15)
    ]
    await cluster.set_status(WORKLOADS, "w", {"conditions": conditions})
    await cluster.start()
    await cluster.add(WORKLOADS, workload("other", "q", 2))
    await cluster.settle(10)
    assert not cluster.is_admitted("w") and cluster.is_admitted("other")
    await cluster.set_status(WORKLOADS, "w", {"conditions": []})
    await cluster.settle()
    assert cluster.is_admitted("w")


@story
async def test_what_changes_while_it_is_thought_about_is_decided_on_anew(cluster):
    await cluster.set_up(queue("q", {"cpu": "9"}), nodes=[node("n")])
    await cluster.start()
    await cluster.settle()
    changed = []

    async def think(work):
        decided = work()
        if not changed and "team/w" in decided.decisions:
            changed.append(cluster.get(WORKLOADS, "w"))
            obj = cluster.get(WORKLOADS, "w")
            obj["spec"]["active"] = False
            await cluster.plain.update(Key(WORKLOADS, "team", "w"), obj)
            for _ in range(20):
                await asyncio.sleep(0)
        return decided

    cluster.scheduling.scheduler.think = think
    await cluster.add(WORKLOADS, workload("w", "q", 2))
    await cluster.settle()
    assert changed and not cluster.is_admitted("w")
    assert cluster.conditions("w")["QuotaReserved"] == ("False", "Suspended")
