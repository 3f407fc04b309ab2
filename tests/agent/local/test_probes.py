"""Asking containers: each kind of question, its answers, and those that never come."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.agent.local.probes import Prober, Target, check, port_of
from muster.store.clock import VirtualClock

SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def data(status: int) -> bytes:
    return bytes([0, 0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 8, status])


def target(folder: Path = Path("/"), **container: object) -> Target:
    return Target(container={"name": "c", **container}, folder=folder, environment={"PATH": os.environ["PATH"]})


def asked(probe: Callable[[int], dict], reply: bytes | None) -> str:
    """What comes of a probe of a server that says this to everybody, or nothing at all."""

    async def run() -> str:
        serving: list[asyncio.Task[None] | None] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.append(asyncio.current_task())
            try:
                await reader.read(1)
                if reply is None:
                    await asyncio.Event().wait()
                writer.write(reply or b"")
                await writer.drain()
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            found = await check(probe(server.sockets[0].getsockname()[1]), target())
        if reply is None:
            for one in serving:
                assert one is not None
                one.cancel()
        await asyncio.gather(*(one for one in serving if one is not None), return_exceptions=True)
        return found

    return asyncio.run(run())


def is_said(wrong: str, want: str) -> bool:
    """Whether an answer is the wanted one; nothing is wrong where nothing is wanted to be."""
    return want in wrong if want else not wrong


@pytest.mark.parametrize(
    ("reply", "want"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", "", id="well"),
        pytest.param(b"HTTP/1.1 302 Found\r\n\r\n", "", id="elsewhere"),
        pytest.param(b"HTTP/1.1 404 Not Found\r\n\r\n", "HTTP probe failed with statuscode: 404", id="not there"),
        pytest.param(b"nonsense\r\n", "malformed HTTP response", id="nonsense"),
        pytest.param(b"HTTP/1.1 \xff\xff\r\n", "malformed HTTP response", id="no number"),
        pytest.param(b"x" * 200_000, "Separator is not found", id="a line without end"),
        pytest.param(b"", "malformed HTTP response", id="it hangs up"),
        pytest.param(None, "no answer within 1s", id="it never answers"),
    ],
)
def test_http(reply, want):
    assert is_said(asked(lambda port: {"httpGet": {"port": port, "path": "/x"}, "timeoutSeconds": 1}, reply), want)


@pytest.mark.parametrize(
    ("reply", "want"),
    [
        pytest.param(SETTINGS + data(1), "", id="serving"),
        pytest.param(SETTINGS + data(2), "service unhealthy", id="not serving"),
        pytest.param(SETTINGS + bytes([0, 0, 0, 1, 5, 0, 0, 0, 1]), "service unhealthy", id="an error"),
        pytest.param(SETTINGS, "bytes read on a total of 9", id="it hangs up"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "read on a total of", id="another protocol"),
    ],
)
def test_grpc(reply, want):
    assert is_said(asked(lambda port: {"grpc": {"port": port, "service": "x"}, "timeoutSeconds": 1}, reply), want)


def test_tcp():
    assert asked(lambda port: {"tcpSocket": {"port": port}}, b"") == ""
    refused = "dial tcp 127.0.0.1:1: connect: connection refused"
    assert asked(lambda _port: {"tcpSocket": {"port": 1}}, b"") == refused


@pytest.mark.parametrize(
    ("command", "want"),
    [
        (["true"], ""),
        (["false"], "command ended with 1"),
        (["sh", "-c", "echo not yet; exit 2"], "not yet"),
        (["no-such-command"], "no such file or directory"),
        (["sleep", "1000"], "no answer within 1s"),
    ],
)
def test_commands(command, want):
    assert is_said(asyncio.run(check({"exec": {"command": command}, "timeoutSeconds": 1}, target())), want)


def test_ports_have_names():
    container = {"ports": [{"name": "web", "containerPort": 80}]}
    assert [port_of(one, container) for one in ("web", 81, "82")] == [80, 81, 82]
    with pytest.raises(ValueError, match="no port other"):
        port_of("other", container)


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param("ggg", [("startup", True), ("readiness", True)], id="ready at once"),
        pytest.param("bbg", [("startup", True), ("readiness", True)], id="ready later"),
        pytest.param("gbg", [("startup", True), ("readiness", True)], id="one bad answer is none"),
        pytest.param(
            "gbbbg", [("startup", True), ("readiness", True), ("readiness", False), ("readiness", True)], id="three are"
        ),
    ],
)
def test_answers_count_when_there_are_enough_of_them(answers, want, monkeypatch):
    told: list[tuple[str, bool]] = []
    left = list(answers)

    async def answer(_probe: object, _target: object) -> str:
        return "" if left.pop(0) == "g" else "bad"

    async def story() -> None:
        monkeypatch.setattr("muster.agent.local.probes.check", answer)
        clock = VirtualClock()
        probe = {"exec": {}, "periodSeconds": 10, "failureThreshold": 3}
        prober = Prober(
            target(readinessProbe=probe), clock, lambda name, is_good: told.append((name, is_good)), lambda *_said: None
        )
        asking = asyncio.create_task(prober.run())
        while left:
            for _ in range(5):
                await asyncio.sleep(0)
            clock.advance(10)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(story())
    assert told == want
