"""Stories about workloads: what people and kubelets do, step by step. Played to both sides of a comparison."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from muster.controllers.builtin.daemonset_nodes import node_of
from tests.controllers.builtin.workload_cluster import template, workload
from tests.kubernetes.client import Json
from tests.kubernetes.workload_sides import Side

Act = Callable[[Side], Awaitable[None]]
HOLD = "example.com/hold"


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens, and how long it takes until its effects are there."""

    what: str
    act: Act
    wait_s: float = 0.0


def create(resource: str, given: Json) -> Step:
    return Step(f"create {resource} {given['metadata']['name']}", lambda side: side.create(resource, given))


def patch(resource: str, change: Json, name: str = "a") -> Step:
    return Step(f"patch {resource} {change}", lambda side: side.patch(resource, name, change))


def delete(resource: str, name: str = "a", propagation: str = "Background") -> Step:
    return Step(f"delete {resource} {name} {propagation}", lambda side: side.delete(resource, name, propagation))


def wait(seconds: float) -> Step:
    async def act(side: Side) -> None:
        return None

    return Step(f"wait {seconds} s", act, seconds)


def run(count: int = 100, *, image: str = "", phase: str = "Running", is_ready: bool = True, ip: str = "") -> Step:
    """Have some pods that have not come so far reach a state."""

    async def act(side: Side) -> None:
        left = count
        for number, pod in enumerate(_in_order(await side.all("pods"))):
            is_meant = not image or pod["spec"]["containers"][0]["image"] == image
            if left and is_meant and _state(pod) != (phase, is_ready) and "deletionTimestamp" not in pod["metadata"]:
                left -= 1
                address = f"{ip}{number + 1}" if ip else ""
                await side.put_status("pods", pod["metadata"]["name"], _reached(side.now(), phase, is_ready, address))

    return Step(f"{count} pods of {image or 'any image'} are {phase}, ready {is_ready}", act)


def bind() -> Step:
    """Have the pods of daemon sets placed on the nodes that they are made for."""

    async def act(side: Side) -> None:
        for pod in await side.all("pods"):
            if not pod["spec"].get("nodeName") and (target := node_of(pod)):
                await side.bind(pod["metadata"]["name"], target)

    return Step("pods are placed", act)


def remove(count: int = 1, *, image: str = "") -> Step:
    """Have somebody delete some pods."""

    async def act(side: Side) -> None:
        pods = [
            pod
            for pod in _in_order(await side.all("pods"))
            if not image or pod["spec"]["containers"][0]["image"] == image
        ]
        for pod in pods[:count]:
            await side.delete("pods", pod["metadata"]["name"])

    return Step(f"{count} pods are deleted", act)


