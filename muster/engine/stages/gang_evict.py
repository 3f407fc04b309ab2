"""gangpreempt and gangreclaim: whole groups get places at the cost of others. Volcano's actions of these names.

A group needs places for all its pods in one domain. Others leave in bundles: first pods that their groups can spare,
then whole groups, as few of them as make room; nobody leaves where the group could not be placed whole afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

import numpy as np

from muster.engine.node_table_rows import BoolArray
from muster.engine.session import Session
from muster.engine.session_domains import DomainNode
from muster.engine.session_places import best_place, fitting_rows
from muster.engine.standing import READY, PodStanding, Standing
from muster.engine.vectors import Vector, add, is_within, total_of
from muster.model.groups import GroupPhase, PodStatus

BUNDLES_MOST = 1000  # tried for one group in one domain
_LEAVABLE = frozenset((PodStatus.BOUND, PodStatus.RUNNING))


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Pods of one group that leave together."""

    pods: tuple[PodStanding, ...]
    is_whole: bool  # their group cannot go on without them

    @property
    def owner(self) -> Standing:
        return self.pods[0].owner


def gang_preempt(session: Session) -> None:
    """Let starving groups have the places of less important groups of their queue."""
    _serve_all(session, _is_lower, lambda _group, _pods: True)


def gang_reclaim(session: Session) -> None:
    """Let starving groups have the places of groups of other queues, where their own queue may take back."""

    def may_take(group: Standing, pods: Sequence[PodStanding]) -> bool:
        is_overused = session.tiers.is_overused(group.queue)
        return not is_overused and all(session.tiers.is_preemptive(group.queue, pod) for pod in pods)

    _serve_all(session, _is_reclaimable(session), may_take)


MayLose = Callable[[PodStanding, Standing], bool]


def _is_lower(pod: PodStanding, group: Standing) -> bool:
    return pod.owner.queue == group.queue and pod.owner.priority < group.priority


def _is_reclaimable(session: Session) -> MayLose:
    def may_lose(pod: PodStanding, group: Standing) -> bool:
        return pod.owner.queue != group.queue and session.queues[pod.owner.queue].queue.is_reclaimable

    return may_lose


def _serve_all(
    session: Session, may_lose: MayLose, may_take: Callable[[Standing, Sequence[PodStanding]], bool]
) -> None:
    def compare(first: Standing, second: Standing) -> int:
        if first.queue != second.queue:
            return session.compare_queues(session.queues[first.queue], session.queues[second.queue])
        return session.compare_groups(first, second)

    for group in sorted(_starving(session), key=cmp_to_key(compare)):
        pods = _wanted(session, group)
        if not pods or not all(pod.pod.may_preempt for pod in pods) or not may_take(group, pods):
            continue
        for domain in _domains(session, group):
            if _serve_in(session, pods, domain, may_lose):
                break


def _starving(session: Session) -> list[Standing]:
    return [
        group
        for group in session.groups.values()
        if group.phase is not GroupPhase.PENDING
        and not session.tiers.find_fault(group)
        and session.tiers.is_starving(group)
    ]


def _wanted(session: Session, group: Standing) -> list[PodStanding]:
    """All pods that wait; of a group that runs already, those of the first sub group that lacks some."""
    waiting = session.sorted_pods(pod for pod in group.pending() if not pod.is_best_effort)
    if not session.tiers.is_ready(group):
        return waiting
    subs = [sub for sub in group.subs.values() if not session.tiers.is_sub_ready(sub)]
    first = min(subs, key=cmp_to_key(session.compare_subs), default=None)
    return [pod for pod in waiting if pod.sub is first]


def _domains(session: Session, group: Standing) -> list[DomainNode]:
    """Where to look, the widest tier first; there most can be spared."""
    if group.near is None or group.near.tier is None:
        return [session.domains.top]
    by_tier = session.gradient(group, session.domains.top, evicts=True)
    return [domain for domains in reversed(by_tier) for domain in domains][: session.options.domains_most]


def _serve_in(session: Session, pods: list[PodStanding], domain: DomainNode, may_lose: MayLose) -> bool:
    """Have bundles leave until all pods have places in a domain, or nobody."""
    group, rows = pods[0].owner, session.rows_in(domain)
    need = total_of(pod.requests for pod in pods)
    outer = session.checkpoint()
    free = _free_in(session, rows)
    for bundle in _bundles(session, pods[0], rows, need, may_lose)[:BUNDLES_MOST]:
        for pod in bundle.pods:
            session.evict(pod)
            add(free, pod.requests)
        if not is_within(need, free):
            continue
        inner = session.checkpoint()
        if all(_promise(session, pod, rows) for pod in pods):
            group.nominated = domain.name
            return True
        session.rollback(inner)
    session.rollback(outer)
    return False


