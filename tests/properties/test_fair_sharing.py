"""Fair sharing converges: when everything is quiet, nobody could be made more equal by moving one workload.

Every queue has more workloads waiting than there is quota, queues may preempt each other, and cycles are carried out
until nothing changes any more; then some finish, and it starts over. A side is a child of a node where two queues'
ways up meet. What holds when it is quiet, for everybody who waits and was tried:

- One size, one resource, any tree, weights and priorities, `reclaim` Any: with the waiting workload its side would
  have at least what any other side has, share(A and one more) >= share(B). With one size one victim is enough, and
  LessThanInitialShare allows it whenever the preemptor's side would have less than the victim's had. This is as near
  as whole workloads can be. LessThanInitialShare alone promises the same.
- It follows that with only a cohort's quota to share, a queue of weight w of W that has somebody waiting has more than
  w / W of what is used, less one workload.
- LessThanOrEqualToFinalShare alone: share(A and one more) > share(B less one).
- `reclaim` LowerPriority: the first promise, against sides that have somebody of lower priority to take.
- Limits on borrowing and lending in a flat cohort: the first promise, where one of B's leaving lets A's start.
- Many sizes: B could not give up less than the waiting one's size a and still be ahead: share(B less x) <=
  share(A and a) for some x < a. Several small victims for a large one are taken only while B stays ahead.

With one size in a flat cohort, or where own shares are not taken back without a comparison, it ends by itself: every
preemption makes the larger of two shares smaller. Elsewhere it may go round in circles, until the bound on repeated
preemptions ends it; where it did, those that it spares are left out of the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isclose
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from muster.engine.decide import decide
from muster.engine.fairness import Share, share_of
from muster.engine.invariants import unsafe_reserves, violations
from muster.engine.quota import fits
from muster.engine.state import EngineState
from muster.engine.tree import QuotaNode
from muster.engine.victims import may_preempt
from muster.model.plan import Evict, Plan
from muster.model.queue import Order, PreemptionPolicy, Queue
from muster.model.resources import UNLIMITED
from muster.model.settings import FairSharing, PreemptionGuards, Settings
from muster.model.workload import Workload
from tests.engine.builders import (
    ANY,
    CPU,
    FLAVOR,
    GPU,
    GPUS,
    LOWER,
    NEVER,
    cohort,
    evicted,
    evicted_from,
    holders_of,
    key_of,
    leaves,
    let_go,
    lines_of,
    node_of,
    pod_set,
    preempts,
    queue,
    quota,
    run_until_quiet,
    running,
    state_of,
    workload,
)
from tests.engine.fair_builders import FAIR, FINAL, INITIAL, TOP, share_with, share_without, shares, team
from tests.properties.strategies import chances, maybe
from tests.support import proof_count

BLOCKS = 10
RUNS = 10_000
CYCLES_MOST = 500
WEIGHTS = (0.5, 1.0, 1.0, 2.0, 3.0, 10.0)
BOTH = (FINAL, INITIAL)
NO_BOUND = PreemptionGuards(repeat_most=0)

# Contests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What kind of contest to make."""

    sizes: tuple[int, ...] = (1,)  # of the workloads, in cards
    is_tree: bool = False  # cohorts in cohorts
    nominals: tuple[int, ...] = (0, 0, 1, 2, 4)
    weights: tuple[float, ...] = (0.0, *WEIGHTS)
    priorities: tuple[int, ...] = (0,)
    reclaim: PreemptionPolicy = ANY
    has_limits: bool = False
    strategies: tuple[str, ...] = BOTH
    spares_nominal: bool = True  # within its own share a queue takes back without comparing shares
    orders: tuple[Order, ...] = tuple(Order)
    guards: PreemptionGuards = NO_BOUND


