"""Asking containers how they are: by a command, over HTTP, by connecting, over gRPC. Used by the local node.

`check` does one such question; `Prober` asks again and again and tells when the answer has changed for good, as the
thresholds say.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.store.clock import Clock
from muster.store.kinds import Object

_READ_BYTES = 10 * 1024  # of an answer
_LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The container that is asked."""

    container: Object
    folder: Path
    environment: Mapping[str, str]
    enter: tuple[str, ...] = ()  # what goes before a command that is to run in it


async def check(probe: Object, target: Target) -> str:
    """Ask once, for no longer than the probe allows; gives what is wrong, and nothing where all is well."""
    seconds = float(probe.get("timeoutSeconds") or 1)
    try:
        async with asyncio.timeout(seconds):
            return await act(probe, target)
    except TimeoutError:
        return f"no answer within {seconds:g}s"
    except OSError as problem:
        return _refused(probe, target, problem)
    except (ValueError, asyncio.IncompleteReadError) as problem:
        return str(problem)


def _refused(probe: Object, target: Target, problem: OSError) -> str:
    """What to say when nobody is there."""
    why = os.strerror(problem.errno).lower() if problem.errno is not None else str(problem)
    handler = probe.get("httpGet") or probe.get("tcpSocket") or probe.get("grpc")
    if handler is None:
        return f"{(probe.get('exec') or {}).get('command')}: {why}"
    address = f"{handler.get('host') or _LOCAL}:{port_of(handler.get('port'), target.container)}"
    return f"dial tcp {address}: connect: {why}"


async def act(handler: Object, target: Target) -> str:
    """Do what a probe or a hook says; gives what went wrong, and nothing where all went well."""
    if (command := handler.get("exec")) is not None:
        return await _run(command.get("command") or [], target)
    if (http := handler.get("httpGet")) is not None:
        return await _get(http, target)
    if (tcp := handler.get("tcpSocket")) is not None:
        _, writer = await asyncio.open_connection(tcp.get("host") or _LOCAL, port_of(tcp.get("port"), target.container))
        writer.close()
    elif (grpc := handler.get("grpc")) is not None:
        is_serving = await _is_serving(int(grpc["port"]), grpc.get("service") or "")
        return "" if is_serving else "service unhealthy"
    elif (pause := handler.get("sleep")) is not None:
        await asyncio.sleep(float(pause.get("seconds") or 0))
    return ""


def port_of(port: object, container: Object) -> int:
    """A port by its number or by the name that the container gives it."""
    if isinstance(port, str) and not port.isdigit():
        for one in container.get("ports") or ():
            if one.get("name") == port:
                return int(one["containerPort"])
        raise ValueError(f"the container has no port {port}")
    return int(port)  # type: ignore[call-overload, no-any-return]


async def _run(command: list[str], target: Target) -> str:
    if not command:
        return "it has no command"
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *target.enter,
        *command,
        cwd=target.folder,
        env=dict(target.environment),
        stdin=nothing,
        stdout=pipe,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said = await _first(process.stdout)
        code = await process.wait()
        return "" if code == 0 else said.decode(errors="replace").strip() or f"command ended with {code}"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _first(stream: asyncio.StreamReader | None) -> bytes:
    """The beginning of what a command writes; the rest is read and thrown away, so that it does not wait."""
    assert stream is not None, "it was started on a pipe"
    said = b""
    while piece := await stream.read(_READ_BYTES):
        said = (said + piece)[:_READ_BYTES]
    return said


