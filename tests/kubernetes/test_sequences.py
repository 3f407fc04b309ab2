"""Sequences of requests by chance: both servers say the same to each, and their watches tell the same story."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from tests.e2e.process import BARE, Muster, started
from tests.kubernetes.sequences import story
from tests.kubernetes.sides import Side, explained, unlike
from tests.support import assert_sound, proof_count

STORIES = 200
LENGTH = 100


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Muster as a process of its own."""
    with started(tmp_path_factory.mktemp("up") / "state", module=BARE) as running:
        yield running


@pytest.mark.prove
def test_both_answer_alike(plane, muster):
    counts = {"same": 0, "on purpose": 0}

    def check(chance: Random) -> None:
        namespace = f"story-{chance.randrange(10**9)}"
        real, ours = Side(plane.client, namespace), Side(muster.client, namespace)
        differ = []
        for number, step in enumerate(story(chance, LENGTH)):
            theirs, mine = real.ask(step), ours.ask(step)
            if theirs == mine:
                counts["same"] += 1
            elif explained(step, mine, theirs):
                counts["on purpose"] += 1
            else:
                differ.append(f"request {number}: {step}\n    {'; '.join(unlike(mine, theirs))}")
            if theirs.get("status", 0) != mine.get("status", 0):
                break  # from here on they have different objects
        told, mine_told = real.events(), ours.events()
        real.leave()
        ours.leave()
        if not differ and told != mine_told:
            differ.append(f"the watches differ: {unlike(mine_told, told)}")
        assert not differ, "\n  ".join(differ)

    assert_sound(check, range(proof_count(STORIES)))
    print(f"\nrequests: {counts}")
