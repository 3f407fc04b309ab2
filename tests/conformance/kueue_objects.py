"""Kueue cases: objects and configuration into the engine's state, and amounts into comparable numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from muster.dialects.kueue.gates import FeatureGates
from muster.dialects.kueue.read import ReadOptions, read
from muster.dialects.kueue.settings import Configured, settings_of
from muster.dialects.kueue.topology_assignment import expanded
from muster.dialects.kueue.transformations import RequestRules, Transformation
from muster.engine.state import EngineState
from muster.engine.usage_history import in_base_units
from muster.model.durations import duration_ns
from muster.model.quantity import parse_quantity
from muster.model.resources import amount_of
from muster.model.settings import Settings, UsageFairness
from muster.model.snapshot import Snapshot
from muster.model.times import parse_moment
from tests.conformance.cases import Case

DEFAULT_CLOCK = "2026-01-01T12:00:00Z"


def settings_for(case: Case) -> Settings:
    """The engine's settings that a case's configuration names."""
    config = case.body.get("config") or {}
    fair = config.get("fairSharing") or {}
    strategies = None
    if fair.get("enabled"):
        default = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
        strategies = tuple(fair.get("preemptionStrategies") or default)
    configured = Configured(
        fair_sharing_strategies=strategies,
        ignores_undeclared=config.get("quotaCheckStrategy") == "IgnoreUndeclared",
        usage_fairness=_usage_fairness(config.get("admissionFairSharing")),
    )
    return settings_of(FeatureGates(dict(config.get("featureGates") or {})), configured)


def _usage_fairness(given: Mapping[str, Any] | None) -> UsageFairness | None:
    if given is None:
        return None
    return UsageFairness(
        half_life_s=duration_ns(given["usageHalfLifeTime"], "") / 1e9,
        sampling_s=duration_ns(given["usageSamplingInterval"], "") / 1e9,
        resource_weights=given.get("resourceWeights") or {},
    )


def clock_of(case: Case) -> float:
    return parse_moment(case.body.get("clock") or DEFAULT_CLOCK, "clock")


def options_for(case: Case, *, needs_objects: bool = True) -> ReadOptions:
    config = case.body.get("config") or {}
    return ReadOptions(
        settings=settings_for(case),
        now=clock_of(case),
        queued_by_eviction=config.get("podsReadyRequeuingTimestamp") != "Creation",
        needs_objects=needs_objects,
        request_rules=_request_rules(config.get("resourceTransformations") or ()),
        counts_limits_as_requests=False,
    )


def _request_rules(rows: Iterable[Mapping[str, Any]]) -> RequestRules:
    return RequestRules(
        transformations=tuple(
            Transformation(
                input=row["input"], outputs=resource_amounts(row["outputs"]), replaces=row["strategy"] == "Replace"
            )
            for row in rows
        )
    )


def snapshot_for(case: Case, extra: tuple[Mapping[str, Any], ...] = (), *, needs_objects: bool = True) -> Snapshot:
    """The snapshot of a case's objects, as they are, and of further ones."""
    snapshot = read([*case.body["objects"], *extra], options_for(case, needs_objects=needs_objects))
    consumed = (case.body.get("config") or {}).get("initialConsumedResources") or {}
    submit_queues = {
        key: replace(submit, consumed=_base_units(consumed.get(key)), consumed_at=snapshot.now)
        for key, submit in snapshot.submit_queues.items()
    }
    return replace(snapshot, submit_queues=submit_queues)


def _base_units(quantities: Mapping[str, Any] | None) -> dict[str, float]:
    return in_base_units(resource_amounts(quantities))


def state_for(case: Case, *, needs_objects: bool = True) -> EngineState:
    """The engine's state of a case, with the usage that it injects."""
    state = EngineState(snapshot_for(case, needs_objects=needs_objects))
    charge_usage(state, case)
    return state


def charge_usage(state: EngineState, case: Case) -> None:
    for queue, rows in (case.body.get("usage") or {}).items():
        amounts = {(row["flavor"], row["resource"]): row["amount"] for row in rows}
        state.ledger.charge(state.tree.nodes[queue], amounts)
    state.ledger.commit()


def amounts_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """Rows of flavor, resource and amount; zero is absence."""
    return {(row["flavor"], row["resource"]): row["amount"] for row in rows if row["amount"]}


def resource_amounts(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Quantities as the engine counts them."""
    return {name: amount_of(name, parse_quantity(str(text))) for name, text in (quantities or {}).items()}


def admission_numbers(admission: Mapping[str, Any] | None) -> object:
    """An admission with its quantities as numbers, so that 1 and 1000m are the same."""
    if admission is None:
        return None
    return {
        "clusterQueue": admission.get("clusterQueue"),
        "podSetAssignments": [
            {
                "name": item.get("name"),
                "count": item.get("count"),
                "flavors": item.get("flavors") or {},
                "resourceUsage": resource_amounts(item.get("resourceUsage")),
                "place": expanded(item["topologyAssignment"]) if item.get("topologyAssignment") else None,
                "delayed": item.get("delayedTopologyRequest"),
            }
            for item in admission.get("podSetAssignments") or ()
        ],
    }
