"""Groups of pods in a plan: Volcano's objects, decided on by a session over the nodes that all others use.

Called by `muster plan`. A scheduler configuration comes with the objects, as the ConfigMap that Volcano reads; without
one Volcano's own defaults hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from muster.app.group_documents import SHARED, GroupsInput
from muster.app.intake import Remark
from muster.app.policies import EXTENDER, build_tiers, without_extender
from muster.dialects.volcano.configuration import SchedulerConfiguration, default_tiers, read_configuration
from muster.dialects.volcano.jobs import expand_job, expand_pod
from muster.dialects.volcano.names import CONFIGURATION_KEY, DEFAULT_QUEUE
from muster.dialects.volcano.read import Reading, key_of, read
from muster.dialects.volcano.read_pods import group_of
from muster.dialects.volcano.validate import queue_faults, without_faults
from muster.dialects.volcano.write import group_status
from muster.engine.outside import Ask, ask_nobody
from muster.engine.reading import PlacementReader
from muster.engine.session import Session
from muster.engine.slots import NodeSlots
from muster.engine.stages.groups import run_until_settled
from muster.engine.standing import PodStanding
from muster.model.documents import Document, parse_documents
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields
from muster.model.groups import FairQueue, GroupSnapshot, PodStatus
from muster.model.slices import Slices
from muster.model.workload import Slot

NO_NODES = "no nodes are given to place it on"
_HAVE_TO_WAIT = frozenset((PodStatus.ALLOCATED, PodStatus.PIPELINED))  # pods with a place that cannot start yet


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group at the end of the plan."""

    key: str
    queue: str
    phase: str
    minimum: int
    binds: Mapping[str, str]  # node by pod, of those that start now
    promised: Mapping[str, str]  # of those that start when others have left, or with those that wait for that
    evicted: tuple[str, ...]  # of its pods, those told to go
    waiting: int  # pods without a place
    why: str  # it does not start, or not with all of them
    slots: Mapping[str, Slot] = field(default_factory=dict)  # by pod, of all that start or will: the node and its cards


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsReport:
    """What becomes of groups, what could not be read, and what has to be said besides."""

    views: tuple[GroupView, ...] = ()
    refused: tuple[Remark, ...] = ()
    warnings: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a session stands on: the moment, the nodes, how objects are read, and how other servers are asked."""

    now: float
    slots: NodeSlots | None  # None: there are no nodes
    placement: PlacementReader | None
    ask: Ask | None = None  # None: nobody may be asked


# The session ---------------------------------------------------------------------------------------------------------


def plan_groups(given: GroupsInput, ground: Ground) -> GroupsReport:
    """What becomes of groups on nodes that others have taken their part of."""
    refused: list[Remark] = []
    try:
        configuration = _configuration(given.configurations)
    except InvalidObjects as several:
        refused += [_remark("", "volcano-scheduler.conf", problem) for problem in several.problems]
        configuration = SchedulerConfiguration(tiers=default_tiers())
    except InvalidObject as problem:
        refused.append(_remark("", "volcano-scheduler.conf", problem))
        configuration = SchedulerConfiguration(tiers=default_tiers())
    reading = _read(given.documents, ground.now, ground.placement, refused)
    faults = queue_faults(reading.snapshot.queues)
    refused += [_remark("", f"Queue {name}", fault) for name, fault in faults]
    kept = without_faults(reading.snapshot.queues, faults)
    snapshot = _with_default_queue(replace(reading.snapshot, queues=kept))
    if ground.slots is None:
        return GroupsReport(views=tuple(_unplaced(snapshot)), refused=tuple(refused))
    try:
        tiers = build_tiers(configuration.tiers if ground.ask is not None else without_extender(configuration.tiers))
    except InvalidObjects as several:
        refused += [_remark("", "volcano-scheduler.conf", problem) for problem in several.problems]
        tiers = build_tiers(default_tiers())
    session = Session(snapshot, ground.slots, tiers.tiers, replace(configuration.options, ask=ground.ask or ask_nobody))
    refused += [
        _remark("", f"HyperNode {name}", InvalidObject("spec.members", problem))
        for name, problem in session.domains.problems
    ]
    run_until_settled(session, configuration.actions)
    session.close()
    orphans = sorted(key for key in snapshot.groups if key not in session.groups)
    views = [_view(session, key) for key in sorted(session.groups)]
    return GroupsReport(
        views=(*views, *(_orphan(snapshot, key) for key in orphans)),
        refused=tuple(refused),
        warnings=tuple(_warnings(session, configuration, is_asking=ground.ask is not None)),
    )


def _warnings(session: Session, configuration: SchedulerConfiguration, *, is_asking: bool) -> Iterator[Remark]:
    """What a user should know of servers that decide with the session."""
    uses = any(use.name == EXTENDER for tier in configuration.tiers for use in tier.policies)
    if uses and not is_asking:
        problem = InvalidObject(
            "tiers", "names an extender, and nobody is asked", "askExtenders: true in muster.yaml allows it"
        )
        yield _remark("", "volcano-scheduler.conf", problem)
    for address, why in session.outcome.troubles.items():
        yield _remark("", f"extender {address}", InvalidObject("", f"does not answer: {why}"))


def _configuration(documents: tuple[Document, ...]) -> SchedulerConfiguration:
    if not documents:
        return SchedulerConfiguration(tiers=default_tiers())
    text = Fields.of(documents[-1].value.get("data"), "data").text(CONFIGURATION_KEY)
    parsed = parse_documents(text, CONFIGURATION_KEY) if text.strip() else []
    return read_configuration(Fields.of(parsed[0].value if parsed else None))


def _read(
    documents: tuple[Document, ...], now: float, placement: PlacementReader | None, refused: list[Remark]
) -> Reading:
    objects: list[Fields] = []
    for document in documents:
        obj = Fields(document.value)
        try:
            objects.extend(Fields(made) for made in _expanded(obj))
        except InvalidObject as problem:
            refused.append(_remark(document.source, f"{obj.raw('kind')} {_called(obj)}", problem))
    reading = read(objects, now, placement)
    # Nodes and the like are spoken of by those who read all of them.
    own = [one for one in reading.refused if one[0].split(" ", 1)[0] not in SHARED]
    refused += [_remark("", name, problem) for name, problem in own]
    return reading


def _called(obj: Fields) -> str:
    try:
        return key_of(obj)
    except InvalidObject:
        return "without a name"


def _expanded(obj: Fields) -> list[dict[str, object]]:
    """An object with what Volcano's controllers make of it."""
    kind, version = obj.text("kind"), obj.text("apiVersion")
    if kind == "Job" and version.startswith("batch.volcano.sh/"):
        return expand_job(obj)
    named = _with_namespace(obj)
    if kind == "Pod" and not group_of(named):
        return expand_pod(named)
    return [dict(named.values)]


