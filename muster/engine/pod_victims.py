"""Victim search among running pods: who leaves so that a gang can start, and where it goes then.

A running gang never ends up between nothing and its minimum: it loses pods that it can spare, or it leaves whole. Rows
are emptied in the order of what that costs until the gang fits, and everybody who is not in its way after all is put
back. All of it happens on the placer's table and is rolled back. Asked by the stages for gangs that found no room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from muster.engine.gang_domains import Domains, NodeSet
from muster.engine.gangs import (
    Gang,
    GangPlaced,
    GangRefused,
    Member,
    Task,
    TaskOrder,
    Unstarted,
    find_fault,
    find_short,
    place_up_to,
    room_left,
    settled,
    supplies_of,
    task_orders,
)
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import BoolArray, Demand, IntArray, Placed
from muster.engine.pod_victims_room import Bundle, MayFollow, RoomMaker
from muster.engine.running_pods import RunningPods
from muster.engine.slices_ask import ANYBODY

DOMAINS_TRIED = 8  # of those that a gang could be made to fit in, so many are compared
RELOCATIONS_MOST = 32  # how often a gang is placed anew as a whole, in vain, to spare somebody who is in its way


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimRules:
    """Who may be told to leave."""

    now: float = 0.0
    priority_below: float = inf  # only pods of lower priority than this
    run_time_least_s: float = 0.0  # only pods that have run so long
    is_candidate: Callable[[Member], bool] | None = None  # whether this pod may go, beside all that; None: all may
    # Whether these pods may go too after those before them: what a queue may lose is not for one pod to know.
    may_follow: MayFollow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Victims:
    """Who leaves, and where the gang goes when they have left."""

    members: tuple[Member, ...]  # in the order in which they were chosen
    whole_gangs: tuple[str, ...]  # of the gangs among them, those that leave whole
    placed: GangPlaced

    @property
    def cost(self) -> tuple[float, int, int]:
        """What compares two answers: the highest priority that leaves, then how many gangs end, then how many pods."""
        highest = max((member.priority for member in self.members), default=-inf)
        return highest, len(self.whole_gangs), len(self.members)


def find_victims(
    placer: Placer, gang: Gang, candidates: RunningPods, rules: VictimRules, *, domains: Domains | None = None
) -> Victims | GangRefused:
    """Who has to leave so that the minimum of a gang fits; the table is left as it was.

    A level that the gang requires is kept; one that it prefers is not worth a victim. For a gang that runs below its
    minimum, what is missing is looked for, where it requires a level in the domain where it stands.
    """
    domains = domains or Domains(())
    refusal = find_fault(gang, domains)
    if refusal is not None:
        return refusal
    running = candidates.of_gang(gang.key)
    missing = _missing(gang, running)
    if running and missing.count_least <= 0 and not any(task.count_least for task in missing.tasks):
        return Victims(members=(), whole_gangs=(), placed=settled(gang, {}, NodeSet()))  # it has its minimum
    is_open = _open_slots(candidates, rules, gang.key)
    rooms = RoomMaker(placer, candidates, is_open, may_follow=rules.may_follow)
    best_rooms = [rooms.room_at_best(task.demand) for task in missing.tasks]
    found: list[Victims] = []
    for nodes in _node_sets(placer, missing, domains, rooms=best_rooms, home=[member.place.row for member in running]):
        victims = _search(rooms, missing, nodes)
        if victims is not None:
            found.append(victims)
        if len(found) == DOMAINS_TRIED:
            break
    if found:
        return min(found, key=lambda victims: (*victims.cost, victims.placed.domain))
    refusal = find_short(missing, domains, why=Unstarted.NO_VICTIMS, rooms=best_rooms)
    return refusal or GangRefused(
        gang=gang.key,
        why=Unstarted.NO_VICTIMS,
        level=gang.domains.required,
        asked=missing.minimum,
        fitting=missing.minimum,
    )


def _missing(gang: Gang, running: Iterable[Member]) -> Gang:
    """What a gang lacks to its minimum."""
    counts = Counter(member.task for member in running)
    tasks = tuple(
        replace(
            task,
            count=max(0, task.count - counts[task.name]),
            count_least=max(0, task.count_least - counts[task.name]),
        )
        for task in gang.tasks
    )
    return replace(gang, tasks=tasks, count_least=gang.minimum - counts.total())


def _open_slots(pods: RunningPods, rules: VictimRules, own: str) -> BoolArray:
    """Which running pods may be told to leave."""
    slots = pods.slots
    is_open = pods.is_running[:slots] & pods.is_preemptible[:slots] & (pods.priority[:slots] < rules.priority_below)
    if rules.run_time_least_s:
        is_open &= pods.started_at[:slots] <= rules.now - rules.run_time_least_s
    own_number = pods.gangs.number_by_key.get(own)
    if own_number is not None:
        is_open &= pods.gang[:slots] != own_number
    if rules.is_candidate is not None:
        for slot in np.flatnonzero(is_open).tolist():
            is_open[slot] = rules.is_candidate(pods.member(slot))
    return is_open


def _node_sets(
    placer: Placer, gang: Gang, domains: Domains, *, rooms: Sequence[IntArray], home: Sequence[int]
) -> list[NodeSet]:
    """Where the gang could be made to fit; of domains those with most room now first, ties by name."""
    if find_short(gang, domains, why=Unstarted.NO_VICTIMS, rooms=rooms) is not None:
        return []
    level, rows = gang.domains.required, placer.table.row_count
    if not level:
        return [NodeSet()]
    if home:
        own = domains.home_of(level, home)
        return [NodeSet(domains.rows_of(own, rows), own)] if own is not None else []
    now = np.sum([np.minimum(room_left(placer, task.demand), task.count) for task in gang.tasks], axis=0)
    sets = []
    for domain in domains.fitting(level, supplies_of(gang, rooms)):
        mask = domains.rows_of(domain, rows)
        sets.append((-int(now[mask].sum()), domain.path, NodeSet(mask, domain)))
    return [nodes for _, _, nodes in sorted(sets, key=lambda entry: entry[:2])]


def _search(rooms: RoomMaker, gang: Gang, nodes: NodeSet) -> Victims | None:
    """The victims on one node set; the table is left as it was."""
    for order in task_orders(rooms.placer, gang):
        mark = rooms.placer.checkpoint()
        rooms.begin()
        attempt = _Attempt(rooms, gang, order, nodes.rows)
        victims = None
        if attempt.place():
            taken = attempt.spare()
            victims = _named(rooms.pods, taken, settled(gang, attempt.places, nodes))
        rooms.placer.rollback(mark)
        if victims is not None:
            return victims
    return None


def _named(pods: RunningPods, taken: Sequence[Bundle], placed: GangPlaced) -> Victims:
    members = tuple(pods.member(slot) for bundle in taken for slot in bundle.slots)
    whole = [pods.member(bundle.slots[0]).gang for bundle in taken if bundle.is_whole]
    return Victims(members=members, whole_gangs=tuple(sorted(gang for gang in whole if gang)), placed=placed)


class _Attempt:
    """One try to place a gang by force, its tasks in one order."""

    def __init__(self, rooms: RoomMaker, gang: Gang, order: TaskOrder, within: BoolArray | None) -> None:
        self.places: dict[str, list[Placed]] = {task.name: [] for task in gang.tasks}
        self._rooms, self._placer = rooms, rooms.placer
        self._gang, self._order, self._within = gang, order, within

    # Placing ---------------------------------------------------------------------------------------------------------

    def place(self) -> bool:
        """Place the minimum of every task and of all together, with others taken away where there is no room."""
        for task in self._order.least:
            if task.count_least and not self._place_least(task):
                return False
        left = self._gang.minimum - sum(task.count_least for task in self._gang.tasks)
        for is_forced in (False, True):
            for task in self._order.rest:
                have = self.places[task.name]
                most = min(left, task.count - len(have))
                if is_forced and most > 0:
                    self._rooms.make_room(task.demand, 1, beyond=most, within=self._within)
                more = place_up_to(self._placer, task.demand, most, self._within)
                have.extend(more)
                left -= len(more)
        return not left

    def _place_least(self, task: Task) -> bool:
        """More and more room is made until the task's minimum fits, or until nobody is left who could go."""
        beyond = 0
        while True:
            placed = self._placer.place_many(task.demand, task.count_least, within=self._within)
            if placed is not None:
                self.places[task.name].extend(placed)
                return True
            # Room is counted too high where pods keep away from each other: then more of it is wanted.
            is_made = self._rooms.make_room(task.demand, task.count_least, beyond=beyond, within=self._within)
            if not is_made and beyond:
                return False
            beyond = max(1, 2 * beyond)

    # Sparing ---------------------------------------------------------------------------------------------------------

    def spare(self) -> list[Bundle]:
        """Put back whoever is not in the way, the dearest first; gives those who still have to leave."""
        rooms, placer = self._rooms, self._placer
        needed: list[Bundle] = []
        tries_left = RELOCATIONS_MOST
        has_slack = self._has_slack()
        for bundle in reversed(rooms.taken):
            if not bundle.is_whole and bundle.gang in rooms.whole:
                needed.append(bundle)  # without the others it would be part of a gang below its minimum
                continue
            mark = placer.checkpoint()
            is_any_picky = self._is_any_picky(bundle)
            is_back = not is_any_picky and rooms.put_back(bundle)
            if not is_back:
                placer.rollback(mark)
            if not is_back and tries_left and (has_slack or is_any_picky or self._has_other_cards(bundle)):
                is_back = self._move_away_from(bundle, moves_all=is_any_picky)
                tries_left -= is_any_picky and not is_back
            if not is_back:
                placer.rollback(mark)
                needed.append(bundle)
                continue
            has_slack = has_slack and self._has_slack()
            rooms.whole.discard(bundle.gang)
        return needed[::-1]

    def _has_slack(self) -> bool:
        """Whether a pod of the gang could be somewhere else than it is."""
        tasks = (task for task in self._gang.tasks if self.places[task.name])
        return any(room_left(self._placer, task.demand, self._within).any() for task in tasks)

    def _has_other_cards(self, bundle: Bundle) -> bool:
        """Whether a pod of the gang might do with other cards of the same node."""
        most = self._placer.table.card_most
        return any(most[self._rooms.pods.row[slot]] > 0 for slot in bundle.slots)

    def _is_any_picky(self, bundle: Bundle) -> bool:
        """Whether room is not all that matters for the gang and the bundle to be there together."""
        members = (self._rooms.pods.member(slot) for slot in bundle.slots)
        demands = [*(task.demand for task in self._gang.tasks), *(member.demand for member in members)]
        return any(is_picky(demand) for demand in demands)

    def _move_away_from(self, bundle: Bundle, *, moves_all: bool) -> bool:
        """Put a bundle back and place anew those in its way, or all; where that fails, the caller rolls back."""
        rows = {self._rooms.pods.member(slot).place.row for slot in bundle.slots}
        places: dict[str, list[Placed]] = {}
        for task in self._order.least:
            stay = [] if moves_all else [placed for placed in self.places[task.name] if placed.row not in rows]
            for placed in self.places[task.name]:
                if moves_all or placed.row in rows:
                    self._placer.release(placed.row, task.demand, placed.held)
            places[task.name] = stay
        if not self._rooms.put_back(bundle):
            return False
        for task in self._order.least:
            count = len(self.places[task.name]) - len(places[task.name])
            moved = self._placer.place_many(task.demand, count, within=self._within) if count else ()
            if moved is None:
                return False
            places[task.name].extend(moved)
        self.places = places
        return True


def is_picky(demand: Demand) -> bool:
    """Whether who else is there decides where such a pod may be."""
    has_neighbours = demand.ask is not None and demand.ask.neighbours != ANYBODY
    return demand.rules.is_moved_by_its_like or has_neighbours