async def _get(http: Object, target: Target) -> str:
    """What is wrong with the answer of an HTTP server; 200 to 399 is fine."""
    host, path = http.get("host") or _LOCAL, http.get("path") or "/"
    port = port_of(http.get("port"), target.container)
    context = None
    if http.get("scheme") == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # as the kubelet: it asks whether somebody answers, not who
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1.36", "Accept": "*/*", "Connection": "close"}
        headers |= {str(one.get("name")): str(one.get("value") or "") for one in http.get("httpHeaders") or ()}
        lines = [f"GET {path if path.startswith('/') else '/' + path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            return "a header has more than one line"
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        status = (await reader.readline()).split()
        if len(status) < 2 or not status[1].isdigit() or len(status[1]) > 9:
            return "malformed HTTP response"
        code = int(status[1])
        return "" if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"
    finally:
        writer.close()


# gRPC ----------------------------------------------------------------------------------------------------------------

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _RESET, _GOAWAY = 0, 1, 4, 6, 3, 7
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_SERVING = 1


async def _is_serving(port: int, service: str) -> bool:
    """Whether the standard health service says SERVING: one call, with as much of HTTP/2 as that takes."""
    reader, writer = await asyncio.open_connection(_LOCAL, port)
    try:
        name = service.encode()[:127]
        message = b"\x0a" + bytes([len(name)]) + name if name else b""
        body = b"\x00" + struct.pack(">I", len(message)) + message
        writer.write(_PREFACE + _frame(_SETTINGS, 0, 0) + _frame(_HEADERS, _END_HEADERS, 1, _call_headers(port)))
        writer.write(_frame(_DATA, _END_STREAM, 1, body))
        while True:
            head = await reader.readexactly(9)
            size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            payload = await reader.readexactly(size)
            if kind == _SETTINGS and not flags & _ACK:
                writer.write(_frame(_SETTINGS, _ACK, 0))
            elif kind == _PING and not flags & _ACK:
                writer.write(_frame(_PING, _ACK, 0, payload))
            elif kind == _DATA and payload[5:]:
                return payload[5:7] == bytes([8, _SERVING])  # the field status
            elif kind in (_RESET, _GOAWAY) or (kind == _HEADERS and flags & _END_STREAM):
                return False
    finally:
        writer.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _call_headers(port: int) -> bytes:
    headers = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", f"{_LOCAL}:{port}"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    )
    packed = b""
    for name, value in headers:  # literally, without any table
        packed += b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    return packed


# Asking again and again ----------------------------------------------------------------------------------------------


class Prober:
    """The probes of one run of a container."""

    def __init__(
        self, target: Target, clock: Clock, tell: Callable[[str, bool], None], complain: Callable[[str, str], None]
    ) -> None:
        self._target = target
        self._clock = clock
        self._tell = tell
        self._complain = complain  # of each bad answer, with what was wrong

    async def run(self) -> None:
        """Ask until cancelled: first whether it has started, then whether it lives and is ready."""
        container = self._target.container
        if startup := container.get("startupProbe"):
            await self._ask(startup, "startup", is_good=False, is_first_enough=True)
        self._tell("startup", True)
        asked = [
            self._ask(container[field], name, is_good=name == "liveness", is_first_enough=False)
            for field, name in (("livenessProbe", "liveness"), ("readinessProbe", "readiness"))
            if container.get(field)
        ]
        await asyncio.gather(*asked)

    async def _ask(self, probe: Object, name: str, *, is_good: bool, is_first_enough: bool) -> None:
        """Ask on, and tell whenever so many answers in a row say something else than before."""
        thresholds = {True: int(probe.get("successThreshold") or 1), False: int(probe.get("failureThreshold") or 3)}
        last, count = None, 0
        await self._clock.sleep(float(probe.get("initialDelaySeconds") or 0))
        while True:
            wrong = await check(probe, self._target)
            is_now_good = not wrong
            last, count = is_now_good, count + 1 if is_now_good is last else 1
            if wrong:
                self._complain(name, wrong)
            is_bad_again = not is_now_good and name != "readiness" and count == thresholds[False]
            if count >= thresholds[is_now_good] and (is_now_good != is_good or is_bad_again):
                is_good = is_now_good
                self._tell(name, is_good)
                if is_good and is_first_enough:
                    return
            await self._clock.sleep(float(probe.get("periodSeconds") or 10))
