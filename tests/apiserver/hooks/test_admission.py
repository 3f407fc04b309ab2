"""The webhooks on jobs, pods and Kueue's kinds: what they change, refuse, warn of, and leave alone."""

from __future__ import annotations

import pytest

from muster.app.config import Configuration
from muster.dialects.kueue.gates import FeatureGates
from muster.store.records import Key
from tests.apiserver.hooks.world import Hooks
from tests.controllers.jobs_world import JOBS, KUEUE, PODS, QUEUE, a_job, a_pod

QUEUES, CLUSTER_QUEUES = "localqueues.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io"
WORKLOADS = "workloads.kueue.x-k8s.io"
GATE = {"name": "kueue.x-k8s.io/admission"}


def a_queue(name="main", **annotations):
    metadata = {"name": name, "namespace": "team", "annotations": annotations}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": "all"}}


def a_cluster_queue(quota="4", **spec):
    flavor = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": quota}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "all"}, "spec": spec}


def a_workload(**spec):
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    sets = [{"name": "main", "count": 2, "minCount": 1, "template": {"spec": pod}}]
    metadata = {"name": "w", "namespace": "team"}
    return {"apiVersion": KUEUE, "kind": "Workload", "metadata": metadata, "spec": {"podSets": sets, **spec}}


def owned(pod, owner, uid):
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": uid, "controller": True}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}}


# Jobs ----------------------------------------------------------------------------------------------------------------


def test_a_job_with_a_queue_waits_and_its_pods_are_given_to_muster():
    held = Hooks().mutated(JOBS, a_job())
    assert held["spec"]["suspend"] is True
    assert held["spec"]["template"]["spec"]["schedulerName"] == "muster"


@pytest.mark.parametrize(
    ("named", "want"),
    [("", "muster"), ("default-scheduler", "muster"), ("mine", "mine")],
)
def test_who_names_a_scheduler_keeps_it(named, want):
    held = Hooks().mutated(JOBS, a_job(pod={"schedulerName": named}))
    assert held["spec"]["template"]["spec"]["schedulerName"] == want


@pytest.mark.parametrize(
    ("local", "above", "want"),
    [
        pytest.param("", "", "muster", id="nobody says"),
        pytest.param("kube-scheduler", "", "default-scheduler", id="the queue"),
        pytest.param("", "kube-scheduler", "default-scheduler", id="the queue above"),
        pytest.param("muster", "kube-scheduler", "muster", id="the nearer one"),
    ],
)
def test_a_queue_may_leave_the_choice_of_nodes_to_kubernetes(local, above, want):
    hooks = Hooks()
    for key, given, said in (
        (Key(QUEUES, "team", "main"), a_queue(), local),
        (Key(CLUSTER_QUEUES, "", "all"), a_cluster_queue(), above),
    ):
        given["metadata"]["annotations"] = {"muster.dev/placement": said} if said else {}
        hooks.cluster.put(key, given)
    held = hooks.mutated(JOBS, a_job(pod={"schedulerName": "default-scheduler"}))
    assert (held["spec"]["suspend"], held["spec"]["template"]["spec"]["schedulerName"]) == (True, want)


