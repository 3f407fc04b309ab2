"""Clocks: the virtual one wakes its sleepers in order, the real one moves."""

from __future__ import annotations

import asyncio

import pytest

from muster.store.clock import RealClock, VirtualClock


def test_sleepers_wake_in_order_and_in_time():
    async def main():
        clock = VirtualClock(100.0)
        woken = []

        async def sleeper(name, seconds):
            await clock.sleep(seconds)
            woken.append((name, clock.now_s()))

        tasks = [asyncio.create_task(sleeper(*one)) for one in (("late", 10), ("early", 5), ("also late", 10))]
        await asyncio.sleep(0)
        assert clock.next_due_s() == 5
        clock.advance(4.5)
        await asyncio.sleep(0)
        assert woken == [] and clock.monotonic_s() == 4.5
        clock.advance(0.5)
        await asyncio.sleep(0)
        assert woken == [("early", 105.0)]
        tasks[0].cancel()
        await asyncio.sleep(0)
        clock.advance(100)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [name for name, _ in woken] == ["early", "also late"]
        assert clock.next_due_s() is None and clock.now_s() == 205

    asyncio.run(main())


def test_time_does_not_go_back():
    with pytest.raises(AssertionError, match="does not go back"):
        VirtualClock().advance(-1)


def test_the_real_clock_moves():
    clock = RealClock()
    before = clock.monotonic_s()
    asyncio.run(clock.sleep(0))
    assert clock.monotonic_s() >= before and clock.now_s() > 1_700_000_000
