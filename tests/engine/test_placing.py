"""Placing: what flavors come to where they have a topology, and who would have to leave for a place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.assignment import Assignment, Attempt, FlavorChoice, Mode, Outcome, PodSetChoice, Standing
from muster.engine.placing import Placing, refusal_text
from muster.model.queue import CheckRule
from muster.model.reason import Code
from muster.model.resources import CPU
from muster.model.topology import PlacementRefusal, TopologyRequest, Unplaced
from muster.model.workload import CheckState
from tests.engine.builders import (
    FLAVOR,
    GPU,
    LOWER,
    counts,
    evicted,
    node_of,
    pod_set,
    preempts,
    queue,
    reserved,
    run_cycle,
    running,
    state_of,
    waits,
    workload,
)
from tests.engine.topology_builders import (
    IN_ONE_RACK,
    RACK,
    host,
    hosts_of,
    near,
    on_hosts,
    placed,
    placements,
    racks,
)

HOME = queue("team-a", gpus=99)
TWO_RACKS = [racks(), host("r1/a", 2), host("r1/b", 2), host("r2/c", 3)]
FIT = Standing(Mode.FIT, 0)


def placing(one, *parts, home=HOME):
    """Where a workload could go, among the hosts of two racks unless others are named."""
    state = state_of(home, *(parts or TWO_RACKS))
    return Placing(workload=one, queue=node_of(state, home.name), flavors=state.flavors, places=state.places)


def choice(pods, mode=Mode.FIT, flavor=FLAVOR, **fields):
    """The flavor that a pod set got."""
    flavors = {resource: FlavorChoice(flavor, mode, 0, -1) for resource in pods.requests}
    given = {
        "name": pods.name,
        "count": pods.count,
        "requests": {name: amount * pods.count for name, amount in pods.requests.items()},
        "flavors": flavors,
        "attempts": (Attempt(flavor, FIT),),
        "reasons": () if mode is Mode.FIT else ("short",),
    }
    return PodSetChoice(**(given | fields))


def chosen(one, mode=Mode.FIT, **fields):
    """Flavors for all pod sets of a workload."""
    return Assignment(pod_sets=tuple(choice(pods, mode, **fields) for pods in one.pod_sets), usage={}, level=0)


def places(assignment):
    """Pods by host, for each pod set."""
    given = [pods.place for pods in assignment.pod_sets]
    return [{d.values[-1]: d.count for d in place.domains} if place is not None else None for place in given]


# Quota fits ------------------------------------------------------------------------------------------------------


def test_place_is_written_into_what_fits():
    one = near("w", 3)
    found = placing(one).placed(chosen(one))
    assert (found.outcome, places(found)) == (Outcome.FIT, [{"c": 3}])


def test_what_does_not_fit_at_all_is_not_placed():
    one = near("w", 3)
    refused = chosen(one, Mode.NO_FIT, refusal=Code.WAITING_FOR_QUOTA)
    assert placing(one).placed(refused) is refused


def test_flavor_without_a_topology_places_nothing():
    one = workload("w")
    found = placing(one, racks("other"), host("r1/a")).placed(chosen(one))
    assert (found.outcome, places(found)) == (Outcome.FIT, [None])


def test_pods_that_do_not_ask_are_placed_where_their_flavor_has_a_topology():
    one = near("w", 5, request=None)
    assert places(placing(one).placed(chosen(one))) == [{"a": 2, "b": 2, "c": 1}], "least left first"


def test_each_pod_set_leaves_the_next_what_it_does_not_take():
    one = workload("w", pod_sets=(pod_set("x", count=3, topology=IN_ONE_RACK), pod_set("y", topology=IN_ONE_RACK)))
    assert places(placing(one).placed(chosen(one))) == [{"c": 3}, {"a": 1}]


# A place is missing ----------------------------------------------------------------------------------------------


def test_place_that_others_have_is_asked_of_them():
    one = near("w", 3)
    held = [placed("r", {"a": 2}), placed("s", {"c": 1})]
    found = placing(one, *TWO_RACKS, *held).placed(chosen(one))
    (pods,) = found.pod_sets
    assert (found.outcome, pods.flavors[GPU].mode) == (Outcome.PREEMPT, Mode.PREEMPT)
    assert places(found) == [{"c": 3}], "where it would go if nobody was there"
    assert [reason.code for reason in pods.reasons] == [Code.NO_PLACE]
    assert pods.refusal is None


def test_place_that_is_nowhere_cannot_be_had():
    one = near("w", 5)
    found = placing(one).placed(chosen(one))
    (pods,) = found.pod_sets
    assert (found.outcome, places(found)) == (Outcome.NO_FIT, [None])
    assert (pods.refusal, pods.attempts[0].refusal) == (Code.TOPOLOGY_PLACEMENT_FAILED, Code.TOPOLOGY_PLACEMENT_FAILED)
    assert "4 of 5 pods fit" in pods.reasons[-1].text


def test_flavors_that_were_out_of_the_question_stay_so():
    one = near("w", 5)
    before = (
        Attempt("other", FIT),
        Attempt(FLAVOR, Standing(Mode.NO_FIT, 0), Code.NO_MATCHING_FLAVOR),
        Attempt(FLAVOR, FIT),
    )
    (pods,) = placing(one).placed(chosen(one, attempts=before)).pod_sets
    assert [attempt.refusal for attempt in pods.attempts] == [
        None,
        Code.NO_MATCHING_FLAVOR,
        Code.TOPOLOGY_PLACEMENT_FAILED,
    ]


def test_pod_set_without_a_place_stops_the_search_for_those_behind_it():
    one = workload("w", pod_sets=(pod_set("x", count=9, topology=IN_ONE_RACK), pod_set("y", topology=IN_ONE_RACK)))
    found = placing(one).placed(chosen(one))
    assert (found.outcome, places(found)) == (Outcome.NO_FIT, [None, None])


def test_what_needs_victims_for_its_quota_is_placed_as_if_nobody_was_there():
    one = near("w", 4)
    found = placing(one, *TWO_RACKS, placed("r", {"a": 2, "b": 2})).placed(chosen(one, Mode.RECLAIM))
    assert (found.outcome, places(found)) == (Outcome.PREEMPT, [{"a": 2, "b": 2}])


def test_nobody_leaves_for_one_that_lost_a_node():
    one = near("w", 3, unhealthy_nodes=("a",))
    held = [placed("r", {"a": 2}), placed("s", {"c": 1})]
    found = placing(one, *TWO_RACKS, *held).placed(chosen(one))
    assert (found.outcome, places(found)) == (Outcome.PREEMPT, [None])


# Which topology --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flavors", "count", "problem"),
    [
        pytest.param({GPU: "plain"}, 1, "no flavor that has one", id="none"),
        pytest.param({GPU: FLAVOR, CPU: "other"}, 1, "several flavors with one: default, other", id="two"),
        pytest.param({GPU: FLAVOR, CPU: "plain"}, 1, "", id="one beside a flavor without"),
        pytest.param({GPU: FLAVOR, CPU: FLAVOR}, 1, "", id="the same for both"),
        pytest.param({GPU: "plain"}, 0, "", id="none for no pods"),
        pytest.param({GPU: "gone"}, 1, "no flavor that has one", id="a flavor that is not there"),
    ],
)
def test_pods_that_ask_need_one_topology(flavors, count, problem):
    one = near("w", 1)
    given = {name: FlavorChoice(flavor, Mode.FIT, 0, -1) for name, flavor in flavors.items()}
    parts = [racks(), racks("other"), replace(racks("plain"), topology="", topology_levels=()), host("r1/a")]
    (pods,) = placing(one, *parts).placed(chosen(one, flavors=given, count=count)).pod_sets
    if problem:
        assert (pods.outcome, pods.refusal) == (Outcome.NO_FIT, Code.NO_MATCHING_FLAVOR)
        assert pods.reasons[-1].value("problem") == problem
    else:
        assert pods.outcome is Outcome.FIT


@pytest.mark.parametrize(
    ("rules", "is_later"),
    [
        pytest.param([CheckRule(name="nodes", delays_place=True)], True, id="a check makes the nodes"),
        pytest.param([CheckRule(name="budget")], False, id="a check does not"),
        pytest.param([CheckRule(name="x", delays_place=True, flavors=frozenset((FLAVOR,)))], True, id="for this one"),
        pytest.param([CheckRule(name="x", delays_place=True, flavors=frozenset(("y",)))], False, id="for another one"),
    ],
)
def test_place_is_decided_later(rules, is_later):
    one = near("w", 3)
    found = placing(one, home=replace(HOME, checks=tuple(rules))).placed(chosen(one))
    assert (found.pod_sets[0].is_delayed, places(found)) == (is_later, [None if is_later else {"c": 3}])
    assert found.outcome is Outcome.FIT


def test_place_of_one_that_holds_quota_is_not_put_off_again():
    one = running("w", pod_sets=near("w", 3).pod_sets)
    home = replace(HOME, checks=(CheckRule(name="nodes", delays_place=True),))
    assert places(placing(one, home=home).placed(chosen(one))) == [{"c": 3}]


# Questions -------------------------------------------------------------------------------------------------------


def test_what_is_asked_of_each_flavor():
    one = workload("w", pod_sets=tuple(pod_set(name, topology=IN_ONE_RACK) for name in ("x", "y", "none", "later")))
    x, y, none, later = one.pod_sets
    given = (choice(x), choice(y, flavor="other"), choice(none, count=0), choice(later, is_delayed=True))
    asks = placing(one, *TWO_RACKS, racks("other")).asks(Assignment(pod_sets=given, usage={}, level=0))
    assert {flavor: [ask.name for ask in members] for flavor, members in asks.items()} == {
        FLAVOR: ["x"],
        "other": ["y"],
    }


def test_what_places_take_of_the_nodes():
    """What the pods' spec says, whatever quota counts."""
    pods = pod_set(count=2, topology=IN_ONE_RACK)
    one = workload("w", pod_sets=(replace(pods, shape=replace(pods.shape, requests={GPU: 1, CPU: 500})),))
    finder = placing(one, racks(), host("r1/a", 2, amounts={CPU: 1000}))
    assert finder.uses(chosen(one)) == []
    (use,) = finder.uses(finder.placed(chosen(one, attempts=())))
    assert (use.flavor, use.assignment, use.requests) == (FLAVOR, on_hosts({"a": 2}), {GPU: 1, CPU: 500})


