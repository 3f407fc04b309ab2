"""The controllers of Volcano's JobFlow and JobTemplate: jobs one after the other, and who was made from what.

What to do is decided in `dialects.volcano.flow`; here it is carried out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from muster.controllers.builtin.gathering import all_done
from muster.controllers.builtin.owners import controller_of, is_controlled_by, key_of
from muster.controllers.builtin.pods import PODS
from muster.controllers.builtin.statuses import put_status
from muster.controllers.events import NORMAL, WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.dialects.volcano.flow import BY_TEMPLATE, Check, FlowSight, flow_steps
from muster.dialects.volcano.job.words import JOBS
from muster.model.errors import InvalidObject
from muster.store.errors import AlreadyExists
from muster.store.kinds import Object, Propagation
from muster.store.metadata import is_deleting
from muster.store.records import Key
from muster.store.rules import Deletion

FLOWS, TEMPLATES = "jobflows.flow.volcano.sh", "jobtemplates.flow.volcano.sh"
MADE_FROM = "made-from"  # the index of jobs by the template that they were made from
NAMED = "named"  # the index of flows by the templates that they name
_AGAIN_S = 60.0  # after which a flow that has no meaning is looked at again
_ASK_S = 5.0  # between two rounds of questions to pods
_ASKED_MOST = 100  # questions in one round

Ask = Callable[[Check], Awaitable[bool]]


def made_from_terms(job: Object) -> Iterable[str]:
    """The template that a job was made from."""
    template = (job["metadata"].get("annotations") or {}).get(BY_TEMPLATE)
    return (template,) if template else ()


def named_terms(flow: Object) -> Iterable[str]:
    """The templates that a flow names."""
    namespace = flow["metadata"]["namespace"]
    return {f"{namespace}/{step.get('name')}" for step in (flow.get("spec") or {}).get("flows") or ()}


class JobFlows:
    """Starts the jobs of flows when it is their turn."""

    name = "volcano-jobflow-controller"

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._events = Events(self.name)

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == FLOWS:
            yield seen.key
        elif seen.key.resource == TEMPLATES:
            for flow in view.with_term(FLOWS, NAMED, f"{seen.key.namespace}/{seen.key.name}"):
                yield key_of(FLOWS, flow)
        elif seen.key.resource == JOBS:
            yield from _flows_of(seen.now or seen.before, seen.key.namespace)
        elif seen.key.resource == PODS and seen.now is not None:
            reference = controller_of(seen.now)
            if reference is not None and reference["kind"] == "Job":
                yield from _flows_of(view.get(Key(JOBS, seen.key.namespace, reference["name"])), seen.key.namespace)

    async def reconcile(self, turn: Turn) -> None:
        flow = turn.view.get(turn.key)
        if flow is None:
            return
        if is_deleting(flow):
            status = {**(flow.get("status") or {}), "state": {"phase": "Terminating"}}
            await put_status(turn, flow, status)
            return
        try:
            steps = flow_steps(self._sight(turn, flow, {}))
            if steps.asked:
                asked = sorted(steps.asked, key=repr)[:_ASKED_MOST]
                answers = await all_done(self._ask(one) for one in asked)
                steps = flow_steps(self._sight(turn, flow, dict(zip(asked, answers, strict=True))))
                turn.look_again(_ASK_S)
        except InvalidObject as problem:
            await self._events.tell(turn, flow, Note(WARNING, "InvalidJobFlow", str(problem)))
            turn.look_again(_AGAIN_S)
            return
        for job in steps.delete:
            deletion = Deletion(propagation=Propagation.BACKGROUND, uid=job["metadata"]["uid"])
            await turn.delete(key_of(JOBS, dict(job)), deletion)
        for job in steps.create:
            with suppress(AlreadyExists):  # it was made before and the answer did not come, or it is somebody else's
                await turn.create(JOBS, job)
                note = Note(NORMAL, "Created", f"create a job named {job['metadata']['name']}!")
                await self._events.tell(turn, flow, note)
        await put_status(turn, flow, steps.status)
        await all_done(self._events.tell(turn, flow, Note(WARNING, "Failed", one)) for one in steps.problems)

    def _sight(self, turn: Turn, flow: Object, answers: Mapping[Check, bool]) -> FlowSight:
        view, namespace = turn.view, turn.key.namespace
        owned = view.owned(flow["metadata"]["uid"], JOBS)

        def pods(job: Mapping[str, Any]) -> list[Object]:
            return view.owned(job["metadata"]["uid"], PODS)

        return FlowSight(
            flow=flow,
            jobs={job["metadata"]["name"]: job for job in owned if is_controlled_by(job, flow)},
            template=lambda name: view.get(Key(TEMPLATES, namespace, name)),
            pods=pods,
            answers=answers,
        )


def _flows_of(job: Object | None, namespace: str) -> Iterable[Key]:
    reference = None if job is None else controller_of(job)
    if reference is not None and reference["kind"] == "JobFlow":
        yield Key(FLOWS, namespace, reference["name"])


class JobTemplates:
    """Tells of each template which jobs were made from it."""

    name = "volcano-jobtemplate-controller"

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:  # noqa: ARG002 - every controller is asked alike
        if seen.key.resource == TEMPLATES:
            yield seen.key
        elif seen.key.resource == JOBS:
            for term in made_from_terms(seen.now or seen.before or {"metadata": {}}):
                yield Key(TEMPLATES, seen.key.namespace, term.removeprefix(f"{seen.key.namespace}."))

    async def reconcile(self, turn: Turn) -> None:
        template = turn.view.get(turn.key)
        if template is None or is_deleting(template):
            return
        jobs = turn.view.with_term(JOBS, MADE_FROM, f"{turn.key.namespace}.{turn.key.name}")
        names = [job["metadata"]["name"] for job in jobs if job["metadata"]["namespace"] == turn.key.namespace]
        await put_status(turn, template, {"jobDependsOnList": names} if names else {})
