"""Admission to the end: every workload is submitted, admitted, run in virtual time and finished; engine only."""

from __future__ import annotations

import gc
import heapq
import time
from dataclasses import dataclass, replace

from bench.shapes import MIXED, Class, queues, snapshot_of, workloads_of
from muster.engine.decide import decide
from muster.engine.state import EngineState


@dataclass
class Result:
    """What a run to the end took."""

    admissions: int = 0
    evictions: int = 0
    cycles: int = 0
    cpu_s: float = 0.0
    virtual_s: float = 0.0

    @property
    def rate(self) -> float:
        return self.admissions / self.cpu_s


def run_to_the_end(*, cohorts: int, per_cohort: int, classes: tuple[Class, ...] = MIXED, times: int = 1) -> Result:
    """Run all workloads; submitting, deciding, applying and finishing all count."""
    all_queues = queues(cohorts=cohorts, per_cohort=per_cohort)
    jobs = [job for name, q in all_queues.items() if q.is_leaf for job in workloads_of(name, classes, times=times)]
    run_s = {workload.key: seconds for workload, seconds in jobs}
    result = Result()
    gc.collect()
    started = time.process_time()
    state = EngineState(snapshot_of(all_queues))
    for workload, _ in jobs:
        state.take(workload)
    _drain(state, run_s, result)
    result.cpu_s = time.process_time() - started
    return result


def _drain(state: EngineState, run_s: dict[str, float], result: Result) -> None:
    """Cycles until nothing changes, then on to the next finish, until all have finished."""
    now = 0.0
    ending: list[tuple[float, str, float]] = []
    left = len(run_s)
    while left:
        state.begin_cycle(now)
        plan = decide(state)
        state.apply(plan)
        result.cycles += 1
        for reserve in plan.reserves:
            result.admissions += 1
            heapq.heappush(ending, (now + run_s[reserve.workload], reserve.workload, now))
        for evict in plan.evictions:
            result.evictions += 1
            workload = state.workloads[evict.workload]
            state.take(replace(workload, admission=None, is_evicted=False, is_admitted=False, reserved_at=None))
        if plan.reserves or plan.evictions or _has_more(state):
            continue
        now = ending[0][0]
        while ending and ending[0][0] <= now:
            _, key, since = heapq.heappop(ending)
            workload = state.workloads[key]
            if workload.admission is not None and workload.reserved_at == since:
                state.drop(key)
                left -= 1
    result.virtual_s = now


def _has_more(state: EngineState) -> bool:
    """Whether some queue still has a head that was not tried in vain."""
    return any(True for _ in state.heads())
