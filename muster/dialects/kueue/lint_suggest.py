"""The names and quotas that lint proposes and its repairs write: one place, so that both say the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from muster.dialects.kueue import names
from muster.dialects.kueue.lint_cards import Cards, card_among
from muster.dialects.kueue.lint_view import (
    CLUSTER_QUEUE,
    COHORT,
    FlavorView,
    GroupView,
    Item,
    JobView,
    Object,
    ObjectSet,
    cohort_of,
    mapping,
    selector_of,
)
from muster.model.labels import SUBDOMAIN_LENGTH, Selector
from muster.model.resources import CPU, amount_text


def quota_text(resource: str, amount: int) -> str | int:
    """A quota as a person writes it: a plain number where it counts things, else with its unit."""
    if resource == CPU:
        return amount_text(resource, amount) if amount % 1000 else amount // 1000
    written = amount_text(resource, amount)
    return written if written.endswith("i") else amount


def stem(name: str) -> str:
    """A queue's name without the word queue."""
    return name.removesuffix("-queue").removesuffix("-cluster") or name


def team_queue(queue: Item, namespace: str) -> str:
    """The name of the ClusterQueue that one namespace gets out of a shared one."""
    return f"{stem(queue.name)}-{namespace}"[:SUBDOMAIN_LENGTH].rstrip("-.")


@dataclass(frozen=True)
class Suggestions:
    """What would suit a set of objects."""

    objects: ObjectSet

    @cached_property
    def cards(self) -> Cards:
        return Cards.of(self.objects)

    def cohort(self, queue: Item) -> str:
        """The cohort a queue could join: its own, the only one that others are in, or one named after it."""
        if own := cohort_of(queue):
            return own
        if queue.kind == COHORT:
            return f"{queue.name}-parent"[:SUBDOMAIN_LENGTH]
        return self._only_cohort or stem(queue.name)

    @cached_property
    def _only_cohort(self) -> str:
        known = {cohort_of(item) for item in self.objects.of(CLUSTER_QUEUE)} - {""}
        return known.pop() if len(known) == 1 else ""

    def quota(self, queue: Item, group: GroupView, flavor: FlavorView, resource: str) -> int | None:
        """A quota that does not bind before the cards do, or, without cards, that holds all jobs at once.

        `None` where the set does not tell: to make up a quota is to take some away from somebody.
        """
        expected = self.cards.expected(resource, flavor)
        if expected is not None:
            return expected
        card = card_among(group.covered)
        cards = flavor.nominals.get(card, 0)
        if card and cards:
            per_card = [
                (other.nominals[resource], other.nominals[card])
                for other in group.flavors
                if resource in other.nominals and other.nominals.get(card)
            ]
            per_card += [
                (job.requests[resource], job.requests[card])
                for job in self.jobs(queue)
                if resource in job.requests and job.requests.get(card)
            ]
            if per_card:
                return max(-(-amount * cards // of_cards) for amount, of_cards in per_card)
        return sum(job.requests.get(resource, 0) * job.pods for job in self.jobs(queue)) or None

    def quota_text(self, queue: Item, group: GroupView, flavor: FlavorView, resource: str) -> str:
        """The same for a person to read."""
        quota = self.quota(queue, group, flavor, resource)
        return "…" if quota is None else str(quota_text(resource, quota))

    def jobs(self, queue: Item) -> list[JobView]:
        return self.objects.jobs_by_queue.get(queue.name, [])

    def group_for(self, queue: Item, job: JobView) -> GroupView | None:
        """The resource group that a job's uncovered resources belong to: the one of its cards, else the first."""
        fitting = (group for group in queue.groups if card_among(group.covered) in job.requests)
        return next(fitting, queue.groups[0] if queue.groups else None)

    def selector(self, queue: Item, namespace: str, others: frozenset[str] = frozenset()) -> Object:
        """A selector for one namespace that shuts the others out, as like the present one as can be."""
        labels = self.objects.namespace_labels.get(namespace, {names.NAMESPACE_NAME_LABEL: namespace})
        present = mapping(queue.spec.get("namespaceSelector"))
        keys = mapping(present.get("matchLabels"))
        same_keys = {"matchLabels": {key: labels[key] for key in keys}} if keys and labels.keys() >= keys.keys() else {}
        by_name = {"matchLabels": {names.NAMESPACE_NAME_LABEL: namespace}}
        for candidate in (present, same_keys):
            if candidate and self._fits(candidate, labels, others):
                return candidate
        return by_name

    def _fits(self, candidate: Object, labels: dict[str, str], others: frozenset[str]) -> bool:
        selector = _read(candidate)
        unknown: dict[str, str] = {}
        return (
            selector is not None
            and selector.matches(labels)
            and not any(selector.matches(self.objects.namespace_labels.get(other, unknown)) for other in others)
        )


def _read(value: Object) -> Selector | None:
    return selector_of(Item("", {"spec": {"namespaceSelector": value}}))
