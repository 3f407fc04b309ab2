"""Volcano's job controller: makes the pods of jobs, does what their policies and commands say, and ends them.

What to do is decided in `dialects.volcano.job`; here it is carried out. Everything can be interrupted at any write and
begun anew; only that a pod was deleted by others is known here alone, and forgotten where the controller stops.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from muster.controllers.builtin.gathering import all_done
from muster.controllers.builtin.making import create_all
from muster.controllers.builtin.owners import controller_of, is_controlled_by, key_of
from muster.controllers.builtin.pods import PODS, phase_of
from muster.controllers.builtin.statuses import put_status
from muster.controllers.events import NORMAL, WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.dialects.volcano.job.counting import read_pod
from muster.dialects.volcano.job.plugins import Keys, PluginObject
from muster.dialects.volcano.job.policies import Request, Resolved, is_covered, resolved
from muster.dialects.volcano.job.spec import read_job
from muster.dialects.volcano.job.statuses import expires_at_s, read_status
from muster.dialects.volcano.job.steps import Sight, Steps, next_steps
from muster.dialects.volcano.job.words import BATCH, COMMANDS, GROUPS, JOBS, OUT_OF_SYNC, QUEUES, Action, Event
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.errors import AlreadyExists, NotFound
from muster.store.kinds import Object, Propagation
from muster.store.metadata import is_deleting
from muster.store.records import Key
from muster.store.rules import Deletion

log = logging.getLogger(__name__)
TARGETS = "targets"  # the index of commands by the uid of what they are for
CLAIMS, CLASSES = "persistentvolumeclaims", "priorityclasses.scheduling.k8s.io"
OF_PLUGINS = ("configmaps", "networkpolicies.networking.k8s.io", "secrets", "services")
FOLLOWED = frozenset((JOBS, PODS, GROUPS, COMMANDS, QUEUES, CLAIMS, CLASSES, *OF_PLUGINS))
_AGAIN_S = 60.0  # after which a job that has no meaning is looked at again
_GONE_MOST = 5_000  # pods of one job whose end is remembered

MakeKeys = Callable[[], Awaitable[Keys]]


def target_terms(command: Object) -> Iterable[str]:
    """What a command is for."""
    target = command.get("target") or {}
    return (str(target["uid"]),) if target.get("uid") else ()


@dataclass(slots=True)
class _Open:
    """What has happened to a job and is not done with."""

    uid: str
    requests: dict[str, Request] = field(default_factory=dict)  # by pod; a command by its own name
    begun: Resolved | None = None


class VolcanoJobs:
    """Brings Volcano's jobs to their end."""

    name = "volcano-job-controller"

    def __init__(self, make_keys: MakeKeys) -> None:
        self._make_keys = make_keys
        self._events = Events(self.name)
        self._open: dict[Key, _Open] = {}

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        resource = seen.key.resource
        if resource == JOBS:
            yield seen.key
        elif resource == COMMANDS:
            target = (seen.now or {}).get("target") or {}
            if _is_of_jobs(target):
                yield Key(JOBS, seen.key.namespace, target["name"])
        elif resource in (PODS, GROUPS, *OF_PLUGINS):
            reference = controller_of(seen.now or seen.before or {"metadata": {}})
            if reference is not None and _is_of_jobs(reference):
                key = Key(JOBS, seen.key.namespace, reference["name"])
                if resource == PODS and seen.now is None and seen.before is not None:
                    self._note_gone(key, reference["uid"], seen.before, view)
                yield key

    async def reconcile(self, turn: Turn) -> None:
        job = turn.view.get(turn.key)
        if job is None or is_deleting(job):
            self._open.pop(turn.key, None)  # the collector takes what belongs to it
            return
        if await _is_expired(turn, job):
            return
        opened = self._opened(turn.key, job["metadata"]["uid"])
        await self._take_commands(turn, job, opened)
        try:
            self._drop_settled(turn, job, opened)
            steps = next_steps(self._sight(turn, job, opened))
        except InvalidObject as problem:
            await self._events.tell(turn, job, Note(WARNING, "InvalidJob", str(problem)))
            turn.look_again(_AGAIN_S)
            return
        opened.begun = steps.resolved
        await self._carry_out(turn, job, steps)
        opened.begun = None
        if steps.resolved is not None:
            opened.requests = {
                name: one for name, one in opened.requests.items() if not _is_done_with(one, steps.resolved)
            }

    def _opened(self, key: Key, uid: str) -> _Open:
        found = self._open.get(key)
        if found is None or found.uid != uid:
            found = self._open[key] = _Open(uid)
        return found

    def _sight(self, turn: Turn, job: Object, opened: _Open) -> Sight:
        uid = job["metadata"]["uid"]
        return Sight(
            job=job,
            pods=turn.view.owned(uid, PODS),
            now_s=turn.now_s,
            group=_group_of(turn.view, job),
            requests=tuple(opened.requests.values()),
            begun=opened.begun,
            priorities={one["metadata"]["name"]: one["value"] for one in turn.view.all(CLASSES)},
        )

    # What has happened ------------------------------------------------------------------------------------------------

    def _note_gone(self, key: Key, uid: str, pod: Object, view: View) -> None:
        """Remember a pod that others have deleted."""
        job = view.get(key)
        if job is None or job["metadata"]["uid"] != uid or is_deleting(job):
            return
        try:
            gone = read_pod(pod, read_job(Fields(job)))
        except InvalidObject:
            return  # the job is told so when it is looked at
        opened = self._opened(key, uid)
        if not gone.is_out_of_sync and len(opened.requests) < _GONE_MOST:
            opened.requests[gone.name] = Request(
                event=Event.POD_EVICTED,
                task=gone.task,
                pod=gone.name,
                partition=gone.partition,
                version=gone.version,
            )

    def _drop_settled(self, turn: Turn, job: Object, opened: _Open) -> None:
        """Forget pods that run again, and whatever nothing follows from; note since when the other pods are gone."""
        if not opened.requests:
            return
        fields = Fields(job)
        meaning, version = read_job(fields), read_status(fields.child("status")).version
        left = {}
        for name, request in opened.requests.items():
            is_settled = not request.action and ((request.version or 0) < version or _runs(turn, request.pod))
            if not is_settled and resolved(meaning, request).action is not Action.SYNC:
                left[name] = request if request.since_s else replace(request, since_s=turn.now_s)
        opened.requests = left

    async def _take_commands(self, turn: Turn, job: Object, opened: _Open) -> None:
        """Take the commands for a job off the store: each is carried out at most once."""
        for command in turn.view.with_term(COMMANDS, TARGETS, job["metadata"]["uid"]):
            target = command.get("target") or {}
            if not _is_of_jobs(target) or target.get("name") != turn.key.name:
                continue
            if await turn.delete(key_of(COMMANDS, command), Deletion(uid=command["metadata"]["uid"])) is None:
                continue
            action = str(command.get("action") or "")
            told = Note(NORMAL, "CommandIssued", f"Start to execute command {action}, and clean it up")
            await self._events.tell(turn, job, told)
            opened.requests[f"command/{command['metadata']['name']}"] = Request(event=Event.COMMAND, action=action)

    # Carrying out -----------------------------------------------------------------------------------------------------

    async def _carry_out(self, turn: Turn, job: Object, steps: Steps) -> None:
        if steps.again_s is not None:
            turn.look_again(steps.again_s)
        await all_done(_created(turn, CLAIMS, claim) for claim in steps.claims)
        await self._settle_objects(turn, job, steps)
        await _settle_group(turn, job, steps)
        for pod in steps.kill:  # one after the other: the one that the action is about is the last
            await _kill(turn, pod)
        made, problem = await create_all(turn, PODS, _absent(turn, steps.create))
        await put_status(turn, job, steps.status)
        notes = [Note(WARNING, "InvalidFlag", one) for one in steps.problems]
        if steps.group is not None and turn.view.record(Key(QUEUES, "", steps.group["spec"]["queue"])) is None:
            queue = steps.group["spec"]["queue"]
            notes.append(Note(WARNING, "QueueNotFound", f"the job waits: there is no queue {queue}"))
        if steps.resolved is not None:
            done = steps.resolved
            notes.append(Note(NORMAL, "ExecuteAction", f"Start to execute action {done.action} after {_told(done)}"))
        if problem is not None:
            notes.append(Note(WARNING, "FailedCreate", f"Error creating: {problem}"))
        await all_done(self._events.tell(turn, job, note) for note in notes)
        log.debug("%s: %d pods made, %d deleted", turn.key, len(made), len(steps.kill))
        if problem is not None:
            raise problem

    async def _settle_objects(self, turn: Turn, job: Object, steps: Steps) -> None:
        for one in steps.objects:
            there = turn.view.get(key_of(one.resource, one.wanted))
            if not steps.has_objects:
                if there is not None and is_controlled_by(there, job):
                    await turn.delete(key_of(one.resource, there), Deletion(uid=there["metadata"]["uid"]))
            elif there is None:
                await _created(turn, one.resource, await self._with_keys(one))
            elif not one.is_kept and is_controlled_by(there, job) and there.get("data") != one.wanted.get("data"):
                await turn.update(key_of(one.resource, there), {**there, "data": one.wanted["data"]})

    async def _with_keys(self, one: PluginObject) -> Object:
        return one.wanted if one.with_keys is None else one.with_keys(await self._make_keys())


