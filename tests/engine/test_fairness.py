"""Fair shares: how much of what could be lent a node has borrowed, as numbers and as an order."""

from __future__ import annotations

from math import inf

import pytest

from muster.engine.fairness import NO_SHARE, Share, flavored, lendable, share_of
from muster.model.fields import INT64_MAX
from muster.model.queue import Quota
from tests.engine.builders import CPU, FLAVOR, GPU, cohort, node_of, pod_set, queue, quota, running, state_of
from tests.engine.fair_builders import TOP, share_with, share_without, shares, team

BORROWS = {"is_borrowing": True}

# Shares as values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "value", "shown"),
    [
        pytest.param(NO_SHARE, 0.0, 0, id="nothing borrowed"),
        pytest.param(Share(250.0, 1.0, **BORROWS), 250.0, 250, id="per thousand"),
        pytest.param(Share(250.0, 2.0, **BORROWS), 125.0, 125, id="twice the weight, half the share"),
        pytest.param(Share(250.0, 0.5, **BORROWS), 500.0, 500, id="half the weight, twice the share"),
        pytest.param(Share(100.0, 3.0, **BORROWS), 100 / 3, 34, id="shown rounded up"),
        pytest.param(Share(1.0, 1e7, **BORROWS), 1e-7, 1, id="very little is shown as one"),
        pytest.param(Share(0.0, 0.0), 0.0, 0, id="no weight, nothing borrowed"),
        pytest.param(Share(1.0, 0.0, **BORROWS), inf, INT64_MAX, id="no weight and borrowing"),
        pytest.param(Share(0.0, 0.0, **BORROWS), inf, INT64_MAX, id="even of what nobody could lend"),
    ],
)
def test_share_as_a_number(share, value, shown):
    assert (share.value, share.shown) == (value, shown)
    assert share.is_endless is (value == inf)


IN_ORDER = [
    pytest.param(NO_SHARE, Share(1.0, 1.0, **BORROWS), id="who borrows has more"),
    pytest.param(Share(300.0, 4.0, **BORROWS), Share(100.0, 1.0, **BORROWS), id="weights count"),
    pytest.param(Share(9e9, 1.0, **BORROWS), Share(1.0, 0.0, **BORROWS), id="no weight is above any weight"),
    pytest.param(Share(1.0, 0.0, **BORROWS), Share(2.0, 0.0, **BORROWS), id="two without weight, by what they have"),
    pytest.param(Share(5.0, 0.0), Share(1.0, 1.0, **BORROWS), id="no weight and not borrowing has nothing"),
]


@pytest.mark.parametrize(("less", "more"), IN_ORDER)
def test_shares_are_ordered(less, more):
    assert less < more
    assert more > less
    assert less <= more
    assert not more <= less
    assert less != more


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(Share(100.0, 1.0, **BORROWS), Share(200.0, 2.0, **BORROWS), id="as much by weight"),
        pytest.param(Share(0.0, 0.0), NO_SHARE, id="nothing is nothing"),
        pytest.param(Share(7.0, 1.0, resource=GPU), Share(7.0, 1.0, resource=CPU), id="of whatever resource"),
    ],
)
def test_equal_shares_are_one(one, other):
    assert one == other
    assert one <= other
    assert len({one, other}) == 1


def test_share_is_no_number():
    assert Share(1.0) != 1.0


# Shares in a tree ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "used", "want"),
    [
        pytest.param(team("a", 4), 3, 0.0, id="within its own"),
        pytest.param(team("a", 4), 4, 0.0, id="all of its own"),
        pytest.param(team("a", 4), 5, 100.0, id="one of ten"),
        pytest.param(team("a", 0), 3, 500.0, id="three of six"),
        pytest.param(team("a", 4, weight=2), 5, 50.0, id="by weight"),
        pytest.param(team("a", 4, weight=0), 5, inf, id="without weight"),
        pytest.param(team("a", 4, weight=0), 4, 0.0, id="without weight, within its own"),
        pytest.param(team("a", quota(4, lend=0)), 6, 2000 / 6, id="two of six: its own is not to be lent"),
    ],
)
def test_share_of_a_queue(mine, used, want):
    state = state_of(cohort(TOP, gpus=6), mine, running("r", gpus=used, queue="a"))
    assert share_of(node_of(state, "a")).value == pytest.approx(want)


