"""The rules of ClusterQueue, Cohort and LocalQueue: Kueue's webhooks and the rules of its definitions."""

from __future__ import annotations

from collections.abc import Iterator

from muster.dialects.kueue.forgiving import left_out_resources
from muster.dialects.kueue.rules import Problems, Rule, Subject, selector_problems
from muster.model.fields import Fields, shown
from muster.model.labels import label_key_problem
from muster.model.plain import is_same
from muster.model.quantity import parse_quantity

FLAVORS_MOST = 256
RESOURCES_MOST = 256
PAIRS_MOST = 512
CONCURRENT_FLAVORS_MOST = 16
_LEAST_WEIGHT = parse_quantity("1n")
_TRY_NEXT = "TryNextFlavor"


# Resource groups --------------------------------------------------------------------------------------------------


def _resource_groups(subject: Subject) -> Problems:
    """Resources and flavors are named once over all groups, and every flavor lists what its group covers."""
    resources: set[str] = set()
    flavors: set[str] = set()
    for group in subject.spec.children("resourceGroups"):
        for index, name in enumerate(group.texts("coveredResources")):
            at = f"coveredResources[{index}]"
            if problem := label_key_problem(name):
                yield group.error(at, f"is {shown(name)}, which {problem}", "give the name of a resource")
            if name in resources:
                yield group.error(at, f"repeats {shown(name)}", "cover each resource once, over all groups")
            resources.add(name)
        for flavor in group.children("flavors"):
            name = flavor.text("name")
            if name in flavors:
                yield flavor.error("name", f"repeats {shown(name)}", "name each flavor once, over all groups")
            flavors.add(name)
            yield from _flavor_resources(flavor, list(group.texts("coveredResources")), is_strict=subject.is_strict)


def _flavor_resources(flavor: Fields, covered: list[str], *, is_strict: bool) -> Problems:
    resources = list(flavor.children("resources"))
    if not is_strict and left_out_resources(covered, flavor.values):
        return  # A warning says so; what is there is in the right order.
    if len(resources) != len(covered):
        hint = f"give exactly {', '.join(map(shown, covered))}"
        yield flavor.error("resources", f"has {len(resources)} items for {len(covered)} covered resources", hint)
    for resource, name in zip(resources, covered, strict=False):
        if resource.text("name") != name:
            hint = f"give {shown(name)} here: the order is that of coveredResources"
            yield resource.error("name", f"is {shown(resource.text('name'))}", hint)


def _quotas(spec: Fields) -> Iterator[Fields]:
    for group in spec.children("resourceGroups"):
        for flavor in group.children("flavors"):
            yield from flavor.children("resources")


def _limits_need_parent(subject: Subject, parent: str) -> Problems:
    """A limit to borrowing or lending needs somebody to borrow from; without strictness it is only a warning."""
    if not subject.is_strict or subject.spec.text(parent):
        return
    for resource in _quotas(subject.spec):
        for name in ("borrowingLimit", "lendingLimit"):
            if resource.has(name):
                yield resource.error(name, f"is set although spec.{parent} is empty", f"give spec.{parent}")


def _weight(subject: Subject) -> Problems:
    """Kueue: a weight of a billionth is too small to count with."""
    sharing = subject.spec.child("fairSharing")
    weight = sharing.quantity("weight")
    if weight is not None and not weight.is_zero and not weight > _LEAST_WEIGHT:
        yield sharing.error("weight", f"is {shown(sharing.raw('weight'))}", "give 0, or more than 1n")


# ClusterQueue -----------------------------------------------------------------------------------------------------


def _cluster_queue_limits(subject: Subject) -> Problems:
    yield from _limits_need_parent(subject, "cohortName" if subject.is_hub else "cohort")
    for resource in _quotas(subject.spec):
        lending, nominal = resource.quantity("lendingLimit"), resource.quantity("nominalQuota")
        if lending is not None and nominal is not None and lending > nominal:
            problem = f"is {shown(resource.raw('lendingLimit'))}, more than the nominalQuota"
            yield resource.error("lendingLimit", problem, f"give at most {shown(resource.raw('nominalQuota'))}")


def _cluster_queue_sizes(subject: Subject) -> Problems:
    groups = list(subject.spec.children("resourceGroups"))
    flavors = sum(len(group.items("flavors")) for group in groups)
    resources = sum(len(group.items("coveredResources")) for group in groups)
    if flavors > FLAVORS_MOST:
        yield subject.spec.error("resourceGroups", f"have {flavors} flavors", f"give at most {FLAVORS_MOST}")
    if resources > RESOURCES_MOST:
        yield subject.spec.error("resourceGroups", f"cover {resources} resources", f"give at most {RESOURCES_MOST}")
    for group in groups:
        pairs = len(group.items("flavors")) * len(group.items("coveredResources"))
        if pairs > PAIRS_MOST:
            yield group.error("flavors", f"make {pairs} quotas with their resources", f"give at most {PAIRS_MOST}")


def _namespace_selector(subject: Subject) -> Problems:
    yield from selector_problems(subject.spec, "namespaceSelector")


