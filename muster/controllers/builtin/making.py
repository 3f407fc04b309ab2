"""Making many pods so that a refusal of all of them costs little, and telling of it. Used by controllers of pods."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from muster.controllers.builtin.gathering import all_done
from muster.controllers.events import NORMAL, WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.model.errors import InvalidObject
from muster.store.errors import StoreError
from muster.store.kinds import Object

MOST_AT_ONCE = 500  # of one owner in one turn


async def create_all(turn: Turn, resource: str, given: Sequence[Object]) -> tuple[list[Object], Exception | None]:
    """Make some objects: one first, then twice as many each time as long as all goes well.

    Gives those that were made, and what went wrong.
    """
    made: list[Object] = []
    done, size = 0, 1
    while done < len(given):
        batch = given[done : done + size]
        answers = await asyncio.gather(*(turn.create(resource, one) for one in batch), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, (StoreError, InvalidObject)):
                raise answer
        made += [answer for answer in answers if isinstance(answer, dict)]
        problems = [answer for answer in answers if isinstance(answer, (StoreError, InvalidObject))]
        if problems:
            return made, problems[0]
        done, size = done + len(batch), size * 2
    return made, None


@dataclass(frozen=True, slots=True)
class Told:
    """What a turn has done to pods, for the events about their owner."""

    made: Sequence[Object] = ()
    deleted: Sequence[Object] = ()
    problem: Exception | None = None


async def tell_pods(turn: Turn, events: Events, owner: Object, told: Told) -> None:
    """Write down which pods were made and deleted for an owner, and why no more were made."""
    notes = [Note(NORMAL, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}") for pod in told.made]
    notes += [Note(NORMAL, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}") for pod in told.deleted]
    if told.problem is not None:
        notes.append(Note(WARNING, "FailedCreate", f"Error creating: {told.problem}"))
    await all_done(events.tell(turn, owner, note) for note in notes)