def test_a_pod_with_a_queue_waits_behind_its_gate():
    held = Hooks().mutated(PODS, a_pod())
    assert held["spec"]["schedulingGates"] == [GATE]
    assert held["spec"]["schedulerName"] == "muster"
    assert held["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]


def test_a_pod_that_wants_a_place_waits_behind_two_gates():
    pod = a_pod()
    pod["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    gates = Hooks().mutated(PODS, pod)["spec"]["schedulingGates"]
    assert [one["name"] for one in gates] == ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]


def test_a_pod_of_a_managed_job_is_counted_through_that():
    hooks = Hooks()
    job = hooks.cluster.put(Key(JOBS, "team", "train"), a_job())
    job["metadata"]["uid"] = "u"
    hooks.cluster.put(Key(JOBS, "team", "train"), job)
    assert hooks.mutated(PODS, owned(a_pod(), "train", "u")) == owned(a_pod(), "train", "u")
    assert "schedulingGates" in hooks.mutated(PODS, owned(a_pod(), "train", "of another"))["spec"]


@pytest.mark.parametrize("resource", [JOBS, PODS])
def test_what_has_no_queue_is_left_alone(resource):
    given = a_job(queue="") if resource == JOBS else a_pod(queue="")
    hooks = Hooks()
    assert hooks.mutated(resource, given) == given
    assert not hooks.problem(resource, given)


def test_a_namespace_may_have_a_queue_for_jobs_that_name_none():
    hooks = Hooks()
    hooks.cluster.put(Key(QUEUES, "team", "default"), a_queue("default"))
    held = hooks.mutated(JOBS, a_job(queue=""))
    assert (held["spec"]["suspend"], held["metadata"]["labels"][QUEUE]) == (True, "default")


def test_jobs_without_a_queue_are_managed_where_the_configuration_says_so():
    hooks = Hooks(Configuration(manages_jobs_without_queue=True))
    assert hooks.mutated(JOBS, a_job(queue=""))["spec"]["suspend"] is True


def test_jobs_of_the_systems_own_namespaces_are_left_alone():
    job = a_job()
    job["metadata"]["namespace"] = "kube-system"
    assert Hooks().mutated(JOBS, job, namespace="kube-system") == job


def test_a_new_job_that_another_webhook_has_let_go_is_refused():
    hooks = Hooks()
    problem = hooks.problem(JOBS, a_job())
    assert problem["code"] == 422
    assert "lets it start before its queue does" in problem["message"]
    assert not hooks.problem(JOBS, hooks.mutated(JOBS, a_job()))


def test_the_queue_of_a_running_job_stays():
    problem = Hooks().problem(JOBS, a_job(queue="other"), oldObject=a_job())
    assert problem["reason"] == "Invalid"
    assert [one["field"] for one in problem["details"]["causes"]] == [f"metadata.labels[{QUEUE}]"]
    assert not Hooks().problem(JOBS, a_job(queue="other", suspend=True), oldObject=a_job(suspend=True))


def test_a_job_of_which_no_workload_could_be_made_is_refused():
    bad = a_job(annotations={"kueue.x-k8s.io/job-min-parallelism": "none"})
    answer = Hooks().review("/mutate", JOBS, bad)
    assert not answer["allowed"]
    assert answer["status"]["details"]["causes"][0]["field"].startswith("metadata.annotations")


def test_a_queue_named_the_old_way_is_read_with_a_warning():
    job = a_job(queue="", annotations={QUEUE: "main"})
    hooks = Hooks()
    held = hooks.mutated(JOBS, job)
    assert held["spec"]["suspend"] is True
    (warning,) = hooks.review("/validate", JOBS, held)["warnings"]
    assert "names the queue the old way" in warning


# Kueue's kinds -------------------------------------------------------------------------------------------------------


def test_what_kueues_webhooks_add_is_added():
    after = Hooks().mutated(CLUSTER_QUEUES, a_cluster_queue())
    assert after["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]


def test_a_workload_starts_whole_where_partial_admission_is_off():
    hooks = Hooks(Configuration(gates=FeatureGates({"PartialAdmission": False})))
    assert "minCount" not in hooks.mutated(WORKLOADS, a_workload())["spec"]["podSets"][0]
    assert "minCount" in Hooks().mutated(WORKLOADS, a_workload())["spec"]["podSets"][0]


def test_mistakes_are_named_by_their_fields():
    problem = Hooks().problem(CLUSTER_QUEUES, a_cluster_queue("-1"))
    assert (problem["code"], problem["reason"]) == (422, "Invalid")
    assert problem["message"].startswith(
        'ClusterQueue.kueue.x-k8s.io "all" is invalid: spec.resourceGroups[0].flavors[0]'
    )
    assert problem["details"]["causes"][0]["field"] == "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"


def test_what_is_odd_is_told():
    odd = a_cluster_queue()
    odd["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = "1"
    answer = Hooks().review("/validate", CLUSTER_QUEUES, odd)
    assert answer["allowed"]
    assert any("has no effect as long as spec.cohortName is empty" in one for one in answer["warnings"])
    strict = Hooks(Configuration(strict_validation=True)).review("/validate", CLUSTER_QUEUES, odd)
    assert not strict["allowed"] or not strict.get("warnings")


def test_a_status_is_judged_against_what_was_there():
    before = a_workload(queueName="main")
    after = {**before, "status": {"reclaimablePods": [{"name": "main", "count": 9}]}}
    assert Hooks().problem(WORKLOADS, after, oldObject=before, subResource="status")["code"] == 422


@pytest.mark.parametrize(
    ("path", "resource", "more"),
    [
        pytest.param("/mutate", "configmaps", {}, id="no kind of ours"),
        pytest.param("/validate", "configmaps", {}, id="no kind of ours to judge"),
        pytest.param("/mutate", PODS, {"subResource": "binding"}, id="a part of a pod"),
        pytest.param("/validate", JOBS, {"operation": "DELETE", "object": None, "oldObject": a_job()}, id="a deletion"),
        pytest.param("/mutate", JOBS, {"operation": "CONNECT"}, id="another operation"),
    ],
)
def test_the_rest_is_let_through_untouched(path, resource, more):
    given = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {QUEUE: "main"}}}
    assert Hooks().review(path, resource, given, **more) == {"uid": "u-1", "allowed": True}


# The right to use a queue --------------------------------------------------------------------------------------------

CHECKED = Configuration(checks_queue_use=True)


@pytest.mark.parametrize(
    ("resource", "given"),
    [(JOBS, a_job(suspend=True)), (PODS, {**a_pod(), "spec": {**a_pod()["spec"], "schedulingGates": [GATE]}})],
)
def test_whoever_may_not_use_a_queue_may_not_submit_to_it(resource, given):
    hooks = Hooks(CHECKED)
    problem = hooks.problem(resource, given)
    assert (problem["code"], problem["reason"]) == (403, "Forbidden")
    assert problem["message"] == (
        'localqueues.kueue.x-k8s.io "main" is forbidden: User "anna" cannot use resource "localqueues" '
        'in API group "kueue.x-k8s.io" in the namespace "team"'
    )
    hooks.cluster.users.add(("anna", "team", "main"))
    assert not hooks.problem(resource, given)
    assert not Hooks().problem(resource, given)  # it is off by default


def test_a_job_moves_only_to_a_queue_that_its_user_may_use():
    hooks = Hooks(CHECKED)
    before, after = a_job(suspend=True), a_job(suspend=True, queue="other")
    assert not hooks.problem(JOBS, a_job(suspend=True, parallelism=2), oldObject=before)
    assert '"other" is forbidden' in hooks.problem(JOBS, after, oldObject=before)["message"]


def test_a_workload_is_submitted_by_whoever_makes_it_unless_that_is_muster():
    hooks = Hooks(CHECKED, own_user="system:serviceaccount:muster-system:muster")
    given = a_workload(queueName="main")
    assert hooks.problem(WORKLOADS, given)["code"] == 403
    assert not hooks.problem(WORKLOADS, given, user="system:serviceaccount:muster-system:muster")
    assert not hooks.problem(WORKLOADS, a_workload())


def test_pods_of_a_job_that_was_submitted_need_no_right():
    hooks = Hooks(CHECKED)
    job = a_job()
    job["metadata"]["uid"] = "u"
    hooks.cluster.put(Key(JOBS, "team", "train"), job)
    assert not hooks.problem(
        PODS, owned(a_pod(), "train", "u"), user="system:serviceaccount:kube-system:job-controller"
    )
