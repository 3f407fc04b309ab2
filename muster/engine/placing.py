"""Placing: after the flavors, where the pods of a workload go; what finds no place may need others to leave.

A pod set is placed by domains when its flavor has a topology, and node by node where Muster decides on nodes; where
both are so, the nodes are those of the domains. While its quota fits, a missing place turns into the question who
could leave for it; if it has no place even with everybody gone, it cannot start at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from muster.engine.assignment import WORST, Assignment, Attempt, Mode, Outcome, PodSetChoice
from muster.engine.holders import part_of
from muster.engine.places import Places, Use
from muster.engine.slot_asks import SlotAsk, SlotRefusal, SlotUse
from muster.engine.topology import PlacedUse, Topologies
from muster.engine.tree import QuotaNode
from muster.engine.victims import CODES, Candidate, Victim
from muster.model.flavor import Flavor
from muster.model.reason import Code, Reason, because
from muster.model.topology import (
    NodeRoom,
    Placement,
    PlacementAsk,
    PlacementRefusal,
    TopologyAssignment,
)
from muster.model.workload import PodSet, Slot, Workload

if TYPE_CHECKING:
    from muster.engine.node_table_rows import Demand
    from muster.engine.slots import SlotsByPodSet

LOOKS_MOST = 4  # at the topology, after nodes took fewer pods than it had said
NO_DOMAIN_EVER = "no domain of its topology has nodes that could ever hold the pods"

Asks = dict[str, list[PlacementAsk]]
Found = dict[str, Placement]  # by pod set
Rooms = Mapping[str, NodeRoom]  # by pod set: of nodes, where more is known than amounts
DomainSearch = Callable[[Rooms], Found]
NO_ROOMS: Rooms = {}
MayFollow = Callable[[Sequence[Candidate], Sequence[Candidate]], bool]  # whether these may leave after those


@dataclass(slots=True, kw_only=True)
class Placing:
    """The places of one workload in one queue."""

    workload: Workload
    queue: QuotaNode
    flavors: Mapping[str, Flavor]
    places: Places
    _pod_sets: dict[str, PodSet] = field(init=False)

    def __post_init__(self) -> None:
        self._pod_sets = {pod_set.name: pod_set for pod_set in self.workload.pod_sets}

    def placed(self, assignment: Assignment) -> Assignment:
        """The assignment with its places, or with the pod sets marked for which none was found."""
        if assignment.outcome is Outcome.NO_FIT:
            return assignment
        topologies = self.places.topologies
        if topologies is not None:
            assignment = self._in_domains(topologies, assignment)
        return self._on_nodes(self._put_off(assignment)) if self.places.slots is not None else assignment

    def asks(self, assignment: Assignment, rooms: Rooms = NO_ROOMS) -> Asks:
        """What each flavor's topology is asked for, with what is known of the room on nodes."""
        asks: Asks = {}
        if self.places.topologies is None:
            return asks
        for choice in assignment.pod_sets:
            flavor = self._topology_flavor(choice)
            if flavor and not choice.is_delayed and choice.count > 0:
                ask = _ask(self._pod_set(choice), choice.count, rooms.get(choice.name))
                asks.setdefault(flavor, []).append(ask)
        return asks

    def uses(self, assignment: Assignment) -> list[Use]:
        """What the places of an assignment take of the nodes."""
        uses: list[Use] = []
        for choice in assignment.pod_sets:
            if choice.place is not None:
                requests = self._pod_set(choice).shape.requests
                uses.append(PlacedUse(self._topology_flavor(choice), choice.place, requests))
            if choice.slots:
                uses.append(SlotUse(self._demand(choice), choice.slots))
        return uses

    def has_place(self, assignment: Assignment) -> bool:
        """Whether all pods find a place as things stand."""

        def search(rooms: Rooms) -> Found:
            return self._found_domains(assignment, rooms=rooms)

        found = search(NO_ROOMS)
        if _is_refused(found):
            return False
        if self.places.slots is None:
            return True
        _, slots = self._find_slots(_in_places(assignment, found), search, self._slot_asks)
        return not isinstance(slots, SlotRefusal)

    def relocated(self, assignment: Assignment, *, is_empty: bool) -> Assignment:
        """The same flavors with the places that are free now, or would be if nobody else was there."""

        def search(rooms: Rooms) -> Found:
            return self._found_domains(assignment, is_empty=is_empty, rooms=rooms)

        found = search(NO_ROOMS)
        moved = _in_places(assignment, {**dict.fromkeys(self._pod_sets), **found}) if found else assignment
        if self.places.slots is None:
            return moved
        # Single nodes are not held for one that nobody leaves for: others may be done long before it could start.
        if is_empty:
            return _with_slots(moved, {})
        moved, slots = self._find_slots(moved, search, self._slot_asks)
        return _with_slots(moved, {} if isinstance(slots, SlotRefusal) else slots)

    def replaced(self, assignment: Assignment, host: str) -> Assignment:
        """The places of a workload that lost a host: only the pods of that host move."""
        assert self.workload.admission is not None, "only what holds quota has places to lose"
        current = {given.name: given.place for given in self.workload.admission.pod_sets if given.place is not None}
        topologies = self.places.topologies

        def search(rooms: Rooms) -> Found:
            return topologies.replace(self.asks(assignment, rooms), current, host) if topologies and current else {}

        def slot_asks(found: Assignment) -> list[SlotAsk]:
            return [ask.without(host) for ask in self._slot_asks(found) if ask.kept]

        moved = self._with_places(assignment, search(NO_ROOMS), if_refused=Mode.NO_FIT)
        return self._settled_slots(moved, search, slot_asks)

    def settled(self, assignment: Assignment) -> Assignment:
        """Places for the pod sets that have none yet."""
        has_one = {choice.name for choice in assignment.pod_sets if choice.place is not None}

        def search(rooms: Rooms) -> Found:
            waiting = (
                (flavor, [ask for ask in asks if ask.name not in has_one])
                for flavor, asks in self.asks(assignment, rooms).items()
            )
            asks = {flavor: asked for flavor, asked in waiting if asked}
            return self.places.topologies.find(asks) if asks and self.places.topologies is not None else {}

        def slot_asks(found: Assignment) -> list[SlotAsk]:
            return [ask for ask in self._slot_asks(found) if not ask.kept]

        moved = self._with_places(assignment, search(NO_ROOMS), if_refused=Mode.NO_FIT)
        return self._settled_slots(moved, search, slot_asks)

    # Domains ---------------------------------------------------------------------------------------------------------

    def _in_domains(self, topologies: Topologies, assignment: Assignment) -> Assignment:
        assignment = self._marked(assignment)
        asks = self.asks(assignment)
        if not asks or assignment.outcome is Outcome.NO_FIT:
            return assignment
        if assignment.outcome is Outcome.FIT:
            assignment = self._with_places(assignment, topologies.find(asks), if_refused=Mode.PREEMPT)
        if assignment.outcome is Outcome.PREEMPT and not self.workload.unhealthy_nodes:
            found = topologies.find(asks, is_empty=True)
            return self._with_places(assignment, found, if_refused=Mode.NO_FIT, if_placed=Mode.PREEMPT)
        return assignment

    def _found_domains(self, assignment: Assignment, *, is_empty: bool = False, rooms: Rooms = NO_ROOMS) -> Found:
        asks = self.asks(assignment, rooms)
        if not asks or self.places.topologies is None:
            return {}
        return self.places.topologies.find(asks, is_empty=is_empty)

    # Nodes -----------------------------------------------------------------------------------------------------------

    def _on_nodes(self, assignment: Assignment) -> Assignment:
        """The assignment with a node for every pod; without one, others must leave, or it can never start."""
        slots = self.places.slots
        assert slots is not None, "only asked where Muster decides on nodes"
        asks = self._slot_asks(assignment)
        if not asks or assignment.outcome is Outcome.NO_FIT:
            return assignment
        if assignment.outcome is Outcome.FIT:
            in_domains, found = self._find_slots(
                assignment, lambda rooms: self._found_domains(assignment, rooms=rooms), self._slot_asks, asks
            )
            if not isinstance(found, SlotRefusal):
                return _with_slots(in_domains, found)
            is_final = found.is_final or self._never_fits_domains(assignment) is not None
            return self._without_slots(assignment, found, Mode.NO_FIT if is_final else Mode.PREEMPT)
        never = slots.never_fits(self.workload, asks) or self._never_fits_domains(assignment)
        return self._without_slots(assignment, never, Mode.NO_FIT) if never is not None else assignment

    def _find_slots(
        self,
        assignment: Assignment,
        search: DomainSearch,
        slot_asks: Callable[[Assignment], list[SlotAsk]],
        asks: list[SlotAsk] | None = None,
    ) -> tuple[Assignment, SlotsByPodSet | SlotRefusal]:
        """Slots in the domains of an assignment, or why there are none; `asks` are those of it where they are known.

        Domains are chosen by amounts, and cards or rules of pods may keep them off their nodes: then the topology is
        asked again with what the nodes told, a few times.
        """
        slots = self.places.slots
        assert slots is not None, "only asked where Muster decides on nodes"
        found_in, found = assignment, slots.find(self.workload, slot_asks(assignment) if asks is None else asks)
        rooms: dict[str, NodeRoom] = {}
        for _ in range(LOOKS_MOST):
            if not isinstance(found, SlotRefusal) or not found.short:
                break
            rooms = rooms or self._rooms(assignment, is_empty=False)
            rooms[found.pod_set] = rooms[found.pod_set].after(found.short)
            places = search(rooms)
            if _is_refused(places):
                break
            found_in = _in_places(assignment, places)
            found = slots.find(self.workload, slot_asks(found_in))
        return assignment if isinstance(found, SlotRefusal) else found_in, found

    def _settled_slots(
        self, assignment: Assignment, search: DomainSearch, slot_asks: Callable[[Assignment], list[SlotAsk]]
    ) -> Assignment:
        """The assignment with slots for those that are asked for, beside those that they keep."""
        if self.places.slots is None or assignment.outcome is Outcome.NO_FIT:
            return assignment
        found_in, found = self._find_slots(assignment, search, slot_asks)
        if isinstance(found, SlotRefusal):
            return self._without_slots(assignment, found, Mode.NO_FIT)
        kept = {ask.name: ask.kept for ask in slot_asks(found_in)}
        return _with_slots(found_in, {name: (*kept[name], *slots) for name, slots in found.items()})

    def _rooms(self, assignment: Assignment, *, is_empty: bool) -> dict[str, NodeRoom]:
        """How many pods of each pod set the nodes take, now or if nothing ran."""
        slots = self.places.slots
        assert slots is not None, "only asked where Muster decides on nodes"
        choices = [choice for choice in assignment.pod_sets if self._topology_flavor(choice)]
        return {choice.name: slots.room_for(self._demand(choice), is_empty=is_empty) for choice in choices}

    def _never_fits_domains(self, assignment: Assignment) -> SlotRefusal | None:
        """Why no domain has nodes for the pods even if nothing else ran; `None` where some could have."""
        if not self.asks(assignment):
            return None
        found = self._found_domains(assignment, is_empty=True, rooms=self._rooms(assignment, is_empty=True))
        refused = next((name for name, place in found.items() if isinstance(place, PlacementRefusal)), None)
        return None if refused is None else SlotRefusal(refused, NO_DOMAIN_EVER, is_final=True)

    def _slot_asks(self, assignment: Assignment) -> list[SlotAsk]:
        chosen = (one for one in assignment.pod_sets if not one.is_delayed and one.count > 0)
        return [self._slot_ask(one) for one in chosen if not self._is_elsewhere(one)]

    def _is_elsewhere(self, choice: PodSetChoice) -> bool:
        rules = [rule for rule in self.queue.queue.checks if rule.is_elsewhere]
        given = {cell.flavor for cell in choice.flavors.values()} if rules else set()
        return any(not rule.flavors or rule.flavors & given for rule in rules)

    def _slot_ask(self, choice: PodSetChoice) -> SlotAsk:
        pod_set = self._pod_set(choice)
        return SlotAsk(
            name=choice.name,
            demand=self._demand(choice),
            count=choice.count,
            place=choice.place,
            request=pod_set.topology if choice.place is None else None,
            kept=choice.slots,
        )

    def _demand(self, choice: PodSetChoice) -> Demand:
        assert self.places.slots is not None, "only asked where Muster decides on nodes"
        flavors = (cell.flavor for cell in choice.flavors.values())
        return self.places.slots.demand_of(self.workload, self._pod_set(choice), flavors)

    def _without_slots(self, assignment: Assignment, why: SlotRefusal, mode: Mode) -> Assignment:
        """Mark the pod sets that the refusal is about."""
        pod_sets = tuple(
            _refused(
                choice, because(Code.NO_NODES, pod_set=choice.name, flavor=_flavors(choice), problem=why.text), mode
            )
            if why.pod_set in ("", choice.name)
            else choice
            for choice in assignment.pod_sets
        )
        return replace(assignment, pod_sets=pod_sets)

    def _pod_set(self, choice: PodSetChoice) -> PodSet:
        return self._pod_sets[choice.name]

    def slot_victims(
        self, assignment: Assignment, candidates: Sequence[Candidate], may_follow: MayFollow
    ) -> list[Victim] | None:
        """Those of the candidates that have to leave slots; `None` where not even all of them would do."""
        slots = self.places.slots
        by_key = {candidate.holder.workload.key: candidate for candidate in candidates}
        if slots is None or not by_key:
            return None

        def may_leave(leaving: Iterable[str], before: Iterable[str]) -> bool:
            return may_follow([by_key[key] for key in leaving], [by_key[key] for key in before])

        has_others = any(candidate.meeting is not None for candidate in candidates)  # of other queues
        asks = self._slot_asks(assignment)
        found = slots.find_victims(self.workload, asks, by_key.keys(), may_leave if has_others else None)
        if found is None:
            return None
        victims = [Victim(by_key[key].holder, CODES[by_key[key].claim]) for key in found.workloads]
        for key, left in found.shrunk.items():
            holder = by_key[key].holder
            victims.append(Victim(holder, CODES[by_key[key].claim], left, part_of(holder, left, slots)))
        return victims

    # Marking ---------------------------------------------------------------------------------------------------------

    def _marked(self, assignment: Assignment) -> Assignment:
        """Mark pod sets whose place waits for a check, and those that ask for a topology and got none or several."""
        return replace(assignment, pod_sets=tuple(self._mark(choice) for choice in assignment.pod_sets))

    def _mark(self, choice: PodSetChoice) -> PodSetChoice:
        pod_set = self._pod_set(choice)
        names = sorted(set(self._topology_flavors(choice)))
        does_ask = pod_set.topology is not None and pod_set.topology.is_asked
        if len(names) > 1 or (not names and does_ask and choice.count > 0):
            problem = f"several flavors with one: {', '.join(names)}" if names else "no flavor that has one"
            reason = because(Code.NO_TOPOLOGY_FLAVOR, pod_set=choice.name, problem=problem)
            flavors = {resource: cell._replace(mode=Mode.NO_FIT) for resource, cell in choice.flavors.items()}
            return replace(choice, flavors=flavors, reasons=(*choice.reasons, reason), refusal=Code.NO_MATCHING_FLAVOR)
        if names and self._is_delayed(names[0]):
            return replace(choice, is_delayed=True)
        return choice

    def _put_off(self, assignment: Assignment) -> Assignment:
        """Mark pod sets whose nodes come only while a check is passed."""
        pod_sets = (
            replace(choice, is_delayed=True)
            if any(self._is_delayed(cell.flavor) for cell in choice.flavors.values())
            else choice
            for choice in assignment.pod_sets
        )
        return replace(assignment, pod_sets=tuple(pod_sets)) if self.queue.queue.checks else assignment

    def _is_delayed(self, flavor: str) -> bool:
        if self.workload.admission is not None:
            return False
        rules = self.queue.queue.checks
        return any(rule.delays_place and (not rule.flavors or flavor in rule.flavors) for rule in rules)

    def _topology_flavors(self, choice: PodSetChoice) -> Iterator[str]:
        for resource in sorted(choice.flavors):
            name = choice.flavors[resource].flavor
            if name in self.flavors and self.flavors[name].topology:
                yield name

    def _topology_flavor(self, choice: PodSetChoice) -> str:
        return next(self._topology_flavors(choice), "")

    def _with_places(
        self,
        assignment: Assignment,
        found: Mapping[str, Placement],
        *,
        if_refused: Mode,
        if_placed: Mode | None = None,
    ) -> Assignment:
        """Write places into the pod sets; those refused, or all, get another mode."""
        if not found:
            return assignment
        pod_sets = []
        for choice in assignment.pod_sets:
            place = found.get(choice.name)
            if isinstance(place, PlacementRefusal):
                flavor, problem = self._topology_flavor(choice), refusal_text(place)
                reason = because(Code.NO_PLACE, pod_set=choice.name, flavor=flavor, problem=problem)
                pod_sets.append(_refused(choice, reason, if_refused))
            elif place is not None:
                pod_sets.append(_moved(replace(choice, place=place), if_placed))
            else:
                pod_sets.append(choice)
        return replace(assignment, pod_sets=tuple(pod_sets))