def _promise(session: Session, pod: PodStanding, within: BoolArray | None) -> bool:
    if not session.tiers.is_allocatable(pod.owner.queue, pod):
        return False
    placed = best_place(session, pod, fitting_rows(session, pod, within))
    if placed is None:
        return False
    session.pipeline(pod, placed.row, placed.held)
    return True


def _free_in(session: Session, rows: BoolArray | None) -> dict[str, float]:
    """What will be free in a domain."""
    table = session.placer.table
    free = table.free[:, : session.rows]
    part = free if rows is None else free[:, rows]
    return dict(zip(table.resources, np.maximum(part, 0).sum(axis=1).astype(float).tolist(), strict=True))


def _bundles(
    session: Session, pod: PodStanding, rows: BoolArray | None, need: Vector, may_lose: MayLose
) -> list[_Bundle]:
    """Who could leave, those first that cost others least for what they free."""
    candidates = [
        other
        for row, on_row in session.on_row.items()
        if rows is None or rows[row]
        for other in on_row.values()
        if other.status in _LEAVABLE and other.pod.is_preemptable and may_lose(other, pod.owner)
    ]
    ordered = session.victim_order(candidates, pod)
    named = session.evictable(pod, ordered)
    by_owner: dict[str, list[PodStanding]] = {}
    for other in ordered:
        by_owner.setdefault(other.owner.key, []).append(other)
    bundles: list[_Bundle] = []
    for pods in by_owner.values():
        spare = _spare(pods)
        bundles.extend(_Bundle((one,), False) for one in spare if one.key in named)
        rest = [one for one in pods if one not in spare]
        if rest and all(one.key in named for one in rest):
            bundles.append(_Bundle(tuple(rest), True))

    def compare(first: _Bundle, second: _Bundle) -> int:
        return _compare_bundles(session, first, second, pod, need)

    return sorted(bundles, key=cmp_to_key(compare))


def _compare_bundles(session: Session, first: _Bundle, second: _Bundle, pod: PodStanding, need: Vector) -> int:
    """What can be spared first, then as queues and groups lose, then what frees more for what it costs."""
    if first.is_whole != second.is_whole:
        return first.is_whole - second.is_whole
    one, two = first.owner, second.owner
    if one.queue == two.queue:
        opinion = -session.tiers.compare_workloads(one, two)
    else:
        opinion = session.tiers.compare_victim_queues(one.queue, two.queue, pod.owner.queue)
        opinion = opinion or -session.compare_queues(session.queues[one.queue], session.queues[two.queue])
    left, right = _worth(first, need), _worth(second, need)
    by_name = (first.pods[0].key > second.pods[0].key) - (first.pods[0].key < second.pods[0].key)
    return opinion or (right > left) - (right < left) or by_name


def _spare(pods: Sequence[PodStanding]) -> list[PodStanding]:
    """Pods that a group can lose and keep all its minima; the first of those given."""
    owner = pods[0].owner
    spare: list[PodStanding] = []
    left = owner.ready
    roles = {role: owner.count_role(role, READY) for role in owner.by_role}
    subs = {key: sub.ready for key, sub in owner.subs.items()}
    for pod in pods:
        keeps_role = roles[pod.role] > owner.group.minimum_by_role.get(pod.role, 0)
        keeps_sub = pod.sub.rule is None or not pod.sub.rule.least or subs[pod.sub.key] > pod.sub.size
        if left > owner.count_least and keeps_role and keeps_sub:
            spare.append(pod)
            left -= 1
            roles[pod.role] -= 1
            subs[pod.sub.key] -= 1
    return spare


def _worth(bundle: _Bundle, need: Vector) -> float:
    """What a bundle frees of what is needed, against what its group is in all."""
    freed = total_of(pod.requests for pod in bundle.pods)
    whole = total_of(pod.requests for pod in bundle.owner.pods.values())
    gain = sum(min(freed.get(name, 0), amount) / amount for name, amount in need.items() if amount)
    cost = sum(whole.get(name, 0) / amount for name, amount in need.items() if amount)
    return gain / cost if cost else 0.0
