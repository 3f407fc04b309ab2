"""Flavor choice: which flavor pays for each resource of a workload, and at whose expense.

The search walks the flavors of each resource group in order and stops where the queue's rules say. Whether a
flavor could be had by preemption is asked of an oracle, which runs the victim search on the same ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muster.engine.assignment import (
    SEVERITY,
    WORST,
    Assignment,
    Attempt,
    FlavorChoice,
    Mode,
    PodSetChoice,
    Standing,
    is_preferred,
)
from muster.engine.flavor_fit import FlavorFit, Oracle, mismatch
from muster.engine.placing import Placing
from muster.engine.tree import QuotaNode
from muster.model.flavor import ANY_FLAVOR, Flavor
from muster.model.plan import ScanProgress
from muster.model.queue import FlavorRules, ResourceGroup
from muster.model.reason import Code, Reason, because
from muster.model.resources import PODS, FlavorResource, sum_amounts
from muster.model.settings import Settings
from muster.model.workload import PodSet, PodSetAdmission, Workload

CACHED_KINDS_MOST = 20_000


@dataclass(frozen=True, slots=True)
class _Member:
    """A pod set in the search: its place in the workload, how many pods, what they ask for together."""

    index: int
    pod_set: PodSet
    count: int
    requests: Mapping[str, int]


class SearchCache:
    """What a search knows of a kind of workload in a queue whatever is used; emptied when queues or flavors change."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], list[list[_Member]]] = {}
        # By queue, kind, pod set, flavor and the resource that names the group.
        self.refusals: dict[tuple[str, str, int, str, str], Reason | None] = {}

    def make_room(self) -> None:
        """Forget everything when there is too much of it: kinds come and go, and nobody says when one is gone."""
        if len(self.groups) >= CACHED_KINDS_MOST:
            self.groups.clear()
            self.refusals.clear()


@dataclass(slots=True)
class _Found:
    """What the search of one resource group, or of several, came to."""

    choices: dict[str, FlavorChoice] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    refusal: Code | None = None


