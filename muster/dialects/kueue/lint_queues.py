"""Lint's rules on queues, cohorts and flavors. Called by `lint`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.dialects.kueue import names
from muster.dialects.kueue.lint_cards import Cards, card_behind, card_of_memory
from muster.dialects.kueue.lint_suggest import Suggestions, team_queue
from muster.dialects.kueue.lint_view import (
    CHECK,
    CLUSTER_QUEUE,
    COHORT,
    FLAVOR,
    LOCAL_QUEUE,
    SHOWN_NAMES,
    Finding,
    FlavorView,
    GroupView,
    Item,
    ObjectSet,
    Severity,
    cohort_field,
    cohort_of,
    listed,
    mapping,
    selector_of,
    text,
)
from muster.model.labels import Selector

NEVER = ("", "Never")


def limits_without_cohort(objects: ObjectSet) -> Iterator[Finding]:
    """Borrowing and lending need somebody to borrow from and lend to."""
    suggestions = Suggestions(objects)
    for item in (*objects.of(CLUSTER_QUEUE), *objects.of(COHORT)):
        if cohort_of(item):
            continue
        field = cohort_field(item)
        for line in item.quota_lines:
            for limit in ("borrowingLimit", "lendingLimit"):
                if line.value.get(limit) is None:
                    continue
                partner = "borrow from" if limit == "borrowingLimit" else "lend to"
                yield Finding(
                    code="limit-without-cohort",
                    source=item.source,
                    reference=item.reference,
                    path=f"{line.path}.{limit}",
                    problem=f"limits {line.resource} of {line.flavor}, and there is no cohort to {partner}",
                    what_to_write=f"spec.{field}: {suggestions.cohort(item)}, or leave {limit} out",
                    severity=Severity.ERROR,
                )


def preemption_without_cohort(objects: ObjectSet) -> Iterator[Finding]:
    """Taking back from a cohort needs a cohort."""
    suggestions = Suggestions(objects)
    for queue in objects.of(CLUSTER_QUEUE):
        if cohort_of(queue):
            continue
        preemption = mapping(queue.spec.get("preemption"))
        wishes = {
            "reclaimWithinCohort": text(preemption.get("reclaimWithinCohort")),
            "borrowWithinCohort.policy": text(mapping(preemption.get("borrowWithinCohort")).get("policy")),
        }
        for field, wish in wishes.items():
            if wish in NEVER:
                continue
            yield Finding(
                code="preemption-without-cohort",
                source=queue.source,
                reference=queue.reference,
                path=f"spec.preemption.{field}",
                problem=f"is {wish}, and has no effect without a cohort",
                what_to_write=f"spec.{cohort_field(queue)}: {suggestions.cohort(queue)}",
                severity=Severity.WARNING,
            )


def incomplete_flavors(objects: ObjectSet) -> Iterator[Finding]:
    """Every flavor of a group has a quota for every resource the group covers, in that order."""
    suggestions = Suggestions(objects)
    for item in (*objects.of(CLUSTER_QUEUE), *objects.of(COHORT)):
        for group in item.groups:
            yield from _incomplete_flavors_of(item, group, suggestions)


def _incomplete_flavors_of(item: Item, group: GroupView, suggestions: Suggestions) -> Iterator[Finding]:
    covered, known = group.covered, frozenset(group.covered)
    for flavor in group.flavors:
        present = [line.resource for line in flavor.lines]
        for resource in missing_in(flavor, covered):
            quota = suggestions.quota_text(item, group, flavor, resource)
            yield Finding(
                code="flavor-lacks-resource",
                source=item.source,
                reference=item.reference,
                path=f"{flavor.path}.resources",
                problem=f"flavor {flavor.name} has no quota of {resource}, which its group covers",
                what_to_write=f"{{name: {resource}, nominalQuota: {quota}}} in {flavor.name}",
                severity=Severity.ERROR,
            )
        for resource in present:
            if resource and resource not in known:
                yield Finding(
                    code="resource-not-covered",
                    source=item.source,
                    reference=item.reference,
                    path=f"{flavor.path}.resources",
                    problem=f"flavor {flavor.name} has a quota of {resource}, which its group does not cover",
                    what_to_write=f"{resource} in {group.path}.coveredResources, in all flavors alike",
                    severity=Severity.ERROR,
                )
        if sorted(present) == sorted(covered) and present != covered:
            yield Finding(
                code="flavor-order",
                source=item.source,
                reference=item.reference,
                path=f"{flavor.path}.resources",
                problem=f"flavor {flavor.name} has the resources in another order than coveredResources",
                what_to_write="them in the order " + ", ".join(covered),
                severity=Severity.ERROR,
            )


def missing_in(flavor: FlavorView, covered: Iterable[str]) -> list[str]:
    """The resources that a flavor's group covers and the flavor has no quota of."""
    present = {line.resource for line in flavor.lines}
    return [resource for resource in covered if resource not in present]


