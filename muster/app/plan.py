"""What would happen to a set of manifests: read them, run cycles until nothing changes, and say why. No cluster needed.

Called by `muster plan` and by the scenario tests. Nobody leaves in a plan: a workload that is told to go keeps its
quota, so the one that it goes for is shown as waiting for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from muster.app.config import Configuration
from muster.app.group_documents import GroupsInput, split_groups
from muster.app.intake import NO_QUEUE, Intake, NotManaged, Remark, latest_moment, take_in
from muster.dialects.kueue.read import read
from muster.engine.assignment import Outcome
from muster.engine.cycle import Cycle
from muster.engine.decide import decide
from muster.engine.explain import in_full, shortages_of, verdict_of, verdicts_of_all
from muster.engine.invariants import violations
from muster.engine.nominate import nominate
from muster.engine.state import EngineState
from muster.engine.tree import QuotaNode
from muster.model.documents import Document
from muster.model.plan import Evict, Finish, Plan, Requeue, Reserve, Shrink
from muster.model.queue import Stop
from muster.model.reason import Code, Reason, Verdict
from muster.model.resources import FlavorResource, sum_amounts
from muster.model.snapshot import Snapshot
from muster.model.workload import CheckState, PodSetAdmission, Slot, Workload

if TYPE_CHECKING:
    from muster.app.groups import GroupsReport, GroupView
    from muster.app.vendor_settings import KnownVendors
    from muster.engine.fit import FitReport
    from muster.engine.reading import PlacementReader
    from muster.engine.slots import HooksOf

__all__ = ["PlanOptions", "PlanReport", "latest_moment", "plan_objects"]

CYCLES_MOST = 100_000
CIRCULAR = "its cohorts go round in a circle"
# Verdicts that name amounts: others may have been admitted after the workload was tried.
NAMES_AMOUNTS = frozenset(
    (Code.WAITING_FOR_QUOTA, Code.WAITING_FOR_NODES, Code.LOST_TO_ANOTHER, Code.EXCEEDS_MAX_QUOTA)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How a plan is made."""

    now: float
    configuration: Configuration = field(default_factory=Configuration)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A workload got quota; it starts at once unless checks are to be passed."""

    cycle: int
    workload: str
    queue: str
    is_started: bool
    pod_sets: tuple[PodSetAdmission, ...]
    asked: Mapping[str, int]  # pods, by pod set
    borrowed: Mapping[FlavorResource, int]  # what its queue now uses above its own share
    reason: Reason
    considered: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicted:
    """A workload was told to go; it keeps its quota until its pods are gone."""

    cycle: int
    workload: str
    queue: str  # that it leaves
    in_favour_of: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """Pods above a workload's minimum were told to go; it goes on with the rest."""

    cycle: int
    workload: str
    queue: str
    in_favour_of: str
    slots: Mapping[str, tuple[Slot, ...]]  # by pod set
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A workload ended because another took over its work."""

    cycle: int
    workload: str
    queue: str
    in_favour_of: str
    reason: Reason


Step = Admitted | Evicted | Shrunk | Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A workload that was not admitted: its verdict, and what it asks for."""

    verdict: Verdict
    needs: Mapping[str, int]  # by resource, of all its pods
    fits: Mapping[str, FitReport] = field(default_factory=dict)  # by pod set: how one of its pods fares on the nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """A queue at the end of the plan."""

    name: str
    cohort: str
    inactive_because: str
    holding: int  # workloads with quota, those told to go included
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """All that a plan has to say."""

    now: float
    cycles: int
    is_settled: bool  # nothing more would change
    steps: tuple[Step, ...]
    waiting: tuple[Waiting, ...]
    held_before: tuple[str, ...]  # workloads that came with quota
    queues: tuple[QueueView, ...]
    owners: Mapping[str, str]  # by workload: the job that it is for
    refused: tuple[Remark, ...]
    warnings: tuple[Remark, ...]
    not_managed: tuple[NotManaged, ...]
    passed_over: Mapping[str, int]
    is_placed: bool  # nodes were decided on; else quota alone
    groups: tuple[GroupView, ...] = ()  # of pods that a session decides on


