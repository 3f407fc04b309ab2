"""Clusters that hang, fail or lie: whoever is connected beside them goes on at once, and nobody's cycle is held up.

A server of the test's own answers over TLS as a kubeconfig in a Secret asks for; it is in the same process, so what is
measured is the time that the one event loop of all of them is taken from the others.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from muster.apiserver.certificates import prepare
from muster.apiserver.server import tls_of
from muster.app.config import Configuration
from muster.app.job_control import job_feed
from muster.app.kinds import catalog
from muster.app.multikueue import multikueue
from muster.app.plugins import job_kinds
from muster.controllers.feed import run_together
from muster.controllers.jobs import indexes
from muster.controllers.multikueue import clusters
from muster.controllers.multikueue.clusters import Link
from muster.controllers.multikueue.parts import MultiKueue, sent_kinds
from muster.controllers.multikueue.remote import Ways, opener
from muster.store import kube_watch
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import RealClock
from muster.store.identities import Identities
from muster.store.kinds import Object
from muster.store.kube import Limits
from muster.store.memory import MemoryStore
from muster.store.objects import Objects
from tests.controllers.multikueue.worlds import sending

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
LONGEST_S = 120.0
TURN_MOST_S = 1.0  # of CPU time, that the loop may be taken at once
WORKLOADS = {"name": "workloads", "kind": "Workload", "namespaced": True}


async def hangs(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(LONGEST_S)
    return web.Response()


async def fails(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="no")


async def sends_away(_request: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "https://127.0.0.1:1/"})


async def babbles(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\x00\xff{[" * 1_000)


async def digs(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"[" * 200_000)


async def never_ends(request: web.Request) -> web.StreamResponse:
    """Bytes upon bytes, as fast as they are taken."""
    response = web.StreamResponse()
    await response.prepare(request)
    while not _is_gone(request):
        await response.write(b"x" * 65_536)
        await asyncio.sleep(0)
    return response


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def with_lists(items: list[object], *, is_endless: bool = False) -> Answer:
    """A server whose resources are found, and whose objects are these."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/kueue.x-k8s.io"):
            version = {"version": "v1beta2", "groupVersion": "kueue.x-k8s.io/v1beta2"}
            return web.json_response({"versions": [version], "preferredVersion": version})
        if request.path.endswith("/v1beta2"):
            return web.json_response({"resources": [WORKLOADS]})
        if "watch" in request.query:
            return await _watched(request, items, is_endless=is_endless)
        if request.path.endswith("/workloads"):
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": items})
        return web.Response(status=404, text="{}")

    return answer


async def _watched(request: web.Request, items: list[object], *, is_endless: bool) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    lines = b"".join(json.dumps({"type": "ADDED", "object": one}).encode() + b"\n" for one in items)
    end = {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "9"}
    if not is_endless:
        lines += json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n"
    while not _is_gone(request):
        await response.write(lines)
        await asyncio.sleep(0 if is_endless else LONGEST_S)
    return response


NAMELESS: list[object] = [{"metadata": {"resourceVersion": "5"}}]
NO_OBJECTS: list[object] = [7, None, "x"]
UNNUMBERED: list[object] = [{"metadata": {"name": "w", "namespace": "n", "resourceVersion": "many"}}]
STRANGE: list[object] = [
    {"metadata": {"name": "w", "namespace": "n", "resourceVersion": "8", "labels": 5}, "status": []}
]
LIES = {
    "hangs": hangs,
    "fails": fails,
    "sends away": sends_away,
    "babbles": babbles,
    "digs": digs,
    "never ends": never_ends,
    "nameless": with_lists(NAMELESS),
    "no objects": with_lists(NO_OBJECTS),
    "unnumbered": with_lists(UNNUMBERED),
    "strange": with_lists(STRANGE),
    "floods": with_lists(STRANGE, is_endless=True),
}


@asynccontextmanager
async def lying(answer: Answer, folder: Path) -> AsyncIterator[bytes]:
    """A server that answers so; gives the kubeconfig for it."""
    files = prepare(folder, ["127.0.0.1"], time.time())
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls_of(files))
        await site.start()
        port = runner.addresses[0][1]
        authority = base64.b64encode(files.authority.read_bytes()).decode()
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
        told = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "c", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
        yield json.dumps(told).encode()
    finally:
        await runner.cleanup()


class Watchman:
    """How long the loop was taken at most, in CPU time, since machines are busy with other things."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def run(self) -> None:
        while True:
            start_s = time.thread_time()
            await asyncio.sleep(0)
            self.longest_s = max(self.longest_s, time.thread_time() - start_s)
            await asyncio.sleep(0.001)


def manager(secret: bytes) -> tuple[MultiKueue, Callable[[], Awaitable[None]], PlainClient]:
    """A cluster that sends to one other, whose kubeconfig is in a Secret."""
    clock, chosen = RealClock(), Configuration()
    store = AsyncStore(MemoryStore(clock))
    objects = Objects(catalog().rules, clock, identities=Identities())
    client = PlainClient(store, objects, "test")
    feed = job_feed(store, clock, chosen)
    kinds = sent_kinds(job_kinds().values())

    async def read(_name: str) -> Object:
        return {"data": {"kubeconfig": base64.b64encode(secret).decode()}}

    ways = Ways(
        secret=read,
        clock=clock,
        origin="multikueue",
        jobs=("jobs.batch",),
        indexes=indexes(kinds),
        limits=Limits(in_flight=8, timeout_s=0.5, answer_bytes=1 << 20),
    )
    made = multikueue(feed, client, clock, configuration=chosen, open_=opener(ways))
    return made, lambda: run_together(feed.run(), *made.works()), client


async def is_refused(answer: Answer, folder: Path) -> tuple[Link, float]:
    """Connect to a cluster that lies until it is given up; gives what is known of it then, and the longest turn."""
    async with lying(answer, folder) as secret:
        made, run, client = manager(secret)
        watchman = Watchman()
        work = [asyncio.create_task(one) for one in (run(), watchman.run())]
        try:
            for one in sending("liar"):
                resource = f"{one['kind'].lower()}s.kueue.x-k8s.io"
                await client.create(resource, one)
            async with asyncio.timeout(LONGEST_S):
                while (link := made.clusters.links.get("liar")) is None or link.problem is None:
                    await asyncio.sleep(0.01)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
    return link, watchman.longest_s


@pytest.mark.parametrize("lie", LIES)
def test_a_cluster_that_lies_is_left_alone(lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kube_watch, "OBJECTS_MOST", 5_000)
    monkeypatch.setattr(clusters, "READY_S", 2.0)
    link, longest_s = asyncio.run(is_refused(LIES[lie], tmp_path))
    assert link.view is None and link.problem
    assert longest_s < TURN_MOST_S
