"""Tells how far YuniKorn's applications are: an event on the first pod for each state that one comes to.

Started by `app` beside the other controllers. The states are read off the pods in `dialects.yunikorn.states`; what was
told is remembered here, and applications that were there before it started are not told of anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from muster.controllers.events import NORMAL, WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.dialects.yunikorn import names
from muster.dialects.yunikorn.applications import PodOfApplication, gather
from muster.dialects.yunikorn.states import State, next_due_s, state_of, way
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.times import moment
from muster.store.kinds import Object
from muster.store.records import Key

PODS, APPLICATIONS = "pods", "applications.yunikorn.apache.org"
OF_APPLICATION = "of-application"  # the index of pods by the application that they belong to
_REMEMBERED = 10_000
_WARNED = (State.REJECTED, State.FAILING, State.FAILED)


def application_terms(pod: Object) -> Iterable[str]:
    """The application that a pod of this scheduler belongs to."""
    if (pod.get("spec") or {}).get("schedulerName") != names.SCHEDULER:
        return ()
    try:
        return (_read(pod).application,)
    except InvalidObject:
        return ()


class ApplicationStates:
    """Tells of applications."""

    name = "yunikorn-application-states"

    def __init__(self) -> None:
        self._events = Events(names.SCHEDULER)
        self._told: OrderedDict[str, State] = OrderedDict()
        self._began_s: float | None = None

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:  # noqa: ARG002 - every controller is asked alike
        if seen.key.resource == PODS:
            pod = seen.now or seen.before or {}
            yield from (Key(APPLICATIONS, "", name) for name in application_terms(pod))

    async def reconcile(self, turn: Turn) -> None:
        self._began_s = turn.now_s if self._began_s is None else self._began_s
        pods = turn.view.with_term(PODS, OF_APPLICATION, turn.key.name)
        found = gather(_read(pod) for pod in pods)
        if not found:
            self._told.pop(turn.key.name, None)
            return
        (application,) = found
        state = state_of(application, turn.now_s)
        again_s = next_due_s(application, turn.now_s)
        if again_s is not None:
            turn.look_again(again_s)
        before = self._told.pop(application.name, None)
        is_new = before is not None or application.submitted_at >= int(self._began_s)
        self._told[application.name] = state
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        if is_new and state is not before:
            for one in way(before or State.NEW, state):
                kind = WARNING if one in _WARNED else NORMAL
                note = Note(kind, f"Application{one}", f"Application {application.name} is {one}")
                await self._events.tell(turn, dict(application.first.pod.values), note)


def _read(pod: Object) -> PodOfApplication:
    fields = Fields(pod)
    metadata = fields.child("metadata")
    name = f"{metadata.text('namespace')}/{metadata.text('name')}"
    created_s = moment(metadata, "creationTimestamp") or 0.0
    return PodOfApplication(pod=fields, key=name, owner=f"Pod {name}", created_at=created_s)
