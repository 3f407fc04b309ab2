"""The stories of autoscalers end at a real kube-controller-manager as they are written down.

What is measured is told to the real one by custom resources of the metrics' own groups, and it scales a custom resource
that nobody else touches.
"""

from __future__ import annotations

import time

import pytest

from muster.model.times import moment_text
from tests.controllers.builtin.autoscaler_stories import LABEL, STORIES, autoscaler, pod_object, reasons
from tests.kubernetes.client import Client, Json

PATIENCE_S = 40.0
KINDS_S = 90.0
POLL_S = 0.1
NAMESPACE = "x"
THINGS = "/apis/example.com/v1/namespaces/x/things"
MEASURED = "/apis/metrics.k8s.io/v1beta1/namespaces/x/pods"
OUTSIDE = "/apis/external.metrics.k8s.io/v1beta1/namespaces/x/jobs"
SCALERS = "/apis/autoscaling/v2/namespaces/x/horizontalpodautoscalers"


def _definition(group: str, version: str, plural: str, kind: str, **more: Json) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": schema, **more}
    names = {"plural": plural, "singular": plural, "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
    approved = {"api-approved.kubernetes.io": "unapproved, for a comparison"}
    metadata = {"name": f"{plural}.{group}", "annotations": approved}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
DEFINITIONS = [
    _definition("metrics.k8s.io", "v1beta1", "pods", "PodMetrics"),
    _definition("external.metrics.k8s.io", "v1beta1", "jobs", "ExternalMetricValue"),
    _definition(
        "example.com",
        "v1",
        "things",
        "Thing",
        subresources={"scale": {**SCALE, "labelSelectorPath": ".status.selector"}},
    ),
]


@pytest.fixture(scope="module")
def client(plane_with_controllers):
    """A cluster that believes what it is told about usage."""
    client = plane_with_controllers.client
    _made(client, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, may_exist=True)
    for one in DEFINITIONS:
        _made(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", one)
    end_s = time.monotonic() + PATIENCE_S
    while any(client.request("GET", path).status != 200 for path in (THINGS, MEASURED, OUTSIDE)):
        assert time.monotonic() < end_s, "the definitions are not in force"
        time.sleep(POLL_S)
    _wait_for_kinds(client)
    return client


def _wait_for_kinds(client: Client) -> None:
    """The real controller looks every half minute which kinds there are."""
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "first"}}
    _made(client, THINGS, {**thing, "spec": {"replicas": 1}, "status": {"replicas": 1, "selector": f"{LABEL}=first"}})
    target = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "first"}
    _made(client, SCALERS, autoscaler(STORIES[0], "first", target))
    end_s = time.monotonic() + KINDS_S
    while reasons(client.request("GET", f"{SCALERS}/first").json).get("AbleToScale") in (None, "FailedGetScale"):
        assert time.monotonic() < end_s, "the real autoscaler does not hear of the new kind"
        time.sleep(POLL_S)
    client.request("DELETE", f"{SCALERS}/first")


@pytest.mark.parametrize("number", range(len(STORIES)), ids=lambda number: STORIES[number].title)
def test_one_look(client, number):
    story, name = STORIES[number], f"a{number}"
    for index, one in enumerate(story.pods):
        _put_pod(client, f"{name}-{index}", name, one)
    for index, value in enumerate(story.external):
        body = {"metadata": {"name": f"{name}-{index}"}, "metricName": "jobs", "value": value}
        body |= {"apiVersion": "external.metrics.k8s.io/v1beta1", "kind": "ExternalMetricValue"}
        _made(client, OUTSIDE, {**body, "timestamp": moment_text(time.time())})
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}}
    status = {"replicas": len(story.pods), "selector": f"{LABEL}={name}"}
    _made(client, THINGS, {**thing, "spec": {"replicas": story.wanted}, "status": status})
    target = {"apiVersion": "example.com/v1", "kind": "Thing", "name": name}
    _made(client, SCALERS, autoscaler(story, name, target))
    try:
        assert _first_look(client, name) == (story.want, story.told)
    finally:
        client.request("DELETE", f"{SCALERS}/{name}")
        for index in range(len(story.external)):
            client.request("DELETE", f"{OUTSIDE}/{name}-{index}")


def _first_look(client: Client, name: str) -> tuple[int, dict[str, str]]:
    """What the autoscaler says when it has looked for the first time, and how many pods are wanted then."""
    end_s = time.monotonic() + PATIENCE_S
    while not (found := reasons(client.request("GET", f"{SCALERS}/{name}").json)):
        assert time.monotonic() < end_s, "the real autoscaler does not look"
        time.sleep(0.01)
    return client.request("GET", f"{THINGS}/{name}").json["spec"]["replicas"], found


def _put_pod(client: Client, name: str, app: str, one) -> None:
    now_s = time.time()
    pod, status = pod_object(one, name, app, now_s)
    _made(client, f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/status"
    answer = client.request("PATCH", path, {"status": status}, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.body
    if one.cpu is not None:
        usage = {"cpu": one.cpu, "memory": one.memory}
        measured = {"timestamp": moment_text(now_s), "window": "10s", "containers": [{"name": "c", "usage": usage}]}
        body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", **measured}
        _made(client, MEASURED, {**body, "metadata": {"name": name, "labels": {LABEL: app}}})


def _made(client: Client, path: str, body: Json, *, may_exist: bool = False) -> None:
    answer = client.request("POST", path, body)
    assert answer.status == 201 or (may_exist and answer.status == 409), (
        f"{path}: {answer.status} {answer.body[:500]!r}"
    )
