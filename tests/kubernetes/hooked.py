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
from muster.app.hook_cluster import KubeCluster
from muster.app.hooks import HookOptions, WebhookServer, configurations
from muster.controllers.feed import run_together
from muster.store.clock import RealClock
from muster.store.kube import Kube
from muster.store.kube_config import read_kubeconfig
from tests.kubernetes.plane import POLL_S, Plane, free_ports
from tests.support import shared

Json = dict[str, Any]
HEARD_S = 300.0
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("clusterqueues", "localqueues", "resourceflavors", "workloads", "workloadpriorityclasses")
CONVERTED = ("clusterqueues", "localqueues")  # each new certificate changes these; of others that takes seconds


class HookThread:
    """The webhooks in a thread of their own."""

    def __init__(self, plane: Plane, configuration: Configuration, reached: Reached) -> None:
        self._ready: Future[int] = Future()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._plane = plane
        self._configuration = configuration
        self._options = HookOptions(reached=reached, on_ready=self._ready.set_result)
        self._server: WebhookServer | None = None
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
        clock = RealClock()
        kube = Kube(read_kubeconfig(self._plane.kubeconfig), clock)
        cluster = KubeCluster(kube, clock)
        self._server = WebhookServer(self._configuration, cluster, clock, self._options)
        serving = asyncio.create_task(run_together(self._server.run(), cluster.run()))
        ended = asyncio.create_task(self._ended.wait())
        await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        await kube.close()

    def start(self) -> None:
        self._thread.start()
        self._ready.result(HEARD_S)

    def renew(self) -> None:
        """Have a new certificate made, shown and trusted."""
        assert self._server is not None and self._server.certificates is not None, "they make their own certificates"
        keeping = self._server.certificates
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
        self.webhook_block = {"host": settings.host, "port": settings.port}  # as a configuration has it
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
            path = f"/apis/kueue.x-k8s.io/v1beta2/{kind}"
            self.until(lambda path=path: self.client.request("GET", path).status == 200)
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
        self.until(self.is_asked)

    def stop(self) -> None:
        """End the webhooks: nobody answers any more."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def is_asked(self) -> bool:
        """Whether the API server asks all of the webhooks, and believes them."""
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
