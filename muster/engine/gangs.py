"""Gangs on the node table: pods that start together or not at all, and grow afterwards as far as there is room.

A gang is tasks of alike pods with a minimum of each and of all together; a plain pod is a gang of one. Placing charges
the table through the placer; a refusal leaves no trace in it. Asked by the stages; who has to leave for a gang that
finds no room is searched in `pod_victims.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from muster.engine.fit import closed_nodes
from muster.engine.gang_domains import NO_WISH, Domains, DomainWish, NodeSet, Supply
from muster.engine.node_table_columns import Placer, room_in
from muster.engine.node_table_rows import AMOUNT_CAP, WHOLE, BoolArray, Demand, IntArray, Placed
from muster.engine.slices import cards_ever
from muster.model.topology import Path

ROOM_CAP = 2**31  # pods counted on one row at most: those that ask for nothing would fit without end


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Alike pods of a gang."""

    name: str
    demand: Demand
    count: int
    count_least: int = 0  # of these at least so many start with the gang


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Pods that start together."""

    key: str
    tasks: tuple[Task, ...]
    count_least: int  # of all tasks together
    queue: str = ""
    priority: int = 0
    domains: DomainWish = NO_WISH

    @property
    def count(self) -> int:
        return sum(task.count for task in self.tasks)

    @property
    def minimum(self) -> int:
        """How many pods start together: what the gang asks for, never less than its tasks do, and never none."""
        return max(1, self.count_least, sum(task.count_least for task in self.tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A running pod."""

    pod: str  # namespace/name
    gang: str = ""  # the key of its gang; empty: it is one by itself
    task: str = ""
    demand: Demand
    place: Placed
    queue: str = ""
    priority: int = 0
    started_at: float = 0.0
    is_preemptible: bool = True


class Unstarted(Enum):
    """Why a gang did not start."""

    TOO_FEW_PODS = "TooFewPods"  # its minimum is above the pods it has
    NEVER_FITS = "NeverFits"  # not even when nothing else ran
    LEVEL_MISSING = "LevelMissing"  # nodes are not told apart by the level it requires
    NO_ROOM = "NoRoom"
    NO_VICTIMS = "NoVictims"  # not even when everybody left who may be told to


