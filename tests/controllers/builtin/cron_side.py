"""Muster's side of the stories of cron jobs."""

from __future__ import annotations

from typing import Any

from muster.store.kinds import Propagation
from muster.store.objects import Part
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.controllers.builtin.cron_stories import Json
from tests.controllers.builtin.job_cluster import CRON_JOBS, JOBS, PODS, a_cron_job, names_of
from tests.controllers.builtin.stepped import Stepped


class MusterSide(Stepped):
    """A cluster in memory."""

    def cron_job(self) -> Json:
        return self._cluster.get(CRON_JOBS, "c") or {}

    def jobs(self) -> list[Json]:
        return self._cluster.all(JOBS)

    def do(self, verb: str, given: Any) -> None:
        cluster, key = self._cluster, Key(CRON_JOBS, "x", "c")
        background = Deletion(propagation=Propagation.BACKGROUND)
        match verb:
            case "cron job":
                self._run(cluster.apply(a_cron_job(**given)))
            case "last":
                given = {**self.cron_job(), "status": {"lastScheduleTime": given}}
                self._run(cluster.client.update(key, given, Part.STATUS))
            case "change":
                self._run(cluster.change(CRON_JOBS, "c", **given))
            case "end":
                pods = [pod for pod in cluster.all(PODS) if pod["status"]["phase"] == "Pending"]
                self._run(cluster.end(names_of(pods), given))
            case "delete jobs":
                for name in names_of(self.jobs()):
                    self._run(cluster.delete(JOBS, name, background))
            case "delete":
                self._run(cluster.delete(CRON_JOBS, "c", background))
