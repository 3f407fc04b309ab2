"""Forwarded ports: bytes of many connections through one socket, errors told, and bounds on what a client may open."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import zlib

import pytest

from muster.apiserver.pod_streams import forwarding, spdy
from muster.apiserver.pod_streams.forwarding import Forwarding
from muster.apiserver.pod_streams.sockets import Socket
from muster.model.pod_streams import Place
from tests.apiserver.pod_streams.process_node import ProcessNode
from tests.apiserver.pod_streams.test_spdy import Client

PLACE = Place(node="n", namespace="default", pod="p", uid="u")
SOON_S = 10.0


class Tunnel:
    """A client's end of the socket, without the network between."""

    def __init__(self, folder):
        self.incoming: asyncio.Queue = asyncio.Queue(4)
        self.outgoing: asyncio.Queue = asyncio.Queue()
        self.client, self.reader = Client(), spdy.Reader()
        self.unpacker = zlib.decompressobj(zdict=spdy.DICTIONARY)
        self.replied: list[int] = []
        self.resets: dict[int, int] = {}
        self.got: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.close_code = 0
        self.serving = asyncio.ensure_future(
            Forwarding(Socket(self.incoming.get, self.outgoing.put), ProcessNode(folder), PLACE).serve()
        )

    async def send(self, data):
        await self.incoming.put({"type": "websocket.receive", "bytes": data})

    async def hang_up(self):
        await self.incoming.put({"type": "websocket.disconnect"})
        await self.serving

    async def open(self, number, port):
        """Both streams of a connection: the stream for errors, the stream for data."""
        for stream, kind in ((number, "error"), (number + 2, "data")):
            headers = {"streamtype": kind, "port": str(port), "requestid": str(number)}
            await self.send(self.client.open(stream, headers))

    async def until(self, is_enough):
        """Take what comes until that is enough."""
        async with asyncio.timeout(SOON_S):
            while not is_enough(self):
                message = await self.outgoing.get()
                if message["type"] == "websocket.close":
                    self.close_code = message["code"]
                    continue
                self._take(message["bytes"])

    def _take(self, frame):
        first, second = struct.unpack_from("!II", frame)
        if first == 0x80030002:
            (stream,) = struct.unpack_from("!I", frame, 8)
            assert self.unpacker.decompress(frame[12:]) == bytes(4)
            self.replied.append(stream)
        elif first == 0x80030003:
            stream, why = struct.unpack_from("!II", frame, 8)
            self.resets[stream] = why
        elif not first >> 31:
            self.got[first] = self.got.get(first, b"") + frame[8:]
            if second >> 24:
                self.ended.add(first)


async def echo(reader, writer):
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
        writer.close()


def forwarded(folder, test):
    """Run a test with a tunnel and the port of a server that says everything again."""

    async def run():
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            tunnel = Tunnel(folder)
            await test(tunnel, server.sockets[0].getsockname()[1])
            if not tunnel.serving.done():
                await tunnel.hang_up()

    asyncio.run(run())


def test_connections_beside_each_other(tmp_path):
    async def test(tunnel, port):
        for number in (1, 5, 9):
            await tunnel.open(number, port)
        for number in (9, 1, 5):
            await tunnel.send(spdy.data(number + 2, b"hello %d" % number))
            await tunnel.send(spdy.data(number + 2, is_last=True))
        await tunnel.until(lambda it: it.ended == {1, 3, 5, 7, 9, 11})
        assert tunnel.replied == [1, 3, 5, 7, 9, 11]
        assert {n: tunnel.got[n + 2] for n in (1, 5, 9)} == {1: b"hello 1", 5: b"hello 5", 9: b"hello 9"}
        assert [tunnel.got[n] for n in (1, 5, 9)] == [b""] * 3

    forwarded(tmp_path, test)


def test_a_port_that_nobody_listens_on(tmp_path):
    async def test(tunnel, port):
        await tunnel.open(1, 1)
        await tunnel.send(spdy.data(3, b"into the void"))
        await tunnel.until(lambda it: it.ended == {1, 3})
        assert tunnel.got[1].startswith(b"error forwarding port 1 to pod p, uid u: port 1: ")

    forwarded(tmp_path, test)


def test_a_client_that_wants_no_more(tmp_path):
    async def test(tunnel, port):
        await tunnel.open(1, port)
        await tunnel.send(spdy.data(3, b"x"))
        await tunnel.until(lambda it: it.got.get(3) == b"x")
        await tunnel.send(spdy.reset(3, 5))
        await tunnel.until(lambda it: 1 in it.ended)
        await tunnel.send(spdy.data(3, b"late"))
        await tunnel.send(spdy.reset(77, 5))
        await tunnel.open(5, port)
        await tunnel.until(lambda it: it.replied[-1:] == [7])

    forwarded(tmp_path, test)


def test_a_pod_that_does_not_read_holds_the_client_up(tmp_path):
    async def test(tunnel, port):
        writers = []
        stuck = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
        await tunnel.open(1, stuck.sockets[0].getsockname()[1])
        sent = 0
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0.5):
                    await tunnel.send(spdy.data(3, bytes(65536)))
                sent += 65536
        assert 0 < sent < 64 * 1024 * 1024
        writers[0].transport.abort()
        await tunnel.hang_up()
        stuck.close()

    forwarded(tmp_path, test)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"streamtype": "data", "port": "80", "requestid": "9"},
        {"streamtype": "error", "port": "0", "requestid": "1"},
        {"streamtype": "error", "port": "65536", "requestid": "1"},
        {"streamtype": "error", "port": "²", "requestid": "1"},
        {"streamtype": "error", "port": "9" * 50_000, "requestid": "1"},
    ],
)
def test_streams_that_make_no_sense(tmp_path, headers):
    async def test(tunnel, port):
        await tunnel.send(tunnel.client.open(1, headers))
        await tunnel.until(lambda it: it.resets)
        assert tunnel.resets == {1: spdy.PROTOCOL_ERROR}

    forwarded(tmp_path, test)


def test_too_many_streams(tmp_path, monkeypatch):
    monkeypatch.setattr(forwarding, "MOST_STREAMS", 4)

    async def test(tunnel, port):
        for number in (1, 5):
            await tunnel.open(number, port)
        await tunnel.send(tunnel.client.open(9, {"streamtype": "error", "port": "80", "requestid": "9"}))
        await tunnel.until(lambda it: it.resets)
        assert tunnel.resets == {9: spdy.REFUSED}

    forwarded(tmp_path, test)


def test_what_is_no_spdy_ends_it(tmp_path):
    async def test(tunnel, port):
        await tunnel.open(1, port)
        await tunnel.send(b"GET / HTTP/1.1\r\n\r\n" * 100)
        await tunnel.until(lambda it: it.close_code)
        assert tunnel.close_code == 1002
        await tunnel.serving

    forwarded(tmp_path, test)