_SENTENCES: Mapping[Unstarted, str] = {
    Unstarted.TOO_FEW_PODS: "{asked} pods{of} must start together and there are only {fitting}",
    Unstarted.NEVER_FITS: "{asked} pods{of} must start together{where}, {fitting} is the most that could ever fit",
    Unstarted.LEVEL_MISSING: "the pods must be together in one {level}, and no such level of nodes is known",
    Unstarted.NO_ROOM: "{asked} pods{of} must start together{where}, {fitting} would fit now",
    Unstarted.NO_VICTIMS: "{asked} pods{of} must start together{where}, {fitting} would fit with all gone who may go",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRefused:
    """A gang did not start: why, and the numbers that tell it."""

    gang: str
    why: Unstarted
    task: str = ""  # empty: all of them together
    level: str = ""  # the level that has to be kept
    asked: int = 0
    fitting: int = 0  # where each task would fit by itself but not with the others, as many as asked
    closed: str = ""  # why nodes would not take them whoever runs there

    @property
    def text(self) -> str:
        """The refusal in words."""
        of = f" of {self.task}" if self.task else ""
        where = f" in one {self.level}" if self.level else ""
        if self.why is Unstarted.NO_ROOM and self.fitting >= self.asked:
            return f"{self.asked} pods{of} must start together{where}, and would fit only without each other"
        known = {"asked": self.asked, "fitting": self.fitting, "level": self.level, "of": of, "where": where}
        return _SENTENCES[self.why].format_map(known) + (f": {self.closed}" if self.closed else "")


Places = Mapping[str, tuple[Placed, ...]]  # by task


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlaced:
    """Where pods of a gang go."""

    gang: str
    places: Places
    domain: Path = ()  # of the level that the gang wishes for; empty: anywhere

    @property
    def count(self) -> int:
        return sum(len(placed) for placed in self.places.values())


# Placing -------------------------------------------------------------------------------------------------------------


def place_gang(
    placer: Placer, gang: Gang, *, domains: Domains | None = None, running: Iterable[Member] = ()
) -> GangPlaced | GangRefused:
    """Starts a gang, its minimum at once or nothing, then lets it grow; one that runs already only grows."""
    domains = domains or Domains(())
    members = list(running)
    if members:
        return _grow_running(placer, gang, domains, members)
    refusal = find_fault(gang, domains)
    if refusal is not None:
        return refusal
    for nodes in node_sets(placer, gang, domains):
        places = _place_minimum(placer, gang, nodes.rows)
        if places is not None:
            rows = [place.row for placed in places.values() for place in placed]
            _grow(placer, gang, places, sets=_growth_sets(placer, gang, domains, rows))
            return settled(gang, places, nodes)
    return explain_refusal(placer, gang, domains)


def backfill(placer: Placer, waiting: Iterable[Gang], *, domains: Domains | None = None) -> Iterator[GangPlaced]:
    """Starts every waiting gang that fits now, in this order.

    What is held for gangs whose victims are still leaving is charged in the table, so that whatever fits beside it
    delays none of them. Pods that ask for nothing fit on any node that lets them in.
    """
    refused: set[tuple[object, ...]] = set()  # the table only gets fuller: what is alike is refused alike
    for gang in waiting:
        kind = (gang.tasks, gang.minimum, gang.domains)
        if kind in refused:
            continue
        placed = place_gang(placer, gang, domains=domains)
        if isinstance(placed, GangPlaced):
            yield placed
        else:
            refused.add(kind)


def find_fault(gang: Gang, domains: Domains) -> GangRefused | None:
    """What no free node could mend: too few pods, pods beyond all measure, or a level that is not known."""
    for task in gang.tasks:
        if task.count_least and any(amount > AMOUNT_CAP for _, amount in task.demand.amounts):
            return _refused(gang, Unstarted.NEVER_FITS, task=task.name, asked=task.count_least)
        if task.count_least > task.count:
            return _refused(gang, Unstarted.TOO_FEW_PODS, task=task.name, asked=task.count_least, fitting=task.count)
    if gang.minimum > gang.count:
        return _refused(gang, Unstarted.TOO_FEW_PODS, asked=gang.minimum, fitting=gang.count)
    if gang.domains.required and gang.domains.required not in domains.levels:
        return _refused(gang, Unstarted.LEVEL_MISSING)
    return None


class TaskOrder(NamedTuple):
    """In which order the tasks of a gang are placed."""

    least: tuple[Task, ...]  # the minimum of each
    rest: tuple[Task, ...]  # and what the minimum of all lacks then


def task_orders(placer: Placer, gang: Gang) -> tuple[TaskOrder, ...]:
    """The orders to try: big pods find room while there is most of it, and of small ones more find any; or as given."""
    totals = placer.table.total.sum(axis=1, dtype=np.float64)

    def size(task: Task) -> tuple[int, int, float]:
        shares = [0.0]
        for resource, amount in task.demand.amounts:
            column = placer.table.column_of(resource)
            shares.append(amount / max(1.0, float(totals[column])) if column is not None else np.inf)
        return task.demand.card_milli, task.demand.milli, max(shares)

    by_size = tuple(sorted(gang.tasks, key=size, reverse=True))
    orders = [TaskOrder(least, rest) for least in (by_size, gang.tasks) for rest in (gang.tasks, by_size[::-1])]
    if gang.minimum == sum(task.count_least for task in gang.tasks):
        orders = [TaskOrder(order.least, ()) for order in orders]
    return tuple(dict.fromkeys(orders))


def place_up_to(placer: Placer, demand: Demand, most: int, within: BoolArray | None = None) -> list[Placed]:
    """Places alike pods, as many as fit and no more than `most`."""
    left = min(most, int(room_left(placer, demand, within).sum())) if most > 0 else 0
    step = left
    placed: list[Placed] = []
    while step > 0:
        more = placer.place_many(demand, step, within=within)
        if more is None:
            step //= 2  # the room was counted too high, as it may be where pods keep away from each other
            continue
        placed.extend(more)
        left -= step
        step = min(step, left)
    return placed


def settled(gang: Gang, places: Mapping[str, Sequence[Placed]], nodes: NodeSet) -> GangPlaced:
    """The places of a gang as an answer; tasks without any are left out."""
    found = {task: tuple(placed) for task, placed in places.items() if placed}
    return GangPlaced(gang=gang.key, places=found, domain=nodes.domain.path if nodes.domain is not None else ())


def _place_minimum(placer: Placer, gang: Gang, within: BoolArray | None) -> dict[str, list[Placed]] | None:
    """The minimum of every task and of all together, or nothing."""
    for order in task_orders(placer, gang):
        mark = placer.checkpoint()
        places = _place_in_order(placer, gang, order, within)
        if places is not None:
            return places
        placer.rollback(mark)
    return None


def _place_in_order(
    placer: Placer, gang: Gang, order: TaskOrder, within: BoolArray | None
) -> dict[str, list[Placed]] | None:
    """The minimum with the tasks in this order; what was placed before it failed is the caller's to roll back."""
    places: dict[str, list[Placed]] = {task.name: [] for task in gang.tasks}
    for task in order.least:
        if task.count_least:
            placed = placer.place_many(task.demand, task.count_least, within=within)
            if placed is None:
                return None
            places[task.name].extend(placed)
    left = gang.minimum - sum(task.count_least for task in gang.tasks)
    for task in order.rest:
        more = place_up_to(placer, task.demand, min(left, task.count - task.count_least), within)
        places[task.name].extend(more)
        left -= len(more)
    return None if left else places


# Growing -------------------------------------------------------------------------------------------------------------


def _grow(placer: Placer, gang: Gang, places: dict[str, list[Placed]], *, sets: Sequence[BoolArray | None]) -> None:
    """Place what is above the minimum as far as there is room, in the order of the tasks."""
    for within in sets:
        for task in gang.tasks:
            have = places[task.name]
            have.extend(place_up_to(placer, task.demand, task.count - len(have), within))


def _growth_sets(placer: Placer, gang: Gang, domains: Domains, rows: Sequence[int]) -> list[BoolArray | None]:
    """Where a gang grows that stands on these rows: near them first, beyond the level it requires never."""
    homes = [domains.home_of(level, rows) for level in domains.levels_of(gang.domains)]
    sets: list[BoolArray | None] = [domains.rows_of(home, placer.table.row_count) for home in homes if home is not None]
    return sets if gang.domains.required else [*sets, None]


def _grow_running(placer: Placer, gang: Gang, domains: Domains, members: Sequence[Member]) -> GangPlaced:
    """Growth never fails what runs: where there is no room, nothing comes of it."""
    counts = Counter(member.task for member in members)
    missing = replace(
        gang, tasks=tuple(replace(task, count=max(0, task.count - counts[task.name])) for task in gang.tasks)
    )
    places: dict[str, list[Placed]] = {task.name: [] for task in gang.tasks}
    _grow(placer, missing, places, sets=_growth_sets(placer, gang, domains, [member.place.row for member in members]))
    return settled(gang, places, NodeSet())


# Room ----------------------------------------------------------------------------------------------------------------


def room_left(placer: Placer, demand: Demand, within: BoolArray | None = None) -> IntArray:
    """How many such pods fit on each row now, or a little more where pods keep away from each other."""
    return _room_on(placer, demand, placer.fits(demand) if within is None else placer.fits(demand) & within)


def room_most(placer: Placer, demand: Demand) -> IntArray:
    """How many such pods could fit on each row at most, whoever of their gang comes before them."""
    rules, ask = demand.rules, demand.ask
    needs_others = bool(rules.affinity or rules.spread or (ask is not None and ask.neighbours.near is not None))
    # Pods that come may open rows to those that want to be near them or even with them, and close rows to others.
    room = _room_on(placer, demand, placer.fits_alone(demand) if needs_others else placer.fits(demand))
    if rules.ports:
        return np.minimum(room, 1)
    for term in rules.anti_affinity:
        assert placer.pods is not None, "rules are asked of the pods on the nodes"
        if placer.pods.is_one_of(rules.who, term.group):  # it keeps its like away
            has_label = placer.pods.facts.column(term.topology_key).ids > 0
            room = np.where(has_label, np.minimum(room, 1), room)
    return room


def _room_on(placer: Placer, demand: Demand, fits: BoolArray) -> IntArray:
    index = np.flatnonzero(fits)
    room = np.zeros(len(fits), np.int64)
    if len(index):
        room[index] = np.minimum(room_in(demand, placer.table.rows(index)), ROOM_CAP)
    return room


def may_stand(placer: Placer, demand: Demand) -> BoolArray:
    """The rows on which such a pod may run, whatever is free there and whoever runs there."""
    return placer.fits(replace(demand, amounts=(), cards=0, milli=0, rules=demand.rules.of_nodes, ask=None))


def room_ever(placer: Placer, demand: Demand) -> IntArray:
    """How many such pods would fit on each row if nothing ran there."""
    table = placer.table
    rows = table.rows()
    room = np.where(may_stand(placer, demand), np.int64(ROOM_CAP), np.int64(0))
    for resource, amount in demand.amounts:
        if amount > AMOUNT_CAP:
            return np.zeros_like(room)
        room = np.minimum(room, rows.total(resource) // max(1, amount))
    if demand.cards:
        room = np.where(rows.card_count >= demand.cards, room, 0)
    if demand.ask is not None:
        room = np.where(cards_ever(demand.ask, rows), room, 0)
    elif demand.cards:  # how many slices there could be of a card only the card knows
        room = np.minimum(room, rows.card_count * (WHOLE // demand.milli) // demand.cards)
    return room


def node_sets(placer: Placer, gang: Gang, domains: Domains) -> Iterator[NodeSet]:
    """The node sets on which the minimum could fit now, in the order of trying."""
    if not domains.levels_of(gang.domains):
        return iter([NodeSet()])  # nothing to choose from, and nothing to look at beforehand
    rooms = [room_left(placer, task.demand) for task in gang.tasks]
    table = placer.table
    asked: Counter[str] = Counter()
    for task in gang.tasks:
        asked.update({resource: amount * task.count_least for resource, amount in task.demand.amounts})
    amounts = [Supply(table.rows().free(resource), amount) for resource, amount in asked.items()]
    return domains.sets_for(gang.domains, table.row_count, rooms=supplies_of(gang, rooms), amounts=amounts)


def supplies_of(gang: Gang, rooms: Sequence[IntArray]) -> list[Supply]:
    """What the minimum needs of rooms counted for each task: so many of each, and so many of all."""
    supplies = [Supply(room, task.count_least) for task, room in zip(gang.tasks, rooms, strict=True)]
    together = np.sum([np.minimum(room, task.count) for task, room in zip(gang.tasks, rooms, strict=True)], axis=0)
    return [*supplies, Supply(together, gang.minimum)]


# Refusing ------------------------------------------------------------------------------------------------------------


def explain_refusal(placer: Placer, gang: Gang, domains: Domains) -> GangRefused:
    """Why the minimum did not fit: never, or not now; the first task that is short is named."""
    ever = [room_ever(placer, task.demand) for task in gang.tasks]
    refusal = find_short(gang, domains, why=Unstarted.NEVER_FITS, rooms=ever)
    if refusal is not None:
        short = next((task for task in gang.tasks if task.name == refusal.task), gang.tasks[0])
        return replace(refusal, closed=closed_nodes(placer, short.demand))
    now = [room_left(placer, task.demand) for task in gang.tasks]
    refusal = find_short(gang, domains, why=Unstarted.NO_ROOM, rooms=now)
    return refusal or _refused(gang, Unstarted.NO_ROOM, asked=gang.minimum, fitting=gang.minimum)


def find_short(gang: Gang, domains: Domains, *, why: Unstarted, rooms: Sequence[IntArray]) -> GangRefused | None:
    """A refusal by what there is too little room for, counted for each task by itself and for all together."""
    names = [*(task.name for task in gang.tasks), ""]
    for name, supply in zip(names, supplies_of(gang, rooms), strict=True):
        if gang.domains.required:
            fitting = domains.most_in_one(gang.domains.required, supply.by_row)
        else:
            fitting = int(supply.by_row.sum())
        if fitting < supply.needed:
            return _refused(gang, why, task=name, asked=supply.needed, fitting=fitting)
    return None


def _refused(gang: Gang, why: Unstarted, *, task: str = "", asked: int = 0, fitting: int = 0) -> GangRefused:
    return GangRefused(gang=gang.key, why=why, task=task, level=gang.domains.required, asked=asked, fitting=fitting)
