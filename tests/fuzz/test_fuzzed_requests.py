"""Damaged requests get an answer that Kubernetes could give: no fault of the server, at little cost, and nothing leaks.

Every request has a number and is the same each time, and so is the state that it meets: each chunk has a
server of its own. `python -m tests.fuzz.test_fuzzed_requests NUMBER` writes out one request.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import time
import tracemalloc

import pytest

from muster.app.kinds import catalog
from tests import support
from tests.apiserver.world import World
from tests.fuzz.requests import DEFINITIONS, Case, case
from tests.stopwatch import slow_factor

FULL = 100_000
CHUNKS = 10
LIMIT_S = 1.0
TRIES = 3
STREAM_S = 0.02  # an answer that has begun and not ended by then is a watch
PATIENCE_S = 60.0
MEMORY_MOST = 50 << 20
LIKE_KUBERNETES = b"failed to create typed patch object"  # what is applied and has not the form of its kind: 500
OURS = (503, 504)  # what a server may say of itself: not now, and not yet
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Faults(logging.Handler):
    """Keeps what the server logs about faults of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        what = record.exc_info[1] if record.exc_info else ""
        self.seen.append(f"{record.getMessage()}: {what!r}"[:300])


async def answered(world: World, one: Case) -> tuple[int, bytes, dict[str, str]]:
    """The answer to a request; of a watch, what comes at once."""
    async with world.exchange(one.method, one.path, one.body, headers=one.headers) as exchange:
        await asyncio.wait({exchange.done}, timeout=STREAM_S)
        if not exchange.done.done() and exchange.status != 200:
            await asyncio.wait({exchange.done}, timeout=PATIENCE_S)
        if exchange.status == 0 and exchange.done.done():
            exchange.done.result()
        headers = {name.decode(): value.decode("latin-1") for name, value in exchange.headers}
        return exchange.status, b"".join(exchange.chunks), headers


def wrong_with(status: int, body: bytes, headers: dict[str, str], *, is_head: bool) -> str:
    """What Kubernetes would not have answered."""
    if not 200 <= status < 500 and status not in OURS and LIKE_KUBERNETES not in body:
        return f"the status is {status}: {body[:300]!r}"
    if b"Traceback" in body:
        return f"a traceback: {body[:300]!r}"
    if status < 400 or is_head or not headers.get("content-type", "").startswith("application/json"):
        return ""
    told = json.loads(body)
    is_status = told.get("kind") == "Status" and told.get("status") == "Failure" and told.get("code") == status
    return "" if is_status and told.get("message") else f"not a Status: {body[:300]!r}"


async def problem_with(world: World, one: Case) -> str:
    """What is wrong with how a request is answered; a slow one is asked again, to be sure."""
    for left in reversed(range(TRIES)):
        begin_s = time.process_time()
        try:
            status, body, headers = await answered(world, one)
        except Exception as problem:  # The point of the test: whatever comes out of the server is a defect.
            return f"{one}: {type(problem).__name__}: {str(problem)[:300]}"
        took_s = time.process_time() - begin_s
        if problem := wrong_with(status, body, headers, is_head=one.method == "HEAD"):
            return f"{one}: {problem}"
        if took_s <= LIMIT_S:
            return ""
        if not left and took_s > LIMIT_S * slow_factor():
            return f"{one}: takes {took_s:.1f} s"
    return ""


async def tidied(world: World) -> None:
    """Delete the definitions: what a client keeps on the server is the client's, not a leak."""
    await world.request("DELETE", DEFINITIONS)


async def problems_of(chunk: int, faults: Faults) -> list[str]:
    world = World(catalog=catalog())
    found = []
    for number in range(chunk, support.proof_count(FULL), CHUNKS):
        one = case(number)
        if problem := await problem_with(world, one):
            found.append(problem)
        if faults.seen:
            found += [f"{one}: {fault}" for fault in faults.seen]
            faults.seen.clear()
        if number % 1_000 == chunk:
            await tidied(world)
    return found


@pytest.mark.prove
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_damaged_requests_are_answered_as_kubernetes_would(chunk):
    faults = Faults()
    logging.getLogger("muster").addHandler(faults)
    try:
        found = asyncio.run(problems_of(chunk, faults))
    finally:
        logging.getLogger("muster").removeHandler(faults)
    assert not found, "\n".join(found[:20])


@pytest.mark.prove
def test_damaged_requests_leave_nothing_behind():
    """Requests that are refused cost no memory; caches have filled by the time it is first measured."""

    async def story() -> tuple[int, int]:
        world = World(catalog=catalog())

        async def refused(numbers: range) -> None:
            for number in numbers:
                one = case(number)
                mark = "&" if "?" in one.path else "?"
                kept = one.method in ("POST", "PUT", "PATCH")
                path = f"{one.path}{mark}dryRun=All" if kept else one.path
                await answered(world, Case(number, one.method, path, one.body, one.headers))

        count = support.proof_count(5_000)
        await refused(range(count))
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            await refused(range(count, 2 * count))
            gc.collect()
            return before, tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    before, after = asyncio.run(story())
    assert after - before <= MEMORY_MOST


def test_requests_are_the_same_each_time_and_differ():
    texts = [str(case(number)) for number in range(200)]
    assert texts == [str(case(number)) for number in range(200)]
    assert len(set(texts)) == len(texts)


if __name__ == "__main__":
    print(case(int(sys.argv[1])))
