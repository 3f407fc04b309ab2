"""The garbage collector's pace for a process that keeps much and leaves little garbage. Called once at start."""

from __future__ import annotations

import gc

# The state holds tens of thousands of objects that live on, and hardly any that point in a circle. With Python's own
# thresholds a third of the time goes into looking them all over again and again.
THRESHOLDS = (50_000, 20, 100)


def settle_collector() -> None:
    """Collect rarely."""
    gc.set_threshold(*THRESHOLDS)
