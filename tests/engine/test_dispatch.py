"""Which clusters a workload is offered to, and in which order."""

from __future__ import annotations

import pytest

from muster.engine.dispatch import ROUND_S, Candidate, Dispatch, Preference, next_round_s, nominated

A, B, C, D = (Candidate(name=name) for name in "abcd")
AWAY = Candidate(name="b", is_reachable=False)
STEP = Dispatch(step=2)


@pytest.mark.parametrize(
    ("candidates", "before", "dispatch", "waited_s", "want"),
    [
        pytest.param((A, B, C), (), Dispatch(), 0, "abc", id="all at once"),
        pytest.param((A, AWAY, C), (), Dispatch(), 0, "ac", id="one that is away is passed over"),
        pytest.param((A, B, C), ("c",), Dispatch(), 0, "cab", id="who was offered it stays"),
        pytest.param((A, AWAY, C), ("b",), Dispatch(), 0, "ac", id="unless it is away"),
        pytest.param((A, B, C, D), (), STEP, 0, "ab", id="a step at first"),
        pytest.param((A, B, C, D), ("a", "b"), STEP, ROUND_S - 1, "ab", id="until the round is over"),
        pytest.param((A, B, C, D), ("a", "b"), STEP, ROUND_S, "abcd", id="then another step"),
        pytest.param((A, AWAY, C, D), ("a", "b"), STEP, 0, "ac", id="another in place of one that is away"),
        pytest.param((A, B), ("a", "b"), STEP, 9 * ROUND_S, "ab", id="until all are asked"),
        pytest.param((), (), Dispatch(), 0, "", id="nobody there"),
    ],
)
def test_nominated(candidates, before, dispatch, waited_s, want):
    assert "".join(nominated(candidates, before, dispatch, waited_s=waited_s)) == want


BIG = Candidate(name="big", fits=8.0, price=3.0, data=frozenset({"x"}))
CHEAP = Candidate(name="cheap", fits=1.0, price=1.0)
NEAR = Candidate(name="near", fits=0.5, data=frozenset({"x", "y"}))


@pytest.mark.parametrize(
    ("preference", "want"),
    [
        (Preference.AS_LISTED, "near"),
        (Preference.FREE_CAPACITY, "big"),
        (Preference.PRICE, "cheap"),
        (Preference.DATA, "near"),
    ],
)
def test_the_best_goes_first(preference, want):
    dispatch = Dispatch(step=1, preference=preference)
    assert nominated((NEAR, CHEAP, BIG), (), dispatch, data=frozenset({"x", "y"})) == (want,)


def test_without_a_wish_for_data_room_decides():
    assert nominated((NEAR, CHEAP, BIG), (), Dispatch(step=1, preference=Preference.DATA)) == ("big",)


def test_next_round():
    assert next_round_s(10.0, Dispatch()) is None
    assert next_round_s(ROUND_S + 10.0, STEP) == ROUND_S - 10.0
