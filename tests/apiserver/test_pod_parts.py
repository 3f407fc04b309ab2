"""Ephemeral containers and resized resources: what changes, what is refused, and that nothing else does.

`tests/kubernetes/test_streams.py` asks a real server the same.
"""

from __future__ import annotations

import pytest

from muster.app.kinds import catalog
from tests.apiserver.world import in_world, pod

PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
MERGE = {"content-type": "application/merge-patch+json"}
BIG = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


def debuggers(*given):
    return {"spec": {"ephemeralContainers": list(given)}}


def resources(**given):
    return {"spec": {"containers": [{"name": "main", "resources": given}]}}


def asked(*rows):
    """Send rows of a part, a patch and what is to come of it: a status, and a word of the message."""

    async def test(world):
        made = pod("p", namespace="default")
        made["spec"]["containers"][0]["resources"] = BIG
        assert (await world.request("POST", PODS, made)).status == 201
        for part, patch, status, words in rows:
            answer = await world.request("PATCH", f"{PODS}/p/{part}", patch, headers=STRATEGIC)
            assert answer.status == status, answer.body
            assert words in answer.json.get("message", ""), answer.body
        world.answer = answer

    return test


def test_a_debugger_joins():
    async def test(world):
        first = debuggers({"name": "d", "image": "busybox", "targetContainerName": "main"})
        await asked(("ephemeralcontainers", first, 200, ""))(world)
        found = world.answer.json
        assert found["metadata"]["generation"] == 2
        assert found["spec"]["ephemeralContainers"][0]["terminationMessagePolicy"] == "File"
        again = await world.request("PATCH", f"{PODS}/p/ephemeralcontainers", first, headers=STRATEGIC)
        assert again.json["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"], "nothing has changed"
        assert (await world.get(f"{PODS}/p/ephemeralcontainers")).json == found
        whole = {**found, "metadata": {"name": "p", "labels": {"not": "taken"}}}
        whole["spec"]["ephemeralContainers"].append({"name": "e", "image": "i"})
        put = await world.request("PUT", f"{PODS}/p/ephemeralcontainers", whole)
        assert [one["name"] for one in put.json["spec"]["ephemeralContainers"]] == ["d", "e"]
        assert "labels" not in put.json["metadata"]
        old = {"metadata": {"resourceVersion": "1"}}
        assert (await world.request("PATCH", f"{PODS}/p/ephemeralcontainers", old, headers=MERGE)).status == 409
        gone = {"spec": {"ephemeralContainers": None}}
        refused = await world.request("PATCH", f"{PODS}/p/ephemeralcontainers", gone, headers=MERGE)
        assert refused.status == 422 and '"d" may not be removed' in refused.json["message"]
        refused = await world.request("PATCH", f"{PODS}/p/ephemeralcontainers", {"spec": None}, headers=MERGE)
        assert refused.status == 400

    in_world(test, catalog=catalog())


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"name": "main", "image": "i"}, 'ephemeralContainers[0].name: Duplicate value: "main"'),
        ({"name": "d_", "image": "i"}, 'ephemeralContainers[0].name: Invalid value: "d_"'),
        ({"name": "d"}, "ephemeralContainers[0].image: Required value"),
        ({"name": "d", "image": "i", "targetContainerName": "x"}, 'targetContainerName: Not found: "x"'),
        ({"name": "d", "image": "i", "ports": [{"containerPort": 1}]}, "ports: Forbidden: cannot be set for an Eph"),
        ({"name": "d", "image": "i", "lifecycle": {}}, "lifecycle: Forbidden: cannot be set for an Ephemeral"),
    ],
)
def test_debuggers_that_are_refused(container, words):
    in_world(asked(("ephemeralcontainers", debuggers(container), 422, words)), catalog=catalog())


def test_resources_are_resized():
    async def test(world):
        await asked(("resize", resources(requests={"cpu": "1500m"}), 200, ""))(world)
        found = world.answer.json
        assert found["metadata"]["generation"] == 2
        assert found["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1500m", "memory": "1Gi"}
        other = {"spec": {"containers": [{"name": "main", "image": "z"}]}}
        same = await world.request("PATCH", f"{PODS}/p/resize?dryRun=All", other, headers=STRATEGIC)
        assert same.json["spec"] == found["spec"], "of all else nothing is taken"

    in_world(test, catalog=catalog())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (resources(requests={"cpu": "3"}), "spec.containers[0].resources.requests: Invalid value"),
        (resources(requests={"cpu": "2"}), "Pod QOS Class may not change as a result of resizing"),
        (resources(limits={"x.y/z": "1"}), "only cpu and memory resources are mutable"),
    ],
)
def test_sizes_that_are_refused(given, words):
    in_world(asked(("resize", given, 422, words)), catalog=catalog())
