"""A set of manifests as lint sees it: leniently, because judging the shape of an object is validation's part.

What has the wrong type counts as absent here. The rules of `lint_queues` and `lint_jobs` ask these views; the
repairs of `lint_fix` change the objects behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from muster.dialects.kueue import names
from muster.model.errors import InvalidObject
from muster.model.fields import INT64_MAX, Fields, quantity_of
from muster.model.labels import Selector, read_selector
from muster.model.podspec import pod_shape
from muster.model.resources import amount_of

Object = dict[Any, Any]  # keys are text in what our own reader parsed, and anything elsewhere
Sourced = tuple[str, Object]

MOST_DEPTH = 100
SHOWN_NAMES = 5
JOB = ("batch", "Job")
POD = ("", "Pod")
CLUSTER_QUEUE = (names.GROUP, "ClusterQueue")
LOCAL_QUEUE = (names.GROUP, "LocalQueue")
COHORT = (names.GROUP, "Cohort")
FLAVOR = (names.GROUP, "ResourceFlavor")
CHECK = (names.GROUP, "AdmissionCheck")
WORKLOAD = (names.GROUP, "Workload")
WORKLOAD_PRIORITY_CLASS = (names.GROUP, "WorkloadPriorityClass")
PRIORITY_CLASS = ("scheduling.k8s.io", "PriorityClass")
NAMESPACE = ("", "Namespace")
CLAIM = ("", "PersistentVolumeClaim")
CONFIG_MAP = ("", "ConfigMap")
NODE = ("", "Node")
TOPOLOGY = (names.GROUP, "Topology")
_WITHOUT_NAMESPACE = frozenset(
    [CLUSTER_QUEUE, COHORT, FLAVOR, CHECK, WORKLOAD_PRIORITY_CLASS, PRIORITY_CLASS, NAMESPACE, TOPOLOGY, NODE]
)


class Severity(Enum):
    """How much a finding matters."""

    ERROR = "error"  # refused by Kubernetes or Kueue, or never runs
    WARNING = "warning"  # accepted, and does not do what it says
    NOTE = "note"  # works, and is perhaps not meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One contradiction: in which file and object, what it is, and what to write instead."""

    code: str
    source: str
    reference: str  # "Kind namespace/name"
    path: str
    problem: str
    what_to_write: str
    severity: Severity

    def __str__(self) -> str:
        return f"{self.source}: {self.reference}: {self.path}: {self.problem}; write {self.what_to_write}"


# Lenient access ---------------------------------------------------------------------------------------------------


