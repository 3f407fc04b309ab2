"""Nomination: for the head of a queue, which flavors it could have and who would have to leave for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from muster.engine.assignment import Assignment, FlavorChoice, Mode, Outcome, PodSetChoice
from muster.engine.cycle import Cycle
from muster.engine.flavors import FlavorSearch
from muster.engine.holders import Holder, still_held
from muster.engine.order import Entry, Status
from muster.engine.partial import largest_that_works
from muster.engine.placing import Placing
from muster.engine.tree import QuotaNode
from muster.engine.victims import Victim
from muster.model.plan import Return, ScanProgress
from muster.model.reason import Code, Reason, because
from muster.model.workload import CheckState, PodSetAdmission, Workload


class Proposal(NamedTuple):
    """Flavors for a workload and the victims that they need."""

    assignment: Assignment
    victims: list[Victim]

    @property
    def works(self) -> bool:
        return self.assignment.outcome is Outcome.FIT or bool(self.victims)

    @property
    def label(self) -> str:
        """What a repeated search came to, as metrics name it."""
        if self.assignment.outcome is Outcome.DEFERRED_FIT:
            return "deferred_fit"
        return "preempt" if self.victims else "skipped"


def nominate(cycle: Cycle, queue: QuotaNode, workload: Workload) -> Entry:
    """Look at a head: refuse it at once, or find what it could have."""
    is_preemptor = workload.key in cycle.state.preemptors
    entry = Entry(workload=workload, queue=queue, is_preemptor=is_preemptor)
    refusal = _refusal(cycle, queue, workload)
    if refusal is not None:
        entry.reason = refusal
        if refusal.code is Code.NAMESPACE_NOT_ADMITTED:
            entry.why = Return.NAMESPACE_MISMATCH
        return entry
    entry.older_slice = cycle.state.older_slice(workload)
    entry.resumed = cycle.state.progress_of(workload, queue)
    cycle.search.spared_until = inf
    cycle.search.is_personal = False
    found = propose(cycle, entry, progress=entry.resumed)
    entry.assignment, entry.victims = found.assignment, found.victims
    entry.status = Status.NOMINATED
    entry.was_fit = found.assignment.outcome is Outcome.FIT
    entry.seen_at = cycle.step
    entry.held_back = _held_back(cycle, workload)
    # A slice asks only for what comes on top of its older one, so it says nothing about others of its kind.
    entry.is_personal = cycle.search.is_personal or entry.older_slice is not None
    retry_at = cycle.search.spared_until
    if cycle.settings.needs_slots:
        retry_at = min(retry_at, cycle.state.deadlines.paused_until(workload.key, cycle.state.now) or inf)
    entry.retry_at = retry_at if retry_at < inf else None
    return entry


def _refusal(cycle: Cycle, queue: QuotaNode, workload: Workload) -> Reason | None:
    """Why a head is not even tried."""
    if workload.checks:
        failed = [name for name, state in workload.checks.items() if state in (CheckState.RETRY, CheckState.REJECTED)]
        if failed:
            return because(Code.CHECK_FAILED, checks=", ".join(sorted(failed)))
    if not cycle.state.admits(queue, workload):
        return namespace_refusal(cycle, queue, workload)
    if workload.limits and (limited := cycle.state.shared.refusal(workload)) is not None:
        return limited
    repeated = cycle.state.repeated_preemptor(workload)
    if repeated is not None and cycle.state.holders.get(repeated[0]) is None:
        return because(Code.HELD_BACK, contender=repeated[0], count=repeated[1])
    if not workload.faults and not cycle.settings.needs_slots:
        return None
    problems = [*(fault.text for fault in workload.faults), *_too_few_pods(workload)]
    return because(Code.MISCONFIGURED, problem="; ".join(problems)) if problems else None


def _too_few_pods(workload: Workload) -> Iterator[str]:
    """Minimums that the workload's own pods do not come up to."""
    for pod_set in workload.pod_sets:
        if pod_set.count_least > pod_set.count:
            yield f"{pod_set.count_least} pods of {pod_set.name} must start together and there are {pod_set.count}"
    count = sum(pod_set.count for pod_set in workload.pod_sets)
    if workload.pods_least > count:
        yield f"{workload.pods_least} pods must start together and there are {count}"


def _held_back(cycle: Cycle, workload: Workload) -> Reason | None:
    """Why a workload may start only at nobody's expense: nobody left for it, or one that runs keeps preempting it."""
    if cycle.settings.needs_slots and cycle.state.deadlines.paused_until(workload.key, cycle.state.now) is not None:
        seconds = round(cycle.settings.gang_deadline_s)
        return because(Code.GAVE_UP_WAITING, seconds=seconds, victims="those who were told to")
    repeated = cycle.state.repeated_preemptor(workload)
    if repeated is None:
        return None
    return because(Code.HELD_BACK, contender=repeated[0], count=repeated[1])


def namespace_refusal(cycle: Cycle, queue: QuotaNode, workload: Workload) -> Reason:
    """Why the queue does not take the workload's namespace."""
    if workload.namespace not in cycle.state.namespaces:
        problem = "that namespace does not exist"
    elif queue.queue.admits_namespaces is None:
        problem = "it has no namespaceSelector, so it admits nobody"
    else:
        problem = "its namespaceSelector does not match the namespace's labels"
    return because(Code.NAMESPACE_NOT_ADMITTED, queue=queue.queue.title, namespace=workload.namespace, problem=problem)


