"""The agent of a node, put together: what cards there are, the kubelet, the API server, and the watch over use.

Called by `muster agent`. It reads its own node and the pods on it, and writes annotations and labels of the node,
annotations of those pods, and, where it is told to, evictions. Nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from muster.agent.cards import FoundCard, Inventory, NoInventory
from muster.agent.figures import figures_text
from muster.agent.plugin.containers import Places
from muster.agent.plugin.disk import Disk
from muster.agent.plugin.grants import Grant, Node
from muster.agent.plugin.service import PluginService, PluginSettings
from muster.agent.registering import HANDSHAKE, changed, node_annotations, node_labels
from muster.agent.settings import NodeSettings, read_node_settings
from muster.agent.watching import Line, Overuse, Use, compared, pod_of
from muster.app.card_extender import annotate, pods_on
from muster.dialects.hami.claims import PHASE, SUCCESS
from muster.dialects.hami.node_lock import BY_UID, Binder, released
from muster.model.device import Device
from muster.model.errors import InvalidObject
from muster.store.clock import Clock, RealClock
from muster.store.errors import Conflict, NotFound, StoreError
from muster.store.kinds import Object
from muster.store.kube import Kube, problem_of
from muster.store.kube_client import KubeClient
from muster.store.kube_config import Access
from muster.store.records import Key
from muster.vendors.nvidia import vendor as nvidia_vendor

log = logging.getLogger(__name__)
FOUND_S = 5.0  # how often cards are looked for: one that is sick has left within twice that
REPORTED_S = 30.0  # how often the node hears that the agent is alive
_WRITES = 20
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Which node, and how its cards are given out."""

    access: Access
    node: str
    settings: NodeSettings = field(default_factory=NodeSettings)
    mode: str = BY_UID
    places: Places = field(default_factory=Places)
    cdi: Path = Path("/var/run/cdi")
    plugins: Path = Path("/var/lib/kubelet/device-plugins")
    pod_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    evicts: bool = False  # pods that use more than they were given
    metrics: Path | None = None  # a file for Prometheus' node exporter; None: nobody reads figures


class NodeApi:
    """The node and its pods through the API of the cluster."""

    def __init__(self, kube: Kube, node: str) -> None:
        self._kube = kube
        self._client = KubeClient(kube)
        self._name = node

    async def object(self) -> Object:
        """The node as it is now."""
        found = await self._client.find(Key("nodes", "", self._name))
        if found is None:
            raise NotFound(Key("nodes", "", self._name))
        return found

    async def node(self, devices: tuple[Device, ...]) -> Node:
        """The node and its pods as they are now."""
        found = await self.object()
        pods = await pods_on(self._kube, self._name)
        return Node(name=self._name, annotations=_annotations(found), devices=devices, pods=pods)

    async def served(self, grant: Grant, *, is_whole: bool) -> None:
        """Say on the pod that it has its cards, and let go of the node's lock; the container starts in any case."""
        if not is_whole:
            return
        namespace, _, name = grant.pod.partition("/")
        asking = Binder(namespace=namespace, name=name, uid=grant.whose.uid, fence=0, since_s=0)
        try:
            await annotate(
                self._kube,
                Key("pods", namespace, name),
                {"uid": grant.whose.uid, "annotations": {PHASE: SUCCESS}},
            )
            for _ in range(_WRITES):
                found = await self.object()
                letting_go = released(_annotations(found), asking)
                if not letting_go:
                    return
                with suppress(Conflict):
                    await self.write(found, annotations=letting_go)
                    return
        except (StoreError, InvalidObject) as problem:
            log.warning("pod %s has its cards, which could not be written down: %s", grant.pod, problem)

    async def write(
        self, found: Object, *, annotations: Mapping[str, str | None], labels: Mapping[str, str | None] | None = None
    ) -> None:
        """Write on the node, if it has not changed since; raises `Conflict`."""
        metadata: dict[str, Any] = {"resourceVersion": found["metadata"]["resourceVersion"]}
        if annotations:
            metadata["annotations"] = dict(annotations)
        if labels:
            metadata["labels"] = dict(labels)
        await annotate(self._kube, Key("nodes", "", self._name), metadata)

    async def evict(self, line: Line) -> None:
        """Ask the cluster to move a pod away, if it is still the one that was meant."""
        namespace, _, name = line.pod.partition("/")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": line.uid}},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        answer = await self._kube.ask("POST", path, body=_encode(body))
        if not answer.is_good:
            raise problem_of(Key("pods", namespace, name), answer)


def _annotations(found: Object) -> dict[str, str]:
    return dict(found["metadata"].get("annotations") or {})


