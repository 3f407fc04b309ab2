"""Sets of indexes are what a set of numbers is, and are written as Kubernetes writes them."""

from __future__ import annotations

from random import Random

import pytest

from muster.controllers.builtin.job_indexes import Indexes, parse_indexes
from tests.stopwatch import is_done_within
from tests.support import assert_sound


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([1, 0], "0,1"),
        ([0, 1, 2], "0-2"),
        ([1, 3, 4, 5, 7], "1,3-5,7"),
        ([3, 4, 9, 10, 11], "3,4,9-11"),
    ],
)
def test_the_text_of_a_set(numbers, text):
    assert Indexes().plus(numbers).text == text
    assert parse_indexes(text, 100) == Indexes().plus(numbers)


@pytest.mark.parametrize(
    ("text", "below", "wanted"),
    [
        pytest.param("0-9", 5, "0-4", id="what the job no longer has is left out"),
        pytest.param("7", 5, "", id="nothing is left"),
        pytest.param("x,1,-,3-2,4", 9, "1,4", id="what is no number is left out"),
        pytest.param("99999999999999999999", 9, "", id="a number too large"),
        pytest.param("2,1,1-3", 9, "1-3", id="in any order"),
    ],
)
def test_reading_a_set(text, below, wanted):
    assert parse_indexes(text, below).text == wanted


def check_against_numbers(chance: Random) -> None:
    mine, theirs = ({chance.randrange(20) for _ in range(chance.randrange(15))} for _ in range(2))
    one, other = Indexes().plus(mine), Indexes().plus(theirs)
    assert one.total == len(mine)
    assert [index for index in range(25) if index in one] == sorted(mine)
    assert list(one.missing(22)) == sorted(set(range(22)) - mine)
    assert one.merged(other) == Indexes().plus(mine | theirs)
    assert one.common(other) == len(mine & theirs)
    assert parse_indexes(one.text, 100) == one


def test_a_set_is_what_numbers_are():
    assert_sound(check_against_numbers, range(200))


def test_a_set_of_billions_costs_nothing():
    assert is_done_within(0.5, lambda: parse_indexes("0-1000000000,1000000002", 2_000_000_000).plus([5]).total)
