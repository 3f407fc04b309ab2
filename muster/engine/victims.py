"""Victim search: the smallest set of running workloads whose leaving lets another one start.

Candidates are gathered by the preemptor's rules, taken out one by one in a fixed order until it fits, and given
back one by one while it still does. All of it happens on the ledger and is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from math import inf

from muster.engine.holders import Holder, Holders
from muster.engine.ledger import Ledger
from muster.engine.quota import free_for, is_borrowing_any, is_borrowing_with, reserve_left
from muster.engine.tree import QuotaNode
from muster.engine.turns import seen_at, takes_turns
from muster.engine.usage_history import UsageHistory
from muster.model.queue import PreemptionPolicy
from muster.model.reason import Code
from muster.model.resources import Amounts, FlavorResource
from muster.model.settings import PreemptionGuards, Settings
from muster.model.workload import Slot, Workload


class Claim(Enum):
    """By what right a candidate may be taken."""

    OWN_QUEUE = "own queue"
    RECLAIM = "reclaim"  # the request fits in quota that the preemptor's side of the tree brings
    WITHOUT_BORROWING = "without borrowing"  # only if the preemptor's queue then stays within its share
    WHILE_BORROWING = "while borrowing"  # even if it then borrows
    LEAVING = "leaving"  # it leaves in any case, and is waited for


CODES: Mapping[Claim, Code] = {
    Claim.OWN_QUEUE: Code.PREEMPTED_IN_QUEUE,
    Claim.RECLAIM: Code.RECLAIMED,
    Claim.WITHOUT_BORROWING: Code.RECLAIMED,
    Claim.WHILE_BORROWING: Code.RECLAIMED_WHILE_BORROWING,
    Claim.LEAVING: Code.PREEMPTED_IN_QUEUE,
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workload that may be taken, by what right, and where its branch meets the preemptor's."""

    holder: Holder
    claim: Claim
    meeting: QuotaNode | None = None


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload that has to leave, whole or in part, and why."""

    holder: Holder
    code: Code
    slots: Mapping[str, tuple[Slot, ...]] | None = None  # by pod set, those to be left; None: it leaves whole
    part: Holder | None = None  # what it gives back where it stays with the rest

    @property
    def leaver(self) -> Holder:
        """What is given back."""
        return self.part if self.part is not None else self.holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """Who needs room, how much, and for which resources somebody has to leave."""

    workload: Workload
    queue: QuotaNode
    requests: Amounts
    contested: frozenset[FlavorResource]
    has_place: Callable[[], bool] | None = None  # whether its pods find their places as the ledger stands


CandidatePlace = tuple[bool, bool, bool, float, int, float, str, str]


def candidate_order(holder: Holder, own_queue: str, now: float, consumed: float = 0.0) -> CandidatePlace:
    """Whom to take first: the leaving, other queues', of heavy users, of the lowest priority, the latest admitted.

    Those that are marked to be left alone come last.
    """
    workload = holder.workload
    reserved_at = workload.reserved_at if workload.reserved_at is not None else now
    is_own = holder.queue.name == own_queue
    use = -consumed if is_own else 0.0
    is_marked = not workload.is_preemptible
    return (
        not workload.is_evicted,
        is_marked,
        is_own,
        use,
        workload.priority,
        -reserved_at,
        workload.uid,
        workload.key,
    )


def may_preempt(policy: PreemptionPolicy, preemptor: Workload, candidate: Workload) -> bool:
    """Whether the policy lets the preemptor take the candidate."""
    if policy is PreemptionPolicy.ANY:
        return True
    if policy is PreemptionPolicy.LOWER_PRIORITY:
        return candidate.priority < preemptor.priority
    if policy is PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY:
        is_newer = candidate.priority == preemptor.priority and preemptor.queued_at < candidate.queued_at
        return candidate.priority < preemptor.priority or is_newer
    return policy is PreemptionPolicy.LOWER_OR_EQUAL_PRIORITY and candidate.priority <= preemptor.priority


def spared_until(workload: Workload, guards: PreemptionGuards, now: float) -> float:
    """Until when a named setting protects a running workload; one that is leaving already is not protected."""
    if workload.is_evicted or not guards.is_any_on:
        return now
    if guards.honours_marks and not workload.is_preemptible:
        return inf
    until = (workload.reserved_at if workload.reserved_at is not None else now) + guards.run_time_least_s
    if workload.preempted_at is not None:
        until = max(until, workload.preempted_at + guards.workload_cool_down_s)
    return until


def is_spared(workload: Workload, guards: PreemptionGuards, now: float) -> bool:
    """Whether a named setting protects a running workload now."""
    return spared_until(workload, guards, now) > now


@dataclass(slots=True, kw_only=True)
class VictimSearch:
    """Finds victims on one ledger."""

    holders: Holders
    ledger: Ledger
    settings: Settings
    now: float
    history: UsageHistory | None = None
    is_spared_from: Callable[[Workload, Workload], bool] | None = None  # a victim taken too often by one preemptor
    steps: int = 0  # removals tried, for the cycle's budget
    is_personal: bool = False  # whether somebody was spared from this very preemptor, but not from others like it
    spared_until: float = inf  # when the first limit runs out that spared somebody in this search

    def find(self, preemptor: Preemptor) -> list[Victim]:
        """The victims that let the preemptor start, or none."""
        candidates = self.candidates(preemptor)
        for may_borrow in _attempts(preemptor, candidates):
            mark = self.ledger.checkpoint()
            taken = self._take_until_fits(preemptor, candidates, may_borrow=may_borrow)
            if taken:
                taken = self._give_back(preemptor, taken, may_borrow=may_borrow)
            self.ledger.rollback(mark)
            if taken:
                return [Victim(candidate.holder, CODES[candidate.claim]) for candidate in taken]
        return []

    def place_of(self, holder: Holder, preemptor: Preemptor) -> CandidatePlace:
        """Where a candidate stands in the order of taking."""
        queue = preemptor.queue
        takes_turns = self.history is not None and queue.queue.is_usage_ordered
        used = self.history.used_by(holder.workload.submit_queue) if takes_turns and self.history is not None else 0.0
        return candidate_order(holder, queue.name, self.now, used)

    def candidates(self, preemptor: Preemptor) -> list[Candidate]:
        """Everybody who may be taken, in the order of taking."""
        if not preemptor.workload.may_preempt:
            return []
        by_reclaim, by_priority = self._others(preemptor)
        lists = (by_reclaim, by_priority, self._own(preemptor))
        for candidates in lists:
            candidates.sort(key=lambda candidate: self.place_of(candidate.holder, preemptor))
        leaving = [c for candidates in lists for c in candidates if c.holder.workload.is_evicted]
        staying = [c for candidates in lists for c in candidates if not c.holder.workload.is_evicted]
        return leaving + staying

    def _own(self, preemptor: Preemptor) -> list[Candidate]:
        policy = preemptor.queue.queue.preemption.within_queue
        return [Candidate(holder, Claim.OWN_QUEUE) for holder in self.takeable(preemptor, preemptor.queue, policy)]

    def _others(self, preemptor: Preemptor) -> tuple[list[Candidate], list[Candidate]]:
        """Candidates of other queues: those taken back by right of quota, and those taken by priority."""
        by_reclaim: list[Candidate] = []
        by_priority: list[Candidate] = []
        rules = preemptor.queue.queue.preemption
        if rules.reclaim is PreemptionPolicy.NEVER or rules.is_fence:
            return by_reclaim, by_priority
        requests = preemptor.requests
        if rules.counts_shares_alone:
            requests = _of_shares(preemptor.queue, requests)
            if not requests:
                return by_reclaim, by_priority
        has_right, left = _fits_in_own(preemptor.queue, requests)
        below = preemptor.queue
        for meeting in preemptor.queue.path[1:]:
            for queue in _borrowing_leaves(meeting, below, preemptor.contested):
                for holder in self.takeable(preemptor, queue, rules.reclaim, meeting):
                    if has_right:
                        by_reclaim.append(Candidate(holder, Claim.RECLAIM, meeting))
                    else:
                        claim = self._claim_by_priority(preemptor, holder.workload)
                        by_priority.append(Candidate(holder, claim, meeting))
            if meeting.queue.preemption.is_fence:
                break
            does_fit, left = _fits_in_own(meeting, left)
            has_right = has_right or does_fit
            below = meeting
        return by_reclaim, by_priority

    def takeable(
        self, preemptor: Preemptor, queue: QuotaNode, policy: PreemptionPolicy, meeting: QuotaNode | None = None
    ) -> Iterator[Holder]:
        """The workloads of a queue that a policy lets the preemptor take; in another queue, where the two meet."""
        if policy in (PreemptionPolicy.NEVER, PreemptionPolicy.UNSET):
            return
        lowest = self.holders.lowest_priority(queue.name)
        if lowest is None:
            return
        may_take = partial(may_preempt, policy, preemptor.workload)
        if meeting is not None and takes_turns(queue):
            # Queues add to the importance of those in them, so that only where they meet they can be compared.
            most = seen_at(meeting, preemptor.queue, preemptor.workload.priority)
            may_take = partial(_is_seen_within, most, meeting, queue)
        elif policy is not PreemptionPolicy.ANY and lowest > preemptor.workload.priority:
            return  # nobody is below it, so nobody has to be looked at
        elif policy is PreemptionPolicy.LOWER_PRIORITY and lowest == preemptor.workload.priority:
            return
        for holder in self.holders.in_queue(queue.name).values():
            if (
                may_take(holder.workload)
                and holder.uses_any(preemptor.contested)
                and not self.ledger.is_gone(holder.workload.key)
                and holder.workload.key != preemptor.workload.replaces
                and not self._is_guarded(holder.workload)
                and not self._is_taken_too_often(holder.workload, preemptor.workload)
            ):
                yield holder

    def _is_taken_too_often(self, victim: Workload, preemptor: Workload) -> bool:
        # One that is leaving already is not taken once more.
        if victim.is_evicted or self.is_spared_from is None or not self.is_spared_from(victim, preemptor):
            return False
        self.is_personal = True
        return True

    def _is_guarded(self, workload: Workload) -> bool:
        if not is_spared(workload, self.settings.guards, self.now):
            return False
        self.spared_until = min(self.spared_until, spared_until(workload, self.settings.guards, self.now))
        return True

    @staticmethod
    def _claim_by_priority(preemptor: Preemptor, candidate: Workload) -> Claim:
        rules = preemptor.queue.queue.preemption
        if not rules.may_borrow or candidate.priority >= preemptor.workload.priority:
            return Claim.WITHOUT_BORROWING
        if rules.borrow_priority_most is not None and candidate.priority > rules.borrow_priority_most:
            return Claim.WITHOUT_BORROWING
        return Claim.WHILE_BORROWING

    def _take_until_fits(
        self, preemptor: Preemptor, candidates: Sequence[Candidate], *, may_borrow: bool
    ) -> list[Candidate]:
        """Take candidates out until the preemptor fits; nobody when all of them together do not help."""
        taken: list[Candidate] = []
        for candidate in candidates:
            if not _is_worth_taking(candidate, preemptor, may_borrow=may_borrow):
                continue
            self.take(candidate.holder)
            taken.append(candidate)
            if fits_with(preemptor, may_borrow=may_borrow):
                return taken
        return []

    def _give_back(self, preemptor: Preemptor, taken: list[Candidate], *, may_borrow: bool) -> list[Candidate]:
        """Spare whom the preemptor does not need gone after all; the last one taken was needed."""
        for index in range(len(taken) - 2, -1, -1):
            holder = taken[index].holder
            mark = self.ledger.checkpoint()
            self.give_back(holder)
            if fits_with(preemptor, may_borrow=may_borrow):
                taken[index] = taken[-1]
                taken.pop()
            else:
                self.ledger.rollback(mark)
        return taken

    def are_worth_taking(self, preemptor: Preemptor, leaving: Iterable[Candidate], before: Iterable[Candidate]) -> bool:
        """Whether some may be taken after others: a queue gives back no more than it has above its quota."""
        may_borrow = any(is_borrowing_with(preemptor.queue, key, more) for key, more in preemptor.requests.items())
        mark = self.ledger.checkpoint()
        for candidate in before:
            self.ledger.release(candidate.holder.queue, candidate.holder.usage)
        is_right = True
        for candidate in leaving:
            is_right = is_right and _is_worth_taking(candidate, preemptor, may_borrow=may_borrow)
            self.ledger.release(candidate.holder.queue, candidate.holder.usage)
        self.ledger.rollback(mark)
        return is_right

    def take(self, holder: Holder) -> None:
        """Act as if a workload had left."""
        self.ledger.take_out(holder.workload.key, holder.queue, holder.usage, holder.places)
        self.steps += 1

    def give_back(self, holder: Holder) -> None:
        """Act as if it had not left after all."""
        self.ledger.put_back(holder.workload.key, holder.queue, holder.usage, holder.places)
        self.steps += 1


def _is_seen_within(most: int, meeting: QuotaNode, queue: QuotaNode, candidate: Workload) -> bool:
    return seen_at(meeting, queue, candidate.priority) <= most


def fits_with(preemptor: Preemptor, *, may_borrow: bool) -> bool:
    """Whether the preemptor fits as the ledger stands."""
    queue = preemptor.queue
    for key, amount in preemptor.requests.items():
        if amount > free_for(queue, key):
            return False
        if not may_borrow and is_borrowing_with(queue, key, amount):
            return False
    return preemptor.has_place is None or preemptor.has_place()


def _attempts(preemptor: Preemptor, candidates: Sequence[Candidate]) -> tuple[bool, ...]:
    """In which order to try with and without borrowing."""
    queue = preemptor.queue
    others = [candidate for candidate in candidates if candidate.claim is not Claim.OWN_QUEUE]
    is_forbidden = not queue.queue.preemption.may_borrow
    is_under = all(queue.usage.get(key, 0) < queue.cells[key].nominal for key in preemptor.contested)
    if not candidates:
        return ()
    if not others or (is_forbidden and not is_under):
        return (True,)
    if is_forbidden and not any(candidate.claim is Claim.RECLAIM for candidate in others):
        return (False, True)
    return (True, False)


def _is_worth_taking(candidate: Candidate, preemptor: Preemptor, *, may_borrow: bool) -> bool:
    """Whether taking it helps and is still right after those taken before it."""
    if candidate.meeting is None:
        return True
    if may_borrow and candidate.claim is Claim.WITHOUT_BORROWING:
        return False
    # A branch that is back within its own quota has nothing left that could be claimed.
    for node in candidate.holder.queue.path:
        if node is candidate.meeting:
            break
        if not is_borrowing_any(node, preemptor.contested):
            return False
    return True


def _of_shares(queue: QuotaNode, requests: Amounts) -> Amounts:
    """The part of a request that is of resources which the queue, or one above but the root, has a share of."""
    ways = queue.path[:-1]
    return {key: more for key, more in requests.items() if any(node.cells[key].subtree for node in ways)}


def _fits_in_own(node: QuotaNode, requests: Amounts) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether a node's own quota covers the requests, and what is left of them above its reserve."""
    does_fit = not any(is_borrowing_with(node, key, amount) for key, amount in requests.items())
    return does_fit, {key: max(0, amount - reserve_left(node, key)) for key, amount in requests.items()}


def _borrowing_leaves(top: QuotaNode, but: QuotaNode, keys: Iterable[FlavorResource]) -> Iterator[QuotaNode]:
    """The queues under a node that borrow, without those of one branch and of branches within their quota."""
    stack = [node for node in _borrowers(top, keys) if node is not but]
    while stack:
        node = stack.pop()
        if node.queue.is_leaf and not node.queue.preemption.is_spared:
            yield node
        elif not node.queue.is_leaf:
            stack.extend(_borrowers(node, keys))


def _borrowers(node: QuotaNode, keys: Iterable[FlavorResource]) -> dict[QuotaNode, None]:
    """The children of a node that use more than they bring of any of these."""
    found: dict[QuotaNode, None] = {}
    for key in keys:
        found.update(node.borrowers.get(key, ()))
    return found
