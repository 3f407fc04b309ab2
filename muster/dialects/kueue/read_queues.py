"""Reading ResourceFlavor, ClusterQueue, Cohort, LocalQueue and AdmissionCheck into flavors and queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.dialects.kueue.names import DELAYING_CONTROLLERS, MULTIKUEUE, cohort_name
from muster.model.fields import INT64_MAX, Fields
from muster.model.flavor import Flavor
from muster.model.labels import read_selector, read_taints, read_tolerations
from muster.model.quantity import Quantity
from muster.model.queue import (
    CheckRule,
    FlavorRules,
    Order,
    PreemptionPolicy,
    PreemptionRules,
    Queue,
    Quota,
    ResourceGroup,
    Stop,
    SubmitQueue,
)
from muster.model.resources import UNLIMITED, FlavorResource, amount_of
from muster.model.times import moment

STOPS = tuple(stop.value for stop in Stop)
POLICIES = tuple(policy.value for policy in PreemptionPolicy if policy is not PreemptionPolicy.LOWER_OR_EQUAL_PRIORITY)


def read_flavor(flavor: Fields, topologies: Mapping[str, tuple[str, ...]]) -> Flavor:
    spec = flavor.child("spec")
    topology = spec.text("topologyName")
    return Flavor(
        name=flavor.child("metadata").text("name"),
        labels=spec.text_map("nodeLabels"),
        taints=read_taints(spec, "nodeTaints"),
        tolerations=read_tolerations(spec, "tolerations"),
        topology=topology,
        topology_levels=topologies.get(topology, ()),
    )


def read_topology_levels(topology: Fields) -> tuple[str, ...]:
    return tuple(level.text("nodeLabel") for level in topology.child("spec").children("levels"))


@dataclass(frozen=True, slots=True)
class Check:
    """An admission check: whether its controller has said that it works, and who that is."""

    is_active: bool
    controller: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a queue may refer to."""

    flavors: Mapping[str, Flavor]
    topologies: Mapping[str, tuple[str, ...]]
    checks: Mapping[str, Check]
    needs_objects: bool = True  # a queue whose flavors or checks are missing is inactive


def read_cluster_queue(queue: Fields, known: Known) -> Queue:
    spec = queue.child("spec")
    metadata = queue.child("metadata")
    name = metadata.text("name")
    cohort = spec.text("cohortName")
    groups, quotas = read_resource_groups(spec)
    checks = _read_checks(spec, known)
    return Queue(
        name=name,
        title=name,
        is_leaf=True,
        parent=cohort_name(cohort) if cohort else None,
        groups=groups,
        quotas=quotas,
        order=Order(spec.choice("queueingStrategy", tuple(o.value for o in Order), Order.BEST_EFFORT_FIFO.value)),
        flavor_rules=_read_flavor_rules(spec),
        preemption=_read_preemption(spec),
        checks=checks,
        admits_namespaces=read_selector(spec, "namespaceSelector"),
        weight=read_weight(spec),
        stop=Stop(spec.choice("stopPolicy", STOPS, Stop.NONE.value)),
        inactive_because=_inactivity(metadata, groups, checks, known),
        generation=metadata.integer("generation", most=INT64_MAX),
        last_acceptable_flavor=_last_acceptable_flavor(spec),
        is_usage_ordered=spec.child("admissionScope").text("admissionMode") == "UsageBasedAdmissionFairSharing",
    )


def read_cohort(cohort: Fields) -> Queue:
    spec = cohort.child("spec")
    name = cohort.child("metadata").text("name")
    parent = spec.text("parentName")
    groups, quotas = read_resource_groups(spec)
    return Queue(
        name=cohort_name(name),
        title=name,
        is_leaf=False,
        parent=cohort_name(parent) if parent else None,
        groups=groups,
        quotas=quotas,
        weight=read_weight(spec),
    )


def implied_cohorts(queues: Iterable[Queue]) -> list[Queue]:
    """Cohorts that queues name and no object describes: they gather quota and add none."""
    known = {queue.name: queue for queue in queues}
    missing = {queue.parent for queue in known.values() if queue.parent is not None and queue.parent not in known}
    return [Queue(name=name, title=name.removeprefix(cohort_name("")), is_leaf=False) for name in sorted(missing)]


def read_submit_queue(local_queue: Fields) -> SubmitQueue:
    metadata, spec = local_queue.child("metadata"), local_queue.child("spec")
    usage = local_queue.child("status").child("fairSharing").child("admissionFairSharingStatus")
    return SubmitQueue(
        key=f"{metadata.text('namespace')}/{metadata.text('name')}",
        queue=spec.text("clusterQueue"),
        weight=read_weight(spec),
        stop=Stop(spec.choice("stopPolicy", STOPS, Stop.NONE.value)),
        consumed=_read_consumed(usage),
        consumed_at=moment(usage, "lastUpdate"),
    )


def _read_consumed(usage: Fields) -> dict[str, float]:
    """Past use in base units; cpu in cores."""
    nano = 10**9
    quantities = usage.quantities("consumedResources")
    return {name: quantity.scaled(9, 2**200) / nano for name, quantity in quantities.items()}


