"""The shape of a Workload in both versions: pod sets, and the status that the scheduler writes."""

from __future__ import annotations

from muster.dialects.kueue.kinds_common import (
    LABELS,
    NAME_REFERENCE,
    PLAIN_TEXT,
    POD_SET_NAME,
    QUANTITIES,
    TOLERATIONS,
    conditions,
)
from muster.model.definitions import root
from muster.model.shapes import Flag, ListOf, MapOf, Moment, Schema, Struct, Text, Whole
from muster.model.shapes_pod import POD_TEMPLATE
from muster.model.texts import DNS_SUBDOMAIN

POD_SETS_MOST = 18
LEVELS_MOST = 16
SLICES_MOST = 1000
DOMAINS_MOST = 100_000

_COUNT = Whole(least=0)
_POSITIVE = Whole(least=1)
_INT32 = Whole()
_NAME_OF_DOMAIN = Text(most=63)


def workload(version: str) -> Struct:
    """The whole object."""
    is_hub = version == "v1beta2"
    return root(spec=_spec(is_hub=is_hub), status=_status(is_hub=is_hub))


def _spec(*, is_hub: bool) -> Struct:
    fields: dict[str, Schema] = {
        "active": Flag(),
        "maximumExecutionTimeSeconds": _POSITIVE,
        "podSets": ListOf(item=_pod_set(is_hub=is_hub), least=1, most=POD_SETS_MOST, keys=("name",)),
        "priority": _INT32,
        "queueName": NAME_REFERENCE,
    }
    if is_hub:
        gate = Struct(fields={"name": Text(least=1, most=63)}, required=("name",))
        fields["preemptionGates"] = ListOf(item=gate, most=8, keys=("name",))
        fields["priorityClassRef"] = Struct(
            fields={
                "group": Text(choices=("kueue.x-k8s.io", "scheduling.k8s.io")),
                "kind": Text(choices=("WorkloadPriorityClass", "PriorityClass")),
                "name": Text(least=1, most=253, form=DNS_SUBDOMAIN),
            },
            required=("group", "kind", "name"),
        )
        return Struct(fields=fields, defaults={"active": True})
    sources = ("kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", "")
    fields["priorityClassName"] = NAME_REFERENCE
    fields["priorityClassSource"] = Text(choices=sources)
    return Struct(fields=fields, required=("podSets",), defaults={"active": True, "priorityClassSource": ""})


def _pod_set(*, is_hub: bool) -> Struct:
    label = Text(most=317) if is_hub else PLAIN_TEXT
    level = _NAME_OF_DOMAIN if is_hub else PLAIN_TEXT
    request: dict[str, Schema] = {
        "podIndexLabel": label,
        "podSetGroupName": Text(most=256) if is_hub else PLAIN_TEXT,
        "podSetSliceRequiredTopology": level,
        "podSetSliceSize": _POSITIVE,
        "preferred": level,
        "required": level,
        "subGroupCount": _COUNT if is_hub else _INT32,
        "subGroupIndexLabel": label,
        "unconstrained": Flag(),
    }
    if is_hub:
        layer = Struct(fields={"size": _POSITIVE, "topology": Text(least=1, most=63)}, required=("size", "topology"))
        request["podsetSliceRequiredTopologyConstraints"] = ListOf(item=layer, most=3, is_atomic=True)
    return Struct(
        fields={
            "count": _COUNT,
            "minCount": _POSITIVE,
            "name": POD_SET_NAME,
            "template": POD_TEMPLATE,
            "topologyRequest": Struct(fields=request),
        },
        required=("template",) if is_hub else ("count", "template"),
        defaults={"count": 1, "name": "main"},
    )


