"""What makes the API a cluster: the scheduler, the control of jobs and Kubernetes' own controllers.

Loaded by `run` once the server answers, since it brings numpy.
"""

from __future__ import annotations

import asyncio

from muster.apiserver.api import Api
from muster.app.job_control import JobControl
from muster.app.scheduling import Scheduling
from muster.controllers.builtin import CONTROLLERS, FOLLOWED, INDEXES
from muster.controllers.events import EVENTS
from muster.controllers.feed import Feed
from muster.controllers.loop import Loop
from muster.controllers.view import View
from muster.store.client import PlainClient

# The users that they write as.
SCHEDULER = "system:kube-scheduler"
CONTROLLER_MANAGER = "system:kube-controller-manager"
JOBS = "muster-jobs"


async def live(api: Api) -> None:
    """Run all of it until cancelled."""
    feed = Feed(api.store, View(INDEXES), api.clock, resources={*FOLLOWED, EVENTS})
    loops = [Loop(make(), feed, _client(api, CONTROLLER_MANAGER), api.clock) for make in CONTROLLERS]
    scheduler = Scheduling(api.store, _client(api, SCHEDULER), api.clock, think=asyncio.to_thread)
    jobs = JobControl(api.store, _client(api, JOBS), api.clock)
    async with asyncio.TaskGroup() as group:
        for work in (feed.run(), *(loop.run() for loop in loops), scheduler.run(), jobs.run()):
            group.create_task(work)


def _client(api: Api, user: str) -> PlainClient:
    """A client whose new objects are completed as everybody's are."""
    return PlainClient(api.store, api.objects, user, complete=api.admission.complete_new)
