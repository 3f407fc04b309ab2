"""Decisions as writes: what is written for each, and on which object. Used by the scheduler.

Each decision on a workload is one write of its status, in the state that the decision was made on. A pod that stands
for itself is bound; its node and its cards are on record with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.controllers.belonging import PODS, WORKLOADS
from muster.dialects.kueue.write import (
    requests_object,
    status_after_amend,
    status_after_eviction,
    status_after_finish,
    status_after_refusal,
    status_after_reserve,
    with_open_checks,
)
from muster.dialects.pods import POD_SET
from muster.engine.explain import unready_checks
from muster.engine.state import EngineState
from muster.model.fields import Fields
from muster.model.plan import Amend, Decision, Evict, Finish, Reserve
from muster.model.reason import Verdict
from muster.model.times import moment_text
from muster.model.workload import Slot, Workload
from muster.store.binding import Binding
from muster.store.kinds import Object
from muster.store.objects import Part
from muster.store.records import Key

GANG, GANGS = "app", "applications"  # which no object stands for
Annotate = Callable[[Fields, Slot, float], Mapping[str, str]]  # what is written on a pod that gets a slot


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """A status to be written."""

    key: Key
    obj: Object  # with the revision that was seen
    part: Part = Part.STATUS  # that holds the status


@dataclass(frozen=True, slots=True)
class Removal:
    """An object to be removed."""

    key: Key
    uid: str


Write = StatusWrite | Binding | Removal


def key_of(workload: str) -> Key:
    """The object that the engine's name of a workload stands for."""
    namespace, _, name = workload.partition("/")
    kind, _, pod = name.partition("/")
    if kind == GANG and pod:
        return Key(GANGS, namespace, pod)
    return Key(PODS, namespace, pod) if pod else Key(WORKLOADS, namespace, kind)


class Writer:
    """Makes writes of what was decided; the state is the one after the decision."""

    def __init__(self, state: EngineState, now: float, annotate: Annotate) -> None:
        self._state = state
        self.now = now
        self._annotate = annotate

    def write_of(self, decision: Decision, obj: Object) -> Write | None:
        """The write that carries out a decision; `None` where it is none of an object."""
        if isinstance(decision, (Reserve, Amend)) and key_of(decision.workload).resource == PODS:
            return self._binding(decision, obj)
        if isinstance(decision, Reserve):
            status = status_after_reserve(obj, decision, self.now)
            if not decision.is_admitted:
                workload = self._state.workloads[decision.workload]
                needed = unready_checks(self._state, workload, decision.admission)
                status = with_open_checks(status, needed, self.now)
            return _status_write(decision.workload, obj, status)
        if isinstance(decision, Amend):
            return _status_write(decision.workload, obj, status_after_amend(obj, decision, self.now))
        if isinstance(decision, Evict):
            if key_of(decision.workload).resource == PODS:
                return Removal(key_of(decision.workload), obj["metadata"]["uid"])
            return _status_write(decision.workload, obj, status_after_eviction(obj, decision, self.now))
        if isinstance(decision, Finish):
            return _status_write(decision.workload, obj, status_after_finish(obj, decision, self.now))
        return None

    def refusal(self, workload: Workload, verdict: Verdict, obj: Object, *, told: str) -> Write | None:
        """The write that tells why a workload waits; `None` where its object says so already."""
        key = key_of(workload.key)
        if key.resource == PODS:
            status = unscheduled(obj, told, self.now)
        else:
            status = status_after_refusal(obj, verdict, requests_object(workload.pod_sets), self.now)
        return None if status == obj.get("status") else _status_write(workload.key, obj, status)

    def _binding(self, decision: Reserve | Amend, pod: Object) -> Binding:
        given = next(one for one in decision.admission.pod_sets if one.name == POD_SET)
        slot = given.slots[0]
        annotations = dict(self._annotate(Fields(pod), slot, self.now))
        return Binding(
            key=key_of(decision.workload), node=slot.node, uid=pod["metadata"]["uid"], annotations=annotations
        )


def _status_write(workload: str, obj: Object, status: dict[str, Any]) -> StatusWrite:
    return StatusWrite(key_of(workload), {**obj, "status": status})


def unscheduled(pod: Object, text: str, now: float) -> dict[str, Any]:
    """The status of a pod for which there is no place."""
    status = dict(pod.get("status") or {})
    before = next(_conditions(status, "PodScheduled"), {})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    has_stayed = before.get("status") == "False" and before.get("lastTransitionTime")
    condition["lastTransitionTime"] = before["lastTransitionTime"] if has_stayed else moment_text(now)
    if all(before.get(name) == value for name, value in condition.items()):
        return status
    others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    return {**status, "conditions": [*others, condition]}


def _conditions(status: Mapping[str, Any], type_: str) -> Iterator[Mapping[str, Any]]:
    return (one for one in status.get("conditions") or () if one.get("type") == type_)
