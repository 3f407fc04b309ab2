"""Time-outs by the hundred, while controllers are stopped at any moment and start anew: no state contradicts itself.

Every state that a workload ever had is looked at, not only those in which it comes to rest.
"""

from __future__ import annotations

from random import Random

import pytest

from muster.store.kinds import Object
from tests.stories.lives import QUEUES, WORKLOADS, Lives, a_job, configured, lives
from tests.support import assert_sound, proof_count

TIME_OUTS = 2  # of one seed
JOBS = 4
BACK_OFF = {"backoffBaseSeconds": 1, "backoffMaxSeconds": 4}
READY = {"timeout": "6s", "recoveryTimeout": "2s", "requeuingStrategy": BACK_OFF}
NODE: Object = {"pools": [{"name": "worker", "count": 1, "runTime": "24h"}]}


def _time_outs(story: Lives) -> int:
    known = (one.get("status") or {} for one in story.world.all(WORKLOADS))
    found = ((one.get("schedulingStats") or {}).get("evictions") or () for one in known)
    return sum(one["count"] for evictions in found for one in evictions)


def _sound(chance: Random) -> None:
    with lives(configured(waitForPodsReady=READY), nodes=NODE) as story:
        for number in range(JOBS):
            late = {"metadata": {"annotations": {"sim.muster.dev/start-time": f"uniform(1s,{10 + 5 * number}s)"}}}
            job = a_job(f"job{number}", chance.choice((1, 2)), template=late)
            if number % 2:
                job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = str(chance.randint(2, 9))
            story.create(job)
        while _time_outs(story) < TIME_OUTS:
            name = chance.choice(("jobs", "scheduler", "jobs", "controllers"))
            story.run(chance.choice((0.0, 0.3, 2.0, 5.0)))
            story.world.stop(name)
            story.run(chance.choice((0.0, 0.0, 1.0, 9.0)))
            story.world.start(name)
            _meddle(story, chance)
        story.change(QUEUES, "main", stopPolicy="HoldAndDrain")
        story.run(20)
        assert story.counts()[1:] == (0, 0), "somebody holds quota of a queue that is drained"
        assert not [pod for number in range(JOBS) for pod in story.pods(f"job{number}")]


def _meddle(story: Lives, chance: Random) -> None:
    """Switch one on that was switched off, or stop the queue for a moment."""
    if chance.random() < 0.1:
        story.change(QUEUES, "main", stopPolicy=chance.choice(("None", "None", "Hold", "HoldAndDrain")))
    elif chance.random() < 0.5:
        story.change(QUEUES, "main", stopPolicy="None")
        story.change_workload(f"job{chance.randrange(JOBS)}", active=True)


@pytest.mark.prove
def test_admitted_and_evicted_are_never_both_true_whatever_is_restarted():
    assert_sound(_sound, range(proof_count(500)))