def a_contest(chance: Random, rules: Rules) -> EngineState:
    """Two to four queues, each with more in line than there is quota; some workloads run already, fairly or not."""
    cohorts = [cohort(TOP, gpus=chance.randint(0, 8))]
    for number in range(chance.randint(1, 3) if rules.is_tree else 0):
        above, weight = chance.choice(cohorts).name, chance.choice(rules.weights)
        gpus = chance.choice(rules.nominals)
        cohorts.append(cohort(f"cohort-{number}", parent=above, gpus=gpus, weight=weight))
    teams = [a_team(chance, f"team-{number}", cohorts, rules) for number in range(chance.randint(2, 4))]
    total = sum(one.quotas[GPUS].nominal for one in (*cohorts, *teams))
    is_empty = rules.has_limits or maybe(chance, one_in=3)
    waiting = [one for each in teams for one in some_workloads(chance, each.name, total, rules)]
    workloads = waiting if is_empty else list(some_running(chance, waiting, total))
    fair = FairSharing(strategies=rules.strategies, spares_nominal_comparison=rules.spares_nominal)
    return state_of(*cohorts, *teams, *workloads, settings=Settings(fair_sharing=fair, guards=rules.guards))


def a_team(chance: Random, name: str, cohorts: Sequence[Queue], rules: Rules) -> Queue:
    nominal = quota(chance.choice(rules.nominals))
    if rules.has_limits:
        borrow, lend = chance.choice((UNLIMITED, 0, 2, 4)), chance.choice((UNLIMITED, 0, 1, 2))
        nominal = quota(nominal.nominal, borrow=borrow, lend=lend)
    return queue(
        name,
        cohort=chance.choice(cohorts).name,
        gpus=nominal,
        weight=chance.choice(rules.weights),
        order=chance.choice(rules.orders),
        preemption=preempts(within=chance.choice((NEVER, LOWER)), reclaim=rules.reclaim),
    )


def some_workloads(chance: Random, home: str, total: int, rules: Rules) -> Iterator[Workload]:
    """More than everything there is, for one queue."""
    asked = 0
    while asked <= total:
        size, priority = chance.choice(rules.sizes), chance.choice(rules.priorities)
        name = f"{home}-{asked:03}"
        kind, time = f"{size} at {priority}", float(chance.randrange(7))
        yield workload(name, gpus=size, queue=home, priority=priority, queued_at=time, kind_key=kind)
        asked += size


def some_running(chance: Random, waiting: Sequence[Workload], total: int) -> Iterator[Workload]:
    """The same workloads, some of them started while there was room, whoever was first."""
    free = total
    for one in waiting:
        size = size_of(one)
        if size <= free and maybe(chance, one_in=3):
            free -= size
            held = running("any", gpus=size, queue=one.queue)
            since = float(chance.randrange(9))
            one = replace(one, admission=held.admission, is_admitted=True, is_ready=True, reserved_at=since)
        yield one


def size_of(one: Workload) -> int:
    return one.pod_sets[0].requests[GPU]


# Runs ------------------------------------------------------------------------------------------------------------


def settle(state: EngineState, chance: Random) -> int:
    """Cycle until nothing changes any more; those told to go take their time now and then. Says who was told."""
    seen: set[object] = set()
    leaving: list[Evict] = []
    told = 0
    for _ in range(CYCLES_MOST):
        plan = a_cycle(state)
        told += len(plan.evictions)
        leaving += plan.evictions
        gone = [one for one in leaving if not maybe(chance, one_in=8)]
        let_go(state, gone)
        leaving = [one for one in leaving if one not in gone]
        if not plan.is_empty or leaving or gone:
            seen.clear()
        elif (now := lines_of(state)) in seen:
            return told
        else:
            seen.add(now)
    raise AssertionError(f"not quiet after {CYCLES_MOST} cycles")


def a_cycle(state: EngineState) -> Plan:
    state.begin_cycle(state.now + 1)
    plan = decide(state)
    assert not list(unsafe_reserves(state, plan))
    state.apply(plan)
    return plan


def some_finish(state: EngineState, chance: Random) -> None:
    """One in four of those that run has done its work."""
    for key in sorted(holders_of(state)):
        if maybe(chance, one_in=4):
            state.take(replace(state.workloads[key], is_finished=True))


def tried(state: EngineState, home: QuotaNode) -> list[Workload]:
    """Who of a queue has been tried in vain: in a strict line only the first."""
    line = state.lines[home.name]
    if home.queue.order is Order.STRICT_FIFO:
        head = line.head()
        return [head] if head is not None else []
    return [*line.waiting(), *line.parked()]


