"""Placing: after the flavors, where the pods of a workload go; what finds no place may need others to leave.

A pod set is placed when its flavor has a topology. While its quota fits, a missing place turns into the question who
could leave for it; if it has no place even with everybody gone, it cannot start at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from muster.engine.assignment import WORST, Assignment, Attempt, Mode, Outcome, PodSetChoice
from muster.engine.topology import PlacedUse, Topologies
from muster.engine.tree import QuotaNode
from muster.model.flavor import Flavor
from muster.model.reason import Code, Reason, because
from muster.model.topology import (
    Placement,
    PlacementAsk,
    PlacementRefusal,
    TopologyAssignment,
)
from muster.model.workload import PodSet, Workload

Asks = dict[str, list[PlacementAsk]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """The places of one workload in one queue."""

    workload: Workload
    queue: QuotaNode
    flavors: Mapping[str, Flavor]
    topologies: Topologies

    def placed(self, assignment: Assignment) -> Assignment:
        """The assignment with its places, or with the pod sets marked for which none was found."""
        if assignment.outcome is Outcome.NO_FIT:
            return assignment
        assignment = self._marked(assignment)
        asks = self.asks(assignment)
        if not asks or assignment.outcome is Outcome.NO_FIT:
            return assignment
        if assignment.outcome is Outcome.FIT:
            assignment = self._with_places(assignment, self.topologies.find(asks), if_refused=Mode.PREEMPT)
        if assignment.outcome is Outcome.PREEMPT and not self.workload.unhealthy_nodes:
            found = self.topologies.find(asks, is_empty=True)
            return self._with_places(assignment, found, if_refused=Mode.NO_FIT, if_placed=Mode.PREEMPT)
        return assignment

    def asks(self, assignment: Assignment) -> Asks:
        """What each flavor's topology is asked for."""
        pod_sets = {pod_set.name: pod_set for pod_set in self.workload.pod_sets}
        asks: Asks = {}
        for choice in assignment.pod_sets:
            flavor = self._topology_flavor(choice)
            if flavor and not choice.is_delayed and choice.count > 0:
                asks.setdefault(flavor, []).append(_ask(pod_sets[choice.name], choice.count))
        return asks

    def uses(self, assignment: Assignment) -> list[PlacedUse]:
        """What the places of an assignment take of the nodes."""
        shapes = {pod_set.name: pod_set.shape for pod_set in self.workload.pod_sets}
        return [
            PlacedUse(self._topology_flavor(choice), choice.place, shapes[choice.name].requests)
            for choice in assignment.pod_sets
            if choice.place is not None
        ]

    def has_place(self, assignment: Assignment) -> bool:
        """Whether all pods find a place as things stand."""
        asks = self.asks(assignment)
        if not asks:
            return True
        found = self.topologies.find(asks)
        return not any(isinstance(place, PlacementRefusal) for place in found.values())

    def relocated(self, assignment: Assignment, *, is_empty: bool) -> Assignment:
        """The same flavors with the places that are free now, or would be if nobody else was there."""
        asks = self.asks(assignment)
        return self._keeping_modes(assignment, self.topologies.find(asks, is_empty=is_empty)) if asks else assignment

    def replaced(self, assignment: Assignment, host: str) -> Assignment:
        """The places of a workload that lost a host: only the pods of that host move."""
        assert self.workload.admission is not None, "only what holds quota has places to lose"
        current = {given.name: given.place for given in self.workload.admission.pod_sets if given.place is not None}
        found = self.topologies.replace(self.asks(assignment), current, host)
        return self._with_places(assignment, found, if_refused=Mode.NO_FIT)

    def settled(self, assignment: Assignment) -> Assignment:
        """Places for the pod sets that have none yet."""
        has_one = {choice.name for choice in assignment.pod_sets if choice.place is not None}
        asks = {}
        for flavor, asked in self.asks(assignment).items():
            waiting = [ask for ask in asked if ask.name not in has_one]
            if waiting:
                asks[flavor] = waiting
        return self._with_places(assignment, self.topologies.find(asks), if_refused=Mode.NO_FIT) if asks else assignment

    def _marked(self, assignment: Assignment) -> Assignment:
        """Mark pod sets whose place waits for a check, and those that ask for a topology and got none or several."""
        return replace(assignment, pod_sets=tuple(self._mark(choice) for choice in assignment.pod_sets))

    def _mark(self, choice: PodSetChoice) -> PodSetChoice:
        pod_set = next(p for p in self.workload.pod_sets if p.name == choice.name)
        names = sorted(set(self._topology_flavors(choice)))
        does_ask = pod_set.topology is not None and pod_set.topology.is_asked
        if len(names) > 1 or (not names and does_ask and choice.count > 0):
            problem = f"several flavors with one: {', '.join(names)}" if names else "no flavor that has one"
            reason = because(Code.NO_TOPOLOGY_FLAVOR, pod_set=choice.name, problem=problem)
            flavors = {resource: cell._replace(mode=Mode.NO_FIT) for resource, cell in choice.flavors.items()}
            return replace(choice, flavors=flavors, reasons=(*choice.reasons, reason), refusal=Code.NO_MATCHING_FLAVOR)
        if names and self._is_delayed(names[0]):
            return replace(choice, is_delayed=True)
        return choice

    def _is_delayed(self, flavor: str) -> bool:
        if self.workload.admission is not None:
            return False
        rules = self.queue.queue.checks
        return any(rule.delays_place and (not rule.flavors or flavor in rule.flavors) for rule in rules)

    def _topology_flavors(self, choice: PodSetChoice) -> Iterator[str]:
        for resource in sorted(choice.flavors):
            name = choice.flavors[resource].flavor
            if name in self.flavors and self.flavors[name].topology:
                yield name

    def _topology_flavor(self, choice: PodSetChoice) -> str:
        return next(self._topology_flavors(choice), "")

    def _with_places(
        self,
        assignment: Assignment,
        found: Mapping[str, Placement],
        *,
        if_refused: Mode,
        if_placed: Mode | None = None,
    ) -> Assignment:
        """Write places into the pod sets; those refused, or all, get another mode."""
        pod_sets = []
        for choice in assignment.pod_sets:
            place = found.get(choice.name)
            if isinstance(place, PlacementRefusal):
                pod_sets.append(_refused(choice, self._topology_flavor(choice), place, if_refused))
            elif place is not None:
                pod_sets.append(_moved(replace(choice, place=place), if_placed))
            else:
                pod_sets.append(choice)
        return replace(assignment, pod_sets=tuple(pod_sets))

    def _keeping_modes(self, assignment: Assignment, found: Mapping[str, Placement]) -> Assignment:
        places = {name: place for name, place in found.items() if isinstance(place, TopologyAssignment)}
        pod_sets = tuple(replace(choice, place=places.get(choice.name)) for choice in assignment.pod_sets)
        return replace(assignment, pod_sets=pod_sets)


