"""Repairs of queues and quotas. Called by `lint_fix`, which says in which order."""

from __future__ import annotations

from muster.dialects.kueue import names
from muster.dialects.kueue.lint_jobs import uncovered
from muster.dialects.kueue.lint_queues import NEVER, known_labels, missing_in, wants_shares
from muster.dialects.kueue.lint_suggest import Suggestions, quota_text, team_queue
from muster.dialects.kueue.lint_view import (
    CLUSTER_QUEUE,
    COHORT,
    WORKLOAD,
    FlavorView,
    GroupView,
    Item,
    Object,
    ObjectSet,
    Sourced,
    amount,
    cohort_field,
    cohort_of,
    listed,
    mapping,
    selector_of,
    text,
)
from muster.model.plain import copied

QUOTAS = ("nominalQuota", "lendingLimit")


def cover_resources(objects: ObjectSet) -> None:
    """What jobs ask for and their queue does not count is counted, in every flavor of the group they use."""
    suggestions = Suggestions(objects)
    for queue in objects.of(CLUSTER_QUEUE):
        wanted: dict[str, GroupView] = {}
        for job in suggestions.jobs(queue):
            group = suggestions.group_for(queue, job)
            for resource in uncovered(job, queue.covered) if group else ():
                assert group is not None
                wanted.setdefault(resource, group)
        for resource, group in sorted(wanted.items(), key=lambda pair: pair[0]):
            if not isinstance(group.value.get("coveredResources"), list):
                continue
            quotas = [suggestions.quota(queue, group, flavor, resource) for flavor in group.flavors]
            group.value["coveredResources"].append(resource)
            for flavor, quota in zip(group.flavors, quotas, strict=True):
                _add_line(flavor, resource, quota)


def cover_quotas(objects: ObjectSet) -> None:
    """What a flavor has a quota of, its group covers."""
    for item in (*objects.of(CLUSTER_QUEUE), *objects.of(COHORT)):
        known = set(item.covered)
        for group in item.groups:
            covered = group.value.get("coveredResources")
            for resource in (line.resource for flavor in group.flavors for line in flavor.lines):
                if resource and resource not in known and isinstance(covered, list):
                    covered.append(resource)
                    known.add(resource)


def complete_flavors(objects: ObjectSet) -> None:
    """Every flavor has every resource of its group, in the group's order."""
    suggestions = Suggestions(objects)
    for item in (*objects.of(CLUSTER_QUEUE), *objects.of(COHORT)):
        for group in item.groups:
            for flavor in group.flavors:
                for resource in missing_in(flavor, group.covered):
                    _add_line(flavor, resource, suggestions.quota(item, group, flavor, resource))
                place = {resource: number for number, resource in enumerate(group.covered)}
                lines = listed(flavor.value.get("resources"))
                lines.sort(key=lambda line: place.get(text(mapping(line).get("name")), len(place)))


def _add_line(flavor: FlavorView, resource: str, quota: int | None) -> None:
    if quota is None:
        return
    if not isinstance(flavor.value.get("resources"), list):
        flavor.value["resources"] = []
    flavor.value["resources"].append({"name": resource, "nominalQuota": quota_text(resource, quota)})


def correct_quotas(objects: ObjectSet) -> None:
    """Quotas of shares of cards follow the quota of cards."""
    cards = Suggestions(objects).cards
    for item in (*objects.of(CLUSTER_QUEUE), *objects.of(COHORT)):
        for flavor in (flavor for group in item.groups for flavor in group.flavors):
            for line in flavor.lines:
                expected = cards.expected(line.resource, flavor)
                if expected is not None and line.nominal is not None and not cards.agrees(line.resource, flavor):
                    line.value["nominalQuota"] = quota_text(line.resource, expected)


