"""Objects whose pods or jobs wait in their stead, and pods that wait together, with the real scheduler and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from muster.model.errors import InvalidObject
from muster.sim.world import World
from muster.store.kinds import Object, Propagation
from muster.store.objects import Part
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.stories.job_kinds import template
from tests.stories.test_job_kinds import QUEUE, QUEUES, WORKLOADS, a_world, urgent_job
from tests.support import assert_sound, is_full_proof

GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
FAST, ROLE = "kueue.x-k8s.io/pod-group-fast-admission", "kueue.x-k8s.io/role-hash"
GATE = [{"name": "kueue.x-k8s.io/admission"}]
SELECTOR = {"matchLabels": {"app": "train"}}


@pytest.fixture
def world() -> Iterator[World]:
    made = a_world()
    yield made
    made.close()


def an_object(kind: str, spec: Any, api: str = "apps/v1", **metadata: Any) -> Object:
    named = {"name": "serve", "namespace": "default", "labels": {QUEUE: "main"}, **metadata}
    return {"apiVersion": api, "kind": kind, "metadata": named, "spec": spec}


def a_pod(name: str, cpu: str = "1", *, total: int = 2, **annotations: str) -> Object:
    spec = template(restartPolicy="Never")["spec"]
    spec["containers"][0]["resources"]["requests"]["cpu"] = cpu
    more = {key.replace("_", "-"): value for key, value in annotations.items()}
    given = {GROUP: "team", TOTAL: str(total), **{f"kueue.x-k8s.io/{key}": value for key, value in more.items()}}
    return an_object("Pod", spec, "v1", name=name, annotations=given)


def open_queue(world: World) -> None:
    world.change(Key(QUEUES, "", "main"), lambda one: {**one, "spec": {**one["spec"], "stopPolicy": "None"}})
    world.run(2)


def waiting(world: World) -> list[str]:
    """The pods that are held back."""
    return [one["metadata"]["name"] for one in world.all("pods") if one["spec"].get("schedulingGates") == GATE]


def condition(workload: Object, name: str) -> tuple[str, str]:
    conditions = workload.get("status", {}).get("conditions", ())
    return next(((one["status"], one["message"]) for one in conditions if one["type"] == name), ("", ""))


def served(world: World) -> list[Object]:
    """The pods that are not the urgent job's."""
    return [one for one in world.all("pods") if "job-name" not in one["metadata"]["labels"]]


# What carries its queue ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_each_pod_waits_for_itself(world, kind):
    world.create(an_object(kind, {"replicas": 3, "selector": SELECTOR, "template": template()}))
    world.run(2)
    assert len(waiting(world)) == 3 and len(world.all(WORKLOADS)) == 3
    open_queue(world)
    assert not waiting(world)
    assert all(one["spec"]["nodeSelector"] == {"instance": "spot"} for one in world.all("pods"))
    world.create(urgent_job())
    world.run_until(lambda: world.get("jobs.batch", "urgent", "default")["status"].get("succeeded") == 4)
    world.run_until(lambda: len(served(world)) == 3 and not waiting(world), within_s=120)
    world.delete(Key(f"{kind.lower()}s.apps", "default", "serve"), Deletion(propagation=Propagation.BACKGROUND))
    world.run(120)
    assert not served(world)
    owners = [owner["kind"] for one in world.all(WORKLOADS) for owner in one["metadata"]["ownerReferences"]]
    assert owners == ["Job"], "only the urgent job's is left"


def test_a_deployment_without_a_queue_is_let_be(world):
    world.create(an_object("Deployment", {"replicas": 2, "selector": SELECTOR, "template": template()}, labels={}))
    world.run(2)
    assert len(world.all("pods")) == 2 and not waiting(world) and not world.all(WORKLOADS)


