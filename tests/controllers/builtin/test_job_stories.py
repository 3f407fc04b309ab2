"""Jobs go through the states that a real cluster was seen to go through."""

from __future__ import annotations

import pytest

from tests.controllers.builtin.job_stories import STORIES, state, tell
from tests.controllers.builtin.muster_side import MusterSide, recorded


@pytest.mark.parametrize("name", STORIES)
def test_a_job_goes_as_in_kubernetes(name):
    with MusterSide.at_work() as side:
        for step, wanted in zip(STORIES[name], recorded()[name], strict=True):
            tell(side, step)
            assert state(side) == wanted, step
