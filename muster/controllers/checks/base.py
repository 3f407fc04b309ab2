"""What all admission checks of Muster's own share: whom they are asked about, and how an answer is written down.

A check is a `Judge`. `CheckController` asks it about every workload that holds quota and waits for it, in tasks of its
own: one that takes long, or never answers, keeps nobody else waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from muster.controllers.belonging import WORKLOADS, has_condition, object_key
from muster.controllers.events import NORMAL, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, Terms, View
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.write import Setting, status_with
from muster.model.errors import InvalidObject
from muster.model.times import moment_text
from muster.store.kinds import Object
from muster.store.records import Key

log = logging.getLogger(__name__)
CHECKS = f"admissionchecks.{GROUP}"
COMPONENT = "muster-checks"  # who tells of them
PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"
_MESSAGE_MOST = 1_024
_UNWRITABLE_S = 60  # until the next try of a check whose answer nobody can write down


class Asked(NamedTuple):
    """What a check is asked about."""

    check: str  # its name
    parameters: Object  # what it is told about itself
    workload: Object
    state: Mapping[str, Any]  # how the check stands, as the workload has it

    @property
    def attempt(self) -> int:
        """How often it is tried now, from 1 on."""
        return int(self.state.get("retryCount") or 0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a check has come out."""

    state: str
    message: str
    requeue_after_s: int = 0  # with RETRY: not before that
    pod_set_updates: tuple[Mapping[str, Any], ...] = ()  # with READY: what the pods get


class Judge(Protocol):
    """One kind of check."""

    name: str  # the controllerName of its checks
    parameters: str  # the resource of what its checks are told
    kind: tuple[str, str]  # the same by group and kind
    resources: frozenset[str]  # what else it has to know
    is_exclusive: bool  # whether an answer depends on those that were given before

    def problem(self, parameters: Object) -> str:
        """Why what a check is told cannot be used; empty where it can."""

    def concerned(self, seen: Seen, view: View) -> Iterable[Key]:
        """The workloads that a change of anything else concerns."""

    async def judge(self, turn: Turn, asked: Asked) -> Answer | None:
        """How a check comes out; `None`: it is not known yet, and nothing has changed."""


