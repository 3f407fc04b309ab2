"""YuniKorn's applications, kept up to date with the objects of a view. Owned by the scheduler's cache.

Their pods are workloads of the one state, in queues of YuniKorn's own. What a gang needs is held there once it is
given: pods that come later find their places kept. The holds are remembered here alone; after a restart what is missing
of a gang is asked for anew, and its pods on nodes count.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from muster.controllers.view import Seen, View
from muster.dialects.pods import Pod
from muster.dialects.yunikorn import names
from muster.dialects.yunikorn.applications import PodOfApplication
from muster.dialects.yunikorn.configuration import QueueConfiguration
from muster.dialects.yunikorn.quota_preemption import TakenBack, take_back
from muster.dialects.yunikorn.read import Reading, Surroundings, assumed_configuration, read_pods
from muster.dialects.yunikorn.read_queues import FLAVOR
from muster.dialects.yunikorn.validate import read_configuration
from muster.engine.reading import PlacementReader
from muster.engine.state import EngineState
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields
from muster.model.flavor import Flavor
from muster.model.resources import sum_amounts
from muster.model.snapshot import Snapshot
from muster.model.times import moment
from muster.model.topology import BoundPod, Node
from muster.model.workload import Admission, PodSetAdmission, Slot, Workload
from muster.store.kinds import Object
from muster.store.records import Key

log = logging.getLogger(__name__)
MAPS, NAMESPACES = "configmaps", "namespaces"
RESOURCES = (MAPS,)
_ORDER = (names.CONFIG_MAP, names.DEFAULTS_MAP)  # what the first says goes before


class Counted(NamedTuple):
    """A pod of an application, and what it holds of its node, if it has one."""

    pod: PodOfApplication
    bound: BoundPod | None


class Applications:
    """The applications, and what has been read of them."""

    def __init__(self, view: View, placement: PlacementReader) -> None:
        self._view = view
        self._placement = placement
        self._pods: dict[str, Counted] = {}
        self._maps: dict[Key, QueueConfiguration] = {}  # the last good one of each map
        self._held: dict[str, dict[str, list[Slot]]] = {}  # by gang: places that nobody has been bound to, by group
        self._told: dict[Key, str] = {}
        self._changed_maps: dict[Key, None] = {}
        self.reading = Reading()
        self._taken_back = TakenBack()
        self.refused: dict[Key, str] = {}  # what is to be told of objects, until somebody clears it
        self.is_changed = False
        self.next_due: float | None = None
        self._is_fresh = False  # what was read has not been applied yet
        self._applied: EngineState | None = None  # the state that has what comes next
        self._taken: set[str] = set()
        self._foreign: dict[str, BoundPod] = {}

    # Hearing ---------------------------------------------------------------------------------------------------------

    def hear(self, seen: Seen) -> None:
        """Note a change of a map or a namespace; it is taken in when all is read next."""
        if seen.key.resource == MAPS and seen.key.name in _ORDER:
            self._changed_maps[seen.key] = None
        elif seen.key.resource == NAMESPACES and self._pods:
            self.is_changed = True

    def put(self, name: str, pod: Fields, bound: BoundPod | None) -> None:
        """Learn of a pod, new or changed."""
        metadata, spec = pod.child("metadata"), pod.child("spec")
        found = PodOfApplication(
            pod=pod,
            key=name,
            owner=f"Pod {name}",
            priority=spec.integer("priority"),
            created_at=moment(metadata, "creationTimestamp") or 0.0,
        )
        self._pods[name] = Counted(found, bound)
        self.is_changed = True

    def drop(self, name: str) -> None:
        """Learn that a pod is gone, has ended or is somebody else's."""
        if self._pods.pop(name, None) is not None:
            self.is_changed = True

    def pods(self) -> list[Key]:
        """The pods that are known."""
        return [_key_of(name) for name in self._pods]

    def look_again(self) -> None:
        """Have all read anew: something did not come true."""
        self.is_changed = self.is_changed or bool(self._pods)

    @property
    def has_changes(self) -> bool:
        return self.is_changed or bool(self._changed_maps)

    def is_due(self, now: float) -> bool:
        """Whether something has to be read."""
        return self.has_changes or (self.next_due is not None and now >= self.next_due)

    # Reading ---------------------------------------------------------------------------------------------------------

    def read(self, now: float, nodes: Mapping[str, Node]) -> bool:
        """Read all of them; gives whether their queues are others than before."""
        before = self.reading
        self._take_maps()
        configuration = self._configuration()
        if configuration is None and not self._pods:
            self.reading = Reading()
        else:
            surroundings = Surroundings(
                now=now,
                total=sum_amounts(node.allocatable for node in nodes.values()),
                placement=self._placement,
                namespace_annotations=dict(self._annotations()),
                does_time_pass=True,
            )
            pods = (one.pod for one in self._pods.values())
            self.reading = read_pods(pods, configuration or assumed_configuration(), surroundings)
        self._taken_back = take_back(
            self.reading.workloads.values(),
            self.reading.queues,
            caps=self.reading.caps,
            above_since=self._taken_back.above_since,
            now=now,
        )
        times = (
            *(one.until for one in self.reading.gangs.values()),
            self.reading.preempts_at,
            self._taken_back.next_due,
        )
        self.next_due = min((one for one in times if one is not None), default=None)
        self.is_changed, self._is_fresh = False, True
        self._tell()
        queues, limits = self.reading.queues, self.reading.shared_limits
        return queues != before.queues or limits != before.shared_limits

    def _annotations(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        for obj in self._view.all(NAMESPACES):
            yield obj["metadata"]["name"], obj["metadata"].get("annotations") or {}

    def _take_maps(self) -> None:
        for key in self._changed_maps:
            obj = self._view.get(key)
            try:
                found = None if obj is None else read_map(obj)
            except (InvalidObject, InvalidObjects) as problem:
                several = problem.problems if isinstance(problem, InvalidObjects) else (problem,)
                self.refused[key] = "; ".join(map(str, several))
                log.warning("the queues of %s are not used: %s", key, self.refused[key])
                continue
            self._maps.pop(key, None)
            if found is not None:
                self._maps[key] = found
        self._changed_maps.clear()

    def _configuration(self) -> QueueConfiguration | None:
        def rank(key: Key) -> tuple[int, bool, str]:
            return _ORDER.index(key.name), key.namespace != names.SCHEDULER, key.namespace

        best = min(self._maps, key=rank, default=None)
        return None if best is None else self._maps[best]

    def _tell(self) -> None:
        """Note what is to be said of pods whose words are not believed; once."""
        told = {_key_of(pod.key): str(doubt) for pod, doubt in self.reading.doubts if pod is not None}
        self.refused |= {key: text for key, text in told.items() if self._told.get(key) != text}
        self._told = told

    def rejected(self) -> Iterator[tuple[Key, str]]:
        """Pods that get no place whatever happens, and why."""
        return ((_key_of(pod.key), why) for pod, why in self.reading.rejected if not pod.node)

    def leaving(self) -> list[Key]:
        """Pods that have to leave a queue that has been above its maximum for too long; each is told once a reading."""
        found = [_key_of(_pod_name(key)) for key in self._taken_back.leaving]
        self._taken_back = replace(self._taken_back, leaving=())
        return found

    # What the state takes over ---------------------------------------------------------------------------------------

    def added_to(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot with the queues of applications, and their limits."""
        if not self.reading.queues:
            return snapshot
        return replace(
            snapshot,
            queues={**snapshot.queues, **self.reading.queues},
            shared_limits=self.reading.shared_limits,
            flavors={**snapshot.flavors, FLAVOR: Flavor(name=FLAVOR)},
        )

    def apply(self, state: EngineState) -> set[str]:
        """Let a state have all of it, as it was read last; gives the workloads that are others than before."""
        if state is not self._applied:
            self._taken, self._foreign = set(), {}
        elif not self._is_fresh:
            return set()
        self._applied, self._is_fresh = state, False
        taken = {workload.key: workload for workload in self._workloads()}
        changed = {key for key in self._taken - taken.keys() if key in state.workloads}
        for key in sorted(changed):
            state.drop(key)
        for key, workload in taken.items():
            if state.workloads.get(key) != workload:
                state.take(workload)
                changed.add(key)
        foreign = {bound.key: bound for bound in self._unaccounted()}
        for key in sorted(self._foreign.keys() - foreign.keys()):
            state.drop_pod(key)
        for key, bound in foreign.items():
            if self._foreign.get(key) != bound:
                state.put_pod(bound)
        self._taken, self._foreign = set(taken), foreign
        return changed

    def _workloads(self) -> Iterator[Workload]:
        """Everything that waits or holds something, gangs that are given their places among them."""
        for key, workload in self.reading.workloads.items():
            if key in self.reading.gangs:
                yield self._with_places(workload)
                continue
            counted = self._pods.get(_pod_name(key))
            bound = counted.bound if counted is not None else None
            yield workload if bound is None or not _is_known(bound) else _on_node(workload, bound)

    def _unaccounted(self) -> Iterator[BoundPod]:
        """Pods on nodes that no workload accounts for: nobody knows their cards, or no queue takes them."""
        for name, (_, bound) in self._pods.items():
            namespace, _, rest = name.partition("/")
            if bound is not None and (f"{namespace}/pod/{rest}" not in self.reading.workloads or not _is_known(bound)):
                yield bound

    # Gangs -----------------------------------------------------------------------------------------------------------

    def is_gang(self, workload: str) -> bool:
        """Whether the engine means a gang by a name."""
        return workload in self.reading.gangs

    def hold(self, gang: str, admission: Admission) -> None:
        """Remember the places that a gang was given."""
        self._held[gang] = {one.name: list(one.slots) for one in admission.pod_sets}

    def remember(self, other: Applications) -> None:
        """Take over the places that another one keeps: they are in no object."""
        self._held = {gang: {name: list(slots) for name, slots in held.items()} for gang, held in other._held.items()}

    def give_up(self, gang: str) -> None:
        """Forget the places of a gang that has to leave them."""
        self._held.pop(gang, None)
        self.is_changed = True

    def members(self, gang: str) -> list[Key]:
        """The pods that stand in for what a gang needs."""
        known = self.reading.gangs.get(gang)
        return [] if known is None else [_key_of(name) for pods in known.pods.values() for name in pods]

    def seats(self) -> Iterator[tuple[Key, Slot]]:
        """Pods that wait and places that are kept for them; each place is given once."""
        for gang in [key for key in self._held if key not in self.reading.gangs]:
            del self._held[gang]
        for gang, held in self._held.items():
            for group, pods in self.reading.gangs[gang].pods.items():
                for name in pods[: len(held.get(group, ()))]:
                    yield _key_of(name), held[group].pop(0)

    def _with_places(self, gang: Workload) -> Workload:
        """A gang with the places that are kept for it, if they are enough; else it waits for all of them."""
        held = self._held.get(gang.key)
        if held is None or any(len(held.get(one.name, ())) < one.count for one in gang.pod_sets):
            self._held.pop(gang.key, None)
            return gang
        given = tuple(
            PodSetAdmission(
                name=one.name,
                count=one.count,
                flavors=dict.fromkeys(one.requests, FLAVOR),
                usage={name: amount * one.count for name, amount in one.requests.items()},
                slots=tuple(held[one.name][: one.count]),
            )
            for one in gang.pod_sets
        )
        return gang.changed(
            admission=Admission(queue=gang.queue, pod_sets=given),
            is_admitted=True,
            is_ready=True,
            pods_bound=sum(one.count for one in gang.pod_sets),  # none of them is late: its own time limit counts
            reserved_at=gang.created_at,
        )


def is_counted(pod: Pod, schedulers: Collection[str]) -> bool:
    """Whether a stored pod is for YuniKorn's scheduler, and that is one of these."""
    return names.SCHEDULER in schedulers and bool(pod["spec"].get("schedulerName") == names.SCHEDULER)


def read_map(obj: Object) -> QueueConfiguration | None:
    """The queues that a ConfigMap holds, if it holds any."""
    data = Fields.of(obj.get("data"), "data")
    key = f"{data.text(names.POLICY_GROUP) or names.DEFAULT_POLICY_GROUP}.yaml"
    text = data.text(key)
    return read_configuration(text, data.at(key)) if text else None


def _is_known(bound: BoundPod) -> bool:
    """Whether all is known that a pod holds of its node's cards."""
    return bound.cards is None or bound.slices is not None


def _on_node(workload: Workload, bound: BoundPod) -> Workload:
    """A pod that holds its quota, and its place too."""
    admission = workload.admission
    assert admission is not None, f"{workload.key} is on a node and holds nothing"
    pod_sets = tuple(replace(one, slots=(Slot(bound.node, (), bound.slices),)) for one in admission.pod_sets)
    return workload.changed(admission=Admission(queue=admission.queue, pod_sets=pod_sets))


def _key_of(name: str) -> Key:
    return Key("pods", *name.split("/", 1))


def _pod_name(workload: str) -> str:
    namespace, _, name = workload.split("/", 2)
    return f"{namespace}/{name}"
