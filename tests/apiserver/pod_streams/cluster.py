"""A server with a node that runs processes, on loopback, and kubectls for it. Used by the tests of streams."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import uvloop
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from muster.apiserver.admission import Admission
from muster.apiserver.api import Api
from muster.apiserver.apply.ownership import Ownership
from muster.apiserver.asgi import App
from muster.apiserver.authentication import Tokens
from muster.apiserver.certificates import prepare
from muster.apiserver.definitions.merging import MergeTypes
from muster.apiserver.kubeconfig import write_kubeconfig
from muster.apiserver.server import listen, serve, tls_of
from muster.app.kinds import catalog
from muster.store.aio import AsyncStore
from muster.store.clock import RealClock
from muster.store.identities import Identities
from muster.store.memory import MemoryStore
from muster.store.objects import Notes, Objects, Part
from muster.store.records import Key
from tests.apiserver.pod_streams.process_node import ProcessNode
from tests.apiserver.world import namespace

Json = dict[str, Any]
TOKEN = "secret"
KUBECTL_S = 60.0
NODE = "here"


@dataclass(slots=True)
class Cluster:
    """A running server, its node, and where kubectl finds it."""

    node: ProcessNode
    app: App
    port: int
    folder: Path
    store: MemoryStore
    objects: Objects
    serving: asyncio.Future[None]

    def add_pod(self, name: str, *containers: str, state: Json | None = None, **more: Any) -> None:
        """A pod on the node; its containers are in a state, running if nothing else is said."""
        spec = {"containers": [{"name": one, "image": "i"} for one in containers or ("main",)], "nodeName": NODE}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", **more}}
        self.store.write(self.objects.create("pods", {**pod, "spec": spec}))
        shown = state or {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        statuses = [
            {"name": one["name"], "state": shown, "lastState": {}, "ready": True, "restartCount": 0, "image": "i",
             "imageID": ""} for one in spec["containers"]
        ]  # fmt: skip
        self.set_status(name, {"phase": "Running", "containerStatuses": statuses})

    def set_status(self, name: str, status: Json) -> None:
        key = Key("pods", "default", name)
        self.store.write(self.objects.modify(key, lambda pod: {**pod, "status": status}, part=Part.STATUS))

    def connect(self, path: str, protocol: str = "v5.channel.k8s.io", *, token: str = TOKEN, user: str = "") -> Any:
        """A WebSocket of this test's own, with something of a pod."""
        return connect(
            f"wss://127.0.0.1:{self.port}/api/v1/namespaces/default/pods/{path}",
            ssl=ssl.create_default_context(cafile=self.folder / "tls" / "ca.crt"),
            additional_headers={"Authorization": f"Bearer {token}", **({"Impersonate-User": user} if user else {})},
            subprotocols=[Subprotocol(protocol)],
            compression=None,
            max_size=None,
            max_queue=4,
            ping_interval=None,
            close_timeout=1.0,
        )

    async def kubectl(
        self, program: Sequence[str], *arguments: str, given: bytes | None = None
    ) -> tuple[int, bytes, bytes]:
        """Run kubectl to its end: its exit status, what it printed, what it complained of."""
        process = await self.start(program, *arguments, has_input=given is not None)
        async with asyncio.timeout(KUBECTL_S):
            out, err = await process.communicate(given)
        assert process.returncode is not None
        return process.returncode, out, err

    async def start(
        self, program: Sequence[str], *arguments: str, has_input: bool = False
    ) -> asyncio.subprocess.Process:
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        command = [*program, "--kubeconfig", str(self.folder / "kubeconfig"), *arguments]
        environment = {**os.environ, "HOME": str(self.folder)}
        return await asyncio.create_subprocess_exec(
            *command, stdin=pipe if has_input else nothing, stdout=pipe, stderr=pipe, env=environment
        )


def stop() -> None:
    """Have the server of this process end as when it is asked to; asked twice it would not even say goodbye."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        os.kill(os.getpid(), signal.SIGTERM)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Cluster]:
    """A server that is ready; it and all processes of its node end with the block."""
    clock = RealClock()
    store = MemoryStore(clock)
    served = catalog()
    ownership = Ownership(MergeTypes(served))
    objects = Objects(served.rules, clock, identities=Identities(Random(0)), notes=Notes(ownership=ownership))
    store.write(objects.create("namespaces", namespace("default")))
    store.write(objects.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}))
    work = folder / "work"
    work.mkdir()
    node = ProcessNode(work)
    api = Api(
        store=AsyncStore(store, pace_s=0),
        objects=objects,
        catalog=served,
        clock=clock,
        admission=Admission(store, Random(0)),
        ownership=ownership,
        nodes=node,
    )
    app = App(api, Tokens(TOKEN, api.accounts))
    listening = listen("127.0.0.1", 0, is_authenticated=True)
    port = listening.getsockname()[1]
    files = prepare(folder / "tls", ["127.0.0.1"], clock.now_s())
    url = f"https://127.0.0.1:{port}"
    write_kubeconfig(folder / "kubeconfig", url=url, authority=files.authority.read_bytes(), token=TOKEN)
    is_ready = asyncio.Event()
    serving = asyncio.ensure_future(serve(app, listening, tls_of(files), is_ready.set))
    try:
        await is_ready.wait()
        yield Cluster(node, app, port, folder, store, objects, serving)
    finally:
        await node.close()
        stop()
        await serving
        listening.close()


def in_cluster(test: Callable[[Cluster], Awaitable[None]], folder: Path) -> None:
    """Run a test's coroutine with a cluster of its own, on the loop that the server runs on."""

    async def run() -> None:
        async with running(folder) as cluster:
            await test(cluster)

    before = {sign: signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
