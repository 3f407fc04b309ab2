"""gang: minimums come first and are not broken."""

from __future__ import annotations

import pytest

from muster.engine.policy import PodStanding, Standing
from muster.model.podspec import PodShape
from muster.model.workload import PodSet, Workload
from muster.policies.gang import POLICY

HOOKS = POLICY.hooks()


def standing(name: str, *, least: int = 2, ready: int = 0, promised: int = 0) -> Standing:
    sets = (PodSet(name="main", count=4, count_least=least, requests={}, shape=PodShape()),)
    workload = Workload(key=f"ns/{name}", uid=name, namespace="ns", pod_sets=sets)
    return Standing(workload=workload, ready=ready, promised=promised)


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
    candidates = [PodStanding(key=f"ns/a-{index}", owner=owner) for index in range(4)]
    assert hook(PodStanding(key="ns/new", owner=standing("b")), candidates) == want


def test_workloads_are_counted_apart():
    one, two = standing("one", ready=3), standing("two", ready=3)
    candidates = [PodStanding(key=f"{index}", owner=owner) for index, owner in enumerate((one, two, one, two))]
    assert HOOKS.preempt(PodStanding(key="new", owner=standing("b")), candidates) == {"0", "1"}