def _preemption(subject: Subject) -> Problems:
    preemption = subject.spec.child("preemption")
    borrow = preemption.child("borrowWithinCohort")
    if preemption.text("reclaimWithinCohort", "Never") == "Never" and borrow.text("policy", "Never") != "Never":
        problem = f"is {borrow.text('policy')} although reclaimWithinCohort is Never"
        yield borrow.error("policy", problem, "give Never, or let reclaimWithinCohort be another")


def _fungibility(subject: Subject) -> Problems:
    rules = subject.spec.child("flavorFungibility")
    if rules.has("preference") and not rules.text("whenCanBorrow") == rules.text("whenCanPreempt") == _TRY_NEXT:
        hint = f"set whenCanBorrow and whenCanPreempt to {_TRY_NEXT}, or take it out"
        yield rules.error("preference", "is set although the search may stop early", hint)


def _flavor_names(spec: Fields) -> set[str]:
    return {flavor.text("name") for group in spec.children("resourceGroups") for flavor in group.children("flavors")}


def _check_flavors(subject: Subject) -> Problems:
    """Checks may be bound to flavors of this queue only; what was wrong before and did not change may stay wrong."""
    if not subject.is_hub and subject.spec.texts("admissionChecks"):
        return  # Kueue: the plain list wins, and has no flavors.
    names = _flavor_names(subject.spec)
    before = _checks_before(subject, names)
    for check in subject.spec.child("admissionChecksStrategy").children("admissionChecks"):
        wanted = check.texts("onFlavors")
        if before.get(check.text("name")) == frozenset(wanted):
            continue
        for index, name in enumerate(wanted):
            if name not in names:
                yield check.error(f"onFlavors[{index}]", f"is {shown(name)}", "give a flavor of this queue")


def _checks_before(subject: Subject, names: set[str]) -> dict[str, frozenset[str]]:
    """The checks of the object being replaced, where its unchanged ones are let through."""
    if subject.old is None or subject.gates.is_on("RejectUpdatesToCQWithInvalidOnFlavors"):
        return {}
    spec = subject.old.child("spec")
    if _flavor_names(spec) != names:
        return {}
    checks = spec.child("admissionChecksStrategy").children("admissionChecks")
    return {check.text("name"): frozenset(check.texts("onFlavors")) for check in checks}


def _concurrent_admission(subject: Subject) -> Problems:
    spec = subject.spec
    name = "concurrentAdmissionPolicy"
    if not spec.has(name) or not subject.gates.is_on("ConcurrentAdmission"):
        return
    groups = spec.items("resourceGroups")
    if len(groups) != 1:
        yield spec.error(name, f"is set for {len(groups)} resource groups", "give exactly one resource group")
    flavors = _flavor_names(spec)
    if len(flavors) > CONCURRENT_FLAVORS_MOST:
        yield spec.error(name, f"is set for {len(flavors)} flavors", f"give at most {CONCURRENT_FLAVORS_MOST}")
    if spec.text("queueingStrategy") == "StrictFIFO":
        yield spec.error("queueingStrategy", f"is StrictFIFO beside {name}", "give BestEffortFIFO")
    migration = spec.child(name).child("migration")
    if not migration.has("constraints"):
        return
    if migration.text("mode") != "TryPreferredFlavors":
        yield migration.error("constraints", f"is set for the mode {migration.text('mode')}", "take it out")
    last = migration.child("constraints").text("lastAcceptableFlavorName")
    if last and last not in flavors:
        at = "constraints.lastAcceptableFlavorName"
        yield migration.error(at, f"is {shown(last)}", "give a flavor of this queue")


def _concurrent_admission_stays(subject: Subject) -> Problems:
    name = "concurrentAdmissionPolicy"
    if subject.old is not None and not is_same(subject.old.child("spec").raw(name), subject.spec.raw(name)):
        yield subject.spec.error(name, "was changed", "it cannot be changed once the queue exists")


CLUSTER_QUEUE_RULES: tuple[Rule, ...] = (
    _resource_groups,
    _cluster_queue_limits,
    _cluster_queue_sizes,
    _weight,
    _namespace_selector,
    _preemption,
    _fungibility,
    _check_flavors,
    _concurrent_admission,
    _concurrent_admission_stays,
)


# Cohort and LocalQueue --------------------------------------------------------------------------------------------


def _cohort_limits(subject: Subject) -> Problems:
    yield from _limits_need_parent(subject, "parentName")


def _cohort_is_not_its_parent(subject: Subject) -> Problems:
    parent = subject.spec.text("parentName")
    if parent and parent == subject.obj.child("metadata").text("name"):
        yield subject.spec.error("parentName", f"is {shown(parent)}, the cohort itself", "name another cohort")


COHORT_RULES: tuple[Rule, ...] = (_resource_groups, _cohort_limits, _weight, _cohort_is_not_its_parent)


def _cluster_queue_stays(subject: Subject) -> Problems:
    """A submit queue leads to one queue for good; it may be given one later."""
    before = subject.old.child("spec").text("clusterQueue") if subject.old is not None else ""
    now = subject.spec.text("clusterQueue")
    if before and now and before != now:
        yield subject.spec.error("clusterQueue", f"was {shown(before)} and cannot be changed", "make a new LocalQueue")


LOCAL_QUEUE_RULES: tuple[Rule, ...] = (_cluster_queue_stays,)