def contradicting_quotas(objects: ObjectSet) -> Iterator[Finding]:
    """A quota of shares of cards follows from the quota of cards."""
    cards = Cards.of(objects)
    for item in (*objects.of(CLUSTER_QUEUE), *objects.of(COHORT)):
        for flavor in (flavor for group in item.groups for flavor in group.flavors):
            for line in flavor.lines:
                expected = cards.expected(line.resource, flavor)
                if line.nominal is None or expected is None or cards.agrees(line.resource, flavor):
                    continue
                card = card_behind(line.resource) or card_of_memory(line.resource)
                share = 100 * line.nominal // expected
                yield Finding(
                    code="quota-contradicts-cards",
                    source=item.source,
                    reference=item.reference,
                    path=f"{line.path}.nominalQuota",
                    problem=f"{line.nominal} {line.resource} are {share} % of the {expected} "
                    f"that {flavor.nominals[card]} {card} of {flavor.name} have",
                    what_to_write=f"nominalQuota: {expected}",
                    severity=Severity.WARNING,
                )


def absent_selectors(objects: ObjectSet) -> Iterator[Finding]:
    """No selector admits nobody; an empty one admits everybody."""
    for queue in objects.of(CLUSTER_QUEUE):
        if queue.spec.get("namespaceSelector") is None:
            yield Finding(
                code="selector-absent",
                source=queue.source,
                reference=queue.reference,
                path="spec.namespaceSelector",
                problem="is missing, so the queue admits jobs of no namespace",
                what_to_write="namespaceSelector: {} to admit every namespace",
                severity=Severity.WARNING,
            )


def shut_out_namespaces(objects: ObjectSet) -> Iterator[Finding]:
    """A LocalQueue is of no use in a namespace that the ClusterQueue does not admit."""
    for queue in objects.of(CLUSTER_QUEUE):
        selector = selector_of(queue)
        if selector is None:
            continue
        served = sorted(objects.served.get(queue.name, {}))
        for namespace in served:
            labels = known_labels(objects, namespace, selector)
            if labels is None or selector.matches(labels):
                continue
            locals_there = objects.served[queue.name][namespace]
            yield Finding(
                code="selector-shuts-out",
                source=queue.source,
                reference=queue.reference,
                path="spec.namespaceSelector",
                problem=f"shuts out namespace {namespace}, whose LocalQueue {locals_there[0].name} "
                f"({locals_there[0].source}) points here",
                what_to_write=f"a selector that matches {namespace} too, such as matchExpressions: "
                f"[{{key: {names.NAMESPACE_NAME_LABEL}, operator: In, values: [{', '.join(served[:SHOWN_NAMES])}]}}]",
                severity=Severity.ERROR,
            )


def known_labels(objects: ObjectSet, namespace: str, selector: Selector) -> dict[str, str] | None:
    """A namespace's labels as far as the selector asks for them; `None` where the set does not tell."""
    if namespace in objects.namespace_labels:
        return objects.namespace_labels[namespace]
    asks_for_name_only = all(requirement.key == names.NAMESPACE_NAME_LABEL for requirement in selector.requirements)
    return {names.NAMESPACE_NAME_LABEL: namespace} if asks_for_name_only else None


def missing_queues(objects: ObjectSet) -> Iterator[Finding]:
    """A LocalQueue points to a ClusterQueue that is there."""
    for local in objects.of(LOCAL_QUEUE):
        wanted = text(local.spec.get("clusterQueue"))
        if wanted and objects.find(CLUSTER_QUEUE, wanted) is None:
            yield Finding(
                code="missing-cluster-queue",
                source=local.source,
                reference=local.reference,
                path="spec.clusterQueue",
                problem=f"names ClusterQueue {wanted}, which is not in this set",
                what_to_write=_one_of(objects, CLUSTER_QUEUE, wanted),
                severity=_absence(objects, CLUSTER_QUEUE),
            )


def missing_flavors_and_checks(objects: ObjectSet) -> Iterator[Finding]:
    """A queue is inactive until all its flavors and checks exist."""
    for queue in objects.of(CLUSTER_QUEUE):
        named = [(flavor.name, f"{flavor.path}.name") for group in queue.groups for flavor in group.flavors]
        for name, path in named:
            if name and objects.find(FLAVOR, name) is None:
                yield _missing(objects, queue, FLAVOR, name, path)
        for name, path in _checks_of(queue):
            if name and objects.find(CHECK, name) is None:
                yield _missing(objects, queue, CHECK, name, path)


def _checks_of(queue: Item) -> Iterator[tuple[str, str]]:
    for index, name in enumerate(listed(queue.spec.get("admissionChecks"))):
        yield text(name), f"spec.admissionChecks[{index}]"
    strategy = mapping(queue.spec.get("admissionChecksStrategy"))
    for index, rule in enumerate(listed(strategy.get("admissionChecks"))):
        yield text(mapping(rule).get("name")), f"spec.admissionChecksStrategy.admissionChecks[{index}].name"


def _missing(objects: ObjectSet, queue: Item, kind: tuple[str, str], name: str, path: str) -> Finding:
    return Finding(
        code="missing-flavor" if kind == FLAVOR else "missing-check",
        source=queue.source,
        reference=queue.reference,
        path=path,
        problem=f"names {kind[1]} {name}, which is not in this set, and the queue is inactive without it",
        what_to_write=_one_of(objects, kind, name),
        severity=_absence(objects, kind),
    )


