"""What a new job gets, and which jobs and changes are refused, with the place of each mistake."""

from __future__ import annotations

from copy import deepcopy

import pytest

from muster.dialects.volcano.job.checks import change_problems, problems_of, queue_problem
from muster.dialects.volcano.job.defaults import completed
from muster.model.fields import Fields
from tests.dialects.volcano.job.objects import job_object, task
from tests.stopwatch import is_done_within


def faults(given):
    return [problem.path for problem in problems_of(Fields(given))]


def policies(*given):
    return {"policies": [{"action": "AbortJob", **one} for one in given]}


def parts(total, size, least=0):
    return {"partitionPolicy": {"totalPartitions": total, "partitionSize": size, "minPartitions": least}}


def enqueue(first):
    return {"event": "TaskCompleted", "action": "Enqueue", "condition": {"taskName": first}}


NUMA = {"topologyPolicy": "restricted"}
HALF = {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}]}
WHOLE = {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"cpu": "2"}}}]}
BOTH = {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}}
CLAIM = {"accessModes": ["ReadWriteOnce"]}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(job_object(task("a")), [], id="a plain job"),
        pytest.param(job_object(), ["spec.tasks"], id="no tasks"),
        pytest.param(job_object(task("a"), plugins={"mpi": []}), ["spec.plugins.mpi"], id="mpi without a master"),
        pytest.param(job_object(task("boss"), plugins={"mpi": ["--master=boss"]}), [], id="mpi with another master"),
        pytest.param(job_object(task("a"), **BOTH), ["spec.networkTopology"], id="two ways to say a tier"),
        pytest.param(job_object(task("a", minAvailable=2)), ["spec.tasks[0].minAvailable"], id="more than there are"),
        pytest.param(job_object(task("a"), task("a")), ["spec.tasks[1].name"], id="a name twice"),
        pytest.param(
            job_object(task("a"), **policies({"event": "PodFailed", "exitCode": 1})),
            ["spec.policies[0].event"],
            id="event and exit code",
        ),
        pytest.param(job_object(task("a"), **policies({})), ["spec.policies[0].event"], id="neither"),
        pytest.param(
            job_object(task("a", **policies({"event": "OutOfSync"}))),
            ["spec.tasks[0].policies[0].event"],
            id="an event of Volcano's own",
        ),
        pytest.param(
            job_object(task("a"), policies=[{"event": "PodFailed", "action": "SyncJob"}]),
            ["spec.policies[0].action"],
            id="an action of Volcano's own",
        ),
        pytest.param(
            job_object(task("a"), **policies({"event": "PodFailed"}, {"events": ["PodFailed"]})),
            ["spec.policies[1].event"],
            id="an event twice",
        ),
        pytest.param(job_object(task("a"), **policies({"exitCode": 0})), ["spec.policies[0].exitCode"], id="code 0"),
        pytest.param(
            job_object(task("a"), **policies({"exitCode": 3}, {"exitCode": 3})),
            ["spec.policies[1].exitCode"],
            id="a code twice",
        ),
        pytest.param(
            job_object(task("a"), **policies({"event": "*"}, {"event": "PodFailed"})),
            ["spec.policies"],
            id="any event beside another",
        ),
        pytest.param(
            job_object(task("a", pod=HALF, **NUMA)),
            ["spec.tasks[0].template.spec.containers[0].resources.requests.cpu"],
            id="half a CPU",
        ),
        pytest.param(job_object(task("a", pod=WHOLE, **NUMA)), [], id="whole CPUs"),
        pytest.param(job_object(task("a", pod=HALF, topologyPolicy="none")), [], id="no policy for them"),
        pytest.param(
            job_object(task("a", 0, **parts(0, 0))),
            ["spec.tasks[0].partitionPolicy.totalPartitions", "spec.tasks[0].partitionPolicy.partitionSize"],
            id="no partitions",
        ),
        pytest.param(job_object(task("a", 5, **parts(2, 2))), ["spec.tasks[0].replicas"], id="partitions of others"),
        pytest.param(
            job_object(task("a", 4, minAvailable=3, **parts(2, 2, 1))),
            ["spec.tasks[0].minAvailable"],
            id="a part of a part",
        ),
        pytest.param(job_object(task("a", 4, **parts(2, 2, 1))), [], id="partitions"),
        pytest.param(job_object(task("a", 2), minAvailable=3), ["spec.minAvailable"], id="more than all"),
        pytest.param(job_object(task("a"), plugins={"sshd": []}), ["spec.plugins.sshd"], id="an unknown plugin"),
        pytest.param(
            job_object(task("a"), volumes=[{"volumeClaimName": "c"}]), ["spec.volumes[0].mountPath"], id="no path"
        ),
        pytest.param(
            job_object(task("a"), volumes=[{"mountPath": "/d", "volumeClaim": CLAIM}] * 2),
            ["spec.volumes[1].mountPath"],
            id="a path twice",
        ),
        pytest.param(
            job_object(task("a"), volumes=[{"mountPath": "/d"}]), ["spec.volumes[0].volumeClaim"], id="no claim"
        ),
        pytest.param(
            job_object(task("a"), volumes=[{"mountPath": "/d", "volumeClaim": CLAIM, "volumeClaimName": "c"}]),
            ["spec.volumes[0].volumeClaim"],
            id="two claims",
        ),
        pytest.param(
            job_object(task("a"), volumes=[{"mountPath": "/d", "volumeClaimName": "C!"}]),
            ["spec.volumes[0].volumeClaimName"],
            id="no name of a claim",
        ),
        pytest.param(
            job_object(task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})),
            ["spec.tasks"],
            id="a circle",
        ),
        pytest.param(
            job_object(task("a", dependsOn={"name": ["c"]})), ["spec.tasks[0].dependsOn.name[0]"], id="no such task"
        ),
        pytest.param(job_object(task("a"), task("b"), policies=[enqueue("a")]), [], id="others after one"),
        pytest.param(job_object(task("a"), task("b"), policies=[enqueue("a"), enqueue("b")]), [], id="after two"),
        pytest.param(
            job_object(task("a"), policies=[enqueue("c")]), ["spec.policies[0].condition.taskName"], id="after no task"
        ),
        pytest.param(
            job_object(task("a"), policies=[{**enqueue("a"), "action": "AbortJob"}]),
            ["spec.policies[0].condition"],
            id="a condition of another action",
        ),
        pytest.param(
            job_object(task("a"), policies=[{**enqueue("a"), "event": "PodFailed"}]),
            ["spec.policies[0].event"],
            id="after something else",
        ),
        pytest.param(
            job_object(task("a", dependsOn={"name": ["b"]}), task("b"), policies=[enqueue("a")]),
            ["spec.tasks"],
            id="a circle of both",
        ),
        pytest.param(job_object(task("a", 6000)), ["spec.tasks"], id="too many pods"),
        pytest.param(
            job_object(task("a"), metadata={"name": "x" * 70}),
            ["metadata.name", "spec.tasks[0].name"],
            id="a long name",
        ),
        pytest.param(
            job_object(task("a"), **policies({"event": "PodPending", "timeout": "soon"})),
            ["spec.policies[0].timeout"],
            id="no duration",
        ),
    ],
)
def test_jobs_are_refused_with_the_place_of_the_mistake(given, want) -> None:
    assert faults(given) == want


