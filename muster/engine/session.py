"""A session: queues, groups and their pods over the one table of nodes, and every change with its undo.

Opened on a snapshot by whoever runs stages over groups of pods; the stages (`muster/engine/stages`) place, promise and
evict through it, and policies that are opened with it look at it. The table has what will be free: pods that were told
to go are off it already, and places promised to others are taken. What is free at once is told by `is_idle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from itertools import pairwise

import numpy as np

from muster.engine.node_table_columns import Mark as TableMark
from muster.engine.node_table_rows import BoolArray, Demand, OnCards, Placed
from muster.engine.outside import Ask, ask_nobody
from muster.engine.policy import Hooks
from muster.engine.session_domains import DomainNode, DomainTree
from muster.engine.session_groups import stand
from muster.engine.session_leaving import Leaving
from muster.engine.slots import HELD_MOST, NodeSlots
from muster.engine.standing import PodStanding, QueueStanding, Standing, SubStanding, count_pod, count_pods
from muster.engine.tiers import Tiers
from muster.engine.vectors import Vector, add, is_within, total_of
from muster.model.groups import ENDED, HOLDING, GroupPhase, GroupSnapshot, NearWish, PodStatus
from muster.model.pod_rules import ANYWHERE, PodRules
from muster.model.topology import BoundPod

Undo = Callable[[], None]
Mark = tuple[int, TableMark]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What a session is to do beside its policies."""

    enqueues: bool = True  # groups have to be taken up before they are placed
    topology_aware: bool = False  # who preempts looks for the node where the fewest and least have to go
    domains_most: int = 8  # in which whole groups look for victims
    ask: Ask = ask_nobody  # how policies that leave decisions to another server reach it


@dataclass(slots=True)
class Outcome:
    """What a session decided so far."""

    binds: dict[str, str] = field(default_factory=dict)  # node by pod
    evicted: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)  # by group: why it got nothing
    troubles: dict[str, str] = field(default_factory=dict)  # by address: why a server that was asked did not answer


