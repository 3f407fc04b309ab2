"""Who waits in a queue, in the order in which they are tried: what the visibility API tells. Called by the API server.

It is worked out from the stored objects when somebody asks. Where submit queues take turns by what they have used, the
order is the one that holds without that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.dialects.kueue.read_workloads import queued_at, read_conditions
from muster.dialects.kueue.validate_workload import has_condition, has_quota
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.times import moment

GROUP = "visibility.kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
PENDING = "pendingworkloads"
_KEPT = ("name", "namespace", "creationTimestamp", "ownerReferences")


@dataclass(frozen=True, slots=True)
class Waiting:
    """One workload in line."""

    workload: Fields
    submit_queue: str  # namespace/name
    priority: int
    position: int  # in the queue, from 0 on
    position_in_submit_queue: int

    def item(self) -> dict[str, Any]:
        """The workload as the API tells of it."""
        metadata = self.workload.child("metadata").values
        return {
            "metadata": {name: metadata[name] for name in _KEPT if name in metadata},
            "priority": self.priority,
            "localQueueName": self.submit_queue.partition("/")[2],
            "positionInClusterQueue": self.position,
            "positionInLocalQueue": self.position_in_submit_queue,
        }


def waiting_in(workloads: Iterable[Fields], submit_queues: Mapping[str, str], queue: str) -> list[Waiting]:
    """Those that wait in a queue; `submit_queues` says by namespace and name which queue each leads to."""
    found: list[tuple[tuple[int, float, str], Fields, str]] = []
    for workload in workloads:
        try:
            submit = f"{workload.child('metadata').text('namespace')}/{workload.child('spec').text('queueName')}"
            if submit_queues.get(submit) == queue and _waits(workload):
                found.append((_rank(workload), workload, submit))
        except InvalidObject:
            continue  # who cannot be read is in no line
    found.sort(key=lambda one: one[0])
    before: dict[str, int] = {}
    waiting = []
    for position, (rank, workload, submit) in enumerate(found):
        waiting.append(Waiting(workload, submit, -rank[0], position, before.get(submit, 0)))
        before[submit] = before.get(submit, 0) + 1
    return waiting


def _waits(workload: Fields) -> bool:
    is_active = workload.child("spec").flag("active", True)
    return is_active and not has_quota(workload) and not has_condition(workload, "Finished")


def _rank(workload: Fields) -> tuple[int, float, str]:
    metadata = workload.child("metadata")
    created_at = moment(metadata, "creationTimestamp") or 0.0
    since = queued_at(read_conditions(workload.child("status")), created_at, is_moved_back=False)
    return -workload.child("spec").integer("priority"), since, metadata.text("uid")
