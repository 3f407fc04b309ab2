"""Quotas: what counts for what, the words of refusals, and that what is used is exact whatever has happened."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from muster.controllers.quota_usage import is_in_scope, resource_of, usage_of
from muster.controllers.quotas import recounts
from muster.model.quantity import ZERO, parse_quantity, sum_of
from muster.store.objects import decode
from muster.store.records import Key, Scope
from tests.apiserver.admission.test_rows import everything
from tests.apiserver.world import World, in_world
from tests.support import proof_count

Json = dict[str, Any]
NS = "/api/v1/namespaces/default"


def quota(name: str, hard: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
    }


def pod(name: str, requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    resources = {"requests": requests or {}, "limits": limits or {}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def config(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def used(world: World, name: str = "q") -> Json:
    return (await world.get(f"{NS}/resourcequotas/{name}")).json["status"].get("used", {})


HARD = {"pods": "2", "cpu": "1", "limits.memory": "1Gi", "count/configmaps": "1", "requests.example.com/gpu": "2"}


def test_a_quota_is_counted_and_held() -> None:
    async def story(world: World) -> None:
        await world.request("POST", f"{NS}/configmaps", config("before"))
        made = await world.request("POST", f"{NS}/resourcequotas", quota("q", HARD))
        assert made.json["status"] == {}, "as in Kubernetes the count comes after the answer"
        assert await used(world) == {**dict.fromkeys(HARD, "0"), "count/configmaps": "1"}
        given = pod("p", {"cpu": "300m"}, {"memory": "300Mi", "cpu": "4", "example.com/gpu": "2"})
        assert (await world.request("POST", f"{NS}/pods", given)).status == 201
        assert await used(world) == {
            "pods": "1",
            "cpu": "300m",
            "limits.memory": "300Mi",
            "count/configmaps": "1",
            "requests.example.com/gpu": "2",
        }
        refused = [
            (
                f"{NS}/pods",
                pod("p2", {"cpu": "800m"}, {"memory": "800Mi", "cpu": "4", "example.com/gpu": "2"}),
                (
                    'pods "p2" is forbidden: exceeded quota: q, requested: cpu=800m,limits.memory=800Mi,'
                    "requests.example.com/gpu=2, used: cpu=300m,limits.memory=300Mi,requests.example.com/gpu=2, "
                    "limited: cpu=1,limits.memory=1Gi,requests.example.com/gpu=2"
                ),
            ),
            (
                f"{NS}/pods",
                pod("p2"),
                'pods "p2" is forbidden: failed quota: q: must specify cpu for: c; limits.memory for: c',
            ),
            (
                f"{NS}/configmaps",
                config("more"),
                (
                    'configmaps "more" is forbidden: exceeded quota: q, requested: count/configmaps=1, '
                    "used: count/configmaps=1, limited: count/configmaps=1"
                ),
            ),
        ]
        for path, body, message in refused:
            answer = await world.request("POST", path, body)
            assert (answer.status, answer.json["message"]) == (403, message)
        await world.request("DELETE", f"{NS}/pods/p")
        assert (await used(world))["cpu"] == "0"

    in_world(story, catalog=everything())


def test_a_dry_run_counts_nothing_and_a_pod_that_is_done_frees_what_it_had() -> None:
    async def story(world: World) -> None:
        await world.request("POST", f"{NS}/resourcequotas", quota("q", {"pods": "1", "count/pods": "5"}))
        assert (await world.request("POST", f"{NS}/pods?dryRun=All", pod("p"))).status == 201
        assert await used(world) == {"count/pods": "0", "pods": "0"}
        made = (await world.request("POST", f"{NS}/pods", pod("p"))).json
        made["status"]["phase"] = "Succeeded"
        assert (await world.request("PUT", f"{NS}/pods/p/status", made)).status == 200
        assert await used(world) == {"count/pods": "1", "pods": "0"}

    in_world(story, catalog=everything())


def test_a_count_that_somebody_writes_is_overruled() -> None:
    async def story(world: World) -> None:
        await world.request("POST", f"{NS}/resourcequotas", quota("q", {"pods": "1"}))
        lie = {**quota("q", {}), "status": {"hard": {"pods": "1"}, "used": {"pods": "-5"}}}
        await world.request("PUT", f"{NS}/resourcequotas/q/status", lie)
        assert await used(world) == {"pods": "0"}
        assert list(recounts(world.store)), "the start of a server counts all quotas"

    in_world(story, catalog=everything())


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("cpu", "pods"),
        ("limits.memory", "pods"),
        ("requests.nvidia.com/gpu", "pods"),
        ("requests.hugepages-2Mi", "pods"),
        ("services.nodeports", "services"),
        ("fast.storageclass.storage.k8s.io/requests.storage", "persistentvolumeclaims"),
        ("count/jobs.batch", "jobs.batch"),
        ("secrets", "secrets"),
        ("limits.nvidia.com/gpu", ""),
    ],
)
def test_what_a_name_counts(name: str, want: str) -> None:
    assert resource_of(name) == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"type": "ClusterIP", "ports": [{}]}, {}),
        ({"type": "NodePort", "ports": [{}, {}]}, {"services.nodeports": "2"}),
        ({"type": "LoadBalancer", "ports": [{}]}, {"services.nodeports": "1", "services.loadbalancers": "1"}),
        (
            {"type": "LoadBalancer", "ports": [{}, {"nodePort": 1}], "allocateLoadBalancerNodePorts": False},
            {"services.nodeports": "1", "services.loadbalancers": "1"},
        ),
    ],
)
def test_services(spec: Json, want: Json) -> None:
    found = {name: str(one) for name, one in usage_of("services", {"spec": spec}).items()}
    assert found == {"count/services": "1", "services": "1", **want}


@pytest.mark.parametrize(
    ("scopes", "pod_spec", "want"),
    [
        (["Terminating"], {"activeDeadlineSeconds": 5}, True),
        (["NotTerminating"], {"activeDeadlineSeconds": 5}, False),
        (["PriorityClass"], {"priorityClassName": "high"}, True),
        ([{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}], {"priorityClassName": "high"}, True),
        ([{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}], {}, True),
        ([{"scopeName": "PriorityClass", "operator": "DoesNotExist"}], {"priorityClassName": "high"}, False),
        (["BestEffort", "NotTerminating"], {}, True),
        (
            ["CrossNamespacePodAffinity"],
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}}},
            True,
        ),
        (["CrossNamespacePodAffinity"], {}, False),
    ],
)
def test_scopes(scopes: list[Any], pod_spec: Json, want: bool) -> None:
    plain = [one for one in scopes if isinstance(one, str)]
    selected = {"matchExpressions": [one for one in scopes if isinstance(one, dict)]}
    limited = {"spec": {"scopes": plain, "scopeSelector": selected}}
    assert is_in_scope(limited, "pods", {"spec": pod_spec, "status": {"qosClass": "BestEffort"}}) is want
    assert not is_in_scope(limited, "configmaps", {})


def test_many_at_once_never_get_more_than_there_is() -> None:
    async def story(world: World) -> None:
        await world.request("POST", f"{NS}/resourcequotas", quota("q", {"cpu": "1", "pods": "20"}))
        asked = [world.request("POST", f"{NS}/pods", pod(f"p{number}", {"cpu": "90m"})) for number in range(40)]
        answers = await asyncio.gather(*asked)
        assert sorted(one.status for one in answers) == [201] * 11 + [403] * 29
        assert await used(world) == {"cpu": "990m", "pods": "11"}

    in_world(story, catalog=everything())


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(proof_count(100)))
def test_used_is_exact_after_any_history(seed: int) -> None:
    chance = Random(seed)
    hard = {"pods": "4", "requests.cpu": "2", "limits.memory": "4Gi", "count/configmaps": "3", "count/pods": "6"}

    async def story(world: World) -> None:
        names = ["q", "terminating"]
        for step in range(40):
            if step in (0, 10):
                more = {"scopes": ["Terminating"]} if step else {}
                hard_now = {"pods": "2", "requests.cpu": "1"} if step else hard
                await world.request("POST", f"{NS}/resourcequotas", quota(names[step // 10], hard_now, **more))
            await _act(world, chance, f"o{chance.randrange(8)}")
            for name in names[: 1 + (step >= 10)]:
                _check_exact(world, name)

    in_world(story, catalog=everything())


async def _act(world: World, chance: Random, name: str) -> None:
    amounts = {"cpu": f"{chance.randrange(0, 900)}m"}, {"memory": f"{chance.randrange(1, 1500)}Mi", "cpu": "1"}
    more: Json = {"activeDeadlineSeconds": 9} if chance.random() < 0.4 else {}
    match chance.randrange(6):
        case 0 | 1:
            await world.request("POST", f"{NS}/pods", pod(name, *amounts, **more))
        case 2:
            await world.request("POST", f"{NS}/configmaps", config(name))
        case 3:
            kind = chance.choice(["pods", "configmaps"])
            await world.request("DELETE", f"{NS}/{kind}/{name}")
        case 4:
            found = await world.get(f"{NS}/pods/{name}")
            if found.status == 200:
                phase = chance.choice(["Running", "Succeeded", "Failed"])
                await world.request("PUT", f"{NS}/pods/{name}/status", {**found.json, "status": {"phase": phase}})
        case 5:
            patch = {"spec": {"hard": {"pods": str(chance.randrange(1, 6))}}}
            merge = {"content-type": "application/merge-patch+json"}
            await world.request("PATCH", f"{NS}/resourcequotas/q", patch, headers=merge)


def _check_exact(world: World, name: str) -> None:
    """Compare what is said to be used with a count of our own, and both with the limits."""
    found = decode(world.store.get(Key("resourcequotas", "default", name)))
    status = found["status"]
    assert status["hard"] == found["spec"]["hard"]
    for one, said in status["used"].items():
        total = ZERO
        resource = resource_of(one)
        for record in world.store.page(Scope(resource, "default")).records:
            item = decode(record)
            if is_in_scope(found, resource, item):
                total = sum_of(total, usage_of(resource, item).get(one, ZERO))
        assert parse_quantity(said) == total, f"{name} says {said} of {one} is used, and {total} is"
