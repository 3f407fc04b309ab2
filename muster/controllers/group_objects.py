"""What sessions of groups decide on, kept up to date with the objects of a view. Owned by the scheduler's cache.

Each object is read when it changes, and never again. What cannot be read is left out, and its owner is told why. A
scheduler configuration that is wrong leaves the last good one in force.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from muster.controllers.view import Seen, View
from muster.dialects.pods import SCHEDULERS, Pod
from muster.dialects.volcano.configuration import SchedulerConfiguration, default_tiers, read_configuration
from muster.dialects.volcano.names import (
    CONFIGURATION_KEY,
    CONFIGURATION_MAP,
    CORES,
    DEFAULT_QUEUE,
    GROUP_NAMES,
    HYPER_NODES,
    NAMESPACE,
    POD_GROUPS,
    QUEUES,
    SCHEDULER,
)
from muster.dialects.volcano.read import read_budget, read_group, read_priority_class, read_queue, read_quota
from muster.dialects.volcano.read_domains import read_domains
from muster.dialects.volcano.read_numa import read_numa
from muster.dialects.volcano.read_pods import PodReader, read_pod, status_of
from muster.dialects.volcano.validate import queue_faults, without_faults
from muster.dialects.yunikorn.names import SCHEDULER as APPLICATIONS
from muster.engine.outside import Ask, ask_nobody
from muster.engine.profile import Tier
from muster.engine.reading import PlacementReader
from muster.model.documents import parse_documents
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields
from muster.model.groups import FairQueue, Group, GroupPhase, GroupPod, GroupSnapshot, NetworkDomain
from muster.model.topology import Node
from muster.store.kinds import Object
from muster.store.records import Key

if TYPE_CHECKING:
    from muster.engine.tiers import Tiers

log = logging.getLogger(__name__)
PRIORITIES, QUOTAS, BUDGETS = "priorityclasses.scheduling.k8s.io", "resourcequotas", "poddisruptionbudgets.policy"
NAMESPACES, MAPS, PODS = "namespaces", "configmaps", "pods"
_OWN = frozenset((QUEUES, POD_GROUPS, HYPER_NODES, CORES))
_BESIDE = frozenset((PRIORITIES, QUOTAS, BUDGETS, NAMESPACES))
RESOURCES = (*sorted(_OWN), PRIORITIES, QUOTAS, BUDGETS, MAPS)

BuildTiers = Callable[[Sequence[Tier]], "Tiers"]


@dataclass(frozen=True, slots=True)
class Configured:
    """A scheduler configuration with its policies at work."""

    configuration: SchedulerConfiguration
    tiers: Tiers


@dataclass(slots=True)
class GroupObjects:
    """Queues, groups and their pods as they are now."""

    view: View
    placement: PlacementReader
    build: BuildTiers
    schedulers: frozenset[str] = SCHEDULERS  # whose pods are bound here
    ask: Ask = ask_nobody  # how policies reach servers that they leave decisions to
    given: SchedulerConfiguration = field(default_factory=lambda: SchedulerConfiguration(tiers=default_tiers()))
    has_news: bool = False  # since somebody has set it back
    refused: dict[Key, str] = field(default_factory=dict)  # what is to be told of objects, until somebody clears it
    pods: dict[str, GroupPod] = field(default_factory=dict)  # namespace/name
    groups: dict[str, Group] = field(default_factory=dict)
    _changed: dict[Key, None] = field(default_factory=dict)
    _known: dict[str, dict[Key, Any]] = field(default_factory=dict)  # by resource: what was read
    _maps: dict[Key, SchedulerConfiguration] = field(default_factory=dict)  # the last good one of each map
    _configured: Configured | None = None
    _queues: dict[str, FairQueue] | None = None
    _domains: dict[str, NetworkDomain] | None = None

    # Hearing ---------------------------------------------------------------------------------------------------------

    def hear(self, seen: Seen) -> None:
        """Note a change; it is taken in by the next `sync`."""
        key = seen.key
        if key.resource in _OWN or key.resource in _BESIDE or _is_configuration(key):
            self._changed[key] = None

    def is_concerned(self, seen: Seen) -> bool:
        """Whether a change of a pod that leaves it its place means something to its group: it has begun to run."""
        before, now = seen.before, seen.now
        if before is None or now is None or not is_member(now, self.schedulers):
            return False
        return status_of(Fields(before)) is not status_of(Fields(now))

    @property
    def has_changes(self) -> bool:
        """Whether something has to be taken in; what only matters to groups does not where there are none."""
        if not self._changed or self.is_any:
            return bool(self._changed)
        return any(key.resource not in _BESIDE for key in self._changed)

    @property
    def is_any(self) -> bool:
        """Whether there is anything that a session could decide on or speak of."""
        return bool(self.pods or self.groups or self._known.get(QUEUES))

    @property
    def configured(self) -> Configured:
        """The configuration in force: a map in its own namespace goes before others, and any before what was given."""
        if self._configured is None:
            best = min(self._maps, key=lambda key: (key.namespace != NAMESPACE, key.namespace), default=None)
            configuration = self.given if best is None else self._maps[best]
            self._configured = Configured(configuration, self.build(configuration.tiers))
        return self._configured

    # Taking in -------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Read what has changed."""
        if not self.has_changes:
            return
        changed, self._changed = self._changed, {}
        if any(key.resource == PRIORITIES for key in changed):
            changed |= dict.fromkeys(self.view.keys(POD_GROUPS))
        # Groups are read when the priorities are known.
        for key in sorted(changed, key=lambda one: one.resource == POD_GROUPS):
            if key.resource == MAPS:
                self._take_map(key)
            else:
                self._take(key)

    def put_node(self) -> None:
        """A node has come, gone or changed: which are near to each other is worked out anew."""
        self._domains = None

    def put_pod(self, key: Key, pod: Object, node: Node | None, *, is_held_back: bool = False) -> None:
        """Learn of a pod of a group, new or changed."""
        fields = Fields(pod)
        name = f"{key.namespace}/{key.name}"
        nodes = {node.name: node} if node is not None else {}
        found = read_pod(fields, PodReader(placement=self.placement, open_claims=frozenset(), nodes=nodes))
        if found is not None and is_held_back:
            found = replace(found, is_gated=True)
        if found is None:
            self.drop_pod(name)
        elif self.pods.get(name) != found:
            self.pods[name] = found
            self.has_news = True

    def members(self) -> list[Key]:
        """The pods that are known."""
        return [Key(PODS, *name.split("/", 1)) for name in self.pods]

    def note_phase(self, name: str, phase: GroupPhase) -> None:
        """Learn of a phase that is about to be written, so that its coming back is no news."""
        group = self.groups.get(name)
        if group is not None and group.phase is not phase:
            key = Key(POD_GROUPS, *name.split("/", 1))
            self.groups[name] = self._known[POD_GROUPS][key] = replace(group, phase=phase)

    def drop_pod(self, name: str) -> None:
        """Learn that a pod is gone, or of no group any more."""
        if self.pods.pop(name, None) is not None:
            self.has_news = True

    def _take(self, key: Key) -> None:
        known = self._known.setdefault(key.resource, {})
        obj, before = self.view.get(key), known.pop(key, None)
        self.refused.pop(key, None)
        now = None
        if obj is not None:
            try:
                now = known[key] = self._read(key.resource, Fields(obj))
            except InvalidObject as problem:
                log.warning("%s is left out: %s", key, problem)
                self.refused[key] = str(problem)
        if now == before:
            return
        self.has_news = True
        if key.resource == POD_GROUPS:
            name = f"{key.namespace}/{key.name}"
            if now is None:
                self.groups.pop(name, None)
            else:
                assert isinstance(now, Group), "groups are read as groups"
                self.groups[name] = now
        elif key.resource == QUEUES:
            self._queues = None
        elif key.resource == HYPER_NODES:
            self._domains = None

    def _read(self, resource: str, obj: Fields) -> object:
        if resource == POD_GROUPS:
            classes = self._known.get(PRIORITIES, {}).values()
            default = next((value for _, value, is_default in classes if is_default), 0)
            return read_group(obj, {name: value for name, value, _ in classes}, default)
        return _READERS[resource](obj)

    def _take_map(self, key: Key) -> None:
        """Take in a map with a scheduler configuration; of one that is wrong the last good one stays."""
        obj = self.view.get(key)
        self.refused.pop(key, None)
        try:
            found = None if obj is None else read_map(obj)
            if found is not None:
                self.build(found.tiers)
        except InvalidObjects as several:
            self.refused[key] = "; ".join(map(str, several.problems))
        except InvalidObject as problem:
            self.refused[key] = str(problem)
        else:
            self._maps.pop(key, None)
            if found is not None:
                self._maps[key] = found
            self._configured, self.has_news = None, True
        if key in self.refused:
            log.warning("the scheduler configuration %s is not used: %s", key, self.refused[key])

    # What a session looks at -----------------------------------------------------------------------------------------

    def snapshot(self, now: float, nodes: Mapping[str, Node]) -> GroupSnapshot:
        """Everything as it is now."""
        known = self._known
        return GroupSnapshot(
            now=now,
            nodes=nodes,
            queues=self.queues,
            groups=dict(self.groups),
            pods=dict(self.pods),
            domains=self._domains_of(nodes),
            quotas=tuple(known.get(QUOTAS, {}).values()),
            budgets=tuple(known.get(BUDGETS, {}).values()),
            namespaces=dict(known.get(NAMESPACES, {}).values()),
            numa=dict(known.get(CORES, {}).values()),
        )

    @property
    def queues(self) -> dict[str, FairQueue]:
        """The queues that can be meant; one is there for those that name none."""
        if self._queues is None:
            given = {queue.name: queue for queue in self._known.get(QUEUES, {}).values()}
            faults = queue_faults(given)
            for name, fault in faults:
                self.refused[Key(QUEUES, "", name)] = str(fault)
            self._queues = {DEFAULT_QUEUE: FairQueue(name=DEFAULT_QUEUE), **without_faults(given, faults)}
        return self._queues

    def _domains_of(self, nodes: Mapping[str, Node]) -> dict[str, NetworkDomain]:
        if self._domains is None:
            refused: list[tuple[str, InvalidObject]] = []
            objects = [Fields(obj) for obj in self.view.all(HYPER_NODES)]
            self._domains = read_domains(objects, nodes, refused) if objects else {}
            for name, problem in refused:
                self.refused[Key(HYPER_NODES, "", name.removeprefix("HyperNode "))] = str(problem)
        return self._domains


