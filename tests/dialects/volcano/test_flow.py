"""Flows of jobs: which job is made when, from what, and how far a flow is."""

from __future__ import annotations

import pytest

from muster.dialects.volcano.flow import Check, FlowSight, flow_steps, merged
from muster.model.errors import InvalidObject


def step(name, *targets, probe=None, patch=None):
    depends = {"targets": list(targets), **({"probe": probe} if probe else {})}
    return {
        "name": name,
        **({"dependsOn": depends} if targets else {}),
        **({"patch": {"jobSpec": patch}} if patch else {}),
    }


def a_flow(*steps, status=None, **spec):
    metadata = {"name": "f", "namespace": "x", "uid": "u"}
    return {"metadata": metadata, "spec": {"flows": list(steps), **spec}, "status": status or {}}


def a_job(name, phase=""):
    return {"metadata": {"name": f"f-{name}", "uid": name}, "status": {"state": {"phase": phase}} if phase else {}}


TEMPLATE = {"spec": {"queue": "q", "maxRetry": 5, "tasks": [{"name": "t", "replicas": 1}]}}


def decide(flow, *jobs, pods=(), answers=None, template=TEMPLATE):
    return flow_steps(
        FlowSight(
            flow=flow,
            jobs={one["metadata"]["name"]: one for one in jobs},
            template=lambda _name: template,
            pods=lambda _job: pods,
            answers=answers or {},
        )
    )


def started(*given, **more):
    return [one["metadata"]["name"] for one in decide(*given, **more).create]


def test_steps_start_when_those_that_they_depend_on_have_completed() -> None:
    flow = a_flow(step("a"), step("b", "a"), step("c", "a", "b"), step("d"))
    assert started(flow) == ["f-a", "f-d"]
    assert started(flow, a_job("a", "Running"), a_job("d")) == []
    done = a_job("a", "Completed")
    assert started(flow, done, a_job("d")) == ["f-b"]
    assert started(flow, done, a_job("d"), a_job("b", "Completed")) == ["f-c"]
    assert started(flow, a_job("a", "Failed"), a_job("d")) == []


def test_a_job_is_its_template_with_the_patch_over_it() -> None:
    patch = {"queue": "default", "maxRetry": 3, "minAvailable": 2, "tasks": [{"name": "t", "replicas": 2}]}
    (job,) = decide(a_flow(step("a", patch=patch))).create
    # A definition fills in queue and maxRetry where the patch says nothing, so these do not count.
    assert job["spec"] == {
        "queue": "q",
        "maxRetry": 5,
        "minAvailable": 2,
        "tasks": [{"name": "t", "replicas": 2}],
    }
    made_by = {"volcano.sh/createdByJobTemplate": "x.a", "volcano.sh/createdByJobFlow": "x.f"}
    assert job["metadata"]["labels"] == made_by and job["metadata"]["annotations"] == made_by
    assert job["metadata"]["ownerReferences"][0]["kind"] == "JobFlow"


@pytest.mark.parametrize(
    ("base", "patch", "want"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
        (
            [{"name": "a", "x": 1}, {"name": "b"}],
            [{"name": "a", "y": 2}],
            [{"name": "a", "x": 1, "y": 2}, {"name": "b"}],
        ),
        ([{"name": "a"}], [{"name": "b"}], [{"name": "a"}, {"name": "b"}]),
        (["sh"], ["bash"], ["bash"]),
        ([{"x": 1}], [{"x": 2}], [{"x": 2}]),
    ],
)
def test_a_patch(base, patch, want) -> None:
    assert merged(base, patch) == want


def test_a_template_that_is_not_there_is_told() -> None:
    found = decide(a_flow(step("a")), template=None)
    assert found.create == [] and found.problems == ["JobTemplate a is not there"]
    assert found.status == {"state": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("phases", "want"),
    [
        ([], "Pending"),
        (["Pending"], "Pending"),
        (["Running"], "Running"),
        (["Completed"], "Running"),
        (["Completed", "Completed"], "Succeed"),
        (["Completed", "Failed"], "Failed"),
        (["Failed"], "Failed"),
        (["Failed", "Running"], "Running"),
        (["Aborted"], "Failed"),
        (["Terminated", "Completed"], "Failed"),
        (["Restarting"], "Running"),
    ],
)
def test_how_far_a_flow_is(phases, want) -> None:
    jobs = [a_job(name, phase) for name, phase in zip("ab", phases, strict=False)]
    assert decide(a_flow(step("a"), step("b", "a")), *jobs).status["state"]["phase"] == want


