"""The control of jobs, put together: which are managed, what happens to new ones, and the loop that brings them on.

Called by `muster up`. What the configuration says of jobs becomes `JobRules` here.
"""

from __future__ import annotations

import asyncio
import logging

from muster.apiserver.admission.jobs import JobAdmission
from muster.app.config import Configuration
from muster.app.plugins import job_kinds
from muster.controllers import places, pod_groups
from muster.controllers.feed import Feed
from muster.controllers.jobs import Jobs, indexes, resources
from muster.controllers.loop import Controller, Loop
from muster.controllers.pod_groups import PodGroups
from muster.controllers.view import View
from muster.dialects.kueue.configuration_frameworks import FRAMEWORKS
from muster.dialects.kueue.job_admission import JobRules
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
    return JobAdmission(store, managed_kinds(chosen), job_rules(chosen))


class JobControl:
    """The reconciler of jobs on one store, of groups of pods, and the gates of pods that wait for their place."""

    def __init__(
        self, store: AsyncStore, client: Client, clock: Clock, *, configuration: Configuration | None = None
    ) -> None:
        chosen = configuration or Configuration()
        kinds = managed_kinds(chosen)
        view = View({**indexes(kinds), **places.INDEXES, **pod_groups.INDEXES}, store.readings)
        self.feed = Feed(store, view, clock, resources={*resources(kinds), places.PODS})
        jobs = Jobs(kinds, job_rules(chosen))
        parts: list[Controller] = [jobs, places.Places()]
        parts += [PodGroups(kind, jobs) for kind in kinds if isinstance(kind, Integration) and kind.name == POD]
        self.loops = [Loop(one, self.feed, client, clock) for one in parts]

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.feed.run())
            for loop in self.loops:
                group.create_task(loop.run())
