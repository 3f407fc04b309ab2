"""Reading pods of YuniKorn's into the model: their applications' queues, limits and workloads. Called by `muster plan`.

A pod is a workload of its own. The task groups of an application are one workload more: a gang that holds what the
groups ask for at least, in which as many of their pods stand. Pods on nodes hold their quota already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice

from muster.dialects.yunikorn import names
from muster.dialects.yunikorn.amounts import VCORE
from muster.dialects.yunikorn.applications import Application, PodOfApplication, gather
from muster.dialects.yunikorn.configuration import DEFAULT_PARTITION, Partition, QueueConfiguration
from muster.dialects.yunikorn.placement_rules import KNOWN_RULES, Placement
from muster.dialects.yunikorn.queue_tree import PREEMPTION_DELAY, QueueNode, QueueTree, delay_s
from muster.dialects.yunikorn.quota_preemption import Cap
from muster.dialects.yunikorn.read_queues import FLAVOR, LimitTable, caps_of, model_queues, property_doubts, queue_name
from muster.dialects.yunikorn.task_groups import TaskGroup
from muster.dialects.yunikorn.validate import chain_of, read_configuration
from muster.engine.reading import PlacementReader
from muster.model.documents import parse_value
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.podspec import pod_shape
from muster.model.queue import Queue, SharedLimit
from muster.model.resources import CPU, PODS, amount_of
from muster.model.workload import Admission, PodSet, PodSetAdmission, Workload

POD_SET = "main"
# What goes for pods where no configuration is given: the queue that they name, else that of their namespace.
ASSUMED = """
partitions:
  - name: default
    placementrules:
      - {name: provided, create: true}
      - {name: tag, value: namespace, create: true}
    queues:
      - {name: root, submitacl: '*'}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the pods meet."""

    now: float = 0.0
    total: Mapping[str, int] | None = None  # what all nodes have; None: nobody knows
    placement: PlacementReader | None = None
    namespace_annotations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    spared_classes: frozenset[str] = frozenset()  # priority classes whose pods are preempted last
    does_time_pass: bool = False  # else everybody has waited long enough to preempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The pods that stand in for what the task groups of an application need, and until when they are waited for."""

    pods: Mapping[str, tuple[str, ...]]  # namespace/name by task group, in the order in which they came
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What pods and a configuration came to."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    shared_limits: Mapping[str, SharedLimit] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)  # by workload: what it comes from
    gangs: Mapping[str, Gang] = field(default_factory=dict)  # by workload
    rejected: tuple[tuple[PodOfApplication, str], ...] = ()  # and why
    doubts: tuple[tuple[PodOfApplication | None, InvalidObject], ...] = ()  # of a pod, or of the configuration
    caps: Mapping[str, Cap] = field(default_factory=dict)  # by queue
    preempts_at: float | None = None  # when the next of those that wait may preempt


def assumed_configuration() -> QueueConfiguration:
    """The configuration of those who give none."""
    return read_configuration(ASSUMED, "assumed")


def read_pods(
    pods: Iterable[PodOfApplication], configuration: QueueConfiguration, surroundings: Surroundings
) -> Reading:
    """The queues of the default partition, and all applications in them."""
    partition = next((one for one in configuration.partitions if one.name == DEFAULT_PARTITION), None)
    if partition is None:
        given = ", ".join(one.name for one in configuration.partitions) or "none"
        why = f"the configuration has no partition {DEFAULT_PARTITION}, only {given[:200]}"
        return Reading(rejected=tuple((pod, why) for pod in pods))
    return _Reader(partition, surroundings).read(gather(pods))


