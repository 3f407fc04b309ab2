"""Random histories: tries leave no trace, quota is given back exactly once, nobody is lost, and a plan is a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given

from muster.engine.decide import decide
from muster.engine.invariants import violations
from muster.engine.ledger import Mark
from muster.engine.state import EngineState
from muster.model.plan import Evict
from muster.model.snapshot import Snapshot
from muster.model.workload import Workload
from tests.engine.builders import evicted_from, holders_of, let_go, remembered, usage_of
from tests.properties.oracle import check_places, check_usage
from tests.properties.strategies import a_contention, a_workload, chances, ground_of, maybe, of_its_kind, started
from tests.support import proof_count

BLOCKS = 10


def prove(check: Callable[[Random], None], block: int, full: int) -> None:
    """The numbered cases of one block; a failure names its number."""
    for number in range(proof_count(full) // BLOCKS):
        seed = number * BLOCKS + block
        try:
            check(Random(seed))
        except AssertionError as problem:
            raise AssertionError(f"{check.__name__}(Random({seed})): {problem}") from problem


# Tries leave no trace --------------------------------------------------------------------------------------------


def check_rollback(chance: Random) -> None:
    """Nested tries of every kind, each rolled back to exactly what was there."""
    state = EngineState(a_contention(chance))
    ledger = state.ledger
    leaves = [node for node in state.tree.nodes.values() if node.queue.is_leaf]
    marks: list[tuple[Mark, object]] = []
    for _ in range(chance.randint(1, 40)):
        what = chance.choice(("checkpoint", "rollback", "charge", "release", "take out", "put back"))
        held = chance.choice([*state.holders.all()] or [None])
        leaf = chance.choice(leaves)
        if what == "checkpoint":
            marks.append((ledger.checkpoint(), ledger_of(state)))
        elif what == "rollback" and marks:
            index = chance.randrange(len(marks))  # an outer one takes the inner ones with it
            mark, before = marks[index]
            del marks[index:]
            ledger.rollback(mark)
            assert ledger_of(state) == before
        elif what == "charge":
            ledger.charge(leaf, {key: chance.randint(0, 5) for key in leaf.queue.quotas})
        elif what == "release":
            ledger.release(leaf, {key: chance.randint(0, used) for key, used in leaf.usage.items()})
        elif held is not None and what == "take out" and has_left(state, held):
            ledger.take_out(held.workload.key, held.queue, held.usage)
        elif held is not None and what == "put back" and ledger.is_gone(held.workload.key):
            ledger.put_back(held.workload.key, held.queue, held.usage)
    if marks:
        ledger.rollback(marks[0][0])
        assert ledger_of(state) == marks[0][1]


def has_left(state: EngineState, held) -> bool:
    """Whether a workload can still be taken out: nobody has released its quota in a try of his own."""
    enough = all(held.queue.usage.get(key, 0) >= amount for key, amount in held.usage.items())
    return enough and not state.ledger.is_gone(held.workload.key)


def ledger_of(state: EngineState) -> object:
    all_of_it = remembered(state)
    return all_of_it["usage"], all_of_it["borrowers"], sorted(state.ledger.gone())


@given(chances)
def test_rollback_restores_exactly(chance):
    check_rollback(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_rollback_restores_exactly_in_many_tries(block):
    prove(check_rollback, block, 20_000)


# A plan is a plan ------------------------------------------------------------------------------------------------


def check_decide(chance: Random) -> None:
    """Deciding changes nothing, and the same objects in any order give the same plan."""
    snapshot = a_contention(chance)
    state = EngineState(snapshot)
    state.begin_cycle(snapshot.now)
    before, mark = remembered(state), state.ledger.checkpoint()
    plan = decide(state)
    assert remembered(state) == before
    assert state.ledger.checkpoint() == mark, "nothing is left to be undone"
    assert decide(state) == plan
    other = shuffled(chance, snapshot)
    other.begin_cycle(snapshot.now)
    assert decide(other) == plan


def shuffled(chance: Random, snapshot: Snapshot) -> EngineState:
    """The state of the same objects, learned of in another order."""
    queues, workloads = list(snapshot.queues.items()), list(snapshot.workloads.values())
    chance.shuffle(queues)
    chance.shuffle(workloads)
    state = EngineState(replace(snapshot, queues=dict(queues), workloads={}))
    for one in workloads:
        state.take(one)
    return state


@given(chances)
def test_deciding_is_pure(chance):
    check_decide(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_deciding_is_pure_in_many_states(block):
    prove(check_decide, block, 20_000)


# Histories -------------------------------------------------------------------------------------------------------


class History:
    """A state, and the events and cycles that happen to it."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.snapshot = a_contention(chance)
        self.state = EngineState(self.snapshot)
        self.leaving: list[Evict] = []
        self.count = 0

    def step(self) -> None:
        """One thing that happens, and often happens twice."""
        happening = self.chance.choice(
            (self.cycle, self.cycle, self.submit, self.change, self.finish, self.delete, self.evict, self.leave)
        )
        happening()

    def cycle(self) -> None:
        self.state.begin_cycle(self.state.now + 1)
        plan = decide(self.state)
        self.state.apply(plan)
        self.leaving.extend(plan.evictions)

    def leave(self) -> None:
        """Some of those told to go have gone; the event may be late or come twice."""
        gone = [one for one in self.leaving if maybe(self.chance, one_in=2)]
        self.leaving = [one for one in self.leaving if one not in gone]
        let_go(self.state, [one for one in gone if self._still_leaves(one.workload)])

    def _still_leaves(self, key: str) -> bool:
        known = self.state.workloads.get(key)
        return known is not None and known.is_evicted

    def submit(self) -> None:
        self.count += 1
        queues = [one for one in self.snapshot.queues.values() if one.is_leaf]
        one = a_workload(self.chance, f"new{self.count}", queues, ground_of(self.snapshot))
        self._take(started(self.chance, one, queues) if maybe(self.chance, one_in=6) else one)

    def change(self) -> None:
        """A new version of an object: another priority or queue, a gate, a back-off, a finished pod."""
        if (one := self._any()) is None:
            return
        pods = replace(one.pod_sets[0], finished_pods=self.chance.randint(0, one.pod_sets[0].count))
        changed = self.chance.choice(
            (
                replace(one, priority=self.chance.randint(0, 3)),
                replace(one, queue=self.chance.choice([*self.state.lines, "nowhere"])),
                replace(one, gates=() if one.gates else ("gate",)),
                replace(one, is_active=not one.is_active),
                replace(one, held_until=self.state.now + self.chance.randint(0, 3)),
                replace(one, pod_sets=(pods,)),
            )
        )
        self._take(of_its_kind(changed))

    def finish(self) -> None:
        if (one := self._any()) is not None:
            self._take(replace(one, is_finished=True))

    def delete(self) -> None:
        if (one := self._any()) is not None:
            for _ in range(self.chance.choice((1, 1, 2))):
                self.state.drop(one.key)

    def evict(self) -> None:
        """Somebody else takes a workload's quota away."""
        if (one := self._any()) is not None:
            self._take(evicted_from(one))

    def _any(self) -> Workload | None:
        known = sorted(self.state.workloads)
        return self.state.workloads[self.chance.choice(known)] if known else None

    def _take(self, one: Workload) -> None:
        for _ in range(self.chance.choice((1, 1, 2))):
            self.state.take(one)

    def rebuilt(self) -> EngineState:
        """The state of the same objects as a restart would make it."""
        return EngineState(replace(self.snapshot, workloads=dict(self.state.workloads), now=self.state.now))


