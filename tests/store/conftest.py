"""Fixtures for the tests of the store: every kind of store, opened in a folder of its own and closed afterwards."""

from __future__ import annotations

import pytest

from muster.store.clock import VirtualClock
from muster.store.history import Limits
from tests.store.builders import open_store


@pytest.fixture
def clock():
    return VirtualClock(1_000.0)


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request, tmp_path, clock):
    """Opens a store of each kind in turn, with limits of the test's choice."""
    opened = []

    def make(limits: Limits | None = None):
        opened.append(open_store(request.param, tmp_path / f"data-{len(opened)}", limits, clock))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def store(make_store):
    return make_store()
