"""Jobs on their way in: what their namespace has decides on them, and what is no job at all is left alone."""

from __future__ import annotations

import pytest

from muster.apiserver.admission.jobs import JobAdmission
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
        self.admission = JobAdmission(self.world.store, job_kinds().values(), rules or JobRules())

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
