"""Several writes at once, so that they become durable together. Used by the controllers of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def all_done(steps: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all steps to end, and raise the first failure only then: none goes on behind its turn's back."""
    done: list[T] = []
    failures: list[BaseException] = []
    for answer in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(answer, BaseException):
            failures.append(answer)
        else:
            done.append(answer)
    if failures:
        raise failures[0]
    return done
