"""The control of jobs, put together: which are managed, what happens to new ones, and the loop that brings them on.

Called by `muster up`. What the configuration says of jobs becomes `JobRules` here.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from muster.apiserver.admission.jobs import JobAdmission, stored_in
from muster.app.checks import CHECK_INDEXES, check_resources, checks_of
from muster.app.config import Configuration
from muster.app.plugins import job_kinds
from muster.controllers import lifecycle, places, pod_groups
from muster.controllers.checks.http import Outside
from muster.controllers.feed import Changes, Feed
from muster.controllers.jobs import Jobs, indexes, resources
from muster.controllers.lifecycle import Lifecycle
from muster.controllers.loop import Controller, Loop
from muster.controllers.multikueue import local as multikueue
from muster.controllers.pod_groups import PodGroups
from muster.controllers.view import Terms, View
from muster.dialects.kueue.configuration_frameworks import FRAMEWORKS
from muster.dialects.kueue.job_admission import JobRules
from muster.dialects.kueue.lifecycle import LifecycleRules
from muster.engine.contracts import Carrier, Integration, JobKind
from muster.store.aio import AsyncStore
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.port import Store

log = logging.getLogger(__name__)
POD = "pod"  # the kind whose objects may be groups


def job_rules(configuration: Configuration) -> JobRules:
    """What a configuration says of jobs."""
    return JobRules(
        manages_without_queue=configuration.manages_jobs_without_queue,
        namespaces=configuration.managed_namespaces,
        labels_to_copy=configuration.labels_to_copy,
        gates=configuration.gates,
        is_strict=configuration.strict_validation,
        has_readiness=not configuration.gates.is_on("DisableWaitForPodsReady"),
    )


def lifecycle_rules(configuration: Configuration) -> LifecycleRules:
    """What a configuration says of the life of workloads."""
    return LifecycleRules(ready=configuration.pods_ready, retention=configuration.retention)


def managed_kinds(configuration: Configuration) -> tuple[JobKind, ...]:
    """The kinds of job that a configuration turns on; all that are known where it names none.

    Kinds that Kueue has no name for are on with what they make.
    """
    kinds, wanted = tuple(job_kinds().values()), configuration.frameworks
    if wanted is None:
        return kinds
    made = {kind.name: kind.made_as for kind in kinds if isinstance(kind, Carrier) and kind.name not in FRAMEWORKS}
    return tuple(kind for kind in kinds if made.get(kind.name, kind.name) in wanted)


def job_admission(store: Store, configuration: Configuration | None = None) -> JobAdmission:
    """The rules for new and changed jobs."""
    chosen = configuration or Configuration()
    return JobAdmission(stored_in(store), managed_kinds(chosen), job_rules(chosen))


def job_resources(configuration: Configuration) -> frozenset[str]:
    """What the control of jobs needs to know."""
    of_kinds = resources(managed_kinds(configuration))
    return of_kinds | lifecycle.RESOURCES | check_resources() | multikueue.RESOURCES | {places.PODS}


def job_indexes(configuration: Configuration) -> dict[tuple[str, str], Terms]:
    """What it finds objects by."""
    return {
        **indexes(managed_kinds(configuration)),
        **places.INDEXES,
        **pod_groups.INDEXES,
        **lifecycle.INDEXES,
        **CHECK_INDEXES,
    }


def job_feed(store: AsyncStore, clock: Clock, configuration: Configuration | None = None) -> Feed:
    """What the control of jobs on a store of this process needs to know."""
    chosen = configuration or Configuration()
    return Feed(store, View(job_indexes(chosen), store.readings), clock, resources=job_resources(chosen))


class JobControl:
    """The reconciler of jobs of one cluster, of groups of pods, of workloads and of checks."""

    def __init__(
        self,
        feed: Changes,
        client: Client,
        clock: Clock,
        *,
        configuration: Configuration | None = None,
        outside: Outside | None = None,  # how servers are asked that checks name; None: they are not
    ) -> None:
        chosen = configuration or Configuration()
        kinds = managed_kinds(chosen)
        jobs = Jobs(kinds, job_rules(chosen))
        parts: list[Controller] = [jobs, places.Places(), Lifecycle(jobs, lifecycle_rules(chosen))]
        parts += [PodGroups(kind, jobs) for kind in kinds if isinstance(kind, Integration) and kind.name == POD]
        parts += checks_of(chosen, outside)
        self.loops = [Loop(one, feed, client, clock) for one in parts]

    def works(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What has to be run beside the feed."""
        return tuple(loop.run() for loop in self.loops)
