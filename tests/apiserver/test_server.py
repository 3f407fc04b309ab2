"""The API server in process: every verb on objects, and what it answers."""

from __future__ import annotations

import json

import pytest

from muster.apiserver import protobuf
from muster.apiserver.authentication import Tokens
from tests.apiserver.world import World, config, in_world, pod

PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"
MERGE = {"content-type": "application/merge-patch+json"}


def test_an_object_is_created_read_changed_and_deleted():
    async def story(world: World) -> None:
        made = await world.request("POST", CONFIGS, config("a", data={"k": "v"}))
        assert (made.status, made.json["metadata"]["name"], made.json["data"]) == (201, "a", {"k": "v"})
        assert made.json["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
        read = await world.get(f"{CONFIGS}/a")
        assert (read.status, read.json) == (200, made.json)
        put = await world.request("PUT", f"{CONFIGS}/a", {**made.json, "data": {"k": "w"}})
        assert (put.status, put.json["data"]) == (200, {"k": "w"})
        assert int(put.json["metadata"]["resourceVersion"]) > int(made.json["metadata"]["resourceVersion"])
        merged = await world.request("PATCH", f"{CONFIGS}/a", {"data": {"l": "x"}}, headers=MERGE)
        assert (merged.status, merged.json["data"]) == (200, {"k": "w", "l": "x"})
        gone = await world.request("DELETE", f"{CONFIGS}/a")
        assert gone.json["status"] == "Success"
        assert gone.json["details"] == {"name": "a", "kind": "configmaps", "uid": made.json["metadata"]["uid"]}
        assert (await world.get(f"{CONFIGS}/a")).status == 404

    in_world(story)


def test_a_generated_name_and_the_namespace_of_the_path():
    async def story(world: World) -> None:
        given = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-"}}
        made = await world.request("POST", CONFIGS, given)
        metadata = made.json["metadata"]
        assert metadata["name"].startswith("job-")
        assert len(metadata["name"]) == 9
        assert metadata["namespace"] == "default"

    in_world(story)


def test_a_body_without_its_kind_is_of_the_kind_of_its_path():
    async def story(world: World) -> None:
        made = await world.request("POST", CONFIGS, {"metadata": {"name": "a"}})
        assert (made.status, made.json["kind"], made.json["apiVersion"]) == (201, "ConfigMap", "v1")

    in_world(story)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param("application/yaml", b"metadata: {name: a}\ndata:\n  k: 'v'\n", id="YAML"),
        pytest.param("application/json; charset=utf-8", json.dumps(config("a", data={"k": "v"})).encode(), id="JSON"),
        pytest.param(protobuf.CONTENT_TYPE, protobuf.encode(config("a", data={"k": "v"})), id="protobuf"),
    ],
)
def test_bodies_in_three_forms(content_type, body):
    async def story(world: World) -> None:
        made = await world.request("POST", CONFIGS, body, headers={"content-type": content_type})
        assert (made.status, made.json.get("data")) == (201, {"k": "v"})

    in_world(story)


def test_a_dry_run_answers_and_keeps_nothing():
    async def story(world: World) -> None:
        before = world.store.revision
        made = await world.request("POST", f"{CONFIGS}?dryRun=All", config("a"))
        assert (made.status, made.json["metadata"]["name"]) == (201, "a")
        assert world.store.revision == before
        await world.request("POST", CONFIGS, config("a"))
        await world.request("DELETE", f"{CONFIGS}/a", {"dryRun": ["All"]})
        assert (await world.get(f"{CONFIGS}/a")).status == 200

    in_world(story)


