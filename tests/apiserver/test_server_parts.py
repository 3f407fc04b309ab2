"""Subresources, reviews, discovery and the two views of events."""

from __future__ import annotations

import pytest

from muster.app.kinds import catalog
from tests.apiserver.world import World, config, in_world, pod

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = {"content-type": "application/merge-patch+json"}


def deployment(name: str, replicas: int) -> dict:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": {}},
    }


# Status --------------------------------------------------------------------------------------------------------------


def test_a_status_has_a_way_of_its_own():
    async def story(world: World) -> None:
        made = (await world.request("POST", PODS, pod("a", status={"phase": "Running"}))).json
        assert made["status"] == {"phase": "Pending"}, "who creates an object does not say how it is"
        ready = {**made, "spec": {"containers": []}, "status": {"phase": "Running"}}
        put = await world.request("PUT", f"{PODS}/a/status", ready)
        assert put.json["status"] == {"phase": "Running"}
        assert put.json["spec"] == made["spec"]
        main = await world.request("PATCH", f"{PODS}/a", {"status": {"phase": "Failed"}}, headers=MERGE)
        assert main.json["status"] == {"phase": "Running"}
        patched = await world.request("PATCH", f"{PODS}/a/status", {"status": {"phase": "Failed"}}, headers=MERGE)
        assert patched.json["status"] == {"phase": "Failed"}
        assert (await world.get(f"{PODS}/a/status")).json == patched.json

    in_world(story)


# Scale ---------------------------------------------------------------------------------------------------------------


def test_scale():
    async def story(world: World) -> None:
        await world.request("POST", DEPLOYMENTS, deployment("a", 2))
        scale = (await world.get(f"{DEPLOYMENTS}/a/scale")).json
        assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
        assert scale["status"] == {"replicas": 0, "selector": "app=x"}
        patched = await world.request("PATCH", f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": 5}}, headers=MERGE)
        assert (patched.status, patched.json["spec"]) == (200, {"replicas": 5})
        assert (await world.get(f"{DEPLOYMENTS}/a")).json["spec"]["replicas"] == 5
        stale = await world.request("PUT", f"{DEPLOYMENTS}/a/scale", {**scale, "spec": {"replicas": 7}})
        assert (stale.status, stale.json["reason"]) == (409, "Conflict")
        fresh = await world.request("PUT", f"{DEPLOYMENTS}/a/scale", {**patched.json, "spec": {"replicas": 0}})
        assert (fresh.status, fresh.json["spec"]) == (200, {})
        below = await world.request("PATCH", f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": -1}}, headers=MERGE)
        assert (below.status, below.json["details"]["causes"][0]["field"]) == (422, "spec.replicas")
        assert (await world.get(f"{DEPLOYMENTS}/none/scale")).status == 404

    in_world(story)


# Binding -------------------------------------------------------------------------------------------------------------


def binding(pod_name: str, node: str, **metadata: object) -> dict:
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod_name, **metadata}, "target": {"name": node}}


@pytest.mark.parametrize("path", [f"{PODS}/a/binding", "/api/v1/namespaces/default/bindings"])
def test_a_pod_is_bound_once(path):
    async def story(world: World) -> None:
        await world.request("POST", PODS, pod("a"))
        bound = await world.request("POST", path, binding("a", "n1", annotations={"k": "v"}))
        assert (bound.status, bound.json["status"]) == (201, "Success")
        found = (await world.get(f"{PODS}/a")).json
        assert found["spec"]["nodeName"] == "n1"
        assert found["metadata"]["annotations"] == {"k": "v"}
        (condition,) = found["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
        again = await world.request("POST", path, binding("a", "n2"))
        assert (again.status, again.json["reason"]) == (409, "Conflict")
        assert 'already assigned to node "n1"' in again.json["message"]

    in_world(story)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (binding("a", ""), 422),
        ({**binding("a", "n"), "target": {"name": "n", "kind": "Rack"}}, 422),
        (binding("b", "n"), 400),
        (binding("a", "n", uid="another"), 409),
    ],
)
def test_bindings_that_are_refused(given, code):
    async def story(world: World) -> None:
        await world.request("POST", PODS, pod("a"))
        assert (await world.request("POST", f"{PODS}/a/binding", given)).status == code
        assert "nodeName" not in (await world.get(f"{PODS}/a")).json["spec"]
        assert (await world.request("POST", f"{PODS}/none/binding", binding("none", "n"))).status == 404

    in_world(story)


def test_a_dry_run_binds_nothing():
    async def story(world: World) -> None:
        await world.request("POST", PODS, pod("a"))
        assert (await world.request("POST", f"{PODS}/a/binding?dryRun=All", binding("a", "n"))).status == 201
        assert "nodeName" not in (await world.get(f"{PODS}/a")).json["spec"]

    in_world(story)


# Eviction ------------------------------------------------------------------------------------------------------------

EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}


async def running_pod(world: World, name: str) -> None:
    await world.request("POST", PODS, pod(name, labels={"app": "x"}))
    await world.request("PATCH", f"{PODS}/{name}/status", {"status": {"phase": "Running"}}, headers=MERGE)


