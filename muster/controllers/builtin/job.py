"""The Job controller: makes the pods of jobs, counts their ends, and finishes jobs.

What to do is decided in `job_steps`; here it is carried out. Everything can be interrupted at any write and begun anew.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress

from muster.controllers.builtin.gathering import all_done
from muster.controllers.builtin.job_conditions import finished_as
from muster.controllers.builtin.job_failures import FINALIZER, Ending, endings_of, is_tracked, since_success
from muster.controllers.builtin.job_steps import Sight, Steps, job_steps, set_or_leave_out
from muster.controllers.builtin.owners import (
    ORPHANS,
    claims,
    controller_of,
    is_controlled_by,
    key_of,
    selector_of,
)
from muster.controllers.builtin.pods import PODS
from muster.controllers.events import NORMAL, WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.model.errors import InvalidObject
from muster.store.errors import AlreadyExists, NotFound, StoreError
from muster.store.kinds import Object
from muster.store.metadata import finalizers_of
from muster.store.records import Key
from muster.store.rules import Deletion, without_finalizer

JOBS = "jobs.batch"
CONTROLLER = "kubernetes.io/job-controller"  # the name in spec.managedBy that means this one
UID_LABEL = "batch.kubernetes.io/controller-uid"
SELECTING = "selecting"  # the index of jobs by what their selectors ask for
OF_JOBS = "of-jobs"  # the index of pods that belong to nobody, by the job that their label names
_FIRST_MADE = 4  # pods that are made at first: where all are refused, this many tries are lost
_REMEMBERED = 10_000  # jobs whose pods' ends are known


def selecting_terms(job: Object) -> Iterable[str]:
    """What to look a job up by that might take a pod: its own uid, or its namespace where its author chose pods."""
    metadata = job["metadata"]
    return (metadata["namespace"] if job["spec"].get("manualSelector") else metadata["uid"],)


def of_job_terms(pod: Object) -> Iterable[str]:
    """The job that the label of a pod names which belongs to nobody."""
    uid = (pod["metadata"].get("labels") or {}).get(UID_LABEL)
    return (uid,) if uid and controller_of(pod) is None else ()


def is_own(job: Object) -> bool:
    """Whether a job is not somebody else's to manage."""
    return job["spec"].get("managedBy") in (None, CONTROLLER)


class Jobs:
    """Brings jobs to their end."""

    name = "job-controller"

    def __init__(self) -> None:
        self._events = Events(self.name)
        # How long to wait after failures follows from the pods that have ended; those that are gone are known here
        # only. A restart forgets them, and a pod may be made sooner.
        self._endings: OrderedDict[str, dict[str, Ending]] = OrderedDict()

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == JOBS:
            yield seen.key
            before = seen.before or seen.now
            if before is not None and (seen.now is None or finished_as(seen.now)):
                pods = view.owned(before["metadata"]["uid"], PODS)
                yield from (key_of(PODS, pod) for pod in pods if is_tracked(pod))
        elif seen.key.resource == PODS:
            yield from _jobs_of(seen, view)
            if seen.now is not None and _is_orphan(seen.now, view):
                yield seen.key

    async def reconcile(self, turn: Turn) -> None:
        if turn.key.resource == PODS:
            pod = turn.view.get(turn.key)
            if pod is not None and _is_orphan(pod, turn.view):
                await _let_go(turn, pod)
            return
        job = turn.view.get(turn.key)
        if job is None or not is_own(job) or finished_as(job):
            return
        pods = await _claimed(turn, job)
        steps = job_steps(
            Sight(
                job=job,
                pods=pods,
                now_s=turn.now_s,
                endings=self._remembered(job, pods),
                is_taken=lambda name: turn.view.record(Key(PODS, turn.key.namespace, name)) is not None,
            )
        )
        await self._carry_out(turn, job, steps)

    def _remembered(self, job: Object, pods: list[Object]) -> dict[str, Ending]:
        uid = job["metadata"]["uid"]
        found = since_success(self._endings.pop(uid, {}) | endings_of(job, pods))
        self._endings[uid] = found
        if len(self._endings) > _REMEMBERED:
            self._endings.popitem(last=False)
        return found

    async def _carry_out(self, turn: Turn, job: Object, steps: Steps) -> None:
        if steps.again_s is not None:
            turn.look_again(max(0.0, steps.again_s))
        left = await all_done(_delete(turn, pod) for pod in steps.delete)
        await all_done(_drop(turn, pod) for pod in steps.drop)
        gone = [*steps.delete, *steps.drop]
        steps.notes += [Note(NORMAL, "SuccessfulDelete", f"Deleted pod: {_name(pod)}") for pod in gone]
        problem = await self._make(turn, steps)
        if steps.status != (job.get("status") or {}):
            await turn.update_status(turn.key, {**job, "status": steps.status})
        marked = {_name(pod): now for pod, now in zip(steps.delete, left, strict=True)}
        going = [marked.get(_name(pod), pod) for pod in steps.release]
        await all_done(_let_go(turn, pod) for pod in going if pod is not None)
        await all_done(self._events.tell(turn, job, note) for note in steps.notes)
        if problem is not None:
            raise problem

    async def _make(self, turn: Turn, steps: Steps) -> Exception | None:
        """Make pods: a few first, then twice as many each time as long as all goes well; gives what went wrong.

        Pods that are not made are not in the status.
        """
        left, size = steps.create, _FIRST_MADE
        problem: Exception | None = None
        while left and problem is None:
            batch, left, size = left[:size], left[size:], size * 2
            answers = await asyncio.gather(*(turn.create(PODS, pod) for pod in batch), return_exceptions=True)
            for pod, answer in zip(batch, answers, strict=True):
                if not isinstance(answer, BaseException):
                    steps.notes.append(Note(NORMAL, "SuccessfulCreate", f"Created pod: {_name(pod)}"))
                elif isinstance(answer, AlreadyExists):
                    continue  # it was made before, and the answer did not come
                elif isinstance(answer, (StoreError, InvalidObject)):
                    problem = answer
                    left = [*left, pod]
                    steps.notes.append(Note(WARNING, "FailedCreate", f"Error creating: {answer}"))
                else:
                    raise answer
        if left:
            set_or_leave_out(steps.status, "active", steps.status["active"] - len(left))
        return problem