def _is_of_jobs(reference: Mapping[str, object]) -> bool:
    return reference.get("kind") == "Job" and reference.get("apiVersion") == BATCH and bool(reference.get("name"))


def _runs(turn: Turn, pod: str) -> bool:
    found = turn.view.get(Key(PODS, turn.key.namespace, pod))
    return found is not None and phase_of(found) == "Running"


def _is_done_with(request: Request, done: Resolved) -> bool:
    """Whether an action was what something asked for, or has taken care of it."""
    return request == done.request or (not request.action and is_covered(request, done))


def _told(done: Resolved) -> str:
    return f"{done.request.event} of pod {done.request.pod}" if done.request.pod else str(done.request.event)


def _group_of(view: View, job: Object) -> Object | None:
    """The group of a job: by the name it is given here, or by the older one."""
    metadata = job["metadata"]
    for name in (f"{metadata['name']}-{metadata['uid']}", metadata["name"]):
        group = view.get(Key(GROUPS, metadata["namespace"], name))
        if group is not None and is_controlled_by(group, job):
            return group
    return None


async def _settle_group(turn: Turn, job: Object, steps: Steps) -> None:
    there = _group_of(turn.view, job)
    if not steps.has_group:
        if there is not None and not is_deleting(there):
            await turn.delete(key_of(GROUPS, there), Deletion(uid=there["metadata"]["uid"]))
    elif steps.group is not None and there is None:
        await _created(turn, GROUPS, steps.group)
    elif steps.group is not None and there is not None:
        spec = {**there["spec"], **steps.group["spec"]}
        if spec != there["spec"]:
            await turn.update(key_of(GROUPS, there), {**there, "spec": spec})