def _with_namespace(obj: Fields) -> Fields:
    if obj.text("kind") not in ("Pod", "PodGroup", "ResourceQuota", "PodDisruptionBudget"):
        return obj
    metadata = obj.child("metadata")
    if metadata.text("namespace"):
        return obj
    return Fields({**obj.values, "metadata": {**metadata.values, "namespace": "default"}}, obj.path)


def _with_default_queue(snapshot: GroupSnapshot) -> GroupSnapshot:
    """Volcano makes a queue for those that name none."""
    if DEFAULT_QUEUE in snapshot.queues:
        return snapshot
    return replace(snapshot, queues={**snapshot.queues, DEFAULT_QUEUE: FairQueue(name=DEFAULT_QUEUE)})


# The report ----------------------------------------------------------------------------------------------------------


def _view(session: Session, key: str) -> GroupView:
    group = session.groups[key]
    pods = group.pods.values()
    waiting = sum(pod.status is PodStatus.PENDING for pod in pods)
    is_lacking = waiting or not (session.tiers.is_ready(group) or session.tiers.is_promised(group))
    return GroupView(
        key=key,
        queue=group.queue,
        phase=group_status(session, group)["phase"],
        minimum=group.count_least,
        binds={pod.key: pod.node for pod in pods if pod.status is PodStatus.BINDING},
        promised={pod.key: pod.node for pod in pods if pod.status in _HAVE_TO_WAIT},
        evicted=tuple(pod.key for pod in pods if pod.key in session.outcome.evicted),
        waiting=waiting,
        why=session.outcome.reasons.get(key, "") if is_lacking else "",
        slots={pod.key: _slot(session, pod) for pod in pods if pod.status in _HAVE_TO_WAIT | {PodStatus.BINDING}},
    )


def _slot(session: Session, pod: PodStanding) -> Slot:
    if isinstance(pod.held, Slices):
        return Slot(pod.node, (), pod.held)
    return Slot(pod.node, pod.held, None, session.placer.table.slices.names_at(pod.row, pod.held))


def _orphan(snapshot: GroupSnapshot, key: str) -> GroupView:
    group = snapshot.groups[key]
    return _still(group.key, snapshot, f"queue {group.queue} is not there")


def _unplaced(snapshot: GroupSnapshot) -> Iterable[GroupView]:
    return (_still(key, snapshot, NO_NODES) for key in sorted(snapshot.groups))


def _still(key: str, snapshot: GroupSnapshot, why: str) -> GroupView:
    group = snapshot.groups[key]
    waiting = sum(pod.group == key and pod.status is PodStatus.PENDING for pod in snapshot.pods.values())
    return GroupView(
        key=key,
        queue=group.queue,
        phase=group.phase.value,
        minimum=group.minimum,
        binds={},
        promised={},
        evicted=(),
        waiting=waiting,
        why=why,
    )


def _remark(source: str, name: str, problem: InvalidObject) -> Remark:
    return Remark(source=source, object=name, path=problem.path, problem=problem.problem, hint=problem.hint)