def _ask(pod_set: PodSet, count: int) -> PlacementAsk:
    return PlacementAsk(name=pod_set.name, count=count, shape=pod_set.shape, request=pod_set.topology)


def _moved(choice: PodSetChoice, mode: Mode | None) -> PodSetChoice:
    if mode is None:
        return choice
    flavors = {resource: cell._replace(mode=mode) for resource, cell in choice.flavors.items()}
    reasons = choice.reasons or (because(Code.NO_PLACE, pod_set=choice.name, flavor="-", problem="others are there"),)
    return replace(choice, flavors=flavors, reasons=reasons)


def _refused(choice: PodSetChoice, flavor: str, why: PlacementRefusal, mode: Mode) -> PodSetChoice:
    """The pod set without a place: somebody would have to leave, or it can never be there."""
    reason = because(Code.NO_PLACE, pod_set=choice.name, flavor=flavor, problem=refusal_text(why))
    flavors = {resource: cell._replace(mode=mode) for resource, cell in choice.flavors.items()}
    refusal = Code.TOPOLOGY_PLACEMENT_FAILED if mode is Mode.NO_FIT else choice.refusal
    attempts = choice.attempts
    if mode is Mode.NO_FIT:
        attempts = tuple(_without_place(attempt, flavor, reason) for attempt in attempts)
    return replace(
        choice, flavors=flavors, reasons=(*choice.reasons, reason), refusal=refusal, attempts=attempts, place=None
    )


def _without_place(attempt: Attempt, flavor: str, reason: Reason) -> Attempt:
    if attempt.flavor != flavor or attempt.standing.mode is Mode.NO_FIT:
        return attempt
    return Attempt(flavor, WORST, Code.TOPOLOGY_PLACEMENT_FAILED, (*attempt.reasons, reason))


def refusal_text(why: PlacementRefusal) -> str:
    """Why pods found no place, in words."""
    unit = "slices" if why.is_of_slices else "pods"
    where = f" at the level {why.level}" if why.level else ""
    if why.asked:
        kept_out = ", ".join(f"{count} for {cause}" for cause, count in why.excluded)
        more = f"; of {why.nodes} nodes kept out: {kept_out}" if kept_out else ""
        return f"{why.fitting} of {why.asked} {unit} fit{where} of topology {why.topology}{more}"
    return f"{why.why.value}{where} of topology {why.topology}" if why.topology else why.why.value
