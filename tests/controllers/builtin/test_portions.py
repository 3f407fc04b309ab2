"""Numbers and percentages of a total."""

from __future__ import annotations

import pytest

from muster.controllers.builtin.portions import share


@pytest.mark.parametrize(
    ("given", "total", "up", "down"),
    [(None, 10, 0, 0), (3, 10, 3, 3), ("25%", 10, 3, 2), ("0%", 10, 0, 0), ("100%", 7, 7, 7), ("150%", 3, 5, 4)],
)
def test_share(given, total, up, down):
    assert share(given, total, is_rounded_up=True) == up
    assert share(given, total, is_rounded_up=False) == down
