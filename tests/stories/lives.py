"""A cluster in simulated time for stories of what becomes of workloads. Used by the tests beside it.

Everything that `muster up` runs is there: the scheduler, the control of jobs and of workloads, Kubernetes' controllers
and simulated nodes. Every state of a workload that anybody could have seen is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muster.app.config import Configuration, parse_configuration
from muster.app.node_pools import pools_of
from muster.app.simulation import Among, simulated_world
from muster.controllers.checks.http import Outside
from muster.sim.world import World
from muster.store.kinds import Object
from muster.store.objects import Part, decode
from muster.store.records import Key, Scope

KUEUE = "kueue.x-k8s.io/v1beta2"
WORKLOADS, QUEUES, SUBMIT_QUEUES, CHECKS = (
    f"{name}.kueue.x-k8s.io" for name in ("workloads", "clusterqueues", "localqueues", "admissionchecks")
)
JOBS = "jobs.batch"
LOOK_S = 200.0  # the store forgets what was long ago
NODES: Object = {"pools": [{"name": "worker", "count": 2, "runTime": "24h"}]}


def configured(**kueue: Any) -> Configuration:
    """A configuration that says this of Kueue."""
    return parse_configuration(json.dumps({"kueue": {"configuration": kueue}}), "muster.yaml")


def an_object(kind: str, name: str, spec: Any = None, **metadata: Any) -> Object:
    made: Object = {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name, **metadata}}
    return made if spec is None else {**made, "spec": spec}


def a_job(name: str, count: int = 1, *, spec: Any = None, template: Any = None, **labels: str) -> Object:
    """A job of pods of one CPU each, in the queue `main`."""
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/train", "resources": {"requests": {"cpu": "1"}}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": "main", **{f"kueue.x-k8s.io/{k}": v for k, v in labels.items()}},
        },
        "spec": {
            "parallelism": count,
            "completions": count,
            "template": {"spec": pod, **(template or {})},
            **(spec or {}),
        },
    }


class Lives:
    """The cluster of one story, with a queue of four CPUs."""

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        nodes: Object = NODES,
        outside: Outside | None = None,
        **queue: Any,
    ) -> None:
        self.world: World = simulated_world(pools_of(nodes), configuration=configuration, among=Among(outside=outside))
        self.wrong: list[str] = []  # what any state has said
        self.states = 0  # that were looked at
        self._watch = self.world.store.watch(Scope(WORKLOADS), self.world.store.revision, lambda: None)
        self.world.run(1)
        self.create(an_object("ResourceFlavor", "any", {}))
        resources = [{"name": "cpu", "nominalQuota": "4"}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": resources}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group], **queue}
        self.create(an_object("ClusterQueue", "main", spec))
        self.create(an_object("LocalQueue", "main", {"clusterQueue": "main"}, namespace="default"))

    def create(self, given: Object) -> Object:
        return self.world.create(given)

    def run(self, for_s: float = 0.0) -> None:
        """Let time pass, and look at all that was written."""
        for part_s in (*[LOOK_S] * int(for_s // LOOK_S), for_s % LOOK_S):
            self.world.run(part_s)
            self.look()

    def until(self, holds: Any, within_s: float = 3_600.0) -> None:
        self.world.run_until(holds, within_s=within_s)
        self.look()

    def look(self) -> None:
        """Look at every state of every workload since the last look."""
        while events := self._watch.take().events:
            for event in events:
                self.states += 1
                self.wrong += contradictions(decode(event.record))
        assert not self.wrong, self.wrong

    # Objects ---------------------------------------------------------------------------------------------------------

    def workload(self, job: str = "train") -> Object:
        """The workload of a job."""
        (found,) = [one for one in self.world.all(WORKLOADS) if one["metadata"]["name"].startswith(f"job-{job}-")]
        return found

    def job(self, name: str = "train") -> Object:
        return self.world.get(JOBS, name, "default")

    def status(self, condition: str, job: str = "train") -> tuple[str, str]:
        """A condition of a job's workload: its status and reason; empty where it is not there."""
        conditions = (self.workload(job).get("status") or {}).get("conditions") or ()
        return next(((one["status"], one["reason"]) for one in conditions if one["type"] == condition), ("", ""))

    def has(self, condition: str, job: str = "train") -> bool:
        return self.status(condition, job)[0] == "True"

    def pods(self, job: str = "train") -> list[Object]:
        """The pods of a job that have not ended."""
        own = [one for one in self.world.all("pods") if one["metadata"]["name"].startswith(f"{job}-")]
        return [one for one in own if one["status"]["phase"] not in ("Succeeded", "Failed")]

    @property
    def reasons(self) -> set[str]:
        """The reasons of all events."""
        return {one["reason"] for one in self.world.all("events")}

    def change(self, resource: str, name: str, namespace: str = "", **spec: Any) -> None:
        key = Key(resource, namespace, name)
        self.world.change(key, lambda before: {**before, "spec": {**before["spec"], **spec}})

    def change_workload(self, job: str = "train", **spec: Any) -> None:
        self.change(WORKLOADS, self.workload(job)["metadata"]["name"], "default", **spec)

    def set_status(self, resource: str, name: str, namespace: str = "", **status: Any) -> None:
        key = Key(resource, namespace, name)
        self.world.change(
            key, lambda before: {**before, "status": {**(before.get("status") or {}), **status}}, Part.STATUS
        )

    def set_check(self, state: str, job: str = "train", **more: Any) -> None:
        """Say how the only check of a workload has come out, as whoever makes that check does."""
        workload = self.workload(job)
        (check,) = workload["status"]["admissionChecks"]
        said = {"name": check["name"], "state": state, "message": "said", **more}
        said["lastTransitionTime"] = check["lastTransitionTime"]
        self.set_status(WORKLOADS, workload["metadata"]["name"], "default", admissionChecks=[said])

    def counts(self) -> tuple[int, int, int]:
        """How many workloads the queue says wait, hold quota and run."""
        status = self.world.get(QUEUES, "main").get("status") or {}
        return tuple(status.get(f"{name}Workloads", 0) for name in ("pending", "reserving", "admitted"))  # type: ignore[return-value]


def contradictions(workload: Object) -> list[str]:
    """What no state of a workload may say."""
    status = workload.get("status") or {}
    true = {one["type"] for one in status.get("conditions") or () if one["status"] == "True"}
    name, found = workload["metadata"]["name"], []
    if {"Admitted", "Evicted"} <= true:
        found.append(f"{name} is admitted and evicted")
    if ("QuotaReserved" in true) != bool(status.get("admission")):
        found.append(f"{name} has quota without an admission, or the other way round")
    if "Admitted" in true and "QuotaReserved" not in true:
        found.append(f"{name} is admitted without quota")
    return found


@contextmanager
def lives(configuration: Configuration | None = None, **given: Any) -> Iterator[Lives]:
    """A cluster for a story, gone when it is told."""
    made = Lives(configuration, **given)
    try:
        yield made
    finally:
        made.world.close()
