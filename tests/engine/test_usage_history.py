"""Usage history: the submit queues of one queue take turns by what they have used of late.

What is promised over a long time, for workloads of one size and run time, with samples taken in every cycle and a
half-life of at least twice a run: submit queues of equal weight have never started more than so many workloads more
than each other as the queue can hold at once. Those of weight zero start only what nobody else is there for. Use that
lies further back than a few half-lives does not matter, so without end the sums may drift apart where run times are
chance: what evens out is what the history remembers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.engine.state import EngineState
from muster.engine.usage_history import UsageHistory, asked_by, in_base_units
from muster.model.queue import Order, SubmitQueue
from muster.model.settings import UsageFairness
from tests.engine.builders import (
    CPU,
    GPU,
    LOWER,
    NOW,
    evicted,
    key_of,
    pod_set,
    preempts,
    queue,
    reserved,
    run_cycle,
    run_cycles,
    running,
    state_of,
    workload,
)
from tests.engine.fair_builders import submit, submitted, turns
from tests.support import proof_count

A, B = key_of("a"), key_of("b")
SHARED = queue("team-a", gpus=9, is_usage_ordered=True)


def history(*queues: SubmitQueue, half_life_s=10.0, sampling_s=10.0, **fields) -> UsageHistory:
    rules = UsageFairness(half_life_s=half_life_s, sampling_s=sampling_s, **fields)
    return UsageHistory(rules, queues or (submit("a"),))


def ask(gpus=4, to="a", **fields):
    return submitted("w", to=to, gpus=gpus, **fields)


# Amounts ---------------------------------------------------------------------------------------------------------


def test_cpu_counts_in_cores():
    assert in_base_units({CPU: 1500, GPU: 2, "memory": 1 << 30}) == {CPU: 1.5, GPU: 2.0, "memory": float(1 << 30)}


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod_set(count=3, gpus=2)], {GPU: 6.0}, id="of all pods"),
        pytest.param([pod_set("x", gpus=1), pod_set("y", count=2, gpus=2)], {GPU: 5.0}, id="of all pod sets"),
        pytest.param([pod_set(count=3, gpus=2, finished_pods=1)], {GPU: 4.0}, id="that are left"),
        pytest.param([pod_set(requests={CPU: 500, GPU: 1})], {CPU: 0.5, GPU: 1.0}, id="of every resource"),
        pytest.param([], {}, id="of nothing"),
    ],
)
def test_what_a_workload_asks_for(pods, want):
    assert asked_by(workload("w", pod_sets=tuple(pods))) == want


# Use as a number -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "weights", "want"),
    [
        pytest.param(submit("a"), {}, 0.0, id="nothing yet"),
        pytest.param(submit("a", consumed={GPU: 6.0}), {}, 6.0, id="what it used"),
        pytest.param(submit("a", consumed={GPU: 6.0, CPU: 2.0}), {}, 8.0, id="of everything"),
        pytest.param(submit("a", consumed={GPU: 6.0, CPU: 2.0}), {GPU: 10, CPU: 0}, 60.0, id="by weight of resources"),
        pytest.param(submit("a", consumed={GPU: 6.0}, weight=3), {}, 2.0, id="by its own weight"),
        pytest.param(submit("a", consumed={}, weight=0), {}, inf, id="without weight: endless"),
        pytest.param(submit("b", consumed={GPU: 6.0}), {}, 0.0, id="one that nobody knows"),
    ],
)
def test_use(known, weights, want):
    assert history(known, resource_weights=weights).used_by(A) == want


# Penalties -------------------------------------------------------------------------------------------------------


def test_penalty_is_the_use_of_one_sampling_step():
    past = history(half_life_s=10, sampling_s=10)
    past.penalise(ask(4))
    assert past.used_by(A) == 2.0, "half of it in one half-life"
    past.penalise(ask(4))
    assert past.used_by(A) == 2.0, "however often it is confirmed"
    past.penalise(replace(ask(4), key=key_of("v")))
    assert past.used_by(A) == 4.0
    assert past.consumed(A) == {}


def test_penalty_of_one_that_was_seen_admitted_becomes_past_use():
    past = history(submit("a", consumed={GPU: 8.0}, consumed_at=0.0))
    past.penalise(ask(4))
    past.settle(ask(4), {}, now=0.0)
    assert (past.used_by(A), past.consumed(A)) == (10.0, {GPU: 10.0})
    past.settle(ask(4), {}, now=0.0)
    assert past.used_by(A) == 10.0, "once"


def test_past_use_fades_before_a_penalty_joins_it():
    past = history(submit("a", consumed={GPU: 8.0}, consumed_at=0.0))
    past.penalise(ask(4))
    past.settle(ask(4), {}, now=10.0)
    assert past.consumed(A) == {GPU: 6.0}


def test_penalty_of_one_that_did_not_start_is_forgotten():
    past = history()
    past.penalise(ask())
    past.forgive(A, ask().key)
    assert (past.used_by(A), past.consumed(A)) == (0.0, {})


def test_submit_queues_that_nobody_knows():
    past = history()
    past.forgive(B, "w")
    past.settle(ask(to="b"), {}, now=0.0)
    assert (past.used_by(B), past.consumed(B), list(past.submit_queues())) == (0.0, {}, [A])
    past.penalise(ask(to="b"))
    past.sample(key_of("c"), {GPU: 1.0}, now=0.0)
    assert list(past.submit_queues()) == [A, B, key_of("c")]


def test_nothing_is_remembered_without_a_half_life():
    past = history(submit("a", consumed={GPU: 8.0}, consumed_at=0.0), half_life_s=0)
    past.penalise(ask())
    assert past.used_by(A) == 8.0
    past.sample(A, {GPU: 5.0}, now=10.0)
    assert past.consumed(A) == {}


# Samples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "in_use", "after_s", "want"),
    [
        pytest.param(8.0, 0.0, 10, 4.0, id="half is left after a half-life"),
        pytest.param(8.0, 0.0, 20, 2.0, id="a quarter after two"),
        pytest.param(0.0, 8.0, 10, 4.0, id="present use comes in as the past goes"),
        pytest.param(8.0, 8.0, 10, 8.0, id="the same use stays the same"),
        pytest.param(8.0, 2.0, 10, 5.0, id="half of each"),
        pytest.param(8.0, 0.0, 9, 8.0, id="not before the interval is over"),
    ],
)
def test_sample(before, in_use, after_s, want):
    past = history(submit("a", consumed={GPU: before}, consumed_at=100.0))
    past.sample(A, {GPU: in_use}, now=100.0 + after_s)
    assert past.consumed(A) == {GPU: pytest.approx(want)}


def test_first_sample_only_starts_the_clock():
    past = history()
    past.sample(A, {GPU: 8.0}, now=5.0)
    assert past.used_by(A) == 0.0
    past.sample(A, {GPU: 8.0}, now=15.0)
    assert past.used_by(A) == 4.0


def test_samples_are_due_once_in_an_interval():
    past = history(sampling_s=10)
    assert [past.is_due(now) for now in (0.0, 5.0, 9.9, 10.0, 11.0, 20.0)] == [True, False, False, True, False, True]


uses = st.floats(0, 1e6)
times = st.floats(0.1, 1e4)


@given(uses, uses, times, times)
def test_two_short_steps_are_one_long_step(before, in_use, first_s, second_s):
    once, twice = (history(submit("a", consumed={GPU: before}, consumed_at=0.0), sampling_s=0.0) for _ in range(2))
    once.sample(A, {GPU: in_use}, now=first_s + second_s)
    twice.sample(A, {GPU: in_use}, now=first_s)
    twice.sample(A, {GPU: in_use}, now=first_s + second_s)
    assert twice.used_by(A) == pytest.approx(once.used_by(A))


@given(uses, uses, st.lists(times, max_size=5))
def test_use_stays_between_the_past_and_the_present(before, in_use, steps):
    past = history(submit("a", consumed={GPU: before}, consumed_at=0.0), sampling_s=0.0)
    now, distance = 0.0, abs(before - in_use)
    for step in steps:
        now += step
        past.sample(A, {GPU: in_use}, now=now)
        assert min(before, in_use) - 1e-6 <= past.used_by(A) <= max(before, in_use) + 1e-6
        assert abs(past.used_by(A) - in_use) <= distance + 1e-6, "it never moves away"
        distance = abs(past.used_by(A) - in_use)


# In cycles -------------------------------------------------------------------------------------------------------


def heads_of(state: EngineState) -> list[str]:
    return [head.submit_queue.partition("/")[2] for _, head in state.heads()]


def test_least_used_submit_queue_goes_first_whatever_the_time_and_priority():
    parts = [submit("a", consumed={GPU: 5.0}, consumed_at=NOW), submit("b", consumed={GPU: 4.0}, consumed_at=NOW)]
    waiting = [submitted("early", to="a", priority=9), submitted("late", to="b", queued_at=9)]
    assert heads_of(state_of(SHARED, *parts, *waiting, settings=turns())) == ["b"]
    by_priority = replace(SHARED, is_usage_ordered=False)
    assert heads_of(state_of(by_priority, *parts, *waiting, settings=turns())) == ["a"]
    assert heads_of(state_of(SHARED, *parts, *waiting)) == ["a"], "without the setting nobody counts"


def test_submit_queues_take_turns_before_their_use_is_sampled():
    waiting = [submitted(f"{to}{n}", to=to, queued_at=n) for to in "ab" for n in range(3)]
    state = state_of(SHARED, submit("a"), submit("b"), *waiting, settings=turns(sampling_s=300))
    assert [next(iter(reserved(plan))) for plan in run_cycles(state, 6)] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_heavier_submit_queue_has_more_turns():
    waiting = [submitted(f"{to}{n}", to=to, queued_at=n) for to in "ab" for n in range(6)]
    state = state_of(SHARED, submit("a"), submit("b", weight=2), *waiting, settings=turns())
    assert Counter(next(iter(reserved(plan)))[0] for plan in run_cycles(state, 9)) == {"a": 3, "b": 6}


def test_running_workloads_are_sampled_when_an_interval_is_over():
    state = state_of(
        SHARED,
        *(submit(name, consumed_at=NOW) for name in "ab"),
        running("r", gpus=4, submit_queue=A),
        settings=turns(half_life_s=10, sampling_s=10),
    )
    run_cycle(state, after_s=0)
    run_cycles(state, 9, after_s=1)
    assert state.history.used_by(A) == 0.0
    run_cycle(state, after_s=1)
    assert (state.history.used_by(A), state.history.used_by(B)) == (2.0, 0.0)


def test_penalty_follows_what_becomes_of_a_workload():
    state = state_of(SHARED, submit("a", consumed_at=NOW), submitted("w", to="a", gpus=4), settings=turns(100, 100))
    run_cycle(state, after_s=0)
    admitted = state.workloads[key_of("w")]
    assert state.history.used_by(A) == 2.0
    state.take(replace(admitted, admission=None, is_admitted=False))
    assert (state.history.used_by(A), state.history.consumed(A)) == (0.0, {}), "its admission could not be written"
    run_cycle(state, after_s=0)
    state.take(state.workloads[key_of("w")])
    assert state.history.consumed(A) == {GPU: 2.0}, "it was seen admitted"
    state.drop(key_of("w"))
    assert state.history.consumed(A) == {GPU: 2.0}, "what was used was used"


def test_penalty_is_forgotten_when_a_workload_goes_or_moves_to_another_submit_queue():
    checked = replace(SHARED, checks=())
    for change in (lambda one: None, lambda one: replace(one, submit_queue=B, admission=None, is_admitted=False)):
        state = state_of(checked, submit("a"), submit("b"), submitted("w", to="a", gpus=4), settings=turns())
        run_cycle(state, after_s=0)
        assert state.history.used_by(A) > 0
        changed = change(state.workloads[key_of("w")])
        if changed is None:
            state.drop(key_of("w"))
        else:
            state.take(changed)
        assert state.history.used_by(A) == 0.0


def test_heavy_users_are_preempted_first():
    state = state_of(
        replace(SHARED, quotas=queue("any", gpus=2).quotas, preemption=preempts(within=LOWER)),
        submit("a", consumed={GPU: 9.0}, consumed_at=NOW),
        submit("b", consumed={GPU: 1.0}, consumed_at=NOW),
        running("heavy", submit_queue=A, reserved_at=1.0),
        running("light", submit_queue=B, reserved_at=5.0),
        submitted("w", to="b", priority=1),
        settings=turns(),
    )
    assert list(evicted(run_cycle(state))) == ["heavy"]


def test_use_since_the_last_sample_counts_when_a_penalty_joins_it():
    state = state_of(
        SHARED,
        submit("a", consumed_at=NOW),
        running("r", gpus=4, submit_queue=A),
        submitted("w", to="a"),
        settings=turns(half_life_s=10, sampling_s=20),
    )
    run_cycle(state, after_s=10)
    state.take(state.workloads[key_of("w")])
    (penalty,) = (0.75 * amount for amount in asked_by(state.workloads[key_of("w")]).values())
    assert state.history.used_by(A) >= 2.0 + penalty, "half of the 4 that it has used for a half-life"


def test_penalty_that_joins_does_not_put_the_next_sample_off():
    past = history(submit("a", consumed_at=0.0))
    for now in (9.0, 18.0, 27.0):
        past.penalise(replace(ask(1), key=str(now)))
        past.settle(replace(ask(1), key=str(now)), {GPU: 100.0}, now)
    before = past.used_by(A)
    past.sample(A, {GPU: 100.0}, now=30.0)
    assert past.used_by(A) > before, "30 s of use in three intervals have not been looked at"


# A long time -----------------------------------------------------------------------------------------------------


class Tenants:
    """Submit queues of one queue with endless workloads of one size and run time."""

    def __init__(self, weights: list[float], holds: int, run_s: int, settings) -> None:
        self.names = [f"s{number}" for number in range(len(weights))]
        parts = [submit(name, weight=weight) for name, weight in zip(self.names, weights, strict=True)]
        home = queue("team-a", gpus=holds, is_usage_ordered=True, order=Order.BEST_EFFORT_FIFO)
        self.state = state_of(home, *parts, settings=settings, now=0.0)
        self.run_s, self.count = run_s, 0
        self.ends: dict[str, float] = {}
        self.started: Counter[str] = Counter(dict.fromkeys(self.names, 0))
        for name in self.names:
            for _ in range(holds):
                self.send(name)

    def send(self, name: str) -> None:
        self.count += 1
        self.state.take(submitted(f"{name}-{self.count:05}", to=name, queued_at=float(self.count)))

    def second(self) -> None:
        """Those that are done leave; all who fit start, and are seen to have started."""
        after_s = 1.0
        for key in [key for key, end in self.ends.items() if end <= self.state.now + after_s]:
            del self.ends[key]
            self.state.drop(key)
        while plan := run_cycle(self.state, after_s=after_s).reserves:
            after_s = 0.0
            for one in plan:
                name = self.state.workloads[one.workload].submit_queue.partition("/")[2]
                self.started[name] += 1
                self.ends[one.workload] = self.state.now + self.run_s
                self.state.take(self.state.workloads[one.workload])
                self.send(name)

    @property
    def apart(self) -> int:
        return max(self.started.values()) - min(self.started.values())


def check_turns(chance: Random) -> None:
    holds, run_s = chance.randint(1, 6), chance.choice((1, 2, 3, 5))
    rules = turns(half_life_s=run_s * chance.choice((2, 4, 10, 100)), sampling_s=1.0)
    tenants = Tenants([1.0] * chance.randint(2, 4), holds, run_s, rules)
    for _ in range(60):
        tenants.second()
        assert tenants.apart <= holds, f"{tenants.started} with {holds} at once"


@pytest.mark.prove
@pytest.mark.parametrize("block", range(10))
def test_equals_stay_together_in_the_long_run(block):
    for number in range(block, proof_count(1_000), 10):
        check_turns(Random(number))


def test_equals_stay_together_where_samples_are_rare():
    tenants = Tenants([1.0, 1.0, 1.0], 5, 3, turns(half_life_s=10, sampling_s=2))
    for _ in range(200):
        tenants.second()
    assert tenants.apart <= 5, f"{tenants.started}"


@given(st.integers(2, 4), st.integers(1, 5))
@settings(max_examples=20)
def test_weight_zero_comes_last(others, holds):
    tenants = Tenants([0.0] + [1.0] * others, holds, 2, turns(half_life_s=10, sampling_s=1))
    for _ in range(20):
        tenants.second()
    assert tenants.started["s0"] == 0, "somebody of weight was always there"


def test_weight_zero_starts_when_nobody_else_is_there():
    state = state_of(SHARED, submit("a", weight=0), submitted("w", to="a"), settings=turns())
    assert list(reserved(run_cycle(state))) == ["w"]


def test_weights_divide_the_long_run():
    weights = [1.0, 2.0, 3.0]
    tenants = Tenants(weights, 6, 3, turns(half_life_s=30, sampling_s=1))
    for _ in range(120):
        tenants.second()
    total = sum(tenants.started.values())
    for name, weight in zip(tenants.names, weights, strict=True):
        assert tenants.started[name] == pytest.approx(total * weight / sum(weights), abs=0.05 * total)


def test_one_that_comes_late_goes_first_until_it_has_caught_up_with_what_is_remembered():
    tenants = Tenants([1.0, 1.0], 2, 2, turns(half_life_s=10, sampling_s=1))
    late = "s1"
    for key in [key for key in tenants.state.workloads if key.startswith(f"default/{late}")]:
        tenants.state.drop(key)
    for _ in range(30):
        tenants.second()
    assert tenants.started[late] == 0
    for _ in range(2):
        tenants.send(late)
    before = tenants.started["s0"]
    for _ in range(5):
        tenants.second()
    assert tenants.started[late] >= 4
    assert tenants.started["s0"] - before <= 2
