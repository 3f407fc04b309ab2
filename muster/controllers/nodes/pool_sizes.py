"""Pools of simulated nodes that grow when pods wait for room and shrink when nodes stand idle. Put together by `app`.

All that a pool knows is in the API: a node that is coming up is there and not ready, with an annotation that says until
when; what the pools have cost so far is in the config map `node-pools` of `kube-system`. Who would go to a node that is
not there yet is asked of the engine, which decides as if it were.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random

from muster.controllers.belonging import WORKLOADS, has_condition, workload_of
from muster.controllers.loop import Turn
from muster.controllers.nodes.costs import with_costs
from muster.controllers.nodes.pod_status import ENDED
from muster.controllers.nodes.pool_requests import PoolRequests
from muster.controllers.nodes.pools import STARTING, Pool, is_starting, name_of
from muster.controllers.nodes.simulated import BY_NODE, NODES, PODS
from muster.controllers.nodes.timing import PREFIX
from muster.controllers.view import Seen, Terms, View
from muster.dialects.kueue.check_kinds import PROVISIONING_REQUESTS
from muster.dialects.kueue.slots_text import recorded_slots
from muster.dialects.pods import waits_for_node
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.times import moment_text, parse_moment
from muster.store.kinds import Object
from muster.store.records import Key

LEAVING = PREFIX + "leaving"  # on a node that takes no more pods, because it is about to go
LOOK_S = 1.0  # between two looks, however much happens
GROW_MOST = 1_000  # nodes that are thought of at once
_ALL = Key("nodepools", "", "all")  # there is one thing to look at: all pools together
_WAITING = "waiting"


# Which nodes would be used if they were there: those that are coming, and then these, the first ones first. None: it is
# too early to ask that again.
WhatIf = Callable[[Sequence[Object], Sequence[Sequence[Object]]], Awaitable[set[str] | None]]


def _waiting_pods(pod: Object) -> Iterable[str]:
    return (_WAITING,) if waits_for_node(pod) else ()


def _waiting_workloads(workload: Object) -> Iterable[str]:
    is_open = not (workload.get("status") or {}).get("admission") and not has_condition(workload, "Finished")
    return (_WAITING,) if is_open else ()


INDEXES: dict[tuple[str, str], Terms] = {
    (PODS, _WAITING): _waiting_pods,
    (WORKLOADS, _WAITING): _waiting_workloads,
}


class NodePools:
    """The controller of the sizes of pools."""

    name = "node pools"

    def __init__(self, pools: Iterable[Pool], what_if: WhatIf, requests: PoolRequests) -> None:
        self._pools = sorted(pools, key=lambda pool: (pool.price, pool.name))  # the cheapest first
        self._what_if = what_if
        self._requests = requests
        self._pool_of = {name: pool for pool in self._pools for name in pool.names}
        self._idle_since_s: dict[str, float] = {}
        self._next_s = 0.0

    def keys(self, seen: Seen, _view: View) -> Iterable[Key]:
        resource = seen.key.resource
        if resource in (WORKLOADS, PODS, PROVISIONING_REQUESTS) or (
            resource == NODES and seen.key.name in self._pool_of
        ):
            yield _ALL

    async def reconcile(self, turn: Turn) -> None:
        if turn.now_s < self._next_s:
            turn.look_again(self._next_s - turn.now_s)
            return
        self._next_s = turn.now_s + LOOK_S
        there = self._there(turn.view)
        for pool in self._pools:
            await self._bring_up(turn, there[pool.name])
            await self._shrink(turn, pool, there[pool.name])
        needed = self._needed(there, _awaited(turn.view))
        for node in [*needed, *await self._wanted(turn, there, needed)]:
            await self._add(turn, node)
        for node in await self._asked_for(turn):
            await self._add(turn, node)
        await with_costs(turn, {pool.name: (len(there[pool.name]), pool.price) for pool in self._pools})

    def _there(self, view: View) -> dict[str, list[Object]]:
        """The nodes of each pool that are there, in order."""
        found: dict[str, list[Object]] = {}
        for pool in self._pools:
            known = (view.get(Key(NODES, "", name_of(node))) for node in pool.nodes)
            found[pool.name] = [node for node in known if node is not None]
        return found

    # Coming up -------------------------------------------------------------------------------------------------------

    async def _bring_up(self, turn: Turn, nodes: Iterable[Object]) -> None:
        """Let those be ready that have had their time; signs of life follow from that."""
        for node in nodes:
            until = (node["metadata"].get("annotations") or {}).get(STARTING)
            if until is None:
                continue
            left_s = parse_moment(until, STARTING) - turn.now_s
            if left_s > 0:
                turn.look_again(left_s)
            else:
                await turn.update(Key(NODES, "", name_of(node)), _annotated(node, {STARTING: None}))

    def _needed(self, there: dict[str, list[Object]], awaited: set[str]) -> list[Object]:
        """What is missing to the least that pools have, and nodes that pods wait for which have their place there."""
        needed = []
        for pool in self._pools:
            known = [name_of(node) for node in there[pool.name]]
            missing = list(pool.missing(known))
            least = max(0, pool.minimum - len(known))
            needed += missing[:least] + [node for node in missing[least:] if name_of(node) in awaited]
        return needed

    async def _wanted(self, turn: Turn, there: dict[str, list[Object]], needed: Sequence[Object]) -> list[Object]:
        """The nodes that those who wait would go to."""
        if not any(turn.view.has_term(resource, _WAITING, _WAITING) for resource in (PODS, WORKLOADS)):
            return []
        known = {name_of(node) for nodes in there.values() for node in nodes}
        known.update(map(name_of, needed))
        candidates = self._candidates(known)
        if not any(candidates):
            return []
        coming = [name_of(node) for nodes in there.values() for node in nodes if is_starting(node)]
        used = await self._what_if(self._registered({*coming, *map(name_of, needed)}), candidates)
        if used is None:
            turn.look_again(LOOK_S)
            return []
        return [node for nodes in candidates for node in nodes if name_of(node) in used]

    async def _asked_for(self, turn: Turn) -> list[Object]:
        """The nodes that a ProvisioningRequest needs, unless others have just been added."""
        if any(turn.written):
            turn.look_again(LOOK_S)
            return []
        there = self._there(turn.view)
        coming = {name_of(node) for nodes in there.values() for node in nodes if is_starting(node)}
        candidates = self._candidates({name_of(node) for nodes in there.values() for node in nodes})
        used = await self._requests.nodes_for(turn, self._registered(coming), candidates, again_s=LOOK_S)
        return [node for nodes in candidates for node in nodes if name_of(node) in used]

    def _candidates(self, known: set[str]) -> list[list[Object]]:
        """The nodes that each pool could add to those that are known."""
        return [list(pool.missing(known))[:GROW_MOST] for pool in self._pools]

    def _registered(self, names: set[str]) -> list[Object]:
        return [node for pool in self._pools for node in pool.nodes if name_of(node) in names]

    async def _add(self, turn: Turn, node: Object) -> None:
        pool = self._pool_of[name_of(node)]
        start_s = pool.start.draw(Random(f"{name_of(node)}/{turn.now_s}"))
        if start_s > 0:
            node = _annotated(node, {STARTING: moment_text(turn.now_s + start_s)})
            turn.look_again(start_s)
        await turn.create(NODES, node)

    # Going -----------------------------------------------------------------------------------------------------------

    async def _shrink(self, turn: Turn, pool: Pool, nodes: list[Object]) -> None:
        """Let go of nodes that have stood idle for long: at first they take no more pods, then they are removed."""
        count = len(nodes)
        for node in reversed(nodes):
            name = name_of(node)
            if is_starting(node) or not self._is_idle(turn, node) or count <= pool.minimum:
                self._idle_since_s.pop(name, None)
                if _is_leaving(node):
                    await turn.update(Key(NODES, "", name), _cordoned(node, is_leaving=False))
                continue
            left_s = self._idle_since_s.setdefault(name, turn.now_s) + pool.idle_s - turn.now_s
            if left_s > 0:
                turn.look_again(left_s)
                continue
            count -= 1
            if _is_leaving(node):
                await turn.delete(Key(NODES, "", name))
                self._idle_since_s.pop(name, None)
            else:
                await turn.update(Key(NODES, "", name), _cordoned(node, is_leaving=True))
                turn.look_again(LOOK_S)

    def _is_idle(self, turn: Turn, node: Object) -> bool:
        """Whether only such pods are on a node as are on every node."""
        return all(
            (pod.get("status") or {}).get("phase") in ENDED or _is_of_daemon(pod)
            for pod in turn.view.with_term(PODS, BY_NODE, name_of(node))
        )


def _awaited(view: View) -> set[str]:
    """The nodes that waiting pods have their place on: nobody else will ever look for another one for them."""
    groups = {workload_of(pod, view) for pod in view.with_term(PODS, _WAITING, _WAITING)}
    found: set[str] = set()
    for workload in (view.get(key) for key in groups if key is not None):
        if workload is not None and has_condition(workload, "Admitted") and not has_condition(workload, "Evicted"):
            try:
                slots = recorded_slots(Fields(workload))
            except InvalidObject:
                continue  # its pods look for places one by one
            found.update(slot.node for given in slots.values() for slot in given)
    return found


def _is_of_daemon(pod: Object) -> bool:
    return any(owner.get("kind") == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ())


def _is_leaving(node: Object) -> bool:
    return LEAVING in (node["metadata"].get("annotations") or {})


def _cordoned(node: Object, *, is_leaving: bool) -> Object:
    changed = _annotated(node, {LEAVING: "true" if is_leaving else None})
    return {**changed, "spec": {**(node.get("spec") or {}), "unschedulable": is_leaving}}


def _annotated(node: Object, annotations: dict[str, str | None]) -> Object:
    metadata = node["metadata"]
    merged = {**(metadata.get("annotations") or {}), **annotations}
    kept = {name: text for name, text in merged.items() if text is not None}
    return {**node, "metadata": {**metadata, "annotations": kept}}
