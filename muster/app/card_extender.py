"""The extender and webhook for cards on a real cluster, put together: rules, what is known, socket. Called by the CLI.

It follows nodes, pods and quotas, and reads anew what it binds. Each replica answers by itself.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import msgspec

from muster.apiserver.cards.asgi import CardApp, CardRules
from muster.apiserver.cards.callers import LEAST_TOKEN, Callers, digest
from muster.apiserver.cards.knowledge import FOLLOWED, Knowledge
from muster.apiserver.hooks.serving import ServedCertificate, follow_files, serve_beside
from muster.apiserver.server import CannotListen, listen
from muster.app.vendor_settings import vendors_by
from muster.controllers.kube_feed import KubeFeed
from muster.controllers.view import View
from muster.dialects.hami.filter import FilterState
from muster.dialects.hami.settings import HamiSettings
from muster.engine.contracts import Vendor
from muster.model.documents import parse_value
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.binding import Binding
from muster.store.clock import Clock, RealClock
from muster.store.errors import Conflict
from muster.store.kinds import Object
from muster.store.kube import Kube, problem_of
from muster.store.kube_client import KubeClient
from muster.store.kube_config import Access
from muster.store.readings import Readings
from muster.store.records import Key

_MERGE = "application/merge-patch+json"
_encode = msgspec.json.Encoder().encode


class _Items(msgspec.Struct):
    items: list[Object] | None = None


_read_items = msgspec.json.Decoder(_Items).decode


class KubeCards:
    """A real cluster as the extender sees it."""

    def __init__(self, kube: Kube, knowledge: Knowledge) -> None:
        self._kube = kube
        self._client = KubeClient(kube)
        self._knowledge = knowledge

    def state(self) -> FilterState:
        return self._knowledge.state()

    async def pod(self, key: Key) -> Object | None:
        return await self._client.find(key)

    async def node(self, name: str) -> Object | None:
        return await self._client.find(Key("nodes", "", name))

    async def pods_on(self, node: str) -> Sequence[Object]:
        return await pods_on(self._kube, node)

    async def annotate_pod(self, key: Key, uid: str, annotations: Mapping[str, str]) -> None:
        await annotate(self._kube, key, {"uid": uid, "annotations": dict(annotations)})

    async def annotate_node(self, name: str, revision: str, annotations: Mapping[str, str | None]) -> None:
        metadata = {"resourceVersion": revision, "annotations": dict(annotations)}
        await annotate(self._kube, Key("nodes", "", name), metadata)

    async def bind(self, binding: Binding) -> None:
        await self._client.bind(binding)


async def pods_on(kube: Kube, node: str) -> list[Object]:
    """The pods that are bound to a node, as they are now."""
    answer = await kube.ask("GET", "/api/v1/pods", query={"fieldSelector": f"spec.nodeName={node}"})
    if not answer.is_good:
        raise problem_of(Key("pods", "", ""), answer)
    return _read_items(answer.body).items or []


async def annotate(kube: Kube, key: Key, metadata: Mapping[str, object]) -> None:
    """Write some metadata of a pod or a node; what it says of uid and revision has to be so (`Conflict`)."""
    within = f"/namespaces/{quote(key.namespace, safe='')}" if key.namespace else ""
    path = f"/api/v1{within}/{key.resource}/{quote(key.name, safe='')}"
    answer = await kube.ask("PATCH", path, body=_encode({"metadata": metadata}), content_type=_MERGE)
    if answer.is_good:
        return
    problem = problem_of(key, answer)
    if isinstance(problem, InvalidObject) and problem.path == "metadata.uid":
        raise Conflict(key, "it is another of the same name by now")
    raise problem


# Starting ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CardOptions:
    """Which cluster is served, where, and to whom."""

    access: Access
    host: str = "0.0.0.0"
    port: int = 9444
    certificates: Path  # the folder with the server's certificate and key
    callers: Callers
    authorities: str = ""  # who vouches for the certificates of callers
    vendors: tuple[Vendor, ...]
    settings: HamiSettings = field(default_factory=HamiSettings)


def callers_of(token_file: Path | None, authority_file: Path | None, users: Sequence[str]) -> tuple[Callers, str]:
    """Whom the extender answers, and who vouches for them; raises `InvalidObject`."""
    if token_file is None and authority_file is None:
        hint = "give --client-ca, --token-file or both"
        raise InvalidObject("--client-ca", "is missing, and so is a token: anybody could take cards", hint)
    token = _text(token_file, "--token-file").strip() if token_file is not None else ""
    if token_file is not None and len(token) < LEAST_TOKEN:
        raise InvalidObject("--token-file", f"holds {len(token)} characters", f"give {LEAST_TOKEN} or more")
    authorities = _text(authority_file, "--client-ca") if authority_file is not None else ""
    callers = Callers(
        token_digest=digest(token.encode()) if token else b"",
        users=frozenset(users),
        has_authority=bool(authorities),
    )
    return callers, authorities


def _text(path: Path, option: str) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidObject(option, f"{path} cannot be read: {problem}", "give a file that can be") from None


def configured_vendors(path: Path | None) -> tuple[Vendor, ...]:
    """The makers of cards under HAMi's device configuration; raises `InvalidObject` with the first that is wrong."""
    if path is None:
        return vendors_by({}, "")
    return vendors_by(Fields.of(parse_value(_text(path, "--device-config"), str(path))).values, str(path))


async def run_extender(options: CardOptions, on_ready: Callable[[int], None]) -> None:
    """Answer until somebody asks the process to stop."""
    clock = RealClock()
    stopped = asyncio.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sign, stopped.set)
    async with Kube(options.access, clock) as kube:
        working = asyncio.create_task(answer_scheduler(kube, clock, options, on_ready))
        stop = asyncio.create_task(stopped.wait())
        await asyncio.wait((working, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if working.done():
            await working
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def answer_scheduler(kube: Kube, clock: Clock, options: CardOptions, on_ready: Callable[[int], None]) -> None:
    """Answer until cancelled, as soon as all objects are known."""
    readings = Readings()
    feed = KubeFeed(kube, View({}, readings), clock, resources=FOLLOWED, readings=readings)
    cluster = KubeCards(kube, Knowledge(feed.view, options.vendors))
    rules = CardRules.of(options.vendors, options.settings)
    app = CardApp(rules, cluster, clock=clock, callers=options.callers)
    served = ServedCertificate()
    if options.authorities:
        served.ask_clients(options.authorities)
    try:
        listening = listen(options.host, options.port, is_authenticated=True)
    except CannotListen as problem:
        raise InvalidObject("--port", str(problem), "give one that is free") from None
    port = listening.getsockname()[1]

    async def serve() -> None:
        await feed.ready()
        await serve_beside(app, listening, served, lambda: on_ready(port))

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(feed.run())
            group.create_task(follow_files(options.certificates, served, clock))
            group.create_task(serve())
    finally:
        listening.close()