def rivals(state: EngineState) -> Iterator[tuple[QuotaNode, Workload, QuotaNode, QuotaNode]]:
    """Everybody who waits, with each side of the tree it is on and each other side that it meets there."""
    for home in leaves(state):
        # Those of one size and priority are in the same situation: one of them speaks for all.
        kinds = {one.kind_key: one for one in tried(state, home) if size_of(one) <= home.cell(GPUS).potential}
        for one in kinds.values():
            for mine in home.path[:-1]:
                assert mine.parent is not None
                for theirs in mine.parent.children:
                    if theirs is not mine:
                        yield home, one, mine, theirs


def is_bound_reached(state: EngineState) -> bool:
    """Whether somebody was preempted so often by one contender that it may not be again."""
    waiting = [one for one in state.workloads.values() if one.admission is None]
    held = [one.workload for one in state.holders.all()]
    return any(
        state.repeated_preemptor(one) is not None or any(state.repeats.is_spared_from(other, one) for other in held)
        for one in waiting
    )


Promise = Callable[[EngineState], Iterator[str]]


def prove(rules: Rules, promise: Promise, chance: Random) -> None:
    """Let a contest come to rest and look at the promise; then let some finish, and look again."""
    state = a_contest(chance, rules)
    for _ in range(2):
        settle(state, chance)
        assert not list(violations(state))
        if not is_bound_reached(state):
            broken = list(promise(state))
            assert not broken, "\n".join([f"shares {shares(state)}", *broken])
        some_finish(state, chance)


# Promises --------------------------------------------------------------------------------------------------------


def told(one: Workload, mine: QuotaNode, theirs: QuotaNode, *found: Share) -> str:
    new, other = (share.value for share in found)
    return f"{one.key} would bring {mine.name} to {new}, and {theirs.name} has {other}"


def nobody_is_ahead(state: EngineState) -> Iterator[str]:
    """share(A and one more) >= share(B)."""
    for home, one, mine, theirs in rivals(state):
        new, other = share_with(state, mine, home, {GPUS: size_of(one)}), share_of(theirs)
        if new < other:
            yield told(one, mine, theirs, new, other)


def nobody_is_ahead_without_one(state: EngineState) -> Iterator[str]:
    """share(A and one more) > share(B less one), for each queue of B's side that borrows."""
    for home, one, mine, theirs in rivals(state):
        new = share_with(state, mine, home, {GPUS: size_of(one)})
        for leaf in borrowing_leaves(theirs):
            less = share_without(state, theirs, leaf, {GPUS: size_of(one)})
            if new <= less and (less.is_endless or not new.is_endless):
                yield told(one, mine, theirs, new, less)


def nobody_is_ahead_with_lower_priority(state: EngineState) -> Iterator[str]:
    """share(A and one more) >= share(B) where B has somebody whom the waiting one may take."""
    for home, one, mine, theirs in rivals(state):
        new, other = share_with(state, mine, home, {GPUS: size_of(one)}), share_of(theirs)
        held = [
            each.workload for leaf in borrowing_leaves(theirs) for each in state.holders.in_queue(leaf.name).values()
        ]
        if new < other and any(may_preempt(LOWER, one, each) for each in held):
            yield told(one, mine, theirs, new, other)


def has_lower(state: EngineState, one: Workload, leaf: QuotaNode) -> bool:
    return any(may_preempt(LOWER, one, held.workload) for held in state.holders.in_queue(leaf.name).values())


def nobody_who_could_start_is_behind(state: EngineState) -> Iterator[str]:
    """share(A and one more) >= share(B) where one of B's leaving would let A's start."""
    for home, one, mine, theirs in rivals(state):
        asked = {GPUS: size_of(one)}
        new, other = share_with(state, mine, home, asked), share_of(theirs)
        if new < other:
            mark = state.ledger.checkpoint()
            state.ledger.release(theirs, asked)
            could_start = fits(home, asked)
            state.ledger.rollback(mark)
            if could_start:
                yield told(one, mine, theirs, new, other)


