"""`muster up`: claims get folders, nodes and pods say what they use, and autoscalers act on it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import Muster, started
from tests.e2e.test_nodes import EXAMPLE, PODS, phase, until
from tests.kubernetes.build import NoControlPlane, program

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
METRICS = "/apis/metrics.k8s.io/v1beta1"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
ASKED = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """A server with the nodes of the example."""
    with started(tmp_path_factory.mktemp("storage") / "state", "--nodes", str(EXAMPLE)) as running:
        yield running
        running.stop()


def made(muster: Muster, path: str, kind: str, name: str, **more: Any) -> None:
    versions = {DEPLOYMENTS: "apps/v1", SETS: "apps/v1", SCALERS: "autoscaling/v2"}
    body = {"apiVersion": versions.get(path, "v1"), "kind": kind, "metadata": {"name": name}, **more}
    answer = muster.client.request("POST", path, body)
    assert answer.status == 201, answer.body


def shell(script: str) -> dict[str, Any]:
    mount = {"name": "v", "mountPath": "/data"}
    return {"name": "c", "image": "i", "command": ["sh", "-c", script], "volumeMounts": [mount]}


def test_a_claim_without_a_class_gets_a_folder_that_goes_with_it(muster: Muster) -> None:
    made(muster, CLAIMS, "PersistentVolumeClaim", "data", spec=ASKED)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    place = {"nodeSelector": {"kubernetes.io/hostname": "local"}, "restartPolicy": "Never", "volumes": volumes}
    made(muster, PODS, "Pod", "writer", spec={**place, "containers": [shell("echo hello > /data/file")]})
    until(muster, PODS, "writer", phase("Succeeded"))
    claim = muster.client.request("GET", f"{CLAIMS}/data").json
    assert claim["spec"]["storageClassName"] == "local"
    folder = muster.folder / "volumes" / claim["spec"]["volumeName"]
    assert (folder / "file").read_text() == "hello\n"
    made(muster, PODS, "Pod", "reader", spec={**place, "containers": [shell("cat /data/file")]})
    until(muster, PODS, "reader", phase("Succeeded"))
    assert muster.client.request("GET", f"{PODS}/reader/log").body == b"hello\n"
    for path in (f"{PODS}/writer", f"{PODS}/reader", f"{CLAIMS}/data"):
        assert muster.client.request("DELETE", path).status == 200
    path = f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"
    _wait_for(lambda: muster.client.request("GET", path).status == 404 and not folder.exists())


def _wait_for(holds: Any) -> None:
    end_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end_s, "it never held"
        time.sleep(0.02)


def test_each_pod_of_a_set_has_its_own(muster: Muster) -> None:
    labels = {"app": "db"}
    pod = {"nodeSelector": {"kubernetes.io/hostname": "local"}, "terminationGracePeriodSeconds": 0}
    pod |= {"containers": [shell("hostname > /data/name; exec sleep 1000")]}
    spec = {"serviceName": "db", "replicas": 2, "selector": {"matchLabels": labels}}
    spec |= {"template": {"metadata": {"labels": labels}, "spec": pod}}
    made(muster, SETS, "StatefulSet", "db", spec={**spec, "volumeClaimTemplates": [_template("v")]})
    until(muster, SETS, "db", lambda one: one.get("status", {}).get("readyReplicas") == 2)
    found = {
        one["metadata"]["name"]: one["status"]["phase"] for one in muster.client.request("GET", CLAIMS).json["items"]
    }
    assert found == {"v-db-0": "Bound", "v-db-1": "Bound"}
    muster.client.request("DELETE", f"{SETS}/db")


def _template(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": ASKED}


ASKING = """
import os, ssl, urllib.request
at = os.path.dirname('/var/run/secrets/kubernetes.io/serviceaccount/token')
read = lambda name: open(os.path.join(at, name)).read()
host = os.environ['KUBERNETES_SERVICE_HOST'] + ':' + os.environ['KUBERNETES_SERVICE_PORT']
body = b'{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}'
headers = {'Authorization': 'Bearer ' + read('token'), 'Content-Type': 'application/json'}
url = 'https://' + host + '/apis/authentication.k8s.io/v1/selfsubjectreviews'
context = ssl.create_default_context(cafile=os.path.join(at, 'ca.crt'))
answer = urllib.request.urlopen(urllib.request.Request(url, body, headers), context=context).read().decode()
print(read('namespace'), 'system:serviceaccount:default:default' in answer)
"""


def test_a_pod_may_ask_the_api_with_the_token_of_its_account(muster: Muster) -> None:
    container = {"name": "c", "image": "i", "command": [sys.executable, "-c", ASKING]}
    place = {"nodeSelector": {"kubernetes.io/hostname": "local"}, "restartPolicy": "Never"}
    made(muster, PODS, "Pod", "asks", spec={**place, "containers": [container]})
    until(muster, PODS, "asks", lambda pod: pod.get("status", {}).get("phase") in ("Succeeded", "Failed"))
    assert muster.client.request("GET", f"{PODS}/asks/log").body == b"default True\n"
    spec = {"serviceAccountName": "none", "containers": [container]}
    answer = muster.client.request("POST", PODS, {"metadata": {"name": "x"}, "spec": spec})
    why = 'error looking up service account default/none: serviceaccount "none" not found'
    assert (answer.status, answer.json["message"]) == (403, f'pods "x" is forbidden: {why}')


def test_an_autoscaler_follows_what_simulated_pods_use(muster: Muster) -> None:
    labels = {"app": "web"}
    asks = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    pod = {"nodeSelector": {"kubernetes.io/hostname": "cpu-0"}, "tolerations": [{"operator": "Exists"}]}
    pod |= {"containers": [{"name": "c", "image": "i", "resources": asks}]}
    notes = {"sim.muster.dev/cpu-usage": "80m"}
    template = {"metadata": {"labels": labels, "annotations": notes}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    made(muster, DEPLOYMENTS, "Deployment", "web", spec=spec)
    until(muster, DEPLOYMENTS, "web", lambda one: one.get("status", {}).get("readyReplicas") == 1)
    listed = muster.client.request("GET", f"{METRICS}/namespaces/default/pods?labelSelector=app%3Dweb").json
    (found,) = listed["items"]
    assert [one["usage"] for one in found["containers"]] == [{"cpu": "80000000n", "memory": "32768Ki"}]
    node = muster.client.request("GET", f"{METRICS}/nodes/cpu-0").json
    assert node["usage"] == {"cpu": "80000000n", "memory": "32768Ki"}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    wanted = {"type": "Utilization", "averageUtilization": 40}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": wanted}}]
    made(
        muster,
        SCALERS,
        "HorizontalPodAutoscaler",
        "web",
        spec={"scaleTargetRef": target, "maxReplicas": 5, "metrics": metrics},
    )
    until(muster, DEPLOYMENTS, "web", lambda one: one["spec"]["replicas"] == 2)
    muster.client.request("DELETE", f"{SCALERS}/web")
    muster.client.request("DELETE", f"{DEPLOYMENTS}/web")


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        pytest.param("/nodes", 200, "", id="all nodes"),
        pytest.param("/pods", 200, "", id="all pods"),
        pytest.param("/nodes/none", 404, 'nodemetrics.metrics.k8s.io "none" not found', id="no node"),
        pytest.param(
            "/namespaces/default/pods/none", 404, 'podmetrics.metrics.k8s.io "default/none" not found', id="no pod"
        ),
        pytest.param("/nodes?watch=true", 405, "", id="no watch"),
        pytest.param("/nodes?labelSelector=((", 400, "", id="no selector"),
    ],
)
def test_questions_about_usage(muster: Muster, path: str, status: int, message: str) -> None:
    answer = muster.client.request("GET", METRICS + path)
    assert answer.status == status
    if message:
        assert answer.json["message"] == message


def test_who_may_view_may_see_what_is_in_use(muster: Muster) -> None:
    rights = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "vera"}}
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "view"}
    subjects = [{"apiGroup": group, "kind": "User", "name": "vera"}]
    path = f"/apis/{group}/v1/clusterrolebindings"
    assert muster.client.request("POST", path, {**rights, "roleRef": role, "subjects": subjects}).status == 201
    for name, status in (("vera", 200), ("otto", 403)):
        client = replace(muster.client, headers=(("Impersonate-User", name),))
        _wait_for(lambda client=client, status=status: client.request("GET", f"{METRICS}/pods").status == status)


def test_kubectl_top(muster: Muster) -> None:
    if not os.environ.get("MUSTER_KUBERNETES"):
        pytest.skip("needs kubectl: make test-kubernetes, or set MUSTER_KUBERNETES=1")
    try:
        kubectl: Path = program()
    except NoControlPlane as missing:
        pytest.skip(str(missing))
    spec = {"nodeName": "cpu-1", "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}
    notes = {"sim.muster.dev/cpu-usage": "250m", "sim.muster.dev/memory-usage": "100Mi"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "used", "annotations": notes}, "spec": spec}
    assert muster.client.request("POST", PODS, body).status == 201
    until(muster, PODS, "used", phase("Running"))
    rows = [line.split() for line in muster.kubectl(kubectl, "top", "pod", "used").splitlines()]
    assert rows == [["NAME", "CPU(cores)", "MEMORY(bytes)"], ["used", "500m", "200Mi"]]
    rows = [line.split() for line in muster.kubectl(kubectl, "top", "pod", "used", "--containers").splitlines()]
    assert rows == [
        ["POD", "NAME", "CPU(cores)", "MEMORY(bytes)"],
        ["used", "c", "250m", "100Mi"],
        ["used", "d", "250m", "100Mi"],
    ]
    rows = [line.split() for line in muster.kubectl(kubectl, "top", "node", "cpu-1").splitlines()]
    assert rows[0] == ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]
    assert rows[1][:2] == ["cpu-1", "500m"] and rows[1][3] == "200Mi"
    with pytest.raises(RuntimeError, match='"default/none" not found'):
        muster.kubectl(kubectl, "top", "pod", "none")
