"""The engine's state: the quota tree with its usage, who holds quota and who waits, kept between cycles.

One owner changes it: it feeds what it learns (`take`, `drop`), starts a cycle, lets `decide` plan on it, and applies
the plan. Deciding changes nothing. All of it can be rebuilt from objects but for what `docs/state.md` lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from muster.engine.deadlines import GangDeadlines
from muster.engine.flavor_kinds import SearchCache
from muster.engine.growth import Growth, attempt_of, rank_of
from muster.engine.holders import Holder, Holders, holder_of
from muster.engine.ledger import Ledger
from muster.engine.lines import WAITS_FOR_VICTIMS, Line
from muster.engine.places import Places
from muster.engine.repeats import Repeats
from muster.engine.second_pass import SecondPass
from muster.engine.shared_use import SharedUse
from muster.engine.slot_asks import SlotUse
from muster.engine.topology import Topologies
from muster.engine.tree import QuotaNode, QuotaTree
from muster.engine.usage_history import UsageHistory, in_base_units
from muster.engine.waiting import WaitingRoom
from muster.model.flavor import Flavor
from muster.model.plan import Amend, Evict, Finish, Plan, Requeue, Reserve, Retry, Return, ScanProgress, Shrink
from muster.model.queue import Stop
from muster.model.settings import Settings
from muster.model.snapshot import Snapshot
from muster.model.topology import BoundPod, Node
from muster.model.workload import Workload

if TYPE_CHECKING:
    from muster.engine.slots import NodeSlots


class EngineState:
    """Everything that the engine remembers."""

    def __init__(self, snapshot: Snapshot, slots: NodeSlots | None = None) -> None:
        self.settings: Settings = snapshot.settings
        self.flavors: Mapping[str, Flavor] = snapshot.flavors
        self.namespaces: Mapping[str, Mapping[str, str]] = snapshot.namespaces
        self.now = snapshot.now
        self.cycle = 0
        self.tree = QuotaTree(snapshot.queues.values())
        self._roots = [node for node in self.tree.nodes.values() if node.parent is None]
        self.places = self._new_places(snapshot, slots)
        self.ledger = Ledger(self.places)
        self.second_pass = SecondPass()
        self.deadlines = GangDeadlines(self.settings.gang_deadline_s)
        self.holders = Holders()
        self.workloads: dict[str, Workload] = {}
        self.history: UsageHistory | None = None
        if self.settings.usage_fairness is not None:
            self.history = UsageHistory(self.settings.usage_fairness, snapshot.submit_queues.values())
        self.shared = SharedUse(snapshot.shared_limits, self.tree)
        used_by = self.history.used_by if self.history is not None else None
        self.room = WaitingRoom(self.tree, self.admits, used_by, self.shared.held_by)
        self.search_cache = SearchCache()
        self.progress: dict[str, ScanProgress] = {}
        self.preemptors: set[str] = set()
        self.generations: dict[str, int] = {}  # by root: how often something was given back
        self.versions: dict[str, int] = {}  # by root: how often something was taken or given back
        self.resumes_at = ""  # the queue at which the last cycle was cut short
        self.preempted_last: dict[str, float] = {}  # by queue: when it last preempted
        self.repeats = Repeats(self.settings.guards.repeat_most)
        self.growth = Growth()
        self.may_grow = False  # in this cycle: whoever waits has been tried and got nothing
        self._version_begun = 0  # of the nodes, when the cycle began
        self._node_changes = 0
        self._changes = 0  # of all trees
        self._in_use: dict[str, dict[str, int]] = {}  # by submit queue, while its history is kept
        self._stopped_submits = frozenset(
            key for key, one in snapshot.submit_queues.items() if one.stop is not Stop.NONE
        )
        for key in sorted(snapshot.workloads):
            self.take(snapshot.workloads[key])

    # Changes that come from outside.

    def take(self, workload: Workload) -> None:
        """Learn of a workload, new or changed."""
        if self.places.slots is not None and workload.key not in self.workloads:
            self.places.slots.expect(workload)
        self._leave_line(workload.key)
        self._follow_history(workload)
        before = self.holders.get(workload.key)
        after = self._holder_of(workload)
        self.workloads[workload.key] = workload
        self.second_pass.note(workload, self.now)
        if before is not None and after is not None and before.is_same_charge(after):
            self._count_use(before, -1)
            self._count_use(after, 1)
            self.holders.replace(after)
            self._follow_slots(before.workload, after)
            return
        if before is not None:
            self._give_back(before)
        if after is not None:
            self._charge(after)
        elif self.should_wait(workload):
            self.room.add(workload, self.now)

    def drop(self, key: str) -> None:
        """Learn that a workload is gone."""
        self._leave_line(key)
        holder = self.holders.get(key)
        if holder is not None:
            self._give_back(holder)
        known = self.workloads.pop(key, None)
        if known is not None and self.history is not None:
            self.history.forgive(known.submit_queue, key)
        self.repeats.forget(key)
        self.second_pass.forget(key)
        self.progress.pop(key, None)
        self.preemptors.discard(key)
        self.deadlines.end_wait(key)
        self.deadlines.end_pause(key)

    def put_node(self, node: Node) -> None:
        """Learn of a node, new or changed: there may be room now."""
        if self.places.is_any:
            self.places.put_node(node)
            self._flush_nodes()

    def drop_node(self, name: str) -> None:
        self.places.drop_node(name)

    def put_pod(self, pod: BoundPod) -> None:
        """Learn of a pod that no admission accounts for."""
        if self.places.is_any:
            self.places.put_pod(pod)
            self._flush_nodes()  # it may have come in place of a larger one

    def drop_pod(self, key: str) -> None:
        if self.places.is_any:
            self.places.drop_pod(key)
            self._flush_nodes()

    def flush(self, queue: str) -> None:
        """Something changed in a queue's tree: those parked there may be tried again."""
        node = self.tree.nodes.get(queue)
        if node is not None:
            self.room.flush(node.root, self.cycle)

    def _flush_nodes(self) -> None:
        """Something changed on the nodes: there may be room, also in flavors that were tried before."""
        self._node_changes += 1
        self.flush_all()

    def flush_all(self) -> None:
        for root in self._roots:
            self.room.flush(root, self.cycle)

    # What others look at.

    def line(self, queue: str) -> Line:
        """A queue's line as it is now."""
        return self.room.line(queue, self.now)

    @property
    def lines(self) -> dict[str, Line]:
        """All lines as they are now, by queue."""
        return self.room.lines(self.now)

    # The cycle.

    def begin_cycle(self, now: float) -> None:
        """Start a cycle: what is called back from here on counts as called back since."""
        assert now >= self.now, "time does not go back"
        self.now = now
        self.cycle += 1
        self._sample_usage()
        if self.places.slots is not None:
            self.places.slots.adapt()
        self.deadlines.advance(now, self._is_short_of_pods)
        self.room.call_due(now)
        self._version_begun = self.node_version
        self.may_grow = bool(self.growing()) and self.is_settled

    @property
    def is_settled(self) -> bool:
        """Whether every head was tried in vain since anything was taken or given back."""
        heads = (attempt_of(head.key, self.progress.get(head.key)) for _, head in self.heads())
        return self.growth.were_tried(heads, self.node_version)

    def next_due(self) -> float | None:
        """When a cycle may decide something new although nothing has changed; `None`: never."""
        known = (self.room.next_due(), self.second_pass.next_due(), self.deadlines.next_due())
        return min((due for due in known if due is not None), default=None)

    def heads(self) -> Iterator[tuple[QuotaNode, Workload]]:
        """The first workload of every queue that takes part."""
        return self.room.heads(self.now, self.resumes_at)

    def progress_of(self, workload: Workload, queue: QuotaNode) -> ScanProgress | None:
        """Where the workload's flavor search goes on, unless it has to start over."""
        progress = self.progress.get(workload.key)
        if progress is None:
            return None
        if self.settings.keeps_scan_progress:
            if progress.kind_key != workload.kind_key:
                return None
            if self.cycle - progress.cycle <= 1:
                return progress
        return progress if self.generation_of(queue) <= progress.generation else None

    def generation_of(self, queue: QuotaNode) -> int:
        """Grows whenever quota of the queue's tree is given back."""
        return queue.queue.generation + self.generations.get(queue.root.name, 0)

    def apply(self, plan: Plan) -> None:
        """Act on a plan as if all of it had been carried out; what fails is fed back by `take`."""
        assert plan.cycle == self.cycle, "a plan is applied in its own cycle"
        self.resumes_at = plan.resumes_at
        for decision in plan.decisions:
            if isinstance(decision, Reserve):
                self._apply_reserve(decision)
            elif isinstance(decision, Evict):
                self._apply_evict(decision)
            elif isinstance(decision, Shrink):
                self._apply_shrink(decision)
            elif isinstance(decision, Finish):
                self.take(self.workloads[decision.workload].changed(is_finished=True))
            elif isinstance(decision, Requeue):
                self._apply_requeue(decision)
            elif isinstance(decision, Amend):
                self._apply_amend(decision)
            elif isinstance(decision, Retry):
                self.second_pass.retry(decision.workload, self.now)
        self.growth.tried((attempt_of(key, self.progress.get(key)) for key in plan.verdicts), self._version_begun)
        if self.may_grow:
            self.growth.mark(self.node_version)

    def _apply_reserve(self, decision: Reserve) -> None:
        self.progress.pop(decision.workload, None)
        self.preemptors.discard(decision.workload)
        self.deadlines.end_wait(decision.workload)
        self.deadlines.end_pause(decision.workload)
        self._leave_line(decision.workload)
        before = self.workloads[decision.workload]
        workload = before.changed(
            admission=decision.admission,
            is_admitted=decision.is_admitted,
            is_evicted=False,
            reserved_at=self.now,
        )
        self.workloads[workload.key] = workload
        holder = self._holder_of(workload)
        assert holder is not None, f"{workload.key} was given quota of a queue that is not there"
        self._charge(holder)
        if self.history is not None:
            self.history.penalise(workload)

    def _apply_amend(self, decision: Amend) -> None:
        workload = self.workloads[decision.workload]
        left = tuple(node for node in workload.unhealthy_nodes if node != decision.replaced_node)
        self.second_pass.forget(workload.key)
        self.take(
            replace(workload, admission=decision.admission, is_admitted=decision.is_admitted, unhealthy_nodes=left)
        )

    def _apply_evict(self, decision: Evict) -> None:
        holder = self.holders.get(decision.workload)
        assert holder is not None, f"{decision.workload} is told to go and holds nothing"
        leaving = holder.workload.changed(is_evicted=True, preempted_at=self.now)
        self.second_pass.note(leaving, self.now)
        self.workloads[decision.workload] = leaving
        self.holders.replace(replace(holder, workload=leaving))
        self._hold_slots(self.holders.get(decision.workload))
        self.deadlines.stop(decision.workload)
        self.growth.note(leaving)
        if decision.in_favour_of:
            self.preempted_last[decision.queue] = self.now
        contender = self.workloads.get(decision.in_favour_of)
        if contender is not None:
            self.repeats.note(decision.workload, contender)

    def _apply_shrink(self, decision: Shrink) -> None:
        holder = self.holders.get(decision.workload)
        assert holder is not None, f"{decision.workload} is told to shrink and holds nothing"
        before = holder.workload.leaving_slots
        leaving = {name: (*before.get(name, ()), *slots) for name, slots in decision.slots.items()}
        shrinking = holder.workload.changed(leaving_slots={**before, **leaving})
        self.workloads[decision.workload] = shrinking
        self.holders.replace(replace(holder, workload=shrinking))
        self._hold_slots(self.holders.get(decision.workload))
        self.growth.note(shrinking)
        self.preempted_last[decision.queue] = self.now

    def growing(self) -> list[Workload]:
        """Those who run with fewer pods than they want, the most important first; only where something changed."""
        return self.growth.due(self.node_version)

    @property
    def node_version(self) -> int:
        """Grows whenever anything is taken or given back: trees share nodes."""
        return self._changes + self._node_changes

    def _apply_requeue(self, decision: Requeue) -> None:
        key = decision.workload
        if decision.progress is not None:
            self.progress[key] = decision.progress
        else:
            self.progress.pop(key, None)
        if decision.why in WAITS_FOR_VICTIMS:
            self.preemptors.add(key)
            self.deadlines.wait(key, self.now)
        elif key in self.preemptors:
            self.preemptors.discard(key)
            self.deadlines.end_wait(key)
            # It holds nobody back any more; where nodes matter, not even in other trees.
            self.flush_all() if self.places.is_any else self.flush(decision.queue)
        if decision.why is Return.GAVE_UP_WAITING and decision.retry_at is not None:
            self.deadlines.pause(key, decision.retry_at)
        if decision.why is Return.PREEMPTION_NO_CANDIDATES:
            self.growth.wait(self.workloads[key])
        else:
            self.growth.end_wait(key)
        self.room.put_back(decision, self.cycle, self.now, parks_alike=self.settings.parks_alike)

    def repeated_preemptor(self, workload: Workload) -> tuple[str, int] | None:
        """Who has preempted a workload too often already and is unchanged: it runs, or goes before it and waits.

        Among those that wait, a fixed order decides who holds back whom, so that not all hold back each other.
        """
        if not self.repeats.is_known(workload.key):
            return None
        for identity, count in self.repeats.too_often_by(workload):
            key = identity[0]
            contender = self.workloads.get(key)
            if contender is None or not self.repeats.is_same(contender, identity):
                continue
            is_first = key in self.preemptors and rank_of(contender) < rank_of(workload)
            if self.holders.get(key) is not None or is_first:
                return key, count
        return None

    # Bookkeeping.

    def _follow_history(self, workload: Workload) -> None:
        """Keep what is remembered of a workload in step with what it has become."""
        before = self.workloads.get(workload.key)
        if before is not None and before.kind_key != workload.kind_key:
            self.repeats.forget(workload.key)
        if self.history is None:
            return
        if before is not None and before.submit_queue != workload.submit_queue:
            self.history.forgive(before.submit_queue, workload.key)
        if workload.is_admitted:
            in_use = self._in_use.get(workload.submit_queue, {})
            self.history.settle(workload, in_base_units(in_use), self.now)
        elif workload.admission is None:
            self.history.forgive(workload.submit_queue, workload.key)

    def _sample_usage(self) -> None:
        if self.history is None or not self.history.is_due(self.now):
            return
        for name in list(self.history.submit_queues()):
            self.history.sample(name, in_base_units(self._in_use.get(name, {})), self.now)

    def _count_use(self, holder: Holder, sign: int) -> None:
        """Keep what each application uses, and each submit queue where its past use counts."""
        self.shared.count(holder, sign)
        if self.history is None:
            return
        name = holder.workload.submit_queue
        amounts = self._in_use.setdefault(name, {})
        self.history.follow(name, in_base_units(amounts), self.now)
        for (_, resource), amount in holder.usage.items():
            amounts[resource] = amounts.get(resource, 0) + sign * amount

    def should_wait(self, workload: Workload) -> bool:
        """Whether a workload without quota belongs into its queue's line."""
        is_held_back = bool(workload.gates) and self.settings.admission_gates
        return (
            workload.is_active
            and not workload.is_finished
            and not workload.is_split
            and not is_held_back
            and workload.queue in self.room
            and workload.admission is None
            and workload.submit_queue not in self._stopped_submits
        )

    def _holder_of(self, workload: Workload) -> Holder | None:
        """What a workload holds; nothing when it has finished or the queue that paid is gone."""
        if workload.admission is None or workload.is_finished:
            return None
        node = self.tree.leaf(workload.admission.queue)
        if node is None:
            return None
        releases = self.settings.releases_finished_pods
        return holder_of(workload, node, releases_finished_pods=releases, places=self.places)

    def _new_places(self, snapshot: Snapshot, slots: NodeSlots | None) -> Places:
        """The places of the flavors that have topologies, and of nodes where Muster decides on those."""
        flavors = [flavor for flavor in snapshot.flavors.values() if flavor.topology_levels]
        has_topologies = bool(flavors) and self.settings.topology
        places = Places(Topologies(flavors, self.settings.topology_rules) if has_topologies else None, slots)
        if places.is_any:
            for name in sorted(snapshot.nodes):
                places.put_node(snapshot.nodes[name])
            for key in sorted(snapshot.bound_pods):
                places.put_pod(snapshot.bound_pods[key])
        return places

    def _note_change(self, queue: QuotaNode) -> None:
        root = queue.root.name
        self.versions[root] = self.versions.get(root, 0) + 1
        self._changes += 1

    def version_of(self, queue: QuotaNode) -> int:
        """Grows whenever quota of the queue's tree is taken or given back, or a node changes."""
        # Trees share nodes: where those are decided on, a change of one is a change of all.
        changes = self._changes if self.places.slots is not None else self.versions.get(queue.root.name, 0)
        return changes + self._node_changes

    def _charge(self, holder: Holder) -> None:
        self.holders.add(holder)
        self._count_use(holder, 1)
        self.ledger.charge(holder.queue, holder.usage)
        self.ledger.charge_places(holder.places)
        self.ledger.commit()
        if self._hold_slots(holder):
            self.deadlines.start(holder.workload.key, self.now)
        self.growth.note(holder.workload)
        self._note_change(holder.queue)

    def _hold_slots(self, holder: Holder | None) -> bool:
        """Let the slots know who holds them; whether it holds any."""
        if holder is None or self.places.slots is None or not holder.workload.slot_count:
            return False
        self.places.slots.holders.hold(holder.workload, [use for use in holder.places if isinstance(use, SlotUse)])
        return True

    def _follow_slots(self, before: Workload, holder: Holder) -> None:
        """Keep up with a workload whose slots are the same and that is not: it may grow now, or have lost a pod."""
        self.growth.note(holder.workload)
        if self._hold_slots(holder) and holder.workload.is_short_of_pods and not before.is_short_of_pods:
            self.deadlines.start(holder.workload.key, self.now)

    def _is_short_of_pods(self, key: str) -> bool:
        holder = self.holders.get(key)
        return holder is not None and holder.workload.is_short_of_pods

    def _give_back(self, holder: Holder) -> None:
        """Release a workload's quota, once; those parked in the tree may be tried again."""
        self.holders.remove(holder.workload.key)
        self.deadlines.stop(holder.workload.key)
        self.growth.forget(holder.workload.key)
        if self.places.slots is not None and holder.workload.slot_count:
            self.places.slots.holders.give_back(holder.workload.key)
        self._count_use(holder, -1)
        self.ledger.release(holder.queue, holder.usage)
        self.ledger.release_places(holder.places)
        self.ledger.commit()
        self._note_change(holder.queue)
        root = holder.queue.root.name
        self.generations[root] = self.generations.get(root, 0) + 1
        if holder.places:
            self.flush_all()  # trees share nodes
        else:
            self.flush(root)

    def _leave_line(self, key: str) -> None:
        self.growth.end_wait(key)
        before = self.workloads.get(key)
        if before is not None:
            self.room.remove(before)

    def admits(self, queue: QuotaNode, workload: Workload) -> bool:
        """Whether a queue takes workloads of the workload's namespace."""
        selector = queue.queue.admits_namespaces
        labels = self.namespaces.get(workload.namespace)
        return selector is not None and labels is not None and selector.matches(labels)

    def older_slice(self, workload: Workload) -> Holder | None:
        """The running workload that this one takes over from."""
        return self.holders.get(workload.replaces) if self.settings.elastic_slices and workload.replaces else None

    def is_submit_stopped(self, workload: Workload) -> bool:
        return workload.submit_queue in self._stopped_submits

    def siblings(self, workload: Workload) -> Iterator[Holder]:
        """Admitted variants of the same workload in the same queue, which race it for another flavor."""
        if not workload.variant_of:
            return
        for holder in self.holders.in_queue(workload.queue).values():
            other = holder.workload
            if other.variant_of == workload.variant_of and other.key != workload.key and other.is_admitted:
                yield holder

    def waiting_pods(self) -> Iterable[str]:
        """Admitted workloads whose pods are not all ready."""
        return (h.workload.key for h in self.holders.all() if h.workload.is_admitted and not h.workload.is_ready)
