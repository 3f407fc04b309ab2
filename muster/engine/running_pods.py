"""The running pods as columns: where they are, what they hold, which gang they belong to and what it can spare.

Fed by changes of pods and gangs, one pod at a time; searched for victims by `pod_victims.py`, which looks at all of
them at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muster.engine.gangs import Gang, Member
from muster.engine.node_table_rows import WHOLE, BoolArray, Demand, FloatArray, IntArray
from muster.engine.numbering import Numbering


class RunningPods:
    """Every running pod, in slots that are used again when a pod has left."""

    def __init__(self, members: Iterable[Member] = (), gangs: Iterable[Gang] = ()) -> None:
        self.members: list[Member | None] = []  # by slot
        self.row: IntArray = np.zeros(0, np.int64)
        self.priority: IntArray = np.zeros(0, np.int64)
        self.started_at: FloatArray = np.zeros(0, np.float64)
        self.is_preemptible: BoolArray = np.zeros(0, np.bool_)
        self.is_running: BoolArray = np.zeros(0, np.bool_)  # else the slot is empty, and what else it says is stale
        self.gang: IntArray = np.zeros(0, np.int64)
        self.task: IntArray = np.zeros(0, np.int64)
        self.demand: IntArray = np.zeros(0, np.int64)
        # Slots by cards: what leaving makes free, or more: how much a slice is of its card only the table knows.
        self.card_milli: IntArray = np.zeros((0, 0), np.int64)
        self.gangs: Numbering[str] = Numbering()
        self.demands: Numbering[Demand] = Numbering()
        self._tasks: Numbering[tuple[str, str]] = Numbering()
        self._pods: Numbering[str] = Numbering()
        self._slots_by_gang: dict[str, dict[int, None]] = {}
        self._known: dict[str, Gang] = {}
        self._ranks: IntArray | None = None
        for gang in gangs:
            self.learn(gang)
        for member in members:
            self.put(member)

    # Changes ---------------------------------------------------------------------------------------------------------

    def learn(self, gang: Gang) -> None:
        """Remember the minimum of a gang."""
        self._known[gang.key] = gang

    def forget(self, gang: str) -> None:
        """The gang is over; pods of it that are left can only go all together."""
        self._known.pop(gang, None)

    def put(self, member: Member) -> None:
        """A pod started."""
        assert member.pod not in self._pods.number_by_key, f"{member.pod} runs already"
        slot = self._pods.enter(member.pod)
        cards = _cards_of(member)
        self._make_room(slot, max(cards, default=-1) + 1)
        if slot == len(self.members):
            self.members.append(None)
        self.members[slot] = member
        key = gang_key(member)
        self.row[slot], self.priority[slot] = member.place.row, member.priority
        self.started_at[slot], self.is_preemptible[slot] = member.started_at, member.is_preemptible
        self.is_running[slot] = True
        self.gang[slot] = self.gangs.enter(key)
        self.task[slot] = self._tasks.enter((key, member.task))
        self.demand[slot] = self.demands.enter(member.demand)
        self.card_milli[slot] = 0
        self.card_milli[slot, list(cards)] = _part_of_a_card(member)
        self._slots_by_gang.setdefault(key, {})[slot] = None
        self._ranks = None

    def drop(self, pod: str) -> None:
        """A pod has left."""
        slot = self._pods.number_by_key.get(pod)
        if slot is None:
            return
        key = self.gangs.keys[self.gang[slot]]
        del self._slots_by_gang[key][slot]
        if not self._slots_by_gang[key]:
            del self._slots_by_gang[key]
        self._pods.leave(slot)
        self.gangs.leave(int(self.gang[slot]))
        self._tasks.leave(int(self.task[slot]))
        self.demands.leave(int(self.demand[slot]))
        self.members[slot] = None
        self.is_running[slot] = False
        self._ranks = None

    # Questions -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pods.number_by_key)

    @property
    def slots(self) -> int:
        """How many slots there are, empty ones among them."""
        return len(self.members)

    def of_gang(self, gang: str) -> list[Member]:
        """The running pods of a gang."""
        return [self.member(slot) for slot in self._slots_by_gang.get(gang, ())]

    def slots_of(self, gang: int) -> list[int]:
        """Where the pods of a gang are, the gang named by its number."""
        return list(self._slots_by_gang[self.gangs.keys[gang]])

    def member(self, slot: int) -> Member:
        member = self.members[slot]
        assert member is not None, "an empty slot is nobody"
        return member

    def amounts(self, resource: str) -> IntArray:
        """What a pod of each demand holds of a resource."""
        return np.array([demand.amount(resource) for demand in self.demands.keys], np.int64)

    def spare(self) -> tuple[IntArray, IntArray]:
        """How many pods each gang can lose, and how many of each of its tasks, before it is at its minimum.

        A gang whose minimum is not known can spare nobody: its pods only go all together.
        """
        gangs, tasks = np.zeros(len(self.gangs.keys), np.int64), np.zeros(len(self._tasks.keys), np.int64)
        for key, gang in self._known.items():
            number = self.gangs.number_by_key.get(key)
            if number is None:
                continue
            spare = self.gangs.counts[number] - gang.minimum
            for task in gang.tasks:
                own = self._tasks.number_by_key.get((key, task.name))
                spare_of_task = (self._tasks.counts[own] if own is not None else 0) - task.count_least
                if own is not None:
                    tasks[own] = max(0, spare_of_task)
                if spare_of_task < 0:
                    spare = 0  # a gang that lacks pods of one task does not give up those of another
            gangs[number] = max(0, spare)
        return gangs, tasks

    def ranks(self) -> IntArray:
        """The order of the pods' names, by slot, to tell equals apart."""
        if self._ranks is None:
            self._ranks = np.zeros(self.slots, np.int64)
            slots = [slot for _, slot in sorted(self._pods.number_by_key.items())]
            self._ranks[slots] = np.arange(len(slots))
        return self._ranks

    # Inside ----------------------------------------------------------------------------------------------------------

    def _make_room(self, slot: int, cards: int) -> None:
        have, width = self.card_milli.shape
        if cards > width:
            self.card_milli = np.pad(self.card_milli, ((0, 0), (0, cards - width)))
        if slot < have:
            return
        more = max(slot + 1, 2 * have) - have
        self.row, self.priority = np.pad(self.row, (0, more)), np.pad(self.priority, (0, more))
        self.started_at = np.pad(self.started_at, (0, more))
        self.is_preemptible, self.is_running = (
            np.pad(self.is_preemptible, (0, more)),
            np.pad(self.is_running, (0, more)),
        )
        self.gang, self.task = np.pad(self.gang, (0, more)), np.pad(self.task, (0, more))
        self.demand = np.pad(self.demand, (0, more))
        self.card_milli = np.pad(self.card_milli, ((0, more), (0, 0)))


def gang_key(member: Member) -> str:
    """The gang of a pod; one that is by itself is its own."""
    return member.gang or member.pod


def _cards_of(member: Member) -> tuple[int, ...]:
    """The cards that a pod is on, by number."""
    slices = member.place.slices
    if slices is None or member.place.cards:
        return member.place.cards
    return tuple(share.index for share in slices.shares)


def _part_of_a_card(member: Member) -> int:
    """What a pod holds of each of its cards in thousandths; a slice may be anything up to all of the card."""
    return member.demand.milli if member.place.slices is None else WHOLE