@dataclass(slots=True, kw_only=True)
class FlavorSearch:
    """The flavor search of one workload in one queue."""

    workload: Workload
    queue: QuotaNode
    flavors: Mapping[str, Flavor]
    settings: Settings
    oracle: Oracle
    progress: ScanProgress | None = None
    older_slice: Mapping[str, PodSetAdmission] = field(default_factory=dict)  # what it takes over, by pod set
    only: tuple[Mapping[str, str], ...] | None = None  # by pod set and resource, when a search is repeated
    cache: SearchCache = field(default_factory=SearchCache)
    placing: Placing | None = None  # where nodes matter
    # By pod set and flavor whose nodes have no room for it: why.
    avoided: dict[tuple[str, str], Reason] = field(default_factory=dict)

    def assign(self, counts: Sequence[int] | None = None) -> Assignment:
        """The best flavors for the workload, or for a smaller one with these counts."""
        if self.queue.queue.is_unlimited:
            return self._uncounted(counts)
        chosen: list[PodSetChoice] = []
        usage: dict[FlavorResource, int] = {}
        for members in self._grouped(counts):
            found = self._assign_group(members, usage)
            for member in members:
                pod_set = _choice_of(member, self._own_choices(member, found), found)
                chosen.append(pod_set)
                for resource, choice in pod_set.flavors.items():
                    key = (choice.flavor, resource)
                    more = pod_set.requests.get(resource, 0) - self._taken_over(pod_set, resource)
                    usage[key] = usage.get(key, 0) + more
            if found.refusal is not None:
                break
        levels = [choice.level for pod_set in chosen for choice in pod_set.flavors.values()]
        assignment = Assignment(pod_sets=tuple(chosen), usage=usage, level=max(levels, default=0))
        return self.placing.placed(assignment) if self.placing is not None else assignment

    def _uncounted(self, counts: Sequence[int] | None) -> Assignment:
        """In a queue without limits there is no flavor to look for; only nodes can be missing."""
        flavors = {PODS: FlavorChoice(ANY_FLAVOR, Mode.FIT, 0, -1)}
        chosen = tuple(
            PodSetChoice(
                name=pod_set.name,
                count=counts[index] if counts is not None else self._count_of(pod_set),
                requests={},
                flavors=flavors,
                attempts=(),
                reasons=(),
            )
            for index, pod_set in enumerate(self.workload.pod_sets)
        )
        assignment = Assignment(pod_sets=chosen, usage={}, level=0)
        return self.placing.placed(assignment) if self.placing is not None else assignment

    def _own_choices(self, member: _Member, found: _Found) -> dict[str, FlavorChoice]:
        """The flavors of a pod set's own requests; a leader that requests nothing goes where its group goes."""
        own = {resource: choice for resource, choice in found.choices.items() if resource in member.requests}
        topology = member.pod_set.topology
        if own or topology is None or not topology.group or not self.settings.topology:
            return own
        return {
            resource: choice
            for resource, choice in found.choices.items()
            if choice.flavor in self.flavors and self.flavors[choice.flavor].topology
        }

    def _taken_over(self, pod_set: PodSetChoice, resource: str) -> int:
        """What the older slice holds of a resource already: the new one is charged for what comes on top."""
        older = self.older_slice.get(pod_set.name)
        return older.usage.get(resource, 0) if older is not None else 0

    def _grouped(self, counts: Sequence[int] | None) -> list[list[_Member]]:
        """Pod sets with their counts; those of one named group are placed together and share their flavors."""
        kind = (self.queue.name, self.workload.kind_key)
        known = self.cache.groups.get(kind) if counts is None else None
        if known is None:
            known = self._make_groups(counts)
            if counts is None and self.workload.kind_key:
                self.cache.make_room()
                self.cache.groups[kind] = known
        return known

    def _make_groups(self, counts: Sequence[int] | None) -> list[list[_Member]]:
        groups: dict[str, list[_Member]] = {}
        for index, pod_set in enumerate(self.workload.pod_sets):
            count = counts[index] if counts is not None else self._count_of(pod_set)
            name = pod_set.topology.group if pod_set.topology is not None else ""
            label = f"group {name}" if name else f"alone {index}"
            groups.setdefault(label, []).append(_Member(index, pod_set, count, self._requests(pod_set, count)))
        return list(groups.values())

    def _count_of(self, pod_set: PodSet) -> int:
        return pod_set.count_left if self.settings.releases_finished_pods else pod_set.count

    def _requests(self, pod_set: PodSet, count: int) -> dict[str, int]:
        requests = {resource: amount * count for resource, amount in pod_set.requests.items()}
        if self.queue.queue.group_of(PODS) is not None:
            requests[PODS] = count
        return requests

    def _assign_group(self, members: list[_Member], used: Mapping[FlavorResource, int]) -> _Found:
        """Flavors for all resources of pod sets that belong together."""
        requests = members[0].requests if len(members) == 1 else sum_amounts(member.requests for member in members)
        results: list[_Found] = []
        looked_at: set[str] = set()
        uncovered: list[str] = []
        for resource in sorted(requests):
            if resource in looked_at:
                continue
            group = self.queue.queue.group_of(resource)
            if group is not None:
                looked_at.update(group.resources)
                covered = {name: requests[name] for name in group.resources if name in requests}
                results.append(self._scan(members, group, covered, used))
            elif requests[resource] and not self.settings.ignores_undeclared:
                uncovered.append(resource)
        if uncovered:
            names = ", ".join(uncovered)
            reason = because(Code.RESOURCE_NOT_COVERED, queue=self.queue.queue.title, resource=names)
            return _Found(reasons=[reason], refusal=Code.NO_MATCHING_FLAVOR)
        return _merged(results)

    def _scan(
        self,
        members: list[_Member],
        group: ResourceGroup,
        requests: Mapping[str, int],
        used: Mapping[FlavorResource, int],
    ) -> _Found:
        """Walk the flavors of a group from where the last search stopped; keep the best."""
        rules = self.queue.queue.flavor_rules
        found = _Found()
        best, best_flavor, best_standings = WORST, "", dict[str, Standing]()
        index = last = self._start(members[0].index, min(requests))
        while index < len(group.flavors):
            last = index
            attempt, standings = self._attempt(group.flavors[index], members, requests, used)
            found.attempts.append(attempt)
            found.reasons.extend(attempt.reasons)
            index += 1
            is_last = self._is_done(attempt.standing, rules)
            if is_last or self._is_better(attempt.standing, best, rules):
                best, best_flavor, best_standings = attempt.standing, attempt.flavor, standings
            if is_last:
                break
        if best.mode is Mode.NO_FIT:
            found.refusal = _least_severe(found.attempts)
            return found
        if best.mode is Mode.FIT:
            found.reasons = []
        if last + 1 < len(group.flavors):
            found.attempts.extend(self._unsuited(group.flavors[last + 1 :], members, requests))
        tried = -1 if last == len(group.flavors) - 1 or not self.settings.searches_flavors else last
        found.choices = {
            resource: FlavorChoice(best_flavor, standing.mode, standing.level, tried)
            for resource, standing in best_standings.items()
        }
        return found

    def _unsuited(self, names: Sequence[str], members: list[_Member], requests: Mapping[str, int]) -> Iterator[Attempt]:
        """Flavors behind the one found that are out of the question anyway: a reader of the verdict wants to know."""
        for name in names:
            refusal = self._refusal(name, members, requests)
            if refusal is not None:
                yield Attempt(name, WORST, Code.NO_MATCHING_FLAVOR, (refusal,))

    def _start(self, index: int, resource: str) -> int:
        if self.progress is None or not self.settings.searches_flavors or index >= len(self.progress.tried):
            return 0
        return self.progress.tried[index].get(resource, -1) + 1

    def _is_better(self, standing: Standing, best: Standing, rules: FlavorRules) -> bool:
        if self.settings.searches_flavors:
            return is_preferred(standing, best, rules)
        return standing.mode > best.mode

    def _is_done(self, standing: Standing, rules: FlavorRules) -> bool:
        if self.settings.searches_flavors:
            return not _goes_on(standing, rules)
        return standing.mode is Mode.FIT

    def _attempt(
        self,
        name: str,
        members: list[_Member],
        requests: Mapping[str, int],
        used: Mapping[FlavorResource, int],
    ) -> tuple[Attempt, dict[str, Standing]]:
        if self.avoided:
            names = ((member.pod_set.name, name) for member in members)
            crowded = next((self.avoided[one] for one in names if one in self.avoided), None)
            if crowded is not None:
                return Attempt(name, WORST, Code.WAITING_FOR_NODES, (crowded,)), {}
        refusal = self._refusal(name, members, requests)
        if refusal is not None:
            return Attempt(name, WORST, Code.NO_MATCHING_FLAVOR, (refusal,)), {}
        older: tuple[PodSetAdmission, ...] = ()
        if self.older_slice:
            older = tuple(self.older_slice[m.pod_set.name] for m in members if m.pod_set.name in self.older_slice)
        fit = FlavorFit(queue=self.queue, settings=self.settings, oracle=self.oracle, older_slice=older)
        return fit.attempt(name, requests, used)

    def _refusal(self, name: str, members: list[_Member], requests: Mapping[str, int]) -> Reason | None:
        """Why the flavor is out of the question, whatever quota it has."""
        if self.only is not None and not self._is_repeatable(name, members, requests):
            return because(Code.FLAVOR_NOT_ALLOWED, flavor=name)
        for member in members:
            # A member that asks for nothing of this group does not mind which flavor pays for the others.
            if len(members) > 1 and member.requests.keys().isdisjoint(requests):
                continue
            refusal = self._member_refusal(name, member, requests)
            if refusal is not None:
                return refusal
        return None

    def _member_refusal(self, name: str, member: _Member, requests: Mapping[str, int]) -> Reason | None:
        kind = (self.queue.name, self.workload.kind_key, member.index, name, min(requests))
        if kind in self.cache.refusals:
            return self.cache.refusals[kind]
        flavor = self.flavors.get(name)
        allowed = self.workload.allowed_flavors
        if flavor is None:
            refusal: Reason | None = because(Code.FLAVOR_MISSING, flavor=name)
        elif self.settings.concurrent_admission and allowed is not None and name not in allowed:
            refusal = because(Code.FLAVOR_NOT_ALLOWED, flavor=name)
        else:
            refusal = mismatch(flavor, member.pod_set) or self._topology_mismatch(flavor, member, requests)
        if self.workload.kind_key:
            self.cache.refusals[kind] = refusal
        return refusal

    def _topology_mismatch(self, flavor: Flavor, member: _Member, requests: Mapping[str, int]) -> Reason | None:
        """Pods that ask for a topology need a flavor that has it; a flavor with one takes only pods that ask.

        A flavor that pays only for what quota counts beside the pods' own requests needs no topology.
        """
        if not self.settings.topology:
            return None
        request = member.pod_set.topology
        if not flavor.topology and requests.keys().isdisjoint(member.pod_set.shape.requests):
            return None
        if request is not None and request.is_asked:
            levels = [request.required or request.preferred, request.slice_level, *(name for name, _ in request.layers)]
            is_served = flavor.topology and all(not level or level in flavor.topology_levels for level in levels)
            return None if is_served else because(Code.TOPOLOGY_UNSUPPORTED, flavor=flavor.name)
        if flavor.topology and not self._has_only_topology_flavors():
            return because(Code.TOPOLOGY_NOT_ASKED, flavor=flavor.name)
        return None

    def _has_only_topology_flavors(self) -> bool:
        names = [name for group in self.queue.queue.groups for name in group.flavors]
        return all(name in self.flavors and self.flavors[name].topology for name in names)

    def _is_repeatable(self, name: str, members: list[_Member], requests: Mapping[str, int]) -> bool:
        """A repeated search may only use the flavors that the first one found."""
        if self.only is None:
            return True
        before = [self.only[member.index] for member in members if member.index < len(self.only)]
        return all(flavors.get(resource, name) == name for flavors in before for resource in requests)


