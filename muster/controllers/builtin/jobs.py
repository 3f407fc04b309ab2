"""The controllers of jobs and cron jobs, and what they look things up by. Read by `__init__`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.controllers.builtin.cronjob import CRON_JOBS, CronJobs
from muster.controllers.builtin.job import JOBS, OF_JOBS, SELECTING, Jobs, of_job_terms, selecting_terms
from muster.controllers.builtin.job_ttl import FinishedJobs
from muster.controllers.builtin.owners import ORPHANS, orphan_terms
from muster.controllers.builtin.pods import PODS
from muster.controllers.loop import Controller
from muster.controllers.view import Terms

# They remember what they have told and seen: each life of a cluster needs its own.
JOB_CONTROLLERS: tuple[Callable[[], Controller], ...] = (Jobs, FinishedJobs, CronJobs)
JOB_INDEXES: Mapping[tuple[str, str], Terms] = {
    (PODS, ORPHANS): orphan_terms,
    (PODS, OF_JOBS): of_job_terms,
    (JOBS, SELECTING): selecting_terms,
}
JOB_RESOURCES = frozenset({PODS, JOBS, CRON_JOBS})
