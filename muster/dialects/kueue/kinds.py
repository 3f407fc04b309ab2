"""The shapes of Kueue's kinds in both versions, except Workload: fields, limits, choices and defaults.

Whatever Kueue's own definitions accept is accepted here, with the same defaults. Rules between fields are in
`validate`; this file only says what each field may hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.dialects.kueue.kinds_common import (
    LABELS,
    NAME_REFERENCE,
    PLAIN_TEXT,
    QUANTITIES,
    STOP_POLICY,
    TAINTS,
    TOLERATIONS,
    conditions,
)
from muster.dialects.kueue.kinds_workload import workload
from muster.model.definitions import root
from muster.model.shapes import Amount, ListOf, MapOf, Moment, Schema, Struct, Text, Whole
from muster.model.texts import DNS_LABEL, DNS_SUBDOMAIN, KIND_NAME, QUALIFIED_NAME

HUB = "v1beta2"
OLDER = "v1beta1"
VERSIONS = (OLDER, HUB)

_INT32 = Whole()
_INT64 = Whole(is_long=True)
_FAIR_SHARING = Struct(fields={"weight": Amount()}, defaults={"weight": 1})
_USAGE_HISTORY = Struct(
    fields={"consumedResources": QUANTITIES, "lastUpdate": Moment()}, required=("consumedResources", "lastUpdate")
)
_SELECTOR = Struct(
    fields={
        "matchExpressions": ListOf(
            item=Struct(
                fields={
                    "key": PLAIN_TEXT,
                    "operator": PLAIN_TEXT,
                    "values": ListOf(item=PLAIN_TEXT, is_atomic=True),
                },
                required=("key", "operator"),
            ),
            is_atomic=True,
        ),
        "matchLabels": LABELS,
    },
    is_atomic=True,
)


def _resource_groups(version: str) -> Schema:
    resource = Struct(
        fields={"borrowingLimit": Amount(), "lendingLimit": Amount(), "name": PLAIN_TEXT, "nominalQuota": Amount()},
        required=("name", "nominalQuota"),
    )
    flavor = Struct(
        fields={
            "name": NAME_REFERENCE,
            "resources": ListOf(item=resource, least=1, most=64, keys=("name",)),
        },
        required=("name", "resources"),
    )
    group = Struct(
        fields={
            "coveredResources": ListOf(item=PLAIN_TEXT, least=1, most=64, is_atomic=version == HUB),
            "flavors": ListOf(item=flavor, least=1, most=64, keys=("name",)),
        },
        required=("coveredResources", "flavors"),
    )
    return ListOf(item=group, most=16, is_atomic=True)


def _flavor_usage(*, has_borrowed: bool) -> Schema:
    resource: dict[str, Schema] = {"name": PLAIN_TEXT, "total": Amount()}
    if has_borrowed:
        resource["borrowed"] = Amount()
    flavor = Struct(
        fields={
            "name": NAME_REFERENCE,
            "resources": ListOf(item=Struct(fields=resource, required=("name",)), most=64, keys=("name",)),
        },
        required=("name", "resources"),
    )
    return ListOf(item=flavor, most=64, keys=("name",))


def _fair_sharing_status(*, has_history: bool) -> Schema:
    fields: dict[str, Schema] = {"weightedShare": _INT64}
    if has_history:
        fields["admissionFairSharingStatus"] = _USAGE_HISTORY
    return Struct(fields=fields, required=("weightedShare",))


def _check_rules(version: str) -> Struct:
    is_hub = version == HUB
    rule = Struct(
        fields={
            "name": Text(least=1 if is_hub else 0, most=316),
            "onFlavors": ListOf(item=NAME_REFERENCE, most=64 if is_hub else None, is_set=is_hub),
        },
        required=("name",),
    )
    checks = ListOf(item=rule, least=1, most=64, keys=("name",)) if is_hub else ListOf(item=rule)
    return Struct(fields={"admissionChecks": checks}, required=("admissionChecks",) if is_hub else ())


def _flavor_fungibility(version: str) -> Struct:
    may_stop = ("MayStopSearch", "TryNextFlavor")
    is_hub = version == HUB
    return Struct(
        fields={
            "preference": Text(choices=("BorrowingOverPreemption", "PreemptionOverBorrowing")),
            "whenCanBorrow": Text(choices=may_stop if is_hub else (*may_stop, "Borrow")),
            "whenCanPreempt": Text(choices=may_stop if is_hub else (*may_stop, "Preempt")),
        },
        defaults={"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    )


_BORROW_WITHIN_COHORT = Struct(
    fields={"maxPriorityThreshold": _INT32, "policy": Text(choices=("Never", "LowerPriority"))},
    defaults={"policy": "Never"},
)
_PREEMPTION = Struct(
    fields={
        "borrowWithinCohort": _BORROW_WITHIN_COHORT,
        "reclaimWithinCohort": Text(choices=("Never", "LowerPriority", "Any")),
        "withinClusterQueue": Text(choices=("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
    },
    defaults={"borrowWithinCohort": {}, "reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
)
_CONCURRENT_ADMISSION = Struct(
    fields={
        "migration": Struct(
            fields={
                "constraints": Struct(fields={"lastAcceptableFlavorName": NAME_REFERENCE}),
                "mode": Text(most=253, choices=("TryPreferredFlavors", "RetainFirstAdmission")),
            },
            required=("mode",),
        )
    },
    required=("migration",),
)
_ADMISSION_MODES = ("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")


def _cluster_queue(version: str) -> Struct:
    is_hub = version == HUB
    spec: dict[str, Schema] = {
        "admissionChecksStrategy": _check_rules(version),
        "admissionScope": Struct(
            fields={"admissionMode": Text(choices=_ADMISSION_MODES) if is_hub else PLAIN_TEXT},
            required=("admissionMode",),
        ),
        "fairSharing": _FAIR_SHARING,
        "flavorFungibility": _flavor_fungibility(version),
        "namespaceSelector": _SELECTOR,
        "preemption": _PREEMPTION,
        "queueingStrategy": Text(choices=("StrictFIFO", "BestEffortFIFO")),
        "resourceGroups": _resource_groups(version),
        "stopPolicy": STOP_POLICY,
    }
    status: dict[str, Schema] = {
        "admittedWorkloads": _INT32,
        "conditions": conditions(is_hub=is_hub),
        "fairSharing": _fair_sharing_status(has_history=not is_hub),
        "flavorsReservation": _flavor_usage(has_borrowed=True),
        "flavorsUsage": _flavor_usage(has_borrowed=True),
        "pendingWorkloads": _INT32,
        "reservingWorkloads": _INT32,
    }
    if is_hub:
        spec |= {"cohortName": NAME_REFERENCE, "concurrentAdmissionPolicy": _CONCURRENT_ADMISSION}
    else:
        spec |= {"cohort": NAME_REFERENCE, "admissionChecks": ListOf(item=Text(most=316))}
        waiting = Struct(fields={"name": PLAIN_TEXT, "namespace": PLAIN_TEXT}, required=("name", "namespace"))
        status["pendingWorkloadsStatus"] = Struct(
            fields={"clusterQueuePendingWorkload": ListOf(item=waiting, is_atomic=True), "lastChangeTime": Moment()},
            required=("lastChangeTime",),
        )
    defaults = {"flavorFungibility": {}, "preemption": {}, "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None"}
    return root(spec=Struct(fields=spec, defaults=defaults), status=Struct(fields=status))


def _cohort(version: str) -> Struct:
    spec: dict[str, Schema] = {
        "fairSharing": _FAIR_SHARING,
        "parentName": NAME_REFERENCE,
        "resourceGroups": _resource_groups(version),
    }
    status = {"fairSharing": _fair_sharing_status(has_history=version != HUB)}
    return root(spec=Struct(fields=spec), status=Struct(fields=status))


def _local_queue(version: str) -> Struct:
    is_hub = version == HUB
    spec = Struct(
        fields={"clusterQueue": NAME_REFERENCE, "fairSharing": _FAIR_SHARING, "stopPolicy": STOP_POLICY},
        defaults={"stopPolicy": "None"},
    )
    status: dict[str, Schema] = {
        "admittedWorkloads": _INT32,
        "conditions": conditions(is_hub=is_hub),
        "fairSharing": _fair_sharing_status(has_history=True),
        "flavorsReservation": _flavor_usage(has_borrowed=False),
        "flavorsUsage" if is_hub else "flavorUsage": _flavor_usage(has_borrowed=False),
        "pendingWorkloads": _INT32,
        "reservingWorkloads": _INT32,
    }
    if not is_hub:
        topology = Struct(
            fields={
                "levels": ListOf(item=PLAIN_TEXT, least=1, most=16, is_atomic=True),
                "name": NAME_REFERENCE,
            },
            required=("levels", "name"),
        )
        flavor = Struct(
            fields={
                "name": NAME_REFERENCE,
                "nodeLabels": MapOf(item=PLAIN_TEXT, most=8, is_atomic=True),
                "nodeTaints": TAINTS,
                "resources": ListOf(item=PLAIN_TEXT, most=64, is_set=True),
                "topology": topology,
            },
            required=("name",),
        )
        status["flavors"] = ListOf(item=flavor, most=64, keys=("name",))
    return root(spec=spec, status=Struct(fields=status))


def _resource_flavor(_version: str) -> Struct:
    return root(
        spec=Struct(
            fields={
                "nodeLabels": MapOf(item=PLAIN_TEXT, most=8, is_atomic=True),
                "nodeTaints": TAINTS,
                "tolerations": TOLERATIONS,
                "topologyName": NAME_REFERENCE,
            }
        )
    )


def _topology(_version: str) -> Struct:
    level = Struct(fields={"nodeLabel": Text(least=1, most=316, form=QUALIFIED_NAME)}, required=("nodeLabel",))
    levels = ListOf(item=level, least=1, most=16, is_atomic=True)
    return root(spec=Struct(fields={"levels": levels}, required=("levels",)))


def _workload_priority_class(version: str) -> Struct:
    description = Text(most=2048) if version == HUB else PLAIN_TEXT
    bare = root()
    fields: dict[str, Schema] = {"description": description, "value": _INT32}
    return Struct(fields={**bare.fields, **fields}, required=("value",))


def _admission_check(version: str) -> Struct:
    least = 1 if version == HUB else 0
    parameters = Struct(
        fields={
            "apiGroup": Text(least=least, most=253, form=DNS_SUBDOMAIN),
            "kind": Text(least=least, most=63, form=KIND_NAME),
            "name": Text(least=least, most=63, form=DNS_LABEL),
        },
        required=("apiGroup", "kind", "name"),
    )
    spec: dict[str, Schema] = {"parameters": parameters}
    defaults = {}
    if version == HUB:
        spec["controllerName"] = Text(least=1, most=253)
    else:
        spec |= {"controllerName": PLAIN_TEXT, "retryDelayMinutes": _INT64}
        defaults["retryDelayMinutes"] = 15
    return root(
        spec=Struct(fields=spec, required=("controllerName",), defaults=defaults),
        status=Struct(fields={"conditions": conditions(is_hub=version == HUB)}),
    )


def _multikueue_config(version: str) -> Struct:
    if version == HUB:
        spec: dict[str, Schema] = {
            "clusters": ListOf(item=Text(most=256), least=1, most=20, is_atomic=True),
            "quotaManagement": Text(choices=("Manual", "Automated")),
        }
    else:
        spec = {"clusters": ListOf(item=PLAIN_TEXT, least=1, most=20, is_set=True)}
    return root(spec=Struct(fields=spec, required=("clusters",)))


def _multikueue_cluster(version: str) -> Struct:
    is_hub = version == HUB
    profile = Struct(fields={"name": Text(least=1, most=256)}, required=("name",))
    kube_config = Struct(
        fields={
            "location": Text(least=1, most=256) if is_hub else PLAIN_TEXT,
            "locationType": Text(choices=("Secret", "Path")),
        },
        required=("location",) if is_hub else ("location", "locationType"),
        defaults={"locationType": "Secret"},
    )
    sources: dict[str, Schema] = {"clusterProfileRef": profile, "kubeConfig": kube_config}
    if is_hub:
        spec = Struct(fields={"clusterSource": Struct(fields=sources)}, required=("clusterSource",))
    else:
        spec = Struct(fields=sources, required=("kubeConfig",))
    return root(spec=spec, status=Struct(fields={"conditions": conditions(is_hub=is_hub)}))


def _provisioning_request_config(version: str) -> Struct:
    is_hub = version == HUB
    detail = Struct(
        fields={
            "key": Text(least=1, most=317, form=QUALIFIED_NAME),
            "valueFromProvisioningClassDetail": Text(least=1, most=32768),
        },
        required=("key", "valueFromProvisioningClassDetail"),
    )
    retry = {"backoffBaseSeconds": 60, "backoffLimitCount": 3, "backoffMaxSeconds": 1800}
    selector = ListOf(item=detail, most=8, keys=("key",) if is_hub else ())
    return root(
        spec=Struct(
            fields={
                "managedResources": ListOf(item=PLAIN_TEXT, most=100, is_set=True),
                "parameters": MapOf(item=Text(most=255), most=100),
                "podSetMergePolicy": Text(choices=("IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements")),
                "podSetUpdates": Struct(fields={"nodeSelector": selector}),
                "provisioningClassName": Text(least=1 if is_hub else 0, most=253, form=DNS_SUBDOMAIN),
                "retryStrategy": Struct(fields=dict.fromkeys(retry, _INT32), defaults=retry),
            },
            required=("provisioningClassName",),
            defaults={"retryStrategy": dict(retry)},
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind: what it is called, where it lives, and its shape in each version."""

    name: str
    plural: str
    short_names: tuple[str, ...]
    is_namespaced: bool
    has_status: bool
    shapes: Mapping[str, Struct]


