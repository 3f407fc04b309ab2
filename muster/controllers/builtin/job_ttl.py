"""Deletes jobs some time after they have finished, where they ask for it."""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.builtin.job import JOBS
from muster.controllers.builtin.job_conditions import finished_at_s
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.store.kinds import Object, Propagation
from muster.store.metadata import is_deleting
from muster.store.records import Key
from muster.store.rules import Deletion


def left_s(job: Object, now_s: float) -> float | None:
    """How long a finished job stays; `None` where it stays until somebody deletes it."""
    limit_s, finished_s = job["spec"].get("ttlSecondsAfterFinished"), finished_at_s(job)
    if limit_s is None or finished_s is None or is_deleting(job):
        return None
    return max(0.0, finished_s + float(limit_s) - now_s)


class FinishedJobs:
    """Tidies up after jobs."""

    name = "ttl-after-finished-controller"

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:  # noqa: ARG002 - every controller is asked alike
        if seen.key.resource == JOBS and seen.now is not None and left_s(seen.now, 0.0) is not None:
            yield seen.key

    async def reconcile(self, turn: Turn) -> None:
        job = turn.view.get(turn.key)
        wait_s = None if job is None else left_s(job, turn.now_s)
        if job is None or wait_s is None:
            return
        if wait_s > 0:
            turn.look_again(wait_s)
            return
        metadata = job["metadata"]
        # Only the job in the state that was seen: somebody may have given it more time.
        exactly = Deletion(
            propagation=Propagation.FOREGROUND, uid=metadata["uid"], revision=metadata["resourceVersion"]
        )
        await turn.delete(turn.key, exactly)
