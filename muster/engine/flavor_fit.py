"""How well one flavor serves a workload: do the pods belong there at all, and does the quota suffice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster.engine.assignment import BEST, Attempt, Mode, Standing, is_preferred
from muster.engine.quota import free_for, lowest_fitting_height, potential
from muster.engine.tree import QuotaNode
from muster.model.flavor import Flavor
from muster.model.labels import first_untolerated, node_matches
from muster.model.queue import PreemptionPolicy
from muster.model.reason import Amount, Code, Reason, because
from muster.model.resources import FlavorResource
from muster.model.settings import Settings
from muster.model.workload import PodSet, PodSetAdmission

# Asked for one resource in one flavor: could somebody leave for it, and how far up would it then borrow?
Oracle = Callable[[FlavorResource, int], Standing]


def mismatch(flavor: Flavor, pod_set: PodSet) -> Reason | None:
    """Why pods of this set could not run on nodes of this flavor."""
    shape = pod_set.shape
    taint = first_untolerated(flavor.taints, (*shape.tolerations, *flavor.tolerations))
    if taint is not None:
        return because(Code.TAINT_NOT_TOLERATED, flavor=flavor.name, taint=f"{taint.key}={taint.value}:{taint.effect}")
    # Only what the pods say about the flavor's own labels counts; other labels are for the placement to judge.
    keys = frozenset(flavor.labels)
    if not node_matches(flavor.labels, selector=shape.node_selector, affinity=shape.affinity, keys=keys):
        return because(Code.LABELS_DO_NOT_MATCH, flavor=flavor.name)
    return None


@dataclass(slots=True, kw_only=True)
class FlavorFit:
    """The judge of one workload's requests in one queue."""

    queue: QuotaNode
    settings: Settings
    oracle: Oracle
    older_slice: tuple[PodSetAdmission, ...] = ()  # of the pod sets at hand; the search is for what comes on top

    def attempt(
        self, flavor: str, requests: Mapping[str, int], used: Mapping[FlavorResource, int]
    ) -> tuple[Attempt, dict[str, Standing]]:
        """How well the flavor serves all requests; the worst of them counts."""
        worst = BEST
        refusal: Code | None = None
        reasons: list[Reason] = []
        standings: dict[str, Standing] = {}
        for resource, amount in requests.items():
            key = (flavor, resource)
            asked = amount - (self._held_by_older(resource) if self.older_slice else 0)
            why: Code | None = Code.NO_MATCHING_FLAVOR
            if self.older_slice and self._is_other_flavor(flavor, resource):
                standing = Standing(Mode.NO_FIT, 0)
                reasons.append(because(Code.FLAVOR_OF_OLDER_SLICE, flavor=flavor))
            else:
                standing, why = self._standing(key, used.get(key, 0) + asked, reasons)
            if is_preferred(worst, standing, self.queue.queue.flavor_rules):
                worst = standing
            if worst.mode is Mode.NO_FIT:
                refusal = why
                break
            standings[resource] = standing
        return Attempt(flavor, worst, refusal, tuple(reasons)), standings

    def _standing(self, key: FlavorResource, asked: int, reasons: list[Reason]) -> tuple[Standing, Code | None]:
        flavor, resource = key
        most = potential(self.queue, key)
        if asked > most:
            title = self.queue.queue.title
            amounts = {"asked": Amount(resource, asked), "most": Amount(resource, most)}
            reasons.append(because(Code.ABOVE_MAXIMUM, queue=title, resource=resource, flavor=flavor, **amounts))
            return Standing(Mode.NO_FIT, 0), Code.EXCEEDS_MAX_QUOTA
        level, may_reclaim = lowest_fitting_height(self.queue, key, asked)
        free = free_for(self.queue, key)
        if asked <= free:
            return Standing(Mode.FIT, level), None
        amounts = {"asked": Amount(resource, asked), "free": Amount(resource, free)}
        short = Amount(resource, asked - free)
        reasons.append(because(Code.SHORT_OF_QUOTA, resource=resource, flavor=flavor, short=short, **amounts))
        if self.queue.cell(key).nominal >= asked or may_reclaim or self._may_preempt_borrowing:
            standing = self.oracle(key, asked)
            if standing.mode is Mode.NO_CANDIDATES:
                reasons.append(because(Code.NOBODY_TO_PREEMPT, resource=resource, flavor=flavor))
            return standing, Code.WAITING_FOR_QUOTA
        return Standing(Mode.NO_FIT, level), Code.WAITING_FOR_QUOTA

    @property
    def _may_preempt_borrowing(self) -> bool:
        rules = self.queue.queue.preemption
        is_fair = self.settings.fair_sharing is not None and rules.reclaim is not PreemptionPolicy.NEVER
        return rules.may_borrow or is_fair

    def _held_by_older(self, resource: str) -> int:
        return sum(older.usage.get(resource, 0) for older in self.older_slice)

    def _is_other_flavor(self, flavor: str, resource: str) -> bool:
        """Whether the older slice runs elsewhere: a slice grows where it is."""
        return any(older.flavors.get(resource, flavor) != flavor for older in self.older_slice)
