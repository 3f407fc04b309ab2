"""A loop waits for something to do or for a time, whichever comes first, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from muster.controllers.news import News
from muster.sim.loop import StillLoop
from muster.store.clock import VirtualClock


class Room:
    """One who waits again and again, with a clock and a loop of his own."""

    def __init__(self) -> None:
        self.loop = StillLoop()
        self.clock = VirtualClock()
        self.news = News(self.clock)

    def begin(self, most_s: float | None) -> Any:
        task = self.loop.create_task(self.news.wait(most_s))
        self.loop.run_ready()
        return task

    def go_on(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.loop.run_ready()


@pytest.fixture
def room():
    made = Room()
    yield made
    made.loop.close()


def test_what_was_told_before_is_not_waited_for(room):
    room.news.set()
    assert room.begin(None).done()


def test_news_ends_the_wait_and_its_timer(room):
    waiting = room.begin(10.0)
    assert not waiting.done()
    room.news.set()
    room.go_on()
    assert waiting.done() and room.clock.next_due_s() is None


def test_time_ends_the_wait(room):
    waiting = room.begin(10.0)
    room.go_on(9.0)
    assert not waiting.done()
    room.go_on(1.0)
    assert waiting.done()


def test_one_who_gives_up_leaves_no_timer(room):
    waiting = room.begin(10.0)
    waiting.cancel()
    room.go_on()
    assert waiting.cancelled() and room.clock.next_due_s() is None


def test_what_was_cleared_is_waited_for_anew(room):
    room.news.set()
    room.news.clear()
    waiting = room.begin(None)
    room.go_on(1_000.0)
    assert not waiting.done()
    room.news.set()
    room.go_on()
    assert waiting.done()