def nobody_gives_less_and_is_ahead(state: EngineState) -> Iterator[str]:
    """share(B less x) <= share(A and a) for some x < a, unless B is not borrowing any more."""
    for home, one, mine, theirs in rivals(state):
        new = share_with(state, mine, home, {GPUS: size_of(one)})
        for leaf in borrowing_leaves(theirs):
            mark = state.ledger.checkpoint()
            state.ledger.release(leaf, {GPUS: min(size_of(one) - 1, leaf.usage.get(GPUS, 0))})
            less, is_left = share_of(theirs), leaf in borrowing_leaves(theirs)
            state.ledger.rollback(mark)
            if is_left and less > new and not isclose(less.value, new.value):
                yield told(one, mine, theirs, new, less)


def borrowing_leaves(side: QuotaNode) -> list[QuotaNode]:
    """The queues of a side that borrow, as does every node on their way up to it."""
    return [
        leaf
        for leaf in side.leaves()
        if all(share_of(node).is_borrowing for node in leaf.path[: leaf.path.index(side) + 1])
    ]


# Proofs ----------------------------------------------------------------------------------------------------------

SMALL, LARGE = Rules(sizes=(1,), priorities=(0, 1, 2)), Rules(sizes=(3,), priorities=(0, 1, 2))
BOUNDED = PreemptionGuards()
ONE_SIZE = (
    SMALL,
    LARGE,
    *(replace(one, is_tree=True, spares_nominal=False) for one in (SMALL, LARGE)),
    *(replace(one, is_tree=True, guards=BOUNDED) for one in (SMALL, LARGE)),
)
MANY_SIZES = Rules(sizes=(1, 2, 3, 4), guards=BOUNDED)


def each(kinds: Iterable[Rules], **fields: Any) -> tuple[Rules, ...]:
    return tuple(replace(one, **fields) for one in kinds)


PROMISES: dict[str, tuple[tuple[Rules, ...], Promise]] = {
    "one size": ((*ONE_SIZE, *each(ONE_SIZE, strategies=(INITIAL,))), nobody_is_ahead),
    "final shares alone": (each(ONE_SIZE, strategies=(FINAL,)), nobody_is_ahead_without_one),
    # A strict line's head that finds nobody to take holds quota against the others in every cycle: see below.
    "lower priorities": (
        each(ONE_SIZE, reclaim=LOWER, orders=(Order.BEST_EFFORT_FIFO,)),
        nobody_is_ahead_with_lower_priority,
    ),
    "limits": ((Rules(has_limits=True),), nobody_who_could_start_is_behind),
    "many sizes": ((MANY_SIZES, replace(MANY_SIZES, is_tree=True)), nobody_gives_less_and_is_ahead),
}


def check(name: str, chance: Random) -> None:
    kinds, promise = PROMISES[name]
    prove(chance.choice(kinds), promise, chance)


@pytest.mark.parametrize("name", PROMISES)
@given(chance=chances)
@settings(max_examples=20)
def test_shares_converge(name, chance):
    check(name, chance)


def problem_of(name: str, number: int) -> str:
    try:
        check(name, Random(number))
    except AssertionError as problem:
        return f"check({name!r}, Random({number})): {problem}"
    return ""


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("name", PROMISES)
def test_shares_converge_in_many_runs(name, block):
    numbers = range(block, proof_count(RUNS), BLOCKS)
    problems = [problem for number in numbers if (problem := problem_of(name, number))]
    assert not problems, "\n".join(problems)


def check_parts(chance: Random) -> None:
    """With only a cohort's quota to share, each queue has its part by weight, less than one workload short."""
    sizes = (chance.choice((1, 2, 3)),)
    state = a_contest(chance, Rules(sizes=sizes, nominals=(0,), weights=WEIGHTS))
    settle(state, chance)
    teams = list(leaves(state))
    used, weights = node_of(state, TOP).usage.get(GPUS, 0), sum(one.queue.weight for one in teams)
    assert used == node_of(state, TOP).cell(GPUS).subtree // sizes[0] * sizes[0], "nothing lies idle"
    for one in teams:
        part = used * one.queue.weight / weights
        has = one.usage.get(GPUS, 0)
        assert has > part - sizes[0], f"{one.name} has {has} of {used}, its part is {part}"


