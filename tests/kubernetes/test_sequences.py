"""Sequences of requests by chance: both servers say the same to each, and their watches tell the same story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.e2e.process import BARE, Muster, started
from tests.kubernetes.sequences import Step, story
from tests.kubernetes.sides import Json, Side, explained, unlike
from tests.support import assert_sound, proof_count

STORIES = 200
LENGTH = 100


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Muster as a process of its own."""
    with started(tmp_path_factory.mktemp("up") / "state", module=BARE) as running:
        yield running


@dataclass(slots=True)
class Telling:
    """What a server said to the steps of a story, and what its watches told of it."""

    answers: list[Json] = field(default_factory=list)
    events: Json = field(default_factory=dict)


@pytest.mark.prove
def test_both_answer_alike(plane, muster):
    counts: Counter[str] = Counter()

    def check(chance: Random) -> None:
        namespace = f"story-{chance.randrange(10**9)}"
        steps = list(story(chance, LENGTH))
        theirs, mine = both_tell(Side(plane.client, namespace), Side(muster.client, namespace), steps)
        differ = differences(steps, mine, theirs)
        if differ:
            # A real server may do something by itself at a time of its own. What it says twice it means: Muster's
            # answers have to be like one of the two, and are not asked for again.
            again = tells(Side(plane.client, f"{namespace}-again"), steps[: len(mine.answers)])
            differ = differences(steps, mine, again) and differ
            counts["told anew"] += 1
        assert not differ, "\n  ".join(differ)
        counts["same"] += sum(one == other for one, other in zip(mine.answers, theirs.answers, strict=True))
        counts["all"] += len(mine.answers)

    assert_sound(check, range(proof_count(STORIES)))
    print(f"\nrequests: {dict(counts)}")


def both_tell(real: Side, ours: Side, steps: list[Step]) -> tuple[Telling, Telling]:
    """What two servers say to a story, as far as they have the same objects."""
    theirs, mine = Telling(), Telling()
    for step in steps:
        theirs.answers.append(real.ask(step))
        mine.answers.append(ours.ask(step))
        if theirs.answers[-1].get("status", 0) != mine.answers[-1].get("status", 0):
            break  # from here on they have different objects
    theirs.events, mine.events = real.events(), ours.events()
    real.leave()
    ours.leave()
    return theirs, mine


def tells(side: Side, steps: list[Step]) -> Telling:
    """What one server says to a story."""
    told = Telling([side.ask(step) for step in steps], side.events())
    side.leave()
    return told


def differences(steps: list[Step], mine: Telling, theirs: Telling) -> list[str]:
    """Where two tellings differ, and not on purpose."""
    found = []
    for number, (step, own, other) in enumerate(zip(steps, mine.answers, theirs.answers, strict=False)):
        if own != other and not explained(step, own, other):
            found.append(f"request {number}: {step}\n    {'; '.join(unlike(own, other))}")
    if not found and mine.events != theirs.events:
        found.append(f"the watches differ: {unlike(mine.events, theirs.events)}")
    return found