def _status(*, is_hub: bool) -> Struct:
    cluster = Text(most=256) if is_hub else PLAIN_TEXT
    spent = "accumulatedPastExecutionTimeSeconds" if is_hub else "accumulatedPastExexcutionTimeSeconds"
    eviction = Struct(
        fields={"count": _COUNT, "reason": Text(most=316), "underlyingCause": Text(most=316)},
        required=("count", "reason", "underlyingCause"),
    )
    evictions = ListOf(item=eviction, most=256 if is_hub else None, keys=("reason", "underlyingCause"))
    node = Struct(fields={"name": _NAME_OF_DOMAIN if is_hub else PLAIN_TEXT}, required=("name",))
    fields: dict[str, Schema] = {
        spent: _INT32,
        "admission": _admission(is_hub=is_hub),
        "admissionChecks": ListOf(item=_admission_check(is_hub=is_hub), most=8, keys=("name",)),
        "clusterName": cluster,
        "conditions": conditions(is_hub=is_hub),
        "nominatedClusterNames": ListOf(item=cluster, most=20, is_atomic=True),
        "reclaimablePods": ListOf(
            item=Struct(fields={"count": _COUNT, "name": POD_SET_NAME}, required=("count", "name")),
            most=POD_SETS_MOST,
            keys=("name",),
        ),
        "requeueState": Struct(fields={"count": _COUNT, "requeueAt": Moment()}),
        "resourceRequests": ListOf(
            item=Struct(fields={"name": POD_SET_NAME, "resources": QUANTITIES}, required=("name",)),
            most=POD_SETS_MOST,
            keys=("name",),
        ),
        "schedulingStats": Struct(fields={"evictions": evictions}),
        "unhealthyNodes": ListOf(item=node, most=8, keys=("name",)) if is_hub else ListOf(item=node),
    }
    if is_hub:
        gate = Struct(
            fields={
                "lastTransitionTime": Moment(),
                "name": Text(least=1, most=63),
                "position": Text(choices=("Closed", "Open")),
            },
            required=("lastTransitionTime", "name", "position"),
        )
        fields["preemptionGates"] = ListOf(item=gate, most=8, keys=("name",))
    return Struct(fields=fields)


def _admission(*, is_hub: bool) -> Struct:
    assignment = Struct(
        fields={
            "count": _COUNT,
            "delayedTopologyRequest": Text(most=7, choices=("Pending", "Ready")) if is_hub else PLAIN_TEXT,
            "flavors": MapOf(item=NAME_REFERENCE),
            "name": POD_SET_NAME,
            "resourceUsage": QUANTITIES,
            "topologyAssignment": _sliced_assignment() if is_hub else _listed_assignment(),
        },
        required=() if is_hub else ("name",),
        defaults={"name": "main"},
    )
    return Struct(
        fields={
            "clusterQueue": NAME_REFERENCE,
            "podSetAssignments": ListOf(item=assignment, most=POD_SETS_MOST, keys=("name",)),
        },
        required=() if is_hub else ("clusterQueue", "podSetAssignments"),
    )


def _listed_assignment() -> Struct:
    """Where pods go as v1beta1 writes it: every domain with its own values."""
    domain = Struct(
        fields={
            "count": _POSITIVE,
            "values": ListOf(item=PLAIN_TEXT, least=1, most=LEVELS_MOST, is_atomic=True),
        },
        required=("count", "values"),
    )
    return Struct(
        fields={
            "domains": ListOf(item=domain),
            "levels": ListOf(item=PLAIN_TEXT, least=1, most=LEVELS_MOST, is_atomic=True),
        },
        required=("domains", "levels"),
    )


def _sliced_assignment() -> Struct:
    """Where pods go as v1beta2 writes it: slices of domains whose values share a beginning and an end."""
    individual = Struct(
        fields={
            "prefix": _NAME_OF_DOMAIN,
            "roots": ListOf(item=_NAME_OF_DOMAIN, least=1, most=DOMAINS_MOST, is_atomic=True),
            "suffix": _NAME_OF_DOMAIN,
        },
        required=("roots",),
    )
    level_values = Struct(fields={"individual": individual, "universal": _NAME_OF_DOMAIN})
    counts = Struct(
        fields={
            "individual": ListOf(item=_POSITIVE, least=1, most=DOMAINS_MOST, is_atomic=True),
            "universal": _POSITIVE,
        }
    )
    piece = Struct(
        fields={
            "domainCount": _POSITIVE,
            "podCounts": counts,
            "valuesPerLevel": ListOf(item=level_values, least=1, most=LEVELS_MOST, is_atomic=True),
        },
        required=("domainCount", "podCounts", "valuesPerLevel"),
    )
    return Struct(
        fields={
            "levels": ListOf(item=Text(most=317), least=1, most=LEVELS_MOST, is_atomic=True),
            "slices": ListOf(item=piece, most=SLICES_MOST, is_atomic=True),
        },
        required=("levels", "slices"),
    )


def _admission_check(*, is_hub: bool) -> Struct:
    update = Struct(
        fields={
            "annotations": LABELS,
            "labels": LABELS,
            "name": POD_SET_NAME,
            "nodeSelector": LABELS,
            "tolerations": ListOf(item=TOLERATIONS.item, most=8, is_atomic=is_hub),
        },
        required=("name",),
    )
    return Struct(
        fields={
            "lastTransitionTime": Moment(),
            "message": Text(most=32768),
            "name": Text(least=1 if is_hub else 0, most=316),
            "podSetUpdates": ListOf(item=update, most=POD_SETS_MOST, is_atomic=True),
            "requeueAfterSeconds": _COUNT,
            "retryCount": _COUNT,
            "state": Text(choices=("Pending", "Ready", "Retry", "Rejected")),
        },
        required=("lastTransitionTime", "message", "name", "state"),
    )
