"""The same definitions and objects to a real server and to Muster: verdicts, sentences, stored forms and tables."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from tests.apiserver.definitions.chance import object_of, schema_of
from tests.apiserver.definitions.servers import (
    DEFINITIONS,
    MERGE,
    TABLE,
    Here,
    given_definitions,
    sample_object,
    versions,
)
from tests.apiserver.definitions.stories import definition, stories
from tests.apiserver.definitions.test_objects import SPEC, STATUS
from tests.kubernetes.client import Answer
from tests.kubernetes.plane import started
from tests.kubernetes.record import definition_verdict
from tests.support import proof_count

LEARNS_S = 30.0
OBJECTS = 15  # for each schema
LOOSE = {
    "type": "object",
    "properties": {name: {"x-kubernetes-preserve-unknown-fields": True} for name in ("spec", "extra")},
}


@pytest.fixture(scope="module")
def servers(real_program, tmp_path_factory):
    """Ours and a real one of our own: definitions would be in the way of other tests."""
    with started(tmp_path_factory.mktemp("definitions")) as plane:
        here = Here()
        yield here, plane.client
        here.close()


def told(answer: Answer) -> Any:
    """What can be compared of an answer; the order of causes is that of a hash in the real server."""
    body = answer.json
    if answer.status == 422:
        causes = (body.get("details") or {}).get("causes") or []
        return 422, sorted((one["field"], one["reason"], one["message"]) for one in causes)
    if answer.status < 300:
        metadata = body.pop("metadata")
        kept = (metadata.get("generation"), answer.headers.get("warning"))
        return answer.status, json.dumps(body, sort_keys=True), kept
    return answer.status, body.get("message")


def ask(servers, method, path, body=None, **more):
    """Ask both; gives what both say, which has to be the same."""
    ours, theirs = (told(server.request(method, path, body, **more)) for server in servers)
    assert ours == theirs, f"{method} {path} {json.dumps(body)[:1000]}"
    return ours


def define(servers, given):
    """Give both a definition, and wait until the real server has learnt of it."""
    for server in servers:
        answer = server.request("POST", DEFINITIONS, given)
        assert answer.status == 201, answer.json["message"]
    for _, path in versions(given):
        wait_for(servers, lambda path=path: servers[1].request("GET", f"{path}?limit=1").status == 200)


def wait_for(servers, is_done):
    deadline_s = time.monotonic() + LEARNS_S
    while not is_done():
        assert time.monotonic() < deadline_s, "the real server does not learn of a definition"


def named(number: int, group: str, schema: dict[str, Any]) -> dict[str, Any]:
    letters = chr(97 + number // 26 % 26) + chr(97 + number % 26)
    made = definition(schema, plural=f"r{letters}s")
    made["spec"]["group"] = group
    made["metadata"]["name"] = f"r{letters}s.{group}"
    return made


@pytest.mark.parametrize(("name", "given"), [pytest.param(*one, id=one[0]) for one in stories()])
def test_a_definition_gets_the_same_verdict(servers, name, given):
    ours, theirs = (definition_verdict(server, name, given) for server in servers)
    assert ours == theirs


@pytest.mark.parametrize("name", given_definitions())
def test_definitions_of_today_and_their_objects(servers, name):
    given = given_definitions()[name]
    define(servers, given)
    is_own = name.endswith("kueue.x-k8s.io")
    for version, path in versions(given):
        if not is_own:
            ask(servers, "POST", f"{path}?dryRun=All", sample_object(given, version))


def test_objects_by_hand(servers):
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
    define(servers, named(0, "hand.example.com", schema))
    path = "/apis/hand.example.com/v1/namespaces/default/raas"
    kind = {"apiVersion": "hand.example.com/v1", "kind": "Raa", "metadata": {"name": "a"}}
    for body in (
        {},
        {"spec": {}},
        {"spec": {"title": "a", "maybe": None, "color": None, "inner": {"y": 1}, "free": {"a": None}}},
        {"spec": {"title": "a", "either": 1.5, "count": 7, "object": {"metadata": {"strange": 1}}}},
        {"spec": {"title": "a", "count": 7}},
        {"spec": 5, "other": 1},
        {"metadata": {"name": "a", "strange": 1}},
        {"metadata": {"name": "a", "labels": {"a": 1}}},
        {"kind": "Other"},
        {"apiVersion": "hand.example.com/v2"},
    ):
        for level in ("", "&fieldValidation=Strict"):
            ours, theirs = (
                told(server.request("POST", f"{path}?dryRun=All{level}", {**kind, **body})) for server in servers
            )
            # Of an object of another version the real server also warns about all of its fields.
            assert ours[:2] == theirs[:2]
            assert ours == theirs or body.get("apiVersion")
    ask(servers, "POST", path, {**kind, "spec": {"title": "a", "maybe": "b"}})
    for change in ({"spec": {"maybe": "c"}}, {"spec": {"count": 3}}, {"spec": {"title": None}}, {"metadata": {"x": 1}}):
        ask(servers, "PATCH", f"{path}/a?dryRun=All", change, content_type=MERGE)
    rows = [server.request("GET", path, accept=TABLE).json["rows"][0]["cells"][0] for server in servers]
    assert rows == ["a", "a"]


@pytest.mark.prove
def test_objects_by_chance_are_judged_and_stored_alike(servers):
    for number in range(proof_count(600)):
        schema = schema_of(number)
        given = named(number, f"g{number // 676}.chance.example.com", schema)
        define(servers, given)
        ((_, path),) = versions(given)
        for count in range(OBJECTS):
            body = object_of(schema, f"{number} {count}")
            head = {"apiVersion": f"{given['spec']['group']}/v1", "kind": given["spec"]["names"]["kind"]}
            ask(servers, "POST", f"{path}?dryRun=All", {**head, "metadata": {"name": "x"}, **body})
        for server in servers:
            server.request("DELETE", f"{DEFINITIONS}/{given['metadata']['name']}")


@pytest.mark.prove
def test_objects_under_a_definition_that_became_stricter_are_judged_alike(servers):
    for number in range(proof_count(300)):
        given = named(number, "strict.example.com", LOOSE)
        define(servers, given)
        ((_, path),) = versions(given)
        schema = schema_of(number)
        head = {"apiVersion": "strict.example.com/v1", "kind": given["spec"]["names"]["kind"]}
        for count in range(OBJECTS):
            body = object_of(schema, f"{number} {count}")
            body.pop("unknown", None)
            ask(servers, "POST", path, {**head, "metadata": {"name": f"x{count}"}, **body})
        marked = {**schema, "properties": {**schema["properties"], "mark": {"type": "string", "default": "new"}}}
        patch = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": marked}]
        for server in servers:
            answer = server.request(
                "PATCH", f"{DEFINITIONS}/{given['metadata']['name']}", patch, content_type="application/json-patch+json"
            )
            assert answer.status == 200, answer.json["message"]
        wait_for(servers, lambda path=path: "mark" in servers[1].request("GET", f"{path}/x0").json)
        for count in range(OBJECTS):
            _compare_changes(servers, f"{path}/x{count}", schema, f"{number} {count}")
        for server in servers:
            server.request("DELETE", f"{DEFINITIONS}/{given['metadata']['name']}")


def _compare_changes(servers, path, schema, seed):
    dice = random.Random(seed)
    other = object_of(schema, f"{seed} other")
    changes = [{"metadata": {"labels": {"a": "b"}}}]
    if isinstance(other.get("spec"), dict) and other["spec"]:
        name = dice.choice(sorted(other["spec"]))
        changes.append({"spec": {name: other["spec"][name]}})
    if "extra" in other:
        changes.append({"extra": other["extra"]})
    ask(servers, "GET", path)
    for change in changes:
        ask(servers, "PATCH", f"{path}?dryRun=All", change, content_type=MERGE)
