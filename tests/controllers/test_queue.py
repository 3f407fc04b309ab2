"""Keys are worked on one at a time, each as often as it has to be, and later after each failure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.controllers.queue import FIRST_WAIT_S, LONGEST_WAIT_S, KeyQueue
from muster.store.records import Key

A, B = Key("pods", "x", "a"), Key("pods", "x", "b")


def test_a_key_comes_once_however_often_it_was_added():
    queue = KeyQueue()
    for key in (A, B, A):
        queue.add(key)
    assert [queue.take(0), queue.take(0), queue.take(0)] == [A, B, None]


def test_a_key_that_changes_while_it_is_worked_on_comes_again_afterwards():
    queue = KeyQueue()
    queue.add(A)
    assert queue.take(0) == A
    queue.add(A)
    assert queue.take(0) is None and not queue.is_idle
    queue.done(A)
    assert queue.take(0) == A
    queue.done(A)
    assert queue.take(0) is None and queue.is_idle


def test_later_keys_come_when_it_is_time_and_the_earliest_time_counts():
    queue = KeyQueue()
    queue.add_later(A, 9.0)
    queue.add_later(A, 5.0)
    queue.add_later(A, 7.0)
    queue.add_later(B, 6.0)
    assert queue.next_due_s() == 5.0
    assert queue.take(4.9) is None
    assert [queue.take(6.0), queue.take(6.0)] == [A, B]
    queue.done(A)
    assert queue.next_due_s() is None and queue.take(10.0) is None


def test_failures_wait_twice_as_long_each_time_up_to_a_limit():
    queue = KeyQueue()
    queue.add(A)
    waits = []
    now_s = 0.0
    for _ in range(30):
        assert queue.take(now_s) == A
        waits.append(queue.failed(A, now_s))
        assert queue.take(now_s) is None
        now_s += waits[-1]
    assert waits[:3] == [FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S]
    assert waits[-1] == LONGEST_WAIT_S
    assert queue.take(now_s) == A
    queue.done(A)
    queue.add(A)
    queue.take(now_s)
    assert queue.failed(A, now_s) == FIRST_WAIT_S, "what has gone well starts from the beginning"


@given(st.lists(st.tuples(st.sampled_from(["add", "later", "take", "done", "failed"]), st.integers(0, 3))))
def test_nothing_is_lost_and_nothing_is_worked_on_twice_at_once(steps):
    queue = KeyQueue()
    wanted: set[Key] = set()  # added, and not begun since
    running: set[Key] = set()
    for now, (what, number) in enumerate(steps):
        key = Key("pods", "x", str(number))
        if what == "add":
            queue.add(key)
            wanted.add(key)
        elif what == "later":
            queue.add_later(key, now + number)
            wanted.add(key)
        elif what == "take":
            taken = queue.take(float(now))
            assert taken not in running
            if taken is not None:
                running.add(taken)
                wanted.discard(taken)
        elif key in running:
            running.discard(key)
            if what == "done":
                queue.done(key)
            else:
                queue.failed(key, float(now))
                wanted.add(key)
    for key in running:
        queue.done(key)
    left = set()
    while (taken := queue.take(1e9)) is not None:
        left.add(taken)
    assert left >= wanted