def test_what_a_new_job_gets() -> None:
    host = {"hostNetwork": True, "containers": []}
    given = job_object(
        task("", 2), task("w", 4, **parts(2, 2, 1)), task("h", pod=host, minAvailable=0), plugins={"mpi": ["--port=1"]}
    )
    spec = completed(Fields(given))["spec"]
    assert {name: spec[name] for name in ("queue", "schedulerName", "maxRetry", "minAvailable")} == {
        "queue": "default",
        "schedulerName": "volcano",
        "maxRetry": 3,
        "minAvailable": 4,
    }
    assert [(one["name"], one["minAvailable"], one["maxRetry"]) for one in spec["tasks"]] == [
        ("default0", 2, 3),
        ("w", 2, 3),
        ("h", 0, 3),
    ]
    assert spec["tasks"][2]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert spec["plugins"] == {"mpi": ["--port=1"], "svc": [], "ssh": []}
    assert completed(Fields({**given, "spec": spec}))["spec"] == spec, "and once more the same"


@pytest.mark.parametrize(
    ("name", "queue", "has_children", "want"),
    [
        ("root", None, False, "is the root"),
        ("gone", None, False, None),
        ("q", {"status": {"state": "Open"}}, False, None),
        ("q", {}, False, None),
        ("q", {"status": {"state": "Closed"}}, False, "is q, which is Closed"),
        ("q", {"status": {"state": "Open"}}, True, "has queues below it"),
    ],
)
def test_queues_that_a_job_cannot_wait_in(name, queue, has_children, want) -> None:
    problem = queue_problem(Fields(job_object(task("a"), queue=name)), queue, has_children=has_children)
    assert (problem is None) if want is None else (problem is not None and want in str(problem))


def changed(**how):
    before = job_object(task("a", 2, minAvailable=1), minAvailable=1, queue="q")
    after = deepcopy(before)
    for name, value in how.items():
        where = after["spec"]["tasks"][0] if name.startswith("task_") else after["spec"]
        where[name.removeprefix("task_")] = value
    return [problem.path for problem in change_problems(Fields(after), Fields(before))]


@pytest.mark.parametrize(
    ("how", "want"),
    [
        ({"minAvailable": 2, "task_replicas": 3, "task_minAvailable": 2, "priorityClassName": "high"}, []),
        ({"queue": "other"}, ["spec.queue"]),
        ({"maxRetry": 5}, ["spec.maxRetry"]),
        ({"tasks": []}, ["spec.tasks"]),
        ({"task_template": {}}, ["spec.tasks[0].template"]),
        ({"task_name": "b"}, ["spec.tasks[0].name"]),
        ({"minAvailable": 3}, ["spec.minAvailable"]),
        ({"task_minAvailable": 3}, ["spec.tasks[0].minAvailable"]),
        ({"task_replicas": -1}, ["spec.tasks[0].replicas"]),
    ],
)
def test_few_fields_may_change(how, want) -> None:
    assert changed(**how) == want


def test_a_job_of_many_tasks_and_dependencies_costs_little() -> None:
    names = [f"t{number}" for number in range(1000)]
    tasks = [task(name, dependsOn={"name": names[:number][-50:]}) for number, name in enumerate(names)]
    assert is_done_within(5.0, lambda: faults(job_object(*tasks)))
