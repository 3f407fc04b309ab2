"""A manager with the rights of an installation and no others brings a job from its queue to its end."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from muster.apiserver.hooks.configurations import Reached, conversion
from muster.app.config import Configuration
from muster.app.hooks import configurations
from muster.app.monitoring import METRICS
from muster.app.rights import metrics_rules
from muster.dialects.kueue.definitions import definitions
from tests.kubernetes.client import Client
from tests.kubernetes.managed import DEFINITIONS, managed, wait_established
from tests.kubernetes.plane import POLL_S, Plane, free_ports, started
from tools.deploy import ACCOUNT, MANIFESTS, NAMESPACE

Object = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
TEAM = "/api/v1/namespaces/team"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
MERGE = "application/merge-patch+json"
WAIT_S = 300
NOW = "2030-01-31T12:00:00Z"
QUEUES: tuple[tuple[str, Object], ...] = (
    (f"{KUEUE}/resourceflavors", {"kind": "ResourceFlavor", "metadata": {"name": "any"}}),
    (
        f"{KUEUE}/clusterqueues",
        {
            "kind": "ClusterQueue",
            "metadata": {"name": "all"},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": 4}]}],
                    }
                ],
            },
        },
    ),
    (
        f"{KUEUE}/namespaces/team/localqueues",
        {"kind": "LocalQueue", "metadata": {"name": "default"}, "spec": {"clusterQueue": "all"}},
    ),
)
CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: {namespace}
webhook: {{host: 127.0.0.1, port: {port}}}
metrics: {{bindAddress: "127.0.0.1:{metrics}"}}
health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
integrations: {{frameworks: [batch/job, pod]}}
"""
POD: Object = {
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
}


class World(NamedTuple):
    """A cluster, the same as Muster's account sees it, and where a manager answers."""

    plane: Plane
    account: Plane
    url: str
    metrics: str
    health: str


