"""The rules between fields that a cluster itself checks of Kueue's kinds, for `definitions`.

The same rules are code in `validate`, which knows more and says it better; these hold even while nobody answers for the
webhooks. A rule that cannot be evaluated counts as broken, so a missing part may be named without asking for it.
Strict rules are Kueue's own; else they let pass what `forgiving` reads.
"""

from __future__ import annotations

from muster.model.definitions import Rule, Rules


def rules_of(kind: str, *, is_hub: bool, is_strict: bool) -> Rules:
    """The rules of a kind, by the part of it that they are about."""
    match kind:
        case "AdmissionCheck":
            return {"spec.controllerName": (_NEVER_CHANGES,)}
        case "ClusterQueue":
            own = {**_CLUSTER_QUEUE, **_resource_groups(is_strict=is_strict)}
            return own | ({"spec": (_nobody_to_borrow_from(is_hub=is_hub),)} if is_strict else {})
        case "Cohort":
            return _resource_groups(is_strict=is_strict)
        case "LocalQueue":
            return {"spec.clusterQueue": (_NEVER_CHANGES,)}
        case "MultiKueueCluster" if is_hub:
            return {"spec.clusterSource": (_one_of("kubeConfig", "clusterProfileRef"),)}
        case "MultiKueueConfig" if is_hub:
            return {"spec.clusters": (_NO_REPEATS,)}
        case "ResourceFlavor":
            return _RESOURCE_FLAVOR
        case "Topology":
            return {"spec.levels": (_levels_change(is_hub=is_hub), _NO_REPEATS, _HOST_LAST)}
        case "Workload":
            return _WORKLOAD_HUB if is_hub else _WORKLOAD_OLDER
    return {}


def _one_of(one: str, other: str) -> Rule:
    return Rule(f"has(self.{one}) != has(self.{other})", f"give exactly one of {one} and {other}")


_NEVER_CHANGES = Rule("self == oldSelf", "cannot be changed; make another object instead")
_NO_REPEATS = Rule("self.all(one, self.filter(other, other == one).size() == 1)", "each entry may be there once")

# Queues, flavors and topologies -----------------------------------------------------------------------------------


def _resource_groups(*, is_strict: bool) -> Rules:
    sizes, message = "==", "each flavor must give a quota for every covered resource and for no other"
    if not is_strict:
        sizes, message = "<=", "a flavor can give a quota for covered resources only"
    rule = f"self.flavors.all(flavor, flavor.resources.size() {sizes} self.coveredResources.size())"
    return {"spec.resourceGroups[]": (Rule(rule, message),)}


def _nobody_to_borrow_from(*, is_hub: bool) -> Rule:
    cohort = "cohortName" if is_hub else "cohort"
    no_limits = (
        "self.resourceGroups.all(group, group.flavors.all(flavor,"
        " flavor.resources.all(resource, !has(resource.borrowingLimit))))"
    )
    return Rule(
        f"has(self.{cohort}) || !has(self.resourceGroups) || {no_limits}",
        f"there is nobody to borrow from without {cohort}: leave the borrowingLimit out",
    )


