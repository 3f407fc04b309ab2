"""One cycle: the state it looks at, the ledger it tries things on, and the plan it gathers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster.engine.assignment import Assignment, Mode, Standing
from muster.engine.fair_victims import find_fair_victims
from muster.engine.places import Use
from muster.engine.placing import Placing
from muster.engine.quota import fits, lowest_fitting_height
from muster.engine.state import EngineState
from muster.engine.tree import QuotaNode
from muster.engine.victims import CODES, Candidate, Claim, Preemptor, Victim, VictimSearch, fits_with
from muster.model.plan import Decision, Plan
from muster.model.reason import Verdict
from muster.model.resources import Amounts, FlavorResource
from muster.model.workload import Workload


class Need(NamedTuple):
    """What a workload takes: quota, and places of nodes."""

    amounts: Amounts
    places: list[Use]


class Cycle:
    """The scratch of one cycle. Nothing in it outlives the plan."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.settings = state.settings
        self.ledger = state.ledger
        self.search = VictimSearch(
            holders=state.holders,
            ledger=state.ledger,
            settings=state.settings,
            now=state.now,
            history=state.history,
            is_spared_from=state.repeats.is_spared_from,
        )
        self.decisions: list[Decision] = []
        self.verdicts: dict[str, Verdict] = {}
        self.leaving: dict[str, Victim] = {}  # told to go in this cycle
        self.promised: list[tuple[QuotaNode, Need]] = []  # charged for those who wait for others to leave
        self.promised_in_vain: set[str] = set()  # roots where one that nobody will leave for holds something
        self.has_places_in_vain = False  # and whether it holds places of nodes, which trees share
        self.step = 0  # counts what was taken in this cycle
        self.is_last = False  # nobody comes after the entry that is decided on: what it takes need not be charged
        self.resumes_at = ""
        self.has_movers = False  # somebody moves or goes in this plan already, and was left alone
        self.takers: dict[str, str] = {}  # by root: who last took something in this cycle
        self.skipped_preemptions: dict[str, int] = {}
        self.recomputed: dict[tuple[str, str], int] = {}
        self.waiting_for_pods: tuple[str, ...] | None = None
        # By resource in a flavor: how much of it one head was asked for in its search, and who would have to leave.
        self.asked: dict[FlavorResource, tuple[int, list[Victim]]] = {}
        self._need: tuple[Assignment, Need] | None = None  # the last one asked for

    @property
    def is_out_of_steps(self) -> bool:
        """Whether the cycle has used up its tries; what is left waits for the next one."""
        return self.search.steps > self.settings.cycle_steps_most

    def plan(self) -> Plan:
        return Plan(
            cycle=self.state.cycle,
            decisions=tuple(self.decisions),
            verdicts=self.verdicts,
            skipped_preemptions=self.skipped_preemptions,
            recomputed_targets=self.recomputed,
            steps=self.search.steps,
            resumes_at=self.resumes_at,
        )

    def placing_for(self, workload: Workload, queue: QuotaNode) -> Placing | None:
        """Where the workload's pods could go; nothing to ask where nodes do not matter."""
        places = self.state.places
        if not queue.queue.is_unlimited and not self._gives_nodes(workload):
            places = places.without_slots()
        if not places.is_any:
            return None
        return Placing(workload=workload, queue=queue, flavors=self.state.flavors, places=places)

    def _gives_nodes(self, workload: Workload) -> bool:
        """Whether a workload of a queue gets its nodes with its quota; else its pods get theirs later, from anybody."""
        ours = self.settings.schedulers
        is_ours = ours is None or all(pod_set.shape.scheduler in ours for pod_set in workload.pod_sets)
        return is_ours and self.settings.places_queued_pods

    def victims_for(self, workload: Workload, queue: QuotaNode, assignment: Assignment) -> list[Victim]:
        """Who has to leave for an assignment, for its quota and for its places."""
        placing = self.placing_for(workload, queue)
        if placing is None and len(assignment.usage) == 1:
            key, amount = next(iter(assignment.usage.items()))
            asked, victims = self.asked.get(key, (None, []))
            if asked == amount:
                return victims  # the search of the flavor has asked the same
        # Where a topology decides, the domains are sought anew for every set of victims, and the nodes in them.
        if placing is not None and placing.places.slots is not None and not placing.asks(assignment):
            return self._victims_for_slots(placing, assignment)
        preemptor = Preemptor(
            workload=workload,
            queue=queue,
            requests=assignment.usage,
            contested=assignment.contested(),
            has_place=(lambda: placing.has_place(assignment)) if placing is not None else None,
        )
        return self._find_victims(preemptor) if placing is None else self._victims_for_places(preemptor)

    def _victims_for_slots(self, placing: Placing, assignment: Assignment) -> list[Victim]:
        """Those who leave for the quota, and then those who have slots that are missing still."""
        preemptor = Preemptor(
            workload=placing.workload,
            queue=placing.queue,
            requests=assignment.usage,
            contested=assignment.contested(),
        )
        victims: list[Victim] = []
        if not fits(placing.queue, assignment.usage):
            victims = self._find_victims(preemptor)
            if not victims:
                return []
        mark = self.ledger.checkpoint()
        self.take_out(victims)
        more: list[Victim] | None = []
        if not placing.has_place(assignment):
            candidates = self._leaving_anyway()
            if self._may_preempt_now(placing.queue):
                candidates += self.search.candidates(preemptor)
            more = placing.slot_victims(
                assignment, candidates, lambda *parts: self.search.are_worth_taking(preemptor, *parts)
            )
        self.ledger.rollback(mark)
        return victims + more if more is not None else []

    def _leaving_anyway(self) -> list[Candidate]:
        """Those whose places are waited for by anybody's right: they leave, and no quota counts them any more."""
        leavers = self.state.holders.leaving_uncounted()
        return [Candidate(one, Claim.LEAVING) for one in leavers if not self.ledger.is_gone(one.workload.key)]

    def _victims_for_places(self, preemptor: Preemptor) -> list[Victim]:
        """Who has to leave where a topology decides: those who do anyway are waited for before anybody is told to."""
        leavers = [Victim(one.holder, CODES[one.claim]) for one in self._leaving_anyway()]
        if not leavers:
            return self._find_victims(preemptor)
        mark = self.ledger.checkpoint()
        self.take_out(leavers)
        does_fit = fits_with(preemptor, may_borrow=True)
        victims = [] if does_fit else self._find_victims(preemptor)
        self.ledger.rollback(mark)
        if not does_fit and not victims:
            return []
        mark = self.ledger.checkpoint()
        self.take_out(victims)
        is_enough = bool(victims) and fits_with(preemptor, may_borrow=True)
        self.ledger.rollback(mark)
        return victims if is_enough else leavers + victims

    def _find_victims(self, preemptor: Preemptor) -> list[Victim]:
        if not self._may_preempt_now(preemptor.queue):
            return []
        if self.settings.fair_sharing is not None:
            return find_fair_victims(self.search, preemptor)
        return self.search.find(preemptor)

    def could_preempt(self, workload: Workload, queue: QuotaNode, key: FlavorResource, amount: int) -> Standing:
        """Whether somebody could leave for one resource, and how far up the queue would then borrow."""
        preemptor = Preemptor(workload=workload, queue=queue, requests={key: amount}, contested=frozenset((key,)))
        victims = self._find_victims(preemptor)
        self.asked[key] = (amount, victims)
        if not victims:
            return Standing(Mode.NO_CANDIDATES, lowest_fitting_height(queue, key, amount)[0])
        mark = self.ledger.checkpoint()
        self.take_out(victims)
        level, _ = lowest_fitting_height(queue, key, amount)
        self.ledger.rollback(mark)
        is_own = any(victim.holder.queue is queue for victim in victims)
        return Standing(Mode.PREEMPT if is_own else Mode.RECLAIM, level)

    def take_out(self, victims: Iterable[Victim]) -> None:
        """Act as if these had left; one that is named twice leaves once."""
        for victim in victims:
            holder = victim.leaver
            if not self.ledger.is_gone(holder.workload.key):
                self.ledger.take_out(holder.workload.key, holder.queue, holder.usage, holder.places)

    def fits_without(self, queue: QuotaNode, need: Need, leavers: Sequence[Victim]) -> tuple[bool, bool]:
        """Whether quota, and places, suffice once all who were told to go, and these, are gone."""
        if not self.state.places.is_any and not self.leaving and not leavers:
            return fits(queue, need.amounts), True
        mark = self.ledger.checkpoint()
        self.take_out(self.leaving.values())
        self.take_out(leavers)
        has_quota = fits(queue, need.amounts)
        has_places = self.ledger.has_room(need.places)
        self.ledger.rollback(mark)
        return has_quota, has_places

    def promise(self, queue: QuotaNode, need: Need) -> None:
        """Hold what a waiting workload will need against the entries behind it, for this cycle."""
        self.take(queue, need)
        self.promised.append((queue, need))

    def take(self, queue: QuotaNode, need: Need) -> None:
        """Charge what a workload gets, for the rest of the cycle."""
        self.step += 1
        self.ledger.charge(queue, need.amounts)
        self.ledger.charge_places(need.places)

    def is_there_now(self, queue: QuotaNode, need: Need) -> bool:
        """Whether quota and places suffice while everybody told to go is still there.

        What was promised to others does not count, it is not theirs yet; but what victims hold is not free yet either.
        """
        if not self.leaving:
            return True
        mark = self.ledger.checkpoint()
        for other, promised in self.promised:
            self.ledger.release(other, promised.amounts)
            self.ledger.release_places(promised.places)
        does_fit = self.ledger.has_room(need.places) and fits(queue, need.amounts)
        self.ledger.rollback(mark)
        return does_fit

    def need_of(self, workload: Workload, queue: QuotaNode, assignment: Assignment) -> Need:
        """All that an assignment takes."""
        if self._need is None or self._need[0] is not assignment:
            placing = self.placing_for(workload, queue)
            self._need = (assignment, Need(assignment.usage, placing.uses(assignment) if placing is not None else []))
        return self._need[1]

    def _may_preempt_now(self, queue: QuotaNode) -> bool:
        """A queue that preempted a moment ago may have to wait, where the setting says so."""
        cool_down_s = self.settings.guards.queue_cool_down_s
        last = self.state.preempted_last.get(queue.name)
        if cool_down_s <= 0 or last is None or self.state.now - last >= cool_down_s:
            return True
        self.search.spared_until = min(self.search.spared_until, last + cool_down_s)
        return False
