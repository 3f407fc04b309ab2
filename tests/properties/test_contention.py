"""Contention: whatever wants the same quota by whatever rules, preemption ends, and takes no more than it must.

Every state has a number. `contend(number)` plays one to its end; a failure names it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import ceil, log2
from random import Random

import pytest
from hypothesis import given

from muster.engine.assignment import Assignment
from muster.engine.cycle import Cycle
from muster.engine.decide import decide
from muster.engine.quota import fits, is_borrowing_with
from muster.engine.state import EngineState
from muster.engine.tree import QuotaNode
from muster.engine.victims import Victim
from muster.model.plan import Evict, Plan
from muster.model.queue import Order
from muster.model.reason import Code
from muster.model.settings import FairSharing, PreemptionGuards, Settings
from muster.model.snapshot import Snapshot
from muster.model.workload import Workload
from tests.engine.builders import (
    ANY,
    CPU,
    GPU,
    LOWER,
    NEWER,
    cohort,
    evicted,
    holders_of,
    let_go,
    lines_of,
    name_of,
    plan_of,
    pod_set,
    preempts,
    queue,
    quota,
    reserved,
    run_until_quiet,
    running,
    state_of,
    workload,
)
from tests.properties.oracle import check_places, check_plan_within_quota, check_usage, oracle_of
from tests.properties.strategies import a_contention, chances, maybe
from tests.support import proof_count

BLOCKS = 50
STATES = 100_000
CYCLES_MOST = 200
PREEMPTIONS_MOST = 3  # of one workload by one contender, nothing else having changed


@dataclass
class Run:
    """A contention state on its way to rest."""

    state: EngineState
    chance: Random
    plans: list[Plan] = field(default_factory=list)
    leaving: list[Evict] = field(default_factory=list)
    preemptions: Counter[tuple[str, str]] = field(default_factory=Counter)

    def until_quiet(self) -> None:
        """Cycle until nothing changes any more."""
        seen: set[object] = set()
        for _ in range(CYCLES_MOST):
            plan = self.cycle()
            if not plan.is_empty or self.leaving:
                seen.clear()
            elif (now := lines_of(self.state)) in seen:
                return
            else:
                seen.add(now)
        raise AssertionError(f"not quiet after {CYCLES_MOST} cycles: {self.preemptions.most_common(3)}")

    def cycle(self) -> Plan:
        """One cycle with all checks. Those told to go take their time now and then."""
        state = self.state
        state.begin_cycle(state.now + 1)
        plan = decide(state)
        check_plan_within_quota(state, plan)
        check_steps(state, plan)
        state.apply(plan)
        self.plans.append(plan)
        self.leaving.extend(plan.evictions)
        self.preemptions.update((one.workload, one.in_favour_of) for one in plan.evictions)
        gone = [one for one in self.leaving if not maybe(self.chance, one_in=8)]
        let_go(state, gone)
        self.leaving = [one for one in self.leaving if one not in gone]
        check_usage(state)
        check_places(state)
        return plan


def check_steps(state: EngineState, plan: Plan) -> None:
    """A cycle takes no more steps than its heads, flavors and holders explain."""
    heads = sum(1 for line in state.lines.values() if line.head() is not None)
    keys = max(len(node.queue.quotas) for node in state.tree.nodes.values())
    parts = 1 + max((shrinks(one) for one in state.workloads.values()), default=0)
    searches = 2 * heads * parts * (keys + 1)  # each is made for every flavor and as a whole, and repeated once
    assert plan.steps <= searches * 4 * max(1, len(state.holders)), f"{plan.steps} steps are more than there is to try"


def shrinks(one: Workload) -> int:
    """How often a smaller part of a workload may be tried."""
    spare = sum(pods.count - pods.count_least for pods in one.pod_sets)
    return ceil(log2(spare + 1)) + 1 if spare else 0


def contend(number: int, snapshot: Snapshot | None = None) -> Run:
    """Play the contention state of a number to its end, and check all of it."""
    chance = Random(number)
    run = Run(EngineState(snapshot if snapshot is not None else a_contention(chance)), chance)
    run.until_quiet()
    too_often = {pair: count for pair, count in run.preemptions.items() if count > PREEMPTIONS_MOST}
    assert not too_often, f"preempted again and again: {too_often}"
    return run


# No victim can be spared -----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _victims_are_checked(monkeypatch):
    """Every victim set that a cycle finds, tried or carried out, is checked on the spot."""
    search = Cycle.victims_for

    def checked(cycle: Cycle, one: Workload, node: QuotaNode, assignment: Assignment) -> list[Victim]:
        victims = search(cycle, one, node, assignment)
        check_minimal(cycle, node, assignment, victims)
        return victims

    monkeypatch.setattr(Cycle, "victims_for", checked)


def check_minimal(cycle: Cycle, node: QuotaNode, assignment: Assignment, victims: list[Victim]) -> None:
    """With all victims gone it fits; with any one of them back it does not, or only by borrowing what it may not."""
    if not victims:
        return
    names = [victim.holder.workload.key for victim in victims]
    assert len(set(names)) == len(names), f"somebody is named twice: {names}"
    does_fit, borrows = stands(cycle, node, assignment, victims)
    assert does_fit, f"{names} leave, and it does not fit"
    for spared in victims:
        would_fit, would_borrow = stands(cycle, node, assignment, [one for one in victims if one is not spared])
        is_needed = not would_fit or (would_borrow and not borrows)
        assert is_needed, f"{spared.holder.workload.key} of {names} could be spared"


def stands(cycle: Cycle, node: QuotaNode, assignment: Assignment, leavers: list[Victim]) -> tuple[bool, bool]:
    """Whether the assignment fits without these, and whether the queue then borrows."""
    mark = cycle.ledger.checkpoint()
    cycle.take_out(leavers)
    does_fit = fits(node, assignment.usage)
    borrows = any(is_borrowing_with(node, key, amount) for key, amount in assignment.usage.items())
    cycle.ledger.rollback(mark)
    return does_fit, borrows


# Preemption ends -------------------------------------------------------------------------------------------------


def problem_of(number: int, snapshot: Snapshot | None = None) -> str:
    """What is wrong with a run."""
    try:
        contend(number, snapshot)
    except AssertionError as problem:
        return f"contend({number}): {problem}"
    return ""


@given(chances)
def test_preemption_ends(chance):
    assert not problem_of(0, a_contention(chance))


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_preemption_ends_in_many_states(block):
    numbers = range(block, proof_count(STATES), BLOCKS)
    problems = [problem for number in numbers if (problem := problem_of(number))]
    assert not problems, "\n".join(problems)


def test_run_is_the_same_every_time():
    plans = [contend(number).plans for number in (1, 2, 3)]
    assert [contend(number).plans for number in (1, 2, 3)] == plans


# Parking ---------------------------------------------------------------------------------------------------------


def check_parked(chance: Random) -> None:
    """Nobody is parked for whom there is room. (Who could preempt may be: a new borrower exposes those beside it.)"""
    snapshot = a_contention(chance)
    run = Run(EngineState(snapshot), chance)
    run.until_quiet()
    state = run.state
    # A known fault, shown in small below: one that lost to a promise may be parked with its first flavor untried.
    lost = {key for plan in run.plans for key, told in plan.verdicts.items() if told.code is Code.LOST_TO_ANOTHER}
    for line in state.lines.values():
        for one in line.parked():
            rest = {key: other for key, other in state.workloads.items() if other.admission is not None}
            alone = EngineState(replace(snapshot, workloads={**rest, one.key: one}, now=state.now))
            alone.begin_cycle(state.now)
            assert not decide(alone).reserves or one.key in lost, f"{one.key} is parked and could start"


@given(chances)
def test_nobody_is_parked_who_could_start(chance):
    check_parked(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(10))
def test_nobody_is_parked_who_could_start_in_many_states(block):
    for index in range(proof_count(10_000) // 10):
        check_parked(Random(index * 10 + block))


# A cycle ends ----------------------------------------------------------------------------------------------------


def check_budget(chance: Random) -> None:
    """Whatever budget a cycle has: nobody is lost, what it decides is sound, and later ones finish its work."""
    snapshot = a_contention(chance)
    settings = replace(snapshot.settings, cycle_steps_most=chance.choice((0, 1, 3, 10)))
    run = Run(EngineState(replace(snapshot, settings=settings)), chance)
    run.until_quiet()


@given(chances)
def test_any_budget_is_sound(chance):
    check_budget(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(10))
def test_any_budget_is_sound_in_many_states(block):
    for index in range(proof_count(5_000) // 10):
        check_budget(Random(index * 10 + block))


# Named limits on preemption --------------------------------------------------------------------------------------


def check_guards(chance: Random) -> None:
    """No workload is told to go against the limits, whatever happens."""
    snapshot = a_contention(chance)
    guards = PreemptionGuards(
        run_time_least_s=chance.choice((0, 2, 5)),
        queue_cool_down_s=chance.choice((0, 2, 5)),
        workload_cool_down_s=chance.choice((0, 2, 5)),
        honours_marks=maybe(chance, one_in=2),
    )
    marked = {key: replace(one, is_preemptible=not maybe(chance, one_in=3)) for key, one in snapshot.workloads.items()}
    state = EngineState(replace(snapshot, workloads=marked, settings=replace(snapshot.settings, guards=guards)))
    by_queue: dict[str, float] = {}
    by_workload: dict[str, float] = {}
    for _ in range(8):
        state.begin_cycle(state.now + 1)
        plan = decide(state)
        for one in plan.evictions:
            victim = state.workloads[one.workload]
            assert victim.is_preemptible or not guards.honours_marks
            assert victim.reserved_at is not None
            assert state.now - victim.reserved_at >= guards.run_time_least_s
            assert state.now - by_workload.get(one.workload, -1e9) >= guards.workload_cool_down_s
            assert state.now - by_queue.get(one.queue, -1e9) >= guards.queue_cool_down_s
        by_queue |= {one.queue: state.now for one in plan.evictions}
        by_workload |= {one.workload: state.now for one in plan.evictions}
        state.apply(plan)
        let_go(state, plan.evictions)
        state.flush_all()


@given(chances)
def test_limits_on_preemption_hold(chance):
    check_guards(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(10))
def test_limits_on_preemption_hold_in_many_states(block):
    for index in range(proof_count(10_000) // 10):
        check_guards(Random(index * 10 + block))


# Parts and lines -------------------------------------------------------------------------------------------------


def check_parts_and_lines(chance: Random) -> None:
    """A part is the largest that fits; a strict line lets nobody pass its head."""
    state = EngineState(a_contention(chance))
    for _ in range(4):
        state.begin_cycle(state.now + 1)
        before = oracle_of(state)
        plan = decide(state)
        searched = {key for key, progress in state.progress.items() if progress.is_pending}
        for reserve in plan.reserves:
            one, (given_,) = state.workloads[reserve.workload], reserve.admission.pod_sets
            home = state.tree.nodes[reserve.admission.queue].queue
            if given_.count < one.pod_sets[0].count_left and one.key not in searched:
                larger = {name: amount * (given_.count + 1) for name, amount in one.pod_sets[0].requests.items()}
                for flavor in home.groups[0].flavors:
                    free = {name: max(0, before.available(home.name, (flavor, name))) for name in larger}
                    assert any(larger[name] > free[name] for name in larger), f"{one.key} could have one pod more"
            if home.order is Order.STRICT_FIFO:
                ahead = min(state.lines[home.name].waiting(), key=lambda w: (-w.priority, w.queued_at, w.uid))
                assert ahead is one, f"{one.key} passed {ahead.key}"
        state.apply(plan)
        let_go(state, plan.evictions)


@given(chances)
def test_parts_are_the_largest_and_strict_lines_are_strict(chance):
    check_parts_and_lines(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(10))
def test_parts_are_the_largest_and_strict_lines_are_strict_in_many_states(block):
    for index in range(proof_count(10_000) // 10):
        check_parts_and_lines(Random(index * 10 + block))


# Found by chance, in small ----------------------------------------------------------------------------------------

FAIR = Settings(fair_sharing=FairSharing())

LOOPS = {
    "the lower one borrows from nearer by, so it goes first again": (
        Settings(),
        cohort("top", gpus=1),
        cohort("x", parent="top", gpus=1),
        queue("a", cohort="x", gpus=5, preemption=preempts(reclaim=LOWER, may_borrow=True)),
        queue("b", cohort="x"),
        workload("high", gpus=7, queue="a", priority=1),
        workload("low", gpus=1, queue="b"),
    ),
    "the victim's weight makes its share small, so it goes first again": (
        FAIR,
        queue("a", cohort="x", gpus=4, preemption=preempts(within=LOWER, reclaim=ANY)),
        queue("b", cohort="x", gpus=2, weight=1e7),
        running("mine", gpus=2, queue="a"),
        workload("next", gpus=3, queue="a", priority=1),
        workload("heavy", gpus=4, queue="b"),
    ),
    "the victims are within their share without the third one": (
        FAIR,
        queue("a", cohort="x", gpus=4),
        queue("b", cohort="x", gpus=2, weight=1e7, order=Order.STRICT_FIFO, preemption=preempts(reclaim=ANY)),
        workload("a1", gpus=2, queue="a"),
        workload("a2", gpus=3, queue="a", priority=1),
        running("a3", gpus=1, queue="a", priority=1),
        workload("b1", gpus=3, queue="b"),
    ),
    "each is within its share of one resource and borrows the other": (
        FAIR,
        cohort("x", flavors={"red": {CPU: 1}}),
        queue("a", cohort="x", flavors={"red": {GPU: 3, CPU: 0}}, preemption=preempts(reclaim=LOWER)),
        queue("b", cohort="x", flavors={"red": {GPU: 0, CPU: 3}}),
        workload("a1", queue="a", priority=1, pod_sets=(pod_set(requests={GPU: 2, CPU: 3}),)),
        workload("b1", queue="b", pod_sets=(pod_set(count=2, least=1, requests={GPU: 2, CPU: 1}),)),
    ),
    "three in a ring, none of which stays": (
        FAIR,
        cohort("x", gpus=3),
        queue("a", cohort="x", gpus=2),
        queue("b", cohort="x", gpus=5),
        queue("c", cohort="x", gpus=3, weight=2, preemption=preempts(within=NEWER, reclaim=ANY)),
        queue("d", cohort="x", gpus=7),
        workload("b1", gpus=3, queue="b"),
        workload("b2", gpus=4, queue="b"),
        workload("c1", gpus=4, queue="c", priority=1),
        workload("c2", gpus=1, queue="c"),
        workload("c3", gpus=3, queue="c", priority=2),
        workload("c4", gpus=1, queue="c", priority=2),
        workload("d1", gpus=9, queue="d"),
    ),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_loop_ends(loop):
    settings, *parts = LOOPS[loop]
    parts = [replace(part, kind_key=part.key) if isinstance(part, Workload) else part for part in parts]
    run = Run(state_of(*parts, settings=settings), Random(0))
    run.until_quiet()
    assert max(run.preemptions.values()) <= PREEMPTIONS_MOST


def test_nothing_is_given_that_victims_still_hold():
    state = state_of(
        queue("a", cohort="x", gpus=quota(1, borrow=1), preemption=preempts(within=LOWER)),
        queue("b", cohort="x"),
        queue("c", cohort="x", gpus=7),
        running("old", gpus=4, queue="a"),
        workload("new", gpus=1, queue="a", priority=1),
        workload("b1", gpus=4, queue="b"),
        workload("c1", gpus=1, queue="c"),
    )
    state.begin_cycle(state.now)
    check_plan_within_quota(state, decide(state))


@pytest.mark.xfail(strict=True, reason="victims are sought before those of the entries ahead are known")
def test_nobody_is_told_to_go_where_those_told_before_leave_room():
    state = state_of(
        cohort("x", gpus=3),
        queue("a", cohort="x", gpus=1, preemption=preempts(within=LOWER)),
        queue("b", cohort="x", preemption=preempts(within=LOWER, reclaim=ANY, may_borrow=True)),
        queue("c", cohort="x", gpus=1),
        running("big", gpus=4, queue="a", priority=1),
        running("old", gpus=3, queue="b"),
        workload("first", gpus=1, queue="a", priority=2),
        workload("next", gpus=1, queue="b", priority=1),
    )
    plans = run_until_quiet(state)
    assert [evicted(plan) for plan in plans if plan.evictions] == [{"big": Code.PREEMPTED_IN_QUEUE}]


def test_nobody_is_parked_with_a_flavor_untried():
    state = state_of(
        cohort("x", flavors={"red": 4}),
        queue("a", cohort="x", flavors={"red": 0}),
        queue("b", cohort="x", flavors={"red": 2, "green": 0}, preemption=preempts(reclaim=LOWER, may_borrow=True)),
        queue("c", cohort="x", flavors={"red": 0}),
        running("low", gpus=3, queue="c", flavor="red"),
        workload("first", gpus=3, queue="a", priority=9),
        workload("next", gpus=3, queue="b", priority=5),
    )
    plans = run_until_quiet(state)
    assert [evicted(plan) for plan in plans if plan.evictions] == [{"low": Code.RECLAIMED_WHILE_BORROWING}]


def test_nobody_is_parked_who_lost_to_a_promise():
    state = state_of(
        queue("a", cohort="x", flavors={"red": 4}, preemption=preempts(reclaim=LOWER, may_borrow=True)),
        queue("b", cohort="x", flavors={"red": 2, "green": 0}),
        running("high", gpus=1, queue="a", flavor="red", priority=9),
        workload("big", gpus=6, queue="a", priority=1),
        workload("small", gpus=3, queue="b"),
    )
    plans = run_until_quiet(state)
    assert [reserved(plan) for plan in plans if plan.reserves] == [{"small": "red"}]


def test_cycle_cut_short_is_finished_by_later_ones():
    lines = [queue(f"q{n}", gpus=2, preemption=preempts(within=LOWER)) for n in range(6)]
    old = [running(f"old{n}", gpus=1, queue=f"q{n % 6}") for n in range(12)]
    new = [workload(f"new{n}", gpus=2, queue=f"q{n}", priority=1) for n in range(6)]
    state = state_of(*lines, *old, *new, settings=Settings(cycle_steps_most=4))
    run_until_quiet(state)
    assert {name_of(key) for key in holders_of(state)} == {f"new{n}" for n in range(6)}


def test_cycle_stops_soon_after_its_budget_is_used_up():
    lines = [queue(f"q{n}", gpus=2, preemption=preempts(within=LOWER)) for n in range(50)]
    old = [running(f"old{n}", gpus=1, queue=f"q{n % 50}") for n in range(100)]
    new = [workload(f"new{n}", gpus=2, queue=f"q{n}", priority=1) for n in range(50)]
    plan = plan_of(*lines, *old, *new, settings=Settings(cycle_steps_most=4))
    assert plan.steps < 20