@pytest.fixture
def world(real_program, tmp_path: Path) -> Iterator[World]:
    """A real server with Muster's files and one node, that asks the webhooks of a process beside it."""
    port, metrics, health = free_ports(3)
    reached = Reached(url=f"https://127.0.0.1:{port}")
    with started(tmp_path) as plane:
        plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(MANIFESTS))
        plane.kubectl("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "muster")
        for definition in definitions(conversion(reached)):
            _make(plane.client, DEFINITIONS, definition)
        wait_established(plane)
        for one in configurations(Configuration(), reached, own_user=ACCOUNT):
            _make(plane.client, f"/apis/admissionregistration.k8s.io/v1/{one['kind'].lower()}s", one)
        plane.kubectl("create", "namespace", "team")
        _make(plane.client, "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}})
        room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
        _patch(plane.client, "/api/v1/nodes/n1/status", status)
        _patch(plane.client, "/api/v1/nodes/n1", {"spec": {"taints": None}})
        ports = {"port": port, "metrics": metrics, "health": health}
        (tmp_path / "muster.yaml").write_text(CONFIGURATION.format(namespace=NAMESPACE, **ports))
        account = _account(plane, tmp_path / "account")
        yield World(plane, account, reached.url, f"https://127.0.0.1:{metrics}", f"http://127.0.0.1:{health}")


def _account(plane: Plane, folder: Path) -> Plane:
    """The same cluster as the service account of the installation sees it."""
    token = plane.kubectl("create", "token", "muster-controller-manager", "-n", NAMESPACE).strip()
    configuration = json.loads(plane.kubeconfig.read_text())
    configuration["users"][0]["user"] = {"token": token}
    configuration["contexts"][0]["context"]["namespace"] = NAMESPACE  # as for a pod: the lease is there
    folder.mkdir()
    (folder / "kubeconfig").write_text(json.dumps(configuration))
    return Plane(url=plane.url, token=token, folder=folder)


def test_a_job_runs_with_the_rights_of_the_installation(world: World, tmp_path: Path) -> None:
    client = world.plane.client
    _allow_metrics(world.plane)
    options = ("--config", str(tmp_path / "muster.yaml"), "--webhooks", world.url)
    with managed(world.account, tmp_path, *options):
        for path, body in QUEUES:
            _make_once_asked(client, path, {"apiVersion": "kueue.x-k8s.io/v1beta2", **body})
        marked = {"muster.dev/default-queue": "true"}
        _wait(client, "/api/v1/namespaces/team", lambda one: marked.items() <= one["metadata"]["labels"].items())
        job = _make(client, JOBS, _job())
        assert job["spec"]["suspend"] is True
        started_job = _wait(client, f"{JOBS}/train", lambda one: one["spec"]["suspend"] is False)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}
        labels = {"batch.kubernetes.io/job-name": "train", **started_job["spec"]["template"]["metadata"]["labels"]}
        metadata = {"name": "train-1", "labels": labels, "ownerReferences": [{**owner, "controller": True}]}
        spec = started_job["spec"]["template"]["spec"]
        _make(client, f"{TEAM}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        _wait(client, f"{TEAM}/pods/train-1", lambda one: one["spec"].get("nodeName") == "n1")
        _patch(client, f"{JOBS}/train/status", {"status": _complete()})
        _wait(client, f"{KUEUE}/namespaces/team/workloads", _is_finished)
        _wait(client, f"{KUEUE}/clusterqueues/all", lambda one: bool((one.get("status") or {}).get("conditions")))
        older = client.request("GET", "/apis/kueue.x-k8s.io/v1beta1/clusterqueues/all")
        assert older.status == 200, older.body
        _check_pages(world)
    log = (tmp_path / "manage.log").read_text()
    assert "forbidden" not in log.lower(), log[-3000:]


def _allow_metrics(plane: Plane) -> None:
    """What the chart adds where metrics are wanted: Muster may ask who reads them, and somebody may."""
    reading = [{"nonResourceURLs": [METRICS], "verbs": ["get"]}]
    for name, rules, account in (
        ("metrics-auth", metrics_rules(), "muster-controller-manager"),
        ("metrics-reader", reading, "watcher"),
    ):
        role = {"apiVersion": RIGHTS.removeprefix("/apis/"), "kind": "ClusterRole", "metadata": {"name": name}}
        _make(plane.client, f"{RIGHTS}/clusterroles", {**role, "rules": rules})
        plane.kubectl(
            "create", "clusterrolebinding", name, f"--clusterrole={name}", f"--serviceaccount={NAMESPACE}:{account}"
        )
    plane.kubectl("create", "serviceaccount", "watcher", "-n", NAMESPACE)


def _check_pages(world: World) -> None:
    """Figures are for those who may read them, and health is for everybody."""
    token = world.plane.kubectl("create", "token", "watcher", "-n", NAMESPACE).strip()
    answers = {}
    for who, shown in (("nobody", None), ("itself", world.account.token), ("watcher", token), ("liar", "made-up")):
        headers = {} if shown is None else {"Authorization": f"Bearer {shown}"}
        answers[who] = _got(world.metrics + METRICS, headers)
    assert {who: status for who, (status, _) in answers.items()} == {
        "nobody": 401,
        "itself": 403,
        "watcher": 200,
        "liar": 403,
    }
    page = answers["watcher"][1]
    assert 'kueue_admitted_workloads_total{cluster_queue="all"} 1\n' in page
    assert "\nmuster_leading 1\n" in page
    assert [_got(f"{world.health}/{name}", {}) for name in ("healthz", "readyz")] == [(200, "ok")] * 2


def _got(url: str, headers: dict[str, str]) -> tuple[int, str]:
    trusting = ssl._create_unverified_context() if url.startswith("https") else None
    try:
        with urlopen(Request(url, headers=headers), timeout=WAIT_S, context=trusting) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()


def _job() -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "default"}},
        "spec": {"template": {"spec": POD}},
    }


def _complete() -> Object:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": NOW} for kind in ("SuccessCriteriaMet", "Complete")
    ]
    return {"succeeded": 1, "startTime": NOW, "completionTime": NOW, "conditions": conditions}


def _is_finished(workload: Object) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Finished" and one["status"] == "True" for one in conditions)


def _make(client: Client, path: str, body: Object) -> Object:
    answer = client.request("POST", path, body)
    assert answer.status == 201, answer.body
    return answer.json


def _make_once_asked(client: Client, path: str, body: Object) -> None:
    """Make an object as soon as the webhooks that have to be asked about it answer and are believed."""
    deadline_s = time.monotonic() + WAIT_S
    while (answer := client.request("POST", path, body)).status != 201:
        assert answer.status == 500 and time.monotonic() < deadline_s, answer.body
        time.sleep(POLL_S)


def _patch(client: Client, path: str, body: Object) -> None:
    answer = client.request("PATCH", path, body, content_type=MERGE)
    assert answer.status == 200, answer.body


def _wait(client: Client, path: str, is_done: Callable[[Object], bool]) -> Object:
    """The object at a path once it is as it has to become; of a collection any object."""
    collection, _, name = path.rpartition("/")
    chosen = f"{path}?" if name == "workloads" else f"{collection}?fieldSelector=metadata.name%3D{name}&"
    patient = replace(client, timeout_s=2.0 * WAIT_S)
    last: Object = {}
    for event in patient.watch(f"{chosen}watch=true&timeoutSeconds={WAIT_S}"):
        last = event["object"]
        if is_done(last):
            return last
    raise AssertionError(f"{path} stays {json.dumps(last)[:3000]}")
