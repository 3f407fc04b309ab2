"""Reserve: give quota to the heads of the queues, best first; evict where that is the way; put the rest back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from muster.engine.assignment import Assignment, Grant, Outcome
from muster.engine.cycle import Cycle, Need
from muster.engine.explain import reserve_reason, shortages_of, verdict_of
from muster.engine.holders import Holder
from muster.engine.nominate import nominate, nominate_for_place, repropose
from muster.engine.order import Entry, Status, entry_order
from muster.engine.places import Use
from muster.engine.quota import fits
from muster.engine.tournament import Tournament
from muster.engine.tree import QuotaNode
from muster.engine.turns import Head, TurnTaking, takes_turns
from muster.engine.variants import better_variant, worse_variant
from muster.engine.victims import Victim
from muster.model.plan import Amend, Evict, Finish, Hold, Requeue, Reserve, Retry, Return, ScanProgress, Shrink
from muster.model.queue import PreemptionPolicy
from muster.model.reason import Code, Reason, Verdict, because
from muster.model.resources import FlavorResource
from muster.model.workload import CheckState, Workload


def reserve(cycle: Cycle) -> None:
    """Try the head of every queue once, after those that have quota and look for a place."""
    _give_up_stuck(cycle)
    for key in cycle.state.second_pass.ready(cycle.state.now):
        holder = cycle.state.holders.get(key)
        if holder is not None and not cycle.ledger.is_gone(key):
            place(cycle, nominate_for_place(cycle, holder))
    heads = list(cycle.state.heads())
    entries = _nominated(cycle, [head for head in heads if not takes_turns(head[0])])
    in_turns = [head for head in heads if takes_turns(head[0])] if len(entries) < len(heads) else []
    left = len(entries) + len(in_turns) + len(cycle.state.growing())
    for entry in _in_order(cycle, entries):
        left -= 1
        cycle.is_last = not left
        if entry.status is Status.NOMINATED:
            process(cycle, entry)
        if entry.status is not Status.RESERVED:
            put_back(cycle, entry)
    _take_turns(cycle, in_turns)


def _take_turns(cycle: Cycle, heads: Sequence[Head]) -> None:
    """Try the heads of trees whose queues take turns, tree by tree."""
    by_root: dict[str, list[Head]] = {}
    for head in heads:
        by_root.setdefault(head[0].root.name, []).append(head)
    cycle.is_last = cycle.is_last and not heads
    for _, waiting in sorted(by_root.items()):
        _take_turns_in(cycle, TurnTaking(waiting, lambda queue, head: _most_important(cycle, queue, head)))


def _most_important(cycle: Cycle, queue: QuotaNode, head: Workload) -> int:
    """The highest priority in a queue's line: the head's, unless the line goes by something else."""
    if queue.queue.turns is None or queue.queue.turns.by_priority:
        return head.priority
    return max((one.priority for one in cycle.state.line(queue.name).waiting()), default=head.priority)


def _take_turns_in(cycle: Cycle, turns: TurnTaking) -> None:
    """Try the heads of one tree in turn, for as long as the outcome is that of one gift in a cycle.

    That is until it is the turn of a queue whose next workload is not known yet, because it has got something already,
    or until somebody gets nothing after a gift: it is tried again when the cycle is over. Who gets nothing before that
    gives way until the next gift. Limits that queues share are counted when the cycle is over.
    """
    counted: set[str] = set()  # the shared limits of those that got something
    is_given = is_passed_over = False
    while (head := turns.next()) is not None:
        queue, workload = head
        if not counted.isdisjoint(workload.limits):
            return
        if _is_cut_short(cycle, queue, workload):
            turns.drop(queue)
            continue
        entry = nominate(cycle, queue, workload)
        if entry.status is Status.NOMINATED:
            process(cycle, entry)
        if entry.status is Status.RESERVED:
            if is_passed_over:
                return
            is_given = True
            counted.update(workload.limits)
            turns.serve(queue)
            if len(cycle.state.line(queue.name)) == 1:
                turns.drop(queue)
        elif is_given:
            return
        else:
            put_back(cycle, entry)
            is_passed_over = True
            turns.drop(queue)


def _give_up_stuck(cycle: Cycle) -> None:
    """Tell gangs to go that hold slots and have not filled them all in time."""
    for key in cycle.state.deadlines.overdue:
        holder = cycle.state.holders.get(key)
        if holder is None or not holder.workload.is_short_of_pods:
            continue
        workload = holder.workload
        seconds = round(cycle.settings.gang_deadline_s)
        reason = because(Code.GANG_DEADLINE, bound=workload.pods_bound, count=workload.slot_count, seconds=seconds)
        cycle.ledger.set_aside(key)
        cycle.has_movers = True
        cycle.decisions.append(Evict(workload=key, queue=holder.queue.name, in_favour_of="", reason=reason))


def _nominated(cycle: Cycle, heads: Sequence[Head]) -> list[Entry]:
    """Look at the heads until the cycle's budget is used up; the next cycle begins with the first one left out."""
    return [nominate(cycle, *head) for head in heads if not _is_cut_short(cycle, *head)]


