"""Victim search: who may be taken, in which order, and how few are enough."""

from __future__ import annotations

import pytest

from muster.engine.holders import Holder
from muster.engine.tree import QuotaNode
from muster.engine.victims import Preemptor, VictimSearch, candidate_order, fits_with, is_spared, may_preempt
from muster.model.queue import PreemptionPolicy, PreemptionRules
from muster.model.reason import Code
from muster.model.settings import PreemptionGuards, Settings
from tests.engine.builders import (
    ANY,
    CPU,
    GPU,
    GPUS,
    LOWER,
    NEVER,
    NEWER,
    NOW,
    cohort,
    guarded,
    name_of,
    node_of,
    preempts,
    queue,
    quota,
    running,
    state_of,
    usage_of,
    workload,
)

EQUAL = PreemptionPolicy.LOWER_OR_EQUAL_PRIORITY
OWN, RECLAIMED, WHILE_BORROWING = Code.PREEMPTED_IN_QUEUE, Code.RECLAIMED, Code.RECLAIMED_WHILE_BORROWING


def search_in(state):
    return VictimSearch(holders=state.holders, ledger=state.ledger, settings=state.settings, now=state.now)


def preemptor_in(state, one):
    """Somebody who has to make room for all that it asks for."""
    gpus = one.pod_sets[0].requests["nvidia.com/gpu"] * one.pod_sets[0].count
    return Preemptor(workload=one, queue=node_of(state, one.queue), requests={GPUS: gpus}, contested=frozenset([GPUS]))


def find(*parts, who=None, settings=None):
    """The victims of one who asks for four cards of team-a, in the order of taking."""
    state = state_of(*parts, settings=settings)
    before = usage_of(state)
    victims = search_in(state).find(preemptor_in(state, who or workload("me", gpus=4, priority=5)))
    assert usage_of(state) == before, "a search leaves no trace"
    assert not list(state.ledger.gone())
    return {name_of(victim.holder.workload.key): victim.code for victim in victims}


# Who may be taken ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "lower", "newer_equal", "older_equal", "higher"),
    [
        (NEVER, False, False, False, False),
        (PreemptionPolicy.UNSET, False, False, False, False),
        (LOWER, True, False, False, False),
        (NEWER, True, True, False, False),
        (EQUAL, True, True, True, False),
        (ANY, True, True, True, True),
    ],
)
def test_policies(policy, lower, newer_equal, older_equal, higher):
    me = workload("me", priority=5, queued_at=10)
    others = [(4, 1), (5, 11), (5, 10), (6, 99)]
    got = [may_preempt(policy, me, workload("other", priority=p, queued_at=at)) for p, at in others]
    assert got == [lower, newer_equal, older_equal, higher]


@pytest.mark.parametrize(
    ("fields", "guards", "spared"),
    [
        pytest.param({"reserved_at": NOW}, {}, False, id="nothing is set"),
        pytest.param({"reserved_at": NOW - 59}, {"run_time_least_s": 60}, True, id="has run for too short a time"),
        pytest.param({"reserved_at": NOW - 60}, {"run_time_least_s": 60}, False, id="has run long enough"),
        pytest.param({"reserved_at": None}, {"run_time_least_s": 60}, True, id="has only just started"),
        pytest.param({"preempted_at": NOW - 59}, {"workload_cool_down_s": 60}, True, id="was preempted a moment ago"),
        pytest.param({"preempted_at": NOW - 60}, {"workload_cool_down_s": 60}, False, id="was preempted long ago"),
        pytest.param({}, {"workload_cool_down_s": 60}, False, id="was never preempted"),
        pytest.param({"is_preemptible": False}, {"honours_marks": True}, True, id="is marked"),
        pytest.param({"is_preemptible": False}, {}, False, id="marks are not honoured"),
        pytest.param({"is_preemptible": False}, {"run_time_least_s": 1}, False, id="nor by other settings"),
        pytest.param(
            {"is_preemptible": False, "is_evicted": True}, {"honours_marks": True}, False, id="leaves already"
        ),
    ],
)
def test_guards(fields, guards, spared):
    one = running("old", **fields)
    assert is_spared(one, PreemptionGuards(**guards), NOW) is spared
    taken = find(
        queue("team-a", gpus=4, preemption=preempts(within=LOWER)),
        running("old", gpus=4, **fields),
        settings=Settings(guards=PreemptionGuards(**guards)),
    )
    assert taken == ({} if spared else {"old": OWN})


