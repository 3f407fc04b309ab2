"""What a session tells another server of itself, as Volcano writes it for its extenders. Used by the extender policy.

Names and units are Volcano's: thousandths of cores and of everything that is not memory or places for pods, bytes of
memory. Of objects that is told which the session itself has: names, labels, annotations and what is decided by.
"""

from __future__ import annotations

from typing import Any

from muster.engine.session import Session
from muster.engine.standing import PodStanding, QueueStanding, Standing
from muster.engine.vectors import MEMORY, Vector, minus
from muster.model.groups import PodStatus
from muster.model.resources import CPU, PODS, amount_text

Json = dict[str, Any]

MILLI = 1000
_STATUSES = {
    PodStatus.PENDING: 1,
    PodStatus.ALLOCATED: 2,
    PodStatus.PIPELINED: 4,
    PodStatus.BINDING: 8,
    PodStatus.BOUND: 16,
    PodStatus.RUNNING: 32,
    PodStatus.RELEASING: 64,
    PodStatus.SUCCEEDED: 128,
    PodStatus.FAILED: 256,
    PodStatus.UNKNOWN: 512,
}


def amounts_json(amounts: Vector) -> Json:
    """A vector of resources."""
    others = {
        name: amount if name == PODS else amount * MILLI
        for name, amount in amounts.items()
        if name not in (CPU, MEMORY)
    }
    return {"MilliCPU": amounts.get(CPU, 0), "Memory": amounts.get(MEMORY, 0), "ScalarResources": others}


def pod_json(pod: PodStanding) -> Json:
    """A pod, which Volcano calls a task."""
    given = pod.pod
    namespace, _, name = given.key.partition("/")
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": given.uid,
        "labels": dict(given.labels),
        "annotations": dict(given.annotations),
    }
    return {
        "UID": given.uid,
        "Job": pod.owner.key,
        "Name": name,
        "Namespace": namespace,
        "TaskRole": pod.role,
        "Resreq": amounts_json(pod.requests),
        "InitResreq": amounts_json(pod.requests),
        "NodeName": pod.node,
        "Status": _STATUSES[pod.status],
        "Priority": pod.priority,
        "Preemptable": given.is_preemptable,
        "BestEffort": pod.is_best_effort,
        "Pod": {"metadata": metadata, "spec": {"nodeName": pod.node, "priority": pod.priority}},
    }


def node_json(session: Session, row: int) -> Json:
    """A node with what is free of it."""
    name = session.placer.table.names[row]
    node = session.snapshot.nodes.get(name)
    total: Vector = node.allocatable if node is not None else {}
    free = {key: max(0.0, amount) for key, amount in session.idle(row).items()}
    known = {key: amount for key, amount in free.items() if key in total}
    return {
        "Name": name,
        "Allocatable": amounts_json(total),
        "Capability": amounts_json(total),
        "Idle": amounts_json(known),
        "Used": amounts_json(minus(total, known)),
        "Node": {"metadata": {"name": name, "labels": dict(node.labels) if node is not None else {}}},
    }


def group_json(group: Standing) -> Json:
    """A group with its pods, which Volcano calls a job."""
    given = group.group
    name = given.key.rpartition("/")[2]
    least = given.resources_least
    spec = {"minMember": given.minimum, "minTaskMember": dict(given.minimum_by_role), "queue": given.queue}
    if least is not None:
        spec["minResources"] = {key: amount_text(key, amount) for key, amount in least.items()}
    metadata = {
        "name": name,
        "namespace": given.namespace,
        "labels": dict(given.labels),
        "annotations": dict(given.annotations),
    }
    return {
        "UID": given.key,
        "Name": name,
        "Namespace": given.namespace,
        "Queue": given.queue,
        "Priority": given.priority,
        "MinAvailable": given.minimum,
        "TaskMinAvailable": dict(given.minimum_by_role),
        "Allocated": amounts_json(group.allocated),
        "Tasks": {pod.pod.uid: pod_json(pod) for pod in group.pods.values()},
        "PodGroup": {"metadata": metadata, "spec": spec, "status": {"phase": group.phase.value}},
    }


def queue_json(queue: QueueStanding) -> Json:
    """A queue with what its groups hold."""
    given = queue.queue
    spec: Json = {"weight": given.weight, "reclaimable": given.is_reclaimable, "parent": given.parent}
    if given.capability is not None:
        spec["capability"] = {key: amount_text(key, amount) for key, amount in given.capability.items()}
    held = {key: amount_text(key, int(amount)) for key, amount in queue.allocated.items()}
    metadata = {"name": given.name, "annotations": dict(given.annotations)}
    return {
        "UID": given.name,
        "Name": given.name,
        "Weight": given.weight,
        "Queue": {"metadata": metadata, "spec": spec, "status": {"allocated": held}},
    }


def session_json(session: Session) -> Json:
    """All that there is when a session opens."""
    names = session.placer.table.names
    return {
        "Jobs": {key: group_json(group) for key, group in session.groups.items()},
        "Nodes": {name: node_json(session, row) for row, name in enumerate(names)},
        "Queues": {name: queue_json(queue) for name, queue in session.queues.items()},
    }
