"""Sessions with real kubectls on a cluster that lives: its pods run, roll out, are reached into and leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e import process
from tests.e2e.transcripts import VERSIONS, Session, kubectl_folders
from tests.support import ROOT

FOLDER = Path(__file__).resolve().parent / "living"
EXAMPLE = ROOT / "examples" / "gpu-cluster.yaml"
SIMULATED = ("cards", "failures")  # sessions on the nodes of the example
SESSIONS = sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.fixture(scope="module")
def kubectls(tmp_path_factory):
    return kubectl_folders(tmp_path_factory)


@pytest.fixture
def muster(name, kubectls, tmp_path):
    """A cluster whose only node is this machine, or one of simulated nodes alone."""
    arguments = ("--no-local-node", "--nodes", str(EXAMPLE)) if name in SIMULATED else ()
    with process.started(tmp_path / "state", *arguments) as running:
        yield running
        running.stop()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session(name, version, muster, kubectls, tmp_path):
    session = Session(tmp_path, f"{name}-{version.replace('.', '-')}", is_muster=True)
    session.open(kubectls[version], muster.kubeconfig)
    try:
        session.play(FOLDER / f"{name}.txt")
    finally:
        session.close()
