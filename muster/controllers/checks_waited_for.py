"""Who waits for admission checks: which have to be passed, and what a status says of it. Pure; the scheduler's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from muster.dialects.kueue.write import status_after_checks, with_checks
from muster.engine.explain import needed_checks
from muster.engine.state import EngineState
from muster.model.workload import CheckState, Workload
from muster.store.kinds import Object

Waiting = tuple[Workload, list[str]]  # who waits, and the checks that have to be passed


def with_other_checks(state: EngineState, touched: Iterable[str]) -> list[Waiting]:
    """Those of them whose queue has got or lost checks while they waited."""
    return [(one, needed) for one, needed in _waiting(state, touched) if needed != sorted(one.checks)]


def checked(state: EngineState, touched: Iterable[str]) -> list[Workload]:
    """Those of them that have passed all checks and are not admitted yet."""
    return [one for one, needed in _waiting(state, touched) if needed == sorted(one.checks) and _has_passed(one)]


def status_with(obj: Object, waiting: Waiting, now: float) -> dict[str, Any]:
    """The status of a workload that has other checks to pass from now on, or none any more."""
    workload, needed = waiting
    status = with_checks(dict(obj.get("status") or {}), needed, now)
    has_place = workload.admission is None or not any(one.is_delayed for one in workload.admission.pod_sets)
    if not needed and has_place:
        return status_after_checks({**obj, "status": status}, now)  # nothing is left to wait for
    return status


def _waiting(state: EngineState, touched: Iterable[str]) -> Iterator[Waiting]:
    """Those of them that hold quota and are not admitted yet, with the checks that they have to pass."""
    for key in sorted(touched):
        workload = state.workloads.get(key)
        if workload is None or workload.is_admitted or workload.is_evicted or workload.is_finished:
            continue
        if workload.admission is not None and workload.checks:
            yield workload, needed_checks(state, workload.admission)


def _has_passed(workload: Workload) -> bool:
    return not workload.needs_place and all(state is CheckState.READY for state in workload.checks.values())
