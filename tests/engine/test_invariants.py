"""The invariants as checks: a sound state and plan pass, and every kind of fault is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.invariants import unsafe_reserves, violations
from muster.model.plan import Plan, Reserve
from muster.model.reason import Code, because
from tests.engine.builders import (
    GPUS,
    NOW,
    admission_of,
    key_of,
    node_of,
    plan_of,
    queue,
    run_cycle,
    running,
    state_of,
    usage_of,
    workload,
)


def sound_state():
    return state_of(
        queue("team-a", cohort="x", gpus=4),
        queue("b", cohort="x", gpus=4),
        running("r", gpus=3),
        workload("w", gpus=2),
        workload("done", is_finished=True),
    )


def test_sound_state_passes():
    state = sound_state()
    assert list(violations(state)) == []
    run_cycle(state)
    assert list(violations(state)) == []


def negative(state):
    node_of(state, "b").usage[GPUS] = -1


def parent_off(state):
    node_of(state, "x").usage[GPUS] = 5


def leaf_off(state):
    node_of(state, "team-a").usage[GPUS] = 4
    node_of(state, "x").usage[GPUS] = 4


def waits_and_holds(state):
    state.lines["team-a"].add(state.workloads[key_of("r")], NOW)


def finished_and_waits(state):
    state.workloads[key_of("w")] = replace(state.workloads[key_of("w")], is_finished=True)


def finished_and_holds(state):
    state.workloads[key_of("r")] = replace(state.workloads[key_of("r")], is_finished=True)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        pytest.param(negative, "b uses -1", id="less than nothing"),
        pytest.param(parent_off, "x uses 5 of ('default', 'nvidia.com/gpu'), its children 3", id="a wrong sum"),
        pytest.param(leaf_off, "its workloads hold", id="quota that nobody holds"),
        pytest.param(waits_and_holds, "default/r waits and holds quota", id="in two places"),
        pytest.param(finished_and_waits, "default/w has finished and is still there", id="finished and in line"),
        pytest.param(finished_and_holds, "default/r has finished and is still there", id="finished and holding"),
    ],
)
def test_fault_is_seen(fault, sentence):
    state = sound_state()
    fault(state)
    assert any(sentence in found for found in violations(state))


def test_lost_workload_is_seen():
    state = sound_state()
    state.lines["team-a"].remove(key_of("w"))
    assert any("default/w" in found for found in violations(state))


# Plans -----------------------------------------------------------------------------------------------------------


def give(*names_and_gpus, queue="team-a"):
    """A plan that gives quota without asking."""
    reserves = [
        Reserve(
            workload=key_of(name),
            admission=admission_of(workload(name, gpus=gpus), queue),
            is_admitted=True,
            reason=because(Code.QUOTA_RESERVED),
        )
        for name, gpus in names_and_gpus
    ]
    return Plan(cycle=0, decisions=tuple(reserves))


@pytest.mark.parametrize(
    ("plan", "unsafe"),
    [
        pytest.param(give(), 0, id="an empty plan"),
        pytest.param(give(("w", 5)), 0, id="all there is"),
        pytest.param(give(("w", 6)), 1, id="more than there is"),
        pytest.param(give(("w", 3), ("v", 3)), 1, id="together more than there is"),
        pytest.param(give(("w", 1), queue="nowhere"), 1, id="of a queue that is not there"),
    ],
)
def test_unsafe_reserves(plan, unsafe):
    state = state_of(
        queue("team-a", cohort="x", gpus=4),
        queue("b", cohort="x", gpus=4),
        running("r", gpus=3),
        workload("w"),
        workload("v"),
    )
    before = usage_of(state)
    assert len(list(unsafe_reserves(state, plan))) == unsafe
    assert usage_of(state) == before, "looking changes nothing"


def test_slice_that_takes_over_is_safe():
    parts = [queue("team-a", gpus=4), running("v1", gpus=3), workload("v2", gpus=4, replaces=key_of("v1"))]
    state = state_of(*parts)
    assert list(unsafe_reserves(state, plan_of(*parts))) == []