def mapping(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def whole(value: object) -> int | None:
    """A whole number of a size that some field could hold."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) <= INT64_MAX else None


def amount(resource: str, value: object) -> int | None:
    """A quantity in the unit its resource is counted in; `None` for what is none or below zero."""
    try:
        quantity = quantity_of(value, "")
    except InvalidObject:
        return None
    counted = None if quantity is None else amount_of(resource, quantity)
    return counted if counted is not None and counted >= 0 else None


# Objects ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """One object and the file it is from."""

    source: str
    value: Object

    @cached_property
    def kind(self) -> tuple[str, str]:
        """Group and kind; the version does not matter here."""
        group, _, _ = text(self.value.get("apiVersion")).rpartition("/")
        return group, text(self.value.get("kind"))

    @cached_property
    def metadata(self) -> Object:
        return mapping(self.value.get("metadata"))

    @property
    def spec(self) -> Object:
        return mapping(self.value.get("spec"))

    @property
    def name(self) -> str:
        return text(self.metadata.get("name")) or text(self.metadata.get("generateName"))

    @property
    def namespace(self) -> str:
        return "" if self.kind in _WITHOUT_NAMESPACE else text(self.metadata.get("namespace")) or "default"

    @cached_property
    def labels(self) -> dict[str, str]:
        return _texts(self.metadata.get("labels"))

    @cached_property
    def annotations(self) -> dict[str, str]:
        return _texts(self.metadata.get("annotations"))

    @cached_property
    def groups(self) -> list[GroupView]:
        """The resource groups of a ClusterQueue or Cohort."""
        return [
            GroupView(mapping(group), f"spec.resourceGroups[{index}]")
            for index, group in enumerate(listed(self.spec.get("resourceGroups")))
        ]

    @cached_property
    def covered(self) -> frozenset[str]:
        """The resources that a queue counts."""
        return frozenset(resource for group in self.groups for resource in group.covered)

    @property
    def quota_lines(self) -> Iterator[QuotaLine]:
        return (line for group in self.groups for flavor in group.flavors for line in flavor.lines)

    @property
    def reference(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind[1] or 'object'} {place}{self.name}"


def _texts(value: object) -> dict[str, str]:
    return {key: item for key, item in mapping(value).items() if isinstance(key, str) and isinstance(item, str)}


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One resource of one flavor of one queue."""

    flavor: str
    resource: str
    nominal: int | None
    value: Object
    path: str


@dataclass(frozen=True)
class FlavorView:
    """A flavor in a resource group, with the quota lines it has."""

    name: str
    value: Object
    path: str

    @cached_property
    def lines(self) -> list[QuotaLine]:
        found = []
        for index, line in enumerate(listed(self.value.get("resources"))):
            resource = text(mapping(line).get("name"))
            path = f"{self.path}.resources[{index}]"
            nominal = amount(resource, mapping(line).get("nominalQuota"))
            found.append(QuotaLine(self.name, resource, nominal, mapping(line), path))
        return found

    @cached_property
    def nominals(self) -> dict[str, int]:
        named = (line for line in self.lines if line.resource)
        return {line.resource: line.nominal for line in named if line.nominal is not None}


@dataclass(frozen=True)
class GroupView:
    """A resource group of a queue or cohort."""

    value: Object
    path: str

    @cached_property
    def covered(self) -> list[str]:
        return [name for name in listed(self.value.get("coveredResources")) if isinstance(name, str)]

    @cached_property
    def flavors(self) -> list[FlavorView]:
        return [
            FlavorView(text(mapping(flavor).get("name")), mapping(flavor), f"{self.path}.flavors[{index}]")
            for index, flavor in enumerate(listed(self.value.get("flavors")))
        ]


def cohort_field(item: Item) -> str:
    """How this object names what it belongs to; ClusterQueue renamed the field between its versions."""
    if item.kind == COHORT:
        return "parentName"
    return "cohort" if text(item.value.get("apiVersion")).endswith("/v1beta1") else "cohortName"


def cohort_of(item: Item) -> str:
    if item.kind == COHORT:
        return text(item.spec.get("parentName"))
    return text(item.spec.get("cohortName")) or text(item.spec.get("cohort"))


def selector_of(queue: Item) -> Selector | None:
    """The namespace selector, where there is one that can be read."""
    try:
        return read_selector(Fields.of(queue.spec, "spec"), "namespaceSelector")
    except InvalidObject:
        return None


# Jobs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template anywhere in an object, or the spec of a pod itself."""

    path: str  # of the pod's spec
    spec: Object

    @property
    def containers(self) -> Iterator[tuple[str, Object]]:
        for field in ("initContainers", "containers"):
            for index, container in enumerate(listed(self.spec.get(field))):
                yield f"{self.path}.{field}[{index}]", mapping(container)

    @property
    def requests(self) -> dict[str, int]:
        """What one pod asks for, in the units of quota; nothing where it cannot be read."""
        try:
            return dict(pod_shape(Fields.of(self.spec, self.path)).requests)
        except InvalidObject:
            return {}


def templates_of(item: Item) -> list[Template]:
    if item.kind == POD:
        return [Template("spec", item.spec)]
    return list(_templates_in(item.value.get("spec"), "spec", 0))


def _templates_in(value: object, path: str, depth: int) -> Iterator[Template]:
    """Every pod template below a value: under a key that ends in template, with containers in its spec."""
    if depth > MOST_DEPTH:
        return
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _templates_in(inner, f"{path}[{index}]", depth + 1)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if not isinstance(key, str):
            continue
        spec = mapping(mapping(inner).get("spec"))
        if key.lower().endswith("template") and isinstance(spec.get("containers"), list):
            yield Template(f"{path}.{key}.spec", spec)
        else:
            yield from _templates_in(inner, f"{path}.{key}", depth + 1)


@dataclass(frozen=True)
class JobView:
    """Something that runs pods, perhaps through a queue."""

    item: Item

    @cached_property
    def templates(self) -> list[Template]:
        return templates_of(self.item)

    @property
    def queue(self) -> str:
        """The LocalQueue named, in a label or, the old way, in an annotation."""
        if self.item.kind == WORKLOAD:
            return text(self.item.spec.get("queueName"))
        return self.item.labels.get(names.QUEUE_NAME) or self.item.annotations.get(names.QUEUE_NAME, "")

    @property
    def queue_path(self) -> str:
        if self.item.kind == WORKLOAD:
            return "spec.queueName"
        where = "labels" if names.QUEUE_NAME in self.item.labels else "annotations"
        return f"metadata.{where}[{names.QUEUE_NAME}]"

    @cached_property
    def requests(self) -> dict[str, int]:
        """The largest request of any of its pods, by resource."""
        largest: dict[str, int] = {}
        for template in self.templates:
            for resource, asked in template.requests.items():
                largest[resource] = max(asked, largest.get(resource, 0))
        return largest

    @property
    def pods(self) -> int:
        """How many pods run at once, where the object says so in a way known here."""
        return max(1, whole(self.item.spec.get("parallelism")) or 1) if self.item.kind == JOB else 1


# The set ----------------------------------------------------------------------------------------------------------


class ObjectSet:
    """All objects of the manifests given, found by kind and name. The objects must not change while it is used."""

    def __init__(self, objects: Iterable[Sourced]) -> None:
        self.items = [Item(source, mapping(value)) for source, value in objects]
        self._by_kind: dict[tuple[str, str], list[Item]] = {}
        self._by_name: dict[tuple[str, str], dict[tuple[str, str], Item]] = {}
        self._some_names: dict[tuple[tuple[str, str], str], list[str]] = {}
        for item in self.items:
            self._by_kind.setdefault(item.kind, []).append(item)
            # Of equal names the last counts, which is what applying the set leaves.
            self._by_name.setdefault(item.kind, {})[item.namespace, item.name] = item
            some = self._some_names.setdefault((item.kind, item.namespace), [])
            if len(some) < SHOWN_NAMES and item.name and item.name not in some:
                some.append(item.name)

    def of(self, kind: tuple[str, str]) -> list[Item]:
        return self._by_kind.get(kind, [])

    def find(self, kind: tuple[str, str], name: str, namespace: str = "") -> Item | None:
        return self._by_name.get(kind, {}).get((namespace, name))

    def some_names(self, kind: tuple[str, str], namespace: str = "") -> list[str]:
        """A few names of a kind, for a hint."""
        return sorted(self._some_names.get((kind, namespace), []))

    @cached_property
    def jobs(self) -> list[JobView]:
        views = [JobView(item) for item in self.items]
        return [view for view in views if view.item.kind in (JOB, POD) or view.queue]

    def queue_behind(self, job: JobView) -> Item | None:
        """The ClusterQueue that a job's LocalQueue leads to."""
        local = self.find(LOCAL_QUEUE, job.queue, job.item.namespace) if job.queue else None
        return None if local is None else self.find(CLUSTER_QUEUE, text(local.spec.get("clusterQueue")))

    @cached_property
    def jobs_by_queue(self) -> dict[str, list[JobView]]:
        """By ClusterQueue, the jobs that their LocalQueues lead to it."""
        result: dict[str, list[JobView]] = {}
        for job in self.jobs:
            if (queue := self.queue_behind(job)) is not None:
                result.setdefault(queue.name, []).append(job)
        return result

    @cached_property
    def served(self) -> dict[str, dict[str, list[Item]]]:
        """By ClusterQueue and namespace, the LocalQueues that point to it."""
        result: dict[str, dict[str, list[Item]]] = {}
        for local in self.of(LOCAL_QUEUE):
            queue = text(local.spec.get("clusterQueue"))
            result.setdefault(queue, {}).setdefault(local.namespace, []).append(local)
        return result

    @cached_property
    def homes(self) -> dict[str, list[str]]:
        """By LocalQueue name, the namespaces that have one."""
        result: dict[str, list[str]] = {}
        for local in self.of(LOCAL_QUEUE):
            result.setdefault(local.name, []).append(local.namespace)
        return result

    @cached_property
    def namespace_labels(self) -> Mapping[str, dict[str, str]]:
        """The labels of the namespaces given; Kubernetes adds each one's own name."""
        return {item.name: {**item.labels, names.NAMESPACE_NAME_LABEL: item.name} for item in self.of(NAMESPACE)}