def test_guards_are_off_by_default():
    assert not PreemptionGuards().is_any_on
    assert guarded(run_time_least_s=1).guards.is_any_on


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(dict(is_evicted=True, priority=9), dict(priority=1), id="one that leaves already"),
        pytest.param(dict(queue="b", priority=9), dict(priority=1), id="another queue's"),
        pytest.param(dict(priority=1), dict(priority=2), id="lower priority"),
        pytest.param(dict(reserved_at=9.0), dict(reserved_at=8.0), id="later admitted"),
        pytest.param(dict(reserved_at=None), dict(reserved_at=8.0), id="admitted just now"),
        pytest.param(dict(uid="1"), dict(uid="2"), id="smaller uid"),
    ],
)
def test_order_of_taking(first, second):
    def place(fields):
        one = running("any", **fields)
        return candidate_order(Holder(one, QuotaNode(queue(one.queue)), {}, frozenset()), "team-a", NOW)

    assert place(first) < place(second)


def test_heavier_users_of_the_own_queue_go_first():
    holder = Holder(running("any"), QuotaNode(queue("team-a")), {}, frozenset())
    assert candidate_order(holder, "team-a", NOW, consumed=5.0) < candidate_order(holder, "team-a", NOW, consumed=1.0)
    assert candidate_order(holder, "b", NOW, consumed=5.0) == candidate_order(holder, "b", NOW, consumed=1.0)


# Within the queue ------------------------------------------------------------------------------------------------

ALONE = queue("team-a", gpus=6, preemption=preempts(within=LOWER))


@pytest.mark.parametrize(
    ("holders", "want"),
    [
        pytest.param([running("old", gpus=6)], ["old"], id="the one in the way"),
        pytest.param([running("old", gpus=6, priority=5)], [], id="an equal stays"),
        pytest.param([running("a", gpus=3), running("b", gpus=3, priority=1)], ["b", "a"], id="both"),
        pytest.param(
            [running("a", gpus=1), running("b", gpus=4, priority=1)], ["b"], id="spares who is not needed gone"
        ),
        pytest.param(
            [running("a", gpus=2, priority=1), running("b", gpus=2, priority=2), running("c", gpus=2, priority=3)],
            ["a", "b"],
            id="the lowest priorities",
        ),
        pytest.param([running("a", gpus=3), running("b", gpus=3, priority=5)], [], id="no half measures"),
        pytest.param([running("a", gpus=6, flavor="other")], [], id="one who uses nothing that is needed"),
        pytest.param(
            [running("a", gpus=5, is_evicted=True, priority=4), running("b", gpus=1)],
            ["a"],
            id="waits for one who leaves",
        ),
    ],
)
def test_within_the_queue(holders, want):
    taken = find(ALONE, *holders)
    assert sorted(taken) == sorted(want)
    assert set(taken.values()) <= {OWN}


def test_nobody_without_a_rule():
    assert find(queue("team-a", gpus=6), running("old", gpus=6)) == {}


def test_older_slice_of_itself_is_no_victim():
    me = workload("me", gpus=4, priority=5, replaces="default/old")
    assert find(ALONE, running("old", gpus=6), who=me) == {}


def test_one_set_aside_already_cannot_be_taken_again():
    state = state_of(ALONE, running("old", gpus=6))
    holder = state.holders.get("default/old")
    state.ledger.take_out("default/old", holder.queue, holder.usage)
    assert search_in(state).find(preemptor_in(state, workload("me", gpus=8, priority=5))) == []


# Reclaim from others ---------------------------------------------------------------------------------------------


def team_a(gpus=4, **rules):
    return queue("team-a", cohort="x", gpus=gpus, preemption=preempts(**rules))


def lenders(gpus=4):
    return queue("b", cohort="x", gpus=gpus)


@pytest.mark.parametrize(
    ("rules", "holder", "want"),
    [
        pytest.param(
            {"reclaim": ANY}, running("theirs", gpus=8, queue="b", priority=9), RECLAIMED, id="takes back its own"
        ),
        pytest.param({"reclaim": LOWER}, running("theirs", gpus=8, queue="b"), RECLAIMED, id="from a lower priority"),
        pytest.param(
            {"reclaim": LOWER}, running("theirs", gpus=8, queue="b", priority=9), None, id="not from a higher"
        ),
        pytest.param(
            {"reclaim": EQUAL}, running("theirs", gpus=8, queue="b", priority=5), RECLAIMED, id="from an equal"
        ),
        pytest.param(
            {"reclaim": ANY, "is_fence": True}, running("theirs", gpus=8, queue="b"), None, id="not from behind a fence"
        ),
        pytest.param({"reclaim": NEVER}, running("theirs", gpus=8, queue="b"), None, id="not at all"),
        pytest.param(
            {"reclaim": PreemptionPolicy.UNSET}, running("theirs", gpus=8, queue="b"), None, id="nothing said"
        ),
        pytest.param({"reclaim": ANY}, running("mine", gpus=8), None, id="its own queue has another rule"),
        pytest.param({"within": LOWER}, running("mine", gpus=8), OWN, id="namely this one"),
    ],
)
def test_reclaim(rules, holder, want):
    assert list(find(team_a(**rules), lenders(), holder).values()) == ([want] if want else [])