def test_top_of_a_tree_has_no_share():
    state = state_of(team("alone", 1, cohort=None), running("r", gpus=5, queue="alone"))
    assert share_of(node_of(state, "alone")) is NO_SHARE
    assert shares(state) == {}


@pytest.mark.parametrize(
    ("used", "want"),
    [
        pytest.param({GPU: 2, CPU: 10}, (200.0, GPU), id="most of the cards"),
        pytest.param({GPU: 2, CPU: 30}, (300.0, CPU), id="most of the cpu"),
        pytest.param({GPU: 3, CPU: 30}, (300.0, CPU), id="as much of both: the first by name"),
        pytest.param({GPU: 0, CPU: 0}, (0.0, ""), id="of nothing"),
        pytest.param({GPU: 3, "fpga": 2}, (300.0, GPU), id="what nobody could lend does not count"),
    ],
)
def test_resource_that_is_borrowed_most_counts(used, want):
    state = state_of(
        cohort(TOP, flavors={FLAVOR: {GPU: 10, CPU: 100}}),
        queue("a", cohort=TOP, flavors={FLAVOR: {GPU: 0, CPU: 0}}),
        running("r", queue="a", pod_sets=(pod_set(requests=used),)),
    )
    share = share_of(node_of(state, "a"))
    assert (share.ratio, share.resource) == want


def test_borrower_of_what_nobody_could_lend_is_a_borrower():
    """Its quota was lowered under it."""
    state = state_of(cohort(TOP), team("a"), running("r", gpus=3, queue="a"))
    share = share_of(node_of(state, "a"))
    assert (share.value, share.is_borrowing) == (0.0, True)


def test_flavors_of_a_resource_count_together():
    """What is within the quota of one flavor does not make up for what is borrowed of another."""
    state = state_of(
        cohort(TOP, flavors={"red": 6, "green": 4}),
        queue("a", cohort=TOP, flavors={"red": 0, "green": 0}),
        running("on-red", gpus=2, queue="a", flavor="red"),
        running("on-green", gpus=1, queue="a", flavor="green"),
    )
    assert share_of(node_of(state, "a")).value == 300.0


def test_cohort_in_a_cohort_borrows_too():
    state = state_of(
        cohort(TOP, gpus=6),
        cohort("inner", parent=TOP, gpus=2, weight=2),
        team("a", 1, cohort="inner"),
        team("b", 1, cohort="inner"),
        running("r", gpus=5, queue="a"),
    )
    assert shares(state) == {"inner": 1 * 1000 / 10 / 2, "a": 4 * 1000 / 10, "b": 0.0}


def test_share_with_more_and_with_less_leaves_no_trace():
    state = state_of(cohort(TOP, gpus=8), team("a", 2), running("r", gpus=4, queue="a"))
    node = node_of(state, "a")
    now = share_of(node)
    more, less = ({(FLAVOR, GPU): amount} for amount in (1, 9))
    assert share_with(state, node, node, more).value == 300.0
    assert share_without(state, node, node, less).value == 0.0
    assert share_of(node) == now


# What could be lent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("top", "other", "want"),
    [
        pytest.param(Quota(5), quota(3), 8, id="the cohort's and its queues'"),
        pytest.param(Quota(5), quota(3, lend=1), 6, id="what a queue keeps is not there to be lent"),
        pytest.param(Quota(0), quota(0), 0, id="nothing"),
    ],
)
def test_lendable(top, other, want):
    state = state_of(cohort(TOP, gpus=top), team("a"), team("b", other))
    assert lendable(node_of(state, TOP), GPU) == want


def test_lendable_counts_all_flavors_of_the_tree():
    state = state_of(
        cohort(TOP, flavors={"red": 1}),
        queue("a", cohort=TOP, flavors={"green": {GPU: 2, CPU: 7}}),
    )
    top = node_of(state, TOP)
    assert set(flavored(top, GPU)) == {("red", GPU), ("green", GPU)}
    assert (lendable(top, GPU), lendable(top, CPU), lendable(top, "fpga")) == (3, 7, 0)


def test_lendable_to_an_inner_cohort_ends_at_its_limit():
    state = state_of(
        cohort(TOP, gpus=9),
        cohort("inner", parent=TOP, gpus=quota(1, borrow=2)),
        team("a", cohort="inner"),
    )
    assert (lendable(node_of(state, TOP), GPU), lendable(node_of(state, "inner"), GPU)) == (10, 3)
