"""Who runs in which slots: the workloads that hold slots as running pods, for the search for victims.

Part of `muster/engine/slots.py`; the engine's state tells it who holds what. Changes are only noted, and worked in when
somebody looks for victims: most cycles need none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from muster.engine.gangs import Gang, GangRefused, Member, Task, Unstarted
from muster.engine.node_table_rows import Demand, Placed
from muster.engine.running_pods import RunningPods
from muster.engine.slot_asks import SlotRefusal, SlotUse
from muster.model.workload import Slot, Workload

LEAVES_ANYWAY = -(2**40)  # below every priority
NO_DEMAND = Demand()


@dataclass(frozen=True, slots=True)
class Holding:
    """A workload and the slots of its pod sets."""

    workload: Workload
    uses: tuple[SlotUse, ...]

    @property
    def pod_sets(self) -> list[str]:
        admission = self.workload.admission
        assert admission is not None, f"{self.workload.key} holds slots without an admission"
        return [given.name for given in admission.pod_sets if given.slots]


class SlotHolders:
    """The workloads that hold slots."""

    def __init__(self, place_of: Callable[[Slot], Placed]) -> None:
        self._place_of = place_of
        self._running = RunningPods()
        self._holdings: dict[str, Holding] = {}  # by workload, as `_running` has them
        self._changed: dict[str, Holding | None] = {}  # what `_running` has not heard of yet; None: it gave all back

    def hold(self, workload: Workload, uses: Sequence[SlotUse]) -> None:
        """A workload holds these slots from now on."""
        self._changed[workload.key] = Holding(workload, tuple(uses))

    def give_back(self, workload: str) -> None:
        """A workload holds no slots any more."""
        self._changed[workload] = None

    @property
    def running(self) -> RunningPods:
        """Who runs where, as of now; brought up to date only where somebody asks."""
        for key, holding in self._changed.items():
            before = self._holdings.pop(key, None)
            for member in self._members(before) if before is not None else ():
                self._running.drop(member.pod)
            self._running.forget(key)
            if holding is not None:
                self._holdings[key] = holding
                for member in self._members(holding):
                    self._running.put(member)
                if holding.workload.is_elastic:
                    self._running.learn(_minimum_of(holding.workload))
        self._changed.clear()
        return self._running

    def slot_of(self, member: Member) -> Slot:
        """The slot of a running pod as its workload has it: its node may have numbered its cards anew since."""
        key, name, number = member.pod.rsplit("/", 2)
        holding = self._holdings[key]
        return holding.uses[holding.pod_sets.index(name)].slots[int(number)]

    def _members(self, holding: Holding) -> Iterator[Member]:
        workload = holding.workload
        for name, use in zip(holding.pod_sets, holding.uses, strict=True):
            leaving = Counter(workload.leaving_slots.get(name, ()))
            for number, slot in enumerate(use.slots):
                is_leaving = leaving[slot] > 0
                leaving[slot] -= is_leaving
                yield Member(
                    pod=f"{workload.key}/{name}/{number}",
                    # A pod that was told to go is nothing that its gang could spare: it stands for itself.
                    gang=workload.key if workload.is_evicted or not is_leaving else "",
                    task=name,
                    demand=use.demand,
                    place=self._place_of(slot),
                    queue=workload.queue,
                    # Those who leave already are taken before anybody is told to.
                    priority=LEAVES_ANYWAY if is_leaving or workload.is_evicted else workload.priority,
                    started_at=workload.reserved_at or 0.0,
                )


def owner_of(member: Member) -> str:
    """The workload of a running pod."""
    return member.gang or member.pod.rsplit("/", 2)[0]


def _minimum_of(workload: Workload) -> Gang:
    """How few of its pods a workload can go on with."""
    tasks = tuple(
        Task(name=one.name, demand=NO_DEMAND, count=one.count, count_least=one.count_least) for one in workload.pod_sets
    )
    return Gang(key=workload.key, tasks=tasks, count_least=workload.pods_least)


def refusal_of(refused: GangRefused) -> SlotRefusal:
    """Why a gang finds no slots, in the words for workloads."""
    is_final = refused.why in (Unstarted.NEVER_FITS, Unstarted.TOO_FEW_PODS, Unstarted.LEVEL_MISSING)
    text = refused.text
    if refused.asked == 1:
        text = "no node could ever hold it" if is_final else "no node has room for it now"
    return SlotRefusal(refused.task, text, is_final)
