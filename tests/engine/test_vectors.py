"""Amounts of several resources: what is within what, and what is left."""

from __future__ import annotations

import pytest

from muster.engine.vectors import (
    INFINITE,
    add,
    dominant_share,
    exceeds_somewhere,
    is_nothing,
    is_within,
    least_of,
    minus,
    most_of,
    share,
)


@pytest.mark.parametrize(
    ("used", "limit", "absent", "want"),
    [
        ({"cpu": 1000}, {"cpu": 1000}, 0, True),
        ({"cpu": 1000.05}, {"cpu": 1000}, 0, True),
        ({"cpu": 1001}, {"cpu": 1000}, 0, False),
        ({"gpu": 1}, {}, 0, False),
        ({"gpu": 1}, {}, INFINITE, True),
        ({}, {}, 0, True),
    ],
)
def test_within(used, limit, absent, want):
    assert is_within(used, limit, absent=absent) is want


def test_only_what_is_named_counts():
    assert is_within({"cpu": 9, "gpu": 1}, {"gpu": 1}, ["gpu"])
    assert not exceeds_somewhere({"cpu": 9}, {"gpu": 1}, ["cpu", "gpu"])
    assert exceeds_somewhere({"cpu": 9}, {"cpu": 1}, ["cpu", "gpu"])


def test_sums_that_come_to_nothing_are_empty():
    total = {"cpu": 1.0}
    add(total, {"cpu": 1}, -1)
    assert total == {}


def test_the_rest():
    assert minus({"cpu": 3, "gpu": 1}, {"cpu": 1, "gpu": 2}) == {"cpu": 2}
    assert least_of({"cpu": 3, "gpu": 1}, {"cpu": 2}) == {"cpu": 2, "gpu": 1}
    assert most_of({"cpu": 3}, {"cpu": 2, "gpu": 1}) == {"cpu": 3, "gpu": 1}
    assert is_nothing({"pods": 1, "cpu": 0.01})
    assert dominant_share({"cpu": 1, "gpu": 3}, {"cpu": 2, "gpu": 4}) == 0.75
    assert (share(0, 0), share(1, 0), share(1, 4)) == (0, 1, 0.25)
