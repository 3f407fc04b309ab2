"""Explanations: the verdict of every workload that was not admitted, and the reason of every admission.

A cycle writes the cheap part of a verdict (code, what is short). Who holds it and what would help is added by
`in_full` for the verdicts that somebody reads, because it walks the queues of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from muster.engine.assignment import Assignment, Outcome
from muster.engine.order import Entry
from muster.engine.quota import free_for, potential
from muster.engine.state import EngineState
from muster.engine.tree import QuotaNode
from muster.model.plan import Plan
from muster.model.queue import PreemptionPolicy, Stop
from muster.model.reason import Code, Reason, Shortage, Verdict, because
from muster.model.resources import FlavorResource, amount_text, is_unlimited
from muster.model.workload import Admission, CheckState, Workload

SHORTAGES_MOST = 8


def reserve_reason(queue: QuotaNode, assignment: Assignment) -> Reason:
    """Why a workload was admitted: which flavors pay, where anybody counts."""
    if queue.queue.is_unlimited:
        return because(Code.PLACED)
    flavors = sorted({flavor for flavor, _ in assignment.usage})
    paying = ", ".join(flavors) or "no flavor, for it asks for nothing that is counted"
    return because(Code.QUOTA_RESERVED, queue=queue.queue.title, flavors=paying)


def verdict_of(entry: Entry) -> Verdict:
    """What a workload that got no quota in this cycle is told."""
    queue = entry.queue
    assert queue is not None, "a head has a queue"
    details: tuple[Reason, ...] = ()
    if entry.assignment is not None:
        details = tuple(_details(entry.assignment))
    return Verdict(
        workload=entry.workload.key,
        queue=queue.queue.title,
        reason=entry.reason or _reason(entry, queue),
        details=details,
        shortages=entry.shortages,
    )


def _reason(entry: Entry, queue: QuotaNode) -> Reason:
    assert entry.assignment is not None, "an entry without a reason was looked at"
    code = entry.assignment.refusal
    if entry.assignment.outcome is not Outcome.NO_FIT or code is None:
        code = Code.WAITING_FOR_QUOTA
        if not entry.shortages and any(reason.code is Code.NO_NODES for reason in _details(entry.assignment)):
            code = Code.WAITING_FOR_NODES
    return because(code, queue=queue.queue.title)


def _details(assignment: Assignment) -> Iterator[Reason]:
    seen: dict[Reason, None] = {}
    for pod_set in assignment.pod_sets:
        for reason in (*(r for attempt in pod_set.attempts for r in attempt.reasons), *pod_set.reasons):
            seen.setdefault(reason)
    yield from seen


def shortages_of(queue: QuotaNode, assignment: Assignment) -> tuple[Shortage, ...]:
    """What is missing as the ledger stands; only the first flavors are named, a queue may have hundreds."""
    return tuple(_shortages(queue, assignment))[:SHORTAGES_MOST]


def _shortages(queue: QuotaNode, assignment: Assignment) -> Iterator[Shortage]:
    """Per flavor that would suit the pods, every resource of which too little is free."""
    asked: dict[FlavorResource, int] = {}
    for pod_set in assignment.pod_sets:
        for attempt in pod_set.attempts:
            if attempt.refusal is Code.NO_MATCHING_FLAVOR:
                continue  # more quota there would not help
            group = [g for g in queue.queue.groups if attempt.flavor in g.flavors]
            for resource in sorted(pod_set.requests):
                if any(resource in g.resources for g in group):
                    key = (attempt.flavor, resource)
                    asked[key] = asked.get(key, 0) + pod_set.requests[resource]
    for (flavor, resource), amount in asked.items():
        free = free_for(queue, (flavor, resource))
        if amount > free:
            most = potential(queue, (flavor, resource))
            yield Shortage(flavor=flavor, resource=resource, asked=amount, free=free, most=most)


def in_full(state: EngineState, verdict: Verdict) -> Verdict:
    """The verdict with the workloads that hold what is short, and what would help."""
    workload = state.workloads.get(verdict.workload)
    node = state.tree.leaf(workload.queue) if workload is not None else None
    if workload is None or node is None:
        return replace(verdict, unblocked_by=tuple(_advice(verdict, None)))
    shortages = tuple(replace(s, holders=_holders(state, node, (s.flavor, s.resource))) for s in verdict.shortages)
    full = replace(verdict, shortages=shortages)
    return replace(full, unblocked_by=tuple(_advice(full, node)))


def _holders(state: EngineState, queue: QuotaNode, key: FlavorResource) -> tuple[str, ...]:
    """Who uses a resource in the queue's tree, largest first."""
    found = []
    for leaf in queue.root.leaves():
        for holder in state.holders.in_queue(leaf.name).values():
            amount = holder.usage.get(key, 0)
            if amount > 0:
                found.append((-amount, holder.workload.key))
    return tuple(name for _, name in sorted(found))