def test_the_status_lists_jobs_by_how_they_are() -> None:
    steps = [step(name) for name in "abcde"]
    phases = ("Completed", "Failed", "Pending", "Running", "Aborted")
    status = decide(a_flow(*steps), *(a_job(*one) for one in zip("abcde", phases, strict=True))).status
    lists = {name: value for name, value in status.items() if name.endswith("Jobs")}
    assert lists == {
        "completedJobs": ["f-a"],
        "failedJobs": ["f-b"],
        "pendingJobs": ["f-c"],
        "runningJobs": ["f-d"],
        "terminatedJobs": ["f-e"],
    }
    assert [(one["name"], one["state"]) for one in status["jobStatusList"]][:2] == [
        ("f-a", "Completed"),
        ("f-b", "Failed"),
    ]


def test_a_flow_that_has_succeeded_deletes_its_jobs_where_it_is_to() -> None:
    done = {"state": {"phase": "Succeed"}}
    flow = a_flow(step("a"), status=done, jobRetainPolicy="delete")
    found = decide(flow, a_job("a", "Completed"))
    assert len(found.delete) == 1 and found.status == done
    again = decide(flow)
    assert (again.create, again.delete, again.status) == ([], [], done)
    kept = decide(a_flow(step("a"), status=done, jobRetainPolicy="retain"), a_job("a", "Completed"))
    assert kept.delete == [] and kept.status["state"] == {"phase": "Succeed"}


# Probes ---------------------------------------------------------------------------------------------------------------


def a_pod(task, phase="Running", address="10.0.0.1"):
    return {"metadata": {"labels": {"volcano.sh/task-spec": task}}, "status": {"phase": phase, "podIP": address}}


def test_a_probe_of_tasks_looks_at_their_pods() -> None:
    flow = a_flow(step("a"), step("b", "a", probe={"taskStatusList": [{"taskName": "t", "phase": "Running"}]}))
    running = a_job("a", "Running")
    assert started(flow, running, pods=[a_pod("t")]) == ["f-b"]
    assert started(flow, running, pods=[a_pod("t"), a_pod("t", "Pending")]) == []
    assert started(flow, running, pods=[]) == []


def test_a_probe_of_ports_asks_and_waits_for_the_answers() -> None:
    probe = {
        "httpGetList": [{"taskName": "t", "path": "/ok", "port": 80, "httpHeader": {"name": "a", "value": "b"}}],
        "tcpSocketList": [{"taskName": "t", "port": 22}],
    }
    flow, running = a_flow(step("a"), step("b", "a", probe=probe)), a_job("a", "Running")
    http, tcp = Check("10.0.0.1", 80, "/ok", ("a", "b")), Check("10.0.0.1", 22)
    first = decide(flow, running, pods=[a_pod("t")])
    assert first.create == [] and first.asked == {http, tcp}
    assert started(flow, running, pods=[a_pod("t")], answers={http: True, tcp: False}) == []
    assert started(flow, running, pods=[a_pod("t")], answers={http: True, tcp: True}) == ["f-b"]
    assert decide(flow, running, pods=[a_pod("t", address="")]).asked == set()


@pytest.mark.parametrize(
    ("flow", "path"),
    [
        (a_flow(step("a"), step("a")), "spec.flows[1].name"),
        (a_flow(step("a", "b")), "spec.flows[0].dependsOn.targets"),
        (a_flow(step("a", "b"), step("b", "a")), "spec.flows"),
        (a_flow(*(step(str(number)) for number in range(1001))), "spec.flows"),
    ],
)
def test_flows_without_a_meaning(flow, path) -> None:
    with pytest.raises(InvalidObject) as raised:
        decide(flow)
    assert raised.value.path == path