class _Reader:
    """Applications of one partition on their way into the model."""

    def __init__(self, partition: Partition, surroundings: Surroundings) -> None:
        self.partition = partition
        self.surroundings = surroundings
        self.tree = QueueTree(partition)
        self.placement = Placement(partition, self.tree)
        self.table = LimitTable()
        self.limits: dict[str, SharedLimit] = {}
        self.workloads: dict[str, Workload] = {}
        self.owners: dict[str, str] = {}
        self.preempt_at: set[float] = set()
        self.gangs: dict[str, Gang] = {}
        self.rejected: list[tuple[PodOfApplication, str]] = []
        self.doubts: list[tuple[PodOfApplication | None, InvalidObject]] = []

    def read(self, applications: Iterable[Application]) -> Reading:
        self.doubts += [(None, doubt) for doubt in (*property_doubts(self.tree), *_rule_doubts(self.partition))]
        for application in applications:
            if all(pod.is_over for pod in application.pods):
                continue
            self.doubts += [(application.first, doubt) for doubt in application.doubts]
            try:
                queue = self._queue_of(application)
            except InvalidObject as problem:
                why = f"application {application.name[:80]}: {problem.problem}; {problem.hint}"
                self.rejected += [(pod, why) for pod in application.pods]
                continue
            self._take(application, queue)
        asked = {name for one in self.workloads.values() for pod_set in one.pod_sets for name in pod_set.requests}
        asked.update(name for limit in self.limits.values() for name in limit.most)
        queues = {
            queue.name: queue
            for queue in model_queues(self.tree, self.partition, total=self.surroundings.total, asked=asked)
        }
        if any(queue.group_of(PODS) is not None for queue in queues.values()):
            self.workloads = {key: _with_pods_counted(one) for key, one in self.workloads.items()}
        return Reading(
            queues=queues,
            shared_limits=self.limits,
            workloads=self.workloads,
            owners=self.owners,
            gangs=self.gangs,
            rejected=tuple(self.rejected),
            doubts=tuple(self.doubts),
            caps=caps_of(self.tree, self.partition),
            preempts_at=min(self.preempt_at, default=None),
        )

    def _queue_of(self, application: Application) -> QueueNode:
        annotations = self.surroundings.namespace_annotations.get(application.first.namespace, {})
        queue = self.placement.queue_of(application.submission(annotations))
        if queue.is_made:
            for doubt in _apply_namespace(queue, annotations):
                self.doubts.append((application.first, doubt))
        return queue

    # Workloads --------------------------------------------------------------------------------------------------------

    def _take(self, application: Application, queue: QueueNode) -> None:
        limits = {limit.name: limit for limit in self.table.limits_of(application, queue)}
        self.limits.update(limits)
        making = _Making(application, queue, tuple(limits), self)
        waited_s = self.surroundings.now - application.submitted_at
        is_late = bool(application.groups) and waited_s >= application.terms.timeout_s
        if is_late and application.terms.is_hard and not any(pod.node for pod in application.pods):
            why = f"its gang was not complete after {application.terms.timeout_s:.0f} s, and its style is Hard"
            self.rejected += [(pod, f"application {application.name}: {why}") for pod in application.pods]
            return
        standing_in: dict[str, tuple[str, ...]] = {}
        if application.groups and not is_late:
            try:
                gang, standing_in = making.gang()
            except InvalidObject as problem:
                self.rejected += [(pod, f"application {application.name}: {problem}") for pod in application.pods]
                return
            if gang is not None:
                self._keep(gang, application.first)
                until = application.submitted_at + application.terms.timeout_s
                self.gangs[gang.key] = Gang(pods=standing_in, until=until)
        of_gang = {key for keys in standing_in.values() for key in keys}
        for pod in application.pods:
            if pod.is_over:
                continue
            if pod.key not in of_gang and (pod.node or not pod.is_placeholder):
                try:
                    self._keep(making.alone(pod), pod)
                except InvalidObject as problem:
                    self.rejected.append((pod, str(problem)))

    def _keep(self, workload: Workload, pod: PodOfApplication) -> None:
        self.workloads[workload.key] = workload
        self.owners[workload.key] = pod.owner

    def may_preempt_at(self, queue: QueueNode, pod: PodOfApplication) -> float:
        """When a pod that waits may preempt; that is noted where it has yet to come."""
        if not self.surroundings.does_time_pass:
            return 0.0
        moment = pod.created_at + delay_s(queue, PREEMPTION_DELAY)
        if moment > self.surroundings.now and not pod.node:
            self.preempt_at.add(moment)
        return moment