def _is_cut_short(cycle: Cycle, queue: QuotaNode, workload: Workload) -> bool:
    """Whether the cycle's budget is used up before a head was looked at."""
    if not cycle.is_out_of_steps:
        return False
    cycle.resumes_at = cycle.resumes_at or queue.name
    reason = because(Code.CYCLE_CUT_SHORT, steps=cycle.settings.cycle_steps_most)
    cycle.verdicts[workload.key] = Verdict(workload=workload.key, queue=queue.queue.title, reason=reason)
    return True


def _in_order(cycle: Cycle, entries: list[Entry]) -> Iterable[Entry]:
    if cycle.settings.fair_sharing is not None:
        return Tournament(entries, cycle.ledger, cycle.settings)
    return sorted(entries, key=lambda entry: entry_order(entry, cycle.settings))


def process(cycle: Cycle, entry: Entry) -> None:
    """Decide on one nominated entry against what the entries before it have taken."""
    queue, assignment = entry.queue, entry.assignment
    assert queue is not None and assignment is not None, "a nominated entry has a queue and an assignment"
    better = better_variant(cycle, entry)
    if better is not None:
        entry.status = Status.SKIPPED
        entry.reason = because(Code.BETTER_VARIANT_RUNS, variant=better.workload.key)
        return
    assignment = _recomputed(cycle, entry, queue, assignment)
    outcome = assignment.outcome
    if outcome is not Outcome.FIT:
        entry.shortages = shortages_of(queue, assignment)
    if outcome is not Outcome.FIT and entry.held_back is not None:
        entry.status = Status.REFUSED
        entry.reason = entry.held_back
    elif outcome is Outcome.NO_FIT:
        entry.why = Return.NO_FIT
    elif outcome is Outcome.PREEMPT and not entry.victims:
        _wait_without_victims(cycle, entry, queue, assignment)
    elif outcome is Outcome.DEFERRED_FIT:
        _defer(cycle, entry, queue, assignment)
    elif outcome is Outcome.PREEMPT and cycle.settings.preemption_gates and entry.workload.preemption_gates:
        entry.why = Return.PREEMPTION_GATED
        entry.keeps_progress = False
        entry.reason = because(Code.PREEMPTION_GATED, gates=", ".join(entry.workload.preemption_gates))
    elif _overlaps(cycle, entry.victims) or not all(_fits(cycle, entry, queue, assignment)):
        _skip(cycle, entry, queue)
    elif outcome is Outcome.PREEMPT:
        _preempt(cycle, entry, queue, assignment)
    elif not cycle.is_there_now(queue, cycle.need_of(entry.workload, queue, assignment)):
        _skip(cycle, entry, queue)
    else:
        worse = worse_variant(cycle, entry)
        if worse is not None:
            _migrate(cycle, entry, worse)
        else:
            _admit(cycle, entry, queue, assignment)