def test_the_loser_of_a_race_is_told():
    async def story(world: World) -> None:
        made = (await world.request("POST", CONFIGS, config("a"))).json
        assert (await world.request("PUT", f"{CONFIGS}/a", {**made, "data": {"k": "1"}})).status == 200
        lost = await world.request("PUT", f"{CONFIGS}/a", {**made, "data": {"k": "2"}})
        assert (lost.status, lost.json["reason"]) == (409, "Conflict")
        assert lost.json["message"] == (
            'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
            "please apply your changes to the latest version and try again"
        )
        stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"k": "3"}}
        patched = await world.request("PATCH", f"{CONFIGS}/a", stale, headers=MERGE)
        assert (patched.status, patched.json["reason"]) == (409, "Conflict")
        free = await world.request("PUT", f"{CONFIGS}/a", config("a", data={"k": "4"}))
        assert (free.status, free.json["data"]) == (200, {"k": "4"}), "without a revision the last writer wins"

    in_world(story)


def test_nothing_changed_is_no_new_revision():
    async def story(world: World) -> None:
        made = (await world.request("POST", CONFIGS, config("a", data={"k": "v"}))).json
        again = await world.request("PATCH", f"{CONFIGS}/a", {"data": {"k": "v"}}, headers=MERGE)
        assert again.json["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    in_world(story)


# Deleting ------------------------------------------------------------------------------------------------------------


def test_preconditions_of_a_deletion():
    async def story(world: World) -> None:
        made = (await world.request("POST", CONFIGS, config("a"))).json["metadata"]
        for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
            answer = await world.request("DELETE", f"{CONFIGS}/a", {"preconditions": wrong})
            assert (answer.status, answer.json["reason"]) == (409, "Conflict")
        right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
        assert (await world.request("DELETE", f"{CONFIGS}/a", {"preconditions": right})).status == 200

    in_world(story)


def test_finalizers_hold_an_object():
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a", finalizers=["example.com/hold"]))
        marked = await world.request("DELETE", f"{CONFIGS}/a", {"propagationPolicy": "Foreground"})
        assert marked.json["metadata"]["finalizers"] == ["example.com/hold", "foregroundDeletion"]
        assert marked.json["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:20Z"
        free = await world.request("PATCH", f"{CONFIGS}/a", {"metadata": {"finalizers": None}}, headers=MERGE)
        assert free.status == 200
        assert (await world.get(f"{CONFIGS}/a")).status == 404

    in_world(story)


@pytest.mark.parametrize(
    ("query", "body", "finalizers"),
    [
        ("", {"propagationPolicy": "Orphan"}, ["orphan"]),
        ("?propagationPolicy=Foreground", None, ["foregroundDeletion"]),
        ("?orphanDependents=true", None, ["orphan"]),
        ("", {"orphanDependents": True}, ["orphan"]),
    ],
)
def test_three_propagations(query, body, finalizers):
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a"))
        answer = await world.request("DELETE", f"{CONFIGS}/a{query}", body)
        assert answer.json["metadata"]["finalizers"] == finalizers

    in_world(story)


def test_a_pod_on_a_node_gets_time_to_end():
    async def story(world: World) -> None:
        await world.request("POST", PODS, pod("a", spec={"nodeName": "n"}))
        marked = (await world.request("DELETE", f"{PODS}/a")).json["metadata"]
        assert (marked["deletionGracePeriodSeconds"], marked["deletionTimestamp"]) == (30, "2023-11-14T22:13:50Z")
        gone = await world.request("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
        assert (gone.status, gone.json["kind"]) == (200, "Pod")
        assert (await world.get(f"{PODS}/a")).status == 404

    in_world(story)


def test_a_collection_is_deleted_by_selector():
    async def story(world: World) -> None:
        for number in range(250):
            await world.request("POST", CONFIGS, config(f"c{number}", labels={"odd": str(number % 2)}))
        gone = await world.request("DELETE", f"{CONFIGS}?labelSelector=odd=1")
        assert (gone.json["kind"], len(gone.json["items"])) == ("ConfigMapList", 125)
        left = (await world.get(CONFIGS)).json["items"]
        assert {one["metadata"]["labels"]["odd"] for one in left} == {"0"}

    in_world(story)


# Forms ---------------------------------------------------------------------------------------------------------------


def test_metadata_alone():
    async def story(world: World) -> None:
        made = (await world.request("POST", CONFIGS, config("a", data={"k": "v"}))).json
        accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        one = (await world.get(f"{CONFIGS}/a", accept=accept)).json
        assert one == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        listed = (await world.get(CONFIGS, accept=accept)).json
        assert (listed["kind"], listed["items"]) == ("PartialObjectMetadataList", [one])

    in_world(story)


def test_tables():
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a", data={"k": "v"}))
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        for path in (CONFIGS, f"{CONFIGS}/a"):
            table = (await world.get(path, accept=accept)).json
            assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "Data", "Age"]
            assert table["rows"][0]["cells"][:2] == ["a", 1]
            assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        full = (await world.get(f"{CONFIGS}?includeObject=Object", accept=accept)).json
        assert full["rows"][0]["object"]["data"] == {"k": "v"}

    in_world(story)


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("", 200),
        ("*/*", 200),
        ("application/vnd.kubernetes.protobuf, */*", 200),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("text/html", 406),
        ("application/json;as=Table;v=v9;g=meta.k8s.io", 406),
    ],
)
def test_what_clients_accept(accept, status):
    async def story(world: World) -> None:
        assert (await world.get(CONFIGS, accept=accept)).status == status

    in_world(story)