def read_check(check: Fields) -> Check:
    is_active = any(
        condition.text("type") == "Active" and condition.text("status") == "True"
        for condition in check.child("status").children("conditions")
    )
    return Check(is_active, check.child("spec").text("controllerName"))


def read_resource_groups(spec: Fields) -> tuple[tuple[ResourceGroup, ...], dict[FlavorResource, Quota]]:
    groups = []
    quotas: dict[FlavorResource, Quota] = {}
    for group in spec.children("resourceGroups"):
        covered = group.texts("coveredResources")
        flavors = []
        for flavor in group.children("flavors"):
            name = flavor.text("name")
            flavors.append(name)
            named = {}
            for resource in flavor.children("resources"):
                named[resource.text("name")] = _read_quota(resource)
            for resource_name in covered:
                # A flavor that leaves a covered resource out does not limit it, and has none of it to lend.
                named.setdefault(resource_name, Quota(nominal=UNLIMITED, lendable=0))
            quotas.update({(name, resource_name): quota for resource_name, quota in named.items()})
        groups.append(ResourceGroup(resources=covered, flavors=tuple(flavors)))
    return tuple(groups), quotas


def _read_quota(resource: Fields) -> Quota:
    name = resource.text("name")
    nominal = resource.quantity("nominalQuota")
    return Quota(
        nominal=quota_amount(name, nominal) if nominal is not None else 0,
        borrowable=quota_amount(name, resource.quantity("borrowingLimit")),
        lendable=quota_amount(name, resource.quantity("lendingLimit")),
    )


def quota_amount(resource: str, quantity: Quantity | None) -> int:
    """A quota in its unit; none given, or more than a 64-bit number holds, is no limit. Kueue counts so."""
    if quantity is None:
        return UNLIMITED
    amount = max(0, amount_of(resource, quantity))
    return amount if amount < INT64_MAX else UNLIMITED


def read_weight(spec: Fields) -> float:
    """A weight for fair shares; 1 unless given."""
    weight = spec.child("fairSharing").quantity("weight")
    nano = 10**9
    return weight.scaled(9, 2**100) / nano if weight is not None else 1.0


def _read_flavor_rules(spec: Fields) -> FlavorRules:
    if not spec.has("flavorFungibility"):
        return FlavorRules()
    rules = spec.child("flavorFungibility")
    return FlavorRules(
        next_instead_of_borrowing=rules.text("whenCanBorrow") == "TryNextFlavor",
        next_instead_of_preempting=rules.text("whenCanPreempt") == "TryNextFlavor",
        prefers_preempting=rules.text("preference") == "PreemptionOverBorrowing",
    )


def _read_preemption(spec: Fields) -> PreemptionRules:
    if not spec.has("preemption"):
        return PreemptionRules()
    rules = spec.child("preemption")
    borrow = rules.child("borrowWithinCohort")
    has_threshold = borrow.has("maxPriorityThreshold")
    return PreemptionRules(
        within_queue=PreemptionPolicy(rules.choice("withinClusterQueue", POLICIES)),
        reclaim=PreemptionPolicy(rules.choice("reclaimWithinCohort", POLICIES)),
        may_borrow=borrow.text("policy", "Never") not in ("Never", ""),
        borrow_priority_most=borrow.integer("maxPriorityThreshold") if has_threshold else None,
    )


def _read_checks(spec: Fields, known: Known) -> tuple[CheckRule, ...]:
    rules = []
    for check in spec.child("admissionChecksStrategy").children("admissionChecks"):
        name = check.text("name")
        controller = known.checks[name].controller if name in known.checks else ""
        flavors = frozenset(check.texts("onFlavors"))
        rules.append(
            CheckRule(
                name=name,
                flavors=flavors,
                delays_place=controller in DELAYING_CONTROLLERS,
                is_elsewhere=controller == MULTIKUEUE,
            )
        )
    return tuple(rules)


def _last_acceptable_flavor(spec: Fields) -> str:
    migration = spec.child("concurrentAdmissionPolicy").child("migration")
    return migration.child("constraints").text("lastAcceptableFlavorName")


def _inactivity(
    metadata: Fields, groups: tuple[ResourceGroup, ...], checks: tuple[CheckRule, ...], known: Known
) -> str:
    """Why a queue cannot take part, as a sentence; empty when it can."""
    if metadata.has("deletionTimestamp"):
        return "it is being deleted"
    if not known.needs_objects:
        return ""
    flavors = [name for group in groups for name in group.flavors]
    missing = sorted({name for name in flavors if name not in known.flavors})
    if missing:
        return f"the flavors {', '.join(missing)} do not exist"
    without_topology = sorted(
        {name for name in flavors if (t := known.flavors[name].topology) and t not in known.topologies}
    )
    if without_topology:
        return f"the topologies of the flavors {', '.join(without_topology)} do not exist"
    missing = sorted({check.name for check in checks if check.name not in known.checks})
    if missing:
        return f"the admission checks {', '.join(missing)} do not exist"
    idle = sorted({check.name for check in checks if not known.checks[check.name].is_active})
    return f"the admission checks {', '.join(idle)} are not active" if idle else ""
