"""Questions to the quota tree: what is free, who borrows, how far up a request must reach."""

from __future__ import annotations

import pytest

from muster.engine.quota import (
    available,
    fits,
    free_for,
    is_borrowing,
    is_borrowing_any,
    is_borrowing_with,
    lowest_fitting_height,
    potential,
    reserve_left,
)
from muster.model.resources import UNLIMITED
from tests.engine.builders import CPU, FLAVOR, GPUS, cohort, node_of, queue, quota, running, state_of


def tree(*queues, **used):
    """A tree in which each queue named uses that many cards."""
    holding = [running(f"of-{name}", gpus=gpus, queue=name) for name, gpus in used.items()]
    return state_of(*queues, *holding)


def pair(a, b):
    return (queue("a", cohort="x", gpus=a), queue("b", cohort="x", gpus=b))


@pytest.mark.parametrize(
    ("state", "name", "free"),
    [
        pytest.param(tree(queue("a", gpus=8)), "a", 8, id="an idle queue has its share"),
        pytest.param(tree(queue("a", gpus=8), a=3), "a", 5, id="less what it uses"),
        pytest.param(tree(queue("a", gpus=quota(8, borrow=5, lend=0)), a=3), "a", 5, id="limits need a cohort"),
        pytest.param(tree(*pair(6, 4), a=1, b=2), "a", 7, id="in a cohort what all have left"),
        pytest.param(tree(*pair(6, 4), a=1, b=7), "a", 2, id="also when the other borrows of it"),
        pytest.param(tree(*pair(quota(6, lend=2), 4), b=6), "a", 4, id="what it keeps is there for it"),
        pytest.param(tree(*pair(quota(6, lend=2), 4), b=6), "b", 0, id="and not for the other"),
        pytest.param(tree(*pair(quota(6, lend=2), 4), a=5), "b", 5, id="beyond what it keeps it uses the common part"),
        pytest.param(tree(*pair(quota(2, borrow=3), 9), a=1), "a", 4, id="a borrowing limit bounds it"),
        pytest.param(tree(*pair(quota(2, borrow=0), 9), a=1), "a", 1, id="no borrowing at all"),
        pytest.param(tree(*pair(quota(4, borrow=1, lend=1), 9), a=2), "a", 3, id="both limits"),
        pytest.param(tree(*pair(0, 4), b=1), "a", 3, id="only borrowing"),
        pytest.param(tree(*pair(6, 4), a=12), "b", -2, id="below zero where the cohort is over"),
        pytest.param(tree(*pair(quota(6, lend=2), 4), b=8), "a", 2, id="others' excess eats into what it keeps"),
        pytest.param(tree(*pair(6, 4), a=12), "x", -2, id="of a cohort"),
        pytest.param(
            tree(cohort("top", gpus=5), cohort("x", parent="top", gpus=quota(0, borrow=1)), *pair(2, 2), b=2),
            "a",
            3,
            id="a cohort's limit binds those below",
        ),
        pytest.param(
            tree(
                cohort("top"),
                cohort("x", parent="top", gpus=quota(6, lend=2)),
                *pair(0, 0),
                queue("c", cohort="top"),
                c=2,
            ),
            "a",
            4,
            id="what a cohort keeps is there for its queues",
        ),
    ],
)
def test_available(state, name, free):
    node = node_of(state, name)
    assert available(node, GPUS) == free
    assert free_for(node, GPUS) == max(0, free)


def test_unknown_resource_has_nothing():
    assert available(node_of(tree(*pair(6, 4)), "a"), ("nowhere", CPU)) == 0


def test_unlimited_quota_is_never_used_up():
    state = tree(queue("a", gpus=quota(UNLIMITED)), a=10**30)
    assert fits(node_of(state, "a"), {GPUS: 10**30})


def test_potential_does_not_ask_who_uses_what():
    state = tree(*pair(quota(6, borrow=3), 4), b=9)
    assert potential(node_of(state, "a"), GPUS) == 9


@pytest.mark.parametrize(("used", "left"), [(0, 4), (3, 1), (4, 0), (6, 0)])
def test_reserve_is_used_first(used, left):
    state = tree(*pair(quota(6, lend=2), 4), a=used)
    assert reserve_left(node_of(state, "a"), GPUS) == left


@pytest.mark.parametrize(
    ("used", "more", "borrows"),
    [
        pytest.param(0, 6, False, id="all of its share"),
        pytest.param(0, 7, True, id="one more"),
        pytest.param(6, 0, False, id="at its share"),
        pytest.param(7, 0, True, id="above it already"),
    ],
)
def test_borrowing_begins_above_what_a_node_brings(used, more, borrows):
    node = node_of(tree(*pair(6, 4), a=used), "a")
    assert is_borrowing_with(node, GPUS, more) is borrows
    assert is_borrowing_any(node, [(FLAVOR, CPU), GPUS]) is (used > 6)
    assert is_borrowing(node) is (used > 6)


def test_top_of_a_tree_borrows_from_nobody():
    state = tree(queue("a", gpus=2), *pair(1, 1)[1:], a=5, b=3)
    assert not is_borrowing(node_of(state, "a"))
    assert not is_borrowing(node_of(state, "x"))
    assert is_borrowing(node_of(state, "b"))


@pytest.mark.parametrize(
    ("amounts", "does_fit"),
    [
        pytest.param({}, True, id="nothing fits"),
        pytest.param({GPUS: 4, (FLAVOR, CPU): 2}, True, id="all of it"),
        pytest.param({GPUS: 5, (FLAVOR, CPU): 2}, False, id="one too many"),
        pytest.param({GPUS: 0, ("nowhere", CPU): 0}, True, id="nothing of an unknown one"),
        pytest.param({("nowhere", CPU): 1}, False, id="an unknown one"),
    ],
)
def test_fits(amounts, does_fit):
    state = state_of(queue("a", flavors={FLAVOR: {"nvidia.com/gpu": 4, CPU: 2}}))
    assert fits(node_of(state, "a"), amounts) is does_fit


DEEP = (
    cohort("top", gpus=4),
    cohort("x", parent="top", gpus=2),
    queue("a", cohort="x", gpus=3),
    queue("b", cohort="x", gpus=3),
    queue("c", cohort="top", gpus=1),
)


@pytest.mark.parametrize(
    ("state", "amount", "want"),
    [
        pytest.param(tree(queue("a", gpus=3)), 5, (0, False), id="alone there is nothing above"),
        pytest.param(tree(*DEEP), 3, (0, True), id="its own share"),
        pytest.param(tree(*DEEP), 8, (1, True), id="what its cohort brings"),
        pytest.param(tree(*DEEP), 9, (2, False), id="what the whole tree brings"),
        pytest.param(tree(*DEEP), 99, (2, False), id="more than there is"),
        pytest.param(tree(*DEEP, b=6), 3, (0, True), id="its share, though a sibling has it"),
        pytest.param(tree(*DEEP, a=1, b=6), 3, (2, False), id="the cohort is used up"),
        pytest.param(
            tree(cohort("top"), cohort("x", parent="top", gpus=quota(9, lend=1)), *pair(quota(2, lend=1), 0), b=8),
            3,
            (1, True),
            id="what is kept at each level need not come from above",
        ),
    ],
)
def test_lowest_fitting_height(state, amount, want):
    assert lowest_fitting_height(node_of(state, "a"), GPUS, amount) == want
