"""Volcano's CronJob: starts Volcano's jobs by the clock, by the rules of Kubernetes' own."""

from __future__ import annotations

from muster.controllers.builtin.cronjob import CronJobs
from muster.controllers.builtin.cronjob_steps import JobForm
from muster.controllers.builtin.job_conditions import COMPLETE, FAILED
from muster.dialects.volcano.job.words import BATCH, JOBS, Phase
from muster.store.kinds import Object

CRON_JOBS = "cronjobs.batch.volcano.sh"
SCHEDULED_AT = "volcano.sh/cronjob-scheduled-timestamp"  # annotation
_ENDS = {
    Phase.COMPLETED: COMPLETE,
    Phase.FAILED: FAILED,
    Phase.TERMINATED: FAILED,
    Phase.ABORTED: FAILED,
}


def _state(job: Object) -> Object:
    found: Object = (job.get("status") or {}).get("state") or {}
    return found


class VolcanoCronJobs(CronJobs):
    """Starts Volcano's jobs by the clock."""

    name = "volcano-cronjob-controller"
    resource = CRON_JOBS
    jobs = JOBS
    form = JobForm(
        api_version=BATCH,
        scheduled_at=SCHEDULED_AT,
        finished_as=lambda job: _ENDS.get(_state(job).get("phase", "")),
        ended_at=lambda job: _state(job).get("lastTransitionTime"),
        started_at=lambda job: job["metadata"].get("creationTimestamp"),
    )