class _Making:
    """The workloads of one application."""

    def __init__(self, application: Application, queue: QueueNode, limits: tuple[str, ...], reader: _Reader) -> None:
        self.application = application
        self.node = queue
        self.queue = queue_name(queue)
        self.limits = limits
        self.reader = reader
        self.placement = reader.surroundings.placement
        self.spared_classes = reader.surroundings.spared_classes

    def alone(self, pod: PodOfApplication) -> Workload:
        """A pod as a workload of one pod; one on a node holds its quota."""
        pod_set = self._pod_set(POD_SET, pod.pod, 1)
        is_spared = pod.pod.child("spec").text("priorityClassName") in self.spared_classes
        is_preemptible = not is_spared and pod.annotation(names.ALLOW_PREEMPTION).lower() != "false"
        namespace, _, name = pod.key.partition("/")
        waiting = self._workload(f"{namespace}/pod/{name}", pod, (pod_set,), is_preemptible=is_preemptible)
        if not pod.node:
            return waiting
        flavors = dict.fromkeys(pod_set.requests, FLAVOR)
        given = PodSetAdmission(name=POD_SET, count=1, flavors=flavors, usage=pod_set.requests)
        return waiting.changed(
            admission=Admission(queue=self.queue, pod_sets=(given,)),
            is_admitted=True,
            is_evicted=pod.metadata.has("deletionTimestamp"),
            is_ready=True,
            pods_bound=1,
            reserved_at=pod.created_at,
        )

    def gang(self) -> tuple[Workload | None, dict[str, tuple[str, ...]]]:
        """What the task groups still need at least, together, and the pods that stand in for it, by group."""
        pod_sets = []
        standing_in: dict[str, tuple[str, ...]] = {}
        first = self.application.first
        priority_class = first.pod.child("spec").text("priorityClassName")
        members: dict[str, list[PodOfApplication]] = {}
        for pod in self.application.pods:
            members.setdefault(pod.task_group, []).append(pod)
        for group in self.application.groups:
            pods = members.get(group.name, ())
            missing = group.members_least - sum(1 for pod in pods if pod.node)
            if missing <= 0:
                continue
            pod_sets.append(self._pod_set(group.name, group.as_pod(first.namespace, priority_class), missing))
            waiting = (pod for pod in pods if not pod.node and not pod.is_placeholder and _is_covered(pod, group))
            standing_in[group.name] = tuple(pod.key for pod in islice(waiting, missing))
        if not pod_sets:
            return None, standing_in
        return self._workload(f"{first.namespace}/app/{self.application.name}", first, tuple(pod_sets)), standing_in

    def _pod_set(self, name: str, pod: Fields, count: int) -> PodSet:
        shape = pod_shape(pod.child("spec"))
        requests = shape.requests
        if self.placement is None:
            return PodSet(name=name, count=count, count_least=count, requests=requests, shape=shape)
        return PodSet(
            name=name,
            count=count,
            count_least=count,
            requests=requests,
            shape=shape,
            rules=self.placement.rules_of(pod),
            cards=self.placement.cards_of(pod),
        )

    def _workload(
        self, key: str, pod: PodOfApplication, pod_sets: tuple[PodSet, ...], *, is_preemptible: bool = True
    ) -> Workload:
        kinds = [(one.name, one.count, one.shape, one.rules.of_kind, one.cards) for one in pod_sets]
        has_waited = self.reader.surroundings.now >= self.reader.may_preempt_at(self.node, pod)
        may_preempt = pod.pod.child("spec").text("preemptionPolicy") != "Never" and has_waited
        kind = repr((kinds, pod.priority, may_preempt, self.limits))
        return Workload(
            key=key,
            uid=f"{pod.created_at:017.6f} {key}",  # of those that queue alike the older goes first
            namespace=pod.namespace,
            queue=self.queue,
            priority=pod.priority,
            created_at=pod.created_at,
            queued_at=self.application.submitted_at,
            pod_sets=pod_sets,
            is_pod=len(pod_sets) == 1 and pod_sets[0].name == POD_SET,
            is_preemptible=is_preemptible,
            may_preempt=may_preempt,
            kind_key=blake2b(kind.encode(), digest_size=12).hexdigest(),
            application=self.application.name,
            limits=self.limits,
        )


def _with_pods_counted(workload: Workload) -> Workload:
    """A workload on a node holds its pods too, where pods are counted; one that waits is given them with the rest."""
    if workload.admission is None:
        return workload
    pod_sets = tuple(
        replace(one, flavors={**one.flavors, PODS: FLAVOR}, usage={**one.usage, PODS: one.count})
        for one in workload.admission.pod_sets
    )
    return workload.changed(admission=Admission(queue=workload.admission.queue, pod_sets=pod_sets))


def _is_covered(pod: PodOfApplication, group: TaskGroup) -> bool:
    """Whether a pod asks for no more than its group holds for it."""
    asked = pod_shape(pod.pod.child("spec")).requests
    return all(amount <= group.resources.get(name, 0) for name, amount in asked.items())


# Namespaces and doubts -----------------------------------------------------------------------------------------------


def _apply_namespace(queue: QueueNode, annotations: Mapping[str, str]) -> Iterator[InvalidObject]:
    """Give a queue that was made for a namespace what the namespace's annotations say; what is wrong does not count."""
    try:
        if texts := annotations.get(names.NAMESPACE_QUOTA):
            queue.most = _amounts(texts, names.NAMESPACE_QUOTA)
        else:
            old = {CPU: annotations.get(names.NAMESPACE_CPU), "memory": annotations.get(names.NAMESPACE_MEMORY)}
            if any(old.values()):
                queue.most = _quantities({name: text for name, text in old.items() if text}, names.NAMESPACE_CPU)
        if texts := annotations.get(names.NAMESPACE_GUARANTEED):
            queue.guaranteed = _amounts(texts, names.NAMESPACE_GUARANTEED)
        if text := annotations.get(names.NAMESPACE_APPLICATIONS):
            if not (text.isascii() and text.isdigit() and len(text) < 19):
                raise InvalidObject(names.NAMESPACE_APPLICATIONS, f"is {shown(text)}", "give 0 or more")
            queue.applications_most = int(text)
    except InvalidObject as problem:
        yield problem


def _amounts(text: str, path: str) -> dict[str, int]:
    return _quantities(parse_value(text, path), path)


def _quantities(value: object, path: str) -> dict[str, int]:
    quantities = Fields({"amounts": value}, path).quantities("amounts")
    amounts = {name: amount_of(name, quantity) for name, quantity in quantities.items()}
    if any(amount < 0 for amount in amounts.values()):
        raise InvalidObject(path, "has less than nothing", "give 0 or more")
    return {VCORE if name == CPU else name: amount for name, amount in amounts.items()}


def _rule_doubts(partition: Partition) -> Iterator[InvalidObject]:
    for index, rule in enumerate(partition.rules):
        for one in chain_of(rule):
            if one.name.lower() not in KNOWN_RULES:
                hint = f"known are {', '.join(KNOWN_RULES)}"
                yield InvalidObject(f"placementrules[{index}]", f"is {shown(one.name)} and leads nowhere", hint)