def plan_objects(documents: Iterable[Document], options: PlanOptions) -> PlanReport:
    """The plan for a set of documents. Whatever is wrong with an object is in the report, never an exception."""
    given, groups = split_groups(documents)
    # Without any nodes there is nothing to place on, and the question is about quota.
    is_placed = options.configuration.profile.needs_place and any(map(_has_amounts, given))
    cards = _known_vendors(given) if is_placed else None
    intake, snapshot, state = _placed(given, options, cards) if cards is not None else _counted(given, options)
    run = _Run(state)
    run.until_settled(options.now)
    planned = _planned_groups(groups, state, options, cards) if groups.is_any else None
    waiting = tuple(run.waiting())
    return PlanReport(
        now=options.now,
        cycles=state.cycle,
        is_settled=run.is_settled,
        steps=tuple(run.steps),
        waiting=waiting,
        held_before=tuple(sorted(key for key, one in snapshot.workloads.items() if _holds(one))),
        queues=tuple(_queue_views(state, snapshot, waiting)),
        owners=_owners(intake, state),
        refused=(
            *intake.refused,
            *(cards.refused if cards is not None else ()),
            *(planned.refused if planned is not None else ()),
        ),
        warnings=(*intake.warnings, *(planned.warnings if planned is not None else ())),
        not_managed=tuple(one for one in intake.not_managed if one.object not in groups.bound),
        passed_over=intake.passed_over,
        is_placed=is_placed,
        groups=planned.views if planned is not None else (),
    )


def _known_vendors(documents: Iterable[Document]) -> KnownVendors:
    from muster.app.vendor_settings import known_vendors

    return known_vendors(documents)


def _planned_groups(
    groups: GroupsInput, state: EngineState, options: PlanOptions, cards: KnownVendors | None
) -> GroupsReport:
    """What becomes of groups of pods on what the others have left."""
    from muster.app.groups import Ground, plan_groups
    from muster.app.outside import post_json
    from muster.app.placement import placement_reader

    slots = state.places.slots
    reader = placement_reader(cards.vendors) if cards is not None else None
    ask = post_json if options.configuration.asks_extenders else None
    return plan_groups(groups, Ground(now=options.now, slots=slots, placement=reader, ask=ask))


def _owners(intake: Intake, state: EngineState) -> dict[str, str]:
    """The job of every workload; where pods are decided on one by one, of every pod."""
    owners = dict(intake.owners)
    for key in state.workloads:
        if key not in owners and (owner := intake.owners.get(key.rpartition("-")[0])):
            owners[key] = owner
    return owners


def _has_amounts(document: Document) -> bool:
    """Whether a document is a node that says what it has."""
    status = document.value.get("status")
    return document.value.get("kind") == "Node" and isinstance(status, dict) and bool(status.get("allocatable"))


def _counted(documents: Iterable[Document], options: PlanOptions) -> tuple[Intake, Snapshot, EngineState]:
    """What is decided on by quota alone."""
    intake = take_in(documents, options.configuration, options.now)
    snapshot = read(intake.objects, options.configuration.read_options(options.now))
    intake, snapshot = _with_yunikorn(intake, snapshot)
    return intake, snapshot, EngineState(snapshot)


def _with_yunikorn(
    intake: Intake, snapshot: Snapshot, *, placement: PlacementReader | None = None
) -> tuple[Intake, Snapshot]:
    """The same with what is YuniKorn's, if there is anything: else its reading need not be loaded."""
    if not intake.yunikorn.is_any:
        return intake, snapshot
    from muster.app.yunikorn import with_yunikorn

    return with_yunikorn(intake, snapshot, placement=placement)


def _placed(
    documents: Iterable[Document], options: PlanOptions, cards: KnownVendors
) -> tuple[Intake, Snapshot, EngineState]:
    """What is decided on down to nodes and cards."""
    from muster.app.placement import node_slots, placement_reader, with_plain_queue
    from muster.app.running import left_without_nodes, with_running_pods

    configuration, reader = options.configuration, placement_reader(cards.vendors)
    intake = take_in(documents, configuration, options.now, placement=reader)
    snapshot = read(intake.objects, replace(configuration.read_options(options.now), placement=reader))
    intake, snapshot = _with_yunikorn(intake, snapshot, placement=reader)
    snapshot = with_running_pods(snapshot, intake.objects, intake.owners, known=cards.vendors)
    intake = replace(intake, warnings=(*intake.warnings, *left_without_nodes(snapshot)))
    snapshot = with_plain_queue(snapshot, configuration.profile, intake.without_queue)
    snapshot = replace(snapshot, settings=replace(snapshot.settings, needs_slots=True))
    slots = node_slots(snapshot, configuration, hooks_of=_hooks_of(intake), known=cards.vendors)
    return intake, snapshot, EngineState(snapshot, slots)


