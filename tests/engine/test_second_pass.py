"""The second pass: who waits for a place with quota in hand, and when it is looked for again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.second_pass import DELAY_MOST_S, FIRST_DELAY_S, SecondPass
from muster.model.plan import Amend, Evict, Retry
from muster.model.queue import CheckRule
from muster.model.settings import Settings
from muster.model.workload import CheckState
from tests.engine.builders import (
    NOW,
    evicted_from,
    key_of,
    preempts,
    queue,
    run_cycle,
    running,
    state_of,
    workload,
)
from tests.engine.topology_builders import host, hosts_of, near, placed, racks

W = key_of("w")
LOST = placed("w", {"a": 1}, unhealthy_nodes=("a",))
READY, PENDING = {"nodes": CheckState.READY}, {"nodes": CheckState.PENDING}
LATER = queue("team-a", gpus=9, checks=(CheckRule(name="nodes", delays_place=True),), preemption=preempts())


def delayed(**fields):
    """A workload with quota whose place is decided when its checks are ready."""
    one = running("w", is_admitted=False, **fields)
    given = replace(one.admission.pod_sets[0], is_delayed=True)
    return replace(one, admission=replace(one.admission, pod_sets=(given,)))


# Who -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "waits"),
    [
        pytest.param(LOST, True, id="it lost a node"),
        pytest.param(replace(LOST, unhealthy_nodes=()), False, id="it lost none"),
        pytest.param(replace(LOST, is_admitted=False), False, id="it lost one and does not run"),
        pytest.param(replace(LOST, is_pod=True), False, id="a pod that stands for itself cannot move"),
        pytest.param(replace(LOST, is_evicted=True), False, id="it is on its way out"),
        pytest.param(replace(LOST, is_finished=True), False, id="it has finished"),
        pytest.param(evicted_from(LOST), False, id="it holds nothing"),
        pytest.param(delayed(checks=READY), True, id="its checks are ready"),
        pytest.param(delayed(), True, id="it has no checks to wait for"),
        pytest.param(delayed(checks=PENDING), False, id="its checks are not"),
        pytest.param(delayed(checks=READY | {"more": CheckState.RETRY}), False, id="one of them is not"),
        pytest.param(running("w", checks=READY), False, id="its place is decided"),
        pytest.param(workload("w"), False, id="it waits for quota"),
    ],
)
def test_who_waits_for_a_place(one, waits):
    room = SecondPass()
    room.note(one, 0.0)
    assert room.ready(FIRST_DELAY_S) == ([W] if waits else [])


# When ------------------------------------------------------------------------------------------------------------


def test_first_look_is_a_moment_later():
    room = SecondPass()
    room.note(LOST, 10.0)
    assert (room.ready(10.5), room.ready(10.0 + FIRST_DELAY_S)) == ([], [W])


def test_news_of_one_that_waits_does_not_put_it_off():
    room = SecondPass()
    room.note(LOST, 10.0)
    room.note(replace(LOST, priority=5), 10.9)
    assert room.ready(11.0) == [W]


def test_time_between_looks_doubles_up_to_a_bound():
    room = SecondPass()
    room.note(LOST, 0.0)
    now, delays = FIRST_DELAY_S, []
    for _ in range(8):
        room.retry(W, now)
        later = next(step for step in range(1, 99) if room.ready(now + step))
        delays.append(later)
        now += later
    assert delays == [2, 4, 8, 16, DELAY_MOST_S, DELAY_MOST_S, DELAY_MOST_S, DELAY_MOST_S]


def test_one_that_came_to_rest_starts_over_the_next_time():
    room = SecondPass()
    room.note(LOST, 0.0)
    for now in (1.0, 3.0, 7.0):
        room.retry(W, now)
    room.note(replace(LOST, unhealthy_nodes=()), 8.0)
    assert room.ready(99.0) == []
    room.note(LOST, 100.0)
    assert room.ready(100.0 + FIRST_DELAY_S) == [W]


def test_all_whose_turn_it_is_in_the_order_of_their_names():
    room = SecondPass()
    for name in ("c", "a", "b"):
        room.note(placed(name, {"x": 1}, unhealthy_nodes=("x",)), 0.0)
    room.forget(key_of("a"))
    room.forget(key_of("nobody"))
    room.retry(key_of("nobody"), 0.0)
    assert room.ready(5.0) == [key_of("b"), key_of("c")]


# In cycles -------------------------------------------------------------------------------------------------------


def kinds(plan):
    return [type(one) for one in plan.decisions]


@pytest.mark.parametrize(
    ("is_fast", "want"),
    [
        pytest.param(True, [Evict], id="it has to go at once"),
        pytest.param(False, [Retry], id="it is looked for again"),
    ],
)
def test_node_without_another_one(is_fast, want):
    parts = [LATER, racks(), host("r1/a", is_ready=False), LOST]
    state = state_of(*parts, settings=Settings(replaces_nodes_fast=is_fast))
    assert kinds(run_cycle(state)) == want
    assert state.workloads[W].unhealthy_nodes == ("a",)


def test_looks_grow_apart_until_there_is_a_node():
    state = state_of(LATER, racks(), delayed(checks=READY), now=NOW)
    looks = [second for second in range(1, 20) if run_cycle(state, after_s=1).decisions]
    assert looks == [1, 3, 7, 15]
    state.put_node(host("r1/a"))
    assert kinds(run_cycle(state, after_s=DELAY_MOST_S)) == [Amend]
    assert run_cycle(state, after_s=DELAY_MOST_S).decisions == ()


def test_place_is_for_the_quota_that_is_held_and_starts_the_workload():
    state = state_of(LATER, racks(), host("r1/a"), near("w", 2))
    run_cycle(state)
    state.take(replace(state.workloads[W], checks=READY))
    (amend,) = run_cycle(state).decisions
    before = state.workloads[W].admission
    assert (hosts_of(amend.admission), amend.is_admitted, amend.replaced_node) == ({"a": 2}, True, "")
    assert amend.admission == before
    assert not before.pod_sets[0].is_delayed


def test_one_that_waits_for_more_checks_has_its_place_but_does_not_start():
    checks = (CheckRule(name="nodes", delays_place=True), CheckRule(name="budget"))
    state = state_of(replace(LATER, checks=checks), racks(), host("r1/a"), near("w", 2))
    run_cycle(state)
    state.take(replace(state.workloads[W], checks=READY))
    (amend,) = run_cycle(state).decisions
    assert (hosts_of(amend.admission), amend.is_admitted) == ({"a": 2}, False)


def test_one_that_is_gone_is_not_looked_for():
    state = state_of(LATER, racks(), host("r1/a"), LOST)
    state.drop(W)
    assert run_cycle(state).decisions == ()


def test_without_topologies_a_delayed_place_is_no_place():
    """The flavor lost its topology meanwhile: there is nothing to decide, and the workload goes on."""
    state = state_of(LATER, delayed(checks=READY))
    (amend,) = run_cycle(state).decisions
    assert (hosts_of(amend.admission), amend.is_admitted) == (None, True)
