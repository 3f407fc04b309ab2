"""Stages for stories in real time: a `muster up` process of its own, spoken to by kubectl or over HTTP.

Used by the tests beside it. On a stage with real processes the pods of jobs are shell loops that write down when they
begin and end, and run until their job's work is said to be done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from muster.app.demo.story import ANY, IS_DONE, Story, Target, Wanted, matching, pods_of
from muster.store.kinds import Object
from tests.e2e.process import Muster, started

WAIT_S = 300  # for a machine with much else to do; each wait ends as soon as it may
MERGE = "application/merge-patch+json"
PLACES = {  # where the API has the objects of a resource, in two parts between which the namespace comes
    "jobs.batch": ("/apis/batch/v1", "/jobs"),
    "namespaces": ("/api/v1", "/namespaces"),
    "nodes": ("/api/v1", "/nodes"),
    "pods": ("/api/v1", "/pods"),
    "priorityclasses.scheduling.k8s.io": ("/apis/scheduling.k8s.io/v1", "/priorityclasses"),
    **{
        f"{name}.kueue.x-k8s.io": ("/apis/kueue.x-k8s.io/v1beta2", f"/{name}")
        for name in ("clusterqueues", "localqueues", "resourceflavors", "workloadpriorityclasses", "workloads")
    },
}
_PLURALS = {"PriorityClass": "priorityclasses", "WorkloadPriorityClass": "workloadpriorityclasses"}

Finish = Callable[[Object, list[Object]], None]


@contextmanager
def server_for(story: Story, folder: Path, *, is_local: bool = False) -> Iterator[Muster]:
    """A server with the nodes of a story; or with the local node alone."""
    with started(folder / "state", *arguments_for(story, folder, is_local=is_local)) as muster:
        yield muster


def arguments_for(story: Story, folder: Path, *, is_local: bool) -> tuple[str, ...]:
    if is_local:
        return ()
    (folder / "nodes.yaml").write_text(yaml.safe_dump(dict(story.pools)))
    return ("--nodes", str(folder / "nodes.yaml"), "--no-local-node")


class KubectlStage:
    """Does what a story says with kubectl."""

    def __init__(self, muster: Muster, kubectl: Callable[..., str], processes: Processes | None = None) -> None:
        self._muster = muster
        self._kubectl = kubectl
        self._processes = processes

    def create(self, objects: tuple[Object, ...], /) -> None:
        given = objects if self._processes is None else tuple(map(self._processes.on_this_machine, objects))
        self._kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": given}))

    def wait(self, target: Target, wanted: Wanted, /) -> None:
        if wanted.condition:
            wish = f"condition={wanted.condition}={wanted.status}"
        else:
            wish = f"jsonpath={{.{'.'.join(wanted.path)}}}={wanted.value}"
        for name in self._names(target):
            self._kubectl("wait", name, *_in(target), f"--for={wish}", f"--timeout={WAIT_S}s")

    def patch(self, target: Target, change: Object, /) -> None:
        for name in self._names(target):
            self._kubectl("patch", name, *_in(target), "--type=merge", "-p", json.dumps(change))

    def finish(self, job: Target, /) -> None:
        if self._processes is not None:
            self._processes.finish(matching(job, self.all(job.resource)))
            return
        for one in self._names(job):
            selector = f"batch.kubernetes.io/job-name={one.rpartition('/')[2]}"
            told = [f"{name}={value}" for name, value in IS_DONE["metadata"]["annotations"].items()]
            self._kubectl("annotate", "pods", *_in(job), "-l", selector, *told)

    def all(self, resource: str, /) -> list[Object]:
        found: list[Object] = json.loads(self._kubectl("get", resource, "--all-namespaces", "-o", "json"))["items"]
        return found

    def _names(self, target: Target) -> list[str]:
        if not target.name.endswith(ANY):
            return [f"{target.resource}/{target.name}"]
        names = [one["metadata"]["name"] for one in matching(target, self.all(target.resource))]
        assert names, f"there is no {target}"
        return [f"{target.resource}/{name}" for name in names]


def _in(target: Target) -> tuple[str, ...]:
    return ("-n", target.namespace) if target.namespace else ()


class HttpStage:
    """Does the same over HTTP, without kubectl."""

    def __init__(self, muster: Muster, processes: Processes | None = None) -> None:
        self.muster = muster
        self._processes = processes

    def create(self, objects: tuple[Object, ...], /) -> None:
        for one in objects:
            self.create_one(one if self._processes is None else self._processes.on_this_machine(one))

    def create_one(self, given: Object) -> None:
        """Make an object that is not there."""
        namespace = given["metadata"].get("namespace") or ""
        self._ask("POST", place_of(resource_of(given), namespace), given)

    def wait(self, target: Target, wanted: Wanted, /) -> None:
        path = place_of(target.resource, target.namespace)
        client = replace(self.muster.client, timeout_s=2.0 * WAIT_S)  # the server ends it before
        for event in client.watch(f"{path}?watch=true&timeoutSeconds={WAIT_S}"):
            if event["type"] != "DELETED" and matching(target, [event["object"]]) and wanted.holds(event["object"]):
                return
        raise ConnectionError(f"the watch ended, after at most {WAIT_S} s, before {target} was as wanted: {wanted}")

    def patch(self, target: Target, change: Object, /) -> None:
        for one in matching(target, self.all(target.resource)):
            self._patch(target.resource, one, change)

    def finish(self, job: Target, /) -> None:
        jobs = matching(job, self.all(job.resource))
        if self._processes is not None:
            self._processes.finish(jobs)
            return
        pods = self.all("pods")
        for pod in (pod for one in jobs for pod in pods_of(one, pods)):
            self._patch("pods", pod, IS_DONE)

    def all(self, resource: str, /) -> list[Object]:
        found: list[Object] = self._ask("GET", place_of(resource))["items"]
        return found

    def _patch(self, resource: str, obj: Object, change: Object) -> None:
        metadata = obj["metadata"]
        place = place_of(resource, metadata.get("namespace") or "")
        self._ask("PATCH", f"{place}/{metadata['name']}", change, content_type=MERGE)

    def _ask(self, method: str, path: str, body: object = None, **options: str) -> dict[str, Any]:
        answer = self.muster.client.request(method, path, body, **options)
        if answer.status >= 400:
            raise Refused(answer.status, f"{method} {path}: {answer.body[:1000]!r}")
        return answer.json


class Refused(Exception):
    """The server did not do what it was asked for."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


