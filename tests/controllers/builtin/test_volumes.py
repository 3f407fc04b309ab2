"""Claims get the volumes that they should; folders are made, grow and go with their claims."""

from __future__ import annotations

from typing import Any

import pytest

from muster.controllers.builtin.ephemeral_claims import EphemeralClaims
from muster.controllers.builtin.volumes import Volumes
from muster.store.kinds import Object
from tests.controllers.builtin.volume_stories import (
    CLAIMS,
    CLASSES,
    STORIES,
    VOLUMES,
    claim,
    numbered,
    outcome,
    play,
    reasons,
)
from tests.controllers.builtin.workload_cluster import Cluster, played
from tests.kubernetes.workload_sides import Ours

LOCAL = {"provisioner": "muster.dev/local", "parameters": {"path": "/volumes"}, "allowVolumeExpansion": True}


@pytest.mark.parametrize("number", range(len(STORIES)), ids=lambda number: STORIES[number].title)
def test_a_story_ends_as_it_should(number: int) -> None:
    async def story() -> None:
        cluster = Cluster([Volumes])
        side = Ours(cluster)
        for act in numbered(STORIES[number], number).acts:
            await play(act, side)
            await cluster.settle()
        assert await outcome(side, number) == STORIES[number].want
        for name, wanted in STORIES[number].told.items():
            assert wanted <= (await reasons(side, number)).get(name, set())
        await cluster.stop()

    played(story)


async def with_class(cluster: Cluster, **more: Any) -> None:
    given = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}, **LOCAL, **more}
    await cluster.create(CLASSES, given)


async def with_claim(cluster: Cluster, name: str = "c", **spec: Any) -> None:
    await cluster.create(CLAIMS, claim(name, storageClassName="local", **spec)[2])
    await cluster.settle()


def only_volume(cluster: Cluster) -> Object:
    (found,) = cluster.all(VOLUMES)
    return found


def test_a_folder_is_made_and_goes_with_its_claim() -> None:
    async def story() -> None:
        cluster = Cluster([Volumes])
        await with_class(cluster)
        await with_claim(cluster)
        made = only_volume(cluster)
        uid = cluster.get(CLAIMS, "c")["metadata"]["uid"]
        assert made["metadata"]["name"] == f"pvc-{uid}"
        assert made["spec"]["hostPath"] == {"path": f"/volumes/pvc-{uid}", "type": "DirectoryOrCreate"}
        assert cluster.get(CLAIMS, "c")["status"] == {
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
        }
        assert {one["reason"] for one in cluster.all("events")} == {"ProvisioningSucceeded"}
        await cluster.delete(CLAIMS, "c")
        await cluster.settle()
        assert cluster.all(VOLUMES) == []
        await cluster.stop()

    played(story)


def test_a_folder_that_is_to_be_kept_stays_released() -> None:
    async def story() -> None:
        cluster = Cluster([Volumes])
        await with_class(cluster, reclaimPolicy="Retain")
        await with_claim(cluster)
        await cluster.delete(CLAIMS, "c")
        await cluster.settle()
        assert only_volume(cluster)["status"]["phase"] == "Released"
        await cluster.stop()

    played(story)


def test_a_claim_that_grows_has_more_at_once() -> None:
    async def story() -> None:
        cluster = Cluster([Volumes])
        await with_class(cluster)
        await with_claim(cluster)

        def grow(given: Any) -> None:
            given["spec"]["resources"]["requests"]["storage"] = "3Gi"

        await cluster.change(CLAIMS, "c", grow)
        await cluster.settle()
        assert only_volume(cluster)["spec"]["capacity"] == {"storage": "3Gi"}
        assert cluster.get(CLAIMS, "c")["status"]["capacity"] == {"storage": "3Gi"}
        await cluster.stop()

    played(story)


def test_a_class_that_waits_makes_the_folder_on_the_node_of_the_first_pod() -> None:
    async def story() -> None:
        cluster = Cluster([Volumes])
        await cluster.add_node("node-1", **{"kubernetes.io/hostname": "node-1"})
        await with_class(cluster, volumeBindingMode="WaitForFirstConsumer")
        await with_claim(cluster)
        assert cluster.all(VOLUMES) == []

        def choose(given: Any) -> None:
            given["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "node-1"}

        await cluster.change(CLAIMS, "c", choose)
        await cluster.settle()
        term = only_volume(cluster)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
        assert term == {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
        assert cluster.get(CLAIMS, "c")["status"]["phase"] == "Bound"
        await cluster.stop()

    played(story)


def test_a_node_that_is_gone_is_chosen_anew() -> None:
    async def story() -> None:
        cluster = Cluster([Volumes])
        await with_class(cluster, volumeBindingMode="WaitForFirstConsumer")
        given = claim("c", storageClassName="local")[2]
        given["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "gone"}
        await cluster.create(CLAIMS, given)
        await cluster.settle()
        assert "volume.kubernetes.io/selected-node" not in cluster.get(CLAIMS, "c")["metadata"].get("annotations", {})
        await cluster.stop()

    played(story)


@pytest.mark.parametrize(
    ("parameters", "spec", "why"),
    [
        pytest.param({}, {}, "no parameter 'path'", id="no path"),
        pytest.param({"path": "here"}, {}, "no parameter 'path'", id="half a path"),
        pytest.param({"path": "/v"}, {"volumeMode": "Block"}, "no block volumes", id="a block volume"),
        pytest.param(
            {"path": "/v"},
            {"dataSource": {"kind": "PersistentVolumeClaim", "name": "d"}},
            "no copies",
            id="a copy",
        ),
    ],
)
def test_what_cannot_be_made_is_told(parameters: dict[str, str], spec: dict[str, Any], why: str) -> None:
    async def story() -> None:
        cluster = Cluster([Volumes])
        await with_class(cluster, parameters=parameters)
        await with_claim(cluster, **spec)
        (event,) = cluster.all("events")
        assert event["reason"] == "ProvisioningFailed" and why in event["message"]
        assert cluster.get(CLAIMS, "c")["status"] == {"phase": "Pending"}
        await cluster.stop()

    played(story)


EPHEMERAL = {
    "name": "v",
    "ephemeral": {
        "volumeClaimTemplate": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    },
}


def pod(name: str) -> Object:
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [EPHEMERAL]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "x"}, "spec": spec}


def test_an_ephemeral_volume_has_a_claim_that_goes_with_its_pod() -> None:
    async def story() -> None:
        cluster = Cluster([EphemeralClaims])
        await cluster.create("pods", pod("p"))
        await cluster.settle()
        made = cluster.get(CLAIMS, "p-v")["metadata"]
        assert made["labels"] == {"a": "b"}
        assert [(one["kind"], one["name"], one["controller"]) for one in made["ownerReferences"]] == [
            ("Pod", "p", True)
        ]
        await cluster.delete("pods", "p")
        await cluster.settle()
        assert cluster.all(CLAIMS) == []
        await cluster.stop()

    played(story)


def test_a_claim_of_that_name_that_is_another_s_is_not_taken() -> None:
    async def story() -> None:
        cluster = Cluster([EphemeralClaims])
        await cluster.create(CLAIMS, claim("p-v")[2])
        await cluster.create("pods", pod("p"))
        await cluster.settle()
        (event,) = cluster.all("events")
        assert event["message"] == (
            "ephemeral volume controller: PVC x/p-v was not created for pod x/p (pod is not owner)"
        )
        await cluster.stop()

    played(story)
