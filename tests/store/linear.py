"""Whether concurrent questions have an order that explains all answers. Used by the proofs over stores and HTTP.

Moments are revisions: every write has one, so that the order of the writes is known and only reads have to be placed.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

WRITES = ("create", "replace", "compare", "remove")
State = dict[Hashable, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """One question of a client: when it was asked and answered, and how."""

    asked: int
    answered: int
    what: str  # one of WRITES, "get", "list", or how it was refused: "is absent", "is present", "conflict"
    key: Hashable
    found: object | None  # written or read, none when there was nothing; of a conflict, what was expected in vain
    revision: int = 0  # of a write, or of a list


class Timeline:
    """All states in the order of their revisions."""

    def __init__(self) -> None:
        self.revisions = [0]
        self._states: list[State] = [{}]

    def add(self, answer: Answer) -> None:
        """The next write."""
        assert answer.revision > self.revisions[-1], f"{answer} comes after {self.revisions[-1]}"
        state = dict(self._states[-1])
        assert (answer.key in state) == (answer.what != "create"), f"{answer} cannot be, with {state.get(answer.key)}"
        if answer.what == "remove":
            del state[answer.key]
        else:
            state[answer.key] = answer.found
        self.revisions.append(answer.revision)
        self._states.append(state)

    def at(self, revision: int) -> State:
        return self._states[bisect_right(self.revisions, revision) - 1]

    def onward(self, revision: int) -> Iterator[tuple[int, State]]:
        """The state at a revision and all later ones, each with the first moment of it that is not earlier."""
        first = bisect_right(self.revisions, revision) - 1
        for place in range(first, len(self.revisions)):
            yield max(revision, self.revisions[place]), self._states[place]


def check_linear(answers: list[Answer], timeline: Timeline) -> None:
    """Find for each answer, given in the order of asking, a moment between question and answer at which it was right.

    Writes have theirs; everything else takes the earliest that fits, but none before the moment of an answer that
    somebody had before the question was asked.
    """
    floor = 0
    running: list[tuple[int, int]] = []  # when answered, at which revision
    for answer in answers:
        while running and running[0][0] < answer.asked:
            floor = max(floor, heapq.heappop(running)[1])
        if answer.what in WRITES:
            assert answer.revision > floor, f"{answer} was written into the past, {floor} had been seen"
            moment = answer.revision
        else:
            moments = (
                timeline.onward(floor) if not answer.revision else [(answer.revision, timeline.at(answer.revision))]
            )
            found = next((at for at, state in moments if at >= floor and is_right(answer, state)), None)
            assert found is not None, f"{answer} was never right after {floor}"
            moment = found
        heapq.heappush(running, (answer.answered, moment))


def is_right(answer: Answer, state: State) -> bool:
    """Whether an answer that changed nothing is what this state gives."""
    if answer.what == "conflict":
        return state.get(answer.key) != answer.found
    if answer.what == "is present":
        return answer.key in state
    return state.get(answer.key) == answer.found