def test_the_pods_of_a_stateful_set_wait_together_and_come_back_together(world):
    spec = {"replicas": 3, "serviceName": "serve", "selector": SELECTOR, "template": template()}
    world.create(an_object("StatefulSet", spec))
    world.run(2)
    (workload,) = world.all(WORKLOADS)
    assert workload["spec"]["podSets"][0]["count"] == 3, "the first pod stands for all"
    assert workload["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    assert waiting(world) == ["serve-0"]
    open_queue(world)
    world.run_until(lambda: len(world.all("pods")) == 3 and not waiting(world), within_s=60)
    world.run_until(lambda: condition(world.all(WORKLOADS)[0], "PodsReady")[0] == "True", within_s=60)
    world.create(urgent_job())
    world.run_until(lambda: world.get("jobs.batch", "urgent", "default")["status"].get("succeeded") == 4)
    world.run_until(lambda: len(served(world)) == 3 and not waiting(world), within_s=200)
    uids = {one["metadata"]["uid"] for one in world.all(WORKLOADS)}
    assert workload["metadata"]["uid"] in uids, "it waited again as what it was"
    world.delete(Key("statefulsets.apps", "default", "serve"), Deletion(propagation=Propagation.BACKGROUND))
    world.run(200)
    assert not served(world) and len(world.all(WORKLOADS)) == 1


def test_the_jobs_of_a_cron_job_wait(world):
    inner = {"spec": {"template": template(restartPolicy="Never")}}
    world.create(an_object("CronJob", {"schedule": "* * * * *", "jobTemplate": inner}, "batch/v1"))
    world.run(70)
    (job,) = world.all("jobs.batch")
    assert job["spec"]["suspend"] is True and job["metadata"]["labels"][QUEUE] == "main"
    open_queue(world)
    assert world.get("jobs.batch", job["metadata"]["name"], "default")["spec"]["suspend"] is False


def test_replicas_of_a_leader_and_its_workers_wait_each_as_one():
    world = a_world("leaderworkersets.leaderworkerset.x-k8s.io")
    try:
        inner = {"size": 2, "leaderTemplate": template(), "workerTemplate": template()}
        spec = {"replicas": 2, "leaderWorkerTemplate": inner}
        made = world.create(an_object("LeaderWorkerSet", spec, "leaderworkerset.x-k8s.io/v1"))
        found = made["spec"]["leaderWorkerTemplate"]
        for number in range(2):
            labels = {"apps.kubernetes.io/pod-index": str(number)}
            _make(world, found["leaderTemplate"], f"serve-{number}", labels)
            labels = {"leaderworkerset.sigs.k8s.io/group-index": str(number), "apps.kubernetes.io/pod-index": "1"}
            _make(world, found["workerTemplate"], f"serve-{number}-1", labels)
        world.run(1)
        sets = [[(s["name"], s["count"]) for s in one["spec"]["podSets"]] for one in world.all(WORKLOADS)]
        assert sets == [[("leader", 1), ("worker", 1)]] * 2
        assert len(waiting(world)) == 4
        open_queue(world)
        assert not waiting(world)
        spec["startupPolicy"] = "LeaderReady"
        with pytest.raises(InvalidObject, match=r"spec\.startupPolicy"):
            world.create(an_object("LeaderWorkerSet", spec, "leaderworkerset.x-k8s.io/v1", name="other"))
    finally:
        world.close()


def test_the_tasks_of_a_volcano_job_wait_together():
    world = a_world("jobs.batch.volcano.sh")
    try:
        tasks = [
            {"name": name, "replicas": count, "template": template()} for name, count in (("ps", 1), ("worker", 2))
        ]
        made = world.create(an_object("Job", {"minAvailable": 3, "tasks": tasks}, "batch.volcano.sh/v1alpha1"))
        for task in made["spec"]["tasks"]:
            for number in range(task["replicas"]):
                _make(world, task["template"], f"serve-{task['name']}-{number}", {})
        world.run(1)
        (workload,) = world.all(WORKLOADS)
        assert [(one["name"], one["count"]) for one in workload["spec"]["podSets"]] == [("ps", 1), ("worker", 2)]
        open_queue(world)
        assert not waiting(world)
        world.run_until(lambda: condition(world.all(WORKLOADS)[0], "Finished")[0] == "True", within_s=120)
        assert condition(world.all(WORKLOADS)[0], "Finished")[1] == "Pods succeeded: 3/3."
        tasks[1]["dependsOn"] = {"name": ["ps"]}
        with pytest.raises(InvalidObject, match=r"spec\.tasks\[1\]\.dependsOn"):
            world.create(an_object("Job", {"tasks": tasks}, "batch.volcano.sh/v1alpha1", name="other"))
    finally:
        world.close()


def _make(world: World, given: Object, name: str, labels: dict[str, str]) -> None:
    """Make a pod of a template, as the operator of its kind does."""
    metadata = given["metadata"]
    named = {"name": name, "labels": {**metadata["labels"], **labels}, "annotations": metadata["annotations"]}
    world.create(an_object("Pod", {**given["spec"], "restartPolicy": "Never"}, "v1", **named))


# Groups -------------------------------------------------------------------------------------------------------------


def test_a_group_waits_for_its_last_pod_and_runs_to_its_end(world):
    open_queue(world)
    world.create(a_pod("one"))
    world.run(1)
    assert not world.all(WORKLOADS) and waiting(world) == ["one"]
    world.create(a_pod("two", cpu="500m"))
    world.run(1)
    (workload,) = world.all(WORKLOADS)
    assert workload["metadata"]["name"] == "team" and len(workload["spec"]["podSets"]) == 2, "a role for each shape"
    assert not waiting(world)
    world.run_until(lambda: condition(world.all(WORKLOADS)[0], "Finished")[0] == "True", within_s=120)
    assert condition(world.all(WORKLOADS)[0], "Finished")[1] == "Pods succeeded: 2/2."
    assert not any(one["metadata"].get("finalizers") for one in world.all("pods"))


def test_one_pod_too_many_goes(world):
    for name in ("one", "two", "three"):
        world.create(a_pod(name))
        world.run(1)
    assert sorted(one["metadata"]["name"] for one in world.all("pods")) == ["one", "two"]


def test_the_first_pod_stands_for_all_where_they_say_so(world):
    world.create(a_pod("one", total=3, pod_group_fast_admission="true"))
    open_queue(world)
    (workload,) = world.all(WORKLOADS)
    assert workload["spec"]["podSets"][0]["count"] == 3 and not waiting(world)
    world.create(a_pod("two", total=3, pod_group_fast_admission="true"))
    world.run(1)
    assert not waiting(world), "one that comes later starts at once"


def test_an_evicted_group_goes_and_another_takes_its_place(world):
    open_queue(world)
    for name in ("one", "two"):
        world.create(a_pod(name))
    world.run(1)
    world.create(urgent_job())
    world.run_until(lambda: world.get("jobs.batch", "urgent", "default")["status"].get("succeeded") == 4)
    assert not served(world), "nobody makes them anew"
    world.run(30)
    for name in ("one", "two"):
        world.create(a_pod(name))
    world.run_until(lambda: len(served(world)) == 2 and not waiting(world), within_s=60)


def test_a_pod_that_failed_is_replaced(world):
    open_queue(world)
    for name in ("one", "two"):
        world.create(a_pod(name))
    world.run(1)
    world.stop("nodes")
    world.change(Key("pods", "default", "one"), lambda one: {**one, "status": {"phase": "Failed"}}, Part.STATUS)
    world.create(a_pod("three"))
    world.run(1)
    assert len(world.all("pods")) == 3 and not waiting(world)


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({GROUP: "team"}, r"pod-group-total-count\]", id="no size"),
        pytest.param({TOTAL: "2"}, r"pod-group-name\]", id="no name"),
        pytest.param({GROUP: "team", TOTAL: "none"}, r"pod-group-total-count\]", id="no number"),
        pytest.param({GROUP: "Team_1", TOTAL: "2"}, r"pod-group-name\]", id="no name of an object"),
    ],
)
def test_half_a_group_is_refused(world, annotations, want):
    pod = a_pod("one")
    pod["metadata"]["annotations"] = annotations
    with pytest.raises(InvalidObject, match=want):
        world.create(pod)


