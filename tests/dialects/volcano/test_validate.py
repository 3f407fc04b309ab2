"""Queues that promise more than they have, and trees that are none."""

from __future__ import annotations

import pytest

from muster.dialects.volcano.validate import queue_faults, without_faults
from muster.model.groups import FairQueue


def queues(*given: FairQueue) -> dict[str, FairQueue]:
    return {one.name: one for one in given}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param([FairQueue(name="a", guarantee={"cpu": 1})], {}, id="a guarantee alone"),
        pytest.param(
            [FairQueue(name="a", capability={"cpu": 1000}, deserved={"cpu": 2000})],
            {"a": "is 2, above its capability, 1"},
            id="deserves more than it may use",
        ),
        pytest.param(
            [FairQueue(name="a", guarantee={"cpu": 3000}, deserved={"cpu": 2000})],
            {"a": "is 3, above what it deserves, 2"},
            id="guaranteed more than it deserves",
        ),
        pytest.param([FairQueue(name="a", parent="x")], {"a": "is x, which is not there"}, id="no parent"),
        pytest.param([FairQueue(name="a", parent="root")], {}, id="the root need not be there"),
        pytest.param(
            [FairQueue(name="a", parent="b"), FairQueue(name="b", parent="a")],
            {name: f"is {parent}, and the parents go round in a circle" for name, parent in ("ab", "ba")},
            id="a circle",
        ),
        pytest.param(
            [
                FairQueue(name="a", deserved={"cpu": 3000}),
                FairQueue(name="b", parent="a", deserved={"cpu": 2000}),
                FairQueue(name="c", parent="a", deserved={"cpu": 2000}),
            ],
            {"c": "makes the queues below a have 4, above what a has, 3"},
            id="children are promised more than there is",
        ),
        pytest.param(
            [FairQueue(name="a", capability={"cpu": 1}), FairQueue(name="b", parent="a", capability={"cpu": 2})],
            {"b": "is 2m, above the capability of a, 1m"},
            id="above its parent",
        ),
    ],
)
def test_faults(given, want):
    assert {name: fault.problem for name, fault in queue_faults(queues(*given))} == want


def test_trees_may_be_deep_but_not_endless():
    chain = [FairQueue(name=f"q{index}", parent=f"q{index - 1}" if index else "") for index in range(2000)]
    faults = queue_faults(queues(*chain))
    assert len(faults) == 2000 - 5
    assert set(without_faults(queues(*chain), faults)) == {"q0", "q1", "q2", "q3", "q4"}


def test_what_is_below_a_mistake_is_left_out():
    given = queues(FairQueue(name="a", parent="x"), FairQueue(name="b", parent="a"), FairQueue(name="c"))
    assert set(without_faults(given, queue_faults(given))) == {"c"}
