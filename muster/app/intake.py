"""Documents as the engine's readers want them: checked, defaulted, in one version, jobs turned into workloads.

Called by `muster plan` and `muster lint`. Whatever is wrong with an object is a remark that names its file, the object
and the field; the object is left out and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from muster.app.config import Configuration
from muster.app.intake_jobs import finder, is_own
from muster.app.intake_nodes import check_amounts, taken_as_ready
from muster.app.plugins import integrations
from muster.app.yunikorn_intake import Found, YunikornInput, YunikornIntake
from muster.dialects.kueue.defaults import DEFAULT_NAMESPACE, apply_defaults
from muster.dialects.kueue.forgiving import forgive
from muster.dialects.kueue.identity import api_version
from muster.dialects.kueue.job_workloads import (
    Surroundings,
    namespace_of,
    path_in_job,
    prebuilt_name,
    queue_of,
    uid_of,
    unknown_metadata,
    with_generated_name,
    workload_of,
)
from muster.dialects.kueue.kinds import HUB, KINDS
from muster.dialects.kueue.names import GROUP, NAMESPACE_NAME_LABEL, QUEUE_NAME
from muster.dialects.kueue.read import read
from muster.dialects.kueue.validate import problems_of, unknown_fields_of
from muster.dialects.kueue.versions import to_hub
from muster.dialects.kueue.warning import ObjectWarning
from muster.engine.contracts import Integration
from muster.engine.profile import Batch
from muster.engine.reading import PlacementReader
from muster.model.device import Device
from muster.model.documents import Document
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown
from muster.model.labels import dns1123_subdomain_problem
from muster.model.times import moment_text, parse_moment

POD_GROUP = f"{GROUP}/pod-group-name"
NODE = ("", "Node")
PERSISTENT_VOLUME = ("", "PersistentVolume")
READ_AS_THEY_ARE = (
    ("", "Namespace"),
    ("", "LimitRange"),
    PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"),
)
NAMES_NO_QUEUE = "names no queue"
NO_QUEUE = "(no queue)"  # where those wait that name none: without limits, by priority
POD = ("", "Pod")
PRIORITY_CLASS = ("scheduling.k8s.io", "PriorityClass")
NAMED_MOST = 80
PODS_ALONE_MOST = 5000  # of a job whose pods are decided on one by one

Object = dict[str, Any]
Kind = tuple[str, str]  # group and kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something about a field of an object: an error that keeps it out, or a warning."""

    source: str
    object: str  # "Kind namespace/name"
    path: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.source, self.object, self.path) if part)
        return f"{where}: {self.problem}" + (f"; {self.hint}" if self.hint else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotManaged:
    """Something that runs pods and is not counted against a queue."""

    source: str
    object: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What a set of documents came to."""

    objects: tuple[Object, ...] = ()  # for the reader: Kueue's objects in the hub version, namespaces, nodes and so on
    owners: Mapping[str, str] = field(default_factory=dict)  # by workload: the job that it is for
    refused: tuple[Remark, ...] = ()
    warnings: tuple[Remark, ...] = ()
    not_managed: tuple[NotManaged, ...] = ()
    without_queue: frozenset[str] = frozenset()  # workloads of jobs that name no queue and are placed all the same
    passed_over: Mapping[str, int] = field(default_factory=dict)  # by kind: objects without a part in the plan
    yunikorn: YunikornInput = field(default_factory=YunikornInput)


def take_in(
    documents: Iterable[Document], configuration: Configuration, now: float, *, placement: PlacementReader | None = None
) -> Intake:
    """All that the documents say, ready to be read; where pods are placed, also jobs that no queue counts."""
    taking = _Taking(configuration, now, placement)
    for document in documents:
        taking.sort_in(document)
    return taking.finish()


def latest_moment(documents: Iterable[Document]) -> float | None:
    """The latest time at which something happened to any of the objects; `None` when none of them says."""
    return max((when for document in documents for when in _moments(document.value)), default=None)


def _moments(value: Mapping[str, Any]) -> Iterator[float]:
    """When an object was made and when its conditions changed; what cannot be read is named later, by validation."""
    try:
        fields = Fields.of(value)
        texts = [fields.child("metadata").text("creationTimestamp")]
        texts += [item.text("lastTransitionTime") for item in fields.child("status").children("conditions")]
        yield from [parse_moment(text, "") for text in texts if text]
    except InvalidObject:
        return


def problems_in(problem: InvalidObject) -> tuple[InvalidObject, ...]:
    """The single problems of an exception."""
    return problem.problems if isinstance(problem, InvalidObjects) else (problem,)


@dataclass(frozen=True, slots=True)
class _Item:
    """One object on its way in."""

    value: Object
    source: str
    kind: Kind

    @property
    def metadata(self) -> Fields:
        return Fields(self.value).child("metadata")

    @property
    def reference(self) -> str:
        return _reference(self.value, self.kind)


def _reference(value: Mapping[str, Any], kind: Kind) -> str:
    """How an object is called in messages, whatever it holds."""
    metadata = value.get("metadata")
    texts = metadata if isinstance(metadata, Mapping) else {}
    name = texts.get("name") or texts.get("generateName")
    namespace = texts.get("namespace") or ("" if _is_unplaced(kind) else DEFAULT_NAMESPACE)
    called = name if isinstance(name, str) else "without a name"
    place = f"{namespace}/" if isinstance(namespace, str) and namespace else ""
    return f"{kind[1][:NAMED_MOST] or 'object'} {(place + called)[:NAMED_MOST]}"


def _is_unplaced(kind: Kind) -> bool:
    """Whether objects of a kind lie in no namespace, as far as is known here."""
    group, name = kind
    if group == GROUP:
        return name in KINDS and not KINDS[name].is_namespaced
    return kind == PRIORITY_CLASS or kind in (("", "Namespace"), NODE, PERSISTENT_VOLUME, ("", ""))


class _Taking:
    """The objects of one call, and what is to be said about them."""

    def __init__(self, configuration: Configuration, now: float, placement: PlacementReader | None) -> None:
        self.configuration = configuration
        self.now = now
        self.is_placing = placement is not None
        self.how = replace(configuration.read_options(now), placement=placement)
        self.known = {(one.gvk.group, one.gvk.kind): one for one in integrations().values()}
        self.items: dict[tuple[Kind, str, str], _Item] = {}  # by kind, namespace and name
        self.count = 0
        self.objects: list[Object] = []
        self.workloads: dict[str, Fields] = {}  # by namespace/name
        self.owners: dict[str, str] = {}
        self.refused: list[Remark] = []
        self.warnings: list[Remark] = []
        self.not_managed: list[NotManaged] = []
        self.without_queue: set[str] = set()
        self.passed_over: dict[str, int] = {}
        self.yunikorn = YunikornIntake()

    def sort_in(self, document: Document) -> None:
        """Take one document; of two objects by the same name the later one counts, as when they are applied."""
        self.count += 1
        kind = ("", "")
        try:
            if self.yunikorn.takes_file(document.value):
                return
            kind = _kind_of(document.value)
            value = _with_metadata(document.value, kind, self.count, self.now)
            item = _Item(value, document.source, kind)
            key = (kind, item.metadata.text("namespace"), item.metadata.text("name"))
        except InvalidObject as problem:
            self._refuse(_Item(document.value, document.source, kind), problem)
            return
        if key in self.items:
            twice = f"is given twice, first in {self.items[key].source}"
            self._warn(item, ObjectWarning("metadata.name", twice, "the later one counts"))
        self.items[key] = item

    def finish(self) -> Intake:
        """Check what was taken and make workloads of the jobs."""
        for take in (self._take_object, self._take_job):
            for item in self.items.values():
                try:
                    take(item)
                except InvalidObject as problem:
                    self._refuse(item, problem)
        return Intake(
            objects=tuple(self.objects),
            owners=self.owners,
            refused=tuple(self.refused),
            warnings=tuple(self.warnings),
            not_managed=tuple(self.not_managed),
            without_queue=frozenset(self.without_queue),
            passed_over=self.passed_over,
            yunikorn=self.yunikorn.finish(),
        )

    # Objects that jobs meet ---------------------------------------------------------------------------------------

    def _take_object(self, item: _Item) -> None:
        if item.kind[0] == GROUP:
            self._take_kueue(item)
        elif item.kind == NODE:
            _check_name(item)
            check_amounts(Fields(item.value).child("status"))
            self._keep(taken_as_ready(item.value))
            self._warn(item, *self._doubts(Fields(item.value), ()))
            if self.is_placing and not Fields(item.value).child("status").child("allocatable").values:
                self._warn(item, ObjectWarning("status.allocatable", "is missing, so no pod fits on the node"))
        elif item.kind in READ_AS_THEY_ARE:
            _check_name(item)
            self._keep(item.value)
        elif item.kind == PRIORITY_CLASS:
            Fields(item.value).integer("value")
            Fields(item.value).flag("globalDefault")
            self._keep(item.value)
        elif item.kind not in self.known and not self.yunikorn.takes_map(item.value):
            self._pass_over(item)

    def _take_kueue(self, item: _Item) -> None:
        gates, strict = self.configuration.gates, self.configuration.strict_validation
        errors, warnings = problems_of(item.value, gates=gates, strict=strict)
        named = {error.path for error in errors}
        unknown = tuple(one for one in unknown_fields_of(item.value, strict=strict) if one.path not in named)
        if strict:
            errors += unknown
        if errors:
            raise InvalidObjects(errors)
        self._warn(item, *warnings, *unknown)
        read_as = item.value if strict else forgive(item.value)[0]
        obj = apply_defaults(read_as, gates)
        if obj["apiVersion"] != api_version(HUB):
            # As a server does: the defaults of the version it came in, then those of the version that is stored.
            obj = apply_defaults(to_hub(obj, preserve=False), gates)
        fields = Fields(obj)
        if item.kind[1] == "AdmissionCheck" and not fields.child("status").items("conditions"):
            active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
            stamped = {**active, "lastTransitionTime": moment_text(self.now)}
            obj = {**obj, "status": {"conditions": [stamped]}}
            self._warn(item, ObjectWarning("status", "is empty: the check is taken to be active"))
        if item.kind[1] == "Workload":
            metadata = fields.child("metadata")
            self.workloads[f"{metadata.text('namespace')}/{metadata.text('name')}"] = fields
        self._keep(obj)

    def _doubts(self, obj: Fields, devices: tuple[Device, ...]) -> tuple[InvalidObject, ...]:
        """What an object says of cards that is not believed."""
        return self.how.placement.doubts_of(obj, devices) if self.how.placement is not None else ()

    def _devices_of(self, node: str) -> tuple[Device, ...]:
        """The cards of a node by its name; none where cards are not read, or not readable."""
        item = self.items.get((NODE, "", node))
        if item is None or self.how.placement is None:
            return ()
        try:
            return self.how.placement.devices_of(Fields(item.value))
        except InvalidObject:
            return ()  # said of the node itself

    def _keep(self, obj: Object) -> None:
        """Take an object that can be read; what cannot is named here, where its file is known."""
        read((obj,), self.how)
        self.objects.append(obj)

    def _pass_over(self, item: _Item) -> None:
        """Keep count of what has no part here; a kind of job that is not known yet is named."""
        metadata = item.metadata
        names_queue = QUEUE_NAME in metadata.text_map("labels") or QUEUE_NAME in metadata.text_map("annotations")
        if names_queue:
            self._leave_out(item, f"names a queue, and jobs of the kind {item.kind[1]} are not read yet")
        else:
            kind = ".".join(part for part in reversed(item.kind) if part)
            self.passed_over[kind] = self.passed_over.get(kind, 0) + 1

    # Jobs ---------------------------------------------------------------------------------------------------------

    def _take_job(self, item: _Item) -> None:
        """Make the workload of a job, unless it has one or is none of ours."""
        integration = self.known.get(item.kind)
        if integration is None:
            return
        job = Fields(item.value)
        if item.value["apiVersion"] != integration.gvk.api_version:
            hint = f"give {integration.gvk.api_version}"
            raise job.error("apiVersion", f"is {shown(item.value['apiVersion'])}", hint)
        if is_own(integration):
            integration.pod_sets(job)  # What Kubernetes refuses is refused, whoever the job is for.
        if item.kind == POD and job.child("spec").text("nodeName"):
            self._keep(item.value)  # It occupies its node, whoever pays for it.
            self._warn(item, *self._doubts(job, self._devices_of(job.child("spec").text("nodeName"))))
        unknown = unknown_metadata(job)
        if unknown and self.configuration.strict_validation:
            raise InvalidObjects(unknown)
        self._warn(item, *unknown)
        if self.yunikorn.claims(job, integration):
            self._take_for_yunikorn(item, job, integration)
            return
        why = self._why_not_managed(job, integration)
        if why == NAMES_NO_QUEUE and self._is_to_be_placed(job, integration):
            self.without_queue.add(self._make_workload(item, job, integration))
            return
        if why:
            node = job.child("spec").text("nodeName") if self.is_placing and why == NAMES_NO_QUEUE else ""
            self._leave_out(item, f"{why}; what it holds of node {node} counts" if node else why)
            return
        existing = self._workload_of(job, integration)
        if existing:
            self.owners[existing] = item.reference
            return
        job = Fields(integration.settle(job, finder({key: item.value for key, item in self.items.items()})))
        if not integration.pod_sets(job):
            self._leave_out(item, "has no pods of its own")
            return
        self._make_workload(item, job, integration)

    def _take_for_yunikorn(self, item: _Item, job: Fields, integration: Integration) -> None:
        classes = self.surroundings.pod_classes
        priorities = {**classes, "": classes.get(self.surroundings.default_pod_class, 0)}
        found = Found(job=job, integration=integration, reference=item.reference, source=item.source)
        if why := self.yunikorn.take(found, priorities):
            self._leave_out(item, why)

    def _make_workload(self, item: _Item, job: Fields, integration: Integration) -> str:
        made = workload_of(job, integration, self.surroundings)
        self._warn(item, *made.warnings)
        pod_sets = integration.pod_sets(job)
        try:
            self._keep(made.obj)
        except InvalidObject as problem:
            path = path_in_job(problem.path, pod_sets)
            raise InvalidObject(path, problem.problem, problem.hint) from None
        count = sum(pod_set.count for pod_set in pod_sets)
        if self.configuration.profile.batch is Batch.PODS and count > PODS_ALONE_MOST:
            hint = f"the first {PODS_ALONE_MOST} are decided on one by one"
            self._warn(item, ObjectWarning("spec", f"has {count} pods", hint))
        key = f"{namespace_of(job)}/{made.obj['metadata']['name']}"
        self.owners[key] = item.reference
        return key

    def _is_to_be_placed(self, job: Fields, integration: Integration) -> bool:
        """Whether the pods of a job that no queue counts look for nodes."""
        is_bound = bool(job.child("spec").text("nodeName"))
        return self.is_placing and is_own(integration) and not is_bound and not integration.is_suspended(job)

    @cached_property
    def surroundings(self) -> Surroundings:
        """What the jobs meet; asked for when all other objects are in."""
        by_kind: dict[str, list[Fields]] = {}
        for obj in self.objects:
            by_kind.setdefault(obj["kind"], []).append(Fields(obj))
        pod_classes = {_name(one): one.integer("value") for one in by_kind.get("PriorityClass", ())}
        defaults = [_name(one) for one in by_kind.get("PriorityClass", ()) if one.flag("globalDefault")]
        return Surroundings(
            workload_classes={_name(one): one.integer("value") for one in by_kind.get("WorkloadPriorityClass", ())},
            pod_classes=pod_classes,
            # Kubernetes: of several defaults the lowest counts.
            default_pod_class=min(defaults, key=lambda name: (pod_classes[name], name), default=""),
            local_queues=frozenset(f"{namespace_of(one)}/{_name(one)}" for one in by_kind.get("LocalQueue", ())),
            labels_to_copy=self.configuration.labels_to_copy,
            gates=self.configuration.gates,
            strict=self.configuration.strict_validation,
            now=self.now,
        )

    @cached_property
    def namespace_labels(self) -> dict[str, dict[str, str]]:
        namespaces = (Fields(obj) for obj in self.objects if obj["kind"] == "Namespace")
        return {_name(one): one.child("metadata").text_map("labels") for one in namespaces}

    def _why_not_managed(self, job: Fields, integration: Integration) -> str:
        """Why a job is not counted against a queue; empty when it is."""
        configuration, metadata = self.configuration, job.child("metadata")
        if configuration.frameworks is not None and integration.name not in configuration.frameworks:
            return f"the configuration does not turn {integration.name} on"
        if metadata.has("deletionTimestamp"):
            return "is being deleted"
        for owner in metadata.children("ownerReferences"):
            group = owner.text("apiVersion").rpartition("/")[0]
            if owner.flag("controller") and (group, owner.text("kind")) in self.known:
                return f"is counted through its owner, {owner.text('kind')} {owner.text('name')}"
        namespace = namespace_of(job)
        labels = {NAMESPACE_NAME_LABEL: namespace, **self.namespace_labels.get(namespace, {})}
        if not configuration.managed_namespaces.matches(labels):
            return "the configuration does not manage its namespace"
        queue, warnings = queue_of(job, self.surroundings)
        if not queue and not configuration.manages_jobs_without_queue:
            return "; ".join(f"{one.problem}; {one.hint}" for one in warnings) or NAMES_NO_QUEUE
        group_name = metadata.text_map("labels").get(POD_GROUP) or metadata.text_map("annotations").get(POD_GROUP)
        if group_name:
            return f"is part of the pod group {group_name}, and groups of pods are not read yet"
        prebuilt = prebuilt_name(job)
        if prebuilt and f"{namespace}/{prebuilt}" not in self.workloads:
            return f"waits for its workload {prebuilt}, which is not there"
        return ""

    def _workload_of(self, job: Fields, integration: Integration) -> str:
        """The workload among the objects that is a job's own; empty when there is none."""
        namespace = namespace_of(job)
        if prebuilt := prebuilt_name(job):
            return f"{namespace}/{prebuilt}"
        uid, name = uid_of(job, integration.gvk), job.child("metadata").text("name")
        by_name = self._owned.get((namespace, integration.gvk.kind, name), "")
        return self._owned.get((namespace, "", uid), by_name)

    @cached_property
    def _owned(self) -> dict[tuple[str, str, str], str]:
        """The workloads among the objects by their owners: namespace, kind and name, or namespace and uid."""
        owned = {}
        for key, workload in self.workloads.items():
            namespace = namespace_of(workload)
            for owner in workload.child("metadata").children("ownerReferences"):
                owned[namespace, owner.text("kind"), owner.text("name")] = key
                owned[namespace, "", owner.text("uid")] = key
        return owned

    # Remarks ------------------------------------------------------------------------------------------------------

    def _refuse(self, item: _Item, problem: InvalidObject) -> None:
        for one in problems_in(problem):
            self.refused.append(_remark(item, one))

    def _warn(self, item: _Item, *warnings: ObjectWarning | InvalidObject) -> None:
        self.warnings += [_remark(item, warning) for warning in warnings]

    def _leave_out(self, item: _Item, why: str) -> None:
        self.not_managed.append(NotManaged(source=item.source, object=item.reference, why=why))


def _remark(item: _Item, about: ObjectWarning | InvalidObject) -> Remark:
    return Remark(source=item.source, object=item.reference, path=about.path, problem=about.problem, hint=about.hint)


def _check_name(item: _Item) -> None:
    metadata = item.metadata
    if problem := dns1123_subdomain_problem(metadata.text("name")):
        raise metadata.error("name", problem, "give a name of lowercase letters, digits, '-' and '.'")


def _name(obj: Fields) -> str:
    return obj.child("metadata").text("name")


def _kind_of(value: Mapping[str, Any]) -> Kind:
    """Group and kind of an object that says both."""
    fields = Fields(value)
    version, kind = fields.text("apiVersion"), fields.text("kind")
    if not version or not kind:
        missing = "apiVersion" if not version else "kind"
        raise fields.error(missing, "is missing", "name the kind of object; a configuration is given with --config")
    return version.rpartition("/")[0], kind


def _with_metadata(value: Object, kind: Kind, number: int, now: float) -> Object:
    """The object with the name, namespace and time that a server would give it where it has none."""
    metadata = Fields(value).child("metadata")
    named = value
    if not metadata.text("name") and metadata.text("generateName"):
        named = with_generated_name(value, number)
    given = dict(Fields(named).child("metadata").values)
    if not metadata.text("namespace") and not _is_unplaced(kind):
        given["namespace"] = DEFAULT_NAMESPACE
    if not metadata.has("creationTimestamp"):
        # Those that come without a time came now, one after the other.
        given["creationTimestamp"] = f"{moment_text(now)[:-1]}.{number:06d}Z"
    return {**named, "metadata": given}
