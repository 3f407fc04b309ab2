"""Marks the namespaces that have a LocalQueue for jobs that name none. Run by `muster manage` beside its webhooks.

An API server asks about jobs without a queue only in namespaces with this mark: elsewhere they never depend on Muster.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.dialects.kueue.job_workloads import DEFAULT_NAME
from muster.dialects.kueue.names import GROUP, HAS_DEFAULT_QUEUE
from muster.store.metadata import is_deleting
from muster.store.records import Key

NAMESPACES, QUEUES = "namespaces", f"localqueues.{GROUP}"
_YES = "true"


class DefaultQueues:
    """The controller of the mark."""

    name = "default-queues"

    def keys(self, seen: Seen, _view: View) -> Iterable[Key]:
        if seen.key.resource == NAMESPACES:
            yield seen.key
        elif seen.key.resource == QUEUES and seen.key.name == DEFAULT_NAME:
            yield Key(NAMESPACES, "", seen.key.namespace)

    async def reconcile(self, turn: Turn) -> None:
        namespace = turn.view.get(turn.key)
        if namespace is None or is_deleting(namespace):
            return
        labels = namespace["metadata"].get("labels") or {}
        has_queue = turn.view.get(Key(QUEUES, turn.key.name, DEFAULT_NAME)) is not None
        if has_queue == (labels.get(HAS_DEFAULT_QUEUE) == _YES):
            return
        kept = {name: value for name, value in labels.items() if name != HAS_DEFAULT_QUEUE}
        new = {**kept, HAS_DEFAULT_QUEUE: _YES} if has_queue else kept
        await turn.update(turn.key, {**namespace, "metadata": {**namespace["metadata"], "labels": new}})
