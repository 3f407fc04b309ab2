"""The CronJob controller: starts jobs when they are due and keeps a short history of them.

What to do is decided in `cronjob_steps`; here it is carried out.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.builtin.cronjob_steps import KUBERNETES, CronSteps, cron_steps, with_started
from muster.controllers.builtin.gathering import all_done
from muster.controllers.builtin.job import JOBS
from muster.controllers.builtin.owners import controller_of, is_controlled_by, key_of
from muster.controllers.events import NORMAL, WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.model.errors import InvalidObject
from muster.store.errors import AlreadyExists, StoreError
from muster.store.kinds import Object, Propagation
from muster.store.records import Key
from muster.store.rules import Deletion

CRON_JOBS = "cronjobs.batch"


class CronJobs:
    """Starts jobs by the clock."""

    name = "cronjob-controller"
    resource = CRON_JOBS
    jobs = JOBS  # what it starts
    form = KUBERNETES

    def __init__(self) -> None:
        self._events = Events(self.name)

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:  # noqa: ARG002 - every controller is asked alike
        if seen.key.resource == self.resource:
            yield seen.key
        elif seen.key.resource == self.jobs:
            for state in (seen.before, seen.now):
                reference = None if state is None else controller_of(state)
                if reference is not None and reference["kind"] == "CronJob":
                    yield Key(self.resource, seen.key.namespace, reference["name"])

    async def reconcile(self, turn: Turn) -> None:
        cron_job = turn.view.get(turn.key)
        if cron_job is None:
            return
        owned = turn.view.owned(cron_job["metadata"]["uid"], self.jobs)
        jobs = [job for job in owned if is_controlled_by(job, cron_job)]
        steps = cron_steps(cron_job, jobs, turn.now_s, self.form)
        if steps.again_s is not None:
            turn.look_again(steps.again_s)
        await all_done(self._delete(turn, job, steps) for job in steps.delete)
        problem: Exception | None = None
        try:
            status = await self._started(turn, cron_job, steps)
            if status != (cron_job.get("status") or {}):
                await turn.update_status(turn.key, {**cron_job, "status": status})
        except (StoreError, InvalidObject) as raised:
            problem = raised  # what was done is told all the same
        await all_done(self._events.tell(turn, cron_job, note) for note in steps.notes)
        if problem is not None:
            raise problem

    async def _delete(self, turn: Turn, job: Object, steps: CronSteps) -> None:
        deletion = Deletion(propagation=Propagation.BACKGROUND, uid=job["metadata"]["uid"])
        await turn.delete(key_of(self.jobs, job), deletion)
        steps.notes.append(Note(NORMAL, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}"))

    async def _started(self, turn: Turn, cron_job: Object, steps: CronSteps) -> Object:
        """Make the job that is due, if one is; gives the status after that."""
        if steps.create is None:
            return steps.status
        name = steps.create["metadata"]["name"]
        try:
            made = await turn.create(self.jobs, steps.create)
        except AlreadyExists:
            # It was made before and the answer did not come, or it is somebody else's.
            there = turn.view.get(key_of(self.jobs, steps.create))
            if there is None:
                raise  # the view will know it soon
            return with_started(steps, there) if is_controlled_by(there, cron_job) else steps.status
        except (StoreError, InvalidObject) as problem:
            steps.notes.append(Note(WARNING, "FailedCreate", f"Error creating job: {problem}"))
            raise
        steps.notes.append(Note(NORMAL, "SuccessfulCreate", f"Created job {name}"))
        return with_started(steps, made)
