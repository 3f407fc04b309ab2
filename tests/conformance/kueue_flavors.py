"""Flavor assignment cases: a workload, a queue, injected usage and a given oracle lead to which flavors?"""

from __future__ import annotations

from typing import Any

from muster.dialects.kueue.read_workloads import WorkloadReader
from muster.engine.assignment import Assignment, Attempt, Mode, Outcome, Standing, is_preferred
from muster.engine.flavors import FlavorSearch
from muster.engine.placing import Placing
from muster.engine.state import EngineState
from muster.model.fields import Fields
from muster.model.queue import FlavorRules
from muster.model.resources import FlavorResource
from muster.model.workload import PodSetAdmission, Workload
from tests.conformance.cases import Case, expect_equal
from tests.conformance.kueue_objects import amounts_of, resource_amounts, settings_for, state_for

OUTCOMES = {
    Outcome.NO_FIT: "NoFit",
    Outcome.PREEMPT: "Preempt",
    Outcome.DEFERRED_FIT: "DeferredFit",
    Outcome.FIT: "Fit",
}
MODES = {
    "NoFit": Mode.NO_FIT,
    "NoPreemptionCandidates": Mode.NO_CANDIDATES,
    "NoCandidates": Mode.NO_CANDIDATES,
    "Preempt": Mode.PREEMPT,
    "Reclaim": Mode.RECLAIM,
    "Fit": Mode.FIT,
}
SHOWN_MODES = {
    Mode.NO_FIT: "NoFit",
    Mode.NO_CANDIDATES: "Preempt",
    Mode.PREEMPT: "Preempt",
    Mode.RECLAIM: "Preempt",
    Mode.FIT: "Fit",
}


def incoming_workload(case: Case) -> Workload:
    return WorkloadReader(settings=settings_for(case), counts_limits_as_requests=False).read(
        Fields.of(case.body["incoming"])
    )


def assign(case: Case) -> Assignment:
    """Run the flavor search of a case."""
    state: EngineState = state_for(case, needs_objects=False)
    given = case.body["config"]["preemptionOracle"]
    results = {(row["flavor"], row["resource"]): row for row in given.get("results") or ()}

    def oracle(key: FlavorResource, _amount: int) -> Standing:
        row = results.get(key, given["default"])
        return Standing(MODES[row["possibility"]], row["borrowingLevelAfter"])

    search = FlavorSearch(
        workload=incoming_workload(case),
        queue=state.tree.nodes[case.body["clusterQueue"]],
        flavors=state.flavors,
        settings=state.settings,
        oracle=oracle,
        older_slice=_older_slice(case),
        placing=_placing(case, state),
    )
    return search.assign()


def _placing(case: Case, state: EngineState) -> Placing | None:
    if not state.places.is_any:
        return None
    queue = state.tree.nodes[case.body["clusterQueue"]]
    return Placing(workload=incoming_workload(case), queue=queue, flavors=state.flavors, places=state.places)


def _older_slice(case: Case) -> dict[str, PodSetAdmission]:
    rows = (case.body.get("replacedWorkloadSlice") or {}).get("podSets") or ()
    return {
        row["name"]: PodSetAdmission(
            name=row["name"],
            count=row["count"],
            flavors=row["flavors"],
            usage=resource_amounts(row["totalRequests"]),
        )
        for row in rows
    }


def run_assignment(case: Case) -> None:
    """Compare everything that the case lists of the assignment."""
    got, expect = assign(case), case.body["expect"]
    if "representativeMode" in expect:
        expect_equal("mode", OUTCOMES[got.outcome], expect["representativeMode"])
    if "flavors" in expect:
        flavors = {resource: choice.flavor for p in got.pod_sets for resource, choice in p.flavors.items()}
        expect_equal("flavors", flavors, expect["flavors"])
    if "podSetFlavors" in expect:
        _expect_pod_sets(got, expect)
    if "assignment" in expect:
        _expect_assignment(got, expect["assignment"])
    if "noFitReason" in expect:
        expect_equal("refusal", got.refusal.value if got.refusal else "", expect["noFitReason"])
    if "attemptNoFitReasons" in expect:
        refusals = {a.flavor: a.refusal.value for p in got.pod_sets for a in p.attempts if _is_refused(a)}
        listed = {flavor: refusals.get(flavor, "") for flavor in expect["attemptNoFitReasons"]}
        expect_equal("refusals", listed, expect["attemptNoFitReasons"])


