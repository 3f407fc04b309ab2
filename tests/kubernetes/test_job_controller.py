"""Muster's Job controller does what Kubernetes' own does, step by step."""

from __future__ import annotations

import pytest

from tests.controllers.builtin.job_stories import STORIES, state, tell
from tests.controllers.builtin.muster_side import MusterSide, recorded
from tests.kubernetes.job_side import RealSide, settled


@pytest.mark.parametrize("name", STORIES)
def test_jobs_go_as_in_kubernetes(plane_with_controllers, name):
    real = RealSide(plane_with_controllers, f"story-{list(STORIES).index(name)}")
    with MusterSide.at_work() as side:
        for step, kept in zip(STORIES[name], recorded()[name], strict=True):
            tell(side, step)
            tell(real, step)
            ours = state(side)
            assert settled(real, ours) == ours, step
            assert kept == ours, f"{step}: what is written down is old, run python -m tests.kubernetes.record"
