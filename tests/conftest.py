"""Settings of the whole test suite: Hypothesis profiles, and the helpers of `support` as fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import support

# An ordinary run tries the same examples every time, so that a red test means the change and not the dice. The full
# proof throws new ones, and prints what reproduces a failure. Deadlines only measure how busy the machine is.
settings.register_profile(
    "default", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("full", parent=settings.get_profile("default"), derandomize=False, max_examples=5000)
settings.load_profile("full" if support.is_full_proof() else "default")


@pytest.fixture
def proof_count() -> Callable[[int], int]:
    """How many of a proof's cases to run now, given the full number."""
    return support.proof_count


@pytest.fixture
def shared() -> Callable[[str], Path]:
    """Finds a file of the reference material, or skips the test."""
    return support.shared
