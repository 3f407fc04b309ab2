"""YuniKorn's part of a plan: what is taken from documents, what is said of mistakes, and that nothing is sold twice."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
import yaml

from muster.app.plan import Admitted, Evicted, PlanOptions, PlanReport, plan_objects
from muster.dialects.yunikorn.amounts import parse_amounts
from muster.model.documents import Document, parse_documents
from tests.app.test_plan import QUEUES
from tests.stopwatch import is_done_within
from tests.support import assert_sound, proof_count, shared

NOW = 1_767_254_400.0


def pod(name: str, *, cpu: object = 1, labels: dict[str, str] | None = None, **parts: Any) -> dict[str, Any]:
    """A pod of YuniKorn's; `queue`, `app`, `user`, `node` and `scheduler` are as given."""
    named = {"applicationId": parts.get("app", name), "queue": parts.get("queue", "root.a"), **(labels or {})}
    annotations = {"yunikorn.apache.org/user.info": f'{{"user": "{parts["user"]}"}}'} if "user" in parts else {}
    spec: dict[str, Any] = {
        "schedulerName": parts.get("scheduler", "yunikorn"),
        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
    }
    if "node" in parts:
        spec["nodeName"] = parts["node"]
    metadata = {"name": name, "labels": named, "annotations": annotations, **parts.get("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str, cpu: int = 8) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": 110}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def config(*queues: dict[str, Any], **root: Any) -> dict[str, Any]:
    return {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": list(queues), **root}]}]}


def config_map(value: object, name: str = "yunikorn-configs", key: str = "queues.yaml", **data: str) -> dict[str, Any]:
    text = value if isinstance(value, str) else yaml.safe_dump(value)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: text, **data}}


def planned(*objects: dict[str, Any]) -> PlanReport:
    return plan_objects(
        [Document(one, f"{number}.yaml", 1) for number, one in enumerate(objects)], PlanOptions(now=NOW)
    )


def admitted(report: PlanReport) -> dict[str, str]:
    """By pod, the queue that it got its quota in."""
    return {step.workload: step.queue for step in report.steps if isinstance(step, Admitted)}


