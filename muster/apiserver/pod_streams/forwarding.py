"""port-forward: connections with ports of a pod, each two streams in SPDY within a WebSocket. Called by `connecting`.

Of each pair one stream carries the bytes, the other an error if there is one. The pieces of all connections come in one
row: one that its pod does not read holds up the others, and nothing piles up here.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from muster.apiserver.pod_streams import spdy
from muster.apiserver.pod_streams.sockets import Gone, Socket
from muster.model.pod_streams import Connection, Place, PodStreams, Unreachable

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
MOST_STREAMS = 1_000  # of one client, two for each connection
_CONNECT_S = 10.0
_PROTOCOL_ERROR = 1002


class _Tunnel:
    """One connection with a port, and the streams it is for."""

    def __init__(self, *, data: int, error: int, port: int) -> None:
        self.data = data
        self.error = error
        self.port = port
        self.connected: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None


class Forwarding:
    """All connections of one client with one pod."""

    def __init__(self, socket: Socket, nodes: PodStreams, place: Place) -> None:
        self._socket = socket
        self._nodes = nodes
        self._place = place
        self._writer = spdy.Writer()
        self._is_ending = False
        self._errors: dict[str, int] = {}  # by request: streams for errors whose stream for data is still to come
        self._tunnels: dict[int, _Tunnel] = {}  # by stream for data

    async def serve(self) -> None:
        """Forward until the client goes."""
        reader = spdy.Reader()
        try:
            while (message := await self._socket.read()) is not None:
                for event in reader.receive(message):
                    await self._handle(event)
        except spdy.BadFrame as problem:
            await self._socket.close(_PROTOCOL_ERROR, str(problem))
        finally:
            await self._end_all()

    async def _end_all(self) -> None:
        self._is_ending = True
        tasks = [tunnel.task for tunnel in self._tunnels.values() if tunnel.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle(self, event: spdy.Event) -> None:
        match event:
            case spdy.Opened():
                await self._open(event)
            case spdy.Data():
                await self._pass_on(event)
            case spdy.Reset():
                tunnel = self._tunnels.get(event.stream)
                if tunnel is not None and tunnel.task is not None:
                    tunnel.task.cancel()
            case spdy.Ping():
                await self._socket.write(spdy.pong(event.number))

    async def _open(self, event: spdy.Opened) -> None:
        kind, request = event.headers.get("streamtype"), event.headers.get("requestid", "")
        port = event.headers.get("port", "")
        is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536
        if len(self._errors) + 2 * len(self._tunnels) >= MOST_STREAMS:
            await self._socket.write(spdy.reset(event.stream, spdy.REFUSED))
        elif kind == "error" and is_port and request not in self._errors:
            self._errors[request] = event.stream
            await self._socket.write(self._writer.reply(event.stream))
        elif kind == "data" and is_port and request in self._errors and event.stream not in self._tunnels:
            tunnel = _Tunnel(data=event.stream, error=self._errors.pop(request), port=int(port))
            self._tunnels[event.stream] = tunnel
            await self._socket.write(self._writer.reply(event.stream))
            tunnel.task = asyncio.create_task(self._forward(tunnel))
        else:
            await self._socket.write(spdy.reset(event.stream, spdy.PROTOCOL_ERROR))

    async def _pass_on(self, event: spdy.Data) -> None:
        tunnel = self._tunnels.get(event.stream)
        if tunnel is None:
            return  # of a connection that has ended meanwhile, or the end of a stream for errors
        connection = await tunnel.connected
        if connection is None:
            return
        if event.data:
            await connection.write(event.data)
        if event.is_last:
            await connection.end_input()

    async def _forward(self, tunnel: _Tunnel) -> None:
        """What the pod sends goes to the client; at the end both streams do."""
        problem = ""
        try:
            async with asyncio.timeout(_CONNECT_S):
                connection = await self._nodes.connect(self._place, tunnel.port)
            tunnel.connected.set_result(connection)
            try:
                while piece := await connection.read():
                    await self._socket.write(spdy.data(tunnel.data, piece))
            finally:
                await connection.close()
        except (Unreachable, TimeoutError) as reason:
            why = str(reason) or f"no answer within {_CONNECT_S:.0f} seconds"
            problem = f"error forwarding port {tunnel.port} to pod {self._place.pod}, uid {self._place.uid}: {why}"
        except asyncio.CancelledError:
            if self._is_ending:
                raise
            # The client wants no more of this one.
        except Gone:
            return
        finally:
            del self._tunnels[tunnel.data]
            if not tunnel.connected.done():
                tunnel.connected.set_result(None)
        with suppress(Gone):
            await self._socket.write(spdy.data(tunnel.error, problem.encode(), is_last=True))
            await self._socket.write(spdy.data(tunnel.data, is_last=True))
