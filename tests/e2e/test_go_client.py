"""Controllers made with client-go keep up with a server that is killed and forgets its past, and do their work once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.process import Muster, started
from tests.kubernetes.build import NoControlPlane, go_client
from tests.support import proof_count

CONFIGS = "/api/v1/namespaces/default/configmaps"
CHANGES = 5_000
SOURCES = 40
LARGE_BYTES, LARGE_WRITES = 1_000_000, 40  # more than the history keeps of what was replaced
CONVERGES_S = 90.0
POLL_S = 0.05
Json = dict[str, Any]


@pytest.fixture(scope="module")
def controller() -> Path:
    if not os.environ.get("MUSTER_KUBERNETES"):
        pytest.skip("needs a controller made with Go: make test-kubernetes, or set MUSTER_KUBERNETES=1")
    try:
        return go_client()
    except NoControlPlane as missing:
        pytest.skip(str(missing))


class Running:
    """A controller that is asked what it has seen."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def tell(self) -> Json:
        assert self.process.stdin is not None and self.process.stdout is not None, "both are piped"
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        told: Json = json.loads(self.process.stdout.readline())
        return told


@contextmanager
def running(program: Path, kubeconfig: Path, identity: str) -> Iterator[Running]:
    command = [str(program), "--kubeconfig", str(kubeconfig), "--identity", identity]
    with (kubeconfig.parent / f"{identity}.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield Running(process)
        finally:
            process.kill()
            process.communicate()


class Server:
    """A server on one port that can be killed and started again."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack, self._port = folder, stack, ""
        self.muster = self._start()
        self._port = self.muster.url.rpartition(":")[2]

    def _start(self) -> Muster:
        more = ("--port", self._port) if self._port else ()
        return self._stack.enter_context(started(self._folder, *more))

    def kill(self) -> None:
        self.muster.stop(signal.SIGKILL)
        self.muster = self._start()

    def write(self, method: str, path: str, body: Json | None = None) -> int:
        """Write, again where the server does not answer; gives the status."""
        while True:
            try:
                return self.muster.client.request(method, path, body).status
            except (OSError, HTTPException):
                continue

    def configs(self) -> dict[str, Json]:
        items = self.muster.client.request("GET", CONFIGS).json["items"]
        return {one["metadata"]["name"]: one for one in items}


def source(name: str, value: str, *, pad: int = 0) -> Json:
    labels = {"role": "source"} if not pad else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "data": {"value": value, **({"pad": "x" * pad} if pad else {})},
    }


def change(server: Server, chance: Random, turn: int) -> None:
    name, value = f"s{chance.randrange(SOURCES)}", str(turn)
    match chance.choices(("make", "change", "remove", "spoil"), (30, 50, 15, 5))[0]:
        case "make":
            server.write("POST", CONFIGS, source(name, value))
        case "change":
            server.write("PUT", f"{CONFIGS}/{name}", source(name, value))
        case "remove":
            server.write("DELETE", f"{CONFIGS}/{name}")
        case "spoil":  # a copy: the controller puts it right
            patch = json.dumps({"data": {"value": "spoilt"}}).encode()
            merge = "application/merge-patch+json"
            server.muster.client.request("PATCH", f"{CONFIGS}/{name}-copy", patch, content_type=merge)


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + CONVERGES_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(POLL_S)


def is_settled(server: Server, controllers: list[Running]) -> bool:
    """Whether all caches hold what the server has, and each source has its copy."""
    there = server.configs()
    revisions = {name: one["metadata"]["resourceVersion"] for name, one in there.items()}
    sources = {
        name: one for name, one in there.items() if (one["metadata"].get("labels") or {}).get("role") == "source"
    }
    copies = {name.removesuffix("-copy"): one for name, one in there.items() if name.endswith("-copy")}
    are_copied = {name: one["data"] for name, one in sources.items()} == {n: one["data"] for n, one in copies.items()}
    return are_copied and all(one.tell()["held"] == revisions for one in controllers)


def forget_the_past(server: Server, controllers: list[Running]) -> None:
    """Write so much while the controllers stand still that they are told to list anew."""
    for one in controllers:
        one.process.send_signal(signal.SIGSTOP)
    server.write("POST", CONFIGS, source("large", "0", pad=1))
    for number in range(LARGE_WRITES):
        server.write("PUT", f"{CONFIGS}/large", source("large", str(number), pad=LARGE_BYTES))
    server.kill()  # their watches end, and none of them can go on where it was
    for one in controllers:
        one.process.send_signal(signal.SIGCONT)


# Python leaves the socket of a handshake that is cut short to its garbage collector, which complains.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.prove
def test_informers_and_a_controller_converge_whatever_happens_to_the_server(controller, tmp_path):
    with ExitStack() as stack:
        server = Server(tmp_path / "state", stack)
        kubeconfig = server.muster.kubeconfig
        controllers = [stack.enter_context(running(controller, kubeconfig, name)) for name in ("one", "two")]
        wait_until(lambda: any(one.tell()["leading"] for one in controllers), "nobody leads")
        chance, count = Random(0), proof_count(CHANGES)
        kills = {count // 4, count // 2, count * 3 // 4}
        for turn in range(count):
            change(server, chance, turn)
            if turn in kills:
                server.kill()
        forget_the_past(server, controllers)
        wait_until(lambda: is_settled(server, controllers), "the caches or the copies are not what they should be")
        told = [one.tell() for one in controllers]
        assert sorted(one["leading"] for one in told) == [False, True], "exactly one leads"
        assert sum(one["reconciled"] for one in told) > 0
        assert all(one["expired"] for one in told), "they were told to list anew"
        check_traces(server)


def check_traces(server: Server) -> None:
    """What a controller leaves: fields of its own, events, a lease."""
    copy = next(one for name, one in server.configs().items() if name.endswith("-copy"))
    managers = {one["manager"]: one["operation"] for one in copy["metadata"]["managedFields"]}
    assert managers["copier"] == "Apply"
    events = server.muster.client.request("GET", "/api/v1/namespaces/default/events?fieldSelector=reason%3DCopied").json
    assert events["items"] and all(one["source"]["component"] == "copier" for one in events["items"])
    lease = server.muster.client.request("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/copier").json
    assert lease["spec"]["holderIdentity"] in ("one", "two") and lease["spec"]["leaseTransitions"] == 0