# Fields --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "status", "warning"),
    [
        ("", 201, '299 - "unknown field \\"spec.nope\\""'),
        ("Warn", 201, '299 - "unknown field \\"spec.nope\\""'),
        ("Ignore", 201, ""),
        ("Strict", 400, ""),
    ],
)
def test_fields_that_a_kind_does_not_have(level, status, warning):
    async def story(world: World) -> None:
        path = f"{PODS}?fieldValidation={level}" if level else PODS
        async with world.exchange("POST", path, pod("a", spec={"nope": 1})) as exchange:
            await exchange.done
            assert (exchange.status, "".join(exchange.warnings)) == (status, warning)
            if level == "Strict":
                assert 'strict decoding error: unknown field "spec.nope"' in exchange.answer().json["message"]

    in_world(story)


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata": {"name": "a"}, "data": {"k": "1", "k": "2"}}',
        b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}',
        b'{"metadata" : {"name" :"a"},"data":{"k" : "1","k":"2"}}',
        b'{"metadata":{"name":"a"},"data":{"k":"1","\\u006b":"2"}}',
        b'{"metadata":{"name":"a"},"data":{"k":"a\\":b","k":"2"}}',
    ],
)
def test_fields_that_are_given_twice(body):
    async def story(world: World) -> None:
        async with world.exchange("POST", CONFIGS, body) as exchange:
            await exchange.done
            assert (exchange.status, exchange.warnings) == (201, ['299 - "duplicate field \\"data.k\\""'])
        strict = await world.request("POST", f"{CONFIGS}?fieldValidation=Strict", body)
        assert (strict.status, "duplicate field" in strict.json["message"]) == (400, True)

    in_world(story)


def test_a_warning_cannot_end_its_header():
    async def story(world: World) -> None:
        given = {**config("a"), 'x"\r\nevil: 1': 2}
        async with world.exchange("POST", CONFIGS, given) as exchange:
            await exchange.done
            (warning,) = exchange.warnings
            assert exchange.status == 201
            assert "\r" not in warning and "\n" not in warning

    in_world(story)


# Who may -------------------------------------------------------------------------------------------------------------


def test_only_the_token_opens_the_door():
    async def story(world: World) -> None:
        paths = [
            *(f"/api/v1/namespaces/default/{one.kind.plural}" for one in world.catalog.all if one.kind.is_namespaced),
            "/api",
            "/apis",
            "/version",
            "/openapi/v3",
            "/nothing/here",
        ]
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic cmlnaHQ="}):
            for path in paths:
                refused = await world.request("GET", path, headers=headers)
                assert (refused.status, refused.json["reason"]) == (401, "Unauthorized"), path
            for path in ("/healthz", "/livez", "/readyz"):
                assert (await world.request("GET", path, headers=headers)).body == b"ok"
        let_in = await world.request("GET", CONFIGS, headers={"authorization": "Bearer right"})
        assert let_in.status == 200

    in_world(story, authenticator=Tokens("right"))
