"""priority: who goes first, who is short of pods, and who may leave."""

from __future__ import annotations

import pytest

from muster.engine.standing import PodStanding, Standing
from muster.policies.priority import POLICY
from tests import groups
from tests.groups import pod_of

HOOKS = POLICY.hooks()


def standing(name: str, priority: int = 0, *, count: int = 2, ready: int = 0, promised: int = 0) -> Standing:
    return groups.standing(name, priority, least=1, count=count, ready=ready, promised=promised)


def pod(name: str, owner: Standing, priority: int = 0) -> PodStanding:
    return pod_of(owner, name, priority)


@pytest.mark.parametrize(("first", "second", "sign"), [(5, 1, -1), (1, 5, 1), (3, 3, 0)])
def test_the_higher_goes_first(first, second, sign):
    by_workload = HOOKS.compare_workloads(standing("a", first), standing("b", second))
    by_pod = HOOKS.compare_pods(pod("a", standing("x"), first), pod("b", standing("x"), second))
    assert [(value > 0) - (value < 0) for value in (by_workload, by_pod)] == [sign, sign]


@pytest.mark.parametrize(
    ("ready", "promised", "want"),
    [
        pytest.param(0, 0, True, id="no pods"),
        pytest.param(1, 0, True, id="its minimum is not all"),
        pytest.param(1, 1, False, id="promised places count"),
        pytest.param(2, 0, False, id="all"),
    ],
)
def test_starving(ready, promised, want):
    assert HOOKS.starving(standing("a", ready=ready, promised=promised)) is want


def test_lower_ones_may_leave():
    own, lower, equal = standing("own", 5), standing("lower", 4), standing("equal", 5)
    candidates = [pod("a", lower, 9), pod("b", equal, 0), pod("c", own, 6), pod("d", own, 7), pod("e", own, 8)]
    assert HOOKS.preempt(pod("new", own, 7), candidates) == {"a", "c"}


def test_what_it_has_no_opinion_on():
    assert HOOKS.reclaim is HOOKS.score is HOOKS.fit is HOOKS.enqueueable is None