def _fits(cycle: Cycle, entry: Entry, queue: QuotaNode, assignment: Assignment) -> tuple[bool, bool]:
    if entry.was_fit and entry.seen_at == cycle.step:
        # Nothing was taken since its places were found; quota is looked at as a whole, not flavor by flavor.
        return fits(queue, assignment.usage), True
    return cycle.fits_without(queue, cycle.need_of(entry.workload, queue, assignment), entry.victims)


def _recomputed(cycle: Cycle, entry: Entry, queue: QuotaNode, assignment: Assignment) -> Assignment:
    """Search again where entries processed before have taken the victims, or the place, that this one counted on."""
    if _overlaps(cycle, entry.victims):
        if not cycle.settings.recomputes_overlap:
            return assignment
        found = repropose(cycle, entry)
        counted = (queue.name, found.label)
        cycle.recomputed[counted] = cycle.recomputed.get(counted, 0) + 1
    else:
        if not cycle.state.places.is_any or not cycle.settings.recomputes_places:
            return assignment
        if assignment.outcome is Outcome.NO_FIT or (assignment.outcome is Outcome.PREEMPT and not entry.victims):
            return assignment
        if _fits(cycle, entry, queue, assignment) != (True, False):
            return assignment
        found = repropose(cycle, entry, is_deferred=False)
    entry.assignment, entry.victims = found.assignment, found.victims
    return found.assignment


def place(cycle: Cycle, entry: Entry) -> None:
    """Decide the place of a workload that has its quota; where a node failed and there is no other, it has to go."""
    assignment, workload = entry.assignment, entry.workload
    assert assignment is not None and entry.queue is not None, "it was looked at"
    failed = workload.unhealthy_nodes[0] if workload.unhealthy_nodes else ""
    cycle.has_movers = True
    cycle.ledger.set_aside(workload.key)  # it moves or goes in this plan already: nobody's victim
    if assignment.outcome is Outcome.FIT:
        admission = assignment.admission(entry.queue.name)
        is_admitted = workload.is_admitted or not pending_checks(entry, entry.queue, assignment)
        cycle.decisions.append(
            Amend(workload=workload.key, admission=admission, is_admitted=is_admitted, replaced_node=failed)
        )
        cycle.ledger.release_places(placed_before(cycle, entry))
        cycle.ledger.charge_places(cycle.need_of(workload, entry.queue, assignment).places)
        return
    problem = "; ".join(reason.text for choice in assignment.pod_sets for reason in choice.reasons)
    reason = because(Code.NODE_FAILURES, node=failed, problem=problem)
    if failed and cycle.settings.replaces_nodes_fast:
        cycle.decisions.append(Evict(workload=workload.key, queue=entry.queue.name, in_favour_of="", reason=reason))
    else:
        cycle.decisions.append(Retry(workload=workload.key, reason=reason))


def placed_before(cycle: Cycle, entry: Entry) -> tuple[Use, ...]:
    """The places that a workload holds until now."""
    holder = cycle.state.holders.get(entry.workload.key)
    return holder.places if holder is not None else ()


def _migrate(cycle: Cycle, entry: Entry, worse: Holder) -> None:
    """Stop the variant in the worse flavor first; this one starts when it is gone."""
    assert entry.queue is not None, "a nominated entry has a queue"
    entry.status = Status.PREEMPTING
    entry.why = Return.PENDING_MIGRATION
    entry.keeps_progress = False
    key = worse.workload.key
    entry.reason = because(Code.WAITING_FOR_PREEMPTED_WORKLOADS, count=1, victims=key)
    if not worse.workload.is_evicted:
        reason = because(Code.FLAVOR_MIGRATION, preemptor=entry.workload.key)
        cycle.decisions.append(
            Evict(workload=key, queue=entry.queue.name, in_favour_of=entry.workload.key, reason=reason)
        )


