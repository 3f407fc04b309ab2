"""The same objects to the definitions that users have and to ours, on our own server: same verdicts, same defaults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apiserver.definitions.servers import Here
from tests.definition_pairs import compare, define, pairs
from tests.support import is_full_proof, shared

# These hold the spec of a Job and little else; the shapes of all are compared in the tests of the dialects.
FULL_ONLY = ("CronJob", "JobFlow", "JobTemplate")


@pytest.fixture(scope="module")
def here() -> Iterator[Here]:
    server = Here()
    yield server
    server.close()


@pytest.mark.prove
def test_both_definitions_take_and_refuse_the_same(here: Here) -> None:
    shared("crds")
    taken = asked = 0
    for pair in pairs():
        if is_full_proof() or not pair.name.startswith(FULL_ONLY):
            define(here, pair)
            changes = 300 if is_full_proof() else 6
            taken += compare(here, pair, changes=changes, seed="here")
            asked += changes * len(pair.objects)
    assert asked / 10 < taken < asked * 9 / 10, "the changes are too wild or too tame to tell much"
