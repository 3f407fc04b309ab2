"""The real control plane answers, so that what is compared with it is compared with something."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.kubernetes.build import kubernetes_version
from tests.kubernetes.client import Client

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


def pod(name):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main"}]},
    }


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_it_is_the_version_that_go_mod_names(plane):
    assert plane.client.request("GET", "/version").json["gitVersion"] == kubernetes_version()
    assert json.loads(plane.kubectl("version", "-o", "json"))["clientVersion"]["gitVersion"] == kubernetes_version()


def test_strangers_are_refused(plane):
    assert Client(url=plane.url, ca_file=plane.ca_file).request("GET", PODS).status == 403
    assert Client(url=plane.url, token="guess", ca_file=plane.ca_file).request("GET", PODS).status == 401


@pytest.mark.parametrize(("path", "item"), [(PODS, pod("by-http")), (MAPS, config_map("by-http", a="1"))])
def test_an_object_is_created_read_watched_and_deleted_over_http(plane, path, item):
    begin = plane.client.request("GET", path).json["metadata"]["resourceVersion"]
    made = plane.client.request("POST", path, item)
    assert made.status == 201
    assert plane.client.request("POST", path, item).json["reason"] == "AlreadyExists"
    assert plane.client.request("GET", f"{path}/by-http").json == made.json
    patch = {"metadata": {"labels": {"seen": "yes"}}}
    patched = plane.client.request("PATCH", f"{path}/by-http", patch, content_type="application/merge-patch+json")
    assert patched.json["metadata"]["labels"]["seen"] == "yes"
    gone = plane.client.request("DELETE", f"{path}/by-http", {"gracePeriodSeconds": 0})
    assert gone.status == 200
    assert plane.client.request("GET", f"{path}/by-http").json["reason"] == "NotFound"

    seen = []
    for event in plane.client.watch(f"{path}?watch=true&resourceVersion={begin}&timeoutSeconds=10"):
        seen.append(event)
        if event["type"] == "DELETED":
            break
    # A pod is marked before it goes, even where it goes at once.
    assert list(dict.fromkeys(event["type"] for event in seen)) == ["ADDED", "MODIFIED", "DELETED"]
    assert {event["object"]["metadata"]["uid"] for event in seen} == {made.json["metadata"]["uid"]}


@pytest.mark.parametrize(("kind", "item"), [("pod", pod("by-kubectl")), ("configmap", config_map("by-kubectl", a="1"))])
def test_an_object_is_applied_read_watched_and_deleted_by_kubectl(plane, kind, item):
    name = f"{kind}/by-kubectl"
    assert plane.kubectl("apply", "-f", "-", text=json.dumps(item)) == f"{name} created\n"
    assert plane.kubectl("apply", "-f", "-", text=json.dumps(item)) == f"{name} unchanged\n"
    assert json.loads(plane.kubectl("get", name, "-o", "json"))["metadata"]["name"] == "by-kubectl"
    with subprocess.Popen(
        plane.kubectl_command("get", name, "--watch", "-o", "name"), stdout=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout.readline() == f"{name}\n"
        watch.terminate()
    assert plane.kubectl("delete", name, "--now").startswith(f'{kind} "by-kubectl" deleted')
    with pytest.raises(RuntimeError, match="NotFound"):
        plane.kubectl("get", name)


def test_controllers_make_pods_of_a_job_and_the_scheduler_finds_no_node(plane_with_controllers):
    plane = plane_with_controllers
    template = {"spec": {**pod("train")["spec"], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {"template": template}}
    events = plane.client.watch(f"{PODS}?watch=true&labelSelector=job-name%3Dtrain&timeoutSeconds=30")
    assert plane.client.request("POST", "/apis/batch/v1/namespaces/default/jobs", job).status == 201
    reasons = (
        condition.get("reason") for event in events for condition in event["object"]["status"].get("conditions", ())
    )
    assert next(reasons) == "Unschedulable"
    events.close()