_CLUSTER_QUEUE: Rules = {
    "spec.flavorFungibility": (
        Rule(
            "!has(self.preference)"
            " || (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')",
            "preference needs whenCanBorrow and whenCanPreempt to be TryNextFlavor",
        ),
    ),
    "spec.preemption": (
        Rule(
            "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort)"
            " || self.borrowWithinCohort.policy == 'Never'",
            "borrowWithinCohort has no effect while reclaimWithinCohort is Never",
        ),
    ),
}
_EFFECTS = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"
_EFFECTS_NAMED = "the effect is NoSchedule, PreferNoSchedule or NoExecute"
_TOLERATIONS = (
    Rule(
        "self.all(one, has(one.key) || (has(one.operator) && one.operator == 'Exists'))",
        "a toleration without a key is for all taints: its operator must be Exists",
    ),
    Rule(
        "self.all(one, !has(one.tolerationSeconds) || (has(one.effect) && one.effect == 'NoExecute'))",
        "tolerationSeconds are for the effect NoExecute only",
    ),
    Rule(
        "self.all(one, !has(one.operator) || one.operator in ['Equal', 'Exists'])",
        "the operator of a toleration is Equal or Exists",
    ),
    Rule(
        "self.all(one, !has(one.value) || !has(one.operator) || one.operator != 'Exists')",
        "a toleration with the operator Exists has no value",
    ),
    Rule(f"self.all(one, !has(one.effect) || one.effect in {_EFFECTS})", _EFFECTS_NAMED),
)
_RESOURCE_FLAVOR: Rules = {
    "spec": (
        Rule(
            "!has(self.topologyName) || (has(self.nodeLabels) && self.nodeLabels.size() > 0)",
            "a flavor with a topology needs a node label",
        ),
        Rule(
            "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
            "a topology cannot be changed nor taken away",
        ),
    ),
    "spec.nodeTaints": (Rule(f"self.all(one, one.effect in {_EFFECTS})", _EFFECTS_NAMED),),
    "spec.tolerations": _TOLERATIONS,
}

_HOST = "'kubernetes.io/hostname'"
_HOST_LAST = Rule(
    f"self[self.size() - 1].nodeLabel == {_HOST} || self.all(one, one.nodeLabel != {_HOST})",
    "only the last level can be kubernetes.io/hostname",
)


def _levels_change(*, is_hub: bool) -> Rule:
    if not is_hub:
        return _NEVER_CHANGES
    ends_in_hosts = f"self[self.size() - 1].nodeLabel == {_HOST} && oldSelf[oldSelf.size() - 1].nodeLabel == {_HOST}"
    return Rule(
        f"self == oldSelf || ({ends_in_hosts})",
        "levels can be changed only where the last one is and stays kubernetes.io/hostname",
    )


# Workloads --------------------------------------------------------------------------------------------------------


def _is(condition: str, who: str) -> str:
    """Whether a condition of a workload is true."""
    known = f"has({who}.status) && has({who}.status.conditions)"
    return f"({known} && {who}.status.conditions.exists(one, one.type == '{condition}' && one.status == 'True'))"


_RESERVED, _WAS_RESERVED = _is("QuotaReserved", "self"), _is("QuotaReserved", "oldSelf")
_ADMITTED, _WAS_ADMITTED = _is("Admitted", "self"), _is("Admitted", "oldSelf")


def _both_have(path: str) -> str:
    return f"has(oldSelf.{path}) && has(self.{path})"


def _unchanged(path: str) -> str:
    return f"oldSelf.{path} == self.{path}"


def _limit(who: str) -> str:
    path = f"{who}.spec.maximumExecutionTimeSeconds"
    return f"(has({path}) ? {path} : 0)"