def let_go() -> Step:
    """Have the pods go that wait for their finalizer."""

    async def act(side: Side) -> None:
        for pod in await side.all("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                if pod["metadata"].get("finalizers"):
                    await side.patch("pods", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
                if pod["spec"].get("nodeName"):
                    await side.delete("pods", pod["metadata"]["name"], grace_s=0)

    return Step("pods are let go", act)


def node(name: str, taints: list[Json] | None = None, **labels: str) -> Step:
    """A node that is ready."""

    async def act(side: Side) -> None:
        given = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        await side.create("nodes", {**given, "spec": {"taints": taints or []}})

        def how(given: Json) -> None:
            condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            at = {"lastHeartbeatTime": side.now(), "lastTransitionTime": side.now()}
            given["status"] = {**given.get("status", {}), "conditions": [{**condition, **at}]}

        await side.put_status("nodes", name, how)
        await side.patch("nodes", name, {"spec": {"taints": taints}})

    return Step(f"node {name}", act)


def _in_order(pods: list[Json]) -> list[Json]:
    def place(pod: Json) -> tuple[str, str, str]:
        metadata = pod["metadata"]
        return pod["spec"]["containers"][0]["image"], metadata["creationTimestamp"], metadata["name"]

    return sorted(pods, key=place)


def _state(pod: Json) -> tuple[Any, bool]:
    status = pod.get("status", {})
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
    return status.get("phase"), ready


def _reached(now: str, phase: str, is_ready: bool, address: str) -> Callable[[Json], None]:
    def how(pod: Json) -> None:
        status = pod.setdefault("status", {})
        condition = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": now}
        others = [one for one in status.get("conditions", ()) if one["type"] != "Ready"]
        status["phase"], status["conditions"] = phase, [*others, condition]
        if address:
            status["podIP"], status["podIPs"] = address, [{"ip": address}]

    return how


def shape(image: str = "i:1", *, is_held: bool = False, **spec: Any) -> Json:
    """A template of pods that no scheduler looks at."""
    made = template(image=image, schedulerName="nobody", **spec)
    if is_held:
        made["metadata"]["finalizers"] = [HOLD]
    return made


def image(text: str) -> Json:
    """The change of a workload to another image."""
    return {"spec": {"template": shape(text)}}


DEPLOYMENTS, SETS = "deployments.apps", "replicasets.apps"
STATEFUL, DAEMON = "statefulsets.apps", "daemonsets.apps"
BUDGETS = "poddisruptionbudgets.policy"


def rolling(surge: int | str, unavailable: int | str) -> Json:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def _service(name: str = "a", **spec: Any) -> Json:
    whole = {"selector": {"app": "a"}, "ports": [{"name": "web", "port": 80, "targetPort": "http"}], **spec}
    metadata = {"name": name, "namespace": "x", "labels": {"team": "t"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": whole}


def _budget(name: str, **spec: Any) -> Json:
    whole = {"selector": {"matchLabels": {"app": "a"}}, **spec}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "x"},
        "spec": whole,
    }


CLAIM = {
    "metadata": {"name": "d"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
PORTS = {"containers": [{"name": "c", "image": "i:1", "ports": [{"name": "http", "containerPort": 8080}]}]}
ORPHAN = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "orphan", "namespace": "x", "labels": {"app": "a"}},
    "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i:0"}]},
}

