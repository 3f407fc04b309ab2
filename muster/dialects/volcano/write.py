"""What a session decided, as the statuses that Volcano's objects have. Called by whoever carries a session out.

Nothing here is written: the caller puts the statuses on the objects, and binds and evicts pods.
"""

from __future__ import annotations

from typing import Any

from muster.engine.session import Session, phase_at_close
from muster.engine.standing import Standing
from muster.model.groups import HOLDING, GroupPhase, PodStatus
from muster.model.resources import amount_text
from muster.model.times import moment_text

Object = dict[str, Any]

UNSCHEDULABLE, SCHEDULED = "Unschedulable", "Scheduled"
NOT_ENOUGH, READY = "NotEnoughResources", "tasks in gang are ready to be scheduled"


def group_status(session: Session, group: Standing) -> Object:
    """The status of a PodGroup when a session has ended."""
    is_short = not session.tiers.is_ready(group)
    counts = group.by_status
    return {
        "phase": phase_at_close(group, is_unschedulable=is_short).value,
        "running": counts[PodStatus.RUNNING],
        "succeeded": counts[PodStatus.SUCCEEDED],
        "failed": counts[PodStatus.FAILED],
        "conditions": [_condition(session, group, is_short)],
    }


def _condition(session: Session, group: Standing, is_short: bool) -> Object:
    lacking = max(0, group.count_least - group.ready)
    why = session.outcome.reasons.get(group.key, "")
    message = f"{lacking}/{group.count} tasks in gang unschedulable" + (f": {why}" if why else "")
    return {
        "type": UNSCHEDULABLE if is_short else SCHEDULED,
        "status": "True",
        "reason": NOT_ENOUGH if is_short else READY,
        "message": message if is_short else "",
        "lastTransitionTime": moment_text(session.now),
    }


def queue_status(session: Session, name: str) -> Object:
    """The status of a Queue: how many of its groups are how far, and what their pods hold."""
    groups = session.queues[name].groups
    phases = [phase_at_close(group, is_unschedulable=not session.tiers.is_ready(group)) for group in groups]
    held: dict[str, int] = {}
    for group in groups:
        for pod in group.pods.values():
            if pod.status in HOLDING:
                for resource, amount in pod.pod.requests.items():
                    held[resource] = held.get(resource, 0) + amount
    return {
        "allocated": {resource: amount_text(resource, amount) for resource, amount in sorted(held.items())},
        **{phase.value.lower(): phases.count(phase) for phase in GroupPhase},
    }
