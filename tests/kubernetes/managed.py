"""A `muster manage` process beside a real control plane. Used by the tests that play on a real cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kubernetes.plane import STOP_S, Plane
from tests.support import shared


def with_definitions(plane: Plane) -> None:
    """Have the server know Kueue's kinds, by Kueue's own definitions."""
    files = sorted(shared("crds").glob("*.kueue.x-k8s.io.yaml"))
    plane.kubectl("create", *(part for one in files for part in ("-f", str(one))))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")


@contextmanager
def managed(plane: Plane, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A manager that is at work, with its log in the folder; stopped at the end."""
    command = [sys.executable, "-m", "muster.cli.main", "manage", "--kubeconfig", str(plane.kubeconfig), *arguments]
    with (folder / "manage.log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None, "it is piped"
            first = process.stdout.readline()
            if not first.startswith("Muster manages"):
                raise RuntimeError((folder / "manage.log").read_text()[-2000:])
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