STORIES: dict[str, list[Step]] = {
    "a replica set keeps its size": [
        create("pods", ORPHAN),
        create(SETS, workload("ReplicaSet", template=shape())),
        run(2),
        run(),
        remove(),
        patch(SETS, {"spec": {"replicas": 1}}),
        patch(SETS, {"spec": {"replicas": 0}}),
        patch(SETS, {"spec": {"replicas": 2, "minReadySeconds": 3}}),
        run(),
        wait(4.0),
        run(phase="Failed", is_ready=False, count=1),
    ],
    "a pod is let go by its labels": [
        create(SETS, workload("ReplicaSet", replicas=1, template=shape())),
        Step(
            "another label",
            lambda side: _relabel(side, {"metadata": {"labels": {"app": "b"}}}),
        ),
        run(),
        delete(SETS, propagation="Orphan"),
    ],
    "a replica set shows pods on their way out": [
        create(SETS, workload("ReplicaSet", replicas=2, template=shape(is_held=True))),
        run(),
        remove(1),
        patch(SETS, {"spec": {"replicas": 0}}),
        let_go(),
    ],
    "a deployment rolls": [
        create(DEPLOYMENTS, workload("Deployment", replicas=4, template=shape())),
        run(2),
        run(),
        patch(DEPLOYMENTS, {**image("i:2"), "metadata": {"annotations": {"kubernetes.io/change-cause": "two"}}}),
        run(1, image="i:2"),
        run(image="i:2"),
        run(image="i:2"),
        run(image="i:2"),
        patch(DEPLOYMENTS, image("i:3")),
        patch(DEPLOYMENTS, image("i:1")),
        run(image="i:1"),
        run(image="i:1"),
        run(image="i:1"),
        run(image="i:1"),
    ],
    "a deployment is resized in the middle": [
        create(DEPLOYMENTS, workload("Deployment", replicas=10, strategy=rolling(3, 2), template=shape())),
        run(),
        patch(DEPLOYMENTS, image("i:2")),
        patch(DEPLOYMENTS, {"spec": {"replicas": 20}}),
        patch(DEPLOYMENTS, {"spec": {"replicas": 7}}),
        run(image="i:2"),
        run(image="i:2"),
        run(image="i:2"),
        patch(DEPLOYMENTS, {"spec": {"replicas": 0}}),
    ],
    "a deployment is put up anew": [
        create(DEPLOYMENTS, workload("Deployment", replicas=2, strategy={"type": "Recreate"}, template=shape())),
        run(),
        patch(DEPLOYMENTS, {"spec": {"template": shape("i:2", is_held=True)}}),
        run(),
        patch(DEPLOYMENTS, image("i:3")),
        let_go(),
        run(),
    ],
    "a deployment is paused": [
        create(DEPLOYMENTS, workload("Deployment", replicas=2, template=shape())),
        run(),
        patch(DEPLOYMENTS, {"spec": {"paused": True}}),
        patch(DEPLOYMENTS, image("i:2")),
        patch(DEPLOYMENTS, {"spec": {"replicas": 3}}),
        patch(DEPLOYMENTS, {"spec": {"paused": False}}),
        run(),
        run(),
        run(),
        run(),
    ],
    "a deployment takes too long": [
        create(DEPLOYMENTS, workload("Deployment", replicas=1, progressDeadlineSeconds=2, template=shape())),
        wait(4.0),
        run(),
    ],
    "a deployment forgets old sets": [
        create(DEPLOYMENTS, workload("Deployment", replicas=1, revisionHistoryLimit=1, template=shape())),
        run(),
        patch(DEPLOYMENTS, image("i:2")),
        run(),
        patch(DEPLOYMENTS, image("i:3")),
        run(),
        patch(DEPLOYMENTS, {"spec": {"minReadySeconds": 3}}),
        wait(4.0),
        delete(DEPLOYMENTS, propagation="Foreground"),
    ],
    "a deployment adopts a set": [
        create(DEPLOYMENTS, workload("Deployment", replicas=1, template=shape())),
        run(),
        delete(DEPLOYMENTS, propagation="Orphan"),
        create(DEPLOYMENTS, workload("Deployment", replicas=2, progressDeadlineSeconds=None, template=shape())),
        run(),
    ],
    "a stateful set grows and rolls in order": [
        create(STATEFUL, workload("StatefulSet", serviceName="s", volumeClaimTemplates=[CLAIM], template=shape())),
        run(is_ready=False),
        run(),
        run(),
        run(),
        patch(STATEFUL, image("i:2")),
        run(),
        run(),
        run(),
        patch(STATEFUL, {"spec": {"replicas": 1}}),
        patch(STATEFUL, image("i:1")),
        run(),
        remove(),
        run(phase="Failed", is_ready=False),
        run(),
    ],
    "a stateful set all at once, from a number, up to a partition": [
        create(
            STATEFUL,
            workload(
                "StatefulSet",
                podManagementPolicy="Parallel",
                serviceName="s",
                ordinals={"start": 5},
                minReadySeconds=3,
                updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
                template=shape(),
            ),
        ),
        run(),
        wait(4.0),
        patch(STATEFUL, image("i:2")),
        run(),
        wait(4.0),
        remove(3),
        run(),
        wait(4.0),
        patch(STATEFUL, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
        patch(STATEFUL, {"spec": {"replicas": 1}}),
    ],
    "a stateful set only on deletion": [
        create(STATEFUL, workload("StatefulSet", updateStrategy={"type": "OnDelete"}, replicas=2, template=shape())),
        run(),
        run(),
        patch(STATEFUL, image("i:2")),
        remove(1),
        run(),
        delete(STATEFUL),
    ],
    "a stateful set deletes its claims": [
        create(
            STATEFUL,
            workload(
                "StatefulSet",
                replicas=2,
                serviceName="s",
                podManagementPolicy="Parallel",
                volumeClaimTemplates=[CLAIM],
                persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"},
                template=shape(is_held=True),
            ),
        ),
        run(),
        patch(STATEFUL, {"spec": {"replicas": 1}}),
        patch(STATEFUL, {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}}),
    ],
    "endpoints follow pods": [
        node("ghost"),
        create("services", _service()),
        create("services", _service("headless", clusterIP="None", ports=None)),
        create("services", _service("early", publishNotReadyAddresses=True, ports=[{"port": 81}])),
        create(SETS, workload("ReplicaSet", replicas=2, template=shape(is_held=True, nodeName="ghost", **PORTS))),
        run(is_ready=False, ip="10.1.0."),
        run(1),
        run(),
        patch("services", {"metadata": {"labels": {"team": "u"}}}),
        remove(1),
        let_go(),
        patch(SETS, {"spec": {"replicas": 0}}),
        let_go(),
        delete("services"),
        delete("nodes", "ghost"),
    ],
    **{
        f"a budget of {text} follows pods": [
            create(DEPLOYMENTS, workload("Deployment", replicas=3, template=shape())),
            create(BUDGETS, _budget("a", **bound)),
            run(1),
            run(),
            patch(DEPLOYMENTS, {"spec": {"replicas": 5}}),
            run(),
            patch(BUDGETS, {"spec": dict.fromkeys(bound, 4)}),
            create("pods", ORPHAN),
            run(),
        ]
        for text, bound in {
            "at least one": {"minAvailable": 1},
            "half": {"minAvailable": "50%"},
            "one missing": {"maxUnavailable": 1},
            "a third missing": {"maxUnavailable": "34%"},
        }.items()
    },
}
NODE_STORIES: dict[str, list[Step]] = {
    "a daemon set follows nodes": [
        node("node-1", disk="ssd"),
        node("node-2", disk="ssd"),
        create(DAEMON, workload("DaemonSet", replicas=None, template=shape(nodeSelector={"disk": "ssd"}))),
        bind(),
        run(),
        node("node-3", disk="ssd"),
        node("node-4"),
        node("node-5", [{"key": "k", "value": "v", "effect": "NoSchedule"}], disk="ssd"),
        bind(),
        run(),
        patch(DAEMON, {"spec": {"template": shape("i:2", nodeSelector={"disk": "ssd"})}}),
        let_go(),
        bind(),
        run(image="i:2"),
        let_go(),
        bind(),
        run(image="i:2"),
        let_go(),
        bind(),
        run(image="i:2"),
        patch("nodes", {"metadata": {"labels": {"disk": "hdd"}}}, "node-1"),
        let_go(),
        patch("nodes", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}, "node-2"),
        let_go(),
        patch("nodes", {"spec": {"unschedulable": True}}, "node-3"),
        run(phase="Failed", is_ready=False),
        let_go(),
        delete(DAEMON),
        let_go(),
        delete("nodes", "node-3"),
        delete("nodes", "node-1"),
        delete("nodes", "node-2"),
        delete("nodes", "node-4"),
        delete("nodes", "node-5"),
    ],
    "a daemon set surges": [
        node("node-8"),
        node("node-9"),
        create(
            DAEMON,
            workload("DaemonSet", replicas=None, updateStrategy=rolling(1, 0), minReadySeconds=3, template=shape()),
        ),
        bind(),
        run(),
        wait(4.0),
        patch(DAEMON, image("i:2")),
        bind(),
        run(image="i:2"),
        wait(4.0),
        let_go(),
        bind(),
        run(image="i:2"),
        wait(4.0),
        let_go(),
        delete(DAEMON),
        let_go(),
        delete("nodes", "node-8"),
        delete("nodes", "node-9"),
    ],
}


async def _relabel(side: Side, change: Json) -> None:
    pods = await side.all("pods")
    await side.patch("pods", pods[0]["metadata"]["name"], change)