def _overlaps(cycle: Cycle, victims: list[Victim]) -> bool:
    return bool(victims) and any(victim.holder.workload.key in cycle.leaving for victim in victims)


def _wait_without_victims(cycle: Cycle, entry: Entry, queue: QuotaNode, assignment: Assignment) -> None:
    """Nobody may leave for it now; hold what it could have so that those behind it do not take it this cycle."""
    entry.why = Return.PREEMPTION_NO_CANDIDATES
    is_sure_to_get_it_back = queue.queue.preemption.reclaim is PreemptionPolicy.ANY
    if not is_sure_to_get_it_back or (cycle.settings.preemptors_first and entry.is_preemptor):
        places = cycle.need_of(entry.workload, queue, assignment).places
        cycle.promise(queue, Need(held_for_later(queue, assignment), places))
        cycle.promised_in_vain.add(queue.root.name)
        cycle.has_places_in_vain |= bool(places)
        cycle.takers[queue.root.name] = entry.workload.key


def held_for_later(queue: QuotaNode, assignment: Assignment) -> dict[FlavorResource, int]:
    """What a workload that cannot preempt keeps from others in its cycle: no more than its queue could ever use."""
    held = {}
    for key, amount in assignment.usage.items():
        cell, used = queue.cell(key), queue.usage.get(key, 0)
        if assignment.level > 0:
            held[key] = min(amount, cell.limit - used)
        else:
            held[key] = max(0, min(amount, cell.nominal - used))
    return held


def _defer(cycle: Cycle, entry: Entry, queue: QuotaNode, assignment: Assignment) -> None:
    """It will fit when those that others sent away are gone; hold its place until then."""
    entry.why = Return.PENDING_PREEMPTION
    entry.keeps_progress = False
    names = ", ".join(cycle.leaving)
    entry.reason = because(Code.WAITING_FOR_PREEMPTED_WORKLOADS, count=len(cycle.leaving), victims=names)
    _take(cycle, entry, queue, assignment)


def _skip(cycle: Cycle, entry: Entry, queue: QuotaNode) -> None:
    """Something processed before took what it needed."""
    assert entry.assignment is not None, "it was nominated"
    entry.shortages = shortages_of(queue, entry.assignment)
    entry.status = Status.SKIPPED
    if cycle.settings.needs_slots:
        entry.keeps_progress = False  # another node of the same flavor may do
    winner = cycle.takers.get(queue.root.name, "another workload")
    entry.reason = because(Code.LOST_TO_ANOTHER, queue=queue.queue.title, winner=winner)
    if entry.victims:
        cycle.skipped_preemptions[queue.name] = cycle.skipped_preemptions.get(queue.name, 0) + 1


def _preempt(cycle: Cycle, entry: Entry, queue: QuotaNode, assignment: Assignment) -> None:
    """Send the victims away; the workload itself starts in a later cycle, when they are gone."""
    if _has_waited_too_long(cycle, entry):
        _give_up_waiting(cycle, entry)
        return
    _take(cycle, entry, queue, assignment)
    entry.status = Status.PREEMPTING
    entry.why = Return.PENDING_PREEMPTION
    entry.keeps_progress = False
    preemptor = entry.workload.key
    for victim in entry.victims:
        if not _is_told(victim):
            cycle.decisions.append(_farewell(victim, queue, preemptor))
    names = ", ".join(victim.holder.workload.key for victim in entry.victims)
    entry.reason = because(Code.WAITING_FOR_PREEMPTED_WORKLOADS, count=len(entry.victims), victims=names)