async def budget(world: World, name: str, allowed: int, generation: int = 1) -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
    given = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
    await world.request("POST", BUDGETS, given)
    status = {"disruptionsAllowed": allowed, "observedGeneration": generation, "desiredHealthy": 1, "currentHealthy": 1}
    answer = await world.request("PATCH", f"{BUDGETS}/{name}/status", {"status": status}, headers=MERGE)
    assert answer.status == 200, answer.body


def test_an_eviction_takes_from_the_budget():
    async def story(world: World) -> None:
        await running_pod(world, "a")
        await budget(world, "b", allowed=1)
        done = await world.request("POST", f"{PODS}/a/eviction", EVICTION)
        assert (done.status, done.json["status"]) == (201, "Success")
        assert (await world.get(f"{PODS}/a")).status == 404
        status = (await world.get(f"{BUDGETS}/b")).json["status"]
        assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["a"])

    in_world(story)


@pytest.mark.parametrize(
    ("allowed", "generation", "words", "retry_s"),
    [(0, 1, "needs 1 healthy pods and has 1 currently", None), (1, 0, "still being processed", 10)],
)
def test_a_budget_that_is_used_up_holds_a_pod(allowed, generation, words, retry_s):
    async def story(world: World) -> None:
        await running_pod(world, "a")
        await budget(world, "b", allowed, generation)
        held = await world.request("POST", f"{PODS}/a/eviction", EVICTION)
        assert (held.status, held.json["reason"]) == (429, "TooManyRequests")
        (cause,) = held.json["details"]["causes"]
        assert cause["reason"] == "DisruptionBudget"
        assert words in cause["message"]
        assert held.json["details"].get("retryAfterSeconds") == retry_s, "kubectl drain waits in silence if it is given"
        assert (await world.get(f"{PODS}/a")).status == 200

    in_world(story)


def test_evictions_without_a_budget():
    async def story(world: World) -> None:
        await budget(world, "b", allowed=0)
        await world.request("POST", PODS, pod("a", labels={"app": "x"}))
        waiting = await world.request("POST", f"{PODS}/a/eviction", EVICTION)
        assert waiting.status == 201, "a pod that does not run yet may go"
        await running_pod(world, "a")
        await budget(world, "c", allowed=1)
        both = await world.request("POST", f"{PODS}/a/eviction", EVICTION)
        assert (both.status, both.json["reason"]) == (500, "InternalError")
        wrong = {**EVICTION, "metadata": {"name": "other"}}
        assert (await world.request("POST", f"{PODS}/a/eviction", wrong)).status == 400

    in_world(story)


# Namespaces ----------------------------------------------------------------------------------------------------------


def test_a_namespace_goes_when_it_is_finalized():
    async def story(world: World) -> None:
        await world.request("POST", "/api/v1/namespaces/other/configmaps", config("a"))
        marked = await world.request("DELETE", "/api/v1/namespaces/other")
        assert marked.json["status"]["phase"] == "Terminating"
        again = await world.request("DELETE", "/api/v1/namespaces/other")
        assert again.json == marked.json
        refused = await world.request("POST", "/api/v1/namespaces/other/configmaps", config("b"))
        assert (refused.status, refused.json["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
        labelled = {"metadata": {"labels": {"a": "b"}}}
        assert (await world.request("PATCH", "/api/v1/namespaces/other", labelled, headers=MERGE)).status == 200
        given = {**marked.json, "metadata": {"name": "other"}, "spec": {}}
        assert (await world.request("PUT", "/api/v1/namespaces/other/finalize", given)).status == 200
        assert (await world.get("/api/v1/namespaces/other")).status == 404

    in_world(story)


def test_some_namespaces_are_needed():
    async def story(world: World) -> None:
        answer = await world.request("DELETE", "/api/v1/namespaces/default")
        assert (answer.status, answer.json["reason"]) == (403, "Forbidden")

    in_world(story)


# Events --------------------------------------------------------------------------------------------------------------


def test_events_have_two_views():
    async def story(world: World) -> None:
        core = "/api/v1/namespaces/default/events"
        newer = "/apis/events.k8s.io/v1/namespaces/default/events"
        given = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e1"},
            "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
            "reason": "Started",
            "message": "it runs",
            "source": {"component": "kubelet"},
            "count": 3,
        }
        await world.request("POST", core, given)
        seen = (await world.get(f"{newer}/e1")).json
        assert (seen["apiVersion"], seen["note"], seen["deprecatedCount"]) == ("events.k8s.io/v1", "it runs", 3)
        assert seen["regarding"]["name"] == "a"
        newest = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": "e2"},
            "regarding": {"kind": "Pod", "name": "b"},
            "note": "it stopped",
            "reportingController": "example.com/c",
        }
        made = await world.request("POST", newer, newest)
        assert (made.status, made.json["note"]) == (201, "it stopped")
        assert (await world.get(f"{core}/e2")).json["message"] == "it stopped"
        listed = (await world.get(f"{core}?fieldSelector=involvedObject.name=b")).json["items"]
        assert [one["metadata"]["name"] for one in listed] == ["e2"]
        listed = (await world.get(f"{newer}?fieldSelector=regarding.name=a,type!=Warning")).json["items"]
        assert [one["apiVersion"] for one in listed] == ["events.k8s.io/v1"]
        patched = await world.request("PATCH", f"{newer}/e2", {"note": "it stopped again"}, headers=MERGE)
        assert patched.json["note"] == "it stopped again"
        async with world.exchange("GET", f"{newer}?watch=true") as watch:
            assert [one["object"]["note"] for one in await watch.events(2)] == ["it runs", "it stopped again"]

    in_world(story)


