"""One reconciler for every kind of job: a managed job waits as a workload, runs while that is admitted, and ends it.

Started by `app` with the kinds of job there are. It only carries out: what comes next for a job follows from the
stored objects alone, in `dialects.kueue.job_steps`, one write at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from muster.controllers.events import WARNING, Events, Note, note_of
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, Terms, View
from muster.dialects.kueue.defaults import IN_USE_FINALIZER
from muster.dialects.kueue.job_admission import JobRules, is_managed
from muster.dialects.kueue.job_steps import WORKLOADS, Case, Step, Verb, next_step, without_finalizer
from muster.dialects.kueue.job_workloads import Surroundings, prebuilt_name
from muster.dialects.kueue.names import GROUP
from muster.engine.contracts import Integration, JobKind
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object
from muster.store.records import Key
from muster.store.rules import Deletion

log = logging.getLogger(__name__)
FLAVORS, CLASSES, QUEUES = f"resourceflavors.{GROUP}", f"workloadpriorityclasses.{GROUP}", f"localqueues.{GROUP}"
POD_CLASSES, NAMESPACES = "priorityclasses.scheduling.k8s.io", "namespaces"
COMPONENT = "muster-jobs"  # who tells of them
_AGAIN_S = 60.0  # after which a job that cannot be brought on is looked at again
_OWNERS_MOST = 10  # how far up a job is looked for that it is a part of


def resources(kinds: Iterable[JobKind]) -> frozenset[str]:
    """What the feed of the controller has to follow; that of which there is nothing costs nothing."""
    followed = (name for kind in kinds for name in (kind.resource, *kind.also_read))
    return frozenset((WORKLOADS, FLAVORS, CLASSES, POD_CLASSES, NAMESPACES, QUEUES, *followed))


def indexes(kinds: Iterable[JobKind]) -> dict[tuple[str, str], Terms]:
    """What the view of the controller has to find objects by."""
    waiting = (kind for kind in kinds if isinstance(kind, Integration))
    return {(WORKLOADS, "job"): _jobs_of, **{(kind.resource, "prebuilt"): _prebuilt_of for kind in waiting}}


class Jobs:
    """The reconciler of some kinds of job."""

    name = "jobs"

    def __init__(self, kinds: Iterable[JobKind], rules: JobRules) -> None:
        self._by_kind = {(kind.gvk.group, kind.gvk.kind): kind for kind in kinds}
        waiting = (kind for kind in self._by_kind.values() if isinstance(kind, Integration))
        self._by_resource = {kind.resource: kind for kind in waiting}
        self._rules = rules
        self._events = Events(COMPONENT)

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if (kind := self._by_resource.get(seen.key.resource)) is not None:
            # Most pods are made by jobs and are nobody else's concern.
            if any(obj is not None and kind.is_marked(Fields(obj)) for obj in (seen.before, seen.now)):
                yield seen.key
        elif seen.key.resource == WORKLOADS:
            for obj in (seen.before, seen.now):
                yield from (
                    key for key in self.owner_keys(obj or {}, seen.key.namespace) if key.resource in self._by_resource
                )
            for resource in self._by_resource:
                for job in view.with_term(resource, "prebuilt", f"{seen.key.namespace}/{seen.key.name}"):
                    yield Key(resource, seen.key.namespace, job["metadata"]["name"])

    async def reconcile(self, turn: Turn) -> None:
        kind, view = self._by_resource[turn.key.resource], turn.view
        job = view.get(turn.key)
        workloads = view.with_term(WORKLOADS, "job", _term(kind, turn.key))
        uid = job["metadata"]["uid"] if job is not None else ""
        for workload in workloads:
            if not _is_owned(workload, uid):
                stray = without_finalizer(WORKLOADS, Fields(workload), IN_USE_FINALIZER)
                if stray is not None:
                    await write(turn, stray)  # Its job is gone, so the collector takes it then.
        if job is None or not kind.is_marked(Fields(job)) or not self.is_ours(job, view):
            return
        await self._bring_on(turn, kind, job, [one for one in workloads if _is_owned(one, uid)])

    async def _bring_on(self, turn: Turn, kind: Integration, job: Object, own: list[Object]) -> None:
        fields = Fields(job)
        if name := prebuilt_name(fields):
            named = turn.view.get(Key(WORKLOADS, turn.key.namespace, name))
            own = [] if named is None else [named]
        try:
            step = next_step(self.case(turn, kind, job, own))
        except InvalidObject as problem:
            await self.tell_problem(turn, job, problem)
            return
        if step is not None:
            await write(turn, step)
            await self.tell(turn, job, step)

    def case(self, turn: Turn, kind: Integration, job: Object, own: list[Object]) -> Case:
        """A job with its workloads, and what else decides on its next step."""
        return Case(
            job=Fields(job),
            integration=kind,
            workloads=tuple(map(Fields, own)),
            flavors=dict(_flavors_of(own, turn.view)),
            surroundings=self._surroundings(turn.view, turn.now_s),
            has_readiness=self._rules.has_readiness,
        )

    async def tell(self, turn: Turn, job: Object, step: Step) -> None:
        """Say what was done for a job, and that it waits in vain where nobody has made its queue."""
        if step.event is None:
            return
        log.info("%s %s: %s", turn.key, step.event.reason, step.event.message)
        await self._events.tell(turn, job, note_of(step.event))
        is_waiting = step.resource == WORKLOADS and step.verb in (Verb.CREATE, Verb.UPDATE)
        queue = step.obj["spec"].get("queueName") or "" if is_waiting else ""
        if queue and turn.view.record(Key(QUEUES, turn.key.namespace, queue)) is None:
            await self._events.tell(turn, job, Note(WARNING, "Inadmissible", f"LocalQueue {queue} doesn't exist"))

    async def tell_problem(self, turn: Turn, job: Object, problem: InvalidObject) -> None:
        """Say why a job cannot be brought on, and look at it again later."""
        log.info("%s cannot be brought on: %s", turn.key, problem)
        await self._events.tell(turn, job, Note(WARNING, "ErrWorkloadCompose", str(problem)))
        turn.look_again(_AGAIN_S)

    # What a job is and meets -----------------------------------------------------------------------------------------

    def is_ours(self, job: Object, view: View) -> bool:
        """Whether a job is managed in its own right, not through an owner."""
        labels = _namespace_labels(view, job["metadata"]["namespace"])
        if not is_managed(Fields(job), self._rules, labels):
            return False
        return not any(is_managed(Fields(owner), self._rules, labels) for owner in self._ancestors(job, view))

    def _ancestors(self, job: Object, view: View) -> Iterator[Object]:
        """The owners that wait themselves; through the others a job does not wait."""
        for _ in range(_OWNERS_MOST):
            keys = list(self.owner_keys(job, job["metadata"]["namespace"]))
            owner = view.get(keys[0]) if keys else None
            if owner is None:
                return
            if keys[0].resource in self._by_resource:
                yield owner
            job = owner

    def owner_keys(self, obj: Object, namespace: str) -> Iterator[Key]:
        """The jobs, and what carries its queue on, that control an object."""
        for owner in (obj.get("metadata") or {}).get("ownerReferences") or ():
            group = owner["apiVersion"].rpartition("/")[0]
            kind = self._by_kind.get((group, owner["kind"])) if owner.get("controller") else None
            if kind is not None:
                yield Key(kind.resource, namespace, owner["name"])

    def _surroundings(self, view: View, now_s: float) -> Surroundings:
        pod_classes = {one["metadata"]["name"]: one["value"] for one in view.all(POD_CLASSES)}
        defaults = [one["metadata"]["name"] for one in view.all(POD_CLASSES) if one.get("globalDefault")]
        return Surroundings(
            workload_classes={one["metadata"]["name"]: one["value"] for one in view.all(CLASSES)},
            pod_classes=pod_classes,
            default_pod_class=min(defaults, key=lambda name: (pod_classes[name], name), default=""),
            labels_to_copy=self._rules.labels_to_copy,
            gates=self._rules.gates,
            strict=self._rules.is_strict,
            now=now_s,
        )


async def write(turn: Turn, step: Step) -> None:
    """Make the write that a step stands for."""
    metadata = step.obj["metadata"]
    key = Key(step.resource, metadata.get("namespace") or "", metadata["name"])
    match step.verb:
        case Verb.CREATE:
            await turn.create(step.resource, step.obj)
        case Verb.UPDATE:
            await turn.update(key, step.obj)
        case Verb.UPDATE_STATUS:
            await turn.update_status(key, step.obj)
        case Verb.DELETE:
            await turn.delete(key, Deletion(uid=metadata["uid"], revision=metadata["resourceVersion"]))


def _namespace_labels(view: View, namespace: str) -> Mapping[str, str]:
    found = view.get(Key(NAMESPACES, "", namespace)) or {}
    return (found.get("metadata") or {}).get("labels") or {}


def _flavors_of(workloads: list[Object], view: View) -> Iterator[tuple[str, Fields]]:
    """The flavors that workloads were admitted to."""
    for workload in workloads:
        admission = (workload.get("status") or {}).get("admission") or {}
        for assignment in admission.get("podSetAssignments") or ():
            for name in (assignment.get("flavors") or {}).values():
                if (flavor := view.get(Key(FLAVORS, "", name))) is not None:
                    yield name, Fields(flavor)


def _is_owned(workload: Object, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in workload["metadata"].get("ownerReferences") or ())


def _term(kind: Integration, key: Key) -> str:
    return f"{key.namespace}/{kind.gvk.kind}.{kind.gvk.group}/{key.name}"


def _jobs_of(workload: Object) -> Iterable[str]:
    """The jobs that own a workload."""
    metadata = workload["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            yield f"{metadata['namespace']}/{owner['kind']}.{group}/{owner['name']}"


def _prebuilt_of(job: Object) -> Iterable[str]:
    """The workload that a job says is its own."""
    try:
        name = prebuilt_name(Fields(job))
    except InvalidObject:
        return ()
    return (f"{job['metadata']['namespace']}/{name}",) if name else ()