def _ask(pod_set: PodSet, count: int, room: NodeRoom | None) -> PlacementAsk:
    return PlacementAsk(name=pod_set.name, count=count, shape=pod_set.shape, request=pod_set.topology, room=room)


def _is_refused(found: Found) -> bool:
    return any(isinstance(place, PlacementRefusal) for place in found.values())


def _in_places(assignment: Assignment, found: Mapping[str, Placement | None]) -> Assignment:
    """The assignment with other places for the pod sets that are named; a refusal is none."""
    places = {name: place if isinstance(place, TopologyAssignment) else None for name, place in found.items()}
    pod_sets = tuple(replace(choice, place=places.get(choice.name, choice.place)) for choice in assignment.pod_sets)
    return replace(assignment, pod_sets=pod_sets)


def _moved(choice: PodSetChoice, mode: Mode | None) -> PodSetChoice:
    if mode is None:
        return choice
    flavors = {resource: cell._replace(mode=mode) for resource, cell in choice.flavors.items()}
    reasons = choice.reasons or (because(Code.NO_PLACE, pod_set=choice.name, flavor="-", problem="others are there"),)
    return replace(choice, flavors=flavors, reasons=reasons)


def _with_slots(assignment: Assignment, slots: Mapping[str, tuple[Slot, ...]]) -> Assignment:
    pod_sets = tuple([choice.in_slots(slots.get(choice.name, choice.slots)) for choice in assignment.pod_sets])
    return Assignment(
        pod_sets=pod_sets, usage=assignment.usage, level=assignment.level, is_deferred=assignment.is_deferred
    )


