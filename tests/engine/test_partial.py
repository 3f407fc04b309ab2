"""Partial admission: the largest part that works, all pod sets shrinking in proportion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.partial import largest_that_works
from muster.model.settings import Settings
from tests.engine.builders import ANY, counts, pod_set, preempts, queue, reserved, running, workload
from tests.engine.builders import plan_of as plan


def sets(*ranges):
    return [pod_set(f"s{index}", count=count, least=least) for index, (count, least) in enumerate(ranges)]


def at_most(total):
    """An attempt that works when no more than that many pods are asked for; it answers with the counts."""
    return lambda asked: tuple(asked) if sum(asked) <= total else None


@pytest.mark.parametrize(
    ("ranges", "room", "want"),
    [
        pytest.param([(10, 2)], 10, (10,), id="all of it"),
        pytest.param([(10, 2)], 7, (7,), id="as many as there is room for"),
        pytest.param([(10, 2)], 2, (2,), id="the least"),
        pytest.param([(10, 2)], 1, None, id="less than the least"),
        pytest.param([(10, 10)], 9, None, id="it may not shrink"),
        pytest.param([(10, 2), (4, 4)], 9, (5, 4), id="one set shrinks, the other stays"),
        pytest.param([(10, 2), (5, 1)], 9, (6, 3), id="both shrink in proportion"),
        pytest.param([(10, 0)], 0, (0,), id="down to nothing"),
    ],
)
def test_largest_that_works(ranges, room, want):
    assert largest_that_works(sets(*ranges), at_most(room)) == want


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: (max(pair), min(pair))),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 60),
)
def test_no_larger_part_would_work(ranges, room):
    found = largest_that_works(sets(*ranges), at_most(room))
    deltas = [count - least for count, least in ranges]
    total = sum(deltas)
    parts = [
        tuple(count - delta * step // total for (count, _), delta in zip(ranges, deltas, strict=True))
        for step in range(total + 1 if total else 0)
    ]
    assert found == next((part for part in parts if sum(part) <= room), None)


def test_few_attempts_are_enough():
    asked = []
    largest_that_works(sets((1_000_000, 1)), lambda c: asked.append(c) or at_most(77)(c))
    assert len(asked) <= 21


# In a cycle ------------------------------------------------------------------------------------------------------

SIX = queue("team-a", gpus=6)


def train(pods=9, least=2, **fields):
    return workload("train", pods=pods, least=least, **fields)


def test_starts_with_the_pods_there_is_quota_for():
    assert counts(plan(SIX, train())) == {"train": (6,)}


def test_starts_whole_where_it_can():
    assert counts(plan(SIX, train(pods=6))) == {"train": (6,)}


def test_waits_where_even_the_least_is_too_much():
    assert counts(plan(SIX, train(least=7))) == {}


def test_waits_whole_where_the_setting_is_off():
    assert counts(plan(SIX, train(), settings=Settings(partial_admission=False))) == {}


def test_takes_a_smaller_flavor_rather_than_shrinking():
    two = queue("team-a", flavors={"small": 4, "large": 9})
    answer = plan(two, train())
    assert (counts(answer), reserved(answer)) == ({"train": (9,)}, {"train": "large"})


def test_preempts_whole_rather_than_shrinking():
    mine = queue("team-a", cohort="x", gpus=9, preemption=preempts(reclaim=ANY))
    answer = plan(mine, queue("b", cohort="x"), running("theirs", gpus=3, queue="b"), train())
    assert counts(answer) == {}
    assert [decision.workload for decision in answer.evictions] == ["default/theirs"]


def test_elastic_slice_is_never_smaller_than_asked():
    state = [SIX, running("older", gpus=4), workload("train", pods=9, least=5, replaces="default/older")]
    assert counts(plan(*state)) == {}