def _is_told(victim: Victim) -> bool:
    """Whether it was told to go already and has not left yet."""
    workload = victim.holder.workload
    if victim.slots is None:
        return workload.is_evicted
    told = workload.leaving_slots
    return all(Counter(slots) <= Counter(told.get(name, ())) for name, slots in victim.slots.items())


def _farewell(victim: Victim, queue: QuotaNode, preemptor: str) -> Evict | Shrink:
    key = victim.holder.workload.key
    if victim.slots is None:
        reason = because(victim.code, preemptor=preemptor, queue=queue.queue.title)
        return Evict(workload=key, queue=queue.name, in_favour_of=preemptor, reason=reason)
    count = sum(len(slots) for slots in victim.slots.values())
    reason = because(Code.SHRUNK, preemptor=preemptor, count=count)
    return Shrink(workload=key, queue=queue.name, in_favour_of=preemptor, slots=victim.slots, reason=reason)


def _has_waited_too_long(cycle: Cycle, entry: Entry) -> bool:
    """Whether those who were told to go for it have not gone in time; only nodes are worth more than waiting."""
    if not cycle.settings.needs_slots or not all(map(_is_told, entry.victims)):
        return False
    return cycle.state.deadlines.has_waited_too_long(entry.workload.key, cycle.state.now)


def _give_up_waiting(cycle: Cycle, entry: Entry) -> None:
    """Hold nothing for it any longer; it is tried again after as long a time."""
    seconds = round(cycle.settings.gang_deadline_s)
    names = ", ".join(victim.holder.workload.key for victim in entry.victims)
    entry.reason = because(Code.GAVE_UP_WAITING, seconds=seconds, victims=names)
    entry.why = Return.GAVE_UP_WAITING
    entry.retry_at = cycle.state.now + cycle.settings.gang_deadline_s


def _admit(cycle: Cycle, entry: Entry, queue: QuotaNode, assignment: Assignment) -> None:
    """Give it the quota, unless admission is held until the pods admitted before are ready."""
    if cycle.settings.blocks_until_ready:
        waiting = tuple(sorted(cycle.state.waiting_pods())) + tuple(r.workload for r in cycle.plan().reserves)
        if waiting:
            if cycle.waiting_for_pods is None:
                cycle.waiting_for_pods = waiting
                cycle.decisions.append(Hold(waiting_for=waiting))
            entry.reason = because(Code.WAITING_FOR_PODS_READY, waiting_for=", ".join(waiting))
            return
    workload = entry.workload
    if not cycle.is_last:
        cycle.take(queue, cycle.need_of(workload, queue, assignment))
    cycle.takers[queue.root.name] = workload.key
    entry.status = Status.RESERVED
    grant = assignment.grant
    if grant is None:
        admission, reason = assignment.admission(queue.name), reserve_reason(queue, assignment)
        grant = assignment.grant = Grant(admission, reason, _passed_over(assignment))
    cycle.decisions.append(
        Reserve(
            workload=workload.key,
            admission=grant.admission,
            is_admitted=not pending_checks(entry, queue, assignment),
            reason=grant.reason,
            considered=grant.considered,
        )
    )
    if entry.older_slice is not None:
        older = entry.older_slice.workload.key
        reason = because(Code.SLICE_REPLACED, preemptor=workload.key)
        cycle.decisions.append(Finish(workload=older, in_favour_of=workload.key, reason=reason))


def pending_checks(entry: Entry, queue: QuotaNode, assignment: Assignment) -> list[str]:
    """The checks that must pass before the workload starts, given the flavors it got."""
    if not queue.queue.checks and not entry.workload.checks:
        return []
    flavors = {choice.flavor for pod_set in assignment.pod_sets for choice in pod_set.flavors.values()}
    needed = {rule.name for rule in queue.queue.checks if not rule.flavors or rule.flavors & flavors}
    checks = entry.workload.checks
    return sorted(name for name in needed | set(checks) if checks.get(name) is not CheckState.READY)