def _flavors(choice: PodSetChoice) -> str:
    return ", ".join(sorted({cell.flavor for cell in choice.flavors.values()}))


def _refused(choice: PodSetChoice, reason: Reason, mode: Mode) -> PodSetChoice:
    """The pod set without a place: somebody would have to leave, or it can never be there."""
    flavors = {resource: cell._replace(mode=mode) for resource, cell in choice.flavors.items()}
    code, attempts = choice.refusal, choice.attempts
    if mode is Mode.NO_FIT:
        code = Code.WAITING_FOR_NODES if reason.code is Code.NO_NODES else Code.TOPOLOGY_PLACEMENT_FAILED
        attempts = tuple(_without_place(attempt, reason, code) for attempt in attempts)
    reasons = (*choice.reasons, reason)
    return replace(choice, flavors=flavors, reasons=reasons, refusal=code, attempts=attempts, place=None, slots=())


def _without_place(attempt: Attempt, reason: Reason, code: Code) -> Attempt:
    if attempt.flavor != reason.value("flavor") or attempt.standing.mode is Mode.NO_FIT:
        return attempt
    return Attempt(attempt.flavor, WORST, code, (*attempt.reasons, reason))


def refusal_text(why: PlacementRefusal) -> str:
    """Why pods found no place, in words."""
    unit = "slices" if why.is_of_slices else "pods"
    where = f" at the level {why.level}" if why.level else ""
    if why.asked:
        kept_out = ", ".join(f"{count} for {cause}" for cause, count in why.excluded)
        more = f"; of {why.nodes} nodes kept out: {kept_out}" if kept_out else ""
        return f"{why.fitting} of {why.asked} {unit} fit{where} of topology {why.topology}{more}"
    return f"{why.why.value}{where} of topology {why.topology}" if why.topology else why.why.value
