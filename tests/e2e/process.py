"""A `muster up` process of its own, with a client and a kubectl for it. Used by the end-to-end tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.client import Client

STOP_S = 20.0
BARE = "tests.kubernetes.bare"  # a server that makes nothing by itself, to be compared with a real one


@dataclass(frozen=True, slots=True)
class Muster:
    """A running server."""

    process: subprocess.Popen[str]
    folder: Path
    url: str
    lines: list[str]  # what it said when it was ready
    ready_s: float

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def client(self) -> Client:
        token = (self.folder / "token").read_text().strip()
        return Client(url=self.url, token=token, ca_file=self.folder / "tls" / "ca.crt")

    def kubectl(self, program: Path, *arguments: str, text: str = "") -> str:
        """What kubectl prints; if it fails, what it said is raised."""
        command = [str(program), "kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]
        environment = {**os.environ, "HOME": str(self.folder)}  # for its cache
        answer = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=60, env=environment
        )
        if answer.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {answer.stderr}")
        return answer.stdout

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> int:
        """Have it end; gives its exit status."""
        self.process.send_signal(sign)
        return self.process.wait(STOP_S)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "muster.cli.main", *arguments]


@contextmanager
def started(folder: Path, *arguments: str, module: str = "muster.cli.main") -> Iterator[Muster]:
    """A server that keeps its state in the folder; killed at the end if it still runs."""
    start_s = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", module, "up", "--data", str(folder), "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stderr is not None, "both are piped"
        first = process.stdout.readline()
        ready_s = time.monotonic() - start_s
        if not first:
            raise RuntimeError(process.stderr.read())
        lines = [first, *(process.stdout.readline() for _ in range(4))]
        url = next(word.rstrip(";") for word in first.split() if word.startswith("https://"))
        yield Muster(process, folder, url, [line.rstrip() for line in lines], ready_s)
    finally:
        process.kill()
        process.communicate()
