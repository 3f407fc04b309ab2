"""allocate: give waiting pods places, the minimum of a group at once or nothing, then one pod at a time.

Volcano's action of that name. Queues take turns by their order, which is asked anew after every group. What fits only
once others have left is promised and not bound.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from muster.engine.fit import closed_nodes
from muster.engine.node_table_rows import BoolArray
from muster.engine.session import Session
from muster.engine.session_order import Ordered
from muster.engine.session_places import best_place, classes, fitting_rows
from muster.engine.standing import READY, PodStanding, QueueStanding, Standing, SubStanding
from muster.model.groups import GroupPhase, PodStatus

Sheet = dict[str, list[PodStanding]]  # by sub group: the pods that have not been tried, in order

NO_SHARE = "its queue has all of its share"
NOT_ALLOWED = "its queue may not take {pod} beside what it has"
NO_PLACE = "no node has room for {pod} and lets it in"


def allocate(session: Session) -> None:
    """Place pods of all groups that may be placed."""
    from muster.engine.stages.allocate_near import place_near

    waiting: dict[str, list[Standing]] = {}
    sheets: dict[str, Sheet] = {}
    for group in placeable(session):
        sheets[group.key] = sheet_of(session, group)
        if sheets[group.key]:
            waiting.setdefault(group.queue, []).append(group)
    lines = {name: Ordered(session.compare_groups, groups) for name, groups in waiting.items()}
    queues: Ordered[QueueStanding] = Ordered(session.compare_queues, [session.queues[name] for name in lines])
    while queues:
        queue = queues.pop()
        if session.tiers.is_overused(queue.name):
            for group in lines[queue.name]:
                session.outcome.reasons[group.key] = NO_SHARE
            continue
        if not lines[queue.name]:
            continue
        group = lines[queue.name].pop()
        sheet = sheets[group.key]
        if any(sheet.values()):
            is_near = group.has_subs or (group.near is not None and group.near.tier is not None)
            if is_near:
                place_near(session, group, sheet)
            else:
                _place_flat(session, group, sheet)
            if session.tiers.is_ready(group):
                session.bind(group)
                if any(sheet.values()):
                    lines[queue.name].push(group)
            session.commit()
        queues.push(queue)


def placeable(session: Session) -> list[Standing]:
    """Groups that take part: taken up, and with pods enough to start."""
    found = []
    for group in session.groups.values():
        if group.phase is GroupPhase.PENDING:
            if session.options.enqueues:
                continue
            group.phase = GroupPhase.INQUEUE
        fault = session.tiers.find_fault(group)
        if fault:
            session.outcome.reasons[group.key] = fault
        else:
            found.append(group)
    return found


def sheet_of(session: Session, group: Standing) -> Sheet:
    """The pods of a group to be placed, those that ask for nothing left out."""
    sheet: Sheet = {}
    for pod in session.sorted_pods(pod for pod in group.pending() if not pod.is_best_effort):
        sheet.setdefault(pod.sub.key, []).append(pod)
    return sheet


def _place_flat(session: Session, group: Standing, sheet: Sheet) -> None:
    """Place a group that may stand anywhere."""
    for key, pods in sheet.items():
        place_pods(session, group.subs[key], pods, None)


def place_pods(session: Session, sub: SubStanding, pods: list[PodStanding], within: BoolArray | None) -> bool:
    """Place pods of a sub group until it is ready; nothing is kept that makes it neither ready nor promised.

    Pods that were tried are taken off the list, whether they got a place or not.
    """
    group, queue, tiers = sub.owner, sub.owner.queue, session.tiers
    mark = session.checkpoint()
    failed: set[str] = set()
    while pods:
        if not failed and place_alike(session, sub, pods, within):
            if tiers.is_sub_ready(sub):
                break
            continue
        pod = pods.pop(0)
        if not tiers.is_allocatable(queue, pod):
            session.outcome.reasons[group.key] = NOT_ALLOWED.format(pod=pod.key)
            continue
        if pod.role and pod.role in failed:
            continue
        if not place_pod(session, pod, within):
            session.outcome.reasons[group.key] = _no_place(session, pod)
            failed.add(pod.role)
            if not _goes_on(group, failed):
                break
            continue
        if tiers.is_sub_ready(sub):
            break
    if tiers.is_sub_ready(sub) or tiers.is_sub_promised(sub):
        return True
    session.rollback(mark)
    return False


def place_alike(session: Session, sub: SubStanding, pods: list[PodStanding], within: BoolArray | None) -> bool:
    """Place the next pods together as far as they are alike and lacking; `False`: they go one by one.

    It comes to the same as one by one, only quicker: nothing that differs from pod to pod has a say, and each pod
    would still be allowed to its queue once the others are there.
    """
    first = pods[0]
    lacking = sub.size - sub.ready - sub.idle_best_effort
    if session.is_particular or lacking < 2 or first.pod.nominated_node:
        return False
    alike = [first, *takewhile(lambda pod: pod.demand is first.demand and pod.role == first.role, pods[1:lacking])]
    if len(alike) < 2 or not session.tiers.is_allocatable(sub.owner.queue, _all_of(alike)):
        return False
    places = session.placer.place_many(first.demand, len(alike), within=within)
    if places is None:
        return False
    del pods[: len(alike)]
    session.allocate_alike(alike, places)
    return True


def _all_of(pods: list[PodStanding]) -> PodStanding:
    """One pod that asks for as much as some alike ones together."""
    one = pods[0]
    requests = {name: amount * len(pods) for name, amount in one.pod.requests.items()}
    return PodStanding(replace(one.pod, requests=requests), one.owner, one.sub)


def place_pod(session: Session, pod: PodStanding, within: BoolArray | None) -> bool:
    """Give one pod a place that is free, else promise it one that will be; whether there is any."""
    rows = fitting_rows(session, pod, within)
    nominated = session.placer.table.find_row(pod.pod.nominated_node) if pod.pod.nominated_node else None
    if nominated is not None and rows[nominated]:
        rows = rows & False
        rows[nominated] = True
    idle = session.idle_rows(pod, rows)
    for candidates in classes(session, idle):
        placed = best_place(session, pod, candidates)
        if placed is not None:
            session.allocate(pod, placed.row, placed.held)
            return True
    for candidates in classes(session, rows & ~idle):
        placed = best_place(session, pod, candidates)
        if placed is not None:
            session.pipeline(pod, placed.row, placed.held)
            return True
    return False


def _no_place(session: Session, pod: PodStanding) -> str:
    closed = session.closed.get(pod.demand)
    if closed is None:
        closed = session.closed[pod.demand] = closed_nodes(session.placer, pod.demand)
    return NO_PLACE.format(pod=pod.key) + (f": {closed}" if closed else "")


def _goes_on(group: Standing, failed: set[str]) -> bool:
    """Whether a group of which pods of some roles found no place can still get its minimum."""
    if group.count_least == group.count:
        return False
    least = group.group.minimum_by_role
    if group.count_least < sum(least.values()):  # the roles' own minima do not count then
        others = [counts for role, counts in group.by_role.items() if role not in failed]
        return group.ready + sum(counts.by_status[PodStatus.PENDING] for counts in others) >= group.count_least
    have = {role: group.count_role(role, READY) + group.role_best_effort(role) for role in failed}
    return all(have[role] >= least.get(role, 0) for role in failed)
