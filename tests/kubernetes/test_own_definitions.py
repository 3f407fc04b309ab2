"""The same objects to the definitions that users have and to ours, on a real server: same verdicts, same defaults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.definition_pairs import compare, define, pairs
from tests.kubernetes.client import Client
from tests.kubernetes.plane import started
from tests.support import is_full_proof, shared


@pytest.fixture(scope="module")
def server(real_program, tmp_path_factory) -> Iterator[Client]:
    """A real server of our own: definitions would be in the way of other tests."""
    with started(tmp_path_factory.mktemp("own-definitions")) as plane:
        yield plane.client


@pytest.mark.prove
def test_both_definitions_take_and_refuse_the_same(server: Client) -> None:
    shared("crds")
    taken = asked = 0
    for pair in pairs():
        define(server, pair)
        changes = 200 if is_full_proof() else 5
        taken += compare(server, pair, changes=changes, seed="plane")
        asked += changes * len(pair.objects)
    assert asked / 10 < taken < asked * 9 / 10, "the changes are too wild or too tame to tell much"
