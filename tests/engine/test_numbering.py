"""Numbers for keys: stable while in use, given out again afterwards."""

from __future__ import annotations

import pytest

from muster.engine.numbering import Numbering


def test_numbers():
    numbers: Numbering[str] = Numbering()
    assert [numbers.enter(key) for key in "aba"] == [0, 1, 0]
    numbers.leave(0)
    assert numbers.enter("c") == 2
    numbers.leave(0)
    assert numbers.enter("d") == 0
    assert (numbers.keys, numbers.counts) == (["d", "b", "c"], [1, 1, 1])


def test_nobody_leaves_twice():
    numbers: Numbering[str] = Numbering()
    numbers.leave(numbers.enter("a"))
    with pytest.raises(AssertionError, match="left more often than it came"):
        numbers.leave(0)
