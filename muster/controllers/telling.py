"""Events about decisions: what is told, and the object that tells it. Used by the scheduler and the binder."""

from __future__ import annotations

from muster.controllers.belonging import PODS
from muster.controllers.carrying_out import key_of
from muster.dialects.kueue.write import Event, events_of, published_reason
from muster.model.plan import Decision, Plan, Reserve
from muster.model.reason import Verdict
from muster.model.times import moment_text
from muster.store.kinds import Object

MESSAGE_MOST = 1024  # characters; the API takes no more


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


def event_object(event: Event, about: Object, now: float) -> Object:
    """An event as the API has it."""
    metadata = about["metadata"]
    when = moment_text(now)
    reference = {"apiVersion": about["apiVersion"], "kind": about["kind"], "name": metadata["name"]}
    reference |= {"namespace": metadata["namespace"], "uid": metadata["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": reference,
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:MESSAGE_MOST],
        "source": {"component": "muster-scheduler"},
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }
