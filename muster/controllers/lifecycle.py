"""Lets time, stopped queues and checks have their effect on workloads: evictions, back-offs, switching off, retention.

Started by `app` beside the reconciler of jobs. It only carries out: what becomes of a workload follows from the stored
objects and the time, in `dialects.kueue.lifecycle`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from muster.controllers.events import Events, note_of
from muster.controllers.jobs import QUEUES, Jobs, write
from muster.controllers.loop import Turn
from muster.controllers.places import PODS
from muster.controllers.view import Seen, Terms, View
from muster.dialects.kueue.job_steps import WORKLOADS, Verb
from muster.dialects.kueue.lifecycle import (
    QUEUE_STOPPED,
    SUBMIT_QUEUE_STOPPED,
    TARGET,
    Life,
    LifecycleRules,
    outlook,
)
from muster.dialects.kueue.names import GROUP
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object, Propagation
from muster.store.records import Key
from muster.store.rules import Deletion

log = logging.getLogger(__name__)
CLUSTER_QUEUES = f"clusterqueues.{GROUP}"
COMPONENT = "muster-workloads"  # who tells of them
RESOURCES = frozenset((WORKLOADS, QUEUES, CLUSTER_QUEUES))
_LEAST_S = 0.05  # until a moment comes: clocks are not exact
_ENDED = ("Succeeded", "Failed")


class Lifecycle:
    """The controller of workloads."""

    name = "lifecycle"

    def __init__(self, jobs: Jobs, rules: LifecycleRules) -> None:
        self._jobs = jobs
        self._rules = rules
        self._events = Events(COMPONENT)

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == WORKLOADS:
            if seen.now is not None and self._may_change(seen.now, view):
                yield seen.key
        elif seen.key.resource == QUEUES and _is_other(seen):
            yield from _in_queue(seen.key.namespace, seen.key.name, view)
        elif seen.key.resource == CLUSTER_QUEUES and _is_other(seen):
            for queue in view.all(QUEUES):
                if queue["spec"].get("clusterQueue") == seen.key.name:
                    yield from _in_queue(queue["metadata"]["namespace"], queue["metadata"]["name"], view)
        elif seen.key.resource == PODS and seen.now is None and seen.before is not None:
            yield from (key for key in _named_by(seen.before) if view.record(key) is not None)

    def _may_change(self, workload: Object, view: View) -> bool:
        """Whether there is anything to look into; most workloads wait, run and end, and nothing comes between."""
        status, spec = workload.get("status") or {}, workload["spec"]
        said = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        if said.get("Finished") == "True":
            return self._rules.retention is not None
        if not spec.get("active", True) or status.get("admissionChecks") or spec.get("maximumExecutionTimeSeconds"):
            return True
        if "True" in (said.get("Evicted"), said.get(TARGET)) or said.get("Requeued") == "False":
            return True
        is_timed = self._rules.ready is not None and said.get("Admitted") == "True"
        return is_timed or any(one not in (None, "None") for one in _stops(workload, view).values())

    async def reconcile(self, turn: Turn) -> None:
        workload = turn.view.get(turn.key)
        if workload is None:
            return
        try:
            found = outlook(self._life(turn, workload))
        except InvalidObject as problem:
            log.warning("%s is left as it is: %s", turn.key, problem)
            return
        if found.due_s is not None:
            turn.look_again(max(_LEAST_S, found.due_s - turn.now_s))
        if found.step is None:
            return
        if found.step.verb is Verb.DELETE and not _is_finished(workload):
            await self._forget_job(turn, workload)
        await write(turn, found.step)
        if found.step.event is not None:
            log.info("%s %s: %s", turn.key, found.step.event.reason, found.step.event.message)
            await self._events.tell(turn, workload, note_of(found.step.event))

    def _life(self, turn: Turn, workload: Object) -> Life:
        return Life(
            workload=Fields(workload),
            stops=_stops(workload, turn.view),
            is_orphan=_is_orphan(turn.key, workload, turn.view),
            rules=self._rules,
            now=turn.now_s,
        )

    async def _forget_job(self, turn: Turn, workload: Object) -> None:
        """Delete what a workload stands for: a job without one would be given another."""
        for owner in workload["metadata"].get("ownerReferences") or ():
            for key in self._jobs.owner_keys({"metadata": {"ownerReferences": [owner]}}, turn.key.namespace):
                await turn.delete(key, Deletion(uid=owner["uid"], propagation=Propagation.BACKGROUND))


def _stops(workload: Object, view: View) -> dict[str, str | None]:
    """How the queues of a workload are stopped: the one that it was submitted to, and the one that pays."""
    namespace, name = workload["metadata"]["namespace"], workload["spec"].get("queueName") or ""
    submit = view.get(Key(QUEUES, namespace, name))
    admission = (workload.get("status") or {}).get("admission") or {}
    leads_to = ((submit or {}).get("spec") or {}).get("clusterQueue") or ""
    queue = view.get(Key(CLUSTER_QUEUES, "", admission.get("clusterQueue") or leads_to))
    return {QUEUE_STOPPED: _stop_of(queue), SUBMIT_QUEUE_STOPPED: _stop_of(submit)}


def _stop_of(queue: Object | None) -> str | None:
    return None if queue is None else (queue.get("spec") or {}).get("stopPolicy") or "None"


def _is_other(seen: Seen) -> bool:
    """Whether anything but the status of a queue has changed."""
    before, now = seen.before, seen.now
    return before is None or now is None or before.get("spec") != now.get("spec")


def _is_finished(workload: Object) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Finished" and one["status"] == "True" for one in conditions)


def _is_orphan(key: Key, workload: Object, view: View) -> bool:
    if workload["metadata"].get("ownerReferences"):
        return False
    pods = view.with_term(PODS, "workload", f"{key.namespace}/{key.name}")
    return all((pod.get("status") or {}).get("phase") in _ENDED for pod in pods)


def _in_queue(namespace: str, name: str, view: View) -> Iterator[Key]:
    for workload in view.with_term(WORKLOADS, "queue", f"{namespace}/{name}"):
        yield Key(WORKLOADS, namespace, workload["metadata"]["name"])


def _named_by(pod: Object) -> Iterator[Key]:
    name = (pod["metadata"].get("annotations") or {}).get(f"{GROUP}/workload")
    if name:
        yield Key(WORKLOADS, pod["metadata"]["namespace"], name)


def _queue_of(workload: Object) -> Iterable[str]:
    name = (workload.get("spec") or {}).get("queueName")
    return (f"{workload['metadata']['namespace']}/{name}",) if name else ()


INDEXES: dict[tuple[str, str], Terms] = {(WORKLOADS, "queue"): _queue_of}