def _advice(verdict: Verdict, queue: QuotaNode | None) -> Iterator[str]:
    """What would let the workload start, one sentence each."""
    code = verdict.code
    if code in (Code.WAITING_FOR_QUOTA, Code.LOST_TO_ANOTHER):
        for shortage in verdict.shortages:
            need = amount_text(shortage.resource, shortage.short)
            holders = f": {', '.join(shortage.holders[:3])}" if shortage.holders else ""
            yield f"{need} of {shortage.resource} in {shortage.flavor} given back by those who hold it{holders}"
        if queue is not None and queue.queue.preemption.within_queue is PreemptionPolicy.NEVER:
            yield f"queue {queue.queue.title} being allowed to preempt within itself (preemption.withinClusterQueue)"
    elif any(detail.code is Code.RESOURCE_NOT_COVERED for detail in verdict.details):
        missing = next(d.value("resource") for d in verdict.details if d.code is Code.RESOURCE_NOT_COVERED)
        yield f"quota for {missing} in queue {verdict.queue}, or pods that do not ask for it"
    elif code is Code.EXCEEDS_MAX_QUOTA:
        for shortage in verdict.shortages:
            if not is_unlimited(shortage.most):
                most = amount_text(shortage.resource, shortage.most)
                yield f"asking for at most {most} of {shortage.resource} in {shortage.flavor}, or a larger quota there"
    else:
        yield from _ADVICE.get(code, ())


_ADVICE = {
    Code.NO_MATCHING_FLAVOR: ("a toleration, node selector or resource request that one of the queue's flavors suits",),
    Code.NAMESPACE_NOT_ADMITTED: (
        "a namespaceSelector of the queue that matches the namespace; `namespaceSelector: {}` admits all",
    ),
    Code.QUEUE_MISSING: ("creating the queue, or naming one that exists",),
    Code.QUEUE_INACTIVE: ("removing the cause named",),
    Code.MISCONFIGURED: ("correcting the pod template",),
    Code.SUSPENDED: ("setting spec.active to true",),
    Code.ADMISSION_GATED: ("removing the gates named",),
    Code.PREEMPTION_GATED: ("opening the preemption gates named, or free quota",),
    Code.WAITING_FOR_CHECKS: ("the checks becoming Ready",),
    Code.CHECK_FAILED: ("a new attempt after the cause of the failed check is gone",),
    Code.WAITING_FOR_NODES: ("room on nodes that suit its pods: given back by others, or on nodes that are added",),
    Code.TOPOLOGY_PLACEMENT_FAILED: ("room in one place as it asks for, or a request for a wider level",),
    Code.WAITING_FOR_PREEMPTED_WORKLOADS: ("the preempted workloads leaving; nothing is to be done",),
    Code.BACKING_OFF: ("waiting; nothing is to be done",),
    Code.BEHIND_ANOTHER: ("the workloads ahead of it starting, or a higher priority",),
    Code.ALIKE_WAITS: ("what would unblock the workload named",),
    Code.WAITING_FOR_PODS_READY: ("the pods of the workloads named becoming ready",),
    Code.HELD_BACK: ("the workload named finishing; nothing is to be done",),
    Code.BETTER_VARIANT_RUNS: ("nothing is to be done",),
    Code.GAVE_UP_WAITING: ("the workloads named leaving; look at why their pods do not end",),
    Code.WAITING_TO_REQUEUE: ("whatever evicted it letting it queue again",),
    Code.CYCLE_CUT_SHORT: ("the next cycle; nothing is to be done",),
    Code.PENDING_EVALUATION: ("the next cycle; nothing is to be done",),
}


