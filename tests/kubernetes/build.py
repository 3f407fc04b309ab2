"""Builds the program of `controlplane/` once for each state of its source. Called by `plane` and by tools/."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.support import ROOT

SOURCE = Path(__file__).resolve().parent / "controlplane"
BUILT = ROOT / ".cache" / "controlplane"


class NoControlPlane(Exception):
    """Why there can be no real control plane here."""


@cache
def kubernetes_version() -> str:
    """The version of Kubernetes that the program holds, such as v1.36.3."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (SOURCE / "go.mod").read_text())
    assert found, "the control plane's go.mod names no Kubernetes"
    return found[1]


@cache
def program() -> Path:
    """The built program; the first build takes minutes, each later call reads a few files."""
    digest = hashlib.sha256()
    for path in sorted([*SOURCE.glob("*.go"), *SOURCE.glob("go.*")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    target = BUILT / digest.hexdigest()[:16] / "controlplane"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        (BUILT / ".gitignore").write_text("*\n")  # big, and made anew at will
        with _only_one(target.parent / "lock"):
            if not target.exists():
                _build(target)
    return target


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    # Workers that test in parallel all ask for the program; one builds it, the others wait.
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(target: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise NoControlPlane("needs Go to build a real control plane: install it, or put it on the PATH")
    version = kubernetes_version()
    major, minor = version.removeprefix("v").split(".")[:2]
    named = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [f"-X {package}.{name}={value}" for package in packages for name, value in named.items()]
    unfinished = target.with_suffix(".unfinished")
    command = [go, "build", "-trimpath", "-buildvcs=false", f"-ldflags=-s -w {' '.join(stamps)}"]
    answer = subprocess.run([*command, "-o", unfinished, "."], cwd=SOURCE, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise NoControlPlane(f"the control plane does not build:\n{answer.stderr[-2000:]}")
    os.replace(unfinished, target)
    for older in BUILT.glob("*/"):
        if older != target.parent:
            shutil.rmtree(older, ignore_errors=True)  # each takes 170 MB