def _expect_pod_sets(got: Assignment, expect: dict[str, Any]) -> None:
    refused = {p.name for p in got.pod_sets if p.refusal is not None}
    expect_equal("pod sets in error", refused, set(expect["podSetErrors"]))
    flavors = {p.name: {resource: choice.flavor for resource, choice in p.flavors.items()} for p in got.pod_sets}
    want = {
        name: {resource: cell["flavor"] for resource, cell in row.items()}
        for name, row in expect["podSetFlavors"].items()
    }
    expect_equal("flavors of pod sets", flavors, want)


def _is_refused(attempt: Attempt) -> bool:
    return attempt.standing.mode is Mode.NO_FIT


def _expect_assignment(got: Assignment, want: dict[str, Any]) -> None:
    if "borrowingLevel" in want:
        expect_equal("borrowing level", got.level, want["borrowingLevel"])
    expect_equal("usage", {k: v for k, v in got.usage.items() if v}, amounts_of(want.get("usage") or []))
    if want.get("noFitReason"):
        expect_equal("refusal", got.refusal.value if got.refusal else "", want["noFitReason"])
    expect_equal("pod sets", [p.name for p in got.pod_sets], [p["name"] for p in want["podSets"]])
    for pod_set, row in zip(got.pod_sets, want["podSets"], strict=True):
        expect_equal(f"count of {row['name']}", pod_set.count, row["count"])
        flavors = {
            resource: (choice.flavor, SHOWN_MODES[choice.mode], choice.tried_index)
            for resource, choice in pod_set.flavors.items()
        }
        expected = {
            resource: (cell["flavor"], cell["mode"], cell.get("triedFlavorIdx", -1))
            for resource, cell in (row.get("flavors") or {}).items()
        }
        expect_equal(f"flavors of {row['name']}", flavors, expected)
        expect_equal(f"requests of {row['name']}", dict(pod_set.requests), resource_amounts(row.get("requests")))
        if "attempts" in row:
            _expect_attempts(row, list(pod_set.attempts))


def _expect_attempts(row: dict[str, Any], made: list[Attempt]) -> None:
    """Where something fits, only what was looked at counts: the search may stop there."""
    got = sorted(map(_attempt, made))
    want = sorted((a["flavor"], a["mode"], a["borrowingLevel"], a.get("noFitReason", "")) for a in row["attempts"])
    if any(attempt.standing.mode is Mode.FIT for attempt in made):
        flavors = {attempt.flavor for attempt in made}
        want = [attempt for attempt in want if attempt[0] in flavors]
    expect_equal(f"attempts of {row['name']}", got, want)


def _attempt(attempt: Attempt) -> tuple[str, str, int, str]:
    refusal = attempt.refusal.value if attempt.refusal is not None and _is_refused(attempt) else ""
    return (attempt.flavor, SHOWN_MODES[attempt.standing.mode], attempt.standing.level, refusal)


def run_is_preferred(case: Case) -> None:
    """Which of two standings is better under given rules."""
    rules = case.body["flavorFungibility"]
    one, other = (Standing(MODES[case.body[x]["mode"]], case.body[x]["borrowingLevel"]) for x in ("a", "b"))
    got = is_preferred(one, other, FlavorRules(prefers_preempting=rules.get("preference") == "PreemptionOverBorrowing"))
    expect_equal("preferred", got, case.body["expect"]["aPreferredOverB"])