@pytest.mark.parametrize(
    ("count", "flavor", "want"), [(4, FLAVOR, True), (5, FLAVOR, False), (5, "plain", True), (0, FLAVOR, True)]
)
def test_whether_there_is_a_place(count, flavor, want):
    one = near("w", count)
    assert placing(one).has_place(chosen(one, flavor=flavor)) is want


@pytest.mark.parametrize(
    ("is_empty", "want"),
    [
        pytest.param(False, [{"a": 2, "b": 1}], id="free now"),
        pytest.param(True, [{"c": 3}], id="if nobody was there"),
    ],
)
def test_places_are_found_anew_and_modes_stay(is_empty, want):
    one = near("w", 3)
    found = placing(one, *TWO_RACKS, placed("r", {"c": 1})).relocated(chosen(one, Mode.RECLAIM), is_empty=is_empty)
    assert (places(found), found.pod_sets[0].flavors[GPU].mode) == (want, Mode.RECLAIM)


def test_place_that_is_not_there_any_more_is_taken_out():
    one = near("w", 5)
    before = chosen(one, place=on_hosts({"a": 5}))
    assert places(placing(one).relocated(before, is_empty=False)) == [None]
    elsewhere = chosen(one, flavor="plain")
    assert placing(one).relocated(elsewhere, is_empty=False) is elsewhere


