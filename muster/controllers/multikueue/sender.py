"""Sends workloads to other clusters and follows them there, as far as their own cluster is concerned.

Run by a loop of its own. It looks at what is known of the other clusters and writes here alone, so it waits for none of
them; the copies are made by `mirror`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from math import inf

from muster.controllers.events import WARNING, Events, Note, note_of
from muster.controllers.jobs import write
from muster.controllers.loop import Turn
from muster.controllers.multikueue.clusters import CLUSTERS, Clusters, lost_at
from muster.controllers.multikueue.local import Local
from muster.controllers.multikueue.mirror import copy_in
from muster.controllers.view import Seen, View
from muster.dialects.kueue.job_steps import WORKLOADS, Step
from muster.dialects.kueue.multikueue import DATA, Copy, Sending, course
from muster.dialects.kueue.multikueue_capacity import asked_of, fits_of
from muster.dialects.kueue.names import GROUP
from muster.engine.dispatch import Candidate, Preference
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object
from muster.store.records import Key

log = logging.getLogger(__name__)
COMPONENT = "muster-multikueue"  # who tells of them
PRICE = "muster.dev/price"  # the annotation of a MultiKueueCluster: what an hour there costs
LOCAL_QUEUES, CLUSTER_QUEUES = f"localqueues.{GROUP}", f"clusterqueues.{GROUP}"
_LEAST_S = 0.05  # until a moment comes: clocks are not exact


class Sender:
    """The controller of workloads that are sent elsewhere."""

    name = "multikueue"

    def __init__(self, local: Local, clusters: Clusters) -> None:
        self._local = local
        self._clusters = clusters
        self._events = Events(COMPONENT)
        self._resources = {kind.resource for kind in local.rules.kinds}

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == WORKLOADS:
            if seen.now is not None and self._local.check_of(seen.now):
                yield seen.key
        elif seen.key.resource in self._resources and seen.now is not None:
            for workload in view.owned(seen.now["metadata"]["uid"], WORKLOADS):
                yield Key(WORKLOADS, seen.key.namespace, workload["metadata"]["name"])

    async def reconcile(self, turn: Turn) -> None:
        workload = turn.view.get(turn.key)
        check = self._local.check_of(workload) if workload is not None else ""
        if workload is None or not check:
            return
        kind, job = self._local.job_of(workload)
        clusters = self._local.clusters_of(check)
        found = course(
            Sending(
                workload=Fields(workload),
                check=check,
                copies=tuple(self._copy(turn, name) for name in clusters),
                job=None if job is None else Fields(job),
                kind=kind,
                candidates=tuple(self._candidates(turn, workload, clusters)),
                rules=self._local.rules,
                now=turn.now_s,
            )
        )
        if found.due_s is not None and found.due_s < inf:
            turn.look_again(max(_LEAST_S, found.due_s - turn.now_s))
        for step in found.steps:
            await self._write(turn, workload, step)

    async def _write(self, turn: Turn, workload: Object, step: Step) -> None:
        try:
            await write(turn, step)
        except InvalidObject as problem:
            if step.resource == WORKLOADS:
                raise
            # A job that cannot look here as it does there keeps nobody from writing down how it ended.
            log.warning("%s: the status of its job cannot be written here: %s", turn.key, problem)
            await self._events.tell(
                turn, workload, Note(WARNING, "MultiKueue", f"The job's status is refused: {problem}")
            )
            return
        if step.event is not None:
            log.info("%s: %s", turn.key, step.event.message)
            await self._events.tell(turn, workload, note_of(step.event))

    # What is known of other clusters ---------------------------------------------------------------------------------

    def _copy(self, turn: Turn, name: str) -> Copy:
        link = self._clusters.links.get(name)
        if link is not None and link.view is not None:
            return copy_in(link.view, turn.key, name, self._local)[0]
        obj = turn.view.get(Key(CLUSTERS, "", name))
        return Copy(cluster=name, is_reachable=False, lost_at=lost_at(obj) if obj is not None else -inf)

    def _candidates(self, turn: Turn, workload: Object, clusters: tuple[str, ...]) -> Iterator[Candidate]:
        by_best = self._local.rules.dispatch.preference is not Preference.AS_LISTED
        for name in clusters:
            link = self._clusters.links.get(name)
            view = None if link is None else link.view
            if view is None or not by_best:
                yield Candidate(name=name, is_reachable=view is not None)
                continue
            annotations = Fields(turn.view.get(Key(CLUSTERS, "", name)) or {}).child("metadata").text_map("annotations")
            near = (part.strip() for part in annotations.get(DATA, "").split(","))
            yield Candidate(
                name=name,
                fits=_fits(view, Fields(workload)),
                price=_number(annotations.get(PRICE, "")),
                data=frozenset(part for part in near if part),
            )


def _fits(view: View, workload: Fields) -> float:
    """How often a workload fits into its queue in another cluster."""
    namespace, queue = workload.child("metadata").text("namespace"), workload.child("spec").text("queueName")
    try:
        submitted = Fields(view.get(Key(LOCAL_QUEUES, namespace, queue)) or {})
        above = view.get(Key(CLUSTER_QUEUES, "", submitted.child("spec").text("clusterQueue")))
        return 0.0 if above is None else fits_of(asked_of(workload), Fields(above))
    except InvalidObject as problem:
        log.info("the queue %s/%s of another cluster is not understood: %s", namespace, queue, problem)
        return 0.0


def _number(text: str) -> float:
    try:
        return float(text[:32]) if text else inf
    except ValueError:
        return inf
