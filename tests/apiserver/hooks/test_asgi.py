"""What is no review, what is too much, and what goes wrong: always an answer, and never more than that."""

from __future__ import annotations

import asyncio
import json

import pytest

from muster.apiserver.hooks import asgi
from muster.store.errors import Unavailable
from tests.apiserver.hooks.world import Hooks, a_review
from tests.controllers.jobs_world import JOBS, a_job

DEEP = b'{"a":' * 2_000 + b"1" + b"}" * 2_000
MANY_DEEP = json.dumps(a_review(JOBS, {**a_job(), "spec": json.loads(b'{"a":' * 150 + b"1" + b"}" * 150)})).encode()


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/convert"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"{}", id="empty"),
        pytest.param(DEEP, id="deep"),
        pytest.param(b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', id="no request"),
        pytest.param(b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{}}', id="older"),
        pytest.param(b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":[1]}', id="a list in it"),
        pytest.param(
            b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":1}}', id="odd"
        ),
    ],
)
def test_what_is_no_review_is_refused_with_a_status(path, body):
    status, answer = asyncio.run(Hooks().send(path, body))
    told = json.loads(answer)
    assert (status, told["kind"], told["reason"]) == (400, "Status", "BadRequest")
    assert "Traceback" not in told["message"] and len(told["message"]) < 2_500


@pytest.mark.parametrize(
    "change",
    [
        {"object": 7},
        {"object": {"metadata": []}},
        {"object": {"metadata": {"labels": {"a": 1}}}},
        {"userInfo": "anna"},
        {"kind": "pods"},
        {"uid": ""},
    ],
)
def test_reviews_with_odd_parts_are_refused_with_a_status(change):
    status, answer = asyncio.run(Hooks().send("/mutate", json.dumps(a_review(JOBS, a_job(), **change)).encode()))
    assert (status, json.loads(answer)["reason"]) == (400, "BadRequest")


def test_an_object_that_lies_too_deep_is_refused():
    status, answer = asyncio.run(Hooks().send("/mutate", MANY_DEEP))
    assert (status, "nesting deeper than" in json.loads(answer)["message"]) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("POST", "/", 404),
        ("POST", "/mutate/x", 404),
        ("GET", "/mutate", 405),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
    ],
)
def test_other_requests(method, path, want):
    assert asyncio.run(Hooks().send(path, b"", method))[0] == want


def test_bodies_have_a_limit(monkeypatch):
    monkeypatch.setattr(asgi, "MOST_REVIEW_BYTES", 1_000)
    status, answer = asyncio.run(Hooks().send("/validate", b" " * 1_001))
    assert (status, json.loads(answer)["message"]) == (413, "Request entity too large: limit is 1000")


def test_a_cluster_that_does_not_answer_is_told_of(caplog):
    hooks = Hooks()

    async def gone(_key):
        raise Unavailable("the API server does not answer")

    hooks.cluster.get = gone
    status, answer = asyncio.run(hooks.send("/mutate", json.dumps(a_review(JOBS, a_job())).encode()))
    assert (status, json.loads(answer)["reason"]) == (503, "ServiceUnavailable")


def test_a_fault_of_our_own_is_logged_and_not_shown(caplog):
    hooks = Hooks()

    async def broken(_key):
        raise ZeroDivisionError("secret")

    hooks.cluster.get = broken
    status, answer = asyncio.run(hooks.send("/mutate", json.dumps(a_review(JOBS, a_job())).encode()))
    assert (status, b"secret" in answer) == (500, False)
    assert "a request failed" in caplog.text


def test_no_more_than_so_many_are_taken_on_at_once(monkeypatch):
    monkeypatch.setattr(asgi, "MOST_AT_ONCE", 4)
    monkeypatch.setattr(asgi, "MOST_WAITING", 8)
    hooks = Hooks()
    at_once, most = 0, 0
    answering = hooks.cluster.get

    async def counted(key):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        for _ in range(5):
            await asyncio.sleep(0)
        at_once -= 1
        return await answering(key)

    hooks.cluster.get = counted
    body = json.dumps(a_review(JOBS, a_job())).encode()

    async def many():
        return await asyncio.gather(*(hooks.send("/mutate", body) for _ in range(20)))

    statuses = [status for status, _ in asyncio.run(many())]
    assert most == 4
    assert (statuses.count(200), statuses.count(429)) == (12, 8)
