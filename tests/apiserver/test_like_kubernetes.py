"""What a real server was seen to do, kind by kind, with the rules of all built-in kinds in place.

tests/kubernetes asks the two the same; these tables hold without a real server to ask.
"""

from __future__ import annotations

from typing import Any

import pytest

from muster.apiserver.kinds import BUILTIN
from muster.apiserver.served import Catalog, builtin
from tests.apiserver.world import World, config, in_world, pod

PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
YAML = {"content-type": "application/yaml"}
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
METADATA = {
    "labels": {"l": "new"},
    "annotations": {"a": "new"},
    "finalizers": ["example.com/f"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
}


def in_whole_world(story: Any) -> None:
    in_world(story, catalog=Catalog(builtin(BUILTIN)))


def deployment(name: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


# YAML ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "warnings", "refused"),
    [
        pytest.param(
            "revision: 1\nrevision: 2\n",
            ['line 3: key \\"revision\\" already set in map'],
            'yaml: unmarshal errors:\n  line 3: key "revision" already set in map',
            id="a key twice",
        ),
        pytest.param(
            "revision: 2\nzzz: 1\nbar: 1\n",
            ['unknown field \\"bar\\"', 'unknown field \\"zzz\\"'],
            'unknown field "bar", unknown field "zzz"',
            id="unknown fields, in order",
        ),
        pytest.param(
            "revision: 2\nx: {yes: 1, true: 2, yes: 3}\n",
            ["line 3: key true already set in map", 'unknown field \\"x\\"'],
            "yaml: unmarshal errors:\n  line 3: key true already set in map\n  line 3: key true already set in map, "
            'unknown field "x"',
            id="a word that means true",
        ),
        pytest.param("revision: 2\n---\nof: another\n", [], "", id="a second document is not read"),
    ],
)
def test_yaml_is_read_leniently_and_judged_by_the_level(text, warnings, refused):
    async def story(world: World) -> None:
        body = f"metadata: {{name: x}}\n{text}".encode().replace(b"\n---", b"\ndata: {a: 1}\n---")
        body = body if b"\ndata" in body else body + b"data: {a: 1}\n"
        async with world.exchange("POST", REVISIONS, body, headers=YAML) as exchange:
            await exchange.done
            assert (exchange.status, exchange.answer().json["revision"]) == (201, 2)
            assert exchange.warnings == [f'299 - "{one}"' for one in warnings]
        strict = await world.request("POST", f"{REVISIONS}?fieldValidation=Strict&dryRun=All", body, headers=YAML)
        assert (strict.status == 400) is bool(refused)
        assert refused in strict.json.get("message", "")

    in_whole_world(story)


def test_warnings_are_no_more_than_anybody_reads():
    async def story(world: World) -> None:
        many = "".join(f"unknown{number}: 1\n" for number in range(5_000))
        async with world.exchange("POST", CONFIGS, f"metadata: {{name: x}}\n{many}".encode(), headers=YAML) as exchange:
            await exchange.done
            assert 50 < len(exchange.warnings) < 500

    in_whole_world(story)


# Statuses ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "item", "left_alone"),
    [
        pytest.param(PODS, pod("x"), ("ownerReferences",), id="pods"),
        pytest.param("/apis/apps/v1/namespaces/default/deployments", deployment("x"), ("labels",), id="deployments"),
        pytest.param("/api/v1/nodes", {"metadata": {"name": "x"}}, (), id="nodes"),
        pytest.param(
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            {"metadata": {"name": "x"}, "spec": {}},
            tuple(METADATA),
            id="claims",
        ),
    ],
)
def test_the_metadata_that_goes_with_a_status(path, item, left_alone):
    async def story(world: World) -> None:
        before = (await world.request("POST", path, item)).json["metadata"]
        after = (await world.request("PATCH", f"{path}/x/status", {"metadata": METADATA}, headers=MERGE)).json
        for name, value in METADATA.items():
            assert after["metadata"].get(name) == (before.get(name) if name in left_alone else value), name
        assert after["metadata"].get("generation") == before.get("generation")

    in_whole_world(story)


# Updates -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        pytest.param({}, 422, id="none"),
        pytest.param({"resourceVersion": "0"}, 422, id="zero is none"),
        pytest.param({"resourceVersion": "1"}, 409, id="an earlier one"),
        pytest.param({"uid": "other"}, 409, id="another object"),
    ],
)
def test_a_lease_is_not_overwritten_blindly(metadata, code):
    async def story(world: World) -> None:
        lease = {"metadata": {"name": "l", **metadata}, "spec": {"holderIdentity": "me"}}
        missing = await world.request("PUT", f"{LEASES}/l", lease)
        assert missing.status == (409 if "uid" in metadata else 201), "a lease is made by an update"
        await world.request("POST", LEASES, {"metadata": {"name": "l"}})
        assert (await world.request("PUT", f"{LEASES}/l", lease)).status == code

    in_whole_world(story)


