"""The engine's state, kept up to date with the objects of a view. Owned by the scheduler: nobody else touches it.

Changes are collected as they come and taken in at once, before a cycle: workloads, nodes and pods one by one, in
proportion to what changed. When queues, flavors or anything else that shapes the state changes, it is built anew.

A pod of an admitted workload is one of its slots and is charged through it; every other bound pod is charged by itself.
An object that cannot be read is left out with a logged reason, but what it may hold stays held.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from muster.controllers import pod_claims
from muster.controllers.belonging import PODS, WORKLOADS, is_placed_alike, object_key, pods_of, workload_of_record
from muster.controllers.seating import Seating, key_of, seat
from muster.controllers.view import Seen, View
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.read import ReadOptions, read, workload_reader
from muster.dialects.kueue.read_workloads import WorkloadReader
from muster.dialects.kueue.slots_text import with_slots
from muster.dialects.pods import SCHEDULERS, as_holder, read_alone, waits_for_node, workload_key
from muster.engine.reading import PlacementReader
from muster.engine.state import EngineState
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.queue import Queue
from muster.model.snapshot import Snapshot
from muster.model.topology import Node, read_bound_pod, read_node
from muster.model.workload import Slot, Workload
from muster.store.kinds import Object
from muster.store.records import Key

if TYPE_CHECKING:
    from muster.engine.slots import NodeSlots

log = logging.getLogger(__name__)
CLUSTER_QUEUES, LOCAL_QUEUES, COHORTS = (f"{one}.{GROUP}" for one in ("clusterqueues", "localqueues", "cohorts"))
NODES = "nodes"
CHECKS = f"admissionchecks.{GROUP}"
SHAPING = (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    f"resourceflavors.{GROUP}",
    f"topologies.{GROUP}",
    CHECKS,
    "namespaces",
    "limitranges",
)
RESOURCES = (WORKLOADS, NODES, PODS, *pod_claims.RESOURCES, *SHAPING)
_NO_MEANING = frozenset({"resourceVersion", "managedFields", "generation"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What is put together elsewhere: how objects are read, and the table of nodes."""

    options: Callable[[float], ReadOptions]
    placement: PlacementReader
    plain_queue: Queue  # where pods wait that no queue counts
    slots: Callable[[Snapshot], NodeSlots]
    frame: Callable[[Iterable[Node]], Hashable]  # what the table is built upon; when it changes, so does the table
    schedulers: frozenset[str] = SCHEDULERS  # whose pods are bound here


