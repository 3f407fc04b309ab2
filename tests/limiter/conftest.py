"""The limiter built once for all tests here, and a fresh card for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.limiter.building import Built, Card, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("limiter"))


@pytest.fixture
def card(built: Built, tmp_path: Path) -> Card:
    return Card(built, tmp_path)
