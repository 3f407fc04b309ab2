"""Brings the copies in one cluster on: there are those that were asked for, and nothing that is left over.

One for each connected cluster, run by its own loop: it reads what is known here, and writes there alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.controllers.jobs import write
from muster.controllers.loop import Turn
from muster.controllers.multikueue.clusters import Link
from muster.controllers.multikueue.local import Local
from muster.controllers.view import Seen, View
from muster.dialects.kueue.job_steps import WORKLOADS, Verb
from muster.dialects.kueue.job_workloads import PREBUILT
from muster.dialects.kueue.multikueue import Copy
from muster.dialects.kueue.multikueue_copies import Mirroring, next_copy_step
from muster.dialects.kueue.names import MULTIKUEUE_ORIGIN
from muster.engine.contracts import Integration
from muster.model.fields import Fields
from muster.store.kinds import Object, Propagation
from muster.store.records import Key
from muster.store.rules import Deletion

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Mirror:
    """The controller of the copies in one cluster."""

    link: Link
    local: Local
    name: str = "multikueue-copies"

    def keys(self, seen: Seen, _view: View) -> Iterable[Key]:
        for obj in (seen.before, seen.now):
            if obj is not None and _is_of(obj, self.local.rules.origin):
                key = _workload_of(seen.key, obj)
                if key is not None:
                    self.local.copy_changed(key)
                    yield key

    async def reconcile(self, turn: Turn) -> None:
        local = self.local
        workload = local.view.get(turn.key)
        kind, job = local.job_of(workload)
        copy, there = copy_in(turn.view, turn.key, self.link.name, local)
        case = Mirroring(
            copy=copy,
            origin=local.rules.origin,
            workload=None if workload is None or not local.check_of(workload) else Fields(workload),
            job=None if job is None else Fields(job),
            kind=there or kind,
        )
        step = next_copy_step(case)
        if step is None:
            return
        log.info("cluster %s: %s %s of %s", self.link.name, step.verb.value, step.obj["kind"], turn.key)
        if step.verb is Verb.DELETE:
            metadata = step.obj["metadata"]
            # The pods go first, so that nobody else starts the job while they are there.
            how = Deletion(
                uid=metadata["uid"], revision=metadata["resourceVersion"], propagation=Propagation.FOREGROUND
            )
            await turn.delete(Key(step.resource, metadata["namespace"], metadata["name"]), how)
            return
        await write(turn, step)


def copy_in(view: View, key: Key, cluster: str, local: Local) -> tuple[Copy, Integration | None]:
    """What a reachable cluster has of a workload, and the kind of the job there."""
    workload = view.get(key)
    kind, job = next(_jobs_in(view, key, local), (None, None))
    is_ours = workload is not None and _is_of(workload, local.rules.origin)
    copy = Copy(
        cluster=cluster,
        workload=Fields(workload) if workload is not None and is_ours else None,
        job=None if job is None else Fields(job),
    )
    return copy, kind


def _jobs_in(view: View, key: Key, local: Local) -> Iterator[tuple[Integration, Object]]:
    for kind in local.rules.kinds:
        for job in view.with_term(kind.resource, "prebuilt", f"{key.namespace}/{key.name}"):
            if _is_of(job, local.rules.origin):
                yield kind, job


def _is_of(obj: Object, origin: str) -> bool:
    return (obj["metadata"].get("labels") or {}).get(MULTIKUEUE_ORIGIN) == origin


def _workload_of(key: Key, obj: Object) -> Key | None:
    if key.resource == WORKLOADS:
        return key
    name = (obj["metadata"].get("labels") or {}).get(PREBUILT)
    return Key(WORKLOADS, key.namespace, name) if name else None
