"""Who may be on the way to a node: HAMi's lock, Muster's list, their ends and their texts."""

from __future__ import annotations

import pytest

from muster.dialects.hami.node_lock import (
    AGENT,
    BINDERS,
    BY_COUNT,
    BY_UID,
    EXPIRY_S,
    LOCK,
    MOST_BINDERS,
    Binder,
    Binders,
    Busy,
    Taken,
    binders_text,
    holders,
    lock_text,
    read_binders,
    read_lock,
    released,
    take,
)


def binder(name="a", *, asks=(("GPU-0",),), fence=0, since_s=1_000):
    return Binder(namespace="ns", name=name, uid=f"uid-{name}", fence=fence, since_s=since_s, asks=asks)


def with_binders(mode, *binders, fence=5):
    return {AGENT: mode, BINDERS: binders_text(Binders(fence=fence, binders=binders))}


MANY = with_binders(BY_UID, *(binder(f"b{n}") for n in range(MOST_BINDERS)))
ON_THE_WAY = lock_text(binder("b"))


@pytest.mark.parametrize(
    ("annotations", "now_s", "gone", "is_taken"),
    [
        pytest.param({}, 1_000, (), True, id="free"),
        pytest.param({LOCK: ON_THE_WAY}, 1_001, (), False, id="another is on its way"),
        pytest.param({LOCK: ON_THE_WAY}, 1_001, ("ns/b",), True, id="it is gone"),
        pytest.param({LOCK: ON_THE_WAY}, 1_000 + EXPIRY_S + 1, (), True, id="its time is over"),
        pytest.param({LOCK: lock_text(binder("a"))}, 1_001, (), True, id="the same once more"),
        pytest.param({LOCK: "1970-01-01T00:16:40Z"}, 1_001, (), False, id="an older form that names nobody"),
        pytest.param({LOCK: "whatever"}, 1_001, (), True, id="nobody can read it"),
        pytest.param(with_binders(BY_UID, binder("b", asks=(("GPU-1",),))), 1_001, (), True, id="by uid"),
        pytest.param(with_binders(BY_COUNT, binder("b", asks=(("GPU-1",),))), 1_001, (), False, id="other cards"),
        pytest.param(with_binders(BY_COUNT, binder("b")), 1_001, (), True, id="the same cards"),
        pytest.param(
            with_binders(BY_COUNT, binder("b", asks=(("GPU-0", "GPU-1"),))), 1_001, (), True, id="another number"
        ),
        pytest.param(
            with_binders(BY_UID, *(binder(f"b{n}") for n in range(MOST_BINDERS))), 1_001, (), False, id="many"
        ),
    ],
)
def test_who_may_come(annotations, now_s, gone, is_taken):
    taken = take(annotations, binder(), now_s=now_s, gone=gone)
    assert isinstance(taken, Taken if is_taken else Busy)


def test_numbers_only_grow_and_whoever_is_over_leaves_the_list():
    before = with_binders(BY_UID, binder("old", since_s=0, fence=4), binder("b", fence=5))
    taken = take(before, binder(), now_s=EXPIRY_S + 500)
    assert isinstance(taken, Taken) and taken.fence == 6
    assert [(one.name, one.fence) for one in read_binders(taken.annotations[BINDERS]).binders] == [("b", 5), ("a", 6)]
    after = released({**before, **taken.annotations}, binder("b"))
    left = read_binders(after[BINDERS])
    assert (left.fence, [one.name for one in left.binders]) == (6, ["a"])
    assert released(before, binder("nobody")) == {}
    assert released({LOCK: lock_text(binder())}, binder()) == {LOCK: None}


def test_texts_there_and_back():
    known = Binders(fence=7, binders=(binder(fence=7, asks=(("GPU-0", "GPU-1"), ("GPU-2",))),))
    assert read_binders(binders_text(known)) == known
    lock = read_lock(lock_text(binder()))
    assert (lock.namespace, lock.name, lock.since_s) == ("ns", "a", 1_000)
    assert [one.name for one in holders({LOCK: ON_THE_WAY, BINDERS: binders_text(known)})] == ["a", "b"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fence":-1}', '{"binders":[7]}', '{"binders":7}', "[" * 100_000])
def test_a_list_that_nobody_can_read_holds_nobody(text):
    assert read_binders(text) == Binders()
