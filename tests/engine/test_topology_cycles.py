"""Places through many cycles: who is moved, who has to leave for a place, who is called back when one is free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.invariants import violations
from muster.model.plan import Amend, Retry
from muster.model.queue import CheckRule
from muster.model.reason import Code
from muster.model.settings import Settings
from muster.model.topology import HOSTNAME, BoundPod, TopologyRequest
from muster.model.workload import CheckState
from tests.engine.builders import (
    ANY,
    GPU,
    LOWER,
    evicted,
    guarded,
    holders_of,
    key_of,
    pod_set,
    preempts,
    queue,
    reserved,
    run_cycle,
    run_cycles,
    run_until_quiet,
    running,
    state_of,
    workload,
)
from tests.engine.topology_builders import (
    RACK,
    host,
    hosts_of,
    near,
    placed,
    placements,
    racks,
)

ROOMY = queue("team-a", gpus=99, preemption=preempts(within=LOWER))
LATER = replace(ROOMY, checks=(CheckRule(name="nodes", delays_place=True),))
TWO_HOSTS = [racks(), host("r1/a", 2), host("r1/b", 2)]


def where(state, name):
    """The hosts of a workload's first pod set as the state has them."""
    return hosts_of(state.workloads[key_of(name)].admission)


def checked(state, name):
    """The check that a workload waits for has passed."""
    state.take(replace(state.workloads[key_of(name)], checks={"nodes": CheckState.READY}))


def failed(state, name, node):
    """Somebody noticed that a node failed which a workload has pods on."""
    state.put_node(replace(node, is_ready=False))
    one = state.workloads[key_of(name)]
    state.take(replace(one, unhealthy_nodes=(*one.unhealthy_nodes, node.name)))


# A life ----------------------------------------------------------------------------------------------------------


def test_places_are_taken_given_back_and_taken_again():
    state = state_of(ROOMY, *TWO_HOSTS, *(near(f"w{n}", 2, queued_at=n) for n in range(3)))
    run_until_quiet(state)
    assert (where(state, "w0"), where(state, "w1"), where(state, "w2")) == ({"a": 2}, {"b": 2}, None)
    state.take(replace(state.workloads[key_of("w0")], is_finished=True))
    run_until_quiet(state)
    assert where(state, "w2") == {"a": 2}
    assert not list(violations(state))


def test_pods_of_failed_nodes_move_one_node_after_the_other():
    a, b, c, d = (host(f"r1/{name}", 2) for name in "abcd")
    state = state_of(ROOMY, racks(), a, b, c, d, placed("w", {"a": 2, "b": 2}))
    failed(state, "w", a)
    (first,) = run_cycle(state).decisions
    assert (hosts_of(first.admission), first.replaced_node) == ({"b": 2, "c": 2}, "a")
    failed(state, "w", b)
    (second,) = run_cycle(state).decisions
    assert (hosts_of(second.admission), second.replaced_node) == ({"c": 2, "d": 2}, "b")
    assert state.workloads[key_of("w")].unhealthy_nodes == ()
    assert run_cycle(state).decisions == ()


def test_one_that_lost_two_nodes_at_once_leaves():
    a, b, c, d = (host(f"r1/{name}", 2) for name in "abcd")
    state = state_of(ROOMY, racks(), a, b, c, d, placed("w", {"a": 2, "b": 2}))
    failed(state, "w", a)
    failed(state, "w", b)
    assert evicted(run_cycle(state)) == {"w": Code.NODE_FAILURES}


def test_one_that_finds_no_other_node_leaves_and_starts_anew_elsewhere():
    a = host("r1/a", 2)
    state = state_of(ROOMY, racks(), a, host("r1/b", 1), host("r2/c", 4), placed("w", {"a": 1, "b": 1}))
    failed(state, "w", a)
    assert evicted(run_cycle(state)) == {"w": Code.NODE_FAILURES}
    state.take(replace(state.workloads[key_of("w")], unhealthy_nodes=()))
    assert placements(run_cycle(state)) == {"w": {"c": 2}}


