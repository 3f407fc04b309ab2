"""Two thousand clients of one user at once: what happens to the writes of the cluster's own components meanwhile.

`python -m bench.overload` prints the figures; with arguments it is the process that makes the load.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop

from bench.apiserver import CONFIGS, Running, config_bytes, connected, running
from bench.wire import Connection, connect

CLIENTS = 2_000
SECONDS = 10.0
_READY = "ready"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_RULE = {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}


@dataclass(frozen=True, slots=True)
class Overload:
    """How a server fared."""

    answered: int  # of the load
    refused: int  # of those, with 429
    system_p99_s: float  # a write of a service account of kube-system
    tenant_p99_s: float  # a write of another user with one connection
    cpu_share: float  # of a core that the server got: below 1 the machine was busy with something else


def overload(clients: int = CLIENTS, seconds: float = SECONDS) -> Overload:
    """Run a server under a load of many clients, and time what others do."""
    with running() as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        tokens = runner.run(_prepared(server))
        command = [sys.executable, "-m", "bench.overload", server.url, tokens["default"], str(server.ca_file)]
        load = subprocess.Popen([*command, str(clients), str(seconds)], stdout=subprocess.PIPE, text=True)
        assert load.stdout is not None, "it is piped"
        try:
            assert load.stdout.readline().strip() == _READY, "the load did not start"
            cpu_s = server.cpu_s()
            timed = runner.run(_timed(server, tokens, seconds))
            counts = json.loads(load.stdout.readline())
            share = (server.cpu_s() - cpu_s) / seconds
        finally:
            load.kill()
            load.wait()
    return Overload(counts["answered"], counts["refused"], timed["kube-system"], timed["other"], share)


async def _prepared(server: Running) -> dict[str, str]:
    """A token for an account in each of three namespaces, which all may write config maps."""
    tokens = {}
    async with connected(server, 1) as (admin,):
        await _post(admin, "/api/v1/namespaces", {"metadata": {"name": "other"}})
        role = {"metadata": {"name": "load"}, "rules": [_RULE]}
        await _post(admin, f"{_RBAC}/clusterroles", role)
        subjects = []
        for space in ("default", "other", "kube-system"):
            place = f"/api/v1/namespaces/{space}/serviceaccounts"
            await _post(admin, place, {"metadata": {"name": "load"}})
            answer = await _post(admin, f"{place}/load/token", {"spec": {}})
            tokens[space] = answer["status"]["token"]
            subjects.append({"kind": "ServiceAccount", "name": "load", "namespace": space})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "load"}
        binding = {"metadata": {"name": "load"}, "roleRef": reference, "subjects": subjects}
        await _post(admin, f"{_RBAC}/clusterrolebindings", binding)
    return tokens


async def _post(connection: Connection, path: str, body: object) -> dict:
    status, answer = await connection.request("POST", path, json.dumps(body).encode())
    assert status == 201, answer
    return dict(json.loads(answer))


async def _timed(server: Running, tokens: dict[str, str], seconds: float) -> dict[str, float]:
    """The 99th percentile of how long a write takes, for each of two accounts."""

    async def write(space: str) -> float:
        taken_s: list[float] = []
        end_s = time.monotonic() + seconds * 0.8
        connection = await connect(server.url, tokens[space], server.ca_file)
        try:
            while (start_s := time.monotonic()) < end_s:
                name = f"{space}-{len(taken_s)}"
                status, answer = await connection.request("POST", CONFIGS, config_bytes(name, 100))
                assert status == 201, answer
                taken_s.append(time.monotonic() - start_s)
                await asyncio.sleep(0.02)
        finally:
            connection.close()
        return sorted(taken_s)[int(len(taken_s) * 0.99)]

    found = await asyncio.gather(write("kube-system"), write("other"))
    return dict(zip(("kube-system", "other"), found, strict=True))


# The load ------------------------------------------------------------------------------------------------------------


class _Hammer(asyncio.Protocol):
    """Sends the next request as soon as the last is answered."""

    def __init__(self, number: int, token: str, codes: Counter[bytes]) -> None:
        self._number = number
        self._codes = codes
        self._sent = 0
        self._head = f"Host: x\r\nUser-Agent: load\r\nAuthorization: Bearer {token}\r\n"
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 "):
            self._codes[data[9:12]] += 1
            self.send()

    def send(self) -> None:
        """Write and look in turns."""
        self._sent += 1
        if self._sent % 2:
            body = config_bytes(f"load-{self._number}-{self._sent}", 100)
            head = f"POST {CONFIGS} HTTP/1.1\r\n{self._head}Content-Type: application/json\r\n"
            self._transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        else:
            path = f"{CONFIGS}/load-{self._number}-{self._sent - 1}"
            self._transport.write(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())


async def _load(url: str, token: str, ca_file: Path, clients: int, seconds: float) -> None:
    tls = ssl.create_default_context(cafile=ca_file)
    place = urlsplit(url)
    codes: Counter[bytes] = Counter()
    loop = asyncio.get_running_loop()
    hammers = []
    for number in range(clients):
        make = _Hammer(number, token, codes)
        await loop.create_connection(lambda made=make: made, place.hostname, place.port, ssl=tls)
        hammers.append(make)
    for one in hammers:
        one.send()
    print(_READY, flush=True)
    await asyncio.sleep(seconds)
    print(json.dumps({"answered": codes.total(), "refused": codes[b"429"]}), flush=True)


def main(arguments: list[str]) -> None:
    if arguments:
        url, token, ca_file, clients, seconds = arguments
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_load(url, token, Path(ca_file), int(clients), float(seconds)))
        return
    found = overload()
    print(f"{CLIENTS} clients of one user: {found.answered} answers in {SECONDS:.0f} s, {found.refused} of them 429")
    system_ms, tenant_ms = found.system_p99_s * 1e3, found.tenant_p99_s * 1e3
    print(f"p99 of a write by kube-system: {system_ms:.0f} ms; by another user: {tenant_ms:.0f} ms")
    print(f"the server had {found.cpu_share:.2f} of a core")


if __name__ == "__main__":
    main(sys.argv[1:])
