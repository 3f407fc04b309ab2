"""Victim search with fair shares: take from the queue that has borrowed most, while that makes shares fairer.

The preemptor's request counts as used from the start. Queues are chosen again after every victim, from the top of
the tree down, by the largest share; a strategy then says whether taking from it is fair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muster.engine.fairness import Share, share_of
from muster.engine.holders import Holder
from muster.engine.quota import is_borrowing_any, is_borrowing_with
from muster.engine.tree import QuotaNode
from muster.engine.victims import Preemptor, Victim, VictimSearch, fits_with
from muster.model.reason import Code

# Whether a preemption is fair: the preemptor's share after it, the victim's side before it and after it.
Strategy = Callable[[Share, Share, Share], bool]

STRATEGIES: Mapping[str, Strategy] = {
    "LessThanOrEqualToFinalShare": lambda mine, _before, after: mine <= after,
    "LessThanInitialShare": lambda mine, before, _after: mine < before,
}


@dataclass(slots=True, kw_only=True)
class _Pool:
    """The candidates that are left, by queue, and which branches of the tree are done with."""

    preemptor: Preemptor
    left: dict[QuotaNode, list[Holder]]
    search: VictimSearch
    done: set[QuotaNode] = field(default_factory=set)

    def queues(self) -> Iterator[QuotaNode]:
        """The queue to take from next, again and again until no branch is left."""
        own = self.preemptor.queue
        if own.parent is None:
            while self.left.get(own):
                yield own
            return
        while own.root not in self.done:
            chosen = self._next_below(own.root)
            if chosen is not None:
                yield chosen

    def _next_below(self, top: QuotaNode) -> QuotaNode | None:
        """Go down to the queue with the largest share; a branch with nobody to take is marked as done."""
        node = top
        while not node.queue.is_leaf:
            queue, queue_share = self._best_queue(node)
            branch, branch_share = self._best_branch(node)
            if queue is None and branch is None:
                self.done.add(node)
                return None
            takes_branch = branch is not None and (queue is None or branch_share >= queue_share)
            chosen = branch if takes_branch else queue
            assert chosen is not None, "one of the two is there"
            node = chosen
        return node

    def _best_queue(self, node: QuotaNode) -> tuple[QuotaNode | None, Share]:
        best, best_share = None, Share()
        for child in node.children:
            if not child.queue.is_leaf or child in self.done:
                continue
            share = share_of(child)
            is_spared = not share.is_borrowing and child is not self.preemptor.queue
            if is_spared or not self.left.get(child):
                self.done.add(child)
            elif best is None or share > best_share or (share == best_share and self._goes_before(child, best)):
                best, best_share = child, share
        return best, best_share

    def _best_branch(self, node: QuotaNode) -> tuple[QuotaNode | None, Share]:
        best, best_share = None, Share()
        for child in node.children:
            if child.queue.is_leaf or child in self.done:
                continue
            share = share_of(child)
            if not share.is_borrowing and child not in self.preemptor.queue.path:
                self.done.add(child)
            elif best is None or share >= best_share:
                best, best_share = child, share
        return best, best_share

    def _goes_before(self, one: QuotaNode, other: QuotaNode) -> bool:
        first, second = (self.search.place_of(self.left[queue][0], self.preemptor) for queue in (one, other))
        return first < second


def find_fair_victims(search: VictimSearch, preemptor: Preemptor) -> list[Victim]:
    """The victims that let the preemptor start without making shares less fair, or none."""
    candidates = _candidates(search, preemptor)
    settings = search.settings.fair_sharing
    assert settings is not None, "fair victims are sought where shares are fair"
    if not candidates:
        return []
    mark = search.ledger.checkpoint()
    search.ledger.charge(preemptor.queue, preemptor.requests)
    try:
        names = settings.strategies
        does_fit, taken, retried = _first_pass(search, preemptor, candidates, STRATEGIES[names[0]])
        if not does_fit and len(names) > 1:
            does_fit, taken = _second_pass(search, preemptor, retried, taken)
        return _spared(search, preemptor, taken) if does_fit else []
    finally:
        search.ledger.rollback(mark)


def _candidates(search: VictimSearch, preemptor: Preemptor) -> list[Holder]:
    rules = preemptor.queue.queue.preemption
    found = list(search.takeable(preemptor, preemptor.queue, rules.within_queue))
    if preemptor.queue.parent is not None:
        for leaf in preemptor.queue.root.leaves():
            if leaf is not preemptor.queue and is_borrowing_any(leaf, preemptor.contested):
                found.extend(search.takeable(preemptor, leaf, rules.reclaim))
    found.sort(key=lambda holder: search.place_of(holder, preemptor))
    return found


def _pool(search: VictimSearch, preemptor: Preemptor, candidates: Sequence[Holder]) -> _Pool:
    left: dict[QuotaNode, list[Holder]] = {}
    for holder in candidates:
        left.setdefault(holder.queue, []).append(holder)
    return _Pool(preemptor=preemptor, left=left, search=search)


def _first_pass(
    search: VictimSearch, preemptor: Preemptor, candidates: Sequence[Holder], strategy: Strategy
) -> tuple[bool, list[Victim], list[Holder]]:
    """Take while it is fair; those that were not are handed back for a second look."""
    taken: list[Victim] = []
    retried: list[Holder] = []
    pool = _pool(search, preemptor, candidates)
    is_within = _is_within_nominal(search, preemptor)
    for queue in pool.queues():
        if queue is preemptor.queue or is_within:
            code = Code.PREEMPTED_IN_QUEUE if queue is preemptor.queue else Code.RECLAIMED
            taken.append(_take(search, pool.left[queue].pop(0), code))
            if _fits(search, preemptor):
                return True, taken, retried
            continue
        victim = _take_fairly(search, pool, queue, strategy, retried)
        if victim is not None:
            taken.append(victim)
            if _fits(search, preemptor):
                return True, taken, retried
    return False, taken, retried


def _take_fairly(
    search: VictimSearch, pool: _Pool, queue: QuotaNode, strategy: Strategy, retried: list[Holder]
) -> Victim | None:
    """Take the first workload of a queue that the strategy allows."""
    mine, theirs = _sides(pool.preemptor.queue, queue)
    my_share, before = share_of(mine), share_of(theirs)
    if my_share.is_endless and not before.is_endless:
        retried.extend(pool.left.pop(queue))
        return None
    while pool.left[queue]:
        holder = pool.left[queue].pop(0)
        mark = search.ledger.checkpoint()
        victim = _take(search, holder, Code.RECLAIMED_FAIR_SHARE)
        if strategy(my_share, before, share_of(theirs)):
            return victim
        search.ledger.rollback(mark)
        retried.append(holder)
    return None


def _second_pass(
    search: VictimSearch, preemptor: Preemptor, retried: list[Holder], taken: list[Victim]
) -> tuple[bool, list[Victim]]:
    """One more chance for each queue: its first candidate may go if the preemptor had less than it to begin with."""
    pool = _pool(search, preemptor, retried)
    for queue in pool.queues():
        mine, theirs = _sides(preemptor.queue, queue)
        if share_of(mine) < share_of(theirs):
            taken.append(_take(search, pool.left[queue].pop(0), Code.RECLAIMED_FAIR_SHARE))
            if _fits(search, preemptor):
                return True, taken
        pool.left[queue] = []
    return False, taken


def _sides(one: QuotaNode, other: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
    """The two branches below the lowest node that both queues are under."""
    above = set(other.path)
    mine = next(node for node in one.path if node.parent in above)
    theirs = next(node for node in other.path if node.parent is mine.parent)
    return mine, theirs


def _is_within_nominal(search: VictimSearch, preemptor: Preemptor) -> bool:
    """Whether the queue stays within its own share with the request: then it only takes back what is its own."""
    settings = search.settings.fair_sharing
    if settings is None or not settings.spares_nominal_comparison:
        return False
    return not any(is_borrowing_with(preemptor.queue, key, 0) for key in preemptor.contested)


def _take(search: VictimSearch, holder: Holder, code: Code) -> Victim:
    search.take(holder)
    return Victim(holder, code)


def _fits(search: VictimSearch, preemptor: Preemptor) -> bool:
    """Whether the request fits, which is counted as used already and has to be taken out for the question."""
    mark = search.ledger.checkpoint()
    search.ledger.release(preemptor.queue, preemptor.requests)
    does_fit = fits_with(preemptor, may_borrow=True)
    search.ledger.rollback(mark)
    return does_fit


def _spared(search: VictimSearch, preemptor: Preemptor, taken: list[Victim]) -> list[Victim]:
    """Give back whom the preemptor does not need gone after all."""
    for index in range(len(taken) - 2, -1, -1):
        mark = search.ledger.checkpoint()
        search.give_back(taken[index].holder)
        if _fits(search, preemptor):
            taken[index] = taken[-1]
            taken.pop()
        else:
            search.ledger.rollback(mark)
    return taken
