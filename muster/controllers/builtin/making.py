"""Making many objects so that a refusal of all of them costs little. Used by the controllers that make pods."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from muster.controllers.loop import Turn
from muster.model.errors import InvalidObject
from muster.store.errors import StoreError
from muster.store.kinds import Object

MOST_AT_ONCE = 500  # of one owner in one turn


async def create_all(turn: Turn, resource: str, given: Sequence[Object]) -> Exception | None:
    """Make some objects: one first, then twice as many each time as long as all goes well; gives what went wrong."""
    done, size = 0, 1
    while done < len(given):
        batch = given[done : done + size]
        answers = await asyncio.gather(*(turn.create(resource, one) for one in batch), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, (StoreError, InvalidObject)):
                return answer
            if isinstance(answer, BaseException):
                raise answer
        done, size = done + len(batch), size * 2
    return None