class Cache:
    """The state, and what has changed since it was last brought up to date."""

    def __init__(self, view: View, parts: Parts) -> None:
        self.state = EngineState(Snapshot())
        self._view = view
        self._parts = parts
        self._is_stale = True
        self._workloads: dict[Key, None] = {}  # changed ones
        self._pods: dict[Key, None] = {}
        self._nodes: dict[Key, None] = {}
        self._known_nodes: dict[str, Node] = {}
        self._frame: Hashable = None
        self._reader: WorkloadReader | None = None
        self._read: dict[
            Key, tuple[int, int, Workload | None]
        ] = {}  # by workload: a revision, its generation, what it is
        self._placement = replace(parts.placement, volumes=pod_claims.ReachOfClaims(view))
        self._group_of: dict[Key, Key] = {}  # by pod: the workload that it belongs to
        self._members: dict[Key, set[Key]] = {}  # by workload: its pods
        self._filled: dict[Key, str] = {}  # by workload: the uid of one of which all pods have been bound
        self._seen: dict[Key, int] = {}  # by workload or pod: the revision that the state is about
        self._left_out: dict[Key, int] = {}  # by workload or pod: the revision on which nothing can be written
        self._unbound: set[Key] = set()  # pods that wait and have claims without a volume
        self._uncertain: dict[Key, str] = {}  # by pod whose cards its node could not name: the node
        self.held_back: dict[Key, str] = {}  # pods whose claims allow no place, and why, until somebody clears it
        self.touched: set[str] = set()  # workloads that were looked at, until somebody clears it

    # Hearing ---------------------------------------------------------------------------------------------------------

    def hear(self, seen: Seen) -> None:
        """Note a change; it is taken in by the next `sync`."""
        resource = seen.key.resource
        if resource == WORKLOADS:
            self._workloads[seen.key] = None
        elif resource == PODS:
            if not self._is_known(seen):
                self._pods[seen.key] = None
        elif resource == NODES:
            self._nodes[seen.key] = None
            if self._unbound and _labels(seen.before) != _labels(seen.now):
                self._pods.update(dict.fromkeys(self._unbound))
        elif resource in pod_claims.RESOURCES:
            self._hear_storage(seen)
        elif resource in SHAPING:
            self._is_stale = self._is_stale or _meaning(seen.before, resource) != _meaning(seen.now, resource)

    def _is_known(self, seen: Seen) -> bool:
        """Whether the state has a pod as it is now, but for what nothing is decided by; its revision is noted then."""
        key = seen.key
        if key in self._pods or key in self._left_out or key not in self._seen or not is_placed_alike(seen):
            return False
        self._note(key)
        return True

    def _hear_storage(self, seen: Seen) -> None:
        """Note the pods and workloads that a change of a claim, a volume or a class may concern."""
        claim = pod_claims.claim_of(seen)
        if not claim:
            self._pods.update(dict.fromkeys(self._unbound))  # a volume that anybody may get
            return
        users = self._view.with_term(PODS, pod_claims.BY_CLAIM, claim)
        self._pods.update((object_key(PODS, pod), None) for pod in users)
        waiting = self._view.with_term(WORKLOADS, pod_claims.BY_CLAIM, claim)
        for one in waiting:
            key = object_key(WORKLOADS, one)
            self._workloads[key] = None
            self._read.pop(key, None)  # where its claims can be used is part of what was read

    def look_again(self, key: Key) -> None:
        """Have a workload or a pod read anew: what the state has of it did not come true."""
        (self._workloads if key.resource == WORKLOADS else self._pods)[key] = None

    def leave_out(self, key: Key) -> None:
        """Have nothing decided on a workload or pod until it changes: what was decided cannot be written."""
        if key in self._seen:
            self._left_out[key] = self._seen[key]
        self.look_again(key)

    def seen(self, key: Key) -> Object | None:
        """An object as the state knows it; `None` where it has changed since, or is gone."""
        record = self._view.record(key)
        is_same = record is not None and record.revision == self._seen.get(key)
        return self._view.get(key) if is_same else None

    def _note(self, key: Key) -> bool:
        """Remember which revision of an object is taken in; whether anything is decided on it."""
        record = self._view.record(key)
        if record is None:
            self._seen.pop(key, None)
            self._left_out.pop(key, None)
            return False
        self._seen[key] = record.revision
        return self._left_out.get(key) != record.revision

    def forget(self) -> None:
        """Have the state built anew."""
        self._is_stale = True

    def leftovers(self) -> list[Key]:
        """Objects that are gone and still remembered: none once all is taken in, else memory would grow for ever."""
        grouped = (key for key, pods in self._members.items() if pods)
        known = {*self._seen, *self._left_out, *self._filled, *self._group_of, *self._uncertain, *grouped}
        return sorted(key for key in known if self._view.record(key) is None)

    @property
    def has_news(self) -> bool:
        return self._is_stale or bool(self._workloads or self._pods or self._nodes)

    # Taking in -------------------------------------------------------------------------------------------------------

    def sync(self, now: float) -> None:
        """Bring the state up to date."""
        if not self._is_stale:
            self._sync_nodes()
        if self._is_stale:
            self._rebuild(now)
        self._sync_pods()
        for key in list(self._workloads):
            self._sync_workload(key)
        self._workloads.clear()

    def _rebuild(self, now: float) -> None:
        """Build the state from all objects."""
        options = replace(self._parts.options(now), now=now)
        shaping = [obj for resource in SHAPING for obj in self._view.all(resource)]
        snapshot = read(self._readable(shaping, options), options)
        snapshot = replace(snapshot, queues={**snapshot.queues, self._parts.plain_queue.name: self._parts.plain_queue})
        self._known_nodes = {}
        for obj in self._view.all(NODES):
            if (node := self._read_node(obj)) is not None:
                self._known_nodes[node.name] = node
        snapshot = replace(snapshot, nodes=self._known_nodes, now=max(now, self.state.now))
        self._frame = self._parts.frame(self._known_nodes.values())
        limits = self._all("limitranges")
        how = replace(options, placement=self._placement)
        self._reader = workload_reader(snapshot.submit_queues, limits, how)
        self._read.clear()
        self.state = EngineState(snapshot, self._parts.slots(snapshot))
        self._is_stale = False
        self._nodes.clear()
        self._workloads = dict.fromkeys(self._view.keys(WORKLOADS))
        self._pods = dict.fromkeys(self._view.keys(PODS))
        self._group_of.clear()
        self._members.clear()
        self._uncertain.clear()
        # What has gone meanwhile is in none of these lists, so nothing else would forget it.
        self._seen.clear()
        for remembered in (self._left_out, self._filled):
            for key in [one for one in remembered if self._view.record(one) is None]:
                del remembered[key]
        log.info("the state was built anew: %d queues, %d nodes", len(snapshot.queues), len(snapshot.nodes))

    def _readable(self, objects: Iterable[Object], options: ReadOptions) -> Iterator[Object]:
        for obj in objects:
            try:
                read((obj,), options)
            except InvalidObject as problem:
                log.warning("%s %s is left out: %s", obj.get("kind"), obj["metadata"].get("name"), problem)
                continue
            yield obj

    def _all(self, resource: str) -> list[Fields]:
        return [Fields(obj) for obj in self._view.all(resource)]

    # Nodes -----------------------------------------------------------------------------------------------------------

    def _sync_nodes(self) -> None:
        changed = []
        for key in self._nodes:
            obj = self._view.get(key)
            node = self._read_node(obj) if obj is not None else None
            known = self._known_nodes.get(key.name)
            if node is None:
                self._known_nodes.pop(key.name, None)
                if known is not None:
                    self.state.drop_node(key.name)
            elif node != known:  # else it has only said that it lives
                self._known_nodes[key.name] = node
                changed.append((node, known))
        self._nodes.clear()
        has_moved = any(
            known is None or known.labels != node.labels or known.devices != node.devices for node, known in changed
        )
        if has_moved and self._parts.frame(self._known_nodes.values()) != self._frame:
            self._is_stale = True
            return
        for node, _ in changed:
            self.state.put_node(node)
        # Which cards a pod holds can be read once its node says which it has.
        told = {node.name for node, known in changed if known is None or known.devices != node.devices}
        self._pods.update((key, None) for key, node in self._uncertain.items() if node in told)

    def _read_node(self, obj: Object) -> Node | None:
        try:
            return self._parts.placement.node(read_node(Fields(obj)), Fields(obj))
        except InvalidObject as problem:
            log.warning("Node %s is left out: %s", obj["metadata"].get("name"), problem)
            return None

    def pretend(self, objects: Iterable[Object]) -> None:
        """Let nodes be there that are not, to see who would go to them; the state is good for nothing else then."""
        for obj in objects:
            if (node := self._read_node(obj)) is not None:
                self._known_nodes[node.name] = node
                self.state.put_node(node)

    # Pods ------------------------------------------------------------------------------------------------------------

    def _sync_pods(self) -> None:
        """Take in pods that stand for themselves; those of workloads are looked at with their workloads."""
        for key in self._pods:
            record = self._view.record(key)
            before, group = self._group_of.get(key), workload_of_record(record, self._view) if record else None
            if before is not None and before != group:
                self._workloads[before] = None
            if group is not None:
                self._workloads[group] = None
            else:
                self._join(key, None)
                self._account(key, self._view.get(key), is_alone=True)
        self._pods.clear()

    def _join(self, pod: Key, group: Key | None) -> None:
        before = self._group_of.pop(pod, None)
        if before is not None:
            self._members[before].discard(pod)
        if group is not None:
            self._group_of[pod] = group
            self._members.setdefault(group, set()).add(pod)

    def _account(self, key: Key, pod: Object | None, *, is_alone: bool) -> None:
        """Charge a pod by itself, or let it wait by itself, or neither."""
        name, alone = f"{key.namespace}/{key.name}", workload_key(key.namespace, key.name)
        fields = Fields(pod) if self._note(key) and pod is not None else None
        self._unbound.discard(key)
        self._uncertain.pop(key, None)
        try:
            if fields is not None and is_alone and self._is_taken(fields, name, alone):
                return
        except InvalidObject as problem:
            # What it was charged with before stays charged: a pod does not leave its node by becoming unreadable.
            log.warning("Pod %s is left out: %s", name, problem)
            return
        self.state.drop_pod(name)
        self._drop_alone(alone)

    def _is_taken(self, pod: Fields, name: str, alone: str) -> bool:
        """Let a pod hold its node, or wait for one; whether it does either."""
        bound = read_bound_pod(pod)
        if bound is None and not (waits_for_node(pod.values, self._parts.schedulers) and self._may_be_placed(pod)):
            return False
        workload = read_alone(pod, self._parts.plain_queue.name, self._placement)
        self.touched.add(alone)
        if bound is not None:
            bound = self._placement.bound_pod(bound, pod, self._known_nodes.get(bound.node))
            held = as_holder(pod, bound, workload, schedulers=self._parts.schedulers)
            if bound.cards is not None and bound.slices is None:
                self._uncertain[object_key(PODS, dict(pod.values))] = bound.node
            if held is None:
                self._drop_alone(alone)
                self.state.put_pod(bound)
                return True
            workload = held
        self.state.drop_pod(name)
        if self.state.workloads.get(alone) != workload:
            self.state.take(workload)
        return True

    def _may_be_placed(self, pod: Fields) -> bool:
        """Whether the claims of a pod let it be placed now; where they do not, what is told is noted."""
        key = object_key(PODS, dict(pod.values))
        claims = pod_claims.claim_state(dict(pod.values), self._view)
        if claims.is_ready:
            return True
        self._unbound.add(key)
        if claims.problem:
            self.held_back[key] = pod_claims.told(claims.problem, self._view)
        return bool(claims.unplaced) and not (claims.problem or claims.is_waiting)

    def _drop_alone(self, alone: str) -> None:
        if alone in self.state.workloads:
            self.state.drop(alone)

    # Workloads -------------------------------------------------------------------------------------------------------

    def _sync_workload(self, key: Key) -> None:
        obj = self._view.get(key)
        name = f"{key.namespace}/{key.name}"
        self.touched.add(name)
        if obj is None:
            self._note(key)
            self._filled.pop(key, None)
            self._read.pop(key, None)
            if name in self.state.workloads:
                self.state.drop(name)
            for left in sorted(self._members.get(key, ())):
                self._join(left, None)
                self._account(left, self._view.get(left), is_alone=True)
            self._members.pop(key, None)
            return
        workload = self._known_workload(key, obj) if self._note(key) else None
        pods = pods_of(key, obj, self._view)
        for gone in sorted(self._members.get(key, set()) - pods.keys()):
            self._join(gone, None)
            self._account(gone, self._view.get(gone), is_alone=self._view.get(gone) is not None)
        if workload is None and key in self._left_out:
            self.state.drop(name)
        elif workload is None:
            workload = self.state.workloads.get(name)  # it holds what it held
        seating = seat(slots_of(workload), pods.values(), self._parts.schedulers)
        if workload is not None:
            self._take(key, workload, seating, has_pods=bool(pods or obj["metadata"].get("ownerReferences")))
        for pod_key, pod in pods.items():
            self._join(pod_key, key)
            is_seated = key_of(pod) in seating.seated
            is_waiting = not pod["spec"].get("nodeName")
            self._account(pod_key, pod, is_alone=not is_seated and (not is_waiting or _is_unplaced(workload)))

    def _take(self, key: Key, workload: Workload, seating: Seating, *, has_pods: bool) -> None:
        bound = min(seating.bound_count, workload.slot_count)
        if not has_pods:
            bound = workload.slot_count  # nobody makes pods for it, so none are late
        elif bound and bound == workload.slot_count:
            self._filled[key] = workload.uid
        elif self._filled.get(key) == workload.uid and workload.is_admitted:
            bound = workload.slot_count  # it was whole once: pods that come after others are none of a gang's start
        else:
            self._filled.pop(key, None)
        workload = workload.changed(pods_bound=bound)
        if self.state.workloads.get(workload.key) != workload:
            self.state.take(workload)

    def _known_workload(self, key: Key, obj: Object) -> Workload | None:
        """A workload as its object says; most changes are of its pods, so it is mostly read already."""
        revision, before, workload = self._read.get(key, (-1, 0, None))
        if revision != self._seen[key]:
            metadata = obj["metadata"]
            generation = int(metadata.get("generation") or 0)
            is_like = workload is not None and workload.uid == metadata["uid"] and 0 < generation == before
            workload = self._read_workload(obj, workload if is_like else None)
            self._read[key] = (self._seen[key], generation, workload)
        return workload

    def _read_workload(self, obj: Object, like: Workload | None) -> Workload | None:
        assert self._reader is not None, "the state is built before anything is read"
        fields = Fields(obj)
        try:
            workload = self._reader.read(fields, like)
        except InvalidObject as problem:
            log.warning("Workload %s is left out: %s", obj["metadata"].get("name"), problem)
            return None
        try:
            return with_slots(workload, fields)
        except InvalidObject as problem:
            log.warning("the slots of Workload %s are not known, its pods count one by one: %s", workload.key, problem)
            return workload


def slots_of(workload: Workload | None) -> dict[str, tuple[Slot, ...]]:
    """The slots that the pods of a workload may be bound to, by pod set."""
    if workload is None or workload.admission is None or workload.is_finished:
        return {}
    return {given.name: given.slots for given in workload.admission.pod_sets}


def _is_unplaced(workload: Workload | None) -> bool:
    """Whether the pods of a workload look for nodes one by one: others have admitted it, without saying where."""
    return workload is not None and workload.is_admitted and not workload.is_evicted and not workload.slot_count


def _labels(node: Object | None) -> object:
    return None if node is None else node["metadata"].get("labels")


def _meaning(obj: Object | None, resource: str) -> object:
    """What of an object shapes the state."""
    if obj is None:
        return None
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _NO_MEANING}
    rest = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    if resource == CHECKS:
        rest["status"] = obj.get("status")
    return metadata, rest
