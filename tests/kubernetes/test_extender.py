"""A stock kube-scheduler that asks `muster extender` for shares of cards: placed, written down, bound, never twice."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.apiserver.certificates import client_certificate, prepare
from muster.apiserver.requests import User
from muster.dialects.hami.claims import ALLOCATING, PHASE
from muster.dialects.hami.node_lock import AGENT, BY_UID, FENCE
from muster.model.fields import Fields
from muster.vendors.nvidia import shares_of
from tests.apiserver.cards.world import a_node, a_pod
from tests.kubernetes.plane import POLL_S, STOP_S, Plane, free_ports, process, started

WAIT_S = 120.0
SCHEDULER = "hami-scheduler"
RESOURCES = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage")


@contextmanager
def extender(plane: Plane, folder: Path, port: int) -> Iterator[None]:
    """`muster extender` in a process of its own, which answers whoever has a certificate."""
    files = prepare(folder / "tls", ["127.0.0.1"], time.time())
    (folder / "tls" / "tls.crt").write_bytes(files.certificate.read_bytes())
    (folder / "tls" / "tls.key").write_bytes(files.key.read_bytes())
    certificate, key = client_certificate(files, User("kube-scheduler"), days=1, now_s=time.time())
    (folder / "client.crt").write_bytes(certificate)
    (folder / "client.key").write_bytes(key)
    command = [sys.executable, "-m", "muster.cli.main", "extender", "--kubeconfig", str(plane.kubeconfig)]
    command += ["--certificates", str(folder / "tls"), "--client-ca", str(files.authority)]
    command += ["--client-name", "kube-scheduler", "--host", "127.0.0.1", "--port", str(port)]
    with (
        (folder / "extender.log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as running,
    ):
        try:
            assert running.stdout is not None
            assert running.stdout.readline().startswith(b"Muster answers"), (folder / "extender.log").read_text()
            yield
        finally:
            running.terminate()
            running.wait(STOP_S * 6)


def scheduler_flags(plane: Plane, folder: Path, port: int) -> list[str]:
    """A kube-scheduler that knows of the extender, and leaves cards to it."""
    extending = {
        "urlPrefix": f"https://127.0.0.1:{port}",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "weight": 1,
        "enableHTTPS": True,
        "nodeCacheCapable": True,
        "httpTimeout": "60s",
        "managedResources": [{"name": name, "ignoredByScheduler": True} for name in RESOURCES],
        "tlsConfig": {
            "caFile": str(folder / "tls" / "ca.crt"),
            "certFile": str(folder / "client.crt"),
            "keyFile": str(folder / "client.key"),
        },
    }
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
        "profiles": [{"schedulerName": SCHEDULER}],
        "extenders": [extending],
    }
    (folder / "scheduler.json").write_text(json.dumps(configuration))
    return [f"--config={folder / 'scheduler.json'}", "--secure-port=0"]


def until(read: Any, is_done: Any) -> Any:
    """What is read once it is as wanted; whoever takes very long has failed."""
    deadline = time.monotonic() + WAIT_S
    while not is_done(found := read()):
        assert time.monotonic() < deadline, json.dumps(found)[:3_000]
        time.sleep(POLL_S * 5)
    return found


@pytest.fixture(scope="module")
def world(real_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane of its own: its nodes and its scheduler are nobody else's."""
    folder = tmp_path_factory.mktemp("extender")
    with started(tmp_path_factory.mktemp("plane")) as plane:
        [port] = free_ports(1)
        with extender(plane, folder, port), process(folder, "kube-scheduler", scheduler_flags(plane, folder, port)):
            yield plane


def made_node(plane: Plane, name: str, cards: int, **annotations: str) -> None:
    node = a_node(name, cards, **annotations)
    del node["metadata"]["uid"]
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    node["metadata"]["labels"] = {"place": name}
    assert plane.client.request("POST", "/api/v1/nodes", node).status == 201
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    patch = {"status": status, "spec": {"taints": None}}
    answer = plane.client.request(
        "PATCH", f"/api/v1/nodes/{name}/status", patch, content_type="application/strategic-merge-patch+json"
    )
    assert answer.status == 200
    answer = plane.client.request(
        "PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, content_type="application/merge-patch+json"
    )
    assert answer.status == 200


def made_pod(plane: Plane, name: str, node: str, memory: int) -> None:
    pod = a_pod(name, memory=memory, namespace="default")
    del pod["metadata"]["uid"], pod["status"]
    pod["spec"] |= {"schedulerName": SCHEDULER, "nodeSelector": {"place": node}}
    assert plane.client.request("POST", "/api/v1/namespaces/default/pods", pod).status == 201


def pod_of(plane: Plane, name: str) -> Any:
    return plane.client.request("GET", f"/api/v1/namespaces/default/pods/{name}").json


def test_pods_get_their_cards_from_a_scheduler_that_is_not_ours(world: Plane):
    own = uuid.uuid4().hex[:8]
    node = f"node-{own}"
    made_node(world, node, 2, **{AGENT: BY_UID})
    names = [f"pod-{own}-{number}" for number in range(4)]
    for name in names:
        made_pod(world, name, node, memory=5_000)
    pods = [until(lambda name=name: pod_of(world, name), lambda pod: pod["spec"].get("nodeName")) for name in names]
    used: dict[str, int] = {}
    for pod in pods:
        assert pod["metadata"]["annotations"][PHASE] == ALLOCATING
        for share in (share for shares in shares_of(Fields.of(pod)) for share in shares):
            used[share.uuid] = used.get(share.uuid, 0) + share.memory_mib
    assert used == {f"GPU-{node}-0": 10_000, f"GPU-{node}-1": 10_000}
    assert sorted(int(pod["metadata"]["annotations"][FENCE]) for pod in pods) == [1, 2, 3, 4]


def test_a_pod_for_which_no_card_has_room_waits_and_says_why(world: Plane):
    own = uuid.uuid4().hex[:8]
    node, name = f"node-{own}", f"pod-{own}"
    made_node(world, node, 1, **{AGENT: BY_UID})
    made_pod(world, name, node, memory=20_000)

    def said(pod: Any) -> bool:
        conditions = (pod.get("status") or {}).get("conditions") or ()
        return any("CardInsufficientMemory" in (one.get("message") or "") for one in conditions)

    assert not until(lambda: pod_of(world, name), said)["spec"].get("nodeName")