async def _created(turn: Turn, resource: str, given: Object) -> None:
    """Make an object, unless there is one of its name."""
    if turn.view.record(key_of(resource, given)) is None:
        with suppress(AlreadyExists):
            await turn.create(resource, given)


def _absent(turn: Turn, pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if turn.view.record(key_of(PODS, pod)) is None]


async def _kill(turn: Turn, pod: Object) -> None:
    """Delete a pod, marked so that nothing follows from its going."""
    metadata = pod["metadata"]
    notes = metadata.get("annotations") or {}
    with suppress(NotFound):
        if OUT_OF_SYNC not in notes:
            marked = {**pod, "metadata": {**metadata, "annotations": {**notes, OUT_OF_SYNC: "true"}}}
            await turn.update(key_of(PODS, pod), marked)
        if not is_deleting(pod):
            await turn.delete(key_of(PODS, pod), Deletion(uid=metadata["uid"]))


async def _is_expired(turn: Turn, job: Object) -> bool:
    """Delete a job whose time is over; has it looked at again where that is yet to come."""
    end_s = expires_at_s(job)
    if end_s is None:
        return False
    if end_s > turn.now_s:
        turn.look_again(end_s - turn.now_s)
        return False
    metadata = job["metadata"]
    # Only the job in the state that was seen: somebody may have given it more time.
    exactly = Deletion(propagation=Propagation.FOREGROUND, uid=metadata["uid"], revision=metadata["resourceVersion"])
    await turn.delete(turn.key, exactly)
    return True