_ASSIGNMENTS = Rule(
    f"{_RESERVED} && has(self.status.admission)"
    " ? self.spec.podSets.size() == self.status.admission.podSetAssignments.size() : true",
    "an admission must assign every pod set and no other",
)
_QUEUE_NAME = Rule(
    f"{_WAS_RESERVED} && {_RESERVED} ? has(oldSelf.spec.queueName) == has(self.spec.queueName)"
    f" && (!has(self.spec.queueName) || {_unchanged('spec.queueName')}) : true",
    "the queue cannot be changed while quota is reserved",
)
_TIME_LIMIT = Rule(
    f"{_WAS_ADMITTED} && {_ADMITTED} ? {_limit('oldSelf')} == {_limit('self')} : true",
    "the time limit cannot be changed while the workload is admitted",
)
_MIN_COUNT = Rule("!has(self.minCount) || self.minCount <= self.count", "minCount can be at most count")
_STATUS = (
    Rule(
        "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
        "a cluster that was chosen cannot be changed to another",
    ),
    Rule(
        "!has(self.clusterName) || !has(self.nominatedClusterNames) || self.nominatedClusterNames.size() == 0",
        "no clusters are nominated once one is chosen",
    ),
)
_SOURCE, _CLASS_NAME = "spec.priorityClassSource", "spec.priorityClassName"
_WORKLOAD_OLDER: Rules = {
    "": (
        _ASSIGNMENTS,
        Rule(
            f"{_WAS_RESERVED} && {_both_have(_SOURCE)} ? {_unchanged(_SOURCE)} : true",
            "the source of the priority class cannot be changed while quota is reserved",
        ),
        Rule(
            f"{_WAS_RESERVED} && {_both_have(_SOURCE)} && self.{_SOURCE} != 'kueue.x-k8s.io/workloadpriorityclass'"
            f" && {_both_have(_CLASS_NAME)} ? {_unchanged(_CLASS_NAME)} : true",
            "only a WorkloadPriorityClass can be changed for another while quota is reserved",
        ),
        _QUEUE_NAME,
        _TIME_LIMIT,
    ),
    "spec": (Rule("!has(self.priorityClassName) || has(self.priority)", "a priority class needs a priority too"),),
    "spec.podSets[]": (_MIN_COUNT,),
    "status": _STATUS,
    "status.admissionChecks[].podSetUpdates[].tolerations": _TOLERATIONS,
}

_CLASS = "spec.priorityClassRef"
_RESERVED_WITH_CLASS = f"{_WAS_RESERVED} && {_both_have(_CLASS)}"
_IS_POD_CLASS = f"self.{_CLASS}.group == 'scheduling.k8s.io' && self.{_CLASS}.kind == 'PriorityClass'"
_TOPOLOGY = "status.admission.podSetAssignments[].topologyAssignment"
_WORKLOAD_HUB: Rules = {
    "": (
        _ASSIGNMENTS,
        Rule(
            f"{_WAS_RESERVED} ? has(oldSelf.{_CLASS}) == has(self.{_CLASS}) : true",
            "a priority class can neither come nor go while quota is reserved",
        ),
        Rule(
            f"{_RESERVED_WITH_CLASS} ? {_unchanged(f'{_CLASS}.group')} && {_unchanged(f'{_CLASS}.kind')} : true",
            "the kind of the priority class cannot be changed while quota is reserved",
        ),
        Rule(
            f"{_RESERVED_WITH_CLASS} && {_IS_POD_CLASS} ? {_unchanged(f'{_CLASS}.name')} : true",
            "only a WorkloadPriorityClass can be changed for another while quota is reserved",
        ),
        _QUEUE_NAME,
        _TIME_LIMIT,
    ),
    "spec": (Rule("!has(self.priorityClassRef) || has(self.priority)", "a priority class needs a priority too"),),
    "spec.podSets[]": (_MIN_COUNT,),
    "spec.priorityClassRef": (
        Rule(
            "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
            "the kind in the group scheduling.k8s.io is PriorityClass",
        ),
        Rule(
            "self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
            "the kind in the group kueue.x-k8s.io is WorkloadPriorityClass",
        ),
    ),
    "status": _STATUS,
    _TOPOLOGY: (
        Rule(
            "self.slices.all(slice, slice.valuesPerLevel.size() == self.levels.size())",
            "each slice must have values for every level and for no other",
        ),
    ),
    f"{_TOPOLOGY}.slices[]": (
        Rule(
            "!has(self.podCounts.individual) || self.podCounts.individual.size() == self.domainCount",
            "podCounts.individual needs a count for every domain",
        ),
        Rule(
            "self.valuesPerLevel.all(one, !has(one.individual) || one.individual.roots.size() == self.domainCount)",
            "individual values need a root for every domain",
        ),
    ),
    f"{_TOPOLOGY}.slices[].podCounts": (_one_of("universal", "individual"),),
    f"{_TOPOLOGY}.slices[].valuesPerLevel[]": (_one_of("universal", "individual"),),
    "status.admissionChecks[].podSetUpdates[].tolerations": _TOLERATIONS,
}
