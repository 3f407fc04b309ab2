"""What is told of decisions. Used by the scheduler, the binder and the control of jobs."""

from __future__ import annotations

from muster.controllers.belonging import PODS
from muster.controllers.carrying_out import key_of
from muster.controllers.events import Note
from muster.dialects.kueue.write import Event, events_of, published_reason
from muster.model.plan import Decision, Plan, Reserve
from muster.model.reason import Verdict

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


def events_of_refusal(verdict: Verdict) -> list[Event]:
    """What is told of a workload that waits."""
    is_pod = key_of(verdict.workload).resource == PODS
    reason = "FailedScheduling" if is_pod else published_reason(verdict.code)
    return [Event("Warning", verdict.workload, reason, verdict.told)]


def note_of(event: Event) -> Note:
    """What is told of an object, without the object."""
    return Note(event.type, event.reason, event.message)