def test_who_may_not_preempt_takes_nobody():
    me = workload("me", gpus=4, priority=5, may_preempt=False)
    assert find(team_a(reclaim=ANY), lenders(), running("theirs", gpus=8, queue="b"), who=me) == {}


def test_those_who_are_spared_stay():
    spared = queue("b", cohort="x", gpus=4, preemption=PreemptionRules(is_spared=True))
    assert find(team_a(reclaim=ANY), spared, running("theirs", gpus=8, queue="b")) == {}


@pytest.mark.parametrize(
    ("fence", "want"),
    [("", ["far"]), ("team", ["near"]), ("top", ["far"])],
)
def test_a_fence_around_a_branch(fence, want):
    def branch(name, **fields):
        return cohort(name, preemption=PreemptionRules(is_fence=name == fence), **fields)

    parts = [
        branch("top", gpus=4),
        branch("team", parent="top"),
        queue("team-a", cohort="team", gpus=4, preemption=preempts(reclaim=ANY)),
        queue("b", cohort="team", gpus=0),
        queue("c", cohort="top", gpus=0),
    ]
    near, far = running("near", queue="b", gpus=4, priority=2), running("far", queue="c", gpus=4, priority=1)
    assert list(find(*parts, near, far, who=workload("me", gpus=2, priority=5))) == want


@pytest.mark.parametrize(("is_alone", "want"), [(False, []), (True, ["theirs"])])
def test_a_right_that_is_about_shares_alone(is_alone, want):
    """A queue that has a share of cards and none of cores takes cards back, whatever cores it asks for beside."""
    rules = preempts(reclaim=ANY, counts_shares_alone=is_alone)
    mine = queue("team-a", cohort="x", flavors={"default": {GPU: 4, CPU: 0}}, preemption=rules)
    theirs = queue("b", cohort="x", flavors={"default": {GPU: 4, CPU: 100}})
    state = state_of(mine, theirs, running("theirs", queue="b", gpus=8))
    requests = {GPUS: 4, ("default", CPU): 1}
    me = Preemptor(
        workload=workload("me", gpus=4), queue=node_of(state, "team-a"), requests=requests, contested=frozenset([GPUS])
    )
    assert [name_of(victim.holder.workload.key) for victim in search_in(state).find(me)] == want


def test_who_has_no_share_at_all_takes_nothing_back():
    rules = {"reclaim": ANY, "counts_shares_alone": True}
    assert find(team_a(0, **rules), lenders(8), running("theirs", gpus=9, queue="b")) == {}


def test_queue_within_its_share_is_left_alone():
    parts = [team_a(reclaim=ANY), lenders(), queue("c", cohort="x", gpus=0)]
    taken = find(*parts, running("b1", gpus=4, queue="b"), running("c1", gpus=4, queue="c", priority=9))
    assert taken == {"c1": RECLAIMED}


def test_borrowing_queue_is_left_alone_once_it_is_back_within_its_share():
    parts = [team_a(5, reclaim=ANY), queue("b", cohort="x", gpus=2), queue("c", cohort="x", gpus=1)]
    holders = [running(f"b{n}", gpus=2, queue="b", priority=n) for n in range(2)]
    holders.append(running("c1", gpus=4, queue="c", priority=9))
    taken = find(*parts, *holders, who=workload("me", gpus=5))
    assert taken == {"b0": RECLAIMED, "c1": RECLAIMED}, "b1 is within what b brings"


@pytest.mark.parametrize(
    ("rules", "priority", "want"),
    [
        pytest.param({}, 0, {}, id="a borrower reclaims nothing"),
        pytest.param({"may_borrow": True}, 0, {"theirs": WHILE_BORROWING}, id="unless it may borrow"),
        pytest.param({"may_borrow": True}, 5, {}, id="but not from an equal"),
        pytest.param(
            {"may_borrow": True, "borrow_priority_most": 1}, 1, {"theirs": WHILE_BORROWING}, id="at the threshold"
        ),
        pytest.param({"may_borrow": True, "borrow_priority_most": 1}, 2, {}, id="above the threshold"),
    ],
)
def test_preempting_while_borrowing(rules, priority, want):
    taken = find(team_a(2, reclaim=ANY, **rules), lenders(), running("theirs", gpus=6, queue="b", priority=priority))
    assert taken == want