def _passed_over(assignment: Assignment) -> tuple[Reason, ...]:
    return tuple(
        reason for pod_set in assignment.pod_sets for attempt in pod_set.attempts for reason in attempt.reasons
    )


def _take(cycle: Cycle, entry: Entry, queue: QuotaNode, assignment: Assignment) -> None:
    """Promise what the entry will get when its victims have left."""
    for victim in entry.victims:
        cycle.leaving[victim.holder.workload.key] = victim
    cycle.promise(queue, cycle.need_of(entry.workload, queue, assignment))
    cycle.takers[queue.root.name] = entry.workload.key


def put_back(cycle: Cycle, entry: Entry) -> None:
    """Return a workload that did not get quota to its queue, with its verdict."""
    queue = entry.queue
    assert queue is not None, "a head has a queue"
    if entry.status is not Status.REFUSED and entry.why is Return.GENERIC:
        entry.why = Return.FAILED_AFTER_NOMINATION
    cycle.verdicts[entry.workload.key] = verdict_of(entry)
    progress = _progress(cycle, entry)
    starts_over = _starts_over(cycle, entry, queue, progress)
    cycle.decisions.append(
        Requeue(
            workload=entry.workload.key,
            queue=queue.name,
            why=entry.why,
            progress=None if starts_over else progress,
            starts_over=starts_over,
            retry_at=entry.retry_at,
            is_personal=entry.is_personal,
        )
    )


def _starts_over(cycle: Cycle, entry: Entry, queue: QuotaNode, progress: ScanProgress | None) -> bool:
    """Whether flavors tried in earlier cycles may suit by now: something changed since the search was at the first.

    Kueue parks the workload here, and it may then wait for ever although a flavor has room.
    """
    if cycle.has_movers and entry.why in (Return.NO_FIT, Return.PREEMPTION_NO_CANDIDATES):
        return True  # whom it might have taken was left alone in this cycle
    has_lost = entry.status is Status.SKIPPED or entry.why in (Return.NO_FIT, Return.PREEMPTION_NO_CANDIDATES)
    if entry.was_fit and has_lost and (cycle.has_places_in_vain or queue.root.name in cycle.promised_in_vain):
        return True  # what was held for one that cannot have it either may be free in the next cycle
    is_at_end = progress is not None and not progress.is_pending
    if entry.resumed is None or not entry.resumed.is_pending or not is_at_end:
        return False
    return cycle.state.version_of(queue) != entry.resumed.began_at


def _progress(cycle: Cycle, entry: Entry) -> ScanProgress | None:
    """Where the next search goes on; it starts over after a preemption."""
    if entry.assignment is None or entry.queue is None or not entry.keeps_progress:
        return None
    if entry.status is Status.SKIPPED and not cycle.settings.keeps_scan_progress:
        return None
    return ScanProgress(
        tried=_tried(cycle, entry, entry.assignment),
        generation=cycle.state.generation_of(entry.queue),
        kind_key=entry.workload.kind_key,
        cycle=cycle.state.cycle,
        began_at=_began_at(cycle, entry, entry.queue),
    )


def _tried(cycle: Cycle, entry: Entry, assignment: Assignment) -> tuple[Mapping[str, int], ...]:
    """Where the search of each pod set stopped.

    A pod set that was through all flavors begins again while another one goes on. That does not count as flavors left
    to try, or two of them could take turns for ever and keep those behind them from being tried.
    """
    tried = assignment.tried()
    if entry.resumed is None or not entry.resumed.is_pending or not cycle.settings.needs_slots:
        return tried
    left = entry.resumed.left
    return tuple(
        {name: index if (number, name) in left else -1 for name, index in now.items()}
        for number, now in enumerate(tried)
    )


def _began_at(cycle: Cycle, entry: Entry, queue: QuotaNode) -> int:
    if entry.resumed is not None and entry.resumed.is_pending:
        return entry.resumed.began_at
    return cycle.state.version_of(queue)