def _hooks_of(intake: Intake) -> HooksOf | None:
    """The policies by which a system's own configuration has its pods choose nodes, where it says so."""
    if intake.yunikorn.configuration is None:
        return None
    from muster.app.yunikorn import node_order

    return node_order(intake.yunikorn.configuration)


def _holds(workload: Workload) -> bool:
    return workload.admission is not None and not workload.is_finished


class _Run:
    """Cycles over one state, and what came of them."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.steps: list[Step] = []
        self.is_settled = False
        self._verdicts: dict[str, Verdict] = {}

    def until_settled(self, now: float) -> None:
        """Run cycles until every head was tried in vain since the last change; a sound state stays sound."""
        was_sound = not any(violations(self.state))  # manifests may tell of anything
        self._run_cycles(now)
        broken = list(violations(self.state)) if was_sound else []
        assert not broken, f"the cycles have broken the state: {'; '.join(broken)}"

    def _run_cycles(self, now: float) -> None:
        while self.state.cycle < CYCLES_MOST:
            if self.state.is_settled and not self.state.growing():
                self.is_settled = True
                return
            self.state.begin_cycle(now)
            plan = decide(self.state)
            self.state.apply(plan)
            self._note(plan)

    def _note(self, plan: Plan) -> None:
        """Take down what a cycle decided."""
        for decision in plan.decisions:
            if isinstance(decision, Reserve):
                self.steps.append(self._admitted(decision))
                self._verdicts.pop(decision.workload, None)
                if not decision.is_admitted:
                    self._await_checks(decision)
            elif isinstance(decision, Evict):
                self.steps.append(self._evicted(decision))
            elif isinstance(decision, Shrink):
                self.steps.append(self._shrunk(decision))
            elif isinstance(decision, Finish):
                self.steps.append(self._ended(decision))
            elif isinstance(decision, Requeue) and decision.workload in plan.verdicts:
                self._verdicts[decision.workload] = plan.verdicts[decision.workload]

    def _admitted(self, decision: Reserve) -> Admitted:
        workload = self.state.workloads[decision.workload]
        admission = decision.admission
        node = self.state.tree.leaf(admission.queue)
        assert node is not None, f"{decision.workload} got quota of a queue that is not there"
        return Admitted(
            cycle=self.state.cycle,
            workload=decision.workload,
            queue=node.queue.title,
            is_started=decision.is_admitted,
            pod_sets=admission.pod_sets,
            asked={pod_set.name: pod_set.count for pod_set in workload.pod_sets},
            borrowed=_borrowed(node, admission.usage()),
            reason=decision.reason,
            considered=decision.considered,
        )

    def _evicted(self, decision: Evict) -> Evicted:
        return Evicted(
            cycle=self.state.cycle,
            workload=decision.workload,
            queue=self._queue_of(decision.workload),
            in_favour_of=decision.in_favour_of,
            reason=decision.reason,
        )

    def _shrunk(self, decision: Shrink) -> Shrunk:
        return Shrunk(
            cycle=self.state.cycle,
            workload=decision.workload,
            queue=self._queue_of(decision.workload),
            in_favour_of=decision.in_favour_of,
            slots=decision.slots,
            reason=decision.reason,
        )

    def _ended(self, decision: Finish) -> Ended:
        return Ended(
            cycle=self.state.cycle,
            workload=decision.workload,
            queue=self._queue_of(decision.workload),
            in_favour_of=decision.in_favour_of,
            reason=decision.reason,
        )

    def _queue_of(self, key: str) -> str:
        admission = self.state.workloads[key].admission
        return admission.queue if admission is not None else ""

    def _await_checks(self, decision: Reserve) -> None:
        """Open the checks that a workload with quota has to pass, as the controller of workloads does."""
        workload = self.state.workloads[decision.workload]
        node = self.state.tree.leaf(decision.admission.queue)
        assert node is not None, f"{decision.workload} got quota of a queue that is not there"
        flavors = {flavor for pod_set in decision.admission.pod_sets for flavor in pod_set.flavors.values()}
        needed = [rule.name for rule in node.queue.checks if not rule.flavors or rule.flavors & flavors]
        checks = {**dict.fromkeys(needed, CheckState.PENDING), **workload.checks}
        self.state.take(replace(workload, checks=checks))

    def waiting(self) -> Iterator[Waiting]:
        """Everyone who was not admitted, each with one verdict in full."""
        last = Plan(cycle=self.state.cycle, verdicts=self._verdicts)
        verdicts = verdicts_of_all(self.state, last)
        full = {key: in_full(self.state, self._up_to_date(one)) for key, one in verdicts.items()}
        fits: dict[str, dict[str, FitReport]] = {}
        for key, verdict in full.items():
            workload, like = self.state.workloads[key], key
            if verdict.code is Code.ALIKE_WAITS and verdict.reason.value("like") in full:
                # It asks for the same in the same queue, so it lacks the same.
                like = verdict.reason.value("like")
                same = full[like]
                verdict = replace(
                    verdict, details=same.details, shortages=same.shortages, unblocked_by=same.unblocked_by
                )
            if like not in fits:
                fits[like] = self._fits(workload, verdict)
            yield Waiting(verdict=verdict, needs=_needs(workload), fits=fits[like])

    def _fits(self, workload: Workload, verdict: Verdict) -> dict[str, FitReport]:
        """How the pods fare on each node, for those that wait for nodes."""
        slots = self.state.places.slots
        if slots is None:
            return {}
        tried = dict.fromkeys(
            (one.value("pod_set"), one.value("flavor")) for one in verdict.details if one.code is Code.NO_NODES
        )
        several = {name for name, count in Counter(name for name, _ in tried).items() if count > 1}
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        return {
            f"{name} in {flavor}" if name in several else name: slots.why_not(
                workload, pod_sets[name], flavor.split(", ")
            )
            for name, flavor in tried
            if name in pod_sets
        }

    def _up_to_date(self, verdict: Verdict) -> Verdict:
        """The verdict against what is used at the end of the plan; in its cycle a try may hold back amounts itself."""
        workload = self.state.workloads[verdict.workload]
        node = self.state.tree.leaf(workload.queue)
        if node is None or verdict.code not in NAMES_AMOUNTS:
            return verdict
        mark = self.state.ledger.checkpoint()
        self.state.progress.pop(workload.key, None)  # so that every flavor is told of, not only those still to be tried
        entry = nominate(Cycle(self.state), node, workload)
        self.state.ledger.rollback(mark)
        if entry.assignment is None or entry.assignment.outcome is Outcome.FIT or entry.victims:
            return verdict
        entry.shortages = shortages_of(node, entry.assignment)
        return verdict_of(entry)


def _borrowed(node: QuotaNode, usage: Mapping[FlavorResource, int]) -> dict[FlavorResource, int]:
    """How far the queue is above its own share, in what a workload uses."""
    if node.parent is None:
        return {}
    above = {key: node.usage.get(key, 0) - node.cell(key).subtree for key in usage}
    return {key: min(amount, usage[key]) for key, amount in sorted(above.items()) if amount > 0 and usage[key] > 0}


def _needs(workload: Workload) -> dict[str, int]:
    parts = (
        {name: amount * pod_set.count_left for name, amount in pod_set.requests.items()}
        for pod_set in workload.pod_sets
    )
    return dict(sorted(sum_amounts(parts).items()))


def _queue_views(state: EngineState, snapshot: Snapshot, waiting: tuple[Waiting, ...]) -> Iterator[QueueView]:
    pending: dict[str, int] = {}
    for one in waiting:
        workload = state.workloads[one.verdict.workload]
        if workload.admission is None:
            pending[workload.queue] = pending.get(workload.queue, 0) + 1
    for name, queue in sorted(snapshot.queues.items()):
        holding = len(state.holders.in_queue(name))
        if not queue.is_leaf or (name == NO_QUEUE and not holding and name not in pending):
            continue
        parent = snapshot.queues.get(queue.parent) if queue.parent is not None else None
        stopped = f"its stopPolicy is {queue.stop.value}" if queue.stop is not Stop.NONE else ""
        yield QueueView(
            name=queue.title,
            cohort=parent.title if parent is not None else "",
            inactive_because=CIRCULAR if name in state.tree.circular else queue.inactive_because or stopped,
            holding=holding,
            waiting=pending.get(name, 0),
        )
