"""The check by a ProvisioningRequest: what is asked for, what becomes of it, and pools that fulfil it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from muster.store.objects import Part
from muster.store.records import Key
from tests.stories.lives import NODES, WORKLOADS, a_job, an_object, lives

REQUESTS, TEMPLATES = "provisioningrequests.autoscaling.x-k8s.io", "podtemplates"
QUEUE = {"admissionChecksStrategy": {"admissionChecks": [{"name": "nodes"}]}}
OTHER, OWN = "example.com", "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
ELASTIC = {
    "pools": [
        {
            "name": "gpu",
            "minimum": 0,
            "maximum": 3,
            "nodeStartTime": "10s",
            "runTime": "24h",
            "capacity": {"cpu": "1", "memory": "8Gi"},
        }
    ]
}


@contextmanager
def a_story(class_name=OTHER, nodes=NODES, **config):
    with lives(nodes=nodes, **QUEUE) as story:
        named = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "some"}
        spec = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": named}
        story.create(an_object("AdmissionCheck", "nodes", spec))
        story.create(an_object("ProvisioningRequestConfig", "some", {"provisioningClassName": class_name, **config}))
        story.run(1)
        yield story


def requests(story):
    return {one["metadata"]["name"].rpartition("-")[2]: one for one in story.world.all(REQUESTS)}


def say(story, kind, **details):
    """What an autoscaler says of the only request."""
    (request,) = story.world.all(REQUESTS)
    condition = {"type": kind, "status": "True", "reason": kind, "message": f"{kind} now"}
    condition["lastTransitionTime"] = request["metadata"]["creationTimestamp"]

    def how(before):
        status = before.get("status") or {}
        conditions = [one for one in status.get("conditions") or () if one["type"] != kind]
        return {**before, "status": {**status, "conditions": [*conditions, condition], **details}}

    story.world.change(Key(REQUESTS, "default", request["metadata"]["name"]), how, Part.STATUS)


def check_of(story):
    (check,) = story.workload()["status"]["admissionChecks"]
    return check


def test_a_workload_starts_when_its_nodes_are_there():
    selector = [{"key": "pool", "valueFromProvisioningClassDetail": "poolName"}]
    with a_story(parameters={"valid": "1h"}, podSetUpdates={"nodeSelector": selector}) as story:
        job = a_job("train", 2)
        job["metadata"]["annotations"] = {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "60"}
        story.create(job)
        story.run(5)
        assert story.has("QuotaReserved") and not story.has("Admitted")
        (request,) = story.world.all(REQUESTS)
        assert request["metadata"]["name"] == f"{story.workload()['metadata']['name']}-nodes-1"
        assert request["spec"]["parameters"] == {"valid": "1h", "maxRunDurationSeconds": "60"}
        (asked,) = request["spec"]["podSets"]
        template = story.world.get(TEMPLATES, asked["podTemplateRef"]["name"], "default")
        assert asked["count"] == 2 and template["template"]["spec"]["containers"][0]["name"] == "main"
        say(story, "Accepted")
        story.run(5)
        assert (check_of(story)["state"], check_of(story)["message"]) == ("Pending", "Accepted now")
        for node in story.world.all("nodes"):
            label = {**node["metadata"]["labels"], "pool": "new"}
            story.world.change(
                Key("nodes", "", node["metadata"]["name"]),
                lambda one, label=label: {**one, "metadata": {**one["metadata"], "labels": label}},
            )
        say(story, "Provisioned", provisioningClassDetails={"poolName": "new"})
        story.run(30)
        assert story.has("Admitted") and len(story.pods()) == 2
        for pod in story.pods():
            notes = pod["metadata"]["annotations"]
            assert notes["autoscaling.x-k8s.io/consume-provisioning-request"] == request["metadata"]["name"]
            assert notes["autoscaling.x-k8s.io/provisioning-class-name"] == OTHER
            assert pod["spec"]["nodeSelector"] == {"pool": "new"}


@pytest.mark.parametrize("kind", ["Failed", "BookingExpired"])
def test_a_request_that_fails_is_made_again_later_and_then_given_up(kind):
    retries = {"backoffBaseSeconds": 30, "backoffLimitCount": 1, "backoffMaxSeconds": 100}
    with a_story(retryStrategy=retries) as story:
        story.create(a_job("train"))
        story.run(5)
        say(story, kind)
        story.run(5)
        assert story.status("Evicted") == ("True", "AdmissionCheck") and not story.has("QuotaReserved")
        story.run(20)
        assert not story.has("QuotaReserved"), "it does not come back before its time"
        story.run(10)
        assert requests(story).keys() == {"2"}, "another try is another request"
        say(story, kind)
        story.run(30)
        assert story.status("Evicted") == ("True", "DeactivatedDueToAdmissionCheck")


def test_what_was_booked_counts_no_more_once_it_runs_and_what_is_revoked_does():
    with a_story() as story:
        story.create(a_job("train"))
        story.run(5)
        say(story, "Provisioned")
        story.run(30)
        assert story.has("Admitted")
        say(story, "BookingExpired")
        story.run(30)
        assert story.has("Admitted"), "its pods are there already"
        say(story, "CapacityRevoked")
        story.run(60)
        assert story.status("Evicted") == ("True", "DeactivatedDueToAdmissionCheck") and not story.pods()


def test_nothing_is_asked_for_where_nothing_is_managed():
    with a_story(managedResources=["nvidia.com/gpu"]) as story:
        story.create(a_job("train"))
        story.run(20)
        assert story.has("Admitted") and not requests(story)


@pytest.mark.parametrize(
    ("policy", "want"),
    [("", [1, 2, 4]), ("IdenticalPodTemplates", [3, 4]), ("IdenticalWorkloadSchedulingRequirements", [7])],
)
def test_pod_sets_that_are_alike_are_asked_for_together(policy, want):
    with a_story(**({"podSetMergePolicy": policy} if policy else {})) as story:
        story.change("clusterqueues.kueue.x-k8s.io", "main", resourceGroups=_roomy())

        def pod_set(name, count, image="one"):
            container = {"name": "main", "image": image, "resources": {"requests": {"cpu": "1"}}}
            template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
            return {"name": name, "count": count, "template": template}

        sets = [pod_set("a", 1), pod_set("b", 2), pod_set("c", 4, "other")]
        story.create(an_object("Workload", "mixed", {"queueName": "main", "podSets": sets}, namespace="default"))
        story.run(10)
        (request,) = story.world.all(REQUESTS)
        assert [one["count"] for one in request["spec"]["podSets"]] == want


def _roomy():
    flavors = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": "100"}]}]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


# Pools ---------------------------------------------------------------------------------------------------------------


def test_a_pool_grows_until_there_is_room():
    with a_story(OWN, ELASTIC) as story:
        story.create(a_job("train", 3))
        story.run(6)
        assert len(story.world.all("nodes")) == 3 and not story.has("Admitted")
        assert check_of(story)["message"] == "Nodes are added for it."
        story.run(20)
        assert story.has("Admitted") and len(story.pods()) == 3
        assert len({pod["spec"]["nodeName"] for pod in story.pods()}) == 3


def test_what_no_pool_can_give_fails_and_is_tried_again():
    with a_story(OWN, ELASTIC) as story:
        story.create(a_job("train", 4))
        story.run(30)
        assert story.status("Evicted") == ("True", "AdmissionCheck") and not story.world.all("nodes")
        assert story.workload()["status"]["requeueState"]["requeueAt"]
        story.run(60)
        assert requests(story).keys() == {"2"}


def test_room_that_was_promised_is_given_to_nobody_else():
    with a_story(OWN, ELASTIC) as story:
        story.create(a_job("first", 2))
        story.create(a_job("second", 2))
        story.run(30)
        admitted = [name for name in ("first", "second") if story.has("Admitted", name)]
        assert len(admitted) == 1, "three nodes are not enough for both"
        assert len(story.world.all(WORKLOADS)) == 2
