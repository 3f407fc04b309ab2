"""Builds the Go programs beside it once for each state of their source. Called by `plane`, by tools/ and by tests/e2e.

`controlplane/` is a whole Kubernetes and its kubectl, of the newest version unless MUSTER_KUBERNETES names another of
VERSIONS; `kubectl132/` is an older kubectl alone; tests/goclient is a controller as people write them; `helm/` names
the version of Helm that the chart is checked with.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.support import ROOT

SOURCE = Path(__file__).resolve().parent / "controlplane"
HELM = Path(__file__).resolve().parent / "helm"
OLDER_KUBECTL = Path(__file__).resolve().parent / "kubectl132"
GO_CLIENT = ROOT / "tests" / "goclient"
BUILT = ROOT / ".cache"
WANTED = "MUSTER_KUBERNETES"  # a version, or anything else for the newest
VERSIONS = {"1.36": "go.mod", "1.35": "go-1.35.mod", "1.34": "go-1.34.mod"}  # what says what each is built from
BUILD_S = 1_500.0  # it takes thirteen minutes of one core, and sources that cannot be fetched take as long as they like


class NoControlPlane(Exception):
    """Why there can be no real control plane, or no kubectl, here."""


@cache
def kubernetes_version() -> str:
    """The version of Kubernetes that the program holds, such as v1.36.3."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (SOURCE / _module()).read_text())
    assert found, f"the control plane's {_module()} names no Kubernetes"
    return found[1]


def _module() -> str:
    return VERSIONS.get(os.environ.get(WANTED, ""), "go.mod")


@cache
def program() -> Path:
    """The built program; the first build takes minutes, each later call reads a few files."""
    return _built(SOURCE, kubernetes_version(), module=_module())


@cache
def older_kubectl() -> Path:
    """A kubectl of an older Kubernetes than the program's."""
    found = re.search(r"k8s\.io/kubectl v0(\S+)", (OLDER_KUBECTL / "go.mod").read_text())
    assert found, "the older kubectl's go.mod names no kubectl"
    return _built(OLDER_KUBECTL, f"v1{found[1]}")


@cache
def go_client() -> Path:
    """A controller made with client-go."""
    found = re.search(r"k8s\.io/client-go v0(\S+)", (GO_CLIENT / "go.mod").read_text())
    assert found, "the controller's go.mod names no client-go"
    return _built(GO_CLIENT, f"v1{found[1]}")


@cache
def helm() -> Path:
    """Helm, in the version that its go.mod names."""
    found = re.search(r"helm\.sh/helm/v3 (v\S+)", (HELM / "go.mod").read_text())
    assert found, "the go.mod of Helm names no Helm"
    return _built(HELM, found[1], package="helm.sh/helm/v3/cmd/helm")


def _built(source: Path, version: str, *, package: str = ".", module: str = "go.mod") -> Path:
    digest = hashlib.sha256()
    stem = module.removesuffix(".mod")
    for path in sorted([*source.glob("*.go"), *source.glob(f"{stem}.*")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    kept = BUILT / (source.name + stem.removeprefix("go"))
    target = kept / digest.hexdigest()[:16] / source.name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        (kept / ".gitignore").write_text("*\n")  # big, and made anew at will
        with _only_one(target.parent / "lock"):
            if not target.exists():
                _build(source, version, target, package=package, module=module)
    return target


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    # Workers that test in parallel all ask for the program; one builds it, the others wait.
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(source: Path, version: str, target: Path, *, package: str, module: str) -> None:
    go = shutil.which("go")
    if go is None:
        raise NoControlPlane(f"needs Go to build {source.name}: install it, or put it on the PATH")
    major, minor = version.removeprefix("v").split(".")[:2]
    named = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [f"-X {package}.{name}={value}" for package in packages for name, value in named.items()]
    unfinished = target.with_suffix(".unfinished")
    command = [go, "build", f"-modfile={module}", "-trimpath", "-buildvcs=false", f"-ldflags=-s -w {' '.join(stamps)}"]
    try:
        answer = subprocess.run(
            [*command, "-o", unfinished, package],
            cwd=source,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_S,
        )
    except subprocess.TimeoutExpired:
        raise NoControlPlane(f"{source.name} was not built within {BUILD_S:.0f} s") from None
    if answer.returncode:
        raise NoControlPlane(f"{source.name} does not build:\n{answer.stderr[-2000:]}")
    os.replace(unfinished, target)
    for older in target.parent.parent.glob("*/"):
        if older != target.parent:
            shutil.rmtree(older, ignore_errors=True)  # each takes 170 MB


def main() -> int:
    """Build what the comparison needs; says what is missing where that cannot be done."""
    try:
        for path in (program(), older_kubectl(), go_client()):
            print(path)
    except NoControlPlane as missing:
        print(missing, file=sys.stderr)
        return 1
    try:
        print(helm())
    except NoControlPlane as missing:
        print(f"SKIPPED: the chart is not checked: {missing}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
