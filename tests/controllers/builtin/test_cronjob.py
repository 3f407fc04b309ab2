"""Cron jobs start jobs when they are due, and not twice, wherever they are interrupted."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from muster.controllers.builtin.cron_schedule import parse_schedule
from muster.controllers.builtin.cronjob_steps import cron_steps, due
from muster.model.times import moment_text, parse_moment
from tests.controllers.builtin.job_cluster import CRON_JOBS, EVENTS, JOBS, PODS, Cluster, Json, a_cron_job, names_of
from tests.controllers.builtin.test_job_histories import MortalClient
from tests.support import assert_sound

NOON = "2026-05-04T12:00:00Z"


def seconds(text: str) -> float:
    return parse_moment(text, "")


def cron(*, made: str = NOON, last: str = "", active: tuple[str, ...] = (), **spec: Any) -> Json:
    given = a_cron_job(**spec)
    given["metadata"] |= {"uid": "u", "creationTimestamp": made}
    given["status"] = {"active": [{"name": name, "uid": name} for name in active]} if active else {}
    if last:
        given["status"]["lastScheduleTime"] = last
    return given


def job(name: str, *conditions: str, start: str = NOON, end: str = "") -> Json:
    status: Json = {"startTime": start, "conditions": [{"type": one, "status": "True"} for one in conditions]}
    if end:
        status["completionTime"] = end
    metadata = {"name": name, "uid": name, "namespace": "x", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("given", "now", "last", "missed"),
    [
        pytest.param({}, "2026-05-04T12:04:59Z", None, 0, id="not yet"),
        pytest.param({}, "2026-05-04T12:05:00Z", "2026-05-04T12:05:00Z", 1, id="now"),
        pytest.param({}, "2026-05-04T12:17:00Z", "2026-05-04T12:15:00Z", 3, id="the last of those that were missed"),
        pytest.param({"last": "2026-05-04T12:10:00Z"}, "2026-05-04T12:14:00Z", None, 0, id="seen to already"),
        pytest.param({}, "2026-05-05T12:00:00Z", "2026-05-05T12:00:00Z", 288, id="a day was missed"),
        pytest.param({"startingDeadlineSeconds": 60}, "2026-05-04T12:08:00Z", None, 0, id="too late to be made up for"),
        pytest.param(
            {"startingDeadlineSeconds": 600},
            "2026-05-05T12:00:00Z",
            "2026-05-05T12:00:00Z",
            2,
            id="only what is not too late counts as missed",
        ),
        pytest.param(
            {"schedule": "@every 7m"}, "2026-05-04T12:20:00Z", "2026-05-04T12:14:00Z", 2, id="again and again"
        ),
        pytest.param({"schedule": "0 0 31 2 *"}, "2030-05-04T12:20:00Z", None, 0, id="never"),
    ],
)
def test_what_is_due(given, now, last, missed):
    one = cron(**given)
    found = due(one, parse_schedule(one["spec"]["schedule"]), seconds(now))
    assert found.last_s == (None if last is None else seconds(last))
    assert found.missed == missed


@pytest.mark.parametrize(
    ("given", "jobs", "reason"),
    [
        pytest.param({"timeZone": "Mars/Olympus"}, [], "UnknownTimeZone", id="a zone that is none"),
        pytest.param({"schedule": "often"}, [], "UnparseableSchedule", id="a schedule that is none"),
        pytest.param({"made": "2026-05-01T00:00:00Z"}, [], "TooManyMissedTimes", id="a hundred were missed"),
        pytest.param({"active": ("a",)}, [], "MissingJob", id="an active job is gone"),
        pytest.param({"active": ("a",)}, [job("a", "Complete")], "SawCompletedJob", id="an active job has finished"),
        pytest.param({}, [job("a")], "UnexpectedJob", id="a job that nobody knows of"),
        pytest.param(
            {"active": ("a",), "concurrencyPolicy": "Forbid"}, [job("a")], "JobAlreadyActive", id="one at a time"
        ),
    ],
)
def test_what_is_told(given, jobs, reason):
    steps = cron_steps(cron(**given), jobs, seconds("2026-05-04T12:05:00Z"))
    assert reason in [note.reason for note in steps.notes]


def test_the_oldest_go_first_when_the_history_is_full():
    ended = [job(name, "Complete", start=f"2026-05-04T1{hour}:00:00Z") for name, hour in (("b", 1), ("a", 2), ("c", 0))]
    failed = [job("x", "Failed"), job("y", "Failed", start="2026-05-03T00:00:00Z")]
    given = cron(suspend=True, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=1)
    assert names_of(cron_steps(given, [*ended, *failed], seconds(NOON)).delete) == ["c", "b", "y"]


def test_the_last_success_is_noted():
    jobs = [job("a", "Complete", end="2026-05-04T10:00:00Z"), job("b", "Complete", end="2026-05-04T11:00:00Z")]
    steps = cron_steps(cron(suspend=True), jobs, seconds(NOON))
    assert steps.status["lastSuccessfulTime"] == "2026-05-04T11:00:00Z"


def test_it_is_looked_at_again_when_it_is_due():
    steps = cron_steps(cron(), [], seconds("2026-05-04T12:01:00Z"))
    assert steps.again_s == pytest.approx(240.1)


def test_a_day_of_starts():
    async def story() -> None:
        cluster = Cluster()
        cluster.start()
        await cluster.apply(a_cron_job(schedule="0 * * * *"))
        for _ in range(24):
            await cluster.wait(3600)
            pods = [pod for pod in cluster.all(PODS) if pod["status"]["phase"] == "Pending"]
            assert len(pods) == 1
            await cluster.end(names_of(pods))
        found = cluster.get(CRON_JOBS, "c") or {}
        assert "active" not in found["status"]
        assert found["status"]["lastScheduleTime"] == "2023-11-15T22:00:00Z"
        assert len(cluster.all(JOBS)) == 3, "the history holds three"
        told = [one for one in cluster.all(EVENTS) if one["reason"] == "SuccessfulCreate" and "job" in one["message"]]
        assert len(told) == 24
        await cluster.close()

    asyncio.run(story())


def check_no_start_is_lost_or_doubled(chance: Random) -> None:
    async def story() -> None:
        cluster = Cluster(chance.randrange(1 << 30))
        client = MortalClient(cluster, chance.randint(1, 6), is_answer_lost=chance.random() < 0.5)
        cluster.start(client)
        await cluster.apply(a_cron_job(schedule="*/10 * * * *", successfulJobsHistoryLimit=100))
        begin_s = cluster.clock.now_s()
        for _ in range(6):
            await cluster.wait(600)
            if client.is_dead:
                assert cluster.controllers is not None
                await cluster.controllers.stop()
                client = MortalClient(cluster, chance.randint(1, 6), is_answer_lost=chance.random() < 0.5)
                cluster.start(client)
                await cluster.wait(10)
        if cluster.controllers is not None:
            await cluster.controllers.stop()
        cluster.start()
        await cluster.wait(10)
        names = names_of(cluster.all(JOBS))
        wanted = [
            f"c-{minute}" for minute in range(int(begin_s // 600 + 1) * 10, int(cluster.clock.now_s() // 60) + 1, 10)
        ]
        assert set(names) <= set(wanted)
        assert wanted[-1] in names, "what is due last is always made up for"
        status = (cluster.get(CRON_JOBS, "c") or {})["status"]
        assert sorted(one["name"] for one in status["active"]) == sorted(names)
        assert status["lastScheduleTime"] == moment_text(int(wanted[-1].removeprefix("c-")) * 60)
        await cluster.close()

    asyncio.run(story())


def test_no_start_is_lost_or_doubled_when_the_controllers_die():
    assert_sound(check_no_start_is_lost_or_doubled, range(20))