@pytest.mark.parametrize(
    ("headers", "patch", "code"),
    [
        (MERGE, {"metadata": {"uid": "other"}}, 422),
        (MERGE, {"metadata": None}, 400),
        (MERGE, {"kind": "Other"}, 422),
        (MERGE, b"null", 400),
        (STRATEGIC, {"kind": "Other"}, 200),
        (STRATEGIC, b"null", 200),
    ],
)
def test_a_patch_cannot_change_who_an_object_is(headers, patch, code):
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a"))
        answer = await world.request("PATCH", f"{CONFIGS}/a", patch, headers=headers)
        assert answer.status == code
        assert (await world.get(f"{CONFIGS}/a")).json["kind"] == "ConfigMap"

    in_whole_world(story)


def test_all_that_is_wrong_is_told_at_once():
    async def story(world: World) -> None:
        answer = await world.request("POST", PODS, {"metadata": {"labels": {"a b": "c"}, "finalizers": ["hold"]}})
        causes = [(one["field"], one["reason"]) for one in answer.json["details"]["causes"]]
        assert causes == [
            ("metadata.name", "FieldValueRequired"),
            ("metadata.labels", "FieldValueInvalid"),
            ("metadata.finalizers[0]", "FieldValueInvalid"),
            ("spec.containers", "FieldValueRequired"),
        ]
        assert 'metadata.labels: Invalid value: "a b": ' in answer.json["message"]

    in_whole_world(story)


def test_a_service_leaves_behind_what_it_had_by_its_type():
    async def story(world: World) -> None:
        path = "/api/v1/namespaces/default/services"
        given = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
        assert (await world.request("POST", path, given)).json["spec"]["ports"][0]["nodePort"]
        patch = {"spec": {"type": "ClusterIP"}}
        inside = (await world.request("PATCH", f"{path}/s", patch, headers=MERGE)).json["spec"]
        assert "nodePort" not in inside["ports"][0] and "externalTrafficPolicy" not in inside
        ingress = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
        refused = await world.request("PATCH", f"{path}/s/status", ingress, headers=MERGE)
        assert refused.json["details"]["causes"][0]["field"] == "status.loadBalancer.ingress"
        outside = {"spec": {"type": "ExternalName", "externalName": "example.com"}}
        named = (await world.request("PATCH", f"{path}/s", outside, headers=MERGE)).json["spec"]
        assert "clusterIP" not in named and "ipFamilies" not in named

    in_whole_world(story)


# Deletions -----------------------------------------------------------------------------------------------------------


def test_a_pod_is_seen_to_go_before_it_is_gone():
    async def story(world: World) -> None:
        await world.request("POST", PODS, pod("a"))
        async with world.exchange("GET", f"{PODS}?watch=true") as watch:
            await world.request("DELETE", f"{PODS}/a")
            events = await watch.events(3)
        assert [one["type"] for one in events] == ["ADDED", "MODIFIED", "DELETED"]
        assert all(one["object"]["metadata"]["deletionGracePeriodSeconds"] == 0 for one in events[1:])

    in_whole_world(story)


def test_the_last_state_is_the_one_that_was_stored():
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a", finalizers=["example.com/hold"]))
        marked = (await world.request("DELETE", f"{CONFIGS}/a")).json["metadata"]
        async with world.exchange("GET", f"{CONFIGS}?watch=true&resourceVersion={marked['resourceVersion']}") as watch:
            freed = {"metadata": {"finalizers": None}}
            answer = (await world.request("PATCH", f"{CONFIGS}/a", freed, headers=MERGE)).json["metadata"]
            (event,) = await watch.events(1)
        assert "finalizers" not in answer and answer["resourceVersion"] == marked["resourceVersion"]
        assert (event["type"], event["object"]["metadata"]["finalizers"]) == ("DELETED", ["example.com/hold"])

    in_whole_world(story)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param({}, 200, id="then the parameters do not count, not even dryRun"),
        pytest.param({"kind": "Pod"}, 400, id="no DeleteOptions"),
        pytest.param({"kind": "DeleteOptions", "apiVersion": "v1"}, 200, id="DeleteOptions of any version"),
        pytest.param({"gracePeriodSeconds": "x"}, 400, id="no number"),
        pytest.param({"preconditions": {"uid": ""}}, 409, id="no object has no uid"),
        pytest.param({"preconditions": {"resourceVersion": "x"}}, 409, id="no state of it"),
        pytest.param(b"propagationPolicy: Background\n", 200, id="YAML"),
    ],
)
def test_what_a_body_says_of_a_deletion(body, code):
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a"))
        headers = YAML if isinstance(body, bytes) else {}
        answer = await world.request("DELETE", f"{CONFIGS}/a?dryRun=All", body, headers=headers)
        assert answer.status == code
        assert (await world.get(f"{CONFIGS}/a")).status == (404 if code == 200 else 200)

    in_whole_world(story)