def verdicts_of_all(state: EngineState, plan: Plan) -> dict[str, Verdict]:
    """One verdict for every workload that is not running: those tried in the cycle, and those not tried."""
    result = {}
    for key in sorted(state.workloads):
        workload = state.workloads[key]
        if workload.is_finished or (workload.admission is not None and workload.is_admitted):
            continue
        tried = plan.verdicts.get(key)
        result[key] = tried if tried is not None else untried(state, workload)
    return result


def untried(state: EngineState, workload: Workload) -> Verdict:
    """Why a workload was not looked at in a cycle, or what it waits for with its quota."""
    node = state.tree.leaf(workload.queue)
    title = node.queue.title if node is not None else workload.queue or workload.submit_queue
    return Verdict(workload=workload.key, queue=title, reason=_untried_reason(state, workload, node))


def _untried_reason(state: EngineState, workload: Workload, node: QuotaNode | None) -> Reason:
    if workload.admission is not None:
        waiting = ", ".join(unready_checks(state, workload, workload.admission))
        return because(Code.WAITING_FOR_CHECKS, queue=workload.admission.queue, checks=waiting or "of its queue")
    if not workload.is_active:
        return because(Code.SUSPENDED)
    if workload.gates and state.settings.admission_gates:
        return because(Code.ADMISSION_GATED, gates=", ".join(workload.gates))
    if node is None:
        if workload.queue in state.tree.circular:
            problem = "its cohorts go round in a circle"
            return because(Code.QUEUE_INACTIVE, queue=workload.queue, problem=problem)
        return because(Code.QUEUE_MISSING, queue=workload.queue or workload.submit_queue or "(none named)")
    if node.queue.inactive_because or node.queue.stop is not Stop.NONE:
        problem = node.queue.inactive_because or f"its stopPolicy is {node.queue.stop.value}"
        return because(Code.QUEUE_INACTIVE, queue=node.queue.title, problem=problem)
    if state.is_submit_stopped(workload):
        problem = f"the queue {workload.submit_queue} that it was submitted to is stopped"
        return because(Code.QUEUE_INACTIVE, queue=node.queue.title, problem=problem)
    if workload.is_held:
        return because(Code.WAITING_TO_REQUEUE)
    return _waiting_reason(state, workload, node)


def unready_checks(state: EngineState, workload: Workload, admission: Admission) -> list[str]:
    """The checks that a workload with quota still has to pass, given the flavors it got."""
    needed = {*needed_checks(state, admission), *workload.checks}
    return sorted(name for name in needed if workload.checks.get(name) is not CheckState.READY)


def needed_checks(state: EngineState, admission: Admission) -> list[str]:
    """The checks that whoever has such an admission has to pass, by the flavors that it got."""
    node = state.tree.leaf(admission.queue)
    flavors = {flavor for given in admission.pod_sets for flavor in given.flavors.values()}
    rules = node.queue.checks if node is not None else ()
    return sorted({rule.name for rule in rules if not rule.flavors or rule.flavors & flavors})


def _waiting_reason(state: EngineState, workload: Workload, node: QuotaNode) -> Reason:
    line = state.line(node.name)
    if workload.held_until is not None and workload.held_until > state.now:
        return because(Code.BACKING_OFF, seconds=round(workload.held_until - state.now))
    shown_by = line.shown_by(workload.kind_key)
    if shown_by and line.is_parked(workload.key):
        return because(Code.ALIKE_WAITS, like=shown_by)
    head = line.head()
    if head is not None and head.key != workload.key and not line.is_parked(workload.key):
        return because(Code.BEHIND_ANOTHER, queue=node.queue.title, ahead=head.key)
    return because(Code.PENDING_EVALUATION)
