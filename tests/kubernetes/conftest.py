"""A real control plane as fixtures. It takes minutes to build and seconds to start: it is there only if asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.build import NoControlPlane, program
from tests.kubernetes.plane import Plane, started


@pytest.fixture(scope="session")
def real_program() -> Path:
    """The program that holds a real control plane; skips the test where it is not wanted or cannot be built."""
    if not os.environ.get("MUSTER_KUBERNETES"):
        pytest.skip("compares with a real Kubernetes: make test-kubernetes, or set MUSTER_KUBERNETES=1")
    try:
        return program()
    except NoControlPlane as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def plane(real_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A real API server with nobody else at work on its objects."""
    with started(tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture(scope="session")
def plane_with_controllers(real_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A whole real control plane: the controllers and the scheduler too."""
    with started(tmp_path_factory.mktemp("plane"), has_controllers=True) as running:
        yield running
