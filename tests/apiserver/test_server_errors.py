"""What the server says when it cannot do what was asked, and that bad input costs little and breaks nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
import time

import pytest

from muster.apiserver.requests import MOST_BYTES
from muster.store.errors import Unavailable
from tests.apiserver.world import World, config, in_world, pod

PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", f"{CONFIGS}/none", 404, "NotFound"),
        ("DELETE", f"{CONFIGS}/none", 404, "NotFound"),
        ("GET", "/api/v1/nope", 404, "NotFound"),
        ("GET", "/apis/nope.example.com/v1/x", 404, "NotFound"),
        ("GET", "/api/v2/pods", 404, "NotFound"),
        ("GET", "/nope", 404, "NotFound"),
        ("GET", f"{CONFIGS}/a/b", 404, "NotFound"),
        ("GET", f"{CONFIGS}/a/b/c/d", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", 404, "NotFound"),
        ("GET", "/api/v1/pods/a", 404, "NotFound"),
        ("GET", "/api/v1/namespaces//pods", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/../../etc/passwd", 404, "NotFound"),
        ("PATCH", CONFIGS, 405, "MethodNotAllowed"),
        ("PUT", CONFIGS, 405, "MethodNotAllowed"),
        ("POST", f"{CONFIGS}/a", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/configmaps", 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/configmaps", 405, "MethodNotAllowed"),
        ("POST", "/version", 405, "MethodNotAllowed"),
        ("BREW", CONFIGS, 405, "MethodNotAllowed"),
        ("GET", "/api/v1/" + "a" * 9_000, 414, "RequestURITooLong"),
        ("GET", f"{CONFIGS}?limit=x", 400, "BadRequest"),
        ("GET", f"{CONFIGS}?limit=" + "9" * 5_000, 400, "BadRequest"),
        ("GET", f"{CONFIGS}?{'a=1&' * 200}", 400, "BadRequest"),
        ("GET", f"{CONFIGS}?resourceVersion=abc", 400, "BadRequest"),
        ("GET", f"{CONFIGS}?watch=true&resourceVersion=-1", 400, "BadRequest"),
        ("GET", f"{CONFIGS}?continue=abc", 400, "BadRequest"),
        ("GET", f"{CONFIGS}?resourceVersion=999999", 504, "Timeout"),
        ("GET", f"{CONFIGS}?resourceVersionMatch=Exact", 422, "Invalid"),
        ("GET", f"{CONFIGS}?resourceVersion=1&resourceVersionMatch=x", 422, "Invalid"),
        ("GET", f"{CONFIGS}?resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid"),
        ("GET", f"{CONFIGS}?sendInitialEvents=true", 422, "Invalid"),
        ("GET", f"{CONFIGS}?watch=true&sendInitialEvents=true", 422, "Invalid"),
        ("GET", f"{CONFIGS}?watch=true&resourceVersionMatch=NotOlderThan", 422, "Invalid"),
        ("GET", f"{CONFIGS}?labelSelector=a+in", 400, "BadRequest"),
        ("GET", f"{CONFIGS}?labelSelector={'a' * 100_000}", 400, "BadRequest"),
        ("GET", f"{CONFIGS}?fieldSelector=spec.foo=1", 400, "BadRequest"),
        ("GET", f"{CONFIGS}?fieldSelector=x", 400, "BadRequest"),
        ("DELETE", f"{CONFIGS}/a?propagationPolicy=x", 422, "Invalid"),
        ("DELETE", f"{CONFIGS}/a?dryRun=x", 422, "Invalid"),
    ],
)
def test_questions_that_have_no_answer(method, path, code, reason):
    async def story(world: World) -> None:
        answer = await world.request(method, path)
        status = answer.json
        assert (answer.status, status["code"], status["reason"]) == (code, code, reason)
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")

    in_world(story)


@pytest.mark.parametrize(
    ("path", "body", "code", "words"),
    [
        (CONFIGS, b"", 400, "unrecognized"),
        (CONFIGS, b"{", 400, "unrecognized"),
        (CONFIGS, b"[]", 400, "unrecognized"),
        (CONFIGS, b'{"a": NaN}', 400, "unrecognized"),
        (CONFIGS, b'{"a": 1e999}', 400, "unrecognized"),
        (CONFIGS, b'{"a": ' + b"9" * 5_000 + b"}", 400, "unrecognized"),
        (CONFIGS, b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "nesting deeper than 100"),
        (CONFIGS, b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", 400, "nesting deeper than 100"),
        (CONFIGS, b'{"metadata": {"name": "a\\u0000"}}', 400, "NUL"),
        (CONFIGS, b'{"metadata": {"name": "\\ud800"}}', 400, "unrecognized"),
        (CONFIGS, b'{"metadata": {"name": "\xff"}}', 400, "unrecognized"),
        (CONFIGS, config("a", namespace="other"), 400, "does not match the namespace"),
        (CONFIGS, pod("a"), 400, "cannot be handled as a ConfigMap"),
        (CONFIGS, {**config("a"), "apiVersion": "v9"}, 400, "cannot be handled as a ConfigMap"),
        (CONFIGS, {"kind": "ConfigMap", "apiVersion": "v1"}, 422, "metadata"),
        (CONFIGS, config(""), 422, "metadata.name"),
        (CONFIGS, config("A b"), 422, "metadata.name"),
        (CONFIGS, config("a" * 300), 422, "metadata.name"),
        (CONFIGS, config("a", labels={"k": "v" * 64}), 422, "metadata.labels"),
        (CONFIGS, config("a", resourceVersion="7"), 422, "metadata.resourceVersion"),
        (CONFIGS, {**config("a"), "data": {"k": 1}}, 400, "cannot be handled"),
        ("/api/v1/namespaces/none/configmaps", config("a"), 404, 'namespaces "none" not found'),
        (f"{CONFIGS}?dryRun=Some", config("a"), 422, "dryRun"),
        (f"{CONFIGS}?fieldValidation=x", config("a"), 422, "fieldValidation"),
        (PODS, {**pod("a"), "spec": {}}, 422, "spec.containers"),
    ],
)
def test_bodies_that_cannot_be_taken(path, body, code, words):
    async def story(world: World) -> None:
        started_s = time.process_time()
        answer = await world.request("POST", path, body)
        assert time.process_time() - started_s < 1
        assert answer.status == code, answer.body[:300]
        assert words in answer.json["message"]
        assert "Traceback" not in answer.json["message"]

    in_world(story)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"a: b: c", "unrecognized"),
        (b"- a", "no object"),
        (b"&a [*a]", "unrecognized"),
        (b"a: !!python/object:os.system x", "unrecognized"),
        (b"a: " + b"[" * 3_000, "unrecognized"),
        (
            b"".join(
                b"l%d: &l%d [%s]\n" % (n, n, b",".join([b"*l%d" % (n - 1)] * 10) if n else b"x") for n in range(9)
            ),
            "",
        ),
    ],
)
def test_yaml_that_cannot_be_taken(body, words):
    async def story(world: World) -> None:
        started_s = time.process_time()
        answer = await world.request("POST", CONFIGS, body, headers={"content-type": "application/yaml"})
        assert (answer.status, time.process_time() - started_s < 1) == (400, True)
        assert words in answer.json["message"]

    in_world(story)


def test_an_invalid_object_says_which_fields():
    async def story(world: World) -> None:
        status = (await world.request("POST", PODS, {**pod("a"), "spec": {}})).json
        assert status["message"].startswith('Pod "a" is invalid: spec.containers: ')
        assert (status["details"]["name"], status["details"]["kind"]) == ("a", "Pod")
        assert status["details"]["causes"][0]["field"] == "spec.containers"

    in_world(story)


# Size ----------------------------------------------------------------------------------------------------------------


def test_too_long_a_body_is_refused_before_it_is_read():
    async def story(world: World) -> None:
        length = {"content-length": str(MOST_BYTES + 1)}
        async with world.exchange("POST", CONFIGS, b"", headers=length) as exchange:
            await exchange.done
            assert (exchange.status, dict(exchange.headers)[b"connection"]) == (413, b"close")

    in_world(story)


@pytest.mark.parametrize("length", ["", "10", "-5", "1" * 5_000])
def test_a_body_without_end_is_refused_where_the_limit_is(length):
    async def story(world: World) -> None:
        sent = 0

        async def receive() -> dict[str, object]:
            nonlocal sent
            sent += 65_536
            return {"type": "http.request", "body": b" " * 65_536, "more_body": True}

        answers = []

        async def send(message: dict[str, object]) -> None:
            answers.append(message)

        headers = [(b"content-type", b"application/json"), (b"content-length", length.encode())]
        scope = {"type": "http", "method": "POST", "path": CONFIGS, "query_string": b"", "headers": headers}
        await world.app(scope, receive, send)
        assert answers[0]["status"] == 413
        assert sent <= MOST_BYTES + 2 * 65_536

    in_world(story)


@pytest.mark.parametrize(
    ("encoding", "body", "code"),
    [
        pytest.param("gzip", gzip.compress(json.dumps(config("a")).encode()), 201, id="packed"),
        pytest.param("identity", json.dumps(config("a")).encode(), 201, id="as it is"),
        pytest.param("gzip", gzip.compress(b" " * 200_000_000, compresslevel=1), 413, id="a bomb"),
        pytest.param("gzip", b"no gzip", 400, id="not packed"),
        pytest.param("br", b"x", 415, id="another way"),
    ],
)
def test_packed_bodies(encoding, body, code):
    async def story(world: World) -> None:
        answer = await world.request("POST", CONFIGS, body, headers={"content-encoding": encoding})
        assert answer.status == code

    in_world(story)


@pytest.mark.parametrize("count", [0, 1])
def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch, count):
    monkeypatch.setattr("muster.apiserver.requests.BODY_S", 0.01)

    async def story(world: World) -> None:
        parts = [{"type": "http.request", "body": b"{", "more_body": True}] * count

        async def receive() -> dict[str, object]:
            return parts.pop() if parts else await asyncio.get_running_loop().create_future()

        answers = []

        async def send(message: dict[str, object]) -> None:
            answers.append(message)

        scope = {"type": "http", "method": "POST", "path": CONFIGS, "query_string": b"", "headers": []}
        await world.app(scope, receive, send)
        assert answers[0]["status"] == 408

    in_world(story)


# The store and the server themselves ---------------------------------------------------------------------------------


def test_a_store_that_cannot_write_is_said_to_be_away(monkeypatch):
    async def story(world: World) -> None:
        def refuse(change, done):
            raise Unavailable("the disk is full")

        monkeypatch.setattr(world.store, "submit", refuse)
        answer = await world.request("POST", CONFIGS, config("a"))
        assert (answer.status, answer.json["reason"]) == (503, "ServiceUnavailable")
        assert answer.json["message"] == "the disk is full"
        assert answer.headers["retry-after"] == "1"
        assert (await world.get(CONFIGS)).status == 200

    in_world(story)


def test_a_fault_of_our_own_does_not_show_its_inside(monkeypatch, caplog):
    async def story(world: World) -> None:
        def break_down(key):
            raise ZeroDivisionError("secret")

        monkeypatch.setattr(world.store, "get", break_down)
        answer = await world.request("GET", f"{CONFIGS}/a")
        assert (answer.status, answer.json["reason"]) == (500, "InternalError")
        assert b"secret" not in answer.body
        assert "secret" in caplog.text

    in_world(story)


def test_beyond_the_limit_clients_are_told_to_come_back(monkeypatch):
    async def story(world: World) -> None:
        for name, value in {"MOST_OF_FLOW": 3, "MOST_WAITING": 0, "PAUSE_S": 0}.items():
            monkeypatch.setattr(f"muster.apiserver.limits.{name}", value)
        held = []

        async def receive() -> dict[str, object]:
            held.append(None)
            return await asyncio.get_running_loop().create_future()

        async def send(message: dict[str, object]) -> None:
            raise AssertionError("nobody gets an answer before the body is there")

        scope = {"type": "http", "method": "POST", "path": CONFIGS, "query_string": b"", "headers": []}
        slow = [asyncio.create_task(world.app(scope, receive, send)) for _ in range(3)]
        await asyncio.sleep(0)
        refused = await world.request("POST", CONFIGS, config("a"))
        assert (refused.status, refused.json["reason"]) == (429, "TooManyRequests")
        assert refused.headers["retry-after"] == "1"
        assert (await world.get(CONFIGS, user_agent="another")).status == 200
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert (await world.request("POST", CONFIGS, config("a"))).status == 201

    in_world(story)
