"""The waiting room: who is tried next in every queue, who is set aside, and what calls them back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.lines import is_backing_off
from muster.engine.tree import QuotaTree
from muster.engine.waiting import WaitingRoom
from muster.model.plan import Requeue, Return, ScanProgress
from muster.model.queue import Order, Stop
from tests.engine.builders import (
    LOWER,
    NOW,
    cohort,
    evicted,
    evicted_from,
    key_of,
    name_of,
    preempts,
    queue,
    reserved,
    run_cycle,
    run_cycles,
    running,
    state_of,
    waits,
    workload,
)
from tests.engine.fair_builders import submitted

STRICT, BEST_EFFORT = Order.STRICT_FIFO, Order.BEST_EFFORT_FIFO
CYCLE = 5


class Room(WaitingRoom):
    """A waiting room that knows its tree by name."""

    def __init__(self, *queues, admits=True, used_by=None):
        self.tree = QuotaTree(queues or (queue("team-a"),))
        super().__init__(self.tree, lambda node, one: admits, used_by)

    def change(self, root, cycle=CYCLE + 1):
        """Something changed in a tree."""
        self.flush(self.tree.nodes[root], cycle)


def entered(*workloads, queues=(), now=NOW, **fields):
    """A waiting room with these workloads in it."""
    made = Room(*queues, **fields)
    for one in workloads:
        made.add(one, now)
    return made


def heads(made, now=NOW, first=""):
    return [name_of(head.key) for _, head in made.heads(now, first)]


def refused(name, why=Return.NO_FIT, *, home="team-a", **fields):
    return Requeue(workload=key_of(name), queue=home, why=why, **fields)


def back(made, decision, *, cycle=CYCLE, now=NOW):
    made.put_back(decision, cycle, now, parks_alike=True)


def parked(made, home="team-a", now=NOW):
    return sorted(name_of(one.key) for one in made.line(home, now).parked())


# Heads -----------------------------------------------------------------------------------------------------------

THREE = [queue(name) for name in "abc"]


@pytest.mark.parametrize(
    ("first", "want"),
    [
        pytest.param("", "abc", id="in the order of their names"),
        pytest.param("b", "bca", id="from the one where the last cycle ended"),
        pytest.param("bb", "cab", id="or the next one, where that is gone"),
        pytest.param("z", "abc", id="or the first one"),
    ],
)
def test_heads_of_all_queues(first, want):
    made = entered(*(workload(name, queue=name) for name in "abc"), queues=THREE)
    assert "".join(heads(made, first=first)) == want


@pytest.mark.parametrize(
    ("home", "want"),
    [
        pytest.param(queue("team-a"), ["w"], id="it takes part"),
        pytest.param(queue("team-a", stop=Stop.HOLD), [], id="it is stopped"),
        pytest.param(queue("team-a", stop=Stop.HOLD_AND_DRAIN), [], id="and emptied"),
        pytest.param(queue("team-a", inactive_because="a flavor is missing"), [], id="something is missing"),
    ],
)
def test_queue_that_takes_part(home, want):
    assert heads(entered(workload("w"), queues=[home])) == want


def test_first_of_a_line_is_its_head():
    made = entered(
        workload("late", queued_at=2), workload("early", queued_at=1), workload("high", queued_at=3, priority=1)
    )
    order = []
    while found := heads(made):
        order += found
        made.remove(workload(found[0]))
    assert order == ["high", "early", "late"]


def test_submit_queues_take_turns_where_the_queue_says_so():
    used = {key_of("much"): 5.0, key_of("little"): 1.0}
    waiting = [submitted("first", to="much"), submitted("second", to="little", queued_at=9)]
    for takes_turns, want in ((True, ["second"]), (False, ["first"])):
        home = queue("team-a", is_usage_ordered=takes_turns)
        assert heads(entered(*waiting, queues=[home], used_by=used.get)) == want


def test_lines_are_those_of_leaves():
    made = Room(cohort("x"), queue("team-a", cohort="x"))
    assert ("team-a" in made, "x" in made, list(made.lines(NOW))) == (True, False, ["team-a"])


def test_one_that_waits_nowhere_can_leave_and_be_put_back_without_harm():
    made = Room()
    made.remove(workload("w", queue="gone"))
    back(made, refused("w", home="gone"))
    back(made, refused("nobody"))
    assert heads(made) == []


# After a try -----------------------------------------------------------------------------------------------------

PENDING = ScanProgress(tried=({"gpu": 0},), generation=0, kind_key="", cycle=0)
DONE = replace(PENDING, tried=({"gpu": -1},))


@pytest.mark.parametrize(
    ("order", "decision", "stays"),
    [
        pytest.param(BEST_EFFORT, refused("w"), False, id="it steps aside"),
        pytest.param(STRICT, refused("w"), True, id="in a strict line it blocks the others"),
        pytest.param(STRICT, refused("w", Return.NAMESPACE_MISMATCH), False, id="unless it does not belong there"),
        pytest.param(BEST_EFFORT, refused("w", Return.FAILED_AFTER_NOMINATION), True, id="it lost to another"),
        pytest.param(BEST_EFFORT, refused("w", Return.PENDING_PREEMPTION), True, id="its victims are leaving"),
        pytest.param(BEST_EFFORT, refused("w", Return.PENDING_MIGRATION), True, id="its other self is leaving"),
        pytest.param(BEST_EFFORT, refused("w", Return.PREEMPTION_NO_CANDIDATES), False, id="nobody can leave"),
        pytest.param(BEST_EFFORT, refused("w", Return.PREEMPTION_GATED), False, id="nobody may leave for it"),
        pytest.param(BEST_EFFORT, refused("w", Return.GENERIC), False, id="it was not even tried"),
        pytest.param(BEST_EFFORT, refused("w", progress=PENDING), True, id="a flavor is left to try"),
        pytest.param(BEST_EFFORT, refused("w", progress=DONE), False, id="no flavor is left to try"),
        pytest.param(BEST_EFFORT, refused("w", starts_over=True), True, id="flavors may suit by now"),
    ],
)
def test_one_that_was_tried_in_vain(order, decision, stays):
    made = entered(workload("w"), queues=[queue("team-a", order=order)])
    back(made, decision)
    assert (heads(made), parked(made)) == ((["w"], []) if stays else ([], ["w"]))


def test_one_that_backs_off_is_set_aside_whatever_the_reason():
    made = entered(workload("w", held_until=NOW + 9), now=NOW + 9)
    back(made, refused("w", Return.PENDING_PREEMPTION), now=NOW)
    assert parked(made) == ["w"]


def test_those_alike_are_set_aside_together():
    alike = [workload(f"w{number}", kind_key="same", queued_at=number) for number in range(3)]
    made = entered(*alike, workload("other", kind_key="different", queued_at=9))
    back(made, refused("w0"))
    assert (parked(made), heads(made)) == (["w0", "w1", "w2"], ["other"])
    made.add(workload("w3", kind_key="same"), NOW)
    assert parked(made) == ["w0", "w1", "w2", "w3"], "one that comes later as well"


@pytest.mark.parametrize(
    ("decision", "alike"),
    [
        pytest.param(refused("w0"), True, id="it did not fit"),
        pytest.param(refused("w0", Return.PREEMPTION_NO_CANDIDATES), True, id="nobody could leave"),
        pytest.param(refused("w0", is_personal=True), False, id="only its own past explains it"),
        pytest.param(refused("w0", Return.GENERIC), False, id="it was not even tried"),
    ],
)
def test_refusal_says_whether_others_alike_would_fare_the_same(decision, alike):
    made = entered(*(workload(f"w{number}", kind_key="same", queued_at=number) for number in range(2)))
    back(made, decision)
    assert heads(made) == ([] if alike else ["w1"])


def test_those_alike_are_tried_one_by_one_where_the_setting_says_so():
    made = entered(*(workload(f"w{number}", kind_key="same", queued_at=number) for number in range(2)))
    made.put_back(refused("w0"), CYCLE, NOW, parks_alike=False)
    assert heads(made) == ["w1"]


# Called back -----------------------------------------------------------------------------------------------------

TWO_TREES = [cohort("x"), queue("a", cohort="x"), queue("b", cohort="x"), queue("c")]


def set_aside(**fields):
    """One workload in each of three queues of two trees, all set aside."""
    made = entered(*(workload(name, queue=name) for name in "abc"), queues=TWO_TREES, **fields)
    for name in "abc":
        back(made, refused(name, home=name))
    assert heads(made) == []
    return made


@pytest.mark.parametrize(("root", "want"), [("x", ["a", "b"]), ("c", ["c"])])
def test_change_calls_back_the_whole_tree_and_no_other(root, want):
    made = set_aside()
    made.change(root)
    assert heads(made) == want


def test_line_follows_a_change_when_it_is_next_looked_at():
    made = set_aside()
    made.change("x")
    assert parked(made, "a") == []
    assert heads(made) == ["a", "b"]
    back(made, refused("a", home="a"), cycle=CYCLE + 2)
    assert heads(made) == ["b"], "a change is followed once"


def test_change_in_the_same_cycle_keeps_one_in_line():
    made = entered(workload("w"))
    made.change("team-a", CYCLE)
    back(made, refused("w"), cycle=CYCLE)
    assert heads(made) == ["w"]
    back(made, refused("w"), cycle=CYCLE + 1)
    assert heads(made) == []


def test_only_those_are_called_back_who_may_be_tried():
    held = [workload("backing-off", queue="a", held_until=NOW + 9), workload("held", queue="b", is_held=True)]
    made = entered(*held, workload("c", queue="c"), queues=TWO_TREES)
    made.change("x")
    assert heads(made) == ["c"]


def test_stranger_stays_aside():
    made = entered(workload("w"), admits=False)
    back(made, refused("w", Return.NAMESPACE_MISMATCH))
    made.change("team-a")
    assert parked(made) == ["w"]


def test_new_workload_wakes_its_queue():
    made = set_aside()
    made.add(workload("new", queue="b"), NOW)
    assert heads(made) == ["new"]


# Back-off --------------------------------------------------------------------------------------------------------


def test_one_that_backs_off_comes_back_when_its_time_is_over():
    made = entered(workload("w", held_until=NOW + 5))
    assert heads(made) == []
    made.call_due(NOW + 4)
    assert heads(made, NOW + 4) == []
    made.call_due(NOW + 5)
    assert heads(made, NOW + 5) == ["w"]


def test_later_word_on_the_back_off_counts():
    made = entered(workload("w", held_until=NOW + 5), workload("w", held_until=NOW + 9))
    made.call_due(NOW + 5)
    assert heads(made, NOW + 5) == []
    made.call_due(NOW + 9)
    assert heads(made, NOW + 9) == ["w"]


@pytest.mark.parametrize(
    "leaves",
    [
        pytest.param(lambda made: made.remove(workload("w")), id="it left"),
        pytest.param(lambda made: made.add(workload("w", is_held=True), NOW), id="it is held for good"),
    ],
)
def test_one_that_is_not_there_any_more_is_not_called(leaves):
    made = entered(workload("w", held_until=NOW + 5))
    leaves(made)
    made.call_due(NOW + 9)
    assert heads(made, NOW + 9) == []


def test_limit_that_runs_out_calls_back_whom_it_kept_waiting():
    made = entered(workload("w", kind_key="k"), workload("v", kind_key="k", queued_at=1))
    back(made, refused("w", retry_at=NOW + 3))
    assert heads(made) == []
    made.call_due(NOW + 3)
    assert heads(made, NOW + 3) == ["w"]
    made.remove(workload("w"))
    assert heads(made, NOW + 3) == ["v"], "and those set aside with it"


@pytest.mark.parametrize(
    ("one", "want"),
    [
        (workload("w"), False),
        (workload("w", is_held=True), True),
        (workload("w", held_until=NOW), False),
        (workload("w", held_until=NOW + 1), True),
    ],
)
def test_who_backs_off(one, want):
    assert is_backing_off(one, NOW) is want


# In cycles -------------------------------------------------------------------------------------------------------


def test_cycle_in_which_nothing_can_change_tries_nobody():
    state = state_of(queue("team-a", gpus=1), running("r"), *(workload(f"w{n}", kind_key="k") for n in range(9)))
    assert len(run_cycle(state).verdicts) == 1
    assert run_cycle(state).decisions == ()
    state.drop(key_of("r"))
    assert list(reserved(run_cycle(state))) == ["w0"]


def test_preemptor_stays_at_the_head_until_its_victims_are_gone():
    home = queue("team-a", gpus=1, preemption=preempts(within=LOWER))
    state = state_of(home, running("low"), workload("high", priority=1))
    first = run_cycle(state, victims_leave=False)
    assert list(evicted(first)) == ["low"]
    state.take(workload("higher", priority=2))
    assert list(waits(run_cycle(state, victims_leave=False))) == ["high"], "it goes before a higher one"
    state.take(evicted_from(state.workloads[key_of("low")]))
    assert list(reserved(run_cycle(state))) == ["high"]


def test_cut_short_cycle_goes_on_where_it_stopped():
    state = state_of(*(queue(name, gpus=1) for name in "abc"), *(workload(name, queue=name) for name in "abc"))
    state.resumes_at = "b"
    assert [node.name for node, _ in state.heads()] == ["b", "c", "a"]


def test_lines_of_different_queues_are_worked_off_side_by_side():
    state = state_of(
        *(queue(name, gpus=9) for name in "ab"), *(workload(f"{q}{n}", queue=q) for q in "ab" for n in "01")
    )
    assert [sorted(reserved(plan)) for plan in run_cycles(state, 3)] == [["a0", "b0"], ["a1", "b1"], []]
