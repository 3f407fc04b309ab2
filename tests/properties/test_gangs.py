"""Random bursts of gangs on random clusters: whole or absent, nothing given twice, no running gang below its minimum.

Every history is a seed. What fits is counted anew from the pods that run, one node and one card at a time, and compared
with what the engine says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import count
from random import Random

import pytest

from muster.engine.gang_domains import NO_WISH, Domains, DomainWish
from muster.engine.gangs import Gang, GangPlaced, GangRefused, Member, Task, backfill, place_gang
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import WHOLE, Demand, TableNode, demand
from muster.engine.pod_victims import VictimRules, Victims, find_victims
from muster.engine.running_pods import RunningPods
from muster.policies import bestfit, binpack, fgd, spread
from tests.engine.gang_world import facts
from tests.support import proof_count

HISTORIES = 10_000
BLOCKS = 10
STEPS = 9
RACKS = ("left", "right")


class Cluster:
    """A table, the pods that run on it, and the same told once more in plain words."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.nodes = [
            TableNode(
                name=f"node-{number}",
                amounts={"cpu": chance.randint(2, 12), "pods": chance.randint(3, 8)},
                cards=chance.randint(0, 4),
            )
            for number in range(chance.randint(1, 6))
        ]
        self.rack = [chance.choice((*RACKS, "")) for _ in self.nodes]
        self.table = NodeTable(self.nodes)
        policy = chance.choice((bestfit, binpack, fgd, spread)).POLICY
        self.placer = Placer(self.table, [policy.hooks()])
        self.domains = Domains(("rack",))
        for row, rack in enumerate(self.rack):
            self.domains.put(row, {"rack": rack} if rack else {})
        self.pods = RunningPods()
        self.members: dict[str, Member] = {}
        self.gangs: dict[str, Gang] = {}
        self.now = 0.0
        self.numbers = count()

    # What is free, counted anew --------------------------------------------------------------------------------------

    def free_of(self, row: int, gone: Iterable[str] = ()) -> tuple[dict[str, int], list[int]]:
        """What a node has left when some pods are not counted."""
        left, cards = dict(self.nodes[row].amounts), [WHOLE] * self.nodes[row].cards
        for name, member in self.members.items():
            if member.place.row == row and name not in gone:
                for resource, amount in member.demand.amounts:
                    left[resource] -= amount
                for card in member.place.cards:
                    cards[card] -= member.demand.milli
        return left, cards

    def room(self, wanted: Demand, wish: DomainWish, gone: Iterable[str] = ()) -> int:
        """How many alike pods fit, in the best rack if one is required."""
        by_rack: Counter[str] = Counter()
        for row, rack in enumerate(self.rack):
            left, cards = self.free_of(row, gone)
            counts = [left.get(resource, 0) // amount for resource, amount in wanted.amounts]
            if wanted.cards:
                counts.append(sum(free // wanted.milli for free in cards) // wanted.cards)
            by_rack[rack if wish.required else ""] += max(0, min(counts, default=99))
        return max((room for rack, room in by_rack.items() if rack or not wish.required), default=0)

    def check(self) -> None:
        """Nothing is given twice, and the table knows exactly what the running pods hold."""
        for row in range(len(self.nodes)):
            left, cards = self.free_of(row)
            assert min(left.values()) >= 0, f"node {row} is oversold: {left}"
            assert min(cards, default=0) >= 0, f"a card of node {row} is oversold: {cards}"
            have = {name: int(self.table.free[column, row]) for column, name in enumerate(self.table.resources)}
            assert (have, self.table.cards[row, : len(cards)].tolist()) == (left, cards), f"node {row} is miscounted"

    # Changes ---------------------------------------------------------------------------------------------------------

    def start(self, gang: Gang, placed: GangPlaced) -> None:
        """Pods that the engine has placed are running now."""
        demands = {task.name: task.demand for task in gang.tasks}
        self.gangs[gang.key] = gang
        self.pods.learn(gang)
        for name, places in placed.places.items():
            for place in places:
                member = Member(
                    pod=f"{gang.key}/{name}-{next(self.numbers)}",
                    gang=gang.key,
                    task=name,
                    demand=demands[name],
                    place=place,
                    priority=gang.priority,
                    started_at=self.now,
                    is_preemptible=self.chance.random() < 0.9,
                )
                self.members[member.pod] = member
                self.pods.put(member)
        self.placer.commit()

    def leave(self, members: Iterable[Member]) -> None:
        for member in members:
            self.placer.release(member.place.row, member.demand, member.place.cards)
            self.pods.drop(member.pod)
            del self.members[member.pod]
        self.placer.commit()

    def running(self, key: str) -> Counter[str]:
        return Counter(member.task for member in self.members.values() if member.gang == key)


def a_demand(chance: Random) -> Demand:
    cards, milli = chance.choice(
        ((0, WHOLE), (1, WHOLE), (1, WHOLE), (2, WHOLE), (1, 500), (1, 300), (1, 125), (2, 400))
    )
    return demand({"cpu": chance.randint(0, 3), "pods": 1}, cards=cards, milli=milli)


def a_gang(chance: Random, number: int) -> Gang:
    tasks = []
    for index in range(chance.choice((1, 1, 1, 2, 3))):
        wanted = chance.randint(1, 6)
        least = chance.randint(0, wanted)
        tasks.append(Task(name=f"task-{index}", demand=a_demand(chance), count=wanted, count_least=least))
    wish = chance.choice((NO_WISH, NO_WISH, DomainWish(required="rack"), DomainWish(preferred="rack")))
    most = sum(task.count for task in tasks)
    return Gang(
        key=f"gang-{number}",
        tasks=tuple(tasks),
        count_least=chance.randint(0, most),
        priority=chance.randrange(4),
        domains=wish,
    )


# Starting ------------------------------------------------------------------------------------------------------------


def is_counted_exactly(gang: Gang) -> bool:
    """Whether the plain count says exactly what fits: alike pods, and no parts of several cards."""
    wanted = gang.tasks[0].demand
    return len(gang.tasks) == 1 and not (wanted.cards > 1 and wanted.milli < WHOLE)


def check_start(cluster: Cluster, gang: Gang, before: list[list[int]], answer: GangPlaced | GangRefused) -> None:
    if isinstance(answer, GangRefused):
        assert facts(cluster.table) == before, "a refusal leaves no trace"
        if is_counted_exactly(gang):
            room = cluster.room(gang.tasks[0].demand, gang.domains)
            assert room < gang.minimum, f"{room} fit and {gang.minimum} were refused"
        return
    cluster.start(gang, answer)
    counts = cluster.running(gang.key)
    assert counts.total() >= gang.minimum, "a gang that started has its minimum"
    assert all(task.count_least <= counts[task.name] <= task.count for task in gang.tasks)
    rows = {place.row for places in answer.places.values() for place in places}
    if gang.domains.required:
        assert len({cluster.rack[row] for row in rows}) == 1, "all in one rack"
    if is_counted_exactly(gang) and counts.total() < gang.count and not gang.domains.required:
        assert not cluster.room(gang.tasks[0].demand, gang.domains), "it grows while there is room"


def check_growth(cluster: Cluster, key: str) -> None:
    gang, before = cluster.gangs[key], cluster.running(key)
    grown = place_gang(cluster.placer, gang, domains=cluster.domains, running=cluster.pods.of_gang(key))
    assert isinstance(grown, GangPlaced), "growth never fails what runs"
    cluster.start(gang, grown)
    after = cluster.running(key)
    assert all(before[task.name] <= after[task.name] <= max(task.count, before[task.name]) for task in gang.tasks)


# Victims -------------------------------------------------------------------------------------------------------------


def spares(cluster: Cluster, key: str, gone: Iterable[str]) -> bool:
    """Whether a gang is untouched, gone, or at least at its minimum once these have left."""
    names, gang = set(gone), cluster.gangs[key]
    own = [member for member in cluster.members.values() if member.gang == key]
    left = Counter(member.task for member in own if member.pod not in names)
    if left.total() in (0, len(own)):
        return True
    return left.total() >= gang.minimum and all(left[task.name] >= task.count_least for task in gang.tasks)


def check_victims(cluster: Cluster, gang: Gang) -> None:
    """Everything that holds for an answer, or for a refusal; on success the victims leave and the gang starts."""
    rules = VictimRules(now=cluster.now, priority_below=gang.priority, run_time_least_s=cluster.chance.choice((0, 3)))
    before = facts(cluster.table)
    found = find_victims(cluster.placer, gang, cluster.pods, rules, domains=cluster.domains)
    assert facts(cluster.table) == before, "a search leaves no trace"
    members = list(cluster.members.values())
    cluster.chance.shuffle(members)
    anew = RunningPods(members, cluster.gangs.values())
    assert find_victims(cluster.placer, gang, anew, rules, domains=cluster.domains) == found, (
        "the order does not matter"
    )
    may_go = {name for name, member in cluster.members.items() if is_allowed(member, rules)}
    if isinstance(found, GangRefused):
        check_nobody_helps(cluster, gang, may_go)
        return
    gone = {member.pod for member in found.members}
    assert gone <= may_go
    assert all(spares(cluster, key, gone) for key in cluster.gangs), "a running gang is left below its minimum"
    whole = {key for key in cluster.gangs if cluster.running(key) and set(names_of(cluster, key)) <= gone}
    assert set(found.whole_gangs) == whole
    check_nobody_too_many(cluster, gang, found)
    cluster.leave(found.members)
    for name, places in found.placed.places.items():
        for place in places:
            wanted = next(task.demand for task in gang.tasks if task.name == name)
            cluster.placer.charge(place.row, wanted, place.cards)
    cluster.start(gang, found.placed)
    assert cluster.running(gang.key).total() >= gang.minimum


def names_of(cluster: Cluster, key: str) -> list[str]:
    return [name for name, member in cluster.members.items() if member.gang == key]


def is_allowed(member: Member, rules: VictimRules) -> bool:
    has_run = member.started_at <= rules.now - rules.run_time_least_s
    return member.is_preemptible and member.priority < rules.priority_below and has_run


def check_nobody_helps(cluster: Cluster, gang: Gang, may_go: set[str]) -> None:
    """Not even with all gone who may go; told only where nobody's going depends on who else goes."""
    for key in cluster.gangs:
        own = set(names_of(cluster, key))
        if own & may_go and not own <= may_go:
            return
    if is_counted_exactly(gang):
        room = cluster.room(gang.tasks[0].demand, gang.domains, may_go)
        assert room < gang.minimum, f"{room} would fit with all gone and {gang.minimum} were refused"


def check_nobody_too_many(cluster: Cluster, gang: Gang, found: Victims) -> None:
    """Nobody can be spared: without any one of them, a pod or a whole gang, there is no room."""
    if not is_counted_exactly(gang):
        return
    gone = {member.pod for member in found.members}
    rows = [place.row for places in found.placed.places.values() for place in places]
    away = {name for name, member in cluster.members.items() if cluster.rack[member.place.row] != cluster.rack[rows[0]]}
    for member in found.members:
        unit = {member.pod} if member.gang not in found.whole_gangs else set(names_of(cluster, member.gang))
        if gang.domains.required and unit <= away:
            continue  # with a whole gang pods leave other racks
        if not gang.domains.required:
            room = cluster.room(gang.tasks[0].demand, gang.domains, gone - unit)
            assert room < gang.minimum, f"{sorted(unit)} could have stayed"


# Histories -----------------------------------------------------------------------------------------------------------


def check_history(chance: Random) -> None:
    cluster = Cluster(chance)
    for number in range(STEPS):
        cluster.now += chance.choice((0.0, 1.0, 2.0))
        gang = a_gang(chance, number)
        before = facts(cluster.table)
        answer = place_gang(cluster.placer, gang, domains=cluster.domains)
        check_start(cluster, gang, before, answer)
        cluster.check()
        if isinstance(answer, GangRefused):
            check_victims(cluster, gang)
            cluster.check()
        if cluster.members and chance.random() < 0.4:
            cluster.leave(
                chance.sample(list(cluster.members.values()), chance.randint(1, min(3, len(cluster.members))))
            )
        if cluster.gangs and chance.random() < 0.4:
            key = chance.choice(sorted(cluster.gangs))
            if cluster.running(key):
                check_growth(cluster, key)
        cluster.check()


def check_backfill(chance: Random) -> None:
    """What backfill starts does not touch what is held, and alike pods that it passes over do not fit."""
    cluster = Cluster(chance)
    held = a_gang(chance, 99)
    promised = place_gang(cluster.placer, held, domains=cluster.domains)
    if isinstance(promised, GangPlaced):
        cluster.start(held, promised)
    waiting = {f"gang-{number}": a_gang(chance, number) for number in range(8)}
    started = []
    for placed in backfill(cluster.placer, waiting.values(), domains=cluster.domains):
        cluster.start(waiting[placed.gang], placed)
        started.append(placed.gang)
        cluster.check()
    for key, gang in waiting.items():
        if key not in started and is_counted_exactly(gang):
            assert isinstance(place_gang(cluster.placer, gang, domains=cluster.domains), GangRefused)


@pytest.mark.prove
@pytest.mark.parametrize("check", [check_history, check_backfill], ids=["histories", "backfill"])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_gangs(check, block):
    for number in range(proof_count(HISTORIES) // BLOCKS):
        seed = number * BLOCKS + block
        try:
            check(Random(seed))
        except AssertionError as problem:
            raise AssertionError(f"{check.__name__}(Random({seed})): {problem}") from problem