class Agent:
    """Keeps a node's cards known, and watches over their use."""

    def __init__(
        self, options: AgentOptions, inventory: Inventory, service: PluginService, api: NodeApi, *, clock: Clock
    ) -> None:
        self._options = options
        self._inventory = inventory
        self._service = service
        self._api = api
        self._clock = clock
        self._reported_s = float("-inf")
        self._overuse = Overuse()
        self._violations = 0

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                await self.look()
            except (StoreError, InvalidObject) as problem:
                log.warning("the node could not be told of its cards: %s", problem)
            await self._clock.sleep(FOUND_S)

    async def look(self) -> None:
        """Find the cards, tell the kubelet and the node, and compare use with grants."""
        cards = await asyncio.to_thread(self._found)
        devices = self._options.settings.given_out(cards)
        is_news = self._service.show(devices)
        now_s = self._clock.now_s()
        if is_news or now_s - self._reported_s >= REPORTED_S:
            await self._report(devices, now_s)
            self._reported_s = now_s
        await self._watch(cards, now_s)

    def _found(self) -> Sequence[FoundCard]:
        try:
            return self._inventory.found()
        except NoInventory as problem:
            log.warning("no cards: %s", problem)
            return ()

    async def _report(self, devices: Sequence[Device], now_s: float) -> None:
        for _ in range(_WRITES):
            found = await self._api.object()
            wanted = node_annotations(devices, mode=self._options.mode, now_s=now_s)
            annotations = changed(_annotations(found), wanted)
            labels = changed(found["metadata"].get("labels") or {}, node_labels(devices))
            try:
                await self._api.write(found, annotations=annotations, labels=labels)
            except Conflict:
                continue
            if annotations.keys() - {HANDSHAKE}:
                log.info("the node registers %d cards", len(devices))
            return

    async def _watch(self, cards: Sequence[FoundCard], now_s: float) -> None:
        uses = await asyncio.to_thread(_uses, self._inventory)
        lines = self.compare(uses, {use.process: pod_of(_cgroup(use.process)) for use in uses})
        await self.judge(lines, now_s)
        if self._options.metrics is not None:
            text = figures_text(self._options.node, cards, lines, self._violations)
            half = self._options.metrics.with_suffix(".half")
            half.write_text(text)
            half.replace(self._options.metrics)

    def compare(self, uses: Sequence[Use], pods: Mapping[int, str]) -> list[Line]:
        """What pods use beside what they were given; `pods` are uids by process."""
        return compared(uses, pods, self._service.grants.given.values())

    async def judge(self, lines: Sequence[Line], now_s: float) -> None:
        """Tell of those who use too much for too long, and have them leave where that is wanted."""
        for line in self._overuse.lasting(lines, now_s):
            self._violations += 1
            log.warning("pod %s uses %d MiB of %s and was given %d", line.pod, line.used_mib, line.card, line.given_mib)
            if self._options.evicts and line.pod:
                await self._api.evict(line)


def _uses(inventory: Inventory) -> Sequence[Use]:
    uses = getattr(inventory, "uses", None)  # not every vendor's tool tells of processes
    if uses is None:
        return ()
    try:
        return list(uses())
    except NoInventory:
        return ()


def _cgroup(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cgroup").read_text(errors="replace")
    except OSError:
        return ""  # it has ended


# Starting ------------------------------------------------------------------------------------------------------------


async def settings_for(access: Access, where: str, node: str) -> NodeSettings:
    """A node's settings by HAMi's ConfigMap, given as namespace/name; raises `InvalidObject` and `StoreError`."""
    if not where:
        return NodeSettings()
    namespace, _, name = where.partition("/")
    async with Kube(access, RealClock()) as kube:
        found = await KubeClient(kube).find(Key("configmaps", namespace, name))
    if found is None:
        raise InvalidObject("--hami-config", f"there is no ConfigMap {where}", "give namespace/name")
    return read_node_settings(found, node)


async def run_agent(options: AgentOptions, inventory: Inventory, on_ready: Callable[[], None]) -> None:
    """Serve a node until somebody asks the process to stop."""
    from muster.agent.plugin.sockets import KubeletPods, PluginSocket

    clock = RealClock()
    stopped = asyncio.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sign, stopped.set)
    async with Kube(options.access, clock) as kube:
        api = NodeApi(kube, options.node)
        settings = PluginSettings(
            mode=options.mode, places=options.places, is_scaled=options.settings.memory_scaling > 1
        )
        disk = Disk(Path(options.places.state), options.cdi if options.mode == BY_UID else None)
        pods = KubeletPods(options.settings.resource, options.pod_socket)
        vendor = nvidia_vendor(options.settings.vendor)
        service = PluginService(vendor, disk, pods, api, settings=settings)
        agent = Agent(options, inventory, service, api, clock=clock)
        plugin = PluginSocket(service, options.settings.resource, clock, options.plugins)
        await agent.look()
        on_ready()
        async with asyncio.TaskGroup() as group:
            works = [group.create_task(agent.run()), group.create_task(plugin.run())]
            await stopped.wait()
            for work in works:
                work.cancel()
        await pods.close()
