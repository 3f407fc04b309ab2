"""Steady load: with many waiting, one finishes and one starts, again and again; what does each admission cost?"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections import deque
from dataclasses import replace

from bench.shapes import Class, queues, snapshot_of, workloads_of
from muster.engine.decide import decide
from muster.engine.state import EngineState

QUEUES = 10
ADMISSIONS = 2_000


def _filled(waiting: int) -> EngineState:
    """Ten queues in one cohort, full, with so many more waiting."""
    all_queues = queues(cohorts=1, per_cohort=QUEUES, nominal=20)
    state = EngineState(snapshot_of(all_queues))
    kind = Class("small", waiting // QUEUES + 20, 1, 1.0, 50)
    for name, queue in all_queues.items():
        if queue.is_leaf:
            for workload, _ in workloads_of(name, (kind,)):
                state.take(workload)
    _settle(state)
    return state


def _settle(state: EngineState) -> None:
    """Cycles until nobody can be admitted."""
    while True:
        state.begin_cycle(state.now)
        plan = decide(state)
        state.apply(plan)
        if not plan.reserves and not list(state.heads()):
            return


def cost_per_admission_s(waiting: int) -> float:
    """CPU seconds for one to finish and the next to be admitted, with that many waiting."""
    state = _filled(waiting)
    running = deque(sorted(holder.workload.key for holder in state.holders.all()))
    gc.collect()
    started = time.process_time()
    admitted = 0
    while admitted < ADMISSIONS:
        key = running.popleft()
        again = replace(state.workloads[key], admission=None, is_admitted=False, reserved_at=None)
        state.drop(key)
        state.take(again)  # its owner submits the next one, so that as many wait as before
        state.begin_cycle(state.now)
        plan = decide(state)
        state.apply(plan)
        running.extend(reserve.workload for reserve in plan.reserves)
        admitted += len(plan.reserves)
    return (time.process_time() - started) / admitted


def idle_cycle_s(queue_count: int = 1_000) -> float:
    """CPU seconds of a cycle in which nothing changed, with everything full and workloads waiting in every queue."""
    all_queues = queues(cohorts=10, per_cohort=queue_count // 10)
    state = EngineState(snapshot_of(all_queues))
    kind = Class("small", 40, 1, 1.0, 50)
    for name, queue in all_queues.items():
        if queue.is_leaf:
            for workload, _ in workloads_of(name, (kind,)):
                state.take(workload)
    _settle(state)
    repeats = 200
    started = time.process_time()
    for _ in range(repeats):
        state.begin_cycle(state.now)
        state.apply(decide(state))
    return (time.process_time() - started) / repeats


def bytes_per_waiting(count: int = 20_000) -> float:
    """Memory that the engine's state takes for one more waiting workload, the workload itself included."""
    all_queues = queues(cohorts=1, per_cohort=QUEUES)
    state = EngineState(snapshot_of(all_queues))
    kind = Class("small", count // QUEUES, 1, 1.0, 50)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for name, queue in all_queues.items():
        if queue.is_leaf:
            for workload, _ in workloads_of(name, (kind,)):
                state.take(workload)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / count
