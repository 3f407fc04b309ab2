"""Simulated nodes: their pods start, run and end as annotations say, and nothing really runs. Put together by `app`.

All that such a node knows is in the status of its pods, so it goes on after a restart as if nothing had been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from muster.controllers.loop import Turn
from muster.controllers.nodes.cards import has_lost_card, lost_cards
from muster.controllers.nodes.checkpoints import done_s, save
from muster.controllers.nodes.containers import BackOff, Container, PodPlan, Run, Steps, next_steps
from muster.controllers.nodes.pod_status import (
    ENDED,
    Situation,
    containers_of,
    deadline_s,
    halt_of,
    pod_status,
)
from muster.controllers.nodes.timing import FOREVER_S, PREFIX, Behaviour, Habits, behaviour_of
from muster.controllers.view import Seen, View
from muster.model.errors import InvalidObject
from muster.model.times import parse_moment
from muster.store.kinds import Object
from muster.store.records import Key
from muster.store.rules import Deletion

NODES, PODS = "nodes", "pods"
BY_NODE = "node"  # the index of pods by the name of their node
FAILED = PREFIX + "failed"  # on a node: it is not heard of any more
TERMINATED, KILLED, BROKEN = 143, 137, 1
_ROUNDS_MOST = 1_000  # of one look; a pod of so many instant runs has time between them soon enough


class Next(NamedTuple):
    """What a look at a pod has come to."""

    status: Object
    due_s: float | None  # when something happens next, by the clock
    is_over: bool


def node_terms(pod: Object) -> Iterable[str]:
    """The index of pods by node."""
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()


class SimulatedNodes:
    """The controller of all pods on simulated nodes."""

    name = "simulated nodes"

    def __init__(self, habits: Mapping[str, Habits], back_off: BackOff | None = None) -> None:
        self._habits = habits  # by the name of the node
        self._back_off = back_off or BackOff()

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == PODS:
            pod = seen.now or {}
            if pod and pod["spec"].get("nodeName") in self._habits:
                yield seen.key
        elif seen.key.resource == NODES and seen.key.name in self._habits and seen.now and _is_news(seen):
            for pod in view.with_term(PODS, BY_NODE, seen.key.name):
                yield Key(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])

    async def reconcile(self, turn: Turn) -> None:
        pod = turn.view.get(turn.key)
        name = (pod["spec"].get("nodeName") or "") if pod is not None else ""
        if pod is None or name not in self._habits:
            return  # it is gone, and another of its name waits for a node
        node = turn.view.get(Key(NODES, "", name))
        if node is None or is_failed(node):
            return
        metadata, status = pod["metadata"], pod.get("status") or {}
        is_deleting = bool(metadata.get("deletionTimestamp"))
        if status.get("phase") in ENDED and not is_deleting:
            return
        had = Had(is_broken=has_lost_card(pod, node), done_s=done_s(pod, turn.view))
        after = look(pod, self._habits[name], self._back_off, now_s=turn.now_s, had=had)
        if is_deleting and after.is_over and status.get("phase") == "Running":
            await save(turn, pod)
        if after.status != status:
            await turn.update_status(turn.key, {**pod, "status": after.status})
        if is_deleting and after.is_over:
            await turn.delete(turn.key, Deletion(grace_s=0, uid=metadata["uid"]))
        elif after.due_s is not None and not after.is_over:
            turn.look_again(max(after.due_s - turn.now_s, 0.001))


def is_failed(node: Object | None) -> bool:
    """Whether somebody has let a simulated node fail."""
    return ((node or {}).get("metadata", {}).get("annotations") or {}).get(FAILED) == "true"


def _is_news(seen: Seen) -> bool:
    """Whether a node is there that was not, has come back, or has lost cards."""
    return seen.before is None or is_failed(seen.before) or lost_cards(seen.before) != lost_cards(seen.now)


class Had(NamedTuple):
    """What a pod comes with that does not stand on it."""

    is_broken: bool = False  # it cannot run
    done_s: float = 0.0  # of its work


NOTHING = Had()


def look(pod: Object, habits: Habits, back_off: BackOff, *, now_s: float, had: Had = NOTHING) -> Next:
    """What has become of a pod by now, and when to look again. Pure."""
    return _Look(pod, habits, back_off, now_s).result(had)


class _Look:
    """Lives for one look."""

    def __init__(self, pod: Object, habits: Habits, back_off: BackOff, now_s: float) -> None:
        self._pod = pod
        self._plan = PodPlan.of(pod, back_off)
        self._known = containers_of(pod, back_off)
        self._now_s = now_s
        self._halt = halt_of(pod, now_s)
        self._habits = habits
        self._dues: list[float] = []
        self._done_s = 0.0

    def result(self, had: Had) -> Next:
        try:
            behaviour = behaviour_of(self._pod, self._habits)
        except InvalidObject as problem:
            return self._refused(problem)
        self._done_s = had.done_s
        if had.is_broken:
            behaviour = replace(behaviour, fail_code=BROKEN)
        steps = self._go_on(behaviour)
        if (due_s := deadline_s(self._pod)) is not None and self._halt is None:
            self._dues.append(due_s)
        self._dues.extend(steps.pauses.values())
        status = pod_status(self._pod, self._known, steps, plan=self._plan, at=self._situation())
        return Next(status, min(self._dues, default=None), steps.is_over)

    def _refused(self, problem: InvalidObject) -> Next:
        """A pod whose annotations cannot be read waits, and says for what."""
        steps = next_steps(self._plan, self._known, self._now_s, is_halted=self._halt is not None)
        because = str(problem)
        for name in steps.start:
            known = self._known.get(name, Container())
            self._known[name] = replace(known, waits_for="CreateContainerConfigError", waits_because=because)
        status = pod_status(self._pod, self._known, steps, plan=self._plan, at=self._situation())
        return Next(status, None, steps.is_over)

    def _situation(self) -> Situation:
        return Situation(now_s=self._now_s, host_ip=address_of(self._pod["spec"]["nodeName"]), halt=self._halt)

    def _go_on(self, behaviour: Behaviour) -> Steps:
        """Let happen all that is due, one thing after the other."""
        begins_s = self._begins_s(behaviour)
        for _ in range(_ROUNDS_MOST):
            self._end_runs(behaviour)
            steps = next_steps(self._plan, self._known, self._now_s, is_halted=self._halt is not None)
            if steps.stop:
                if not self._stop(steps.stop, behaviour):
                    return steps
                continue
            if not steps.start or begins_s > self._now_s:
                if begins_s > self._now_s and self._halt is None:
                    self._dues.append(begins_s)
                return steps
            for name in steps.start:
                self._begin(name)
        self._dues = [self._now_s + 1.0]
        return steps

    def _begins_s(self, behaviour: Behaviour) -> float:
        """When the first container runs."""
        start = (self._pod.get("status") or {}).get("startTime")
        since_s = parse_moment(start, "status.startTime") if start else self._now_s
        return since_s + behaviour.start_s

    def _begin(self, name: str) -> None:
        known = self._known.get(name, Container())
        number = known.restarts + (known.run is not None)
        identity = f"simulated://{self._pod['metadata'].get('uid') or ''}/{name}/{number}"
        begun = known.begun(Run(started_s=self._now_s, identity=identity))
        self._known[name] = replace(begun, is_started=True, is_ready=True)

    def _end_runs(self, behaviour: Behaviour) -> None:
        self._dues = []
        beside = {one["name"] for one in self._plan.init if one.get("restartPolicy") == "Always"}
        for name, known in self._known.items():
            if not known.is_running:
                continue
            assert known.run is not None, f"{name} runs"
            run_s = FOREVER_S if name in beside else behaviour.run_s(name, known.restarts)
            due_s = known.run.started_s + max(0.0, run_s - self._done_s)
            if behaviour.fail_code is not None:
                self._end(name, behaviour.fail_code, self._now_s)
            elif due_s <= self._now_s:
                self._end(name, behaviour.code(known.restarts), due_s)
            elif due_s < FOREVER_S:
                self._dues.append(due_s)

    def _stop(self, names: Iterable[str], behaviour: Behaviour) -> bool:
        """End containers that are asked to; gives whether they have ended."""
        due_s = self._asked_s() + behaviour.stop_s
        last_s = self._last_s()
        if min(due_s, last_s) > self._now_s:
            self._dues = [min(due_s, last_s)]
            return False
        for name in names:
            self._end(name, TERMINATED if due_s <= last_s else KILLED, self._now_s)
        return True

    def _asked_s(self) -> float:
        metadata = self._pod["metadata"]
        if not metadata.get("deletionTimestamp"):
            if self._halt is not None:
                return deadline_s(self._pod) or self._now_s
            ends = (known.run.ended_s for known in self._known.values() if known.run is not None)
            return max((end_s for end_s in ends if end_s is not None), default=self._now_s)
        return self._last_s() - (metadata.get("deletionGracePeriodSeconds") or 0)

    def _last_s(self) -> float:
        end = self._pod["metadata"].get("deletionTimestamp")
        if end:
            return parse_moment(end, "metadata.deletionTimestamp")
        grace_s = self._pod["spec"].get("terminationGracePeriodSeconds")
        return self._asked_s() + (30 if grace_s is None else grace_s)

    def _end(self, name: str, code: int, at_s: float) -> None:
        known = self._known[name]
        assert known.run is not None, f"{name} runs"
        signal = code - 128 if code in (TERMINATED, KILLED) else 0
        run = replace(known.run, ended_s=at_s, exit_code=code, signal=signal)
        self._known[name] = known.ended(run, self._plan.back_off)


def address_of(node: str) -> str:
    """An address for a node that has none: the same each time, and of no real network."""
    number = sum(ord(letter) * (index + 1) for index, letter in enumerate(node)) % 65_534 + 1
    return f"198.18.{number >> 8}.{number & 255}"