def test_within_its_share_it_takes_by_right_even_above_the_threshold():
    rules = {"reclaim": ANY, "may_borrow": True, "borrow_priority_most": 1}
    parts = [team_a(4, **rules), lenders()]
    assert find(*parts, running("theirs", gpus=8, queue="b", priority=9)) == {"theirs": RECLAIMED}


def test_own_queue_is_taken_only_after_others():
    parts = [team_a(4, within=LOWER, reclaim=ANY), lenders()]
    holders = [running("mine", gpus=2), running("theirs", gpus=6, queue="b", priority=3)]
    assert find(*parts, *holders, who=workload("me", gpus=2, priority=5)) == {"theirs": RECLAIMED}


def test_tries_without_borrowing_first_where_it_may_not_borrow():
    parts = [team_a(5, within=LOWER, reclaim=ANY), lenders(3)]
    holders = [running("mine", gpus=3), running("theirs", gpus=5, queue="b")]
    me = workload("me", gpus=4, priority=5)
    assert find(*parts, *holders, who=me) == {"mine": OWN, "theirs": RECLAIMED}


def test_falls_back_to_its_own_queue_while_borrowing():
    parts = [team_a(3, within=LOWER, reclaim=LOWER), lenders(3)]
    holders = [running("mine", gpus=2), running("theirs", gpus=4, queue="b", priority=9)]
    assert find(*parts, *holders, who=workload("me", gpus=2, priority=5)) == {"mine": OWN}


# Deeper trees ----------------------------------------------------------------------------------------------------


def deep(*, near=4, far=4, **rules):
    return [
        cohort("top"),
        cohort("near", parent="top"),
        cohort("far", parent="top"),
        queue("team-a", cohort="near", gpus=near, preemption=preempts(**rules)),
        queue("sibling", cohort="near", gpus=0),
        queue("stranger", cohort="far", gpus=far),
    ]


@pytest.mark.parametrize(
    ("parts", "holders", "want"),
    [
        pytest.param(
            deep(reclaim=ANY),
            [running("s", gpus=4, queue="sibling"), running("f", gpus=4, queue="stranger")],
            {"s": RECLAIMED},
            id="from a sibling; a stranger within its share stays",
        ),
        pytest.param(
            deep(reclaim=ANY, far=2),
            [running("f", gpus=6, queue="stranger", priority=9)],
            {"f": RECLAIMED},
            id="from a stranger who borrows",
        ),
        pytest.param(
            [*deep(near=2, reclaim=ANY), queue("rich", cohort="near", gpus=2)],
            [running("f", gpus=8, queue="stranger")],
            {"f": RECLAIMED},
            id="its cohort's quota is its right too",
        ),
        pytest.param(
            deep(near=2, reclaim=ANY),
            [running("f", gpus=6, queue="stranger")],
            {},
            id="beyond its cohort's quota it has no right",
        ),
        pytest.param(
            deep(near=2, reclaim=ANY, may_borrow=True),
            [running("f", gpus=6, queue="stranger")],
            {"f": WHILE_BORROWING},
            id="unless it may borrow",
        ),
    ],
)
def test_hierarchy(parts, holders, want):
    assert find(*parts, *holders) == want


def test_branch_back_within_its_quota_is_left_alone():
    parts = [
        cohort("top"),
        cohort("far", parent="top", gpus=4),
        queue("team-a", cohort="top", gpus=6, preemption=PreemptionRules(reclaim=ANY)),
        queue("f1", cohort="far", gpus=0),
        queue("f2", cohort="far", gpus=0),
    ]
    holders = [running("one", gpus=6, queue="f1", priority=1), running("two", gpus=4, queue="f2", priority=2)]
    assert find(*parts, *holders, who=workload("me", gpus=6)) == {"one": RECLAIMED}
    assert find(*parts, *holders, who=workload("me", gpus=7)) == {}, "nor is anything else to be had"


# Whether it fits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "may_borrow", "does_fit"),
    [(4, False, True), (5, False, False), (5, True, True), (8, True, True), (9, True, False)],
)
def test_fits_with_or_without_borrowing(gpus, may_borrow, does_fit):
    state = state_of(team_a(4), queue("b", cohort="x", gpus=quota(5, lend=4)))
    assert fits_with(preemptor_in(state, workload("me", gpus=gpus)), may_borrow=may_borrow) is does_fit


def test_steps_are_counted():
    state = state_of(ALONE, *(running(f"w{n}", gpus=1) for n in range(6)))
    search = search_in(state)
    search.find(preemptor_in(state, workload("me", gpus=2, priority=5)))
    assert search.steps == 3, "two taken, one tried to be spared"
