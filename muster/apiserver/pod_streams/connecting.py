"""From a request to upgrade to a connection with a pod: exec, attach and port-forward. Called by `asgi`.

Clients speak WebSocket. Everything that can be refused is refused before the connection is made.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from muster.apiserver.answers import Answer
from muster.apiserver.api import Api
from muster.apiserver.pod_streams import commands, forwarding
from muster.apiserver.pod_streams.asking import command_options, container_of, find_pod, place_of
from muster.apiserver.pod_streams.sockets import Gone, Send, Socket
from muster.apiserver.requests import Receive, Request, Target
from muster.apiserver.statuses import Problem, bad_request, too_many
from muster.model.pod_streams import Place

CONNECTED = ("exec", "attach", "portforward")
GONE = "muster.gone"  # the extension of a scope that is set when the connection is lost
# Each is a process somewhere: far fewer than watches, and no one user may take them all.
MOST = 1_000
MOST_OF_ONE = 200
_LAST_WORDS_S = 2.0
Conversation = Callable[[Socket], Awaitable[None]]


class Room:
    """Connections with pods that are open, and whose they are."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return self._of.total()

    @contextmanager
    def one(self, user: str) -> Iterator[None]:
        """Count one connection while it is open; refuses it when the user has too many, or all have."""
        if self._of[user] >= MOST_OF_ONE or self.count >= MOST:
            raise too_many("too many connections with pods at once, please try again later")
        self._of[user] += 1
        try:
            yield
        finally:
            self._of[user] -= 1
            if not self._of[user]:
                del self._of[user]


class Wire(NamedTuple):
    """The two ends of a connection, and what says that it is lost, also while nothing is read from it."""

    receive: Receive
    send: Send
    gone: asyncio.Event | None


def converse(api: Api, request: Request, target: Target, offered: list[str]) -> tuple[str, Conversation]:
    """The protocol that will be spoken of those offered, and what then happens; refuses what cannot be."""
    place = _place(api, request, target)
    if target.subresource == "portforward":
        protocol = _chosen(offered, (forwarding.PROTOCOL,))
        return protocol, lambda socket: forwarding.Forwarding(socket, api.nodes, place).serve()
    options = command_options(request, is_attached=target.subresource == "attach")
    protocol = _chosen(offered, commands.PROTOCOLS)
    open_it = api.nodes.attach if target.subresource == "attach" else api.nodes.run
    return protocol, lambda socket: commands.serve_command(socket, protocol, open_it(place, options), options)


def _place(api: Api, request: Request, target: Target) -> Place:
    pod = find_pod(api, target)
    if target.subresource == "portforward":
        return place_of(api, pod)
    return place_of(api, pod, container_of(pod, request.option("container")))


def _chosen(offered: list[str], spoken: tuple[str, ...]) -> str:
    found = next((one for one in offered if one in spoken), None)
    if found is None:
        shown = " ".join(offered)[:200]
        raise bad_request(f"requested protocol(s) are not supported: [{shown}]; supports [{' '.join(spoken)}]")
    return found


async def hold(protocol: str, conversation: Conversation, wire: Wire) -> None:
    """Make the connection, and keep it until it ends, is lost, or nobody uses it any more."""
    socket = Socket(wire.receive, wire.send)
    with suppress(Gone):
        await socket.accept(protocol)
        talking = asyncio.ensure_future(conversation(socket))
        ending: list[asyncio.Future[Any]] = [asyncio.ensure_future(socket.while_used())]
        if wire.gone is not None:
            ending.append(asyncio.ensure_future(wire.gone.wait()))
        try:
            await asyncio.wait({talking, *ending}, return_when=asyncio.FIRST_COMPLETED)
            # Who was told of the end reads what came before it; who waits for a process or a pod is not waited for.
            await asyncio.wait({talking}, timeout=_LAST_WORDS_S)
            if talking.done():
                talking.result()
        finally:
            for task in (talking, *ending):
                task.cancel()
            await asyncio.gather(talking, *ending, return_exceptions=True)


async def without_upgrade(api: Api, request: Request, target: Target) -> Answer:
    """The answer to those who do not ask for a WebSocket."""
    _place(api, request, target)
    if not request.header(b"upgrade"):
        raise bad_request("Upgrade request required")
    raise Problem(
        400,
        "BadRequest",
        "only WebSocket is spoken here, and not SPDY by itself: use kubectl 1.31 or newer, without "
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false and KUBECTL_PORT_FORWARD_WEBSOCKETS=false",
    )