class Session:
    """One session."""

    def __init__(
        self,
        snapshot: GroupSnapshot,
        slots: NodeSlots,
        tiers: Iterable[Sequence[Hooks]],
        options: SessionOptions | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.slots = slots
        self.options = options or SessionOptions()
        self.now = snapshot.now
        self.placer = slots.placer
        self.queues = {name: QueueStanding(queue) for name, queue in sorted(snapshot.queues.items())}
        self.total: Vector = total_of(node.allocatable for node in snapshot.nodes.values())
        self.domains = DomainTree(snapshot.domains, snapshot.nodes)
        self.outcome = Outcome()
        self.leaving = Leaving()
        self.closed: dict[Demand, str] = {}  # why nodes would not take such pods whoever runs there; empty: they would
        self._fresh: dict[str, dict[str, PodStanding]] = {}  # by group: pods with places that are not carried out yet
        self.version = 0  # grows with every change of a pod
        self._record: list[Undo] = []
        self._shard: BoolArray | None = None
        given = [tuple(tier) for tier in tiers]
        keeps = [one.keep for tier in given for one in tier if one.keep is not None]
        self._keep: Callable[[PodRules], PodRules] | None = keeps[0] if keeps else None
        self.groups = stand(snapshot, self.queues)
        self.pods = {pod.key: pod for group in self.groups.values() for pod in group.pods.values()}
        self.on_row: dict[int, dict[str, PodStanding]] = {}
        self.taken_over: list[BoundPod] = []  # pods on their way out, which the table has otherwise than before
        self._take_nodes()
        self._settle_domains()
        opened = [[one.open(self).without(frozenset()) if one.open else one for one in tier] for tier in given]
        self.tiers = Tiers(opened)
        self.foresees = any(one.foresee for one in self.tiers.hooks)
        self.fit_pods = [one.fit_pod for one in self.tiers.hooks if one.fit_pod is not None]
        self.score_pods = [one.score_pod for one in self.tiers.hooks if one.score_pod is not None]
        self._gradients = [one.gradient for one in self.tiers.hooks if one.gradient is not None]
        self._score_domains = [one.score_domains for one in self.tiers.hooks if one.score_domains is not None]
        self._moved = [one.moved for one in self.tiers.hooks if one.moved is not None]

    def use_policies(self) -> tuple[Hooks, ...]:
        """Let the table be asked by the session's policies; those that it was asked by before."""
        return self.placer.use(self.tiers.hooks)

    def close(self) -> None:
        """Tell policies that nothing more will be asked."""
        for close in [one.close for one in self.tiers.hooks if one.close is not None]:
            close()

    # Opening ---------------------------------------------------------------------------------------------------------

    def _take_nodes(self) -> None:
        for name in sorted(self.snapshot.nodes):
            if self.placer.table.find_row(name) is None:
                self.slots.put_node(self.snapshot.nodes[name])
        demands: dict[object, Demand] = {}  # pods are mostly like others
        for pod in self.pods.values():
            given = pod.pod
            kind = (tuple(given.requests.items()), given.rules, given.cards)
            demand = demands.get(kind)
            if demand is None:
                rules = self._keep(given.rules) if self._keep is not None else ANYWHERE
                asked = {name: min(amount, HELD_MOST) for name, amount in given.requests.items()}
                demand = demands[kind] = self.slots.demand_for(asked, rules, given.cards)
            pod.demand = demand
            if pod.status is PodStatus.RELEASING and pod.key in self.slots.foreign:
                self.taken_over.append(self.slots.foreign[pod.key][0])
                self.slots.drop_pod(pod.key)  # from here on the session counts it
        for pod in self.pods.values():
            row = self.placer.table.find_row(pod.node) if pod.node else None
            if row is not None and pod.status not in ENDED:
                self._seat(pod, row)
        sharding = self.snapshot.sharding
        if sharding is not None:
            self._shard = np.array([name in sharding.nodes for name in self.placer.table.names], np.bool_)
        self.placer.commit()

    def _seat(self, pod: PodStanding, row: int) -> None:
        """Hold what a pod has that came with a node."""
        pod.row = row
        self.on_row.setdefault(row, {})[pod.key] = pod
        known = self.slots.foreign.get(pod.key)
        if known is not None:  # the table has it already
            use = known[1]
            pod.demand, pod.held = use.demand, self.slots.held_by(use.slots[0], row)
            return
        pod.held = pod.pod.slices if pod.pod.slices is not None else self._seat_cards(pod.demand, row)
        if not pod.pod.slices and isinstance(pod.held, tuple) and len(pod.held) != pod.demand.cards:
            count = len(pod.held)
            pod.demand = replace(pod.demand, cards=count, milli=pod.demand.milli if count else 0, ask=None)
        if pod.status is PodStatus.RELEASING:
            self.leaving.shift(row, pod, 1)
            # It is still there for others' rules, and its amounts count as free soon.
            pod.demand = replace(pod.demand, amounts=(), cards=0, milli=0, ask=None)
            pod.held = ()
        self.placer.table.know(pod.demand, cards=pod.demand.cards)
        self.placer.charge(row, pod.demand, pod.held, is_hold=True)

    def _seat_cards(self, demand: Demand, row: int) -> OnCards:
        """The freest cards of a row, for a pod of which nobody wrote down which it has."""
        table = self.placer.table
        free = table.cards[row, : table.card_width_of(row)]
        count = min(demand.cards, len(free))
        return tuple(sorted(np.argsort(-free, kind="stable")[:count].tolist()))

    def _settle_domains(self) -> None:
        """Where groups stand already, and which tiers their wishes mean."""
        for group in self.groups.values():
            group.near = self._settled(group.near)
            for sub in group.subs.values():
                sub.near = self._settled(sub.near)
                held = [pod.node for pod in sub.pods.values() if pod.status in HOLDING and pod.node]
                around = self.domains.around(held)
                sub.domain = around.name if around is not None else ""
            holds = any(pod.status in HOLDING for pod in group.pods.values())
            if group.domain not in self.domains.nodes or not holds:
                group.domain = ""
            if holds and not group.domain:
                group.domain = self._common([sub.domain for sub in group.subs.values() if sub.domain])

    def _settled(self, near: NearWish | None) -> NearWish | None:
        if near is None:
            return None
        if not near.is_hard:
            # What is only preferred may go anywhere, and tries the nearest first.
            return replace(near, tier=self.domains.top.tier)
        if near.tier_name:
            return replace(near, tier=self.domains.tier_of(near.tier_name))
        return near

    def _common(self, names: Sequence[str]) -> str:
        found = ""
        for name in names:
            common = self.domains.common(found, name)
            found = common.name if common is not None else ""
        return found

    # Changes ---------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> Mark:
        """A mark that `rollback` returns to."""
        return len(self._record), self.placer.checkpoint()

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark, newest first."""
        changes, of_table = mark
        while len(self._record) > changes:
            self._record.pop()()
        self.placer.rollback(of_table)

    def commit(self) -> None:
        """Keep everything: nothing before this is taken back."""
        self._record.clear()
        self.placer.commit()

    def allocate_alike(self, pods: Sequence[PodStanding], places: Sequence[Placed]) -> None:
        """Give pods of one group, role and demand places that the table has taken for them already."""
        names = self.placer.table.names
        for pod, placed in zip(pods, places, strict=True):
            pod.row, pod.held, pod.node = placed.row, placed.held, names[placed.row]
            self.on_row.setdefault(placed.row, {})[pod.key] = pod

        fresh = self._fresh.setdefault(pods[0].owner.key, {})
        fresh.update((pod.key, pod) for pod in pods)
        self._tell(pods, is_there=True)

        def undo() -> None:
            self._tell(pods, is_there=False)
            for pod in pods:
                del fresh[pod.key]
                del self.on_row[pod.row][pod.key]
                pod.row, pod.held, pod.node = -1, (), ""

        self._record.append(undo)
        self._set_alike(pods, PodStatus.ALLOCATED)

    def _set_alike(self, pods: Sequence[PodStanding], status: PodStatus) -> None:
        """The same change of status for pods of one group, role and demand that stand alike."""
        before, queue = pods[0].status, self.queues.get(pods[0].owner.queue)

        def change(now: PodStatus) -> None:
            count_pods(pods, queue, -1)
            for pod in pods:
                pod.status = now
            count_pods(pods, queue, 1)
            self.version += 1

        change(status)
        self._record.append(lambda: change(before))

    def allocate(self, pod: PodStanding, row: int, held: OnCards) -> None:
        """Give a pod a place that is free."""
        self._place(pod, row, held, PodStatus.ALLOCATED)
        fresh = self._fresh.setdefault(pod.owner.key, {})
        fresh[pod.key] = pod

        def undo() -> None:
            del fresh[pod.key]

        self._record.append(undo)

    def pipeline(self, pod: PodStanding, row: int, held: OnCards) -> None:
        """Promise a pod a place that others have yet to leave."""
        self._place(pod, row, held, PodStatus.PIPELINED)
        self._shift(pod, row, -1)

    def _place(self, pod: PodStanding, row: int, held: OnCards, status: PodStatus) -> None:
        self.placer.charge(row, pod.demand, held, is_hold=True)
        before = (pod.row, pod.held, pod.node)
        self._set_status(pod, status)
        pod.row, pod.held, pod.node = row, held, self.placer.table.names[row]
        self.on_row.setdefault(row, {})[pod.key] = pod
        self._tell((pod,), is_there=True)

        def undo() -> None:
            self._tell((pod,), is_there=False)
            self.on_row[row].pop(pod.key, None)
            pod.row, pod.held, pod.node = before

        self._record.append(undo)

    def evict(self, pod: PodStanding) -> None:
        """Tell a pod to go: what it holds is free soon."""
        self.placer.release(pod.row, pod.demand, pod.held)
        self._set_status(pod, PodStatus.RELEASING)
        self._shift(pod, pod.row, 1)
        self.outcome.evicted.append(pod.key)
        self._tell((pod,), is_there=False)

        def undo() -> None:
            self.outcome.evicted.remove(pod.key)
            self._tell((pod,), is_there=True)

        self._record.append(undo)

    def _tell(self, pods: Sequence[PodStanding], *, is_there: bool) -> None:
        for pod in pods if self._moved else ():
            for moved in self._moved:
                moved(pod, is_there)

    def bind(self, group: Standing) -> None:
        """Carry out what a group was given: its pods go to their nodes."""
        alike: dict[tuple[int, str, int], list[PodStanding]] = {}
        for pod in self._fresh.pop(group.key, {}).values():
            alike.setdefault((id(pod.sub), pod.role, id(pod.demand)), []).append(pod)
            if not pod.pod.waits_for_volumes:
                self.outcome.binds[pod.key] = pod.node
        for pods in alike.values():
            self._set_alike(pods, PodStatus.BINDING)

    def _set_status(self, pod: PodStanding, status: PodStatus) -> None:
        before, queue = pod.status, self.queues.get(pod.owner.queue)

        def change(now: PodStatus) -> None:
            count_pod(pod, queue, -1)
            pod.status = now
            count_pod(pod, queue, 1)
            self.version += 1

        change(status)
        self._record.append(lambda: change(before))

    def _shift(self, pod: PodStanding, row: int, sign: int) -> None:
        """What a pod holds is left soon, or what is left soon is promised to it."""
        self.leaving.shift(row, pod, sign)
        self._record.append(lambda: self.leaving.undo(row, pod, sign))

    def note(self, undo: Undo) -> None:
        """Remember how to undo a change that is the caller's."""
        self._record.append(undo)

    # Questions -------------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        return self.placer.table.row_count

    @property
    def shard(self) -> BoolArray | None:
        """The rows that are looked at first, or alone; `None`: all alike."""
        return self._shard

    @property
    def is_particular(self) -> bool:
        """Whether alike pods may have to go to places that are no equals: somebody leaves, or looks at each pod."""
        return self.leaving.is_any or self._shard is not None or bool(self.fit_pods or self.score_pods)

    @property
    def is_sharded_hard(self) -> bool:
        return self.snapshot.sharding is not None and self.snapshot.sharding.is_hard

    def queue_of(self, group: Standing) -> QueueStanding:
        return self.queues[group.queue]

    def future_idle(self, row: int) -> dict[str, float]:
        """What of a row will be free."""
        table = self.placer.table
        return {name: int(table.free[column, row]) for column, name in enumerate(table.resources)}

    def idle(self, row: int) -> dict[str, float]:
        """What of a row is free now."""
        return {name: amount - self.leaving.of(name, row) for name, amount in self.future_idle(row).items()}

    def used(self) -> dict[str, float]:
        """What of all nodes is used now, by whomsoever; cards are not counted here."""
        table = self.placer.table
        taken = (table.total - table.free)[:, : self.rows].sum(axis=1).tolist()
        return {name: amount + self.leaving.total(name) for name, amount in zip(table.resources, taken, strict=True)}

    def has_future_room(self, pod: PodStanding, row: int, more: Vector | None = None) -> bool:
        """Whether a row will have what a pod asks for, with more given back where that is told."""
        free = self.future_idle(row)
        if more:
            add(free, more)
        return is_within(pod.requests, free)

    def idle_rows(self, pod: PodStanding, fitting: BoolArray) -> BoolArray:
        """Of rows that will have room for a pod, those that have it now."""
        return self.leaving.idle_rows(pod, fitting, self.placer.table)

    def gradient(
        self, who: Standing | SubStanding, below: DomainNode, *, evicts: bool = False
    ) -> Sequence[Sequence[DomainNode]]:
        """Domains to try for a group or sub group, those of one tier at a time."""
        return self._gradients[0](who, below, evicts) if self._gradients else [[below]]

    def domain_scores(self, sub: SubStanding, domains: Sequence[DomainNode]) -> dict[str, float]:
        """What domains score for a sub group, all policies together."""
        total = dict.fromkeys([domain.name for domain in domains], 0.0)
        for score in self._score_domains:
            for name, value in score(sub, domains).items():
                total[name] += value
        return total

    def evictable(self, preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """Which pods may go for a whole group; all of them where no policy has a say."""
        if not any(one.evict for one in self.tiers.hooks):
            return frozenset(pod.key for pod in candidates)
        return self.tiers.evict(preemptor, candidates)

    def rows_in(self, domain: DomainNode) -> BoolArray | None:
        """The rows of a domain; `None`: all of them."""
        return self.domains.rows_of(domain, self.placer.table.names)

    # Order -----------------------------------------------------------------------------------------------------------

    def compare_queues(self, first: QueueStanding, second: QueueStanding) -> int:
        """Below zero when the first queue goes first."""
        opinion = self.tiers.compare_queues(first.name, second.name)
        return opinion or _compared(_queue_key(first), _queue_key(second))

    def compare_groups(self, first: Standing, second: Standing) -> int:
        """The same for groups."""
        return self.tiers.compare_workloads(first, second) or _compared(_group_key(first), _group_key(second))

    def compare_pods(self, first: PodStanding, second: PodStanding) -> int:
        """The same for pods."""
        return self.tiers.compare_pods(first, second) or _compare_by_name(first, second)

    def compare_subs(self, first: SubStanding, second: SubStanding) -> int:
        """The same for sub groups."""
        return self.tiers.compare_subs(first, second) or _compared(_sub_key(first), _sub_key(second))

    def sorted_pods(self, pods: Iterable[PodStanding]) -> list[PodStanding]:
        """Pods in order, the best first."""
        given = list(pods)
        numbers = [_number(pod.key) for pod in given]
        if None not in numbers or not any(number is not None for number in numbers):
            keys = {pod.key: (number, *_pod_key(pod)) for pod, number in zip(given, numbers, strict=True)}
            given.sort(key=lambda pod: keys[pod.key] if keys[pod.key][0] is not None else keys[pod.key][1:])
            compare = self.tiers.compare_pods
            # Mostly no policy has anything to say against this order.
            if all(compare(one, two) <= 0 for one, two in pairwise(given)):
                return given
        return sorted(given, key=cmp_to_key(self.compare_pods))

    def victim_order(self, pods: Iterable[PodStanding], preemptor: PodStanding) -> list[PodStanding]:
        """Those first that go first: what would be placed last leaves first."""

        def compare(first: PodStanding, second: PodStanding) -> int:
            one, two = first.owner, second.owner
            if one is two:
                return -self.compare_pods(first, second)
            if one.queue == two.queue:
                return -self.compare_groups(one, two)
            by_queue = self.tiers.compare_victim_queues(one.queue, two.queue, preemptor.owner.queue)
            return by_queue or -self.compare_queues(self.queues[one.queue], self.queues[two.queue])

        return sorted(pods, key=cmp_to_key(compare))


def _queue_key(queue: QueueStanding) -> tuple[float, str]:
    return queue.queue.created_at, queue.name


def _group_key(group: Standing) -> tuple[float, str]:
    return group.group.created_at, group.key


def _sub_key(sub: SubStanding) -> tuple[int, str]:
    """By the number that the labels of its pods give it, if they do, then by name."""
    number = sub.values[-1] if sub.values else ""
    return int(number) if number.isdecimal() and len(number) < 10 else 0, sub.key


def _compare_by_name(first: PodStanding, second: PodStanding) -> int:
    """By the number at the end of their names where both have one, then by age, then by identity."""
    one, two = _number(first.key), _number(second.key)
    if one is not None and two is not None and one != two:
        return one - two
    return _compared(_pod_key(first), _pod_key(second))


def _pod_key(pod: PodStanding) -> tuple[float, str]:
    return pod.pod.created_at, pod.pod.uid


def _number(key: str) -> int | None:
    parts = key.rpartition("/")[2].split("-")
    return int(parts[-1]) if len(parts) >= 3 and parts[-1].isdecimal() and len(parts[-1]) < 10 else None


def _compared(first: tuple[object, ...], second: tuple[object, ...]) -> int:
    return (first > second) - (first < second)


def phase_at_close(group: Standing, *, is_unschedulable: bool) -> GroupPhase:
    """The phase of a group when a session ends."""
    by_status = group.by_status
    if by_status[PodStatus.RUNNING] and is_unschedulable:
        return GroupPhase.UNKNOWN
    leaving = sum(1 for pod in group.pods.values() if pod.status is PodStatus.RELEASING and pod.pod.node)
    ended = by_status[PodStatus.SUCCEEDED] + by_status[PodStatus.FAILED]
    scheduled = by_status[PodStatus.RUNNING] + by_status[PodStatus.BOUND] + ended + leaving
    if scheduled >= group.count_least:
        return GroupPhase.COMPLETED if scheduled == ended else GroupPhase.RUNNING
    return group.phase if group.phase is GroupPhase.INQUEUE else GroupPhase.PENDING
