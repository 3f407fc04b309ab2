"""Muster's CronJob controller does what Kubernetes' own does, step by step."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.controllers.builtin.cron_side import MusterSide
from tests.controllers.builtin.cron_stories import STORIES, Json, state
from tests.controllers.builtin.job_cluster import a_cron_job
from tests.controllers.builtin.job_stories import ended
from tests.kubernetes.client import Client
from tests.kubernetes.job_side import MERGE, SETTLED_S
from tests.kubernetes.plane import POLL_S


class RealSide:
    """A namespace of a real cluster."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._core = f"/api/v1/namespaces/{namespace}"
        self._batch = f"/apis/batch/v1/namespaces/{namespace}"
        self._path = f"{self._batch}/cronjobs/c"
        self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

    def _ask(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Json:
        answer = self._client.request(method, path, body, content_type=content_type)
        assert answer.status < 300, f"{method} {path}: {answer.body!r}"
        return answer.json

    def cron_job(self) -> Json:
        answer = self._client.request("GET", self._path)
        return answer.json if answer.status == 200 else {}

    def jobs(self) -> list[Json]:
        items: list[Json] = self._ask("GET", f"{self._batch}/jobs")["items"]
        return items

    def do(self, verb: str, given: Any) -> None:
        match verb:
            case "cron job":
                wanted = a_cron_job(**given)
                wanted["metadata"]["namespace"] = self._namespace
                self._ask("POST", f"{self._batch}/cronjobs", wanted)
            case "last":
                self._ask("PATCH", f"{self._path}/status", {"status": {"lastScheduleTime": given}}, MERGE)
            case "change":
                self._ask("PATCH", self._path, {"spec": given}, MERGE)
                if "schedule" in given:
                    # Kubernetes waits for the next time of a new schedule, until anything else makes it look; Muster
                    # looks at once.
                    self._ask("PATCH", self._path, {"metadata": {"annotations": {"look": repr(time.time())}}}, MERGE)
            case "end":
                self._end(given)
            case "delete jobs":
                self._ask("DELETE", f"{self._batch}/jobs", {"propagationPolicy": "Background"})
            case "delete":
                self._ask("DELETE", self._path, {"propagationPolicy": "Background"})

    def _end(self, code: int) -> None:
        """Have all pods end that run; there is one for each job that does."""
        deadline = time.monotonic() + SETTLED_S
        pods: list[Json] = []
        while not pods and time.monotonic() < deadline:
            found = self._ask("GET", f"{self._core}/pods")["items"]
            pods = [pod for pod in found if pod["status"]["phase"] == "Pending"]
        for pod in pods:
            path = f"{self._core}/pods/{pod['metadata']['name']}/status"
            self._ask("PATCH", path, {"status": ended(code)}, MERGE)


@pytest.mark.parametrize("name", STORIES)
def test_cron_jobs_go_as_in_kubernetes(plane_with_controllers, name):
    real = RealSide(plane_with_controllers.client, f"cron-{list(STORIES).index(name)}")
    with MusterSide.at_work(start_s=time.time()) as side:
        for step in STORIES[name]:
            side.do(step.verb, step.given)
            real.do(step.verb, step.given)
            wanted, deadline = state(side), time.monotonic() + SETTLED_S
            while (found := state(real)) != wanted and time.monotonic() < deadline:
                time.sleep(POLL_S * 5)
            assert found == wanted, step
