"""A real API server and its etcd, and `muster manage` beside them, in processes of their own. Used by load drivers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.apiserver import children
from tests.kubernetes.build import NoControlPlane
from tests.kubernetes.plane import Plane, started

ROOT = Path(__file__).resolve().parent.parent
_STOP_S = 30.0
_WAIT = ("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")


@contextmanager
def managed_plane(profile: str) -> Iterator[tuple[Plane, dict[str, int]]]:
    """The plane with Kueue's definitions, and the ids of all processes by name."""
    definitions = _definitions()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with started(folder) as plane:
            pids = {_part_of(pid): pid for pid in children()}
            # They are larger than what an annotation of kubectl's may hold.
            plane.kubectl("apply", "--server-side", *(word for path in definitions for word in ("-f", str(path))))
            plane.kubectl(*_WAIT)
            with _managing(plane, profile) as pid:
                yield plane, {"muster": pid, **pids}


def _definitions() -> list[Path]:
    """Kueue's own definitions, which lie beside the checkout."""
    folder = Path(os.environ.get("MUSTER_SHARED") or ROOT.parent / "shared") / "crds"
    found = sorted(folder.glob("*.kueue.x-k8s.io.yaml"))
    if not found:
        raise NoControlPlane(f"needs Kueue's definitions in {folder}")
    return found


@contextmanager
def _managing(plane: Plane, profile: str) -> Iterator[int]:
    """Muster at work on a plane, from when it knows all objects on."""
    command = [sys.executable, "-m", "muster.cli.main", "manage", "--kubeconfig", str(plane.kubeconfig)]
    with (plane.folder / "muster.log").open("wb") as log:
        process = subprocess.Popen([*command, "--profile", profile], stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None, "it is piped"
            if not process.stdout.readline():
                raise RuntimeError((plane.folder / "muster.log").read_text()[-2000:])
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _part_of(pid: int) -> str:
    """Which part of the control plane a process is."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1].decode()
