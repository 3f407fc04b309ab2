"""The controllers that every Kubernetes cluster has, for the embedded server. `app` runs one of each.

To add one: a file with a class that is a `Controller`, and a line in each of the tables below that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.controllers.builtin.cronjob import CRON_JOBS, CronJobs
from muster.controllers.builtin.job import (
    JOBS,
    OF_JOBS,
    SELECTING,
    Jobs,
    of_job_terms,
    selecting_terms,
)
from muster.controllers.builtin.job_ttl import FinishedJobs
from muster.controllers.builtin.owners import ORPHANS, orphan_terms
from muster.controllers.builtin.pods import PODS
from muster.controllers.loop import Controller
from muster.controllers.view import Terms

CONTROLLERS: tuple[Callable[[], Controller], ...] = (
    Jobs,
    FinishedJobs,
    CronJobs,
)

FOLLOWED = frozenset(
    {
        PODS,
        JOBS,
        CRON_JOBS,
    }
)  # the resources that their view has to know

INDEXES: Mapping[tuple[str, str], Terms] = {
    (PODS, ORPHANS): orphan_terms,
    (PODS, OF_JOBS): of_job_terms,
    (JOBS, SELECTING): selecting_terms,
}
