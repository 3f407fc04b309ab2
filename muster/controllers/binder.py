"""The binder: puts the pods of admitted workloads on the nodes and cards that were decided for them. Run by a loop.

All it needs is on record: the slots with the workload, and on each bound pod which slot it has. So it can stop at any
write and go on from there; what is bound already is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from muster.controllers.belonging import (
    PODS,
    WORKLOADS,
    has_condition,
    is_placed_alike,
    object_key,
    pods_of,
    workload_of,
)
from muster.controllers.carrying_out import Annotate, unscheduled
from muster.controllers.events import Events, note_of
from muster.controllers.loop import Turn
from muster.controllers.pod_claims import BY_CLAIM, claim_state, told, unreached, with_node
from muster.controllers.seating import SLOT_ANNOTATION, seat
from muster.controllers.telling import SCHEDULER, scheduled
from muster.controllers.view import Seen, View
from muster.controllers.volume_matching import CLAIMS
from muster.dialects.kueue.slots_text import recorded_slots
from muster.dialects.pods import SCHEDULERS, Pod, workload_key
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.workload import Slot
from muster.store.binding import Binding
from muster.store.errors import Conflict, NotFound
from muster.store.kinds import Object
from muster.store.records import Key

log = logging.getLogger(__name__)
_NODE_AGAIN_S = 5.0  # until a node is looked for once more that is not there
NO_SLOT = "its workload has no slot left for it"


class Binder:
    """Binds the pods of one workload at a time."""

    name = "binder"

    def __init__(self, annotate: Annotate, schedulers: Collection[str] = SCHEDULERS) -> None:
        self._annotate = annotate
        self._schedulers = schedulers
        self._events = Events(SCHEDULER)

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        """The workload itself, or the one that a pod belongs to."""
        if seen.key.resource == WORKLOADS:
            yield seen.key
        elif seen.key.resource == PODS and (pod := seen.now or seen.before) is not None:
            if not is_placed_alike(seen) and (key := workload_of(pod, view)) is not None:
                yield key
        elif seen.key.resource == CLAIMS:
            users = view.with_term(PODS, BY_CLAIM, f"{seen.key.namespace}/{seen.key.name}")
            yield from (key for pod in users if (key := workload_of(pod, view)) is not None)

    async def reconcile(self, turn: Turn) -> None:
        obj = turn.view.get(turn.key)
        if obj is None or not _may_run(obj):
            return
        try:
            slots = recorded_slots(Fields(obj))
        except InvalidObject as problem:
            log.warning("the pods of Workload %s cannot be bound: %s", turn.key, problem)
            return
        if not slots:
            return
        seating = seat(slots, pods_of(turn.key, obj, turn.view).values(), self._schedulers)
        # What is lost is about to be replaced, and the pod's place with it.
        lost = {one["name"] for one in obj["status"].get("unhealthyNodes") or ()}
        to_bind = ((pod, note, slot) for pod, note, slot in seating.to_bind if slot.node not in lost)
        steps = [self._bind(turn, *one) for one in to_bind]
        steps += [self._refuse(turn, dict(pod)) for pod in seating.without_slot]
        failures = [one for one in await asyncio.gather(*steps, return_exceptions=True) if one is not None]
        if failures:
            raise next((one for one in failures if not isinstance(one, (Conflict, NotFound))), failures[0])

    async def _bind(self, turn: Turn, pod: Pod, note: str, slot: Slot) -> None:
        if turn.view.record(Key("nodes", "", slot.node)) is None:
            turn.look_again(_NODE_AGAIN_S)  # it may come back; else the workload's deadline ends the waiting
            return
        if not await self._has_volumes(turn, dict(pod), slot.node):
            return
        key = object_key(PODS, dict(pod))
        annotations = {**self._annotate(Fields(pod), slot, turn.now_s), SLOT_ANNOTATION: note}
        uid = pod["metadata"]["uid"]
        await turn.bind(Binding(key=key, node=slot.node, uid=uid, annotations=annotations))
        told = note_of(scheduled(workload_key(key.namespace, key.name), slot.node))
        await self._events.tell(turn, dict(pod), told)

    async def _has_volumes(self, turn: Turn, pod: Object, node: str) -> bool:
        """Whether a pod's volumes let it be bound now; claims that wait for its node hear of it."""
        claims = claim_state(pod, turn.view)
        problem = claims.problem or unreached(pod, claims, turn.view.get(Key("nodes", "", node)), turn.view)
        if problem:
            await self._refuse(turn, pod, told(problem, turn.view))
            return False
        for claim in claims.unplaced:
            await turn.update(object_key(CLAIMS, claim), with_node(claim, node))
        return claims.is_ready

    async def _refuse(self, turn: Turn, pod: Object, why: str = NO_SLOT) -> None:
        status = unscheduled(pod, why, turn.now_s)
        if status != pod.get("status"):
            await turn.update_status(object_key(PODS, pod), {**pod, "status": status})


def _may_run(obj: Object) -> bool:
    """Whether the pods of a workload may be bound now."""
    is_over = has_condition(obj, "Evicted") or has_condition(obj, "Finished")
    is_there = has_condition(obj, "QuotaReserved") and bool((obj.get("status") or {}).get("admission"))
    return is_there and has_condition(obj, "Admitted") and not is_over and not obj["metadata"].get("deletionTimestamp")
