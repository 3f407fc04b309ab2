"""Turns: whose head is tried next in a tree whose branches take turns, and that one is given to at a time."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from muster.engine.decide import decide
from muster.engine.state import EngineState
from muster.engine.turns import in_turn, part_of_due
from muster.model.plan import Reserve
from muster.model.queue import SharedLimit, Turns
from tests.engine.builders import GPU, cohort, node_of, queue, reserved, run_cycles, running, state_of, workload
from tests.support import assert_sound, proof_count


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


def test_what_one_queue_is_given_changes_whose_turn_it_is() -> None:
    state = state_of(
        inner("top"),
        leaf("a", gpus=2, number=0),
        leaf("b", gpus=2, number=1),
        *(workload(f"a{number}", queue="a", queued_at=float(number)) for number in range(3)),
        *(workload(f"b{number}", queue="b", queued_at=float(number)) for number in range(3)),
    )
    plans = run_cycles(state, 3)
    assert [list(reserved(plan)) for plan in plans] == [["a0", "b0"], ["a1", "b1"], []]


def test_a_queue_that_is_far_behind_goes_twice_before_the_other_goes_once() -> None:
    state = state_of(
        inner("top", gpus=4),
        leaf("a", gpus=4, number=0),
        leaf("b", gpus=4, number=1),
        running("r", queue="b", gpus=3),
        *(workload(f"a{number}", queue="a", queued_at=float(number)) for number in range(3)),
        workload("b0", queue="b"),
    )
    assert [list(reserved(plan)) for plan in run_cycles(state, 4)] == [["a0"], ["a1"], ["a2", "b0"], []]


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


# Many at once are as one at a time -----------------------------------------------------------------------------------


def random_state(random: Random) -> EngineState:
    """A random tree whose branches take turns, with holders, waiting workloads and limits that they share."""
    names = [f"i{number}" for number in range(random.randint(1, 4))]
    inners = [
        inner(
            name,
            gpus=random.randint(0, 6),
            parent=random.choice(names[:number]) if number else None,
            number=random.randint(0, 3),
            by_priority=random.random() < 0.7,
            priority_offset=random.choice((0, 0, 3)),
            is_priority_fence=random.random() < 0.2,
        )
        for number, name in enumerate(names)
    ]
    leaves = [f"q{number}" for number in range(random.randint(1, 6))]
    queues = [
        leaf(
            name,
            gpus=random.randint(0, 3),
            parent=random.choice(names),
            number=number,
            by_priority=random.random() < 0.8,
        )
        for number, name in enumerate(leaves)
    ]
    limits = {name: SharedLimit(name=name, title=name, most={GPU: random.randint(1, 5)}) for name in ("x", "y")}
    waiting = [
        workload(
            f"w{number}",
            queue=random.choice(leaves),
            gpus=random.randint(1, 3),
            priority=random.choice((0, 0, 0, 1, 5)),
            queued_at=float(random.randint(0, 5)),
            application=f"a{number}",
            limits=tuple(name for name in limits if random.random() < 0.15),
        )
        for number in range(random.randint(0, 20))
    ]
    holders = [running(f"r{number}", queue=random.choice(leaves)) for number in range(random.randint(0, 3))]
    return state_of(*inners, *queues, *waiting, *holders, shared_limits=limits)


def given_in(state: EngineState, *, is_one_at_a_time: bool) -> list[str]:
    """Who is given quota, in order; one at a time, what a cycle decides after its first gift is not carried out."""
    given: list[str] = []
    for _ in range(200):
        state.begin_cycle(state.now + 1)
        plan = decide(state)
        if is_one_at_a_time:
            gifts = [index for index, one in enumerate(plan.decisions) if isinstance(one, Reserve)]
            plan = replace(plan, decisions=plan.decisions[: gifts[0] + 1] if gifts else plan.decisions)
        state.apply(plan)
        given += reserved(plan)
        if state.is_settled:
            return given
    raise AssertionError("it does not settle")


def check_many_at_once(random: Random) -> None:
    seed = random.random()
    together = given_in(random_state(Random(seed)), is_one_at_a_time=False)
    assert together == given_in(random_state(Random(seed)), is_one_at_a_time=True)


@pytest.mark.prove
def test_many_at_once_are_given_as_one_at_a_time() -> None:
    assert_sound(check_many_at_once, range(proof_count(5000)))
