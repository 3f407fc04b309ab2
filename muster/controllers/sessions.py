"""Runs sessions of groups over the table that everybody's pods are on. Owned by the scheduler, after its cycles.

A session is opened where something of its own has changed, where pods wait and anything was given back, and as often as
policies want to be asked that look at the clock. It leaves the table as it found it: what it decides is carried out and
comes back with the objects. Only places that others have yet to leave are held until the next session, so that nobody
else takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from muster.controllers.group_objects import GroupObjects
from muster.dialects.volcano.configuration import SchedulerConfiguration
from muster.dialects.volcano.names import POD_GROUPS
from muster.dialects.volcano.write import group_status, queue_status
from muster.engine.session import Session
from muster.engine.session_close import Ending, close
from muster.engine.stages.groups import run_until_settled
from muster.engine.state import EngineState
from muster.model.groups import GroupPhase, PodStatus
from muster.model.topology import BoundPod, Node
from muster.model.workload import Slot
from muster.store.records import Key

Object = dict[str, Any]
PERIOD_S = 1.0  # between sessions with policies that look at the clock, or with many pods, as Volcano has it
MANY_PODS = 5_000  # a session looks at all of them, so it waits for more to have changed
TIMED = frozenset(("sla", "tdm", "rescheduling", "cdp", "usage"))  # those policies
NO_GROUP, NO_QUEUE = "its PodGroup {group} is not there", "queue {queue} is not there, or cannot be used"
PROMISED = "it gets a place on {node} when others have left it"
OTHERS_FIRST = "others go first"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """What came of a session, as far as it is news."""

    ending: Ending
    groups: Mapping[str, Object]  # statuses by group
    queues: Mapping[str, Object]
    waiting: Mapping[str, str]  # by pod: why


class Sessions:
    """One session after the other."""

    def __init__(self, objects: GroupObjects) -> None:
        self._objects = objects
        self._state: EngineState | None = None  # that the last one was run on
        self._version = -1  # of the nodes, when it had ended
        self._is_waiting = False  # whether any pod has no place
        self._is_called_for = False  # something has changed that no session has looked at
        self._ended_at = -PERIOD_S
        self.promises: list[BoundPod] = []  # pods that stand for places that others have yet to leave
        self._told: dict[tuple[str, str], Object] = {}  # statuses of groups and queues, by kind and name
        self.next_due: float | None = None

    def forget(self, key: Key) -> None:
        """Have a status told again: it could not be written."""
        kind = "group" if key.resource == POD_GROUPS else "queue"
        self._told.pop((kind, f"{key.namespace}/{key.name}" if key.namespace else key.name), None)
        self._objects.has_news = True

    def run(self, state: EngineState, now: float, nodes: Mapping[str, Node]) -> SessionReport | None:
        """Decide on all groups, if there is anything to decide."""
        slots, is_due = state.places.slots, self._is_due(state, now)
        self._objects.has_news = False
        if slots is None or not is_due:
            return None
        for held in self.promises if state is self._state else ():
            state.drop_pod(held.key)
        configured = self._objects.configured
        options = replace(configured.configuration.options, ask=self._objects.ask)
        session = Session(self._objects.snapshot(now, nodes), slots, configured.tiers.tiers, options)
        run_until_settled(session, configured.configuration.actions)
        session.close()
        report = self._report(session)
        self._hold(state, session, report.ending.promised)
        self._state, self._version = state, state.node_version
        # A group that has fallen back is taken up again by the next session, and nothing else may happen before it.
        has_fallen = any(_has_fallen(session, key, status) for key, status in report.groups.items())
        self._is_waiting, self._is_called_for, self._ended_at = bool(report.waiting), False, now
        is_timed = bool(self._objects.groups) and _is_timed(configured.configuration)
        self.next_due = now + PERIOD_S if is_timed or has_fallen else None
        return report

    def _is_due(self, state: EngineState, now: float) -> bool:
        if not self._objects.is_any and not self.promises:
            return False
        is_changed = self._objects.has_news or state is not self._state
        has_room = self._is_waiting and state.node_version != self._version
        is_time = self.next_due is not None and now >= self.next_due
        self._is_called_for = self._is_called_for or is_changed or has_room or is_time
        if not self._is_called_for:
            return False
        if len(self._objects.pods) > MANY_PODS and now < self._ended_at + PERIOD_S:
            self.next_due = self._ended_at + PERIOD_S
            return False
        return True

    def _hold(self, state: EngineState, session: Session, promised: Mapping[str, Slot]) -> None:
        """Keep others from places that are promised."""
        self.promises = []
        for key, slot in promised.items():
            pod = session.pods[key].pod
            held = BoundPod(
                key=f"{key} (promised)",
                node=slot.node,
                requests={name: amount for name, amount in pod.requests.items() if name != "pods"},
                rules=pod.rules,
                cards=pod.cards,
                slices=slot.slices,
            )
            state.put_pod(held)
            self.promises.append(held)

    # What is told ----------------------------------------------------------------------------------------------------

    def _report(self, session: Session) -> SessionReport:
        groups = {key: group_status(session, group) for key, group in session.groups.items()}
        queues = {name: queue_status(session, name) for name in session.queues}
        for key, status in groups.items():
            # As it is written, so that its coming back is no news.
            self._objects.note_phase(key, GroupPhase(status["phase"]))
        waiting = _waiting(session)
        told = {
            **{("group", key): one for key, one in groups.items()},
            **{("queue", key): one for key, one in queues.items()},
        }
        news = {place: one for place, one in told.items() if _timeless(one) != _timeless(self._told.get(place, {}))}
        self._told = {place: told[place] if place in news else self._told[place] for place in told}
        return SessionReport(
            ending=close(session),
            groups={name: one for (kind, name), one in news.items() if kind == "group"},
            queues={name: one for (kind, name), one in news.items() if kind == "queue"},
            waiting=waiting,
        )


def _has_fallen(session: Session, group: str, status: Object) -> bool:
    """Whether a group was further before a session than after it."""
    before = session.snapshot.groups[group].phase
    return status["phase"] == GroupPhase.PENDING.value and before is not GroupPhase.PENDING


def _is_timed(configuration: SchedulerConfiguration) -> bool:
    return any(use.name in TIMED for tier in configuration.tiers for use in tier.policies)


def _timeless(status: Object) -> Object:
    """A status without when it was found."""
    conditions = [
        {name: value for name, value in one.items() if name != "lastTransitionTime"}
        for one in status.get("conditions", ())
    ]
    return {**status, "conditions": conditions}


def _waiting(session: Session) -> dict[str, str]:
    """Why pods have no place, each in a sentence."""
    found: dict[str, str] = {}
    for key, given in session.snapshot.pods.items():
        if given.status is not PodStatus.PENDING or given.is_gated:
            continue
        pod = session.pods.get(key)
        if pod is None:
            group = session.snapshot.groups.get(given.group)
            found[key] = NO_GROUP.format(group=given.group) if group is None else NO_QUEUE.format(queue=group.queue)
        elif pod.status is PodStatus.PIPELINED:
            found[key] = PROMISED.format(node=pod.node)
        elif pod.status is PodStatus.PENDING:
            found[key] = session.outcome.reasons.get(given.group, OTHERS_FIRST)
    return found
