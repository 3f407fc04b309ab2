"""A real cluster's side of the stories of jobs. Used by test_job_controller and by `record`."""

from __future__ import annotations

import time
from typing import Any

from tests.controllers.builtin.job_cluster import a_job, a_pod
from tests.controllers.builtin.job_stories import STORIES, Json, state, tell
from tests.controllers.builtin.muster_side import MusterSide
from tests.kubernetes.plane import POLL_S, Plane

SETTLED_S = 40.0
STILL_S = 10.0  # a controller that has done nothing for so long has nothing to do
MERGE = "application/merge-patch+json"


class RealSide:
    """A namespace of a real cluster."""

    def __init__(self, plane: Plane, namespace: str) -> None:
        self._client = plane.client
        self._namespace = namespace
        self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        self._core = f"/api/v1/namespaces/{namespace}"
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._wait_for_account()

    def _wait_for_account(self) -> None:
        deadline = time.monotonic() + SETTLED_S
        path = f"{self._core}/serviceaccounts/default"
        while self._client.request("GET", path).status != 200 and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _ask(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Json:
        answer = self._client.request(method, path, body, content_type=content_type)
        assert answer.status < 300, f"{method} {path}: {answer.body!r}"
        return answer.json

    def job(self) -> Json | None:
        answer = self._client.request("GET", f"{self._jobs}/j")
        return answer.json if answer.status == 200 else None

    def pods(self) -> list[Json]:
        items: list[Json] = self._ask("GET", f"{self._core}/pods")["items"]
        return items

    def do(self, verb: str, names: list[str], given: Any) -> None:
        match verb:
            case "job":
                wanted = a_job(**given)
                wanted["metadata"]["namespace"] = self._namespace
                wanted["spec"]["template"]["spec"]["schedulerName"] = "nobody"
                self._ask("POST", self._jobs, wanted)
            case "pod":
                wanted = a_pod("orphan", given)
                wanted["metadata"]["namespace"] = self._namespace
                wanted["spec"]["schedulerName"] = "nobody"
                self._ask("POST", f"{self._core}/pods", wanted)
            case "change":
                self._ask("PATCH", f"{self._jobs}/j", {"spec": given}, MERGE)
            case "delete job":
                self._ask("DELETE", f"{self._jobs}/j", {"propagationPolicy": given})
            case "pause":
                time.sleep(given)  # here it passes in real time only
            case _:
                for name in names:
                    self._do_to_pod(verb, f"{self._core}/pods/{name}", given)

    def _do_to_pod(self, verb: str, path: str, given: Any) -> None:
        match verb:
            case "status":
                self._ask("PATCH", f"{path}/status", {"status": given}, MERGE)
            case "bind":
                self._ask(
                    "POST",
                    f"{path}/binding",
                    {"metadata": {"name": path.rpartition("/")[2]}, "target": {"kind": "Node", "name": "n"}},
                )
            case "delete":
                self._ask("DELETE", path, {} if given is None else {"gracePeriodSeconds": given})
            case "relabel":
                label = {"batch.kubernetes.io/controller-uid": None, "gone": "yes"}
                self._ask("PATCH", path, {"metadata": {"labels": label}}, MERGE)


def settled(side: RealSide, wanted: Json | None) -> Json:
    """The state that a real cluster comes to rest in; as soon as it is the one that is wanted that is it."""
    deadline = time.monotonic() + SETTLED_S
    found, since = state(side), time.monotonic()
    while time.monotonic() < deadline and found != wanted and time.monotonic() - since < STILL_S:
        time.sleep(POLL_S * 5)
        now = state(side)
        if now != found:
            found, since = now, time.monotonic()
    return found


def told(plane: Plane, name: str) -> list[Json]:
    """The states of a real cluster after each step of a story; Muster's tell when to look no longer."""
    real = RealSide(plane, f"told-{list(STORIES).index(name)}")
    found = []
    with MusterSide.at_work() as side:
        for step in STORIES[name]:
            tell(side, step)
            tell(real, step)
            found.append(settled(real, state(side)))
    return found
