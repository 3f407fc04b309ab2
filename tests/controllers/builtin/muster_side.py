"""Muster's side of the stories of jobs: a cluster in memory that does one step after the other."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from muster.store.kinds import Propagation
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.controllers.builtin.job_cluster import JOBS, PODS, a_job, a_pod
from tests.controllers.builtin.job_stories import Json
from tests.controllers.builtin.stepped import Stepped
from tests.support import ROOT

RECORDED = ROOT / "tests" / "controllers" / "builtin" / "job_stories.jsonl"


@cache
def recorded() -> dict[str, list[Json]]:
    """What a real cluster said: for each story the state after each step."""
    rows = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    return {row["story"]: row["states"] for row in rows}


class MusterSide(Stepped):
    """A cluster in memory."""

    def job(self) -> Json | None:
        return self._cluster.get(JOBS, "j")

    def pods(self) -> list[Json]:
        return self._cluster.all(PODS)

    def do(self, verb: str, names: list[str], given: Any) -> None:
        cluster = self._cluster
        match verb:
            case "job":
                self._run(cluster.apply(a_job(**given)))
            case "pod":
                self._run(cluster.apply(a_pod("orphan", given)))
            case "change":
                self._run(cluster.change(JOBS, "j", **given))
            case "delete job":
                self._run(cluster.delete(JOBS, "j", Deletion(propagation=Propagation(given))))
            case "pause":
                self._run(cluster.wait(given))
            case _:
                self._run(self._do_to_pods(verb, names, given))

    async def _do_to_pods(self, verb: str, names: list[str], given: Any) -> None:
        for name in names:
            await self._do_to_pod(verb, name, given)

    async def _do_to_pod(self, verb: str, name: str, given: Any) -> None:
        cluster, key = self._cluster, Key(PODS, "x", name)
        match verb:
            case "status":
                await cluster.play(name, given)
            case "bind":
                await cluster.bind(name)
            case "delete":
                await cluster.client.delete(key, Deletion(grace_s=given))
            case "relabel":
                await cluster.relabel(name, {"batch.kubernetes.io/controller-uid": None, "gone": "yes"})