def _merged(results: list[_Found]) -> _Found:
    """All groups together; when some are refused only they are told of, and the hardest refusal counts."""
    if len(results) == 1:
        return results[0]
    refused = [found for found in results if found.refusal is not None]
    total = _Found()
    for found in refused or results:
        total.attempts += found.attempts
        total.reasons += found.reasons
        total.choices |= found.choices
    codes = [found.refusal for found in refused if found.refusal is not None]
    total.refusal = max(codes, key=SEVERITY.__getitem__, default=None)
    return total


def _choice_of(member: _Member, flavors: Mapping[str, FlavorChoice], found: _Found) -> PodSetChoice:
    return PodSetChoice(
        name=member.pod_set.name,
        count=member.count,
        requests=member.requests,
        flavors=flavors,
        attempts=tuple(found.attempts),
        reasons=tuple(found.reasons),
        refusal=found.refusal,
    )


def _goes_on(standing: Standing, rules: FlavorRules) -> bool:
    """Whether the search looks at the next flavor although this one would do."""
    if standing.mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
        return True
    if standing.mode is not Mode.FIT and rules.next_instead_of_preempting:
        return True
    return standing.level > 0 and rules.next_instead_of_borrowing


def _least_severe(attempts: Sequence[Attempt]) -> Code:
    """The refusal of a group is that of the flavor that came nearest."""
    codes = [attempt.refusal for attempt in attempts if attempt.refusal is not None]
    return min(codes, key=SEVERITY.__getitem__, default=Code.NO_MATCHING_FLAVOR)
