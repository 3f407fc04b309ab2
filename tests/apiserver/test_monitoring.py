"""Pages for those who watch a process: who may read which, and what everybody else is told."""

from __future__ import annotations

import asyncio
import json

import pytest

from muster.apiserver.monitoring import Pages
from muster.apiserver.statuses import Problem
from muster.store.errors import Unavailable

PAGES = {"/metrics": lambda: "a 1\n"}


async def may_get(token: str, path: str) -> bool:
    if token == "late":
        raise Unavailable("the cluster does not answer")
    return (token, path) == ("good", "/metrics")


def asked(pages: Pages, path: str, *, method: str = "GET", token: bytes | None = None) -> tuple[int, bytes]:
    sent: list[dict] = []

    async def send(message) -> None:
        sent.append(message)

    headers = [] if token is None else [(b"authorization", token)]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(pages(scope, None, send))
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])


@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer "])
def test_whoever_may_reads_a_page(scheme):
    assert asked(Pages(PAGES, may_get), "/metrics", token=scheme + b"good") == (200, b"a 1\n")


@pytest.mark.parametrize(
    ("token", "want"),
    [
        (None, 401),
        (b"", 401),
        (b"Bearer ", 401),
        (b"Basic good", 401),
        (b"Bearer " + b"x" * 20_000, 401),
        (b"Bearer bad", 403),
        (b"Bearer \xff", 403),
        (b"Bearer late", 503),
    ],
)
def test_everybody_else_is_told_why_not(token, want):
    status, body = asked(Pages(PAGES, may_get), "/metrics", token=token)
    assert (status, json.loads(body)["kind"]) == (want, "Status")


@pytest.mark.parametrize(("method", "path", "want"), [("GET", "/", 404), ("POST", "/metrics", 405)])
def test_there_is_nothing_else(method, path, want):
    assert asked(Pages(PAGES), path, method=method)[0] == want


def test_a_page_for_everybody_needs_no_token():
    assert asked(Pages(PAGES), "/metrics") == (200, b"a 1\n")


def test_a_page_may_say_that_it_is_too_early():
    def page() -> str:
        raise Problem(503, "ServiceUnavailable", "not yet")

    assert asked(Pages({"/readyz": page}), "/readyz")[0] == 503
