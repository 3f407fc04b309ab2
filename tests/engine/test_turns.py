"""Turns: whose head is tried next in a tree whose branches take turns, and that one is given to at a time."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.turns import in_turn, part_of_due
from muster.model.queue import Turns
from tests.engine.builders import cohort, node_of, queue, reserved, run_cycles, running, state_of, workload


def leaf(name: str, *, gpus: int = 0, parent: str = "top", number: int = 0, **turns: Any) -> Any:
    return queue(name, gpus=gpus, cohort=parent, turns=Turns(number=number, **turns))


def inner(name: str, *, gpus: int = 0, parent: str | None = None, number: int = 0, **turns: Any) -> Any:
    return cohort(name, gpus=gpus, parent=parent, turns=Turns(number=number, **turns))


def order_of(*parts: Any) -> list[str]:
    state = state_of(*parts)
    return [node.name for node, _ in in_turn(state.heads())]


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param(
            [leaf("a", number=1), leaf("b", number=0)], ["b", "a"], id="of those that use nothing the first written"
        ),
        pytest.param(
            [leaf("a", gpus=4, number=0), leaf("b", gpus=4, number=1), running("r", queue="a", gpus=1)],
            ["b", "a"],
            id="who has less of its share",
        ),
        pytest.param(
            [
                leaf("a", gpus=2, number=0),
                leaf("b", gpus=8, number=1),
                running("r", queue="a", gpus=1),
                running("s", queue="b", gpus=3),
            ],
            ["b", "a"],
            id="a part, not an amount",
        ),
        pytest.param(
            [
                leaf("a", number=0),
                leaf("b", gpus=1, number=1),
                running("r", queue="a", gpus=4),
                running("s", queue="b", gpus=1),
            ],
            ["a", "b"],
            id="without a share, of the most that it could get",
        ),
    ],
)
def test_shares(parts: list[Any], want: list[str]) -> None:
    waiting = [workload(f"w-{name}", queue=name) for name in ("a", "b")]
    assert order_of(inner("top", gpus=10), *parts, *waiting) == want


@pytest.mark.parametrize(
    ("of_a", "of_b", "of_top", "want"),
    [
        pytest.param({}, {}, {}, ["b", "a"], id="the more important workload"),
        pytest.param({"priority_offset": 10}, {}, {}, ["a", "b"], id="a queue adds to what is in it"),
        pytest.param({}, {"priority_offset": -10}, {}, ["a", "b"], id="or takes away"),
        pytest.param({}, {"is_priority_fence": True, "priority_offset": -5}, {}, ["a", "b"], id="a fence hides it"),
        pytest.param({}, {}, {"by_priority": False}, ["a", "b"], id="where priorities do not count"),
    ],
)
def test_priorities(of_a: dict[str, Any], of_b: dict[str, Any], of_top: dict[str, Any], want: list[str]) -> None:
    parts = [inner("top", gpus=10, **of_top), leaf("a", number=0, **of_a), leaf("b", number=1, **of_b)]
    assert order_of(*parts, workload("w", queue="a"), workload("x", queue="b", priority=5)) == want


def test_each_branching_has_its_turns() -> None:
    parts = [
        inner("top", gpus=20),
        inner("left", gpus=10, parent="top", number=0),
        inner("right", gpus=10, parent="top", number=1),
        *(leaf(name, gpus=5, parent="left", number=number) for number, name in enumerate("ab")),
        *(leaf(name, gpus=5, parent="right", number=number) for number, name in enumerate("cd")),
        *(workload(f"w-{name}", queue=name) for name in "abcd"),
        running("r", queue="a", gpus=3),
        running("s", queue="d", gpus=1),
    ]
    assert order_of(*parts) == ["c", "d", "b", "a"]


def test_one_is_given_to_at_a_time_and_then_turns_change() -> None:
    state = state_of(
        inner("top"),
        leaf("a", gpus=2, number=0),
        leaf("b", gpus=2, number=1),
        *(workload(f"a{number}", queue="a", queued_at=float(number)) for number in range(3)),
        *(workload(f"b{number}", queue="b", queued_at=float(number)) for number in range(3)),
    )
    plans = run_cycles(state, 5)
    assert [list(reserved(plan)) for plan in plans] == [["a0"], ["b0"], ["a1"], ["b1"], []]


def test_one_that_does_not_fit_does_not_keep_the_others_from_their_turn() -> None:
    state = state_of(
        inner("top"),
        leaf("a", gpus=1, number=0),
        leaf("b", gpus=1, number=1),
        workload("large", queue="a", gpus=9),
        workload("small", queue="b"),
    )
    assert list(reserved(run_cycles(state, 1)[0])) == ["small"]


def test_part_of_what_is_due() -> None:
    state = state_of(inner("top", gpus=10), leaf("a", gpus=4), leaf("b"), running("r", queue="a"))
    assert part_of_due(node_of(state, "a")) == 0.25
    assert part_of_due(node_of(state, "b")) == 0.0


def test_in_line_the_application_that_holds_least_goes_next() -> None:
    fair = queue("a", gpus=10, cohort="top", turns=Turns(), shares_by_application=True)
    state = state_of(
        inner("top"),
        fair,
        running("r", queue="a", gpus=2, application="big"),
        workload("old", queue="a", application="big", queued_at=1.0),
        workload("new", queue="a", application="small", queued_at=2.0),
        workload("urgent", queue="a", application="big", queued_at=3.0, priority=9),
    )
    assert [list(reserved(plan)) for plan in run_cycles(state, 3)] == [["urgent"], ["new"], ["old"]]


def test_in_line_priorities_may_not_count() -> None:
    state = state_of(
        inner("top"),
        leaf("a", gpus=10, by_priority=False),
        workload("old", queue="a", queued_at=1.0),
        workload("urgent", queue="a", queued_at=3.0, priority=9),
    )
    assert [list(reserved(plan)) for plan in run_cycles(state, 2)] == [["old"], ["urgent"]]