# Pods ----------------------------------------------------------------------------------------------------------------


def _jobs_of(seen: Seen, view: View) -> Iterator[Key]:
    """The jobs that a change of a pod concerns."""
    for state in (seen.before, seen.now):
        reference = None if state is None else controller_of(state)
        if reference is not None and reference["kind"] == "Job":
            yield Key(JOBS, seen.key.namespace, reference["name"])
    if seen.now is not None and controller_of(seen.now) is None:
        for term in (*of_job_terms(seen.now), seen.key.namespace):
            yield from (key_of(JOBS, job) for job in view.with_term(JOBS, SELECTING, term))


async def _claimed(turn: Turn, job: Object) -> list[Object]:
    """The pods of a job, after it took and let go what it should."""
    selector = selector_of(job)
    if selector is None:
        return []
    metadata, view = job["metadata"], turn.view
    index, term = (ORPHANS, metadata["namespace"]) if job["spec"].get("manualSelector") else (OF_JOBS, metadata["uid"])
    found = claims(job, selector, [*view.owned(metadata["uid"], PODS), *view.with_term(PODS, index, term)])
    taken = [_with_finalizer(pod) for pod in found.taken]
    released = [without_finalizer(pod, FINALIZER) for pod in found.released]
    written = await all_done(turn.update(key_of(PODS, pod), pod) for pod in (*taken, *released))
    return [*found.kept, *written[: len(taken)]]


def _with_finalizer(pod: Object) -> Object:
    finalizers = [*(one for one in finalizers_of(pod) if one != FINALIZER), FINALIZER]
    return {**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}}


async def _delete(turn: Turn, pod: Object) -> Object | None:
    return await turn.delete(key_of(PODS, pod), Deletion(uid=pod["metadata"]["uid"]))


async def _drop(turn: Turn, pod: Object) -> None:
    """Delete a pod that is not to be counted."""
    if is_tracked(pod):
        await _let_go(turn, pod)
    await _delete(turn, pod)


async def _let_go(turn: Turn, pod: Object) -> None:
    """Take the finalizer off a pod."""
    with suppress(NotFound):  # somebody else has
        await turn.update(key_of(PODS, pod), without_finalizer(pod, FINALIZER))


def _is_orphan(pod: Object, view: View) -> bool:
    """Whether a pod waits to be counted and no job is left to do it."""
    if not is_tracked(pod):
        return False
    reference = controller_of(pod)
    if reference is None or reference["kind"] != "Job":
        return True
    job = view.get(Key(JOBS, pod["metadata"]["namespace"], reference["name"]))
    if job is None or not is_controlled_by(pod, job):
        return True
    return is_own(job) and bool(finished_as(job))


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])