# One that holds quota --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "want"),
    [
        pytest.param({"b": 1, "c": 2}, [{"a": 1, "c": 2}], id="only the pods of that host move"),
        pytest.param({"a": 1}, [{"a": 1}], id="nothing was there"),
    ],
)
def test_pods_of_a_lost_host(hosts, want):
    one = placed("w", hosts, request=TopologyRequest(is_unconstrained=True))
    found = placing(one, racks(), host("r1/a", 2), host("r2/c", 2), one).replaced(chosen(one), "b")
    assert (found.outcome, places(found)) == (Outcome.FIT, want)


def test_lost_host_without_another_one():
    one = placed("w", {"b": 1, "a": 2})
    found = placing(one, racks(), host("r1/a", 2), host("r2/c", 2), one).replaced(chosen(one), "b")
    assert (found.outcome, found.refusal) == (Outcome.NO_FIT, Code.TOPOLOGY_PLACEMENT_FAILED)


def test_only_what_has_no_place_yet_is_placed():
    one = workload("w", pod_sets=tuple(pod_set(name, topology=IN_ONE_RACK) for name in ("x", "y")))
    x, y = one.pod_sets
    finder = placing(one, *TWO_RACKS, racks("other"))
    for flavor in (FLAVOR, "other"):
        given = (choice(x, place=on_hosts({"a": 1})), choice(y, flavor=flavor))
        assert places(finder.settled(Assignment(pod_sets=given, usage={}, level=0))) == [{"a": 1}, {"c": 1}]
    done = chosen(one, place=on_hosts({"c": 1}))
    assert placing(one).settled(done) is done