class CheckController:
    """Asks one judge."""

    def __init__(self, judge: Judge) -> None:
        self.name = judge.name
        self._judge = judge
        self._events = Events(COMPONENT)
        self._one_by_one = asyncio.Lock()

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == WORKLOADS:
            if seen.now is not None and any(self._is_ours(one["name"], view) for one in states_of(seen.now)):
                yield seen.key
        elif seen.key.resource == CHECKS:
            yield seen.key
            yield from waiting_for(seen.key.name, view)
        elif seen.key.resource == self._judge.parameters:
            for check in view.all(CHECKS):
                if (check["spec"].get("parameters") or {}).get("name") == seen.key.name:
                    yield object_key(CHECKS, check)
                    yield from waiting_for(check["metadata"]["name"], view)
        yield from self._judge.concerned(seen, view)

    async def reconcile(self, turn: Turn) -> None:
        if turn.key.resource == CHECKS:
            await self._tell_active(turn)
            return
        async with AsyncExitStack() as alone:
            if self._judge.is_exclusive:
                await alone.enter_async_context(self._one_by_one)
            workload = turn.view.get(turn.key)
            if workload is None or not _is_asked_about(workload):
                return
            for state in states_of(workload):
                if (parameters := self._parameters(state["name"], turn.view)) is not None:
                    asked = Asked(state["name"], parameters, workload, state)
                    answer = await self._judge.judge(turn, asked)
                    if answer is not None and await self._write(turn, asked, answer):
                        return  # the rest when that is seen

    async def _write(self, turn: Turn, asked: Asked, answer: Answer) -> bool:
        """Write an answer down, unless the workload has gone on meanwhile; whether anything was written."""
        workload = turn.view.get(turn.key)
        if workload is None or asked.state not in states_of(workload):
            return False
        said = _said(asked.state, answer, turn.now_s)
        if said == asked.state:
            return False
        try:
            await turn.update_status(turn.key, _with_state(workload, said))
        except InvalidObject as problem:
            text = f"its answer cannot be used: {problem}"
            answer = Answer(state=RETRY, message=text[:_MESSAGE_MOST], requeue_after_s=_UNWRITABLE_S)
            await turn.update_status(turn.key, _with_state(workload, _said(asked.state, answer, turn.now_s)))
        if self._judge.is_exclusive:
            for resource, revision in turn.written.items():
                await turn.view.reaches(resource, revision)  # the next answer may depend on it
        before = asked.state.get("state")
        if before != answer.state:
            log.info("%s check %s: %s, %s", turn.key, asked.check, answer.state, answer.message)
            text = f"Admission check {asked.check} updated state from {before} to {answer.state}: {answer.message}"
            await self._events.tell(turn, workload, Note(NORMAL, "AdmissionCheckUpdated", text))
        return True

    # The checks themselves -------------------------------------------------------------------------------------------

    async def _tell_active(self, turn: Turn) -> None:
        """Say of a check whether it can be made."""
        check = turn.view.get(turn.key)
        if check is None or check["spec"].get("controllerName") != self._judge.name:
            return
        problem = self._problem(check, turn.view)
        setting = Setting(
            type="Active",
            is_true=not problem,
            reason="BadParametersRef" if problem else "Active",
            message=problem or "The admission check is active",
        )
        status = status_with(check, setting, turn.now_s)
        if status != (check.get("status") or {}):
            await turn.update_status(turn.key, {**check, "status": status})

    def _problem(self, check: Object, view: View) -> str:
        named = check["spec"].get("parameters") or {}
        if (named.get("apiGroup"), named.get("kind")) != self._judge.kind:
            group, kind = self._judge.kind
            return f"spec.parameters has to name a {kind} of {group}"
        parameters = view.get(Key(self._judge.parameters, "", named.get("name") or ""))
        if parameters is None:
            return f"{named['kind']} {named['name']} does not exist"
        return self._judge.problem(parameters)

    def _is_ours(self, check: str, view: View) -> bool:
        found = view.get(Key(CHECKS, "", check))
        return found is not None and found["spec"].get("controllerName") == self._judge.name

    def _parameters(self, check: str, view: View) -> Object | None:
        """What one of our checks is told; `None` where it is not ours, or cannot be made."""
        found = view.get(Key(CHECKS, "", check))
        if found is None or found["spec"].get("controllerName") != self._judge.name or self._problem(found, view):
            return None
        return view.get(Key(self._judge.parameters, "", found["spec"]["parameters"]["name"]))


def states_of(workload: Object) -> list[Mapping[str, Any]]:
    """How the checks of a workload stand."""
    return list((workload.get("status") or {}).get("admissionChecks") or ())


def waiting_for(check: str, view: View) -> Iterator[Key]:
    """The workloads that have a check."""
    for workload in view.with_term(WORKLOADS, "check", check):
        yield object_key(WORKLOADS, workload)


def _is_asked_about(workload: Object) -> bool:
    is_over = has_condition(workload, "Evicted") or has_condition(workload, "Finished")
    return (
        has_condition(workload, "QuotaReserved") and not is_over and not workload["metadata"].get("deletionTimestamp")
    )


def _said(before: Mapping[str, Any], answer: Answer, now_s: float) -> dict[str, Any]:
    kept = {name: before[name] for name in ("name", "retryCount", "lastTransitionTime") if name in before}
    if before.get("state") != answer.state:
        kept["lastTransitionTime"] = moment_text(now_s)
    said = {**kept, "state": answer.state, "message": answer.message[:_MESSAGE_MOST]}
    if answer.state == RETRY and answer.requeue_after_s:
        said["requeueAfterSeconds"] = answer.requeue_after_s
    if answer.pod_set_updates:
        said["podSetUpdates"] = [dict(one) for one in answer.pod_set_updates]
    return said


def _with_state(workload: Object, said: Mapping[str, Any]) -> Object:
    states = [said if one["name"] == said["name"] else one for one in states_of(workload)]
    return {**workload, "status": {**workload["status"], "admissionChecks": states}}


def _checks_of(workload: Object) -> Iterable[str]:
    return (one["name"] for one in states_of(workload))


INDEXES: dict[tuple[str, str], Terms] = {(WORKLOADS, "check"): _checks_of}
RESOURCES = frozenset((WORKLOADS, CHECKS))