def propose(
    cycle: Cycle,
    entry: Entry,
    *,
    progress: ScanProgress | None = None,
    only: tuple[Mapping[str, str], ...] | None = None,
) -> Proposal:
    """Flavors for the whole workload, or for a part of it when the whole cannot start."""
    assert entry.queue is not None, "only a workload with a queue is nominated"
    search = _flavor_search(cycle, entry, progress=progress, only=only)
    whole = _propose_counts(cycle, entry, search, None)
    if whole.works or not cycle.settings.partial_admission:
        return whole
    workload = entry.workload
    if not workload.may_shrink or entry.older_slice is not None:
        return whole

    def part(counts: Sequence[int]) -> Proposal | None:
        proposal = _propose_counts(cycle, entry, search, counts)
        return proposal if proposal.works else None

    return largest_that_works(workload.pod_sets, part, pods_least=workload.pods_least) or whole


def _flavor_search(
    cycle: Cycle, entry: Entry, *, progress: ScanProgress | None, only: tuple[Mapping[str, str], ...] | None
) -> FlavorSearch:
    workload, queue = entry.workload, entry.queue
    assert queue is not None, "only a workload with a queue is nominated"
    return FlavorSearch(
        workload=workload,
        queue=queue,
        flavors=cycle.state.flavors,
        settings=cycle.settings,
        oracle=lambda key, amount: cycle.could_preempt(workload, queue, key, amount),
        progress=progress,
        older_slice=still_held(entry.older_slice) if entry.older_slice is not None else {},
        only=only,
        cache=cycle.state.search_cache,
        placing=cycle.placing_for(workload, queue),
    )


def _assign(cycle: Cycle, search: FlavorSearch, counts: Sequence[int] | None) -> Assignment:
    """Flavors with quota and nodes; where the nodes of one have no room, those of the next may have."""
    search.avoided.clear()
    found = search.assign(counts)
    if cycle.state.places.slots is None:
        return found
    taken_from_others: Assignment | None = None  # the first choice for which somebody may leave
    while found.outcome is not Outcome.FIT:
        if found.outcome is Outcome.PREEMPT and taken_from_others is None:
            taken_from_others = found
        crowded = {one: reason for one, reason in _crowded(found) if one not in search.avoided}
        if not crowded:
            break
        search.avoided.update(crowded)
        found = search.assign(counts)
    # Where all are crowded, somebody may leave for the first choice; if nobody could, the last look names them all.
    return found if found.outcome is Outcome.FIT or taken_from_others is None else taken_from_others


def _crowded(assignment: Assignment) -> Iterator[tuple[tuple[str, str], Reason]]:
    """The pod sets and the flavors with quota whose nodes have no room for them."""
    for choice in assignment.pod_sets:
        for reason in choice.reasons:
            if reason.code is Code.NO_NODES:
                yield from (((choice.name, cell.flavor), reason) for cell in choice.flavors.values())


def _propose_counts(cycle: Cycle, entry: Entry, search: FlavorSearch, counts: Sequence[int] | None) -> Proposal:
    cycle.asked.clear()
    assignment = _assign(cycle, search, counts)
    victims: list[Victim] = []
    if assignment.outcome is Outcome.PREEMPT:
        victims = cycle.victims_for(entry.workload, search.queue, assignment)
        if search.placing is not None:
            assignment = _places_without(cycle, search.placing, assignment, victims)
    return Proposal(assignment, victims)


def _places_without(cycle: Cycle, placing: Placing, assignment: Assignment, victims: list[Victim]) -> Assignment:
    """The places that the workload would have with its victims gone; without victims, where it could ever be.

    The latter it cannot have now, but holding it keeps those behind it from settling there in this cycle.
    """
    mark = cycle.ledger.checkpoint()
    cycle.take_out(victims)
    assignment = placing.relocated(assignment, is_empty=not victims)
    cycle.ledger.rollback(mark)
    return assignment


def nominate_for_place(cycle: Cycle, holder: Holder) -> Entry:
    """Look for a place for a workload that has its quota; its flavors stay what they are."""
    workload = holder.workload
    entry = Entry(workload=workload, queue=holder.queue, status=Status.NOMINATED)
    placing = cycle.placing_for(workload, holder.queue)
    assert workload.admission is not None, f"{workload.key} holds quota without an admission"
    assignment = Assignment(
        pod_sets=tuple(_kept(given) for given in workload.admission.pod_sets), usage=holder.usage, level=0
    )
    if placing is not None:
        if workload.unhealthy_nodes:
            assignment = placing.replaced(assignment, workload.unhealthy_nodes[0])
        else:
            assignment = placing.settled(assignment)
    entry.assignment = assignment
    return entry


def _kept(given: PodSetAdmission) -> PodSetChoice:
    flavors = {resource: FlavorChoice(flavor, Mode.FIT, 0, -1) for resource, flavor in given.flavors.items()}
    return PodSetChoice(
        name=given.name,
        count=given.count,
        requests=given.usage,
        flavors=flavors,
        attempts=(),
        reasons=(),
        place=given.place,
        slots=given.slots,
    )


def repropose(cycle: Cycle, entry: Entry, *, is_deferred: bool = True) -> Proposal:
    """Search again among the flavors found before, as if all who were told to go in this cycle had left.

    What then fits has to wait for them. Where only a place was lost, everybody stays and nothing is put off.
    """
    assert entry.assignment is not None, "a search is repeated after a first one"
    only = tuple(
        {resource: choice.flavor for resource, choice in pod_set.flavors.items()}
        for pod_set in entry.assignment.pod_sets
    )
    mark = cycle.ledger.checkpoint()
    if is_deferred:
        cycle.take_out(cycle.leaving.values())
    found = propose(cycle, entry, only=only)
    cycle.ledger.rollback(mark)
    if is_deferred and found.assignment.outcome is Outcome.FIT:
        return Proposal(replace(found.assignment, is_deferred=True), found.victims)
    return found