def test_place_that_cannot_be_settled():
    one = near("w", 9)
    found = placing(one).settled(chosen(one))
    assert (found.outcome, found.refusal) == (Outcome.NO_FIT, Code.TOPOLOGY_PLACEMENT_FAILED)


# In words --------------------------------------------------------------------------------------------------------


def refusal(why=Unplaced.TOO_FEW, **fields):
    return PlacementRefusal(why=why, topology=fields.pop("topology", "racks"), **fields)


@pytest.mark.parametrize(
    ("why", "want"),
    [
        (refusal(fitting=3, asked=4), "3 of 4 pods fit of topology racks"),
        (refusal(fitting=3, asked=4, level=RACK), f"3 of 4 pods fit at the level {RACK} of topology racks"),
        (refusal(fitting=0, asked=2, is_of_slices=True), "0 of 2 slices fit of topology racks"),
        (
            refusal(fitting=1, asked=2, nodes=5, excluded=(("taint", 3), ("cpu", 1))),
            "1 of 2 pods fit of topology racks; of 5 nodes kept out: 3 for taint, 1 for cpu",
        ),
        (refusal(Unplaced.LEVEL_MISSING, level=RACK), f"LevelMissing at the level {RACK} of topology racks"),
        (refusal(Unplaced.NO_DOMAINS), "NoDomains of topology racks"),
        (refusal(Unplaced.NO_DOMAINS, topology=""), "NoDomains"),
    ],
)
def test_refusal_in_words(why, want):
    assert refusal_text(why) == want


# In cycles -------------------------------------------------------------------------------------------------------


def test_quota_and_place_are_needed_both():
    state = state_of(queue("team-a", gpus=3), *TWO_RACKS, near("w", 4), near("v", 3, queued_at=1))
    plan = run_cycle(state)
    assert (placements(plan), waits(plan)) == ({}, {"w": Code.EXCEEDS_MAX_QUOTA})
    assert placements(run_cycle(state)) == {"v": {"c": 3}}


def test_part_of_a_workload_finds_a_place():
    pods = pod_set(count=9, least=2, topology=IN_ONE_RACK)
    plan = run_cycle(state_of(HOME, *TWO_RACKS, workload("w", pod_sets=(pods,))))
    assert (counts(plan), placements(plan)) == ({"w": (4,)}, {"w": {"a": 2, "b": 2}})


def test_flavor_is_chosen_by_quota_and_the_next_one_is_tried_after_a_missing_place():
    home = queue("team-a", flavors={"red": 9, "green": 9})
    kinds = [racks(name, labels={"pool": name}) for name in ("red", "green")]
    hosts = [host("r1/a", 1, labels={"pool": "red"}), host("r1/b", 4, labels={"pool": "green"})]
    state = state_of(home, *kinds, *hosts, near("w", 3))
    first = run_cycle(state)
    assert (reserved(first), waits(first)) == ({}, {"w": Code.TOPOLOGY_PLACEMENT_FAILED})
    assert placements(run_cycle(state)) == {"w": {"b": 3}}


def test_two_flavors_of_the_same_hosts_share_them():
    home = queue("team-a", flavors={"red": 2, "green": 9})
    state = state_of(home, racks("red"), racks("green"), host("r1/a", 3), near("v", 2), near("w", 2, queued_at=1))
    assert placements(run_cycle(state)) == {"v": {"a": 2}}
    run_cycle(state)
    assert hosts_of(state.workloads["default/w"].admission) is None


def test_victims_leave_for_a_place_and_not_for_quota_alone():
    home = replace(HOME, preemption=preempts(within=LOWER))
    low = [placed("on-a", {"a": 1}), placed("on-c", {"c": 1})]
    state = state_of(home, racks(), host("r1/a", 1), host("r2/c", 2), *low, near("w", 2, priority=1))
    assert evicted(run_cycle(state)) == {"on-c": Code.PREEMPTED_IN_QUEUE}
    assert placements(run_cycle(state)) == {"w": {"c": 2}}


def test_check_that_delays_the_place_delays_the_start():
    home = replace(HOME, checks=(CheckRule(name="nodes", delays_place=True),))
    state = state_of(home, racks(), near("w", 2), near("v", 2, checks={"nodes": CheckState.READY}, queued_at=1))
    (first,), (second,) = run_cycle(state).reserves, run_cycle(state).reserves
    assert [hosts_of(one.admission) for one in (first, second)] == [None, None]
    assert (first.is_admitted, second.is_admitted) == (False, True)
