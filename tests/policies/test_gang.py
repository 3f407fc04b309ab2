"""gang: minimums come first and are not broken."""

from __future__ import annotations

import pytest

from muster.policies.gang import POLICY
from tests.groups import pod_of, standing

HOOKS = POLICY.hooks()


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param(1, 2, -1, id="below the minimum goes first"),
        pytest.param(3, 0, 1, id="above it goes last"),
        pytest.param(0, 1, 0, id="both below"),
        pytest.param(2, 4, 0, id="both there"),
    ],
)
def test_order(first, second, want):
    assert HOOKS.compare_workloads(standing("a", ready=first), standing("b", ready=second)) == want


@pytest.mark.parametrize(
    ("ready", "promised", "want"),
    [
        pytest.param(1, 0, True, id="below"),
        pytest.param(1, 1, False, id="promised places count"),
        pytest.param(2, 0, False, id="growth is no need"),
    ],
)
def test_starving(ready, promised, want):
    assert HOOKS.starving(standing("a", ready=ready, promised=promised)) is want


@pytest.mark.parametrize("hook", [HOOKS.preempt, HOOKS.reclaim], ids=["preempt", "reclaim"])
@pytest.mark.parametrize(
    ("ready", "least", "want"),
    [
        pytest.param(2, 2, set(), id="at its minimum"),
        pytest.param(3, 2, {"ns/a-0"}, id="one to spare: the first candidate"),
        pytest.param(4, 1, {"ns/a-0", "ns/a-1", "ns/a-2"}, id="counted down as they go"),
        pytest.param(2, 0, {"ns/a-0", "ns/a-1"}, id="without a minimum: all that run"),
    ],
)
def test_only_spare_pods_leave(hook, ready, least, want):
    owner = standing("a", least=least, ready=ready)
    candidates = [pod_of(owner, f"ns/a-{index}") for index in range(4)]
    assert hook(pod_of(standing("b"), "ns/new"), candidates) == want


def test_workloads_are_counted_apart():
    one, two = standing("one", ready=3), standing("two", ready=3)
    candidates = [pod_of(owner, f"{index}") for index, owner in enumerate((one, two, one, two))]
    assert HOOKS.preempt(pod_of(standing("b"), "new"), candidates) == {"0", "1"}