# Where queues come from ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param([], "root.named", id="none: the queue that the pod names"),
        pytest.param([config({"name": "default"})], "root.default", id="a file"),
        pytest.param([config_map(config({"name": "default"}))], "root.default", id="a ConfigMap"),
        pytest.param(
            [config_map(config({"name": "default"}), key="mine.yaml", **{"service.policyGroup": "mine"})],
            "root.default",
            id="under another key",
        ),
        pytest.param(
            [
                config_map(config({"name": "named"}), name="yunikorn-defaults"),
                config_map(config({"name": "default"})),
            ],
            "root.default",
            id="the settings go before the defaults",
        ),
        pytest.param(
            [config_map(config({"name": "named"})), config({"name": "default"})],
            "root.default",
            id="a file goes before what the cluster has",
        ),
    ],
)
def test_configurations(given: list[dict[str, Any]], want: str) -> None:
    assert admitted(planned(*given, pod("p", queue="root.named"))) == {"default/pod/p": want}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        pytest.param(config({"name": "a b"}), "partitions[0].queues[0].queues[0].name", id="in a file"),
        pytest.param(
            config_map(config({"name": "a b"})),
            "data.queues.yaml: partitions[0].queues[0].queues[0].name",
            id="in a ConfigMap",
        ),
        pytest.param(config_map("{"), "data.queues.yaml, line 2, column 1", id="that is no YAML"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_place(given: dict[str, Any], path: str) -> None:
    report = planned(given, pod("p"))
    assert [one.path for one in report.refused] == [path]


def test_other_config_maps_have_no_part() -> None:
    assert planned(config_map("{", name="other")).passed_over == {"ConfigMap": 1}


def test_the_manifest_that_users_have() -> None:
    text = (shared("manifests") / "yunikorn-pod.yaml").read_bytes()
    report = plan_objects(parse_documents(text, "yunikorn-pod.yaml"), PlanOptions(now=NOW))
    assert admitted(report) == {"default/pod/my-app-pod-1": "root.my-queue"}


# Which pods are YuniKorn's -------------------------------------------------------------------------------------------


def test_pods_of_other_schedulers_are_not() -> None:
    report = planned(node("n"), pod("p", scheduler="default-scheduler"))
    assert list(admitted(report).values()) == ["(no queue)"]


def test_an_object_that_names_a_queue_of_kueue_is_kueues() -> None:
    report = planned(pod("p", labels={"kueue.x-k8s.io/queue-name": "jobs"}))
    assert [one.verdict.code.value for one in report.waiting] == ["QueueMissing"]


def job(name: str, pods: int, **spec: Any) -> dict[str, Any]:
    template = pod(name)
    del template["apiVersion"], template["kind"]
    template["metadata"].pop("name")
    template["spec"]["restartPolicy"] = "Never"
    body = {"parallelism": pods, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def test_the_pods_of_a_job_and_those_of_them_that_run_are_counted_once() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    running = pod("j-running", node="n", metadata={"ownerReferences": [owner]})
    report = planned(node("n"), job("j", 3), running)
    assert len(admitted(report)) == 2
    assert report.held_before == ("default/pod/j-running",)


def test_a_suspended_job_and_one_that_ended_are_left_out() -> None:
    ended = {**pod("p"), "status": {"phase": "Succeeded"}}
    report = planned(job("j", 3, suspend=True), ended)
    assert {one.object: one.why for one in report.not_managed} == {
        "Job default/j": "is suspended",
        "Pod default/p": "has ended",
    }


def test_of_a_job_of_very_many_pods_the_first_ones_are_decided_on() -> None:
    report = planned(config({"name": "a", "resources": {"max": {"vcore": 1}}}), job("j", 100_000))
    assert [one.why for one in report.not_managed] == ["has 100000 pods, of which the first 5000 are decided on"]


def test_many_pods_in_many_queues_take_little() -> None:
    queues = config(*({"name": f"q{number}", "resources": {"max": {"vcore": 2}}} for number in range(200)))
    pods = [pod(f"p{number}", queue=f"root.q{number % 200}", app=f"a{number}") for number in range(800)]
    assert is_done_within(12.0, lambda: planned(queues, *pods))


# Whose place, and which ----------------------------------------------------------------------------------------------


def class_of(name: str, value: int, **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {f"yunikorn.apache.org/{key}": text for key, text in annotations.items()}}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


def of_class(given: dict[str, Any], name: str) -> dict[str, Any]:
    given["spec"]["priorityClassName"] = name
    return given


@pytest.mark.parametrize(
    ("classes", "marked", "want"),
    [
        pytest.param({}, {}, "old", id="the latest of equals"),
        pytest.param(
            {"kept": {"allow-preemption": "false"}}, {"old": "kept"}, "young", id="a marked class leaves last"
        ),
        pytest.param({"kept": {"allow-preemption": "true"}}, {"old": "kept"}, "old", id="a class that says yes"),
        pytest.param(
            {"kept": {"allow-preemption": "false"}}, {"old": "kept", "young": "kept"}, "old", id="all are marked"
        ),
    ],
)
def test_who_is_marked_leaves_last(classes, marked, want):
    queues = ({"name": "a", "resources": {"guaranteed": {"vcore": 4}}}, {"name": "b"})
    times = {"young": "2026-01-01T00:00:00Z", "old": "2026-01-01T01:00:00Z"}
    running = [
        pod(name, cpu=4, queue="root.b", node="n", metadata={"creationTimestamp": at, "namespace": "default"})
        for name, at in times.items()
    ]
    running = [of_class(one, marked.get(one["metadata"]["name"], "")) for one in running]
    made = [class_of(name, 0, **annotations) for name, annotations in classes.items()]
    report = planned(config(*queues, submitacl="*"), node("n"), *made, *running, pod("new", cpu=4))
    assert [step.workload for step in report.steps if isinstance(step, Evicted)] == [f"default/pod/{want}"]


@pytest.mark.parametrize(
    ("own", "theirs", "is_taken"),
    [
        pytest.param({}, {}, False, id="the running one is more important"),
        pytest.param({"priority.offset": "100"}, {}, True, id="the queue of the new one adds to it"),
        pytest.param({}, {"priority.offset": "-100"}, True, id="the queue of the running one takes from it"),
        pytest.param({}, {"priority.policy": "fence"}, True, id="a fence makes all in it the same"),
        pytest.param({}, {"priority.policy": "fence", "priority.offset": "9"}, False, id="and as important as it says"),
        pytest.param({"priority.policy": "fence", "priority.offset": "9"}, {}, False, id="the new one behind a fence"),
    ],
)
def test_queues_have_a_say_in_who_is_more_important(own, theirs, is_taken):
    queues = (
        {"name": "a", "properties": own, "resources": {"guaranteed": {"vcore": 4}}},
        {"name": "b", "properties": theirs},
    )
    running = of_class(pod("running", cpu=8, queue="root.b", node="n"), "ten")
    report = planned(config(*queues, submitacl="*"), node("n"), class_of("ten", 10), running, pod("new", cpu=4))
    assert any(isinstance(step, Evicted) for step in report.steps) is is_taken


@pytest.mark.parametrize(
    ("sort", "want"),
    [
        pytest.param({"type": "fair"}, "empty", id="where the least is used"),
        pytest.param({"type": "binpacking"}, "half", id="where the most is used"),
        pytest.param(
            {"type": "binpacking", "resourceweights": {"memory": 1.0}}, "empty", id="of memory, which nobody uses"
        ),
        pytest.param({"type": "fair", "resourceweights": {"vcore": 2.0}}, "empty", id="of cores"),
    ],
)
def test_which_nodes_are_filled(sort, want):
    given = config({"name": "a"}, submitacl="*")
    given["partitions"][0]["nodesortpolicy"] = sort
    nodes = [node("empty"), node("half")]
    running = pod("running", cpu=4, node="half", scheduler="default-scheduler")
    report = planned(given, *nodes, running, pod("new", cpu=1))
    [step] = [step for step in report.steps if isinstance(step, Admitted)]
    assert [slot.node for slot in step.pod_sets[0].slots] == [want]


# Nothing is sold twice -----------------------------------------------------------------------------------------------


def random_tree(random: Random, depth: int = 0) -> list[dict[str, Any]]:
    queues = []
    for number in range(random.randint(1, 3)):
        queue: dict[str, Any] = {"name": f"q{number}"}
        if depth < 2 and random.random() < 0.4:
            queue["queues"] = random_tree(random, depth + 1)
        if random.random() < 0.5:
            queue.setdefault("resources", {})["max"] = {"vcore": random.randint(6, 12)}
        if random.random() < 0.5 and depth == 2:
            queue.setdefault("resources", {})["guaranteed"] = {"vcore": 1}
        if random.random() < 0.3:
            most = random.randint(1, 4)
            queue["limits"] = [{"users": ["ann"], "maxresources": {"vcore": most}}]
        if random.random() < 0.3:
            queue["properties"] = {"application.sort.policy": random.choice(("fair", "fifo"))}
        queues.append(queue)
    return queues


def paths_of(queues: list[dict[str, Any]], above: str = "root") -> dict[str, dict[str, Any]]:
    found = {}
    for queue in queues:
        path = f"{above}.{queue['name']}"
        found[path] = queue
        found.update(paths_of(queue.get("queues", []), path))
    return found


def others_of(random: Random) -> list[dict[str, Any]]:
    """A queue of Kueue's with a job, and plain pods, on the same nodes."""
    kueue = [dict(one.value) for one in parse_documents(QUEUES, "kueue.yaml")]
    gang = job("of-kueue", random.randint(1, 4))
    gang["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "jobs"}
    count = random.randint(0, 2)
    plain = [pod(f"plain{number}", cpu=random.randint(1, 3), scheduler="default-scheduler") for number in range(count)]
    return [*kueue, gang, *plain] if random.random() < 0.5 else plain


def cpu_of(objects: list[dict[str, Any]], name: str) -> int:
    """What one pod of a job, or a pod, asks for."""
    (found,) = (one for one in objects if one["metadata"]["name"] == name and "spec" in one)
    spec = found["spec"].get("template", found)["spec"]
    return int(spec["containers"][0]["resources"]["requests"]["cpu"])


def check_nothing_is_sold_twice(random: Random) -> None:
    """Random queues and pods: no node, no maximum and no user's limit is exceeded, and the plan comes to an end."""
    queues = random_tree(random)
    known = paths_of(queues)
    leaves = [path for path, queue in known.items() if not queue.get("queues")]
    nodes = {f"n{number}": random.randint(2, 9) for number in range(random.randint(1, 3))}
    pods = {
        f"p{number}": {
            "cpu": random.randint(1, 4),
            "queue": random.choice(leaves),
            "user": random.choice(("ann", "ben")),
            "app": f"a{random.randint(0, 5)}-{number % 3}",
        }
        for number in range(random.randint(1, 14))
    }
    # The first pod of an application speaks for all.
    firsts: dict[str, str] = {}
    for name in sorted(pods):
        firsts.setdefault(pods[name]["app"], name)
    for given in pods.values():
        given["queue"], given["user"] = (pods[firsts[given["app"]]][key] for key in ("queue", "user"))
    objects = [node(name, cpu) for name, cpu in nodes.items()]
    objects += [pod(name, metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}, **one) for name, one in pods.items()]
    others = others_of(random)
    report = planned(config(*queues, submitacl="*"), *objects, *others)
    if report.refused:  # some random trees promise more than they may
        return
    assert report.is_settled
    given_quota = [step for step in report.steps if isinstance(step, Admitted)]
    on_nodes: Counter[str] = Counter()
    in_queues: Counter[str] = Counter()
    of_ann: Counter[str] = Counter()
    for step in given_quota:  # also those that were told to go hold it still
        name = report.owners[step.workload].rpartition("/")[2]
        given = pods.get(name) or {"cpu": cpu_of(others, name)}
        for slot in step.pod_sets[0].slots:
            on_nodes[slot.node] += given["cpu"]
        if name not in pods:
            continue
        parts = given["queue"].split(".")
        for path in (".".join(parts[:length]) for length in range(2, len(parts) + 1)):
            in_queues[path] += given["cpu"] * 1000
            if given["user"] == "ann":
                of_ann[path] += given["cpu"] * 1000
    assert all(used <= nodes[name] for name, used in on_nodes.items())
    for path, queue in known.items():
        most = parse_amounts(queue.get("resources", {}).get("max") and _texts(queue["resources"]["max"]), "max")
        assert in_queues[path] <= most.get("vcore", in_queues[path])
        for limit in queue.get("limits", ()):
            assert of_ann[path] <= parse_amounts(_texts(limit["maxresources"]), "limit")["vcore"]
    leaving = {step.workload for step in report.steps if isinstance(step, Evicted)}
    told = {step.workload for step in given_quota} | {one.verdict.workload for one in report.waiting}
    assert len(told) == len(pods) + sum(one["kind"] in ("Pod", "Job") for one in others)
    assert leaving <= {step.workload for step in given_quota}


def _texts(amounts: dict[str, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


@pytest.mark.prove
def test_nothing_is_sold_twice() -> None:
    assert_sound(check_nothing_is_sold_twice, range(proof_count(3000)))
