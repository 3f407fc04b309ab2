"""An API server whose every answer a test has written, for the tests of the store on a real cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from muster.store.clock import RealClock
from muster.store.kube import Guard, Kube, Limits, at_once
from muster.store.kube_config import Access, FixedCredentials

GROUPS = {
    "/api/v1": [("pods", "Pod", True), ("nodes", "Node", False), ("configmaps", "ConfigMap", True)],
    "/apis/kueue.x-k8s.io/v1beta2": [("workloads", "Workload", True)],
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class QuickClock(RealClock):
    """Real time, but nobody waits: how long they wanted to is written down."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        await asyncio.sleep(0)


@dataclass
class Script:
    """What was asked, and how the next requests are answered: each answer once, the last one for ever."""

    answers: list[Handler] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)  # method, path, query, body

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if (found := _discovery(request.path)) is not None:
            return found
        self.asked.append((request.method, request.path, dict(request.query), json.loads(body) if body else None))
        handler = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await handler(request)


def _discovery(path: str) -> web.Response | None:
    if path in GROUPS:
        rows = [{"name": name, "kind": kind, "namespaced": is_in} for name, kind, is_in in GROUPS[path]]
        return web.json_response({"resources": [*rows, {"name": "pods/status", "kind": "Pod", "namespaced": True}]})
    if path == "/apis/kueue.x-k8s.io":
        versions = [{"version": "v1beta1"}, {"version": "v1beta2"}]
        return web.json_response({"versions": versions, "preferredVersion": versions[0]})
    if path.count("/") == 2 and path.startswith("/apis/"):
        return web.json_response({"kind": "Status", "code": 404}, status=404)
    return None


def says(body: Any, status: int = 200, **headers: str) -> Handler:
    """An answer."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.json_response(
            body, status=status, headers={name.replace("_", "-"): v for name, v in headers.items()}
        )

    return handler


def refuses(code: int, reason: str = "", message: str = "", **details: Any) -> Handler:
    """A Status instead of what was asked for."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return says(body, status=code)


def streams(*lines: Any, is_open: bool = False, pieces: int = 0) -> Handler:
    """A watch: these events, then its end, or nothing more; in pieces of so many bytes where that is asked for."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        text = b"".join(json.dumps(one).encode() + b"\n" for one in lines)
        step = pieces or len(text) or 1
        for start in range(0, len(text), step):
            await response.write(text[start : start + step])
        if is_open:
            await asyncio.Event().wait()
        return response

    return handler


async def hangs(_: web.Request) -> web.StreamResponse:
    """No answer at all."""
    await asyncio.Event().wait()
    raise AssertionError("it waits for ever")


def config(name: str, revision: int, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "x", "uid": f"uid-{name}", "resourceVersion": str(revision)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def bookmark(revision: int, *, is_end: bool = False) -> dict[str, Any]:
    annotations = {"k8s.io/initial-events-end": "true"} if is_end else {}
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(revision), "annotations": annotations}})


@asynccontextmanager
async def scripted(
    *answers: Handler, limits: Limits | None = None, guard: Guard = at_once
) -> AsyncIterator[tuple[Kube, Script, QuickClock]]:
    """A connection to a server that gives these answers."""
    script, clock = Script(list(answers)), QuickClock()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    access = Access(url=f"http://127.0.0.1:{port}", credentials=FixedCredentials({}))
    kube = Kube(access, clock, limits=limits, guard=guard)
    try:
        yield kube, script, clock
    finally:
        await kube.close()
        await runner.cleanup()
