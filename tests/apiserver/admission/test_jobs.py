"""Jobs on their way in: what their namespace has decides on them, and what is no job at all is left alone."""

from __future__ import annotations

import pytest

from muster.apiserver.admission.jobs import JobAdmission, stored_in
from muster.app.plugins import job_kinds
from muster.dialects.kueue.job_admission import JobRules
from muster.dialects.kueue.names import QUEUE_NAME
from muster.model.errors import InvalidObjects
from muster.model.labels import Operator, Requirement, Selector
from muster.store.kinds import Object
from muster.store.records import Key
from tests.controllers.jobs_world import JOBS, KUEUE, PODS, a_job, a_pod
from tests.store.kinds import World as Stored

NAMESPACES = "namespaces"
QUEUES = "localqueues.kueue.x-k8s.io"


class Cluster:
    """A store with the kinds that the rules look at."""

    def __init__(self, rules: JobRules | None = None) -> None:
        from muster.app.kinds import catalog

        self.world = Stored()
        self.world.objects.kinds = catalog().rules
        self.admission = JobAdmission(stored_in(self.world.store), job_kinds().values(), rules or JobRules())

    def store(self, resource: str, given: Object) -> Object:
        return self.world.create(resource, given)


def queue(name: str = "default") -> Object:
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": "all"}}


def test_the_queue_of_a_namespace_is_for_jobs_that_name_none():
    cluster = Cluster()
    assert "suspend" not in cluster.admission.complete_new(JOBS, a_job(queue=""))["spec"]
    cluster.store(QUEUES, queue())
    held = cluster.admission.complete_new(JOBS, a_job(queue=""))
    assert (held["spec"]["suspend"], held["metadata"]["labels"]) == (True, {QUEUE_NAME: "default"})


