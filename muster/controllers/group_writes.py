"""What a session has decided, as writes: bindings, evictions, and the statuses of groups, queues and waiting pods.

Used by the scheduler. Statuses are written only where they say something new, and each write is on the state of the
object that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.controllers.belonging import PODS
from muster.controllers.carrying_out import Annotate, Removal, StatusWrite, Write, unscheduled
from muster.controllers.events import NORMAL, WARNING, Note
from muster.controllers.sessions import SessionReport
from muster.dialects.volcano.names import POD_GROUPS, QUEUES
from muster.dialects.volcano.write import SCHEDULED, UNSCHEDULABLE
from muster.model.fields import Fields
from muster.model.times import moment_text
from muster.model.workload import Slot
from muster.store.binding import Binding
from muster.store.kinds import Object
from muster.store.objects import Part
from muster.store.records import Key

EVICTED = "evicted for pods that have a better claim to its place"
ABOVE_MAXIMUM = "evicted since its queue holds more than its maximum"
OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"


@dataclass(frozen=True, slots=True)
class GroupWrite:
    """Writes on one object, in their order, and what is told of it when all are made."""

    key: Key
    writes: tuple[Write, ...]
    notes: tuple[Note, ...] = ()


class GroupWriter:
    """Makes writes of what a session has decided."""

    def __init__(self, get: Callable[[Key], Object | None], annotate: Annotate, now: float) -> None:
        self._get = get  # an object as the session knew it; `None` where it has changed since
        self._annotate = annotate
        self._now = now

    def all(self, report: SessionReport) -> Iterator[GroupWrite]:
        """All writes; of an object that has changed meanwhile, none: its key is there all the same."""
        for name in report.ending.binds:
            yield self._bound(_pod_key(name), report)
        for name in report.ending.evicted:
            yield self._evicted(_pod_key(name))
        for name, why in report.waiting.items():
            yield self._waiting(_pod_key(name), why)
        for name, status in report.groups.items():
            yield self._group(Key(POD_GROUPS, *name.split("/", 1)), status)
        for name, status in report.queues.items():
            yield self._queue(Key(QUEUES, "", name), status)

    def _bound(self, key: Key, report: SessionReport) -> GroupWrite:
        pod, slot = self._get(key), report.ending.binds[f"{key.namespace}/{key.name}"]
        if pod is None:
            return GroupWrite(key, ())
        return bound_to(key, pod, slot, dict(self._annotate(Fields(pod), slot, self._now)))

    def _evicted(self, key: Key) -> GroupWrite:
        pod = self._get(key)
        return GroupWrite(key, ()) if pod is None else evicted(key, pod, EVICTED, self._now)

    def _waiting(self, key: Key, why: str) -> GroupWrite:
        pod = self._get(key)
        status = None if pod is None else unscheduled(pod, why, self._now)
        if pod is None or status == pod.get("status"):
            return GroupWrite(key, ())
        write = StatusWrite(key, {**pod, "status": status})
        return GroupWrite(key, (write,), (Note(WARNING, "FailedScheduling", why),))

    def _group(self, key: Key, status: Mapping[str, Any]) -> GroupWrite:
        group = self._get(key)
        if group is None:
            return GroupWrite(key, ())
        before = group.get("status") or {}
        merged = {**before, **_since(status, before)}
        if merged == before:
            return GroupWrite(key, ())
        condition = status["conditions"][0]
        notes = {
            UNSCHEDULABLE: Note(WARNING, UNSCHEDULABLE, condition["message"]),
            SCHEDULED: Note(NORMAL, SCHEDULED, condition["reason"]),
        }
        is_same = merged["conditions"] == before.get("conditions")
        told = () if is_same else (notes[condition["type"]],)
        # The status of a PodGroup is a part of it like others.
        return GroupWrite(key, (StatusWrite(key, {**group, "status": merged}, Part.MAIN),), told)

    def _queue(self, key: Key, status: Mapping[str, Any]) -> GroupWrite:
        queue = self._get(key)
        if queue is None:
            return GroupWrite(key, ())
        before = queue.get("status") or {}
        is_empty = not any(status[phase] for phase in ("pending", "inqueue", "running", "unknown"))
        state = before.get("state") or OPEN
        if state in (CLOSING, CLOSED):
            state = CLOSED if is_empty else CLOSING
        merged = {**before, **status, "state": state}
        write = StatusWrite(key, {**queue, "status": merged})
        return GroupWrite(key, () if merged == before else (write,))


def bound_to(key: Key, pod: Object, slot: Slot, annotations: Mapping[str, str]) -> GroupWrite:
    """The write that puts a pod into its place."""
    binding = Binding(key=key, node=slot.node, uid=pod["metadata"]["uid"], annotations=annotations)
    told = f"Successfully assigned {key.namespace}/{key.name} to {slot.node}"
    return GroupWrite(key, (binding,), (Note(NORMAL, "Scheduled", told),))


def evicted(key: Key, pod: Object, why: str, now: float) -> GroupWrite:
    """The writes that have a pod leave its place."""
    condition = {"type": "Ready", "status": "False", "reason": "Evict", "message": why}
    status = _with_condition(pod.get("status") or {}, {**condition, "lastTransitionTime": moment_text(now)})
    writes = (StatusWrite(key, {**pod, "status": status}), Removal(key, pod["metadata"]["uid"]))
    return GroupWrite(key, writes, (Note(WARNING, "Evict", why),))


def _since(status: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """A status whose condition has changed when it did, not when it was last looked at."""
    condition = status["conditions"][0]
    known = {one.get("type"): one for one in before.get("conditions") or ()}.get(condition["type"], {})
    if all(known.get(name) == value for name, value in condition.items() if name != "lastTransitionTime"):
        condition = {**condition, "lastTransitionTime": known["lastTransitionTime"]}
    return {**status, "conditions": [condition]}


def _with_condition(status: Mapping[str, Any], condition: Mapping[str, Any]) -> dict[str, Any]:
    others = [one for one in status.get("conditions") or () if one.get("type") != condition["type"]]
    return {**status, "conditions": [*others, condition]}


def _pod_key(name: str) -> Key:
    return Key(PODS, *name.split("/", 1))
