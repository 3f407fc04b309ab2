"""Writing the status of queues: how many wait, hold quota and run, what they use, and whether the queue takes any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.dialects.kueue.write import Setting, status_with
from muster.model.queue import Queue, Stop
from muster.model.resources import FlavorResource, amount_text


@dataclass(slots=True)
class Counts:
    """What is counted of one queue."""

    pending: int = 0
    reserving: int = 0  # with quota, those that run included
    admitted: int = 0
    reserved: dict[FlavorResource, int] = field(default_factory=dict)
    used: dict[FlavorResource, int] = field(default_factory=dict)  # by those that are admitted

    @property
    def is_empty(self) -> bool:
        return not self.pending and not self.reserving


def inactive_reason(queue: Queue) -> str:
    """Kueue's word for why a queue takes nobody; empty when it does."""
    if queue.stop is not Stop.NONE:
        return "Stopped"
    text = queue.inactive_because
    words = {"it is being": "Terminating", "the flavors": "FlavorNotFound", "the topologies": "TopologyNotFound"}
    known = next((reason for start, reason in words.items() if text.startswith(start)), "")
    return known or ("CheckNotFoundOrInactive" if text else "")


def cluster_queue_status(obj: Mapping[str, Any], queue: Queue, counts: Counts, now: float) -> dict[str, Any]:
    """The status of a ClusterQueue."""
    reason = inactive_reason(queue)
    problem = queue.inactive_because or f"its stopPolicy is {queue.stop.value}"
    text = f"Can't admit new workloads: {problem}" if reason else "Can admit new workloads"
    status = _with_active(obj, reason, text, now)
    nominal = {key: quota.nominal for key, quota in queue.quotas.items()}
    return {
        **status,
        **_numbers(counts),
        "flavorsReservation": _usage(queue, counts.reserved, nominal),
        "flavorsUsage": _usage(queue, counts.used, nominal),
    }


def local_queue_status(obj: Mapping[str, Any], queue: Queue | None, counts: Counts, now: float) -> dict[str, Any]:
    """The status of a LocalQueue, given the queue that it leads to."""
    spec = obj.get("spec") or {}
    if queue is None:
        reason, text = "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    elif (spec.get("stopPolicy") or "None") != "None":
        reason, text = "Stopped", "LocalQueue is stopped"
    elif inactive_reason(queue):
        reason, text = "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    else:
        reason, text = "", "Can submit new workloads to localQueue"
    status = _with_active(obj, reason, text, now)
    return {
        **status,
        **_numbers(counts),
        "flavorsReservation": _usage(queue, counts.reserved, None),
        "flavorsUsage": _usage(queue, counts.used, None),
    }


def _numbers(counts: Counts) -> dict[str, int]:
    return {
        "pendingWorkloads": counts.pending,
        "reservingWorkloads": counts.reserving,
        "admittedWorkloads": counts.admitted,
    }


def _usage(
    queue: Queue | None, amounts: Mapping[FlavorResource, int], nominal: Mapping[FlavorResource, int] | None
) -> list[dict[str, Any]]:
    """What is used of every flavor, in the order in which the queue tries them; with what is borrowed, if asked."""
    result = []
    for group in queue.groups if queue is not None else ():
        for flavor in group.flavors:
            resources = []
            for resource in sorted(group.resources):
                total = amounts.get((flavor, resource), 0)
                item = {"name": resource, "total": amount_text(resource, total)}
                if nominal is not None:
                    item["borrowed"] = amount_text(resource, max(0, total - nominal.get((flavor, resource), 0)))
                resources.append(item)
            result.append({"name": flavor, "resources": resources})
    return result


def _with_active(obj: Mapping[str, Any], reason: str, text: str, now: float) -> dict[str, Any]:
    """The status with the condition that says whether the queue takes workloads; a reason is why it does not."""
    return status_with(obj, Setting(type="Active", is_true=not reason, reason=reason or "Ready", message=text), now)