def resource_of(given: Object) -> str:
    """The resource of an object."""
    group = given["apiVersion"].rpartition("/")[0]
    plural = _PLURALS.get(given["kind"], f"{given['kind'].lower()}s")
    return f"{plural}.{group}" if group else plural


def place_of(resource: str, namespace: str = "") -> str:
    """Where the objects of a resource are, in one namespace or in all."""
    base, plural = PLACES[resource]
    return f"{base}/namespaces/{namespace}{plural}" if namespace else f"{base}{plural}"


@dataclass(frozen=True, slots=True)
class Processes:
    """Jobs as real processes, which leave traces in a folder."""

    folder: Path

    def on_this_machine(self, given: Object) -> Object:
        """An object as it is created; the pods of a job wait for its end, and write down what they do."""
        if given["kind"] != "Job":
            return given
        copy: Object = json.loads(json.dumps(given))
        own = copy["metadata"].get("name") or copy["metadata"]["generateName"]
        waits = f"until test -e {self._sign(own)}; do sleep 0.05; done"
        script = f"echo $POD >> {self.begun}; {waits}; echo $POD >> {self.ended}"
        for container in copy["spec"]["template"]["spec"]["containers"]:
            container["command"] = ["sh", "-c", script]
            container["env"] = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]
        return copy

    def finish(self, jobs: list[Object]) -> None:
        """Let the processes of jobs come to their end."""
        for job in jobs:
            self._sign(job["metadata"].get("generateName") or job["metadata"]["name"]).touch()

    @property
    def begun(self) -> Path:
        return self.folder / "begun"

    @property
    def ended(self) -> Path:
        return self.folder / "ended"

    def _sign(self, job: str) -> Path:
        return self.folder / f"{job}.is-done"
