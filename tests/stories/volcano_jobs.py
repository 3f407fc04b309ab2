"""A world with Volcano's kinds and simulated nodes, for stories about its jobs."""

from __future__ import annotations

from typing import Any

from muster.app.node_pools import pools_of
from muster.app.simulation import simulated_world
from muster.controllers.nodes.pools import Pool
from muster.dialects.volcano.definitions import definitions
from muster.sim.world import World
from muster.store.kinds import Object, Propagation
from muster.store.objects import Part
from muster.store.records import Key
from muster.store.rules import Deletion

JOBS, GROUPS, COMMANDS = "jobs.batch.volcano.sh", "podgroups.scheduling.volcano.sh", "commands.bus.volcano.sh"
CRON_JOBS, FLOWS, TEMPLATES = "cronjobs.batch.volcano.sh", "jobflows.flow.volcano.sh", "jobtemplates.flow.volcano.sh"
BATCH = "batch.volcano.sh/v1alpha1"
RUN, EXIT_CODE, START = (f"sim.muster.dev/{name}" for name in ("run-time", "exit-code", "start-time"))


def a_task(name: str, replicas: int = 1, *, run: str = "10s", code: int = 0, **more: Any) -> Object:
    """A task whose pods run for so long and end so."""
    notes = {RUN: run, **({EXIT_CODE: str(code)} if code else {}), **more.pop("notes", {})}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}], **more.pop("pod", {})}
    return {"name": name, "replicas": replicas, "template": {"metadata": {"annotations": notes}, "spec": pod}, **more}


def a_job(*tasks: Object, name: str = "train", metadata: Any = None, **spec: Any) -> Object:
    """A job of these tasks."""
    given = {"tasks": list(tasks), **spec}
    return {
        "apiVersion": BATCH,
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": given,
    }


def policy(event: str | int, action: str, **more: Any) -> Object:
    """A policy for an event, or for an exit code."""
    return {"exitCode" if isinstance(event, int) else "event": event, "action": action, **more}


def a_world(pools: tuple[Pool, ...] = ()) -> World:
    """Some nodes, two plain ones unless told otherwise, and Volcano's kinds."""
    world = simulated_world(pools or pools_of({"pools": [{"name": "cpu", "count": 2}]}), has_definitions=True)
    world.run(1)
    for one in definitions():
        world.create(one)
    world.run(1)
    world.create(a_queue("default"))
    return world


def a_queue(name: str) -> Object:
    """A queue that takes all there is."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }


class Story:
    """A job that a story is about, in a world that others have theirs in too."""

    def __init__(self, world: World, name: str = "train") -> None:
        self.world = world
        self.name = name

    def close(self) -> None:
        """Let nothing be left of it."""
        for resource in (FLOWS, CRON_JOBS, JOBS):
            for one in self.world.all(resource):
                deletion = Deletion(propagation=Propagation.BACKGROUND)
                self.world.delete(Key(resource, "default", one["metadata"]["name"]), deletion)
        self.run(60)
        assert self.pods() == {} and self.world.all(GROUPS) == []

    def submit(self, *given: Object) -> None:
        """Make objects, and let everybody see them."""
        for one in given:
            self.world.create(one)
        self.run()

    def run(self, for_s: float = 0.0) -> None:
        """Let time pass."""
        self.world.run(for_s)

    def set_group(self, phase: str, name: str = "") -> None:
        """Be the scheduler: say how far a group is."""
        name = name or self.world.all(GROUPS)[0]["metadata"]["name"]
        self.world.change(Key(GROUPS, "default", name), lambda one: {**one, "status": {"phase": phase}})

    def until(self, phase: str, within_s: float = 600.0, *, times: int = 1) -> None:
        """Let time pass until the job has been in a phase so often."""
        until_s = self.world.clock.monotonic_s() + within_s
        self.run()
        while self.phases.count(phase) < times:
            due_s = self.world.clock.next_due_s()
            assert due_s is not None and due_s <= until_s, f"it is {self.phase}, not {phase}: {self.status}"
            self.run(due_s - self.world.clock.monotonic_s())

    # What is there ---------------------------------------------------------------------------------------------------

    @property
    def job(self) -> Object:
        return self.world.get(JOBS, self.name, "default")

    @property
    def status(self) -> Object:
        return self.job.get("status") or {}

    @property
    def phase(self) -> str:
        return (self.status.get("state") or {}).get("phase", "")

    @property
    def phases(self) -> list[str]:
        return [one["status"] for one in self.status.get("conditions") or ()]

    def pods(self) -> dict[str, str]:
        return {one["metadata"]["name"]: one["status"].get("phase", "") for one in self.world.all("pods")}

    def told(self, reason: str) -> list[str]:
        """What events about the job say for a reason."""
        uid = self.job["metadata"]["uid"]
        events = (one for one in self.world.all("events") if one["involvedObject"].get("uid") == uid)
        return [one["message"] for one in events if one["reason"] == reason]

    def pod(self, name: str) -> Object:
        return self.world.get("pods", name, "default")

    def command(self, action: str, name: str = "do") -> Object:
        """A command to the job."""
        target = {"apiVersion": BATCH, "kind": "Job", "name": self.name, "uid": self.job["metadata"]["uid"]}
        return {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": name, "namespace": "default"},
            "action": action,
            "target": {**target, "controller": True},
        }

    def change(self, **spec: Any) -> None:
        """Change the job's spec."""
        self.world.change(Key(JOBS, "default", self.name), lambda one: {**one, "spec": {**one["spec"], **spec}})
        self.run()

    def set_status(self, pod: str, **status: Any) -> None:
        """Be the node of a pod."""
        self.world.change(
            Key("pods", "default", pod), lambda one: {**one, "status": {**one["status"], **status}}, Part.STATUS
        )