_SHAPES = {
    "AdmissionCheck": _admission_check,
    "ClusterQueue": _cluster_queue,
    "Cohort": _cohort,
    "LocalQueue": _local_queue,
    "MultiKueueCluster": _multikueue_cluster,
    "MultiKueueConfig": _multikueue_config,
    "ProvisioningRequestConfig": _provisioning_request_config,
    "ResourceFlavor": _resource_flavor,
    "Topology": _topology,
    "Workload": workload,
    "WorkloadPriorityClass": _workload_priority_class,
}
# kind: plural, short names
_NAMES = {
    "AdmissionCheck": ("admissionchecks", ("ac",)),
    "ClusterQueue": ("clusterqueues", ("cq",)),
    "Cohort": ("cohorts", ("co",)),
    "LocalQueue": ("localqueues", ("queue", "queues", "lq")),
    "MultiKueueCluster": ("multikueueclusters", ("mkc",)),
    "MultiKueueConfig": ("multikueueconfigs", ("mkconf",)),
    "ProvisioningRequestConfig": ("provisioningrequestconfigs", ("prc",)),
    "ResourceFlavor": ("resourceflavors", ("flavor", "flavors", "rf")),
    "Topology": ("topologies", ("topo",)),
    "Workload": ("workloads", ("kwl", "kueueworkload", "kueueworkloads")),
    "WorkloadPriorityClass": ("workloadpriorityclasses", ("wpc",)),
}
_NAMESPACED = frozenset({"LocalQueue", "Workload"})


def _kind(name: str) -> Kind:
    plural, short_names = _NAMES[name]
    shapes = {version: _SHAPES[name](version) for version in VERSIONS}
    return Kind(
        name=name,
        plural=plural,
        short_names=short_names,
        is_namespaced=name in _NAMESPACED,
        has_status="status" in shapes[HUB].fields,
        shapes=shapes,
    )


KINDS: Mapping[str, Kind] = {name: _kind(name) for name in _SHAPES}