def test_who_deletes_a_job_is_told_of_its_pods():
    async def story(world: World) -> None:
        for body, told in (({}, 1), ({"propagationPolicy": "Orphan"}, 0)):
            async with world.exchange("DELETE", f"{JOBS}/none", body) as exchange:
                await exchange.done
                assert (exchange.status, len(exchange.warnings)) == (404, told)

    in_whole_world(story)


def test_an_event_belongs_to_itself_and_says_that_it_has_no_times():
    async def story(world: World) -> None:
        events = "/api/v1/namespaces/default/events"
        given = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}}
        made = (await world.request("POST", events, given)).json
        assert [made[name] for name in ("eventTime", "firstTimestamp", "lastTimestamp")] == [None] * 3
        newer = (await world.get("/apis/events.k8s.io/v1/namespaces/default/events/e")).json
        assert newer["eventTime"] is None and "reportingController" not in newer
        assert (await world.request("DELETE", f"{events}/e?propagationPolicy=Orphan")).json["status"] == "Success"

    in_whole_world(story)


# Watches and lists ---------------------------------------------------------------------------------------------------


def test_only_the_first_table_of_a_watch_has_columns():
    async def story(world: World) -> None:
        for name in ("a", "b"):
            await world.request("POST", CONFIGS, config(name))
        async with world.exchange("GET", f"{CONFIGS}?watch=true", headers=TABLE) as watch:
            first, second = await watch.events(2)
            await world.request("DELETE", f"{CONFIGS}/a")
            (third,) = await watch.events(1)
        assert first["object"]["columnDefinitions"][0]["name"] == "Name"
        assert second["object"]["columnDefinitions"] is third["object"]["columnDefinitions"] is None

    in_whole_world(story)


def test_a_watch_from_a_revision_to_come_waits_for_it():
    async def story(world: World) -> None:
        soon = world.store.revision + 2
        async with world.exchange("GET", f"{CONFIGS}?watch=true&resourceVersion={soon}") as watch:
            for name in ("a", "b", "c"):
                await world.request("POST", CONFIGS, config(name))
            (event,) = await watch.events(1)
        assert event["object"]["metadata"]["name"] == "c"
        initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        refused = await world.get(f"{CONFIGS}?watch=true&resourceVersion=999&{initial}")
        assert (refused.status, b'"code":504' in refused.body) == (200, True)
        assert (await world.get(f"{CONFIGS}/a?resourceVersion=999")).status == 504

    in_whole_world(story)


def test_an_old_kind_says_so_in_every_answer():
    async def story(world: World) -> None:
        path = "/api/v1/namespaces/default/endpoints"
        for target in (path, f"{path}/none", f"{path}?watch=true&timeoutSeconds=1"):
            async with world.exchange("GET", target) as exchange:
                if "watch" not in target:
                    await exchange.done
                else:
                    await world.request("POST", path, {"metadata": {"name": "e"}})
                    await exchange.events(1)
                (told,) = exchange.warnings
                assert "v1 Endpoints is deprecated in v1.33+" in told

    in_whole_world(story)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("limit=1&limit=2", 1),
        ("limit=%zz", 3),
        ("labelSelector=a;b", 3),
        ("fieldSelector==", 3),
        ("watch=false", 3),
        ("watch=0", 3),
        ("limit=", 400),
        ("timeoutSeconds=x", 400),
        ("continue=x&resourceVersion=1&resourceVersionMatch=Exact", 422),
        ("limit=99999999999999999999", 400),
    ],
)
def test_parameters_mean_what_they_mean_to_kubernetes(query, count):
    async def story(world: World) -> None:
        for name in ("a", "b", "c"):
            await world.request("POST", CONFIGS, config(name))
        answer = await world.get(f"{CONFIGS}?{query}")
        assert (len(answer.json["items"]) if answer.status == 200 else answer.status) == count

    in_whole_world(story)


@pytest.mark.parametrize("value", ["", "yes", "TRUE", "1", "no"])
def test_whatever_does_not_say_no_asks_for_a_watch(value):
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a"))
        async with world.exchange("GET", f"{CONFIGS}?watch={value}") as watch:
            (event,) = await watch.events(1)
            assert event["type"] == "ADDED"

    in_whole_world(story)
