"""A `muster manage` process beside a real control plane. Used by the tests that play on a real cluster."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kubernetes.plane import POLL_S, STOP_S, Plane
from tests.support import shared

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVED_S = 300.0


def with_definitions(plane: Plane) -> None:
    """Have the server know Kueue's kinds, by Kueue's own definitions."""
    files = sorted(shared("crds").glob("*.kueue.x-k8s.io.yaml"))
    plane.kubectl("create", *(part for one in files for part in ("-f", str(one))))
    wait_established(plane)


def wait_established(plane: Plane) -> None:
    """Wait until all definitions are served; `kubectl wait` fails on one that nobody has looked at yet."""
    deadline_s = time.monotonic() + SERVED_S
    while not all(map(_is_established, plane.client.request("GET", DEFINITIONS).json["items"])):
        assert time.monotonic() < deadline_s, "some definitions are not served"
        time.sleep(POLL_S)


def _is_established(definition: Any) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


@contextmanager
def managed(plane: Plane, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A manager that is at work, with its log in the folder; stopped at the end."""
    command = [sys.executable, "-m", "muster.cli.main", "manage", "--kubeconfig", str(plane.kubeconfig), *arguments]
    with (folder / "manage.log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None, "it is piped"
            ready, _, _ = select.select([process.stdout], [], [], SERVED_S)
            if not ready or not process.stdout.readline().startswith("Muster manages"):
                raise RuntimeError((folder / "manage.log").read_text()[-2000:])
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