def test_two_that_lost_the_same_node_do_not_move_to_the_same_place():
    a = host("r1/a", 2)
    state = state_of(ROOMY, racks(), a, host("r1/b", 1), host("r1/c", 1), placed("v", {"a": 1}), placed("w", {"a": 1}))
    failed(state, "v", a)
    failed(state, "w", a)
    run_cycle(state)
    assert (where(state, "v"), where(state, "w")) == ({"b": 1}, {"c": 1})


def test_one_that_moves_goes_before_those_that_wait():
    a = host("r1/a", 2)
    state = state_of(ROOMY, racks(), a, host("r1/b", 2), placed("w", {"a": 2}), near("urgent", 1, priority=9))
    run_cycle(state)
    state.drop(key_of("urgent"))
    failed(state, "w", a)
    state.take(near("later", 2, priority=9))
    plan = run_cycle(state)
    assert (where(state, "w"), placements(plan)) == ({"b": 2}, {})


def test_slice_moves_as_a_whole():
    """Two pods of every four must be on one host: the two of a failed host stay two."""
    request = TopologyRequest(required=RACK, layers=((RACK, 4), (HOSTNAME, 2)))
    a = host("r1/a", 2)
    parts = [ROOMY, racks(), a, host("r1/b", 2), host("r1/c", 1), host("r1/d", 1)]
    state = state_of(
        *parts, placed("w", {"a": 2, "b": 2}, request=request), settings=Settings(replaces_nodes_fast=False)
    )
    failed(state, "w", a)
    assert [type(one) for one in run_cycle(state).decisions] == [Retry], "one here and one there will not do"
    state.put_node(host("r1/e", 2))
    assert [type(one) for one in run_cycles(state, 2)[-1].decisions] == [Amend]
    assert where(state, "w") == {"b": 2, "e": 2}


# Preemption ------------------------------------------------------------------------------------------------------


def test_victims_are_those_whose_place_helps():
    state = state_of(
        queue("team-a", gpus=4, cohort="x", preemption=preempts(reclaim=ANY)),
        queue("team-b", gpus=0, cohort="x"),
        racks(),
        host("r1/a", 2),
        host("r2/b", 1),
        host("r3/c", 1),
        placed("on-a", {"a": 2}, queue="team-b"),
        placed("on-b", {"b": 1}, queue="team-b", reserved_at=5.0),
        placed("on-c", {"c": 1}, queue="team-b", reserved_at=5.0),
        near("w", 2, queue="team-a"),
    )
    assert evicted(run_cycle(state)) == {"on-a": Code.RECLAIMED}
    run_until_quiet(state)
    assert where(state, "w") == {"a": 2}


def test_place_that_was_preempted_for_is_not_given_away_meanwhile():
    state = state_of(
        ROOMY,
        queue("team-b", gpus=9),
        *TWO_HOSTS,
        placed("low", {"a": 2, "b": 2}),
        near("high", 4, priority=1),
        near("other", 1, queue="team-b"),
    )
    plans = run_cycles(state, 2)
    assert [list(evicted(plan)) for plan in plans] == [["low"], []]
    assert placements(plans[1]) == {"high": {"a": 2, "b": 2}}


def test_one_that_moves_is_nobody_s_victim_in_the_same_cycle():
    a = host("r1/a", 1)
    state = state_of(ROOMY, racks(), a, host("r1/b", 1), placed("low", {"a": 1}), near("high", 1, priority=1))
    failed(state, "low", a)
    plans = run_cycles(state, 2)
    assert [type(one) for one in plans[0].decisions][:1] == [Amend]
    assert evicted(plans[1]) == {"low": Code.PREEMPTED_IN_QUEUE}


# Delayed places --------------------------------------------------------------------------------------------------


def test_quota_is_held_while_the_place_is_not_known_yet():
    state = state_of(replace(LATER, quotas={("default", GPU): ROOMY.quotas["default", GPU]}), *TWO_HOSTS, near("w", 2))
    (reserve,) = run_cycle(state).reserves
    assert (hosts_of(reserve.admission), reserve.is_admitted) == (None, False)
    checked(state, "w")
    state.take(near("other", 4, priority=9, queue="team-a"))
    run_cycle(state)
    assert where(state, "w") == {"a": 2}