def _absence(objects: ObjectSet, kind: tuple[str, str]) -> Severity:
    """Where the set has none of a kind, those are probably elsewhere."""
    return Severity.WARNING if objects.of(kind) else Severity.NOTE


def _one_of(objects: ObjectSet, kind: tuple[str, str], wanted: str) -> str:
    known = objects.some_names(kind)
    new = f"{'an' if kind == CHECK else 'a'} {kind[1]} named {wanted}"
    return f"one of {', '.join(known)}, or {new}" if known else new


def unused_flavors(objects: ObjectSet) -> Iterator[Finding]:
    """A flavor that no queue counts in serves nobody."""
    users = (*objects.of(CLUSTER_QUEUE), *objects.of(COHORT))
    used = {flavor.name for item in users for group in item.groups for flavor in group.flavors}
    for flavor in objects.of(FLAVOR) if users else ():
        if flavor.name not in used:
            yield Finding(
                code="unused-flavor",
                source=flavor.source,
                reference=flavor.reference,
                path="metadata.name",
                problem="is a flavor that no queue of this set has quota in",
                what_to_write=f"{flavor.name} among the flavors of a ClusterQueue, or leave it out",
                severity=Severity.NOTE,
            )


def shared_queues(objects: ObjectSet) -> Iterator[Finding]:
    """Teams that share one queue have no quota of their own, and cannot borrow from each other."""
    suggestions = Suggestions(objects)
    for queue in objects.of(CLUSTER_QUEUE):
        namespaces = sorted(objects.served.get(queue.name, {}))
        if len(namespaces) < 2 or not wants_shares(objects, queue):
            continue
        made = " and ".join(team_queue(queue, namespace) for namespace in namespaces[:SHOWN_NAMES])
        yield Finding(
            code="shared-queue",
            source=queue.source,
            reference=queue.reference,
            path="metadata.name",
            problem=f"is the one queue of the namespaces {', '.join(namespaces[:SHOWN_NAMES])}: "
            "none has a quota of its own, and none can borrow from another",
            what_to_write=f"a ClusterQueue for each, such as {made}, "
            f"all with spec.{cohort_field(queue)}: {suggestions.cohort(queue)}",
            severity=Severity.NOTE,
        )


def wants_shares(objects: ObjectSet, queue: Item) -> bool:
    """Whether a queue, or the priorities of its jobs, show that its teams are meant to have shares of their own.

    In a cohort they may be one team with several namespaces, which borrows from other queues.
    """
    if cohort_of(queue):
        return False
    limits = ("borrowingLimit", "lendingLimit")
    if any(line.value.get(limit) is not None for line in queue.quota_lines for limit in limits):
        return True
    preemption = mapping(queue.spec.get("preemption"))
    reclaim = text(preemption.get("reclaimWithinCohort"))
    borrow = text(mapping(preemption.get("borrowWithinCohort")).get("policy"))
    if reclaim not in NEVER or borrow not in NEVER:
        return True
    classes = {
        job.item.labels.get(names.PRIORITY_CLASS) or job.item.annotations.get(names.PRIORITY_CLASS, "")
        for job in objects.jobs_by_queue.get(queue.name, ())
    }
    return len(classes) > 1


def cohort_cycles(objects: ObjectSet) -> Iterator[Finding]:
    """A cohort is not its own ancestor. Each cycle is told once, at its first name."""
    parents = {item.name: cohort_of(item) for item in objects.of(COHORT)}
    settled: set[str] = set()
    for start in sorted(parents):
        path: list[str] = []
        on_path: set[str] = set()
        name = start
        while name in parents and name not in settled and name not in on_path:
            path.append(name)
            on_path.add(name)
            name = parents[name]
        settled |= on_path
        if name not in on_path:
            continue
        cycle = path[path.index(name) :]
        first = objects.find(COHORT, min(cycle))
        assert first is not None, "a name of the cycle is the name of a cohort"
        yield Finding(
            code="cohort-cycle",
            source=first.source,
            reference=first.reference,
            path="spec.parentName",
            problem="leads back to itself: " + " -> ".join([*cycle[:8], *(["…"] if len(cycle) > 8 else []), name]),
            what_to_write="no parentName in the cohort that is the root",
            severity=Severity.ERROR,
        )


def repeated_objects(objects: ObjectSet) -> Iterator[Finding]:
    """Of two objects with one name only the last applied stays."""
    first: dict[tuple[tuple[str, str], str, str], Item] = {}
    for item in objects.items:
        if not text(item.metadata.get("name")):
            continue
        known = first.setdefault((item.kind, item.namespace, item.name), item)
        if known is not item:
            yield Finding(
                code="repeated-object",
                source=item.source,
                reference=item.reference,
                path="metadata.name",
                problem=f"is the name of the same kind of object in {known.source} too, and the later one replaces it",
                what_to_write="another name, or one object",
                severity=Severity.WARNING,
            )
