"""Sessions with real kubectls say the same of a real Kubernetes and of Muster, word by word."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e import process
from tests.e2e.transcripts import FOLDER, VERSIONS, Session, kubectl_folders
from tests.kubernetes import plane
from tests.support import shared

TRANSCRIPTS = sorted(path.stem for path in FOLDER.glob("*.txt"))
# What a transcript needs of a real Kubernetes beside its API server.
NEEDS = {
    "delete": "kubernetes_with_controllers",  # one of them deletes what an object owned
    "rights": "kubernetes_with_controllers",  # one of them gathers the rules of roles
    "queues": "kubernetes_with_kueue",
    "quotas": "kubernetes_with_controllers",  # one of them counts
}


@dataclass(frozen=True, slots=True)
class Server:
    """Something that kubectl can speak to."""

    kubeconfig: Path
    is_muster: bool


@pytest.fixture(scope="module")
def kubectls(tmp_path_factory):
    return kubectl_folders(tmp_path_factory)


@pytest.fixture(scope="module")
def kubernetes(kubectls, tmp_path_factory):
    """A real API server with nobody else at work on its objects."""
    with plane.started(tmp_path_factory.mktemp("plane")) as running:
        yield Server(running.kubeconfig, is_muster=False)


@pytest.fixture(scope="module")
def kubernetes_with_controllers(kubectls, tmp_path_factory):
    """A whole real control plane."""
    with plane.started(tmp_path_factory.mktemp("plane"), has_controllers=True) as running:
        yield Server(running.kubeconfig, is_muster=False)


@pytest.fixture(scope="module")
def kubernetes_with_kueue(kubernetes, kubectls):
    """A real API server that was taught the kinds of Kueue; nobody converts between their versions there."""
    kubectl = [kubectls["1.36"] / "kubectl", "--kubeconfig", kubernetes.kubeconfig]
    definitions = [yaml.safe_load(path.read_text()) for path in sorted(shared("crds").glob("*.kueue.x-k8s.io.yaml"))]
    for definition in definitions:
        definition["spec"]["conversion"] = {"strategy": "None"}
    texts = "---\n".join(json.dumps(definition) + "\n" for definition in definitions)
    subprocess.run([*kubectl, "create", "-f", "-"], input=texts, text=True, check=True, capture_output=True)
    wait = ["wait", "--for=condition=Established", "customresourcedefinitions", "--all"]
    subprocess.run([*kubectl, *wait], check=True, capture_output=True)
    return kubernetes


@pytest.fixture(scope="module")
def muster(kubectls, tmp_path_factory):
    """Muster's API alone, as the real one has nobody beside it that acts on queues and pods."""
    with process.started(tmp_path_factory.mktemp("muster") / "state", "--api-only") as running:
        yield Server(running.kubeconfig, is_muster=True)


@pytest.fixture(params=["kubernetes", "muster"])
def server(request, name):
    wanted = NEEDS.get(name, "kubernetes") if request.param == "kubernetes" else "muster"
    return request.getfixturevalue(wanted)


@pytest.fixture(params=VERSIONS)
def session(request, server, kubectls, name, tmp_path):
    namespace = f"{name}-{request.param.replace('.', '-')}"
    session = Session(tmp_path, namespace, is_muster=server.is_muster)
    session.open(kubectls[request.param], server.kubeconfig)
    yield session
    session.close()


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_session(session, name):
    session.play(FOLDER / f"{name}.txt")