def is_member(pod: Pod, schedulers: Collection[str]) -> bool:
    """Whether a stored pod of one of these schedulers is for a session: it names a group, or one is made for it."""
    scheduler = pod["spec"].get("schedulerName") or ""
    is_grouped = scheduler == SCHEDULER or (scheduler != APPLICATIONS and names_group(pod))
    return is_grouped and scheduler in schedulers


def names_group(pod: Pod) -> bool:
    """Whether a stored pod says which group it belongs to."""
    annotations = pod["metadata"].get("annotations") or {}
    return any(annotations.get(name) for name in GROUP_NAMES)


def read_map(obj: Object) -> SchedulerConfiguration | None:
    """The scheduler configuration that a ConfigMap holds, if it holds one."""
    text = Fields.of(obj.get("data"), "data").text(CONFIGURATION_KEY)
    if not text.strip():
        return None
    parsed = parse_documents(text, CONFIGURATION_KEY)
    return read_configuration(Fields.of(parsed[0].value if parsed else None))


def _is_configuration(key: Key) -> bool:
    return key.resource == MAPS and key.name == CONFIGURATION_MAP


def _read_namespace(obj: Fields) -> tuple[str, Mapping[str, str]]:
    metadata = obj.child("metadata")
    return metadata.text("name"), metadata.text_map("labels")


_READERS: Mapping[str, Callable[[Fields], object]] = {
    QUEUES: read_queue,
    HYPER_NODES: lambda obj: obj.child("spec").values,
    CORES: read_numa,
    PRIORITIES: read_priority_class,
    QUOTAS: read_quota,
    BUDGETS: read_budget,
    NAMESPACES: _read_namespace,
}
