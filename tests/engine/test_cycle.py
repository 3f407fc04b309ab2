"""The scratch of one cycle: what could be preempted, what would fit, and the plan that it gathers."""

from __future__ import annotations

import pytest

from muster.engine.assignment import Mode, Standing
from muster.engine.cycle import Cycle, Need
from muster.engine.victims import Victim
from muster.model.reason import Code
from muster.model.settings import Settings
from tests.engine.builders import (
    ANY,
    GPUS,
    LOWER,
    NOW,
    guarded,
    node_of,
    preempts,
    queue,
    running,
    state_of,
    usage_of,
    workload,
)


def team_a(**rules):
    return queue("team-a", cohort="x", gpus=4, preemption=preempts(**rules))


B = queue("b", cohort="x", gpus=2)


@pytest.mark.parametrize(
    ("rules", "holders", "gpus", "want"),
    [
        pytest.param({}, [running("mine", gpus=4)], 3, Standing(Mode.NO_CANDIDATES, 1), id="nobody"),
        pytest.param({"within": LOWER}, [running("mine", gpus=6)], 3, Standing(Mode.PREEMPT, 0), id="its own"),
        pytest.param(
            {"reclaim": ANY}, [running("theirs", gpus=6, queue="b")], 3, Standing(Mode.RECLAIM, 0), id="others only"
        ),
        pytest.param(
            {"within": LOWER, "reclaim": ANY},
            [running("mine", gpus=2), running("theirs", gpus=4, queue="b")],
            4,
            Standing(Mode.PREEMPT, 0),
            id="both",
        ),
        pytest.param(
            {"within": LOWER},
            [running("mine", gpus=3), running("also", gpus=3, priority=9)],
            3,
            Standing(Mode.PREEMPT, 1),
            id="and still borrows",
        ),
    ],
)
def test_what_could_be_preempted_for_one_resource(rules, holders, gpus, want):
    state = state_of(team_a(**rules), B, *holders)
    before = usage_of(state)
    standing = Cycle(state).could_preempt(workload("me", priority=5), node_of(state, "team-a"), GPUS, gpus)
    assert standing == want
    assert usage_of(state) == before


@pytest.mark.parametrize(
    ("gpus", "told", "named", "does_fit"),
    [
        pytest.param(1, "", "", False, id="nobody leaves"),
        pytest.param(3, "", "one", True, id="one leaves"),
        pytest.param(4, "", "one", False, id="that is not enough"),
        pytest.param(6, "two", "one", True, id="another was told already"),
        pytest.param(6, "two", "one two", True, id="one that is named twice leaves once"),
    ],
)
def test_would_fit_without_those_who_leave(gpus, told, named, does_fit):
    state = state_of(team_a(), B, running("one", gpus=3), running("two", gpus=3, queue="b"))
    cycle = Cycle(state)
    victims = {name: Victim(state.holders.get(f"default/{name}"), Code.RECLAIMED) for name in ("one", "two")}
    cycle.leaving = {f"default/{name}": victims[name] for name in told.split()}
    leavers = [victims[name] for name in named.split()]
    has_quota, has_places = cycle.fits_without(node_of(state, "team-a"), Need({GPUS: gpus}, []), leavers)
    assert (has_quota, has_places) == (does_fit, True), "there are no places to ask for"
    assert not list(state.ledger.gone())


@pytest.mark.parametrize(
    ("last", "may"),
    [
        pytest.param(None, True, id="it never preempted"),
        pytest.param(NOW - 59, False, id="a moment ago"),
        pytest.param(NOW - 60, True, id="long ago"),
    ],
)
def test_queue_cools_down_between_preemptions(last, may):
    state = state_of(team_a(within=LOWER), running("mine", gpus=6), settings=guarded(queue_cool_down_s=60))
    if last is not None:
        state.preempted_last["team-a"] = last
    standing = Cycle(state).could_preempt(workload("me", priority=5), node_of(state, "team-a"), GPUS, 3)
    assert (standing.mode is Mode.PREEMPT) is may


def test_plan_carries_the_cycles_number_and_steps():
    state = state_of(team_a(within=LOWER), running("mine", gpus=4), settings=Settings(cycle_steps_most=0))
    state.begin_cycle(NOW)
    cycle = Cycle(state)
    assert (cycle.plan().cycle, cycle.plan().steps, cycle.is_out_of_steps) == (1, 0, False)
    cycle.could_preempt(workload("me", priority=5), node_of(state, "team-a"), GPUS, 3)
    assert (cycle.plan().steps, cycle.is_out_of_steps) == (1, True)
    assert cycle.plan().is_empty