def test_pods_that_contradict_each_other_wait_and_say_so(world):
    open_queue(world)
    world.create(a_pod("one", total=2))
    world.create(a_pod("two", total=3))
    world.run(1)
    assert not world.all(WORKLOADS)
    assert any("another size or queue of the group team" in one["message"] for one in world.all("events"))


# A controller that dies ---------------------------------------------------------------------------------------------

RUNS = 200


def _one_run(chance: Random) -> None:
    """A group that is evicted, or a set that comes back, while whoever controls jobs is away now and then."""
    world = a_world()
    try:
        open_queue(world)
        has_maker = chance.random() < 0.5
        if has_maker:
            spec = {"replicas": 2, "serviceName": "serve", "selector": SELECTOR, "template": template()}
            world.create(an_object("StatefulSet", spec))
        else:
            for name in ("one", "two"):
                world.create(a_pod(name))
        world.run(chance.uniform(0, 3))
        world.create(urgent_job())
        for _ in range(chance.randrange(1, 6)):
            world.stop("jobs")
            world.run(chance.uniform(0, 4))
            world.start("jobs")
            world.run(chance.uniform(0, 2))
        world.run_until(lambda: world.get("jobs.batch", "urgent", "default")["status"].get("succeeded") == 4)
        world.run(120)
        _assert_settled(world, has_maker=has_maker)
    finally:
        world.close()


def _assert_settled(world: World, *, has_maker: bool) -> None:
    assert not waiting(world), "there is room for all"
    groups = [one for one in world.all(WORKLOADS) if one["metadata"]["name"] != urgent_workload(world)]
    if has_maker:
        (workload,) = groups
        assert condition(workload, "Admitted")[0] == "True" and len(served(world)) == 2
    for one in groups:
        assert condition(one, "Admitted")[0] != "True" or condition(one, "Evicted")[0] != "True"
        is_over = condition(one, "Finished")[0] == "True"
        assert served(world) or is_over, "nothing is held for pods that are not there"


def urgent_workload(world: World) -> str:
    owned = (one for one in world.all(WORKLOADS) if one["metadata"]["ownerReferences"][0]["name"] == "urgent")
    return next((one["metadata"]["name"] for one in owned), "")


@pytest.mark.prove
def test_a_controller_that_dies_loses_no_group():
    assert_sound(_one_run, range(RUNS if is_full_proof() else 4))