def test_namespaces_are_managed_by_their_labels():
    cluster = Cluster(JobRules(namespaces=Selector((Requirement("team", Operator.EXISTS, ()),))))
    assert "suspend" not in cluster.admission.complete_new(JOBS, a_job())["spec"]
    metadata = {"name": "team", "labels": {"team": "a"}}
    cluster.store(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    assert cluster.admission.complete_new(JOBS, a_job())["spec"]["suspend"] is True


@pytest.mark.parametrize(
    ("resource", "given"),
    [
        pytest.param("configmaps", {"metadata": {"labels": {QUEUE_NAME: "main"}}}, id="no job"),
        pytest.param(JOBS, {"metadata": {"labels": {QUEUE_NAME: "main"}}}, id="no spec"),
        pytest.param(JOBS, {"metadata": [], "spec": {}}, id="no metadata"),
        pytest.param(PODS, a_pod(queue=""), id="no queue"),
    ],
)
def test_others_are_left_alone(resource, given):
    assert Cluster().admission.complete_new(resource, given) is given or resource == PODS


def test_the_queue_of_a_running_job_stays():
    cluster = Cluster()
    stored = cluster.store(JOBS, a_job())
    record = cluster.world.store.get(Key(JOBS, "team", "train"))
    moved = {**stored, "metadata": {**stored["metadata"], "labels": {QUEUE_NAME: "other"}}}
    with pytest.raises(InvalidObjects, match="queue-name"):
        cluster.admission.check(JOBS, moved, record)
    cluster.admission.check(JOBS, {**moved, "spec": {**moved["spec"], "suspend": True}}, record)


def test_a_job_without_a_queue_changes_as_it_likes():
    cluster = Cluster()
    stored = cluster.store(JOBS, a_job(queue=""))
    record = cluster.world.store.get(Key(JOBS, "team", "train"))
    cluster.admission.check(JOBS, {**stored, "metadata": {**stored["metadata"], "labels": {QUEUE_NAME: "a"}}}, record)


def test_a_change_that_no_workload_can_be_made_of_is_refused_with_its_place():
    cluster = Cluster()
    stored = cluster.store(JOBS, a_job(suspend=True))
    record = cluster.world.store.get(Key(JOBS, "team", "train"))
    pod = {**stored["spec"]["template"]["spec"], "restartPolicy": "Always"}
    changed = {**stored, "spec": {**stored["spec"], "template": {"spec": pod}}}
    with pytest.raises(InvalidObjects, match=r"spec\.template\.spec\.restartPolicy"):
        cluster.admission.check(JOBS, changed, record)


# What carries its queue to its pods ---------------------------------------------------------------------------------

DEPLOYMENTS, REPLICA_SETS, SETS = "deployments.apps", "replicasets.apps", "statefulsets.apps"


def a_server(kind: str, queue: str = "main", **more: object) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": a_pod()["spec"]}
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": "web", "namespace": "team", "labels": {QUEUE_NAME: queue} if queue else {}}
    spec = {"replicas": 2, "selector": selector, "template": template, "serviceName": "web"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {**metadata, **more}, "spec": spec}


def labels_of(server: Object) -> dict[str, str]:
    return server["spec"]["template"]["metadata"]["labels"]


def test_the_queue_of_a_deployment_is_that_of_its_pods():
    admission = Cluster().admission
    assert labels_of(admission.complete_new(DEPLOYMENTS, a_server("Deployment", ""))) == {"app": "web"}
    made = admission.complete_new(DEPLOYMENTS, a_server("Deployment"))
    assert labels_of(made) == {"app": "web", QUEUE_NAME: "main"}
    made["metadata"]["labels"][QUEUE_NAME] = "other"
    assert labels_of(admission.complete(DEPLOYMENTS, made))[QUEUE_NAME] == "other", "another one too"
    assert admission.complete(JOBS, a_job(suspend=False))["spec"]["suspend"] is False, "a job may be started"


def test_what_belongs_to_a_deployment_has_what_it_needs_from_that():
    cluster = Cluster()
    deployment = cluster.store(DEPLOYMENTS, a_server("Deployment", ""))
    cluster.store(QUEUES, queue())
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": deployment["metadata"]["uid"]}
    part = a_server("ReplicaSet", "", ownerReferences=[{**owner, "controller": True}])
    assert cluster.admission.complete_new(REPLICA_SETS, part) is part
    alone = cluster.admission.complete_new(REPLICA_SETS, a_server("ReplicaSet", ""))
    assert labels_of(alone)[QUEUE_NAME] == "default"


@pytest.mark.parametrize(
    ("labels", "spec", "ready", "want"),
    [
        pytest.param({QUEUE_NAME: "other"}, {}, 0, "", id="another queue while nothing runs"),
        pytest.param({QUEUE_NAME: "other"}, {}, 1, "queue-name", id="another queue while pods run"),
        pytest.param({}, {}, 0, "queue-name", id="no queue any more"),
        pytest.param({QUEUE_NAME: "main"}, {"replicas": 3}, 0, r"spec\.replicas", id="another size"),
        pytest.param({QUEUE_NAME: "main"}, {"replicas": 0}, 1, "", id="no pods any more"),
    ],
)
def test_what_may_change_of_a_set(labels, spec, ready, want):
    cluster = Cluster()
    stored = cluster.store(SETS, a_server("StatefulSet"))
    record = cluster.world.store.get(Key(SETS, "team", "web"))
    metadata = {**stored["metadata"], "labels": labels}
    changed = {"metadata": metadata, "spec": {**stored["spec"], **spec}, "status": {"readyReplicas": ready}}
    if not want:
        cluster.admission.check(SETS, {**stored, **changed}, record)
        return
    with pytest.raises(InvalidObjects, match=want):
        cluster.admission.check(SETS, {**stored, **changed}, record)


def test_a_pod_of_a_set_waits_for_itself():
    cluster = Cluster()
    made = cluster.store(SETS, cluster.admission.complete_new(SETS, a_server("StatefulSet")))
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": made["metadata"]["uid"]}
    pod = a_pod("web-0")
    pod["metadata"] |= {"ownerReferences": [{**owner, "controller": True}]}
    pod["metadata"]["annotations"] = made["spec"]["template"]["metadata"]["annotations"]
    held = cluster.admission.complete_new(PODS, pod)
    assert held["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    assert held["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
