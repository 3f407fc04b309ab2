"""What is told of decisions and of those that wait. Used by the scheduler and the binder."""

from __future__ import annotations

from muster.controllers.belonging import PODS
from muster.controllers.carrying_out import key_of
from muster.dialects.fit_text import unavailable_text
from muster.dialects.kueue.write import Event, events_of, published_reason
from muster.engine.fit import why_not
from muster.engine.node_table_rows import Demand
from muster.engine.state import EngineState
from muster.model.plan import Decision, Plan, Reserve
from muster.model.reason import Code, Verdict
from muster.model.workload import PodSet

SCHEDULER = "muster-scheduler"  # who tells it


def events_of_decision(decision: Decision) -> list[Event]:
    """What is told when a decision was carried out."""
    if isinstance(decision, Reserve) and key_of(decision.workload).resource == PODS:
        node = decision.admission.pod_sets[0].slots[0].node
        return [scheduled(decision.workload, node)]
    return list(events_of(Plan(cycle=0, decisions=(decision,))))


def scheduled(workload: str, node: str) -> Event:
    """What is told of a pod that was bound."""
    key = key_of(workload)
    return Event("Normal", workload, "Scheduled", f"Successfully assigned {key.namespace}/{key.name} to {node}")


def events_of_refusal(verdict: Verdict, told: str) -> list[Event]:
    """What is told of a workload that waits."""
    is_pod = key_of(verdict.workload).resource == PODS
    reason = "FailedScheduling" if is_pod else published_reason(verdict.code)
    return [Event("Warning", verdict.workload, reason, told)]


class Refusals:
    """What those that wait are told in one pass; of a pod by itself, how many nodes refuse it for which reason."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._known: dict[Demand, str] = {}  # many pods ask for the same

    def told(self, verdict: Verdict) -> str:
        """The verdict in one line."""
        slots, workload = self._state.places.slots, self._state.workloads[verdict.workload]
        is_pod = key_of(verdict.workload).resource == PODS
        if slots is None or not is_pod or verdict.code is not Code.WAITING_FOR_NODES:
            return verdict.told
        flavors = (one.value("flavor") for one in verdict.details if one.code is Code.NO_NODES)
        pod_set = workload.pod_sets[0]
        demand = slots.demand_of(workload, pod_set, next(flavors, "").split(", "))
        if demand not in self._known:
            report = why_not(slots.placer, demand)
            # Where some node would take it by itself, something else keeps it from there.
            self._known[demand] = "" if report.fitting else unavailable_text(report, _card(pod_set))
        return self._known[demand] or verdict.told


def _card(pod_set: PodSet) -> str:
    """What a pod calls the cards that it asks for: vendors' resources have a domain."""
    return next((name for name in sorted(pod_set.requests) if "/" in name), "cards")
