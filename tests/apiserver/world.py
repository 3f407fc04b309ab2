"""The API server in process over a memory store, and a client for it. Used by the tests of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any
from urllib.parse import urlsplit

from muster.apiserver import event_views
from muster.apiserver.admission import Admission, Checks
from muster.apiserver.api import Api
from muster.apiserver.apply.ownership import Ownership
from muster.apiserver.asgi import App
from muster.apiserver.authentication import ADMIN, Authenticator, Reviewed
from muster.apiserver.definitions.checks import RULES as DEFINITION_RULES
from muster.apiserver.definitions.establishing import Definitions
from muster.apiserver.definitions.merging import MergeTypes
from muster.apiserver.facts import KINDS as FACTS
from muster.apiserver.requests import User
from muster.apiserver.served import Catalog, builtin
from muster.model.pod_streams import PodStreams
from muster.store.aio import AsyncStore
from muster.store.clock import VirtualClock
from muster.store.history import Limits
from muster.store.identities import Identities
from muster.store.kinds import KindRules
from muster.store.memory import MemoryStore
from muster.store.objects import Notes, Objects
from tests.kubernetes.client import Answer
from tests.store import kinds as simple

Json = dict[str, Any]
START_S = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def _plain(group: str, version: str, kind: str, **more: Any) -> KindRules:
    facts = FACTS[group, version, kind]
    resource = f"{facts.plural}.{group}" if group else facts.plural
    has_status = "status" in facts.subresources
    return KindRules(
        resource=resource,
        kind=kind,
        api_version=f"{group}/{version}" if group else version,
        is_namespaced=facts.is_namespaced,
        has_status=has_status,
        **more,
    )


RULES: Mapping[str, KindRules] = {
    one.resource: one
    for one in (
        replace(simple.PODS, immutable=()),
        simple.CONFIGS,
        replace(simple.NAMESPACES, has_status=True),
        _plain("", "v1", "Node", is_status_kept=True),
        _plain("apps", "v1", "Deployment"),
        _plain("batch", "v1", "Job"),
        _plain("policy", "v1", "PodDisruptionBudget"),
        replace(_plain("", "v1", "Event"), has_generation=False, convert=event_views.convert),
        DEFINITION_RULES,
    )
}


class Everybody:
    """Lets everybody in as the administrator."""

    def user(self, headers: list[tuple[bytes, bytes]]) -> User | None:
        return ADMIN

    def review(self, token: str, audiences: tuple[str, ...]) -> Reviewed:
        return Reviewed(ADMIN)


class World:
    """A server and everything behind it."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        authenticator: Authenticator | None = None,
        catalog: Catalog | None = None,
        store: MemoryStore | None = None,  # with what another world has left
    ) -> None:
        self.clock = VirtualClock(START_S)
        self.store = store or MemoryStore(self.clock, limits)
        self.catalog = catalog or Catalog(builtin(RULES))
        ownership = Ownership(MergeTypes(self.catalog))
        notes = Notes(ownership=ownership, guard=Checks())
        self.objects = Objects(self.catalog.rules, self.clock, identities=Identities(Random(0)), notes=notes)
        self.front = AsyncStore(self.store, pace_s=0)
        self.definitions = Definitions(self.front, self.objects, self.catalog, self.clock)
        self.api = Api(
            store=self.front,
            objects=self.objects,
            catalog=self.catalog,
            clock=self.clock,
            admission=Admission(self.store, Random(0)),
            ownership=ownership,
            on_definitions=self.definitions.settle,
        )
        self.app = App(self.api, authenticator or Everybody())
        for name in ("default", "other") if store is None else ():
            self.store.write(self.objects.create("namespaces", namespace(name)))

    def set_nodes(self, nodes: PodStreams) -> None:
        """Have others run the pods from now on."""
        self.api = replace(self.api, nodes=nodes)
        self.app = App(self.api, Everybody())

    async def request(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request and read the whole answer."""
        async with self.exchange(method, path, body, headers=headers) as exchange:
            await exchange.done
            return exchange.answer()

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.request("GET", path, headers=headers)

    @asynccontextmanager
    async def exchange(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Exchange]:
        """A request that is being answered; at the end the client hangs up."""
        exchange = Exchange(self.app, method, path, body, headers or {})
        try:
            yield exchange
        finally:
            await exchange.hang_up()


class Exchange:
    """One request and as much of its answer as there is."""

    def __init__(self, app: App, method: str, path: str, body: object, headers: Mapping[str, str]) -> None:
        parts = urlsplit(path)
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"content-type": "application/json"} if body is not None else {}
        given |= {name.lower().replace("_", "-"): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "method": method,
            "path": parts.path,
            "query_string": parts.query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        self._incoming: asyncio.Queue[Json] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": data, "more_body": False})
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.chunks: list[bytes] = []
        self._news = asyncio.Event()
        self.is_reading = asyncio.Event()
        self.is_reading.set()
        self._seen = 0
        self.done = asyncio.ensure_future(app(scope, self._incoming.get, self._send))

    async def _send(self, message: Json) -> None:
        await self.is_reading.wait()
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
        else:
            self.chunks.append(message.get("body", b""))
        self._news.set()

    def answer(self) -> Answer:
        headers = {name.decode(): value.decode() for name, value in self.headers}
        return Answer(self.status, headers, b"".join(self.chunks), tuple(self.warnings))

    @property
    def warnings(self) -> list[str]:
        return [value.decode() for name, value in self.headers if name == b"warning"]

    async def events(self, count: int) -> list[Json]:
        """The next events of a watch."""
        while True:
            lines = b"".join(self.chunks).splitlines()[self._seen :]
            if len(lines) >= count:
                self._seen += count
                return [json.loads(line) for line in lines[:count]]
            self._news.clear()
            async with asyncio.timeout(5):
                await self._news.wait()

    async def hang_up(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})
        await self.done


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}}


def pod(name: str, **more: Any) -> Json:
    """A pod; more fields of its metadata by name, its spec and status too."""
    spec, status = more.pop("spec", {}), more.pop("status", None)
    made: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}}
    made["spec"] = {"containers": [{"name": "main", "image": "i"}], **spec}
    return made if status is None else {**made, "status": status}


def config(name: str, **more: Any) -> Json:
    data = more.pop("data", None)
    made: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}}
    return made if data is None else {**made, "data": data}


def in_world(test: Callable[[World], Awaitable[None]], **settings: Any) -> None:
    """Run a test's coroutine with a world of its own."""

    async def run() -> None:
        world = World(**settings)
        try:
            await test(world)
        finally:
            await world.api.webhooks.close()

    asyncio.run(run())
