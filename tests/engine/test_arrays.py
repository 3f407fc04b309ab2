"""Arrays grow at the end of each axis and keep what they have."""

from __future__ import annotations

import numpy as np
import pytest

from muster.engine.arrays import grown


@pytest.mark.parametrize(
    ("array", "more", "fill", "want"),
    [
        pytest.param([1, 2], (2,), 0, [1, 2, 0, 0], id="a row"),
        pytest.param([[1], [2]], (1, 1), -1, [[1, -1], [2, -1], [-1, -1]], id="both axes, with another value"),
        pytest.param([True], (1,), 0, [True, False], id="truth stays truth"),
        pytest.param([3], (0,), 0, [3], id="nothing more"),
    ],
)
def test_what_was_there_stays(array, more, fill, want):
    before = np.array(array)
    after = grown(before, *more, fill=fill)
    assert after.tolist() == want and after.dtype == before.dtype


def test_every_axis_is_named():
    with pytest.raises(AssertionError, match="1 lengths for 2 axes"):
        grown(np.zeros((1, 1)), 1)