# Reviews -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "kind", "spec", "status"),
    [
        ("authorization", "SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get"}}, {"allowed": True}),
        (
            "authentication",
            "SelfSubjectReview",
            {},
            {"userInfo": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}},
        ),
    ],
)
def test_reviews(group, kind, spec, status):
    async def story(world: World) -> None:
        given = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
        answer = await world.request("POST", f"/apis/{group}.k8s.io/v1/{kind.lower()}s", given)
        assert (answer.status, answer.json["kind"], answer.json["status"]) == (201, kind, status)

    in_world(story)


# Discovery -----------------------------------------------------------------------------------------------------------

AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}


def test_both_forms_of_discovery_say_the_same():
    async def story(world: World) -> None:
        plain = {}
        for path in ("/api/v1", *(f"/apis/{one['preferredVersion']['groupVersion']}" for one in await groups(world))):
            listed = (await world.get(path)).json
            for one in listed["resources"]:
                plain[listed["groupVersion"], one["name"]] = (one["kind"], tuple(one["verbs"]), one["namespaced"])
        aggregated = {}
        for path in ("/api", "/apis"):
            answer = await world.get(path, **AGGREGATED)
            assert answer.headers["content-type"] == AGGREGATED["accept"].partition(",")[0]
            for group in answer.json["items"]:
                for version in group["versions"]:
                    name = group["metadata"].get("name", "")
                    group_version = f"{name}/{version['version']}" if name else version["version"]
                    for one in version["resources"]:
                        is_namespaced = one["scope"] == "Namespaced"
                        found = (one["responseKind"]["kind"], tuple(one["verbs"]), is_namespaced)
                        aggregated[group_version, one["resource"]] = found
                        for part in one.get("subresources", []):
                            key = (group_version, f"{one['resource']}/{part['subresource']}")
                            aggregated[key] = (part["responseKind"]["kind"], tuple(part["verbs"]), is_namespaced)
        assert aggregated == plain
        assert plain["apps/v1", "deployments/scale"][0] == "Scale"

    in_world(story)


async def groups(world: World) -> list[dict]:
    return (await world.get("/apis")).json["groups"]


def test_the_server_says_what_it_is():
    async def story(world: World) -> None:
        version = (await world.get("/version")).json
        assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")
        assert (await world.get("/api")).json["versions"] == ["v1"]
        assert "/apis/batch/v1" in (await world.get("/")).json["paths"]
        assert (await world.get("/apis/batch")).json["preferredVersion"]["groupVersion"] == "batch/v1"
        assert (await world.get("/apis/nope")).status == 404
        assert (await world.get("/apis/batch/v9")).status == 404

    in_world(story)


# The dialects' own kinds ---------------------------------------------------------------------------------------------


def test_a_dialect_s_kinds_are_served_in_both_versions():
    async def story(world: World) -> None:
        newer, older = (f"/apis/kueue.x-k8s.io/{version}/clusterqueues" for version in ("v1beta2", "v1beta1"))
        given = {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "ClusterQueue",
            "metadata": {"name": "q"},
            "spec": {"cohort": "all", "namespaceSelector": {}},
        }
        made = await world.request("POST", older, given)
        assert (made.status, made.json["spec"]["cohort"]) == (201, "all")
        seen = (await world.get(f"{newer}/q")).json
        assert (seen["apiVersion"], seen["spec"]["cohortName"]) == ("kueue.x-k8s.io/v1beta2", "all")
        blind = await world.request("PUT", f"{newer}/q", {**seen, "metadata": {"name": "q"}})
        assert (blind.status, blind.json["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
        merged = await world.request("PATCH", f"{older}/q", {"spec": {"cohort": "some"}}, headers=MERGE)
        assert (merged.status, merged.json["spec"]["cohort"]) == (200, "some")
        strategic = {"content-type": "application/strategic-merge-patch+json"}
        assert (await world.request("PATCH", f"{newer}/q", {}, headers=strategic)).status == 415
        unknown = {**given, "metadata": {"name": "r"}, "spec": {"nope": 1, "namespaceSelector": {}}}
        strict = await world.request("POST", f"{older}?fieldValidation=Strict", unknown)
        assert (strict.status, "spec.nope" in strict.json["message"]) == (400, True)
        async with world.exchange("POST", older, {**given, "metadata": {"name": "s"}, "spec": {}}) as exchange:
            await exchange.done
            assert exchange.status == 201
            old, odd = exchange.warnings
            assert old == '299 - "This version is deprecated. Use v1beta2 instead."'
            assert "namespaceSelector" in odd, "a queue that admits nobody is odd"

    in_world(story, catalog=catalog())