def check_history(chance: Random) -> None:
    """After every step: sums are right, everybody is somewhere, and a restart would find the same."""
    history = History(chance)
    for _ in range(chance.randint(1, 25)):
        history.step()
        state = history.state
        check_usage(state)
        check_places(state)
        assert not list(violations(state))
        fresh = history.rebuilt()
        assert usage_of(state) == usage_of(fresh)
        assert holders_of(state) == holders_of(fresh)
        assert waiting_or_parked(state) == waiting_or_parked(fresh)
        check_heads(state)


def waiting_or_parked(state: EngineState) -> dict[str, list[str]]:
    return {name: sorted(w.key for w in (*line.waiting(), *line.parked())) for name, line in state.lines.items()}


def check_heads(state: EngineState) -> None:
    """Every queue with somebody in line has a head, and it is the first by priority and time."""
    heads = {node.name: head for node, head in state.heads()}
    for name, line in state.lines.items():
        waiting = sorted(line.waiting(), key=lambda w: (w.key != line.sticky, -w.priority, w.queued_at, w.uid))
        assert heads.get(name) is (waiting[0] if waiting else None), f"the head of {name}"


@given(chances)
def test_quota_is_given_back_once_and_nobody_is_lost(chance):
    check_history(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_quota_is_given_back_once_and_nobody_is_lost_in_many_histories(block):
    prove(check_history, block, 10_000)


def check_restart(chance: Random) -> None:
    """A state that was rebuilt from its objects decides what the live one decides, once nothing is parked."""
    history = History(chance)
    for _ in range(chance.randint(1, 10)):
        history.step()
    live, fresh = history.state, history.rebuilt()
    live.flush_all()
    for state in (live, fresh):
        # What no object holds is not compared: who waits for victims, how far searches went, cool-downs.
        state.progress.clear()
        state.preemptors.clear()
        state.begin_cycle(history.state.now)
    for line in live.lines.values():
        line.sticky = ""
    if waiting(live) == waiting(fresh):
        assert outline(live) == outline(fresh)


def waiting(state: EngineState) -> object:
    return remembered(state)["waiting"], remembered(state)["heads"]


def outline(state: EngineState) -> object:
    plan = decide(state)
    return [(type(one).__name__, one.workload, getattr(one, "admission", None)) for one in plan.decisions]


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_restart_changes_no_decision(block):
    prove(check_restart, block, 10_000)