def split_shared_queues(objects: ObjectSet) -> list[Sourced]:
    """A queue that teams share becomes one for each, in one cohort, with an equal part of its quota."""
    suggestions = Suggestions(objects)
    result: list[Sourced] = []
    for item in objects.items:
        namespaces = sorted(objects.served.get(item.name, {})) if item.kind == CLUSTER_QUEUE else []
        if len(namespaces) < 2 or not wants_shares(objects, item) or _is_taken(objects, item, namespaces):
            result.append((item.source, item.value))
            continue
        for number, namespace in enumerate(namespaces):
            others = frozenset(namespaces) - {namespace}
            made = _part_of(item, number, len(namespaces))
            made["metadata"]["name"] = team_queue(item, namespace)
            made["spec"][cohort_field(item)] = suggestions.cohort(item)
            made["spec"]["namespaceSelector"] = copied(suggestions.selector(item, namespace, others))
            _let_owners_take_back(made["spec"])
            result.append((item.source, made))
            _point_to(objects, item, namespace, made["metadata"]["name"])
    return result


def _is_taken(objects: ObjectSet, queue: Item, namespaces: list[str]) -> bool:
    return any(objects.find(CLUSTER_QUEUE, team_queue(queue, namespace)) for namespace in namespaces)


def _part_of(queue: Item, number: int, parts: int) -> Object:
    """A copy of a queue with an equal part of its quota; what does not divide goes to the first."""
    made: Object = copied(queue.value)
    for line in Item(queue.source, made).quota_lines:
        for field in QUOTAS:
            whole = amount(line.resource, line.value.get(field))
            if whole is not None:
                share = whole // parts + (number < whole % parts)
                line.value[field] = quota_text(line.resource, share)
    return made


def _let_owners_take_back(spec: Object) -> None:
    """Lending to the others is safe only when the owner can reclaim."""
    if not isinstance(spec.get("preemption"), dict):
        spec["preemption"] = {}
    if text(spec["preemption"].get("reclaimWithinCohort")) in NEVER:
        spec["preemption"]["reclaimWithinCohort"] = "Any"


def _point_to(objects: ObjectSet, queue: Item, namespace: str, target: str) -> None:
    """The namespace's LocalQueues, and what they have admitted, follow to the new queue."""
    for local in objects.served[queue.name][namespace]:
        local.spec["clusterQueue"] = target
    for workload in objects.of(WORKLOAD):
        admission = mapping(mapping(workload.value.get("status")).get("admission"))
        if workload.namespace == namespace and admission.get("clusterQueue") == queue.name:
            admission["clusterQueue"] = target


def join_cohorts(objects: ObjectSet) -> None:
    """A queue that limits borrowing, or wants to take back, gets a cohort to do it in."""
    suggestions = Suggestions(objects)
    for queue in objects.of(CLUSTER_QUEUE):
        if not cohort_of(queue) and _wants_a_cohort(queue):
            queue.spec[cohort_field(queue)] = suggestions.cohort(queue)


def _wants_a_cohort(queue: Item) -> bool:
    limits = ("borrowingLimit", "lendingLimit")
    if any(line.value.get(limit) is not None for line in queue.quota_lines for limit in limits):
        return True
    preemption = mapping(queue.spec.get("preemption"))
    borrow = text(mapping(preemption.get("borrowWithinCohort")).get("policy"))
    return text(preemption.get("reclaimWithinCohort")) not in NEVER or borrow not in NEVER


def admit_namespaces(objects: ObjectSet) -> None:
    """A queue admits the namespaces whose LocalQueues point to it, and all where it named none."""
    for queue in objects.of(CLUSTER_QUEUE):
        if queue.spec.get("namespaceSelector") is None and isinstance(queue.value.get("spec"), dict):
            queue.spec["namespaceSelector"] = {}
            continue
        selector = selector_of(queue)
        served = sorted(objects.served.get(queue.name, {}))
        if selector is None:
            continue
        labels = [known_labels(objects, namespace, selector) for namespace in served]
        if any(known is not None and not selector.matches(known) for known in labels):
            by_name = {"key": names.NAMESPACE_NAME_LABEL, "operator": "In", "values": served}
            queue.spec["namespaceSelector"] = {"matchExpressions": [by_name]}