def test_place_is_sought_again_until_there_is_one():
    state = state_of(LATER, racks(), near("w", 3))
    run_cycle(state)
    checked(state, "w")
    assert [type(one) for one in run_cycle(state).decisions] == [Retry]
    state.put_node(host("r1/a", 4))
    assert [type(one) for one in run_cycles(state, 2)[-1].decisions] == [Amend]
    assert where(state, "w") == {"a": 3}


# Found by chance, in small ---------------------------------------------------------------------------------------


def test_place_that_is_free_again_calls_back_those_of_other_trees():
    state = state_of(
        queue("team-a", gpus=9),
        queue("team-b", gpus=9),
        racks(),
        host("r1/a", 1),
        placed("first", {"a": 1}, queue="team-a"),
        near("second", 1, queue="team-b"),
    )
    run_until_quiet(state)
    state.drop(key_of("first"))
    run_until_quiet(state)
    assert where(state, "second") == {"a": 1}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(BoundPod(key="x/p", node="b", requests={GPU: 1}), id="one of its name on another node"),
        pytest.param(BoundPod(key="x/p", node="a", requests={}), id="it was made smaller"),
    ],
)
def test_pod_that_needs_less_calls_those_back_who_found_no_place(pod):
    state = state_of(ROOMY, racks(), host("r1/a", 1), BoundPod(key="x/p", node="a", requests={GPU: 1}), near("w", 1))
    run_until_quiet(state)
    state.put_pod(pod)
    run_until_quiet(state)
    assert where(state, "w") == {"a": 1}


def test_preemptor_is_tried_again_after_its_victim_was_looked_at_for_a_place():
    state = state_of(replace(LATER, quotas=queue("any", gpus=1).quotas), racks(), near("low", 1))
    run_cycle(state)
    checked(state, "low")
    state.take(near("high", 1, priority=1))
    plans = run_cycles(state, 3)
    assert [list(evicted(plan)) for plan in plans if plan.evictions] == [["low"]]


def test_slice_whose_older_one_has_finished_pods_stays_within_quota():
    state = state_of(
        queue("team-a", gpus=4),
        running("older", pod_sets=(pod_set(count=3, finished_pods=2),)),
        running("other", gpus=2),
        workload("newer", pods=4, replaces=key_of("older")),
    )
    assert reserved(run_cycle(state)) == {}, "1 and 2 of 4 are held: it needs 3 more than the older one holds"


def test_slice_is_not_parked_with_those_that_ask_for_all_of_it():
    state = state_of(
        queue("team-a", gpus=4),
        running("older", pods=3),
        workload("whole", pods=4, kind_key="four"),
        workload("newer", pods=4, kind_key="four", replaces=key_of("older"), queued_at=1),
    )
    run_until_quiet(state)
    assert key_of("newer") in holders_of(state)


def test_one_preempted_too_often_starts_where_there_is_room_for_both():
    state = state_of(
        ROOMY,
        racks(),
        host("r1/a", 1),
        placed("low", {"a": 1}),
        near("high", 1, priority=1),
        settings=guarded(repeat_most=1),
    )
    run_until_quiet(state)
    assert where(state, "high") == {"a": 1}
    state.put_node(host("r1/b", 1))
    run_until_quiet(state)
    assert where(state, "low") == {"b": 1}


def test_one_who_lost_its_place_to_a_hold_is_tried_again_when_the_hold_is_over():
    state = state_of(
        queue("team-a", gpus=9),
        queue("team-b", gpus=9),
        racks(),
        host("r1/a", 2),
        placed("r", {"a": 1}),
        near("in-vain", 2, queue="team-a", priority=1),
        near("small", 1, queue="team-b"),
    )
    run_until_quiet(state)
    assert where(state, "small") == {"a": 1}


def test_node_that_comes_for_a_flavor_tried_before_is_noticed():
    state = state_of(
        queue("team-a", flavors={"red": 9, "green": 9}),
        *(racks(name, labels={"pool": name}) for name in ("red", "green")),
        near("w", 1),
    )
    run_cycle(state)
    state.put_node(host("r1/a", 1, labels={"pool": "red"}))
    run_until_quiet(state)
    assert where(state, "w") == {"a": 1}
