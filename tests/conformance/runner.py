"""Which driver replays which source, which cases wait and why, and the running of one case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path

from tests.conformance import (
    hami_cases,
    kueue_cycles,
    kueue_flavors,
    kueue_preemption,
    kueue_queues,
    kueue_topology,
    volcano_cases,
    yunikorn_cases,
)
from tests.conformance.cases import Case, Mismatch, Skip, cases_in

Driver = Callable[[Case], None]

DRIVERS: Mapping[str, Driver] = {
    "TestSchedule": kueue_cycles.run_one_cycle,
    "TestScheduleRecomputePreemptionTargets": kueue_cycles.run_one_cycle,
    "TestLastSchedulingContext": kueue_cycles.run_last_scheduling_context,
    "TestScheduleForPreserveFlavorScanProgress": kueue_cycles.run_scan_progress,
    "TestPreemption": kueue_preemption.run_targets,
    "TestHierarchicalPreemptions": kueue_preemption.run_targets,
    "TestScheduleForFairSharing": kueue_cycles.run_one_cycle,
    "TestScheduleForAFS": kueue_cycles.run_cycles,
    "TestScheduleConcurrentAdmission": kueue_cycles.run_one_cycle,
    "TestScheduleForTAS": kueue_cycles.run_topology_cycle,
    "TestScheduleForTASCohorts": kueue_cycles.run_topology_cycle,
    "TestScheduleForTASPreemption": kueue_cycles.run_topology_cycle,
    "TestAssignFlavors_LeaderWorkerSetTASFlavor": kueue_flavors.run_assignment,
    "TestFindTopologyAssignments": kueue_topology.run_topology_search,
    "TestFindTopologyAssignmentsMultiLayerReplacement": kueue_topology.run_topology_search,
    "TestFsAdmission": kueue_queues.run_fair_head,
    "TestFairPreemptions": kueue_preemption.run_targets,
    "TestDominantResourceShare": kueue_queues.run_shares,
    "TestCandidatesOrdering": kueue_preemption.run_candidates_ordering,
    "TestAssignFlavors": kueue_flavors.run_assignment,
    "TestAssignFlavorsWithAllowedFlavors": kueue_flavors.run_assignment,
    "TestReclaimBeforePriorityPreemption": kueue_flavors.run_assignment,
    "TestHierarchical": kueue_flavors.run_assignment,
    "TestDeletedFlavors": kueue_flavors.run_assignment,
    "TestIsNoFitDueToCapacityAndLimits": kueue_flavors.run_assignment,
    "TestIsPreferred": kueue_flavors.run_is_preferred,
    "TestAvailable": kueue_queues.run_available,
    "TestIsBorrowingOn": kueue_queues.run_is_borrowing_on,
    "TestResourcesToReserve": kueue_queues.run_resources_to_reserve,
    "TestEntryOrdering": kueue_queues.run_entry_ordering,
    "TestStrictFIFO": kueue_queues.run_head,
    "TestBackoffWaitingTimeExpired": kueue_queues.run_backoff,
    "TestBestEffortFIFORequeueIfNotPresent": kueue_queues.run_requeue,
    "TestStrictFIFORequeueIfNotPresent": kueue_queues.run_requeue,
}

# Sources whose subject the engine does not have yet.
WAITING: Mapping[str, str] = {}


def all_cases(folder: Path) -> Iterator[Case]:
    """The cases of a folder in whichever form its system's are kept."""
    if (folder / hami_cases.CONFIGS).exists():
        return hami_cases.hami_cases_in(folder)
    return cases_in(folder)


class Verdict(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


def _driver_of(case: Case) -> Driver | None:
    """By the form of the case where a system has one of its own, else by its source."""
    if "_config" in case.body:
        return hami_cases.run_hami
    if case.source.startswith(yunikorn_cases.PREFIX):
        return yunikorn_cases.run_configuration
    if case.body.get("kind") in ("session", "function"):
        return volcano_cases.run_volcano
    return DRIVERS.get(case.source)


def run_case(case: Case) -> tuple[Verdict, str]:
    """Replay one case; the text says what differed or why it was skipped."""
    if case.source in WAITING:
        return Verdict.SKIPPED, WAITING[case.source]
    driver = _driver_of(case)
    if driver is None:
        return Verdict.FAILED, f"nobody knows the source {case.source!r}"
    try:
        driver(case)
    except Mismatch as mismatch:
        return Verdict.FAILED, str(mismatch)
    except Skip as reason:
        return Verdict.SKIPPED, str(reason)
    return Verdict.PASSED, ""