@given(chances)
@settings(max_examples=50)
def test_every_queue_has_its_part(chance):
    check_parts(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_queue_has_its_part_in_many_runs(block):
    for number in range(block, proof_count(RUNS), BLOCKS):
        check_parts(Random(number))


# What is not promised, in small ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rules", "want"), [(preempts(reclaim=ANY), (2, 6)), (preempts(), (4, 4))])
def test_without_preemption_each_queue_gets_one_a_cycle_whatever_its_weight(rules, want):
    light, heavy = team("light", preemption=rules), team("heavy", weight=3, preemption=rules)
    waiting = [workload(f"{one.name}-{n}", queue=one.name) for one in (light, heavy) for n in range(9)]
    state = state_of(cohort(TOP, gpus=8), light, heavy, *waiting, settings=FAIR)
    run_until_quiet(state)
    assert tuple(node_of(state, name).usage[GPUS] for name in ("light", "heavy")) == want


def test_who_borrowed_much_of_one_resource_is_no_victim_for_another():
    wanted = {GPU: 1, CPU: 1}
    state = state_of(
        cohort(TOP, flavors={FLAVOR: {CPU: 100}}),
        team("a", flavors={FLAVOR: {GPU: 0, CPU: 0}}),
        team("b", flavors={FLAVOR: {GPU: 4, CPU: 0}}),
        *(running(f"b{n}", queue="b", pod_sets=(pod_set(requests={GPU: 1, CPU: 10}),)) for n in range(4)),
        workload("a1", queue="a", pod_sets=(pod_set(requests=wanted),)),
        settings=FAIR,
    )
    plans = run_until_quiet(state)
    assert not any(plan.evictions for plan in plans)
    a, b = node_of(state, "a"), node_of(state, "b")
    assert share_with(state, a, a, {(FLAVOR, name): amount for name, amount in wanted.items()}) < share_of(b)


def test_own_share_in_a_side_that_borrows_goes_round_in_circles_until_the_bound_ends_it():
    """`mine` asks for its own share, which its neighbour uses. Its side would borrow as much as the other side does,
    so the one it sends away is let in before it."""
    state = state_of(
        cohort(TOP, gpus=1),
        cohort("x", parent=TOP),
        cohort("y", parent=TOP),
        team("owner", 1, cohort="x"),
        team("neighbour", cohort="x"),
        team("other", cohort="y"),
        running("near", queue="neighbour"),
        running("far", queue="other"),
        workload("mine", queue="owner", queued_at=1),
        settings=FAIR,
    )
    plans = run_until_quiet(state)
    assert [list(evicted(plan)) for plan in plans if plan.evictions] == [["far"], ["far"], ["far"], ["near"]]


@pytest.mark.parametrize(
    ("order", "is_served"),
    [
        pytest.param(Order.BEST_EFFORT_FIFO, True, id="it steps aside"),
        pytest.param(Order.STRICT_FIFO, False, id="it stays and holds back the other in every cycle"),
    ],
)
def test_one_who_finds_nobody_to_take_goes_first(order, is_served):
    by_priority = preempts(reclaim=LOWER)
    state = state_of(
        cohort(TOP, gpus=4),
        team("low", weight=10, order=order, preemption=by_priority),
        team("high", preemption=by_priority),
        team("full"),
        *(running(f"r{n}", queue="full") for n in range(4)),
        workload("in-vain", queue="low"),
        workload("urgent", queue="high", priority=2),
        settings=FAIR,
    )
    run_until_quiet(state)
    assert (key_of("urgent") in holders_of(state)) is is_served


def test_bound_on_repeated_preemptions_is_for_one_workload_and_not_for_those_like_it():
    state = state_of(
        cohort(TOP, gpus=1),
        team("owner", 1),
        team("other"),
        running("borrower", gpus=2, queue="other"),
        workload("first", queue="owner", kind_key="same"),
        settings=replace(FAIR, guards=PreemptionGuards(repeat_most=1)),
    )
    run_until_quiet(state)
    assert set(holders_of(state)) == {key_of("first")}
    state.take(replace(evicted_from(state.workloads[key_of("first")]), is_held=True))
    run_until_quiet(state)
    assert set(holders_of(state)) == {key_of("borrower")}
    state.take(replace(state.workloads[key_of("first")], is_held=False))
    state.take(workload("second", queue="owner", kind_key="same", queued_at=9))
    run_until_quiet(state)
    assert key_of("second") in holders_of(state), "its own share is lent, and it has preempted nobody yet"
