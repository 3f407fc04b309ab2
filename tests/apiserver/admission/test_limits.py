"""Ranges of limits: defaults, bounds and ratios, with Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.admission.test_rows import everything
from tests.apiserver.world import World, in_world

Json = dict[str, Any]
NS = "/api/v1/namespaces/default"
RANGE = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "a"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "default": {"cpu": "500m", "memory": "1Gi"},
                "defaultRequest": {"cpu": "100m"},
                "min": {"cpu": "50m"},
                "max": {"cpu": "1", "memory": "2Gi"},
                "maxLimitRequestRatio": {"cpu": "5"},
            },
            {"type": "Pod", "max": {"cpu": "2"}, "min": {"memory": "100Mi"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}},
        ]
    },
}


def pod(*resources: Json, init: Json | None = None) -> Json:
    containers = [{"name": f"c{number}", "image": "i", "resources": one} for number, one in enumerate(resources)]
    spec: Json = {"containers": containers}
    if init is not None:
        spec["initContainers"] = [{"name": "i", "image": "i", "resources": init}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def claim(size: str) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v"}, "spec": spec}


def test_containers_get_what_they_do_not_say() -> None:
    async def story(world: World) -> None:
        await world.request("POST", f"{NS}/limitranges", RANGE)
        given = pod({"limits": {"cpu": "400m"}}, init={"requests": {"memory": "100Mi"}})
        made = (await world.request("POST", f"{NS}/pods", given)).json
        assert made["spec"]["containers"][0]["resources"] == {
            "limits": {"cpu": "400m", "memory": "1Gi"},
            "requests": {"cpu": "400m", "memory": "1Gi"},
        }
        assert made["spec"]["initContainers"][0]["resources"] == {
            "limits": {"cpu": "500m", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "100Mi"},
        }
        assert made["metadata"]["annotations"] == {
            "kubernetes.io/limit-ranger": "LimitRanger plugin set: memory request for container c0; memory limit for "
            "container c0; cpu request for init container i; cpu, memory limit for init container i"
        }
        assert made["status"]["qosClass"] == "Burstable", "the class counts what was added"

    in_world(story, catalog=everything())


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (
            pod({"requests": {"cpu": "10m"}, "limits": {"cpu": "50m"}}),
            "minimum cpu usage per Container is 50m, but request is 10m",
        ),
        (
            pod({"requests": {"cpu": "10m"}}),
            (
                "[minimum cpu usage per Container is 50m, but request is 10m, "
                "cpu max limit to request ratio per Container is 5, but provided ratio is 50.000000]"
            ),
        ),
        (
            pod({"requests": {"cpu": "10"}, "limits": {"cpu": "20", "memory": "3Gi"}}),
            (
                "[maximum cpu usage per Container is 1, but limit is 20, maximum memory usage per Container is 2Gi, "
                "but limit is 3Gi, maximum cpu usage per Pod is 2, but limit is 20]"
            ),
        ),
        (
            pod({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}),
            "cpu max limit to request ratio per Container is 5, but provided ratio is 10.000000",
        ),
        (pod(*[{"limits": {"cpu": "1"}}] * 3), "maximum cpu usage per Pod is 2, but limit is 3"),
        (pod({"limits": {"memory": "50Mi"}}), "minimum memory usage per Pod is 100Mi, but request is 50Mi"),
        (pod({"requests": {"cpu": "0"}, "limits": {"cpu": "0"}}), None),
    ],
)
def test_what_is_outside_is_refused(given: Json, want: str | None) -> None:
    async def story(world: World) -> None:
        await world.request("POST", f"{NS}/limitranges", RANGE)
        answer = await world.request("POST", f"{NS}/pods", given)
        assert answer.status == 403
        status = answer.json
        assert status["reason"] == "Forbidden" and status["details"] == {"name": "p", "kind": "pods"}
        if want is not None:
            assert status["message"] == f'pods "p" is forbidden: {want}'

    in_world(story, catalog=everything())


@pytest.mark.parametrize(
    ("size", "want"),
    [
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
        ("10Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi"),
        ("5Gi", ""),
    ],
)
def test_claims(size: str, want: str) -> None:
    async def story(world: World) -> None:
        await world.request("POST", f"{NS}/limitranges", RANGE)
        answer = await world.request("POST", f"{NS}/persistentvolumeclaims", claim(size))
        assert answer.status == (403 if want else 201)
        if want:
            assert answer.json["message"] == f'persistentvolumeclaims "v" is forbidden: {want}'

    in_world(story, catalog=everything())
