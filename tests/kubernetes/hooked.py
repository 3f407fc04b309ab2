"""A real control plane that asks Muster's webhooks, which run in a thread of the test. Used by test_hooks.

Nothing tells when an API server has heard of a configuration: it is asked, as a dry run, until its answers show it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

import yaml

from muster.apiserver.hooks.configurations import Reached, conversion
from muster.app.config import Configuration, WebhookSettings
from muster.app.hooks import HookOptions, WebhookServer, configurations
from muster.store.clock import RealClock
from muster.store.errors import AlreadyExists, Conflict, Unavailable
from muster.store.records import Key
from tests.kubernetes.client import Answer, Client
from tests.kubernetes.plane import POLL_S, Plane, free_ports
from tests.support import shared

Json = dict[str, Any]
HEARD_S = 120.0
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("clusterqueues", "localqueues", "resourceflavors", "workloads", "workloadpriorityclasses")
CONVERTED = ("clusterqueues", "localqueues")  # each new certificate changes these; of others that takes seconds
_GROUPS = {
    "": "/api/v1",
    "batch": "/apis/batch/v1",
    "kueue.x-k8s.io": "/apis/kueue.x-k8s.io/v1beta2",
    "authorization.k8s.io": "/apis/authorization.k8s.io/v1",
    "admissionregistration.k8s.io": ADMISSION,
    "apiextensions.k8s.io": "/apis/apiextensions.k8s.io/v1",
}


class PlaneCluster:
    """What webhooks need of a cluster, by plain requests."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, key: Key) -> Json | None:
        answer = await self._ask("GET", f"{_path(key.resource, key.namespace)}/{key.name}")
        return None if answer.status == 404 else _good(key, answer)

    async def create(self, resource: str, given: Json) -> Json:
        metadata = given["metadata"]
        key = Key(resource, metadata.get("namespace") or "", metadata.get("name") or "")
        return _good(key, await self._ask("POST", _path(resource, key.namespace), given))

    async def update(self, key: Key, given: Json) -> Json:
        return _good(key, await self._ask("PUT", f"{_path(key.resource, key.namespace)}/{key.name}", given))

    async def _ask(self, method: str, path: str, body: Json | None = None) -> Answer:
        try:
            return await asyncio.to_thread(self._client.request, method, path, body)
        except OSError as problem:
            raise Unavailable(str(problem)) from None


def _path(resource: str, namespace: str) -> str:
    plural, _, group = resource.partition(".")
    return f"{_GROUPS[group]}{f'/namespaces/{namespace}' if namespace else ''}/{plural}"


def _good(key: Key, answer: Answer) -> Json:
    if answer.status == 409:
        is_there = answer.json["reason"] == "AlreadyExists"
        raise AlreadyExists(key) if is_there else Conflict(key, answer.json["message"])
    if answer.status >= 300:
        raise Unavailable(answer.body.decode()[:500])
    return answer.json


class HookThread:
    """The webhooks in a thread of their own."""

    def __init__(self, plane: Plane, configuration: Configuration, reached: Reached) -> None:
        self._ready: Future[int] = Future()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        options = HookOptions(reached=reached, on_ready=self._ready.set_result)
        self._server = WebhookServer(configuration, PlaneCluster(plane.client), RealClock(), options)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        except BaseException as problem:
            if not self._ready.done():
                self._ready.set_exception(problem)
            raise
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        serving = asyncio.create_task(self._server.run())
        ended = asyncio.create_task(self._ended.wait())
        await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

    def start(self) -> None:
        self._thread.start()
        self._ready.result(HEARD_S)

    def renew(self) -> None:
        """Have a new certificate made, shown and trusted."""
        keeping = self._server.certificates
        assert keeping is not None, "the webhooks make their own certificates"
        asyncio.run_coroutine_threadsafe(keeping.settle(is_renewed=True), self._loop).result(HEARD_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(HEARD_S)
        assert not self._thread.is_alive(), "the webhooks do not end"


class Hooked:
    """A plane, and the webhooks that it asks."""

    def __init__(self, plane: Plane, configuration: Configuration) -> None:
        (port,) = free_ports(1)
        settings = WebhookSettings(host="127.0.0.1", port=port)
        self.plane = plane
        self.client = plane.client
        self.configuration = replace(configuration, webhooks=settings)
        self.reached = Reached(url=f"https://127.0.0.1:{port}")
        self.server: HookThread | None = None

    def install(self) -> None:
        """Have the API server know the kinds, and whom to ask about them."""
        for namespace in ("muster-system", "team"):
            self.client.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for kind in KINDS:
            definition = yaml.safe_load(shared(f"crds/{kind}.kueue.x-k8s.io.yaml").read_text())
            if kind in CONVERTED:
                definition["spec"]["conversion"] = conversion(self.reached)
            self.made(DEFINITIONS, definition)
        for kind in KINDS:
            self.until(lambda kind=kind: self.client.request("GET", _path(f"{kind}.kueue.x-k8s.io", "")).status == 200)
        for one in configurations(self.configuration, self.reached):
            self.made(f"{ADMISSION}/{one['kind'].lower()}s", one)

    def made(self, path: str, given: Json) -> Json:
        """An object that could be created."""
        answer = self.client.request("POST", path, given)
        assert answer.status == 201, answer.body
        return answer.json

    def start(self) -> None:
        """Start the webhooks, and wait until they are asked and believed."""
        self.server = HookThread(self.plane, self.configuration, self.reached)
        self.server.start()
        self.until(self._is_asked)

    def stop(self) -> None:
        """End the webhooks: nobody answers any more."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def _is_asked(self) -> bool:
        path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues?dryRun=All"
        changed = self.client.request("POST", path, a_cluster_queue("probe"))
        answer = self.client.request("POST", path, a_cluster_queue("probe", cohortName="Not valid!"))
        held = self.client.request("POST", f"{JOBS}?dryRun=All", a_job("probe"))
        return (
            changed.status == 201
            and bool(changed.json["metadata"].get("finalizers"))
            and answer.status == 422
            and held.status == 201
            and held.json["spec"].get("suspend") is True
        )

    @staticmethod
    def until(is_so: Callable[[], bool]) -> None:
        """Ask again and again until it is so."""
        deadline = time.monotonic() + HEARD_S
        while not is_so():
            assert time.monotonic() < deadline, "it never was so"
            time.sleep(POLL_S)


@contextmanager
def hooked(plane: Plane, configuration: Configuration | None = None) -> Iterator[Hooked]:
    """A plane of its own that asks webhooks about everything."""
    world = Hooked(plane, configuration or Configuration())
    world.install()
    try:
        world.start()
        yield world
    finally:
        world.stop()


# Objects -------------------------------------------------------------------------------------------------------------

JOBS, PODS = "/apis/batch/v1/namespaces/team/jobs", "/api/v1/namespaces/team/pods"
QUEUE = "kueue.x-k8s.io/queue-name"


def a_job(name: str, queue: str = "main", **spec: Any) -> Json:
    labels = {QUEUE: queue} if queue else {}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/a"}]}
    metadata = {"name": name, "namespace": "team", "labels": labels}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}, **spec}}
    return deepcopy(job)


def a_pod(name: str, queue: str = "main") -> Json:
    labels = {QUEUE: queue} if queue else {}
    spec = {"containers": [{"name": "main", "image": "example.com/a"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def a_cluster_queue(name: str, version: str = "v1beta2", **spec: Any) -> Json:
    flavor = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": groups, **spec},
    }
