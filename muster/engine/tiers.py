"""Tiers: how the answers of several policies become one. Built by `app` from a profile, asked by the stages.

Policies stand in tiers, and both the tiers and the policies within a tier are in order. Each question has one rule:

    shares                 the first policy that answers shares out for all
    compare_…              the first opinion in order; zero is none, and the caller breaks ties, by name at last
    overused               any yes; nobody asked: no
    allocatable            all yes; nobody asked: yes
    starving               the first tier that has anybody to ask decides, by all yes; nobody asked: no
    enqueueable            votes: any reject refuses, a permit ends with its tier; nobody votes: yes
    fit                    all yes, as the placer combines it
    score                  the sum, as the placer combines it; each policy brings its own scale and its weight
    preempt, reclaim,      within a tier all must agree; the first tier that agrees on anybody decides
    evict
    valid, ready,          all yes; nobody asked: yes
    sub_ready, preemptive
    promised, sub_promised votes, as enqueueable
    wanted                 all that a tier names; the first tier that names anybody decides
    gradient               the first policy that answers; nobody asked: the domain itself
    score_domains          the sum

The rules are Volcano's; docs/decisions/0004-tiers.md says where they surprise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from muster.engine.policy import Hooks, NameVictims, Vote
from muster.engine.standing import PodStanding, Standing, SubStanding
from muster.model.resources import Amounts

Compared = TypeVar("Compared")
Asked = TypeVar("Asked")


class Tiers:
    """The policies of a profile, built, and what they say together."""

    def __init__(self, tiers: Iterable[Iterable[Hooks]] = ()) -> None:
        self.tiers = tuple(tuple(tier) for tier in tiers)
        self.hooks = tuple(hooks for tier in self.tiers for hooks in tier)  # as the placer takes them
        # Picked out once: sorting and placing ask many times.
        self._shares = _given(hooks.shares for hooks in self.hooks)
        self._compare_queues = _given(hooks.compare_queues for hooks in self.hooks)
        self._compare_workloads = _given(hooks.compare_workloads for hooks in self.hooks)
        self._compare_pods = _given(hooks.compare_pods for hooks in self.hooks)
        self._overused = _given(hooks.overused for hooks in self.hooks)
        self._allocatable = _given(hooks.allocatable for hooks in self.hooks)
        self._starving = [_given(hooks.starving for hooks in tier) for tier in self.tiers]
        self._enqueueable = [_given(hooks.enqueueable for hooks in tier) for tier in self.tiers]
        self._preempt = [_given(hooks.preempt for hooks in tier) for tier in self.tiers]
        self._reclaim = [_given(hooks.reclaim for hooks in tier) for tier in self.tiers]
        self._evict = [_given(hooks.evict for hooks in tier) for tier in self.tiers]
        self._promised = [_given(hooks.promised for hooks in tier) for tier in self.tiers]
        self._sub_promised = [_given(hooks.sub_promised for hooks in tier) for tier in self.tiers]
        self._wanted = [_given(hooks.wanted for hooks in tier) for tier in self.tiers]
        self._valid = _given(hooks.valid for hooks in self.hooks)
        self._ready = _given(hooks.ready for hooks in self.hooks)
        self._sub_ready = _given(hooks.sub_ready for hooks in self.hooks)
        self._compare_subs = _given(hooks.compare_subs for hooks in self.hooks)
        self._compare_victim_queues = _given(hooks.compare_victim_queues for hooks in self.hooks)
        self._preemptive = _given(hooks.preemptive for hooks in self.hooks)
        self._enqueued = _given(hooks.enqueued for hooks in self.hooks)

    # Order -----------------------------------------------------------------------------------------------------------

    def shares(self, asked: Mapping[str, Amounts]) -> Mapping[str, Amounts] | None:
        """What each queue deserves; `None` when no policy shares out and the declared numbers count."""
        return self._shares[0](asked) if self._shares else None

    def compare_queues(self, first: str, second: str) -> int:
        """Below zero when the first queue goes first, above when the second does, zero when nobody cares."""
        return _first_opinion(self._compare_queues, first, second)

    def compare_workloads(self, first: Standing, second: Standing) -> int:
        """The same for workloads."""
        return _first_opinion(self._compare_workloads, first, second)

    def compare_pods(self, first: PodStanding, second: PodStanding) -> int:
        """The same for pods."""
        return _first_opinion(self._compare_pods, first, second)

    # Letting in ------------------------------------------------------------------------------------------------------

    def is_overused(self, queue: str) -> bool:
        """Whether a queue has all that it is due: one policy that says so is enough."""
        return any(ask(queue) for ask in self._overused)

    def is_allocatable(self, queue: str, pod: PodStanding) -> bool:
        """Whether a queue may take one pod more: all policies must say so."""
        return all(ask(queue, pod) for ask in self._allocatable)

    def is_starving(self, workload: Standing) -> bool:
        """Whether others may leave for a workload: the first tier with an answer decides, and must be of one mind."""
        first = next((tier for tier in self._starving if tier), ())
        return bool(first) and all(ask(workload) for ask in first)

    def is_enqueueable(self, workload: Standing) -> bool:
        """Whether a workload may be taken up: a reject refuses at once, a permit makes later tiers superfluous."""
        return _voted(self._enqueueable, workload)

    def note_enqueued(self, workload: Standing) -> None:
        """Tell all policies that a workload was taken up."""
        for tell in self._enqueued:
            tell(workload)

    def is_preemptive(self, queue: str, pod: PodStanding) -> bool:
        """Whether a queue may take back for a pod: all policies must say so."""
        return all(ask(queue, pod) for ask in self._preemptive)

    # Whole groups ----------------------------------------------------------------------------------------------------

    def find_fault(self, workload: Standing) -> str:
        """Why a group cannot be decided on at all; empty when it can."""
        return next((fault for ask in self._valid if (fault := ask(workload))), "")

    def is_ready(self, workload: Standing) -> bool:
        """Whether a group may start."""
        return all(ask(workload) for ask in self._ready)

    def is_promised(self, workload: Standing) -> bool:
        """Whether a group may start once those told to go have left."""
        return _voted(self._promised, workload)

    def is_sub_ready(self, sub: SubStanding) -> bool:
        """Whether a sub group may start; one that is all of its group is asked as the group."""
        return all(ask(sub) for ask in self._sub_ready) if sub.owner.has_subs else self.is_ready(sub.owner)

    def is_sub_promised(self, sub: SubStanding) -> bool:
        """The same once those told to go have left."""
        return _voted(self._sub_promised, sub) if sub.owner.has_subs else self.is_promised(sub.owner)

    def compare_subs(self, first: SubStanding, second: SubStanding) -> int:
        """Which sub group goes first, as with groups."""
        return _first_opinion(self._compare_subs, first, second)

    # Victims ---------------------------------------------------------------------------------------------------------

    def preempt(self, preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """Which pods of its own queue may go for a pod."""
        return _first_agreement(self._preempt, preemptor, candidates)

    def reclaim(self, reclaimer: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """Which pods of other queues may go for a pod whose queue takes back what is its own."""
        return _first_agreement(self._reclaim, reclaimer, candidates)

    def evict(self, preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """Which pods may go for a whole group."""
        return _first_agreement(self._evict, preemptor, candidates)

    def wanted(self, running: Sequence[PodStanding]) -> list[PodStanding]:
        """Which running pods should go although nobody takes their place: the first tier that names any decides."""
        for tier in self._wanted:
            named = {pod.key: pod for name in tier for pod in name(running)}
            if named:
                return list(named.values())
        return []

    def compare_victim_queues(self, first: str, second: str, preemptor: str) -> int:
        """Which of two queues loses pods first for another."""
        for compare in self._compare_victim_queues:
            if opinion := compare(first, second, preemptor):
                return opinion
        return 0


def _given(hooks: Iterable[Asked | None]) -> tuple[Asked, ...]:
    return tuple(hook for hook in hooks if hook is not None)


def _voted(tiers: Iterable[Sequence[Callable[[Asked], Vote]]], about: Asked) -> bool:
    """Whether votes are in favour: a reject refuses at once, a permit makes later tiers superfluous."""
    for tier in tiers:
        votes = {ask(about) for ask in tier}
        if votes - {Vote.ABSTAIN}:
            return Vote.REJECT not in votes
    return True


def _first_opinion(asked: Sequence[Callable[[Compared, Compared], int]], first: Compared, second: Compared) -> int:
    for compare in asked:
        if opinion := compare(first, second):
            return opinion
    return 0


def _first_agreement(
    tiers: Iterable[Sequence[NameVictims]], preemptor: PodStanding, candidates: Sequence[PodStanding]
) -> frozenset[str]:
    """All policies of a tier must agree on a victim; the first tier that agrees on any decides.

    Volcano: a tier whose policies agree on nobody has not forbidden anything; the next tier is asked.
    """
    for tier in tiers:
        agreed = _agreed(tier, preemptor, candidates)
        if agreed:
            return agreed
    return frozenset()


def _agreed(
    tier: Sequence[NameVictims], preemptor: PodStanding, candidates: Sequence[PodStanding]
) -> frozenset[str] | None:
    """Whom all of a tier name that do not abstain; `None` when all do."""
    agreed: frozenset[str] | None = None
    for name in tier:
        opinion = name(preemptor, candidates)
        if opinion is None:
            continue
        agreed = opinion if agreed is None else agreed & opinion
        if not agreed:
            break
    return agreed
