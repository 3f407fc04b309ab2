"""The nodes of an embedded server: those of the file, simulated, and the machine itself. Put together by `run`.

Whatever kind a node is, its pods are a controller's objects, and it shows signs of life; what follows from those is the
node lifecycle's part.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.agent.local.cgroups import found_cgroups
from muster.agent.local.checkpoints import Checkpoints
from muster.agent.local.commands import LocalStreams
from muster.agent.local.environment import CannotStart
from muster.agent.local.node import SOURCES, LocalNode, local_node
from muster.agent.local.nvml import found_cards
from muster.agent.local.pod import Host, base_variables
from muster.agent.local.usage import LocalUsage
from muster.agent.local.volumes import tidy_volumes
from muster.apiserver.rights.service_accounts import ISSUER, Bound, ServiceAccounts
from muster.app.node_pools import habits_by_node, nodes_of
from muster.app.plugins import vendors
from muster.app.state_folder import volumes_in
from muster.controllers.feed import Feed
from muster.controllers.loop import Controller, Loop
from muster.controllers.node_lifecycle import NodeLifecycle, TaintEviction
from muster.controllers.nodes.cards import LostCards
from muster.controllers.nodes.heartbeat import LEASES, NODES, Heartbeats
from muster.controllers.nodes.pools import POOL, Pool, is_starting, name_of
from muster.controllers.nodes.simulated import BY_NODE, PODS, SimulatedNodes, is_failed, node_terms
from muster.controllers.nodes.simulated_streams import SimulatedStreams
from muster.controllers.nodes.simulated_usage import SimulatedUsage
from muster.controllers.view import View
from muster.controllers.volume_matching import VOLUMES
from muster.model.device import Device
from muster.model.pod_streams import (
    CommandOptions,
    Connection,
    LogOptions,
    NoNodes,
    Place,
    PodStreams,
    Running,
)
from muster.model.usage import Measure, Usages
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import Clock
from muster.store.errors import NotFound, StoreError
from muster.store.kinds import Object
from muster.store.objects import Objects, Written, decode
from muster.store.port import Change
from muster.store.records import Key, Scope
from muster.vendors.nvidia import REGISTER

log = logging.getLogger(__name__)
LOCAL = "local"
_OWNERS = {
    "Job": "jobs.batch",
    "StatefulSet": "statefulsets.apps",
    "ReplicaSet": "replicasets.apps",
    "DaemonSet": "daemonsets.apps",
}
_TOKEN_S, _TOKEN_LEAST_S, _TOKEN_SHARE = 3_600, 600, 0.8
_TOKENS_KEPT = 4_096
_PAUSE_S = 1.0  # after the store could not write


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """Which nodes there are."""

    has_local: bool = True
    pools: tuple[Pool, ...] = ()


class Nodes:
    """All nodes, their controllers, and the way into their pods."""

    def __init__(self, options: NodeOptions, store: AsyncStore, objects: Objects, clock: Clock) -> None:
        self._store = store
        self._objects = objects
        self._clock = clock
        self._options = options
        self._view = View({(PODS, BY_NODE): node_terms}, store.readings)
        self._local: LocalNode | None = None
        self._cards: tuple[Device, ...] = ()  # of this machine
        self._volumes = Path()  # where the folders of claims are
        self.streams = Streams()
        self.usages = UsagesOfNodes()

    def prepare(self, folder: Path, url: str, accounts: ServiceAccounts) -> None:
        """Make what runs pods; called before `run`, when it is known where the server listens."""
        simulated = SimulatedStreams(self._find, vendors().values())
        names = [name_of(node) for node in nodes_of(self._options.pools)]
        self.streams.by_node.update(dict.fromkeys(names, simulated))
        usage = SimulatedUsage(lambda node: self._view.with_term(PODS, BY_NODE, node), self._clock)
        self.usages.by_node.update(dict.fromkeys(names, usage))
        if self._options.has_local:
            self._cards = found_cards()
            capacity = local_node(LOCAL, self._cards)["status"]["capacity"]
            token_for = PodTokens(self._store, accounts, self._clock).of
            place = folder / "local-node"
            host = Host(
                clock=self._clock,
                capacity=capacity,
                token_for=token_for,
                variables=base_variables(url),
                checkpoints=Checkpoints(place / "checkpoints", self._clock, self._is_there),
                has_cards=bool(self._cards),
                cgroups=found_cgroups(),
            )
            self._volumes = volumes_in(folder)
            self._local = LocalNode(LOCAL, place, host)
            self.streams.by_node[LOCAL] = LocalStreams(self._local, self._clock)
            self.usages.by_node[LOCAL] = LocalUsage(self._local.pods_folder, self._clock)

    def _find(self, resource: str, namespace: str, name: str) -> Object | None:
        try:
            # Not from the view, which may not have heard of what somebody who asks has seen already.
            return decode(self._store.store.get(Key(resource, namespace, name)))
        except NotFound:
            return None

    def _is_there(self, owner: Object) -> bool:
        """Whether an owner of pods still exists; kinds that are not known here are believed to."""
        resource = _OWNERS.get(owner["kind"])
        if resource is None:
            return True
        found = self._find(resource, owner["namespace"], owner["name"])
        return found is not None and found["metadata"]["uid"] == owner["uid"]

    async def register(self) -> None:
        """Have those nodes be there that always are, keep those that have come since, and remove all others' pools.

        Tried until the store takes it: a cluster without nodes is of no use to anybody.
        """
        while True:
            try:
                return await self._register_once()
            except StoreError as problem:
                log.warning("the nodes wait for the store: %s", problem)
                await self._clock.sleep(_PAUSE_S)

    async def _register_once(self) -> None:
        possible = self._possible()
        there = {record.key.name: record for record in self._store.store.page(Scope(NODES)).records}
        wanted = {name for name in possible if name in there or name == LOCAL}
        for pool in self._options.pools:
            known = pool.names & wanted
            missing = [name_of(node) for node in pool.missing(known)]
            wanted.update(missing[: max(0, pool.minimum - len(known))])
        for name in possible:
            if name in wanted:
                await self._store.write(_registration(self._objects, name, possible[name], self._store))
        for name, record in there.items():
            if name not in wanted and POOL in (decode(record)["metadata"].get("annotations") or {}):
                await self._store.write(self._objects.delete(record.key))

    def _possible(self) -> dict[str, Object]:
        """Every node that there may be, by name."""
        nodes = {name_of(node): node for node in nodes_of(self._options.pools)}
        return {**nodes, LOCAL: local_node(LOCAL, self._cards)} if self._local is not None else nodes

    async def run(self) -> None:
        """Run all nodes until cancelled; processes end with them."""
        client = PlainClient(self._store, self._objects, "system:nodes")
        feed = Feed(self._store, self._view, self._clock, resources=(PODS, NODES, LEASES, VOLUMES, *SOURCES))
        controllers: list[Controller] = [
            NodeLifecycle(),
            TaintEviction(),
            LostCards(self._possible()),
            Heartbeats(self._possible(), lambda node: is_failed(node) or is_starting(node)),
            SimulatedNodes(habits_by_node(self._options.pools)),
        ]
        loops = [Loop(one, feed, client, self._clock) for one in controllers]
        if self._local is not None:
            there = {record.uid for record in self._store.store.page(Scope(PODS)).records}
            self._local.tidy(there)
            tidy_volumes(self._volumes, {record.key.name for record in self._store.store.page(Scope(VOLUMES)).records})
            local = Loop(self._local, feed, client, self._clock)
            self._local.look_at = local.look_at
            loops.append(local)
        try:
            await self.register()
            await asyncio.gather(feed.run(), *(loop.run() for loop in loops))
        finally:
            if self._local is not None:
                await self._local.close()


def _registration(objects: Objects, name: str, node: Object, store: AsyncStore) -> Change[Written]:
    """The write by which a node comes up: it is made, or what it says of itself is brought up to date."""
    key = Key(NODES, "", name)
    try:
        store.store.get(key)
    except NotFound:
        return objects.create(NODES, node)

    def renewed(before: Object) -> Object:
        metadata, own = before["metadata"], node["metadata"]
        labels = {**(metadata.get("labels") or {}), **own["labels"]}
        annotations = {**(metadata.get("annotations") or {}), **(own.get("annotations") or {})}
        if REGISTER not in (own.get("annotations") or {}):
            annotations.pop(REGISTER, None)  # it had cards once
        return {**before, "metadata": {**metadata, "labels": labels, "annotations": annotations}}

    return objects.modify(key, renewed)


class PodTokens:
    """The tokens of pods for their service accounts; each is used until most of its time is over."""

    def __init__(self, store: AsyncStore, accounts: ServiceAccounts, clock: Clock) -> None:
        self._store = store
        self._accounts = accounts
        self._clock = clock
        self._known: OrderedDict[tuple[str, str, int], tuple[str, float]] = OrderedDict()

    def of(self, pod: Object, wanted: Object) -> str:
        """The token that a projected volume asks for."""
        metadata, spec = pod["metadata"], pod["spec"]
        lasting_s = max(_TOKEN_LEAST_S, int(wanted.get("expirationSeconds") or _TOKEN_S))
        audience = wanted.get("audience") or ISSUER
        name = (metadata["uid"], audience, lasting_s)
        token, renew_s = self._known.get(name, ("", 0.0))
        if renew_s > self._clock.now_s():
            return token
        find = self._store.store.get
        account_key = Key("serviceaccounts", metadata["namespace"], spec.get("serviceAccountName") or "default")
        try:
            pod_record = find(Key(PODS, metadata["namespace"], metadata["name"]))
            bound = Bound(find(account_key), "Pod", pod_record, find(Key(NODES, "", spec["nodeName"])))
        except NotFound as problem:
            raise CannotStart(
                "ContainerCreating", f"MountVolume.SetUp failed: failed to fetch token: {problem}"
            ) from None
        token, _ = self._accounts.token(bound, (audience,), lasting_s)
        self._known[name] = (token, self._clock.now_s() + _TOKEN_SHARE * lasting_s)
        if len(self._known) > _TOKENS_KEPT:
            self._known.popitem(last=False)
        return token


class UsagesOfNodes:
    """What is in use, by the node that says it."""

    def __init__(self) -> None:
        self.by_node: dict[str, Usages] = {}

    def of_node(self, node: Mapping[str, Any], /) -> Measure | None:
        usages = self.by_node.get(node["metadata"]["name"])
        return None if usages is None else usages.of_node(node)

    def of_pod(self, pod: Mapping[str, Any], /) -> Measure | None:
        usages = self.by_node.get(pod["spec"].get("nodeName") or "")
        return None if usages is None else usages.of_pod(pod)


class Streams:
    """The way into pods, by the node that they are on."""

    def __init__(self) -> None:
        self.by_node: dict[str, PodStreams] = {}
        self._nobody = NoNodes()

    def _of(self, place: Place) -> PodStreams:
        return self.by_node.get(place.node, self._nobody)

    async def open_log(self, place: Place, options: LogOptions, /) -> AsyncGenerator[bytes, None]:
        return await self._of(place).open_log(place, options)

    async def run(self, place: Place, options: CommandOptions, /) -> Running:
        return await self._of(place).run(place, options)

    async def attach(self, place: Place, options: CommandOptions, /) -> Running:
        return await self._of(place).attach(place, options)

    async def connect(self, place: Place, port: int, /) -> Connection:
        return await self._of(place).connect(place, port)
