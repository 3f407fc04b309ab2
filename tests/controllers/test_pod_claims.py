"""Pods go where their claims let them, and say why not in the words that users know."""

from __future__ import annotations

from typing import Any

from muster.store.kinds import Object
from muster.store.objects import Part
from muster.store.records import Key
from tests.controllers.cluster import WORKLOADS, Cluster, node, pod, queue, workload
from tests.controllers.test_scheduler import story

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"
BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
UNBOUND = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."


def using(name: str, claim: str, of: str = "", **source: Any) -> Object:
    """A pod that uses a claim."""
    given = pod(name, of)
    given["spec"]["volumes"] = [{"name": "v", **(source or {"persistentVolumeClaim": {"claimName": claim}})}]
    return given


async def add_class(cluster: Cluster, name: str, provisioner: str, mode: str) -> None:
    given = {"provisioner": provisioner, "volumeBindingMode": mode, "metadata": {"name": name}}
    await cluster.add(CLASSES, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **given})


async def add_claim(cluster: Cluster, name: str, class_name: str = "") -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "namespace": "team"}
    given = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    await cluster.add(CLAIMS, {**given, "spec": {**spec, "storageClassName": class_name}})


async def add_volume(cluster: Cluster, name: str, on: str, class_name: str = "") -> None:
    """A volume that one node reaches, and that nobody has."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/x"}}
    spec |= {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, "storageClassName": class_name}
    given = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    await cluster.add(VOLUMES, given)
    await cluster.set_status(VOLUMES, name, {"phase": "Available"}, "")


async def bind(cluster: Cluster, claim: str, volume: str) -> None:
    """Do what the controller of volumes does."""
    given = cluster.get(CLAIMS, claim)
    given["metadata"].setdefault("annotations", {})[BOUND] = "yes"
    given["spec"]["volumeName"] = volume
    kept = await cluster.plain.update(Key(CLAIMS, "team", claim), given)
    kept["status"] = {"phase": "Bound"}
    await cluster.plain.update(Key(CLAIMS, "team", claim), kept, Part.STATUS)


def told(cluster: Cluster, name: str) -> str:
    return cluster.message(name, "PodScheduled", "pods")


@story
async def test_a_claim_that_is_not_there(cluster):
    await cluster.set_up(nodes=[node("n"), node("m")])
    await cluster.start()
    await cluster.add("pods", using("p", "data"))
    await cluster.settle()
    assert told(cluster, "p") == '0/2 nodes are available: persistentvolumeclaim "data" not found.'
    (event,) = cluster.all("events")
    assert (event["reason"], event["message"]) == ("FailedScheduling", told(cluster, "p"))
    await add_claim(cluster, "data")
    await cluster.settle()
    assert told(cluster, "p") == UNBOUND
    assert cluster.nodes_of_pods() == {"p": ""}


@story
async def test_a_pod_follows_the_volume_of_its_claim(cluster):
    await cluster.set_up(nodes=[node("n"), node("m")])
    await cluster.start()
    await add_claim(cluster, "data")
    await add_volume(cluster, "disk", on="m")
    await cluster.add("pods", using("p", "data"))
    await cluster.settle()
    assert told(cluster, "p") == UNBOUND
    await bind(cluster, "data", "disk")
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"p": "m"}


@story
async def test_a_volume_that_is_seen_after_its_claim(cluster):
    await cluster.set_up(nodes=[node("n"), node("m")])
    await cluster.start()
    await add_claim(cluster, "data")
    await bind(cluster, "data", "disk")
    await cluster.add("pods", using("p", "data"))
    await cluster.settle()
    assert told(cluster, "p") == '0/2 nodes are available: persistentvolume "disk" not found.'
    await add_volume(cluster, "disk", on="m")
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"p": "m"}


@story
async def test_a_workload_follows_the_volume_of_the_claim_in_its_template(cluster):
    await cluster.set_up(queue("q", {"cpu": "4"}), nodes=[node("m"), node("n"), node("o")])
    await cluster.start()
    await add_claim(cluster, "data")
    await add_volume(cluster, "disk", on="o")
    await cluster.add(WORKLOADS, workload("first", "q", 1, cpu="4"))
    await cluster.settle()
    assert cluster.message("first", "muster.dev/Slots") == '{"main":[["m"]]}'
    given = workload("w", "q", 1, cpu="2")
    claims = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    given["spec"]["podSets"][0]["template"]["spec"]["volumes"] = claims
    await cluster.add(WORKLOADS, given)
    await cluster.settle()
    assert not cluster.is_admitted("w"), "there is no quota yet"
    await bind(cluster, "data", "disk")
    await cluster.settle()
    await cluster.remove(WORKLOADS, "first")
    await cluster.settle()
    assert cluster.message("w", "muster.dev/Slots") == '{"main":[["o"]]}'


@story
async def test_a_volume_that_no_node_reaches(cluster):
    await cluster.set_up(nodes=[node("n"), node("m")])
    await cluster.start()
    await add_claim(cluster, "data")
    await add_volume(cluster, "disk", on="elsewhere")
    await bind(cluster, "data", "disk")
    await cluster.add("pods", using("p", "data"))
    await cluster.settle()
    assert told(cluster, "p") == "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."
    await cluster.add_node(node("elsewhere"))
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"p": "elsewhere"}


@story
async def test_a_claim_that_is_lost_or_leaves_keeps_its_pods_waiting(cluster):
    await cluster.set_up(nodes=[node("n")])
    await cluster.start()
    for name in ("lost", "leaving"):
        await add_claim(cluster, name)
        await bind(cluster, name, "disk")
    await cluster.set_status(CLAIMS, "lost", {"phase": "Lost"})
    given = cluster.get(CLAIMS, "leaving")
    given["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
    await cluster.plain.update(Key(CLAIMS, "team", "leaving"), given)
    await cluster.remove(CLAIMS, "leaving")
    await cluster.add("pods", using("p", "lost"))
    await cluster.add("pods", using("q", "leaving"))
    await cluster.settle()
    start = "0/1 nodes are available: persistentvolumeclaim"
    assert told(cluster, "p") == f'{start} "lost" bound to non-existent persistentvolume "disk".'
    assert told(cluster, "q") == f'{start} "leaving" is being deleted.'


@story
async def test_a_class_that_waits_hears_of_the_node_first(cluster):
    await cluster.set_up(nodes=[node("n"), node("m")])
    await add_class(cluster, "late", "example.com/disks", "WaitForFirstConsumer")
    await cluster.start()
    await add_claim(cluster, "data", "late")
    await cluster.add("pods", using("p", "data"))
    await cluster.settle()
    chosen = cluster.get(CLAIMS, "data")["metadata"]["annotations"][SELECTED]
    assert cluster.nodes_of_pods() == {"p": ""}, "it is bound when its claim is"
    await add_volume(cluster, "disk", on=chosen, class_name="late")
    await bind(cluster, "data", "disk")
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"p": chosen}


@story
async def test_volumes_that_are_there_decide_on_the_node(cluster):
    await cluster.set_up(nodes=[node("n"), node("m")])
    await add_class(cluster, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
    await cluster.start()
    await add_claim(cluster, "data", "static")
    await cluster.add("pods", using("p", "data"))
    await cluster.settle()
    none_free = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    assert told(cluster, "p") == none_free
    await add_volume(cluster, "disk", on="m", class_name="static")
    await cluster.settle()
    assert cluster.get(CLAIMS, "data")["metadata"]["annotations"][SELECTED] == "m"
    await bind(cluster, "data", "disk")
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"p": "m"}


@story
async def test_two_claims_cannot_have_the_same_volume(cluster):
    await cluster.set_up(nodes=[node("n")])
    await add_class(cluster, "static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
    await add_volume(cluster, "disk", on="n", class_name="static")
    await cluster.start()
    for name in ("a", "b"):
        await add_claim(cluster, name, "static")
    given = using("p", "a")
    given["spec"]["volumes"].append({"name": "w", "persistentVolumeClaim": {"claimName": "b"}})
    await cluster.add("pods", given)
    await cluster.settle()
    assert told(cluster, "p") == (
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
    )


@story
async def test_an_ephemeral_volume_waits_for_its_claim(cluster):
    await cluster.set_up(nodes=[node("n")])
    await cluster.start()
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.add("pods", using("p", "", ephemeral={"volumeClaimTemplate": {"spec": spec}}))
    await cluster.settle()
    start = "0/1 nodes are available:"
    waits = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"'
    assert told(cluster, "p") == f"{start} {waits}."
    await add_claim(cluster, "p-v")
    await cluster.settle()
    assert told(cluster, "p") == f"{start} PVC team/p-v was not created for pod team/p (pod is not owner)."


@story
async def test_a_pod_of_a_workload_waits_for_its_claim_too(cluster):
    await cluster.set_up(queue("q", {"cpu": "4"}), nodes=[node("n")])
    await add_class(cluster, "late", "example.com/disks", "WaitForFirstConsumer")
    await cluster.start()
    await cluster.add(WORKLOADS, workload("w", "q", 2))
    await cluster.add("pods", using("p", "data", of="w"))
    await cluster.add("pods", using("r", "late", of="w"))
    await add_claim(cluster, "late", "late")
    await cluster.settle()
    assert told(cluster, "p") == '0/1 nodes are available: persistentvolumeclaim "data" not found.'
    assert cluster.get(CLAIMS, "late")["metadata"]["annotations"][SELECTED] == "n"
    await add_claim(cluster, "data")
    for name in ("data", "late"):
        await add_volume(cluster, f"disk-{name}", on="n", class_name="late" if name == "late" else "")
        await bind(cluster, name, f"disk-{name}")
    await cluster.settle()
    assert cluster.nodes_of_pods() == {"p": "n", "r": "n"}
