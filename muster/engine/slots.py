"""Slots: nodes and shares of cards for the pods of workloads, found and held on the one table of nodes.

`NodeSlots` is owned by the engine's state where Muster decides on nodes. It learns of nodes and of pods that no
admission accounts for; a cycle takes a checkpoint, charges and releases as it tries things, and rolls back, as with the
ledger. Searching changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from muster.engine.fit import FitReport, why_not
from muster.engine.fit_nodes import NodeFacts
from muster.engine.gang_domains import Domains, DomainWish
from muster.engine.gangs import (
    Gang,
    GangRefused,
    Member,
    Task,
    Unstarted,
    explain_refusal,
    place_gang,
    place_up_to,
    room_ever,
    room_most,
)
from muster.engine.node_table import Change
from muster.engine.node_table_columns import Mark, Placer
from muster.engine.node_table_rows import (
    WHOLE,
    BoolArray,
    Demand,
    OnCards,
    Placed,
    TableNode,
    demand,
    slice_demand,
)
from muster.engine.pod_mix import PodMix
from muster.engine.pod_victims import VictimRules, find_victims
from muster.engine.policy import Hooks
from muster.engine.slices_ask import CardAsk
from muster.engine.slot_asks import PODS_MOST, SlotAsk, SlotRefusal, SlotUse, too_many
from muster.engine.slot_holders import NO_DEMAND, SlotHolders, owner_of, refusal_of
from muster.model.flavor import Flavor
from muster.model.pod_rules import ANYWHERE, NodeRules, PodRules
from muster.model.resources import CPU, PODS
from muster.model.slices import CardRequests
from muster.model.topology import BoundPod, Node, NodeRoom, PlacedPods, TopologyAssignment
from muster.model.workload import PodSet, Slot, Workload

DEMANDS_KEPT = 4096

PODS_UNLIMITED = 2**31  # of a node that does not say how many pods it takes
HELD_MOST = 2**50  # what one pod can hold of a resource: many of them together still fit into a cell of the table
CARDS_MOST = 1024  # of one node: what is more than any machine has is not counted card by card

SlotsByPodSet = dict[str, tuple[Slot, ...]]
MayLeave = Callable[[Iterable[str], Iterable[str]], bool]  # whether these workloads may leave after those
CardReader = Callable[[CardRequests], CardAsk]
SlotMark = Mark
HooksOf = Callable[[Workload], Sequence[Hooks] | None]  # the policies for a workload's pods; None: those for all


@dataclass(frozen=True, slots=True)
class SlotVictims:
    """Who has to leave slots: workloads as a whole, and pods of elastic ones that are above the minimum."""

    workloads: tuple[str, ...]
    shrunk: Mapping[str, SlotsByPodSet]  # by workload


@dataclass(frozen=True, slots=True, kw_only=True)
class CardKinds:
    """What is known of the cards in a cluster: the resources that stand for them, and how pods ask for slices."""

    counts: tuple[str, ...] = ()  # resources that count whole cards
    resources: frozenset[str] = frozenset()  # all that are about cards
    model_label: str = ""  # the label by which nodes name the model of their cards
    read: CardReader | None = None  # None: slices are not read
    usual_mib: int = 0  # the memory of most cards


NO_CARDS = CardKinds()


class NodeSlots:
    """The nodes, what is held of them, and the search for more."""

    def __init__(
        self,
        placer: Placer,
        *,
        flavors: Mapping[str, Flavor],
        levels: Sequence[str] = (),
        cards: CardKinds = NO_CARDS,
        hooks_of: HooksOf | None = None,
    ) -> None:
        self.placer = placer
        self._hooks_of = hooks_of
        self.domains = Domains(levels)
        self._flavors = flavors
        self._cards = cards
        self._demands: dict[object, Demand] = {}
        self.foreign: dict[str, tuple[BoundPod, SlotUse]] = {}  # by pod: what no admission accounts for
        self._guests: dict[int, dict[str, Demand]] = {}  # by row: pods of which nobody knows on which cards they are
        self._disturbed: set[int] = set()  # rows with guests on which something changed
        self._mix = PodMix()
        self._kinds: dict[object, Demand] = {}  # by what decides on them
        self.holders = SlotHolders(self._place_of)

    # Changes that come from outside ----------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Learn of a node, new or changed; what pods hold of it stays held."""
        counted = min(CARDS_MOST, sum(node.allocatable.get(name, 0) for name in self._cards.counts))
        amounts = {**node.allocatable, PODS: node.allocatable.get(PODS, PODS_UNLIMITED)}
        model = node.labels.get(self._cards.model_label, "")
        row = self.placer.table.put(
            TableNode(name=node.name, amounts=amounts, cards=counted, model=model, devices=node.devices)
        )
        self._facts.put(row, node)
        self.domains.put(row, node.labels)
        if row in self._guests:
            self._seat_guests(row)
            self.placer.commit()

    def drop_node(self, name: str) -> None:
        """Learn that a node is gone; what is held of it is remembered in case it comes back."""
        row = self.placer.table.find_row(name)
        if row is not None:
            self.placer.table.drop(name)
            self._facts.drop(row)
            self.domains.drop(row)

    def _row_for(self, node: str) -> int:
        """The row of a node; one that is not known yet gets one, so that what is held there counts when it comes."""
        row = self.placer.table.find_row(node)
        if row is None:
            self.put_node(Node(name=node))
            self.drop_node(node)
            row = self.placer.table.row_of(node)
        return row

    @property
    def _facts(self) -> NodeFacts:
        assert self.placer.pods is not None, "slots keep all rules of pods"
        return self.placer.pods.facts

    def put_pod(self, pod: BoundPod) -> None:
        """Learn of a pod that holds a part of a node and that no admission accounts for."""
        if pod.key in self.foreign and self.foreign[pod.key][0] == pod:
            return
        self.drop_pod(pod.key)
        requests = {name: min(amount, HELD_MOST) for name, amount in pod.requests.items()}
        demand = self.demand_for(requests, pod.rules, pod.cards)
        if pod.slices is None and demand.cards:
            self.foreign[pod.key] = (pod, SlotUse(demand, ()))
            row = self._row_for(pod.node)
            self._guests.setdefault(row, {})[pod.key] = demand
            self._disturbed.add(row)
        else:
            use = SlotUse(demand, (Slot(pod.node, (), pod.slices),))
            self.foreign[pod.key] = (pod, use)
            self.charge((use,))
        self.commit()

    def drop_pod(self, key: str) -> None:
        """Learn that such a pod is gone."""
        known = self.foreign.pop(key, None)
        if known is None:
            return
        pod, use = known
        self.release((use,))
        row = self._row_for(pod.node)
        if self._guests.get(row, {}).pop(key, None) is not None and not self._guests[row]:
            del self._guests[row]
        self.commit()

    def _seat_guests(self, row: int) -> None:
        """Let pods whose cards nobody knows have those that are left, in the order of their names."""
        guests = self._guests.get(row, {})
        self.release([self.foreign[key][1] for key in guests])
        for key in sorted(guests):
            pod, _ = self.foreign[key]
            use = self._seat(pod, guests[key], row)
            self.foreign[key] = (pod, use)
            self.charge((use,))

    def _seat(self, pod: BoundPod, wanted: Demand, row: int) -> SlotUse:
        """The freest cards of a node; of one that has fewer than the pod asks for, all of them."""
        table = self.placer.table
        free = table.cards[row, : table.card_width_of(row)]
        count = min(wanted.cards, len(free))
        cards = tuple(sorted(np.argsort(-free, kind="stable")[:count].tolist()))
        seated = replace(wanted, cards=count) if count else replace(wanted, cards=0, milli=0, ask=None)
        return SlotUse(seated, (Slot(pod.node, cards),))

    # What workloads hold ---------------------------------------------------------------------------------------------

    def checkpoint(self) -> SlotMark:
        """A mark that `rollback` returns to."""
        return self.placer.checkpoint()

    def rollback(self, mark: SlotMark) -> None:
        """Undo every charge and release since the mark."""
        self.placer.rollback(mark)

    def commit(self) -> None:
        """Keep everything: what happened cannot be undone."""
        for row in tuple(self._disturbed):
            self._seat_guests(row)
        self._disturbed.clear()
        self.placer.commit()

    def charge(self, uses: Iterable[SlotUse]) -> None:
        """Hold slots, also those that others were told to leave and have not left yet."""
        uses = tuple(uses)
        for use in uses:
            cards = use.demand.cards
            for slot in use.slots:
                if slot.cards:
                    cards = max(cards, max(slot.cards) + 1)
            self.placer.table.know(use.demand, cards=cards)
        self._change(uses, 1)

    def release(self, uses: Iterable[SlotUse]) -> None:
        """Give slots back."""
        self._change(uses, -1)

    def _change(self, uses: Iterable[SlotUse], sign: int) -> None:
        changes = [Change(row, use.demand, tuple(pods), sign) for use in uses for row, pods in self._rows(use)]
        self.placer.change(changes)
        if self._guests:
            self._disturbed.update(change.row for change in changes if change.row in self._guests)

    def has_room(self, uses: Iterable[SlotUse]) -> bool:
        """Whether the slots are all there and free, at once."""
        mark = self.checkpoint()
        is_free = all(self.placer.retake(row, use.demand, *pods) for use in uses for row, pods in self._rows(use))
        self.rollback(mark)
        return is_free

    def _rows(self, use: SlotUse) -> Iterator[tuple[int, list[OnCards]]]:
        for node, slots in use.by_node():
            row = self._row_for(node)
            yield row, [self.held_by(slot, row) for slot in slots]

    def held_by(self, slot: Slot, row: int) -> OnCards:
        """What a slot is of the cards of its row, as the table has them now."""
        return self.placer.table.columns_of(row, slot.cards, slot.names) if slot.names else slot.on_cards

    def _place_of(self, slot: Slot) -> Placed:
        row = self._row_for(slot.node)
        held = self.held_by(slot, row)
        return Placed(
            row, held if isinstance(held, tuple) else self.placer.table.slices.columns_held(row, held), slot.slices
        )

    # Who comes -------------------------------------------------------------------------------------------------------

    def expect(self, workload: Workload) -> None:
        """A workload came: pods like its own may come again."""
        for pod_set in workload.pod_sets:
            kind = self._kind_of(pod_set)
            # What no machine could hold will not be placed, however often it comes.
            if kind.cards <= CARDS_MOST and kind.amount(CPU) <= HELD_MOST:
                self._mix.note(kind, pod_set.count)

    def _kind_of(self, pod_set: PodSet) -> Demand:
        """What a pod takes of cpu and cards."""
        requests, cards = pod_set.shape.requests, pod_set.cards
        key = (requests.get(CPU, 0), sum([requests.get(name, 0) for name in self._cards.counts]), cards)
        kind = self._kinds.get(key)
        if kind is None:
            wanted = self.demand_for(requests, ANYWHERE, cards)
            kind = Demand(((CPU, key[0]),) if key[0] else (), wanted.cards, wanted.milli, wanted.models)
            if len(self._kinds) >= DEMANDS_KEPT:
                self._kinds.clear()
            self._kinds[key] = kind
        return kind

    def adapt(self) -> None:
        """Let policies learn from the pods that came, now and then."""
        news = self._mix.renewed()
        if news is not None:
            self.placer.adapt(news)

    # Who runs --------------------------------------------------------------------------------------------------------

    def find_victims(
        self, workload: Workload, asks: Sequence[SlotAsk], candidates: Container[str], may_follow: MayLeave | None
    ) -> SlotVictims | None:
        """Which of these workloads have to leave, whole or in part, so that all pods get slots."""
        free = [ask for ask in asks if ask.place is None and ask.missing]

        def may_leave(leaving: Iterable[Member], before: Iterable[Member]) -> bool:
            assert may_follow is not None, "only asked where not everybody may go together"
            gone = dict.fromkeys(map(owner_of, before))
            return may_follow([key for key in dict.fromkeys(map(owner_of, leaving)) if key not in gone], gone)

        rules = VictimRules(
            is_candidate=lambda member: owner_of(member) in candidates,
            may_follow=may_leave if may_follow is not None else None,
        )
        found = find_victims(self.placer, self._gang(workload, free), self.holders.running, rules, domains=self.domains)
        if isinstance(found, GangRefused):
            return None
        parts: dict[str, dict[str, list[Slot]]] = {}
        for member in found.members:
            owner = owner_of(member)
            if owner not in found.whole_gangs:
                parts.setdefault(owner, {}).setdefault(member.task, []).append(self.holders.slot_of(member))
        shrunk = {key: {name: tuple(slots) for name, slots in sets.items()} for key, sets in parts.items()}
        return SlotVictims(found.whole_gangs, shrunk)

    # Demands ---------------------------------------------------------------------------------------------------------

    def demand_of(self, workload: Workload, pod_set: PodSet, flavors: Iterable[str]) -> Demand:
        """What a pod of a pod set takes of a node, on nodes of the flavors that it got."""
        names = tuple(sorted(set(flavors)))
        key = (workload.kind_key, pod_set.name, names, pod_set.rules) if workload.kind_key else None
        known = self._demands.get(key) if key is not None else None
        if known is None:
            rules = self._on_flavors(pod_set.rules, names)
            known = self.demand_for(pod_set.shape.requests, rules, pod_set.cards)
            if key is not None:
                if len(self._demands) >= DEMANDS_KEPT:
                    self._demands.clear()
                self._demands[key] = known
        return known

    def _on_flavors(self, rules: PodRules, names: Iterable[str]) -> PodRules:
        """The rules of a pod with the labels and tolerations that its flavors give it."""
        flavors = [self._flavors[name] for name in names if name in self._flavors]
        labels = {key: value for flavor in flavors for key, value in flavor.labels.items()}
        tolerations = tuple(one for flavor in flavors for one in flavor.tolerations)
        if not labels and not tolerations:
            return rules
        nodes = rules.nodes
        more = NodeRules(
            selector=tuple(sorted({**dict(nodes.selector), **labels}.items())),
            affinity=nodes.affinity,
            tolerations=(*nodes.tolerations, *tolerations),
            volumes=nodes.volumes,
        )
        return replace(rules, nodes=more)

    def demand_for(self, requests: Mapping[str, int], rules: PodRules, cards: CardRequests | None) -> Demand:
        """What a pod takes of a node."""
        # Cards are counted one by one, so their resources are not counted by the node once more.
        amounts = {name: amount for name, amount in requests.items() if name not in self._cards.resources}
        amounts[PODS] = 1
        known = self._cards
        if cards is not None and cards.is_sliced and known.read is not None:
            return replace(slice_demand(amounts, known.read(cards), card_memory_mib=known.usual_mib), rules=rules)
        if cards is not None and cards.milli:
            return demand(amounts, cards=cards.cards, milli=cards.milli, models=cards.models, rules=rules)
        whole = sum([requests.get(name, 0) for name in known.counts])
        return demand(amounts, cards=whole, milli=WHOLE, rules=rules)

    # Searching -------------------------------------------------------------------------------------------------------

    def find(self, workload: Workload, asks: Sequence[SlotAsk]) -> SlotsByPodSet | SlotRefusal:
        """Slots for all pods that have none, or why there are none; nothing is held afterwards."""
        own = self._hooks_of(workload) if self._hooks_of is not None else None
        if own is None:
            return self._find_free(workload, asks)
        others = self.placer.use(own)
        found = self._find_free(workload, asks)
        self.placer.use(others)
        return found

    def _find_free(self, workload: Workload, asks: Sequence[SlotAsk]) -> SlotsByPodSet | SlotRefusal:
        if len(asks) == 1 and asks[0].is_lone:
            found_one = self.placer.find(asks[0].demand)
            if found_one is not None:
                return {asks[0].name: self._slots((found_one,))}
        refused = too_many(asks)
        if refused is not None:
            return self.never_fits(workload, asks) or refused
        mark = self.checkpoint()
        found = self._find(workload, asks)
        self.rollback(mark)
        return found

    def find_some(self, workload: Workload, ask: SlotAsk, beside: Sequence[Slot]) -> tuple[Slot, ...]:
        """Slots for as many pods as there is room for, near those that run; nothing is held afterwards."""
        ask = replace(ask, count=max(0, min(ask.count, PODS_MOST - len(beside))))
        gang = replace(self._gang(workload, [ask]), count_least=1)
        gang = replace(gang, tasks=tuple(replace(task, count_least=0) for task in gang.tasks))
        mark = self.checkpoint()
        grown = place_gang(self.placer, gang, domains=self.domains, running=self._neighbours(beside))
        self.rollback(mark)
        return () if isinstance(grown, GangRefused) else self._slots(grown.places.get(ask.name, ()))

    def never_fits(self, workload: Workload, asks: Sequence[SlotAsk]) -> SlotRefusal | None:
        """Why the pods could not all run even if nothing else did; `None` where they could."""
        free = [ask for ask in asks if ask.place is None and ask.missing]
        refused = explain_refusal(self.placer, self._gang(workload, free), self.domains) if free else None
        if refused is not None and refused.why is not Unstarted.NO_ROOM:
            return refusal_of(refused)
        return too_many(asks)

    def room_for(self, demand: Demand, *, is_empty: bool) -> NodeRoom:
        """How many such pods each node takes at most, cards and rules included; or would if nothing ran there."""
        room = room_ever(self.placer, demand) if is_empty else room_most(self.placer, demand)
        names = self.placer.table.names
        return NodeRoom({names[row]: count for row, count in enumerate(room.tolist()) if count})

    def why_not(self, workload: Workload, pod_set: PodSet, flavors: Iterable[str]) -> FitReport:
        """How one pod of a pod set fares on each node as things stand."""
        demand = self.demand_of(workload, pod_set, flavors)
        return why_not(self.placer, demand)

    def _find(self, workload: Workload, asks: Sequence[SlotAsk]) -> SlotsByPodSet | SlotRefusal:
        found: SlotsByPodSet = {}
        for ask in asks:
            if ask.place is not None and ask.missing:
                placed, short = self._in_domains(ask, ask.place)
                if short:
                    text = "its topology has room for the pods, its nodes have not"
                    return SlotRefusal(ask.name, text, short=tuple(short))
                found[ask.name] = self._slots(placed)
        free = [ask for ask in asks if ask.place is None and ask.missing]
        if free:
            gang, beside = self._gang(workload, free), self._neighbours(slot for ask in free for slot in ask.kept)
            placed_gang = place_gang(self.placer, gang, domains=self.domains, running=beside)
            if isinstance(placed_gang, GangRefused):
                return refusal_of(placed_gang)
            if placed_gang.count < gang.count:
                text = f"{gang.count} pods have to move to where the others are, and {placed_gang.count} find room"
                return SlotRefusal("", text)
            found.update((name, self._slots(placed)) for name, placed in placed_gang.places.items())
        return found

    def _neighbours(self, slots: Iterable[Slot]) -> list[Member]:
        """Pods that stay where they are, as far as those that come have to know."""
        return [
            Member(pod=f"{slot.node}/{number}", demand=NO_DEMAND, place=Placed(self._row_for(slot.node)))
            for number, slot in enumerate(slots)
        ]

    def _in_domains(self, ask: SlotAsk, place: TopologyAssignment) -> tuple[list[Placed], list[PlacedPods]]:
        """Nodes in the domains that a topology decided on, less those of pods that stay; and which took how few."""
        kept: dict[str, int] = {}
        for slot in ask.kept:
            kept[slot.node] = kept.get(slot.node, 0) + 1
        placed: list[Placed] = []
        short: list[PlacedPods] = []
        for domain in place.domains:
            rows = self._rows_at(place.levels, domain.values)
            missing = domain.count - sum(count for node, count in kept.items() if rows[self._row_for(node)])
            if missing > 0:
                every = self.placer.place_many(ask.demand, missing, within=rows)
                some = place_up_to(self.placer, ask.demand, missing, rows) if every is None else every
                if len(some) < missing:
                    short.append(PlacedPods(domain.values, len(some)))
                placed.extend(some)
        return placed, short

    def _rows_at(self, levels: Sequence[str], values: Sequence[str]) -> BoolArray:
        """The rows of a domain that is named by its labels, narrowest last."""
        facts = self._facts
        rows = np.ones(facts.row_count, np.bool_)
        for label, value in zip(levels[-len(values) :], values, strict=True):
            column = facts.column(label)
            rows &= column.ids == column.number_of(value)
        return rows

    def _gang(self, workload: Workload, asks: Sequence[SlotAsk]) -> Gang:
        """All pods that have no node yet, to be placed together."""
        tasks = tuple(
            Task(name=ask.name, demand=ask.demand, count=ask.missing, count_least=ask.missing) for ask in asks
        )
        requests = [ask.request for ask in asks if ask.request is not None]
        wish = DomainWish(
            required=next((request.required for request in requests if request.required), ""),
            preferred=next((request.preferred for request in requests if request.preferred), ""),
        )
        return Gang(
            key=workload.key,
            tasks=tasks,
            count_least=sum(task.count for task in tasks),
            queue=workload.queue,
            priority=workload.priority,
            domains=wish,
        )

    def _slots(self, placed: Iterable[Placed]) -> tuple[Slot, ...]:
        names, slices = self.placer.table.names, self.placer.table.slices
        return tuple([Slot(names[row], cards, held, slices.names_at(row, cards)) for row, cards, held in placed])
