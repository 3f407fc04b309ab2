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
from muster.engine.flavor_kinds import Found, Kind, Member, Party, Scan, SearchCache, Share, keep
from muster.engine.placing import Placing
from muster.engine.quota import free_height
from muster.engine.tree import QuotaNode
from muster.model.flavor import ANY_FLAVOR, Flavor
from muster.model.plan import ScanProgress
from muster.model.queue import FlavorRules, ResourceGroup
from muster.model.reason import Code, Reason, because
from muster.model.resources import PODS, FlavorResource, sum_amounts
from muster.model.settings import Settings
from muster.model.workload import PodSet, PodSetAdmission, Workload


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
        kind = self._kind(counts)
        shares: list[Share] = []
        usage: dict[FlavorResource, int] = {}
        for party in kind.parties:
            share = self._share(party, usage)
            shares.append(share)
            for key, amount in share.usage.items():
                usage[key] = usage.get(key, 0) + amount
            if share.is_refused:
                break
        assignment = kind.assignments.get(tuple(shares))
        if assignment is None:
            assignment = _assignment(shares, usage)
            if all(share.is_kept for share in shares):
                keep(kind.assignments, tuple(shares), assignment)
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

    def _kind(self, counts: Sequence[int] | None) -> Kind:
        """What is known of workloads like this one in this queue, or of a smaller one for once."""
        if counts is not None or not self.workload.kind_key:
            return self._new_kind(counts)
        name = (self.queue.name, self.workload.kind_key)
        known = self.cache.kinds.get(name)
        if known is None:
            self.cache.make_room()
            known = self.cache.kinds[name] = self._new_kind(None)
        return known

    def _new_kind(self, counts: Sequence[int] | None) -> Kind:
        """Pod sets with their counts; those of one named group are placed together and share their flavors."""
        groups: dict[str, list[Member]] = {}
        for index, pod_set in enumerate(self.workload.pod_sets):
            count = counts[index] if counts is not None else self._count_of(pod_set)
            name = pod_set.topology.group if pod_set.topology is not None else ""
            label = f"group {name}" if name else f"alone {index}"
            groups.setdefault(label, []).append(Member(index, pod_set, count, self._requests(pod_set, count)))
        return Kind([self._new_party(members) for members in groups.values()])

    def _count_of(self, pod_set: PodSet) -> int:
        return pod_set.count_left if self.settings.releases_finished_pods else pod_set.count

    def _requests(self, pod_set: PodSet, count: int) -> dict[str, int]:
        requests = {resource: amount * count for resource, amount in pod_set.requests.items()}
        if self.queue.queue.group_of(PODS) is not None:
            requests[PODS] = count
        return requests

    def _new_party(self, members: list[Member]) -> Party:
        """The resource groups that pod sets need, in the order of the first resource of each."""
        requests = sum_amounts(member.requests for member in members)
        scans: list[Scan] = []
        looked_at: set[str] = set()
        uncovered: list[str] = []
        for resource in sorted(requests):
            if resource in looked_at:
                continue
            group = self.queue.queue.group_of(resource)
            if group is not None:
                looked_at.update(group.resources)
                covered = {name: requests[name] for name in sorted(group.resources) if name in requests}
                scans.append(self._new_scan(group, covered, members))
            elif requests[resource] and not self.settings.ignores_undeclared:
                uncovered.append(resource)
        names, title = ", ".join(uncovered), self.queue.queue.title
        reason = because(Code.RESOURCE_NOT_COVERED, queue=title, resource=names) if uncovered else None
        return Party(members, scans, reason)

    def _new_scan(self, group: ResourceGroup, requests: Mapping[str, int], members: list[Member]) -> Scan:
        refusals = tuple(self._refusal(name, members, requests) for name in group.flavors)
        suited: list[int] = []
        for index in range(len(refusals) - 1, -1, -1):
            suited.append(index if refusals[index] is None else suited[-1] if suited else -1)
        return Scan(group, requests, refusals, tuple(reversed(suited)))

    def _share(self, party: Party, used: Mapping[FlavorResource, int]) -> Share:
        """Flavors for all resources of pod sets that belong together."""
        found = tuple([self._scan(party, scan, used) for scan in party.scans])
        share = party.shares.get(found)
        if share is None:
            share = self._new_share(party, found)
            if share.is_kept:
                keep(party.shares, found, share)
        return share

    def _new_share(self, party: Party, found: tuple[Found, ...]) -> Share:
        if party.uncovered is not None:
            total = Found(reasons=[party.uncovered], refusal=Code.NO_MATCHING_FLAVOR)
        else:
            total = _merged(found)
        usage: dict[FlavorResource, int] = {}
        chosen = [_choice_of(member, self._own_choices(member, total), total) for member in party.members]
        for pod_set in chosen:
            for resource, choice in pod_set.flavors.items():
                key = (choice.flavor, resource)
                more = pod_set.requests.get(resource, 0) - self._taken_over(pod_set, resource)
                usage[key] = usage.get(key, 0) + more
        return Share(tuple(chosen), usage, total.refusal is not None, all(one.is_kept for one in found))

    def _own_choices(self, member: Member, found: Found) -> dict[str, FlavorChoice]:
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

    def _scan(self, party: Party, scan: Scan, used: Mapping[FlavorResource, int]) -> Found:
        """The best flavor of a group. Where the first one that suits has room as it is, the answer is known already."""
        start = self._start(party.members[0].index, scan)
        levels = self._levels(scan, start, used)
        if levels is None:
            return self._walk(party, scan, start, used)
        found = scan.found.get((start, *levels))
        if found is None:
            found = self._walk(party, scan, start, used)
            if found.stopped_at == scan.suited[start]:  # else flavors that have room or not for now had a say
                found.is_kept = True
                keep(scan.found, (start, *levels), found)
        return found

    def _levels(self, scan: Scan, start: int, used: Mapping[FlavorResource, int]) -> list[int] | None:
        """How far up each resource borrows in the first flavor that suits; `None` where it has not room for all."""
        if self.only is not None or self.older_slice or self.avoided or start >= len(scan.suited):
            return None
        index = scan.suited[start]
        if index < 0:
            return None
        flavor = scan.group.flavors[index]
        levels: list[int] = []
        for resource, amount in scan.requests.items():
            key = (flavor, resource)
            level = free_height(self.queue, key, amount + used.get(key, 0))
            if level is None:
                return None
            levels.append(level)
        return levels

    def _walk(self, party: Party, scan: Scan, start: int, used: Mapping[FlavorResource, int]) -> Found:
        """Walk the flavors of a group from where the last search stopped; keep the best."""
        rules = self.queue.queue.flavor_rules
        flavors = scan.group.flavors
        found = Found()
        best, best_flavor, best_standings = WORST, "", dict[str, Standing]()
        for index in range(start, len(flavors)):
            found.stopped_at = index
            attempt, standings = self._attempt(party, scan, index, used)
            found.attempts.append(attempt)
            found.reasons.extend(attempt.reasons)
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
        found.attempts.extend(self._unsuited(party, scan, found.stopped_at + 1))
        is_through = found.stopped_at == len(flavors) - 1 or not self.settings.searches_flavors
        tried = -1 if is_through else found.stopped_at
        found.choices = {
            resource: FlavorChoice(best_flavor, standing.mode, standing.level, tried)
            for resource, standing in best_standings.items()
        }
        return found

    def _unsuited(self, party: Party, scan: Scan, start: int) -> Iterator[Attempt]:
        """Flavors behind the one found that are out of the question anyway: a reader of the verdict wants to know."""
        for index in range(start, len(scan.group.flavors)):
            refusal = self._barred(party, scan, index)
            if refusal is not None:
                yield Attempt(scan.group.flavors[index], WORST, Code.NO_MATCHING_FLAVOR, (refusal,))

    def _start(self, pod_set: int, scan: Scan) -> int:
        if self.progress is None or not self.settings.searches_flavors or pod_set >= len(self.progress.tried):
            return 0
        return self.progress.tried[pod_set].get(next(iter(scan.requests)), -1) + 1

    def _is_better(self, standing: Standing, best: Standing, rules: FlavorRules) -> bool:
        if self.settings.searches_flavors:
            return is_preferred(standing, best, rules)
        return standing.mode > best.mode

    def _is_done(self, standing: Standing, rules: FlavorRules) -> bool:
        if self.settings.searches_flavors:
            return not _goes_on(standing, rules)
        return standing.mode is Mode.FIT

    def _attempt(
        self, party: Party, scan: Scan, index: int, used: Mapping[FlavorResource, int]
    ) -> tuple[Attempt, dict[str, Standing]]:
        name, members = scan.group.flavors[index], party.members
        if self.avoided:
            names = ((member.pod_set.name, name) for member in members)
            crowded = next((self.avoided[one] for one in names if one in self.avoided), None)
            if crowded is not None:
                return Attempt(name, WORST, Code.WAITING_FOR_NODES, (crowded,)), {}
        refusal = self._barred(party, scan, index)
        if refusal is not None:
            return Attempt(name, WORST, Code.NO_MATCHING_FLAVOR, (refusal,)), {}
        older: tuple[PodSetAdmission, ...] = ()
        if self.older_slice:
            older = tuple(self.older_slice[m.pod_set.name] for m in members if m.pod_set.name in self.older_slice)
        fit = FlavorFit(queue=self.queue, settings=self.settings, oracle=self.oracle, older_slice=older)
        return fit.attempt(name, scan.requests, used)

    def _barred(self, party: Party, scan: Scan, index: int) -> Reason | None:
        """Why this search does not look at a flavor's quota."""
        name = scan.group.flavors[index]
        if self.only is not None and not self._is_repeatable(name, party.members, scan.requests):
            return because(Code.FLAVOR_NOT_ALLOWED, flavor=name)
        return scan.refusals[index]

    def _refusal(self, name: str, members: list[Member], requests: Mapping[str, int]) -> Reason | None:
        """Why the flavor is out of the question, whatever quota it has."""
        for member in members:
            # A member that asks for nothing of this group does not mind which flavor pays for the others.
            if len(members) > 1 and member.requests.keys().isdisjoint(requests):
                continue
            refusal = self._member_refusal(name, member, requests)
            if refusal is not None:
                return refusal
        return None

    def _member_refusal(self, name: str, member: Member, requests: Mapping[str, int]) -> Reason | None:
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

    def _topology_mismatch(self, flavor: Flavor, member: Member, requests: Mapping[str, int]) -> Reason | None:
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

    def _is_repeatable(self, name: str, members: list[Member], requests: Mapping[str, int]) -> bool:
        """A repeated search may only use the flavors that the first one found."""
        if self.only is None:
            return True
        before = [self.only[member.index] for member in members if member.index < len(self.only)]
        return all(flavors.get(resource, name) == name for flavors in before for resource in requests)


def _merged(results: Sequence[Found]) -> Found:
    """All groups together; when some are refused only they are told of, and the hardest refusal counts."""
    if len(results) == 1:
        return results[0]
    refused = [found for found in results if found.refusal is not None]
    total = Found()
    for found in refused or results:
        total.attempts += found.attempts
        total.reasons += found.reasons
        total.choices |= found.choices
    codes = [found.refusal for found in refused if found.refusal is not None]
    total.refusal = max(codes, key=SEVERITY.__getitem__, default=None)
    return total


def _assignment(shares: Sequence[Share], usage: Mapping[FlavorResource, int]) -> Assignment:
    pod_sets = tuple(pod_set for share in shares for pod_set in share.pod_sets)
    levels = [choice.level for pod_set in pod_sets for choice in pod_set.flavors.values()]
    return Assignment(pod_sets=pod_sets, usage=usage, level=max(levels, default=0))


def _choice_of(member: Member, flavors: Mapping[str, FlavorChoice], found: Found) -> PodSetChoice:
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
