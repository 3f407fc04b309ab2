"""Nodes and cards for pods of another scheduler: `filter` gives a pod its place, `bind` puts it there. Used by `asgi`.

Filters are answered one after the other, and what one has given away the next sees taken, before the cluster says so.
That is only this process's word: a bind looks at the node and its pods as they are, while the node's lock keeps other
binds away that could take the same cards. So several replicas may answer; one that was overtaken binds nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.apiserver.cards.wire import BindArgs, FilterArgs
from muster.dialects.hami.claims import ALLOCATING, BOUND_AT, FAILED, PHASE, claim_problem, claimed
from muster.dialects.hami.filter import Extender, FilterAnswer, FilterState, HeldShares, with_pod
from muster.dialects.hami.node_lock import BINDERS, FENCE, Binder, Taken, asks_of, holders, read_binders, released, take
from muster.dialects.hami.read import node_cards
from muster.dialects.hami.requests import requests_of
from muster.dialects.hami.settings import ASSIGNED_NODE
from muster.model.device import ContainerShares
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.binding import Binding
from muster.store.clock import Clock
from muster.store.errors import Conflict, NotFound, StoreError
from muster.store.kinds import Object
from muster.store.records import Key

log = logging.getLogger(__name__)
POD_GROUP = "scheduling.x-k8s.io/pod-group"
WAIT_S, GROUP_WAIT_S, AGAIN_S = 5.0, 28.0, 0.1  # how long a bind waits for its turn; pods of a group come together
ASSUMED_S = 300.0  # after which what was given to a pod that nobody has bound is free again
MOST_ASSUMED = 100_000
_WRITES = 20  # tries of a write that others were faster with


class CardCluster(Protocol):
    """What is known of a cluster, and the writes; each raises a `StoreError` where something is in the way."""

    def state(self) -> FilterState:
        """Nodes, bound pods and quotas as they were last heard of."""

    async def pod(self, key: Key) -> Object | None:
        """A pod as it is now."""

    async def node(self, name: str) -> Object | None:
        """A node as it is now."""

    async def pods_on(self, node: str) -> Sequence[Object]:
        """The pods that are bound to a node, as they are now."""

    async def annotate_pod(self, key: Key, uid: str, annotations: Mapping[str, str]) -> None:
        """Write annotations on the pod with this uid, and on no other of its name."""

    async def annotate_node(self, name: str, revision: str, annotations: Mapping[str, str | None]) -> None:
        """Write annotations on a node that has not changed since; raises `Conflict`."""

    async def bind(self, binding: Binding) -> None:
        """Put a pod on a node."""


@dataclass(frozen=True, slots=True)
class _Assumed:
    held: HeldShares
    until_s: float


class CardExtender:
    """Answers one cluster's scheduler."""

    def __init__(self, rules: Extender, cluster: CardCluster, clock: Clock) -> None:
        self._rules = rules
        self._cluster = cluster
        self._clock = clock
        self._filtering = asyncio.Lock()
        self._assumed: dict[str, _Assumed] = {}  # by uid of pods that were given cards and are not seen bound yet
        self._vendors = {vendor.name: vendor for vendor in rules.vendors}

    # Filtering -------------------------------------------------------------------------------------------------------

    async def filter(self, args: FilterArgs) -> FilterAnswer:
        """The node for a pod, which has it at once; raises `InvalidObject` and `StoreError`."""
        pod = Fields.of(args.pod)
        metadata = pod.child("metadata")
        if args.nodes is not None:
            return self._rules.fitting(pod, args.names, self._templates(args.nodes))
        async with self._filtering:
            now_s = self._clock.now_s()
            state = self._state(now_s)
            answer = self._rules.filter(pod, args.names, state=state, now_s=int(now_s))
            if not answer.annotations:
                return answer
            key, uid = Key("pods", metadata.text("namespace"), metadata.text("name")), metadata.text("uid")
            await self._cluster.annotate_pod(key, uid, answer.annotations)
            held = next((one for one in reversed(answer.state.pods) if one.uid == uid), None)
            if uid and held is not None and len(self._assumed) < MOST_ASSUMED:
                self._assumed[uid] = _Assumed(held, now_s + ASSUMED_S)
            return answer

    def _templates(self, nodes: Sequence[Object]) -> FilterState:
        """Nodes that need not be there yet, with nothing on them that is not known."""
        known = self._cluster.state()
        devices = {}
        for node in map(Fields.of, nodes):
            if found := node_cards(node, self._rules.vendors).devices:
                devices[node.child("metadata").text("name")] = found
        return FilterState(nodes=devices, pods=known.pods, quotas=known.quotas)

    def _state(self, now_s: float) -> FilterState:
        """What the cluster has said, and what was given away since."""
        state = self._cluster.state()
        seen = {held.uid for held in state.pods}
        self._assumed = {uid: one for uid, one in self._assumed.items() if uid not in seen and one.until_s > now_s}
        for one in self._assumed.values():
            state = with_pod(state, one.held, self._vendors)
        return state

    # Binding ---------------------------------------------------------------------------------------------------------

    async def bind(self, args: BindArgs) -> None:
        """Put a pod on the node that it was given; raises `InvalidObject` and `StoreError`."""
        key = Key("pods", args.namespace, args.name)
        pod = await self._cluster.pod(key)
        if pod is None or pod["metadata"].get("uid") != args.uid:
            raise NotFound(key)
        fields = Fields.of(pod)
        shares = self._shares_of(fields)
        if not any(shares):
            if any(requests_of(fields, self._rules.vendors)):
                raise Conflict(key, "it asks for cards and was given none: ask the filter first")
            await self._cluster.bind(Binding(key=key, node=args.node, uid=args.uid))
            return
        given = fields.child("metadata").text_map("annotations").get(ASSIGNED_NODE, "")
        if given != args.node:
            raise Conflict(key, f"its cards are on node {given or 'none'}, not on {args.node}")
        asking = Binder(
            namespace=args.namespace, name=args.name, uid=args.uid, fence=0, since_s=0, asks=asks_of(shares)
        )
        taken = await self._lock(fields, asking, args.node)
        try:
            await self._check(fields, args)
            annotations = {PHASE: ALLOCATING, BOUND_AT: str(int(self._clock.now_s()))}
            if taken.fence:
                annotations[FENCE] = str(taken.fence)
            await self._cluster.annotate_pod(key, args.uid, annotations)
            await self._cluster.bind(Binding(key=key, node=args.node, uid=args.uid))
        except (StoreError, InvalidObject):
            await self._give_up(key, asking, args.node)
            raise

    def _shares_of(self, pod: Fields) -> ContainerShares:
        return tuple(shares for vendor in self._rules.vendors for shares in vendor.shares_of(pod))

    async def _lock(self, pod: Fields, asking: Binder, node: str) -> Taken:
        """The node's lock for this pod, as soon as it can have it."""
        is_grouped = POD_GROUP in pod.child("metadata").text_map("labels")
        until_s = self._clock.now_s() + (GROUP_WAIT_S if is_grouped else WAIT_S)
        key = Key("nodes", "", node)
        while True:
            found = await self._cluster.node(node)
            if found is None:
                raise NotFound(key)
            metadata = Fields.of(found).child("metadata")
            annotations = metadata.text_map("annotations")
            gone = await self._gone(holders(annotations), node)
            taken = take(annotations, asking, now_s=int(self._clock.now_s()), gone=gone)
            if isinstance(taken, Taken):
                try:
                    await self._cluster.annotate_node(node, metadata.text("resourceVersion"), taken.annotations)
                    return taken
                except Conflict:
                    continue  # somebody else was faster, and so something has moved on
            if self._clock.now_s() >= until_s:
                raise Conflict(key, taken.why)
            await self._clock.sleep(AGAIN_S)

    async def _gone(self, binders: Sequence[Binder], node: str) -> frozenset[str]:
        """Those who are on their way no longer: their pods are gone, or others by now, or elsewhere."""
        gone = set()
        for one in binders:
            pod = await self._cluster.pod(Key("pods", one.namespace, one.name)) if one.name else {}
            is_same = pod is not None and (not one.uid or pod["metadata"].get("uid") == one.uid)
            where = (pod or {}).get("spec", {}).get("nodeName") or node
            if not is_same or where != node:
                gone.add(one.pod)
        return frozenset(gone)

    async def _check(self, pod: Fields, args: BindArgs) -> None:
        """Whether the cards are there and free, as the cluster is now; raises `Conflict`."""
        key = Key("pods", args.namespace, args.name)
        found = await self._cluster.node(args.node)
        if found is None:
            raise NotFound(Key("nodes", "", args.node))
        node = Fields.of(found)
        others = [Fields.of(one) for one in await self._cluster.pods_on(args.node)]
        binders = read_binders(node.child("metadata").text_map("annotations").get(BINDERS, "")).binders
        seen = {one.child("metadata").text("uid") for one in others}
        for one in binders:
            if one.uid not in seen and (waiting := await self._cluster.pod(Key("pods", one.namespace, one.name))):
                others.append(Fields.of(waiting))
        devices = node_cards(node, self._rules.vendors).devices
        held = [
            claim
            for one in others
            if one.child("metadata").text("uid") != args.uid and (claim := claimed(one, self._rules.vendors, devices))
        ]
        problem = claim_problem(pod, self._rules.vendors, devices, held)
        if problem:
            self._assumed.pop(args.uid, None)
            raise Conflict(key, problem)

    async def _give_up(self, key: Key, asking: Binder, node: str) -> None:
        """Let others have the node's lock; where that fails it ends by itself."""
        try:
            for _ in range(_WRITES):
                found = await self._cluster.node(node)
                metadata = Fields.of(found or {}).child("metadata")
                changed = released(metadata.text_map("annotations"), asking)
                if not changed:
                    break
                try:
                    await self._cluster.annotate_node(node, metadata.text("resourceVersion"), changed)
                    break
                except Conflict:
                    continue
            await self._cluster.annotate_pod(key, asking.uid, {PHASE: FAILED})
        except (StoreError, InvalidObject) as problem:
            log.warning("the lock of node %s stays with pod %s until it ends: %s", node, asking.pod, problem)
