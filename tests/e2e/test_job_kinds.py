"""Kinds of job that others bring, on a running server: their definitions are applied while it runs.

The test plays their operators. The stories of these kinds are told in simulated time; here is what only a server does:
definitions that come later, parts of objects by themselves, and refusals with their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.engine.job_forms import fields_at
from muster.model.fields import Fields
from tests.e2e.process import Muster, started
from tests.stories.job_kinds import Sample, definition, played, template

Json = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
MERGE = "application/merge-patch+json"
QUEUE = "kueue.x-k8s.io/queue-name"
NODES = "pools: [{name: spot, count: 2, labels: {instance: spot}}]"


@pytest.fixture(scope="module")
def muster(tmp_path_factory) -> Iterator[Muster]:
    folder: Path = tmp_path_factory.mktemp("kinds")
    (folder / "nodes.yaml").write_text(NODES)
    with started(folder / "state", "--no-local-node", "--nodes", str(folder / "nodes.yaml")) as running:
        _create(
            running, f"{KUEUE}/resourceflavors", _of("ResourceFlavor", "spot", {"nodeLabels": {"instance": "spot"}})
        )
        resources = [{"name": name, "nominalQuota": amount} for name, amount in (("cpu", "100"), ("memory", "100Gi"))]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "spot", "resources": resources}]}
        queue = {"namespaceSelector": {}, "resourceGroups": [group]}
        _create(running, f"{KUEUE}/clusterqueues", _of("ClusterQueue", "main", queue))
        _create(running, f"{KUEUE}/namespaces/default/localqueues", _of("LocalQueue", "main", {"clusterQueue": "main"}))
        yield running
        running.stop()


def _of(kind: str, name: str, spec: Any) -> Json:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _create(muster: Muster, path: str, obj: Json) -> Json:
    answer = muster.client.request("POST", path, obj)
    assert answer.status == 201, answer.json
    return answer.json


def _wait(muster: Muster, path: str, is_it: Callable[[Json], bool]) -> Json:
    """Follow the objects of a path until one is as wanted."""
    for event in muster.client.watch(f"{path}?watch=true&timeoutSeconds=120"):
        if is_it(event["object"]):
            return event["object"]
    raise AssertionError(f"nothing became of {path}")


def _is_of(sample: Sample, workload: Json) -> bool:
    return any(owner["kind"] == sample.kind_name for owner in workload["metadata"].get("ownerReferences", ()))


def _has(workload: Json, name: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(one["type"] == name and one["status"] == "True" for one in conditions)


@pytest.mark.prove
@pytest.mark.parametrize("sample", played(("JobSet", "TrainJob")), ids=lambda sample: sample.kind_name)
def test_a_kind_that_comes_later(muster, sample):
    for name in (sample.resource, *sample.definitions):
        _create(muster, DEFINITIONS, definition(name))
        _wait(muster, DEFINITIONS, lambda one, name=name: one["metadata"]["name"] == name and _has(one, "Established"))
    for other in sample.others:
        plural = f"{other['kind'].lower()}s"
        _create(muster, f"/apis/{other['apiVersion']}/{plural}", other)
    path = f"/apis/{sample.api}/namespaces/default/{sample.resource.partition('.')[0]}"
    _create(muster, path, sample.job)

    def is_running(job: Json) -> bool:
        *way, name = sample.switch
        return not fields_at(Fields(job), tuple(way)).flag(str(name))

    begun = _wait(muster, path, is_running)
    places = [fields_at(Fields(begun), way).text_map("nodeSelector") for way in sample.selectors]
    assert places == [{"instance": "spot"}] * len(sample.selectors)
    for status, wanted in ((sample.ready, "PodsReady"), (sample.done, "Finished")):
        if status is None:
            continue
        told = muster.client.request("PATCH", f"{path}/train/status", {"status": status}, content_type=MERGE)
        assert told.status == 200, told.json
        _wait(muster, WORKLOADS, lambda one, wanted=wanted: _is_of(sample, one) and _has(one, wanted))
    assert muster.client.request("DELETE", f"{path}/train").status == 200


def test_a_set_is_scaled_to_nothing_and_back_alone(muster):
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    spec = {"replicas": 2, "serviceName": "a", "selector": {"matchLabels": {"app": "train"}}, "template": template()}
    metadata = {"name": "serve", "labels": {QUEUE: "main"}}
    made = _create(muster, path, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})
    annotations = made["spec"]["template"]["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/pod-group-total-count"] == "2"

    def scaled(count: int) -> int:
        body = {"spec": {"replicas": count}}
        return muster.client.request("PATCH", f"{path}/serve/scale", body, content_type=MERGE).status

    assert [scaled(3), scaled(0), scaled(4)] == [422, 200, 200]
    template_now = muster.client.request("GET", f"{path}/serve").json["spec"]["template"]
    assert template_now["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "4"
    assert muster.client.request("DELETE", f"{path}/serve").status == 200


def test_what_cannot_wait_is_refused_with_its_place(muster):
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template()["spec"]}
    metadata = {"name": "half", "labels": {QUEUE: "main"}, "annotations": {"kueue.x-k8s.io/pod-group-name": "a"}}
    answer = muster.client.request("POST", "/api/v1/namespaces/default/pods", {**pod, "metadata": metadata})
    assert answer.status == 422
    assert "kueue.x-k8s.io/pod-group-total-count" in answer.json["message"]
