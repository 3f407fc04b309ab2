"""On the embedded server, too, only those submit to a queue who may use it, whichever way they write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.apiserver.admission.jobs import JobAdmission, stored_in
from muster.apiserver.rights.submission import Submission
from muster.dialects.kueue.job_admission import JobRules
from tests.apiserver.direct import Direct, direct
from tests.controllers.jobs_world import KINDS, KUEUE, QUEUE, a_job, a_pod

JOBS, PODS = "/apis/batch/v1/namespaces/team/jobs", "/api/v1/namespaces/team/pods"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces/team"
ANNA = {"impersonate-user": "anna"}
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


def a_workload(queue):
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    spec = {"queueName": queue, "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}]}
    return {"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": "w", "namespace": "team"}, "spec": spec}


@pytest.fixture
def server() -> Iterator[Direct]:
    with direct() as one:
        jobs = JobAdmission(stored_in(one.world.store), KINDS, JobRules())
        object.__setattr__(one.world.api, "submission", Submission(jobs))
        one.request("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        everything = [
            {
                "apiGroups": ["batch", "kueue.x-k8s.io", ""],
                "resources": [resource],
                "verbs": ["create", "patch", "update"],
            }
            for resource in ("jobs", "pods", "workloads")
        ]
        use = {
            "apiGroups": ["kueue.x-k8s.io"],
            "resources": ["localqueues"],
            "resourceNames": ["main"],
            "verbs": ["use"],
        }
        rules = [*everything, use]
        assert one.request("POST", f"{RIGHTS}/roles", {"metadata": {"name": "submit"}, "rules": rules})[0] == 201
        binding = {
            "metadata": {"name": "submit"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "submit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "anna"}],
        }
        assert one.request("POST", f"{RIGHTS}/rolebindings", binding)[0] == 201
        yield one


@pytest.mark.parametrize(
    ("path", "make"),
    [
        pytest.param(JOBS, lambda queue: a_job(queue=queue), id="a job"),
        pytest.param(PODS, lambda queue: a_pod(queue=queue), id="a pod"),
        pytest.param(WORKLOADS, a_workload, id="a workload"),
    ],
)
def test_a_queue_is_submitted_to_by_those_who_may_use_it(server, path, make):
    status, told = server.request("POST", path, make("other"), headers=ANNA)
    assert status == 403
    assert told["message"] == (
        'localqueues.kueue.x-k8s.io "other" is forbidden: User "anna" cannot use resource "localqueues" '
        'in API group "kueue.x-k8s.io" in the namespace "team"'
    )
    assert server.request("POST", path, make("main"), headers=ANNA)[0] == 201


def test_moving_a_job_is_submitting_it(server):
    assert server.request("POST", JOBS, a_job(suspend=True), headers=ANNA)[0] == 201
    moved = {"metadata": {"labels": {QUEUE: "other"}}}
    assert server.request("PATCH", f"{JOBS}/train", moved, MERGE, ANNA)[0] == 403
    assert server.request("PATCH", f"{JOBS}/train", {"metadata": {"labels": {"a": "b"}}}, MERGE, ANNA)[0] == 200
    given = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "labels": {QUEUE: "other"}}}
    applied = server.request("PATCH", f"{JOBS}/train?fieldManager=a&force=true", given, APPLY, ANNA)
    assert applied[0] == 403
    assert server.request("PATCH", f"{JOBS}/train", moved, MERGE)[0] == 200  # the administrator may


def test_what_is_applied_and_not_there_is_submitted(server):
    given = a_job(queue="other")
    applied = server.request("PATCH", f"{JOBS}/train?fieldManager=a", given, APPLY, ANNA)
    assert applied[0] == 403
