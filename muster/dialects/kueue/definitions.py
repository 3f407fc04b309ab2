"""Definitions of Kueue's kinds, for clusters that have none. `app` writes them out.

Both versions are served and v1beta2 is stored; somebody has to translate between them, which the caller says. Strict
definitions are the ones that Kueue has. The others let pass what `forgiving` reads as meant, so that the webhooks get
to see it: they refuse it where `strictValidation` is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from muster.dialects.kueue.definitions_rules import rules_of
from muster.dialects.kueue.kinds import HUB, KINDS
from muster.dialects.kueue.names import GROUP
from muster.model.definitions import AGE, Column, Definition, Object, Version, Words, definition_object
from muster.model.shapes import ListOf, Struct, Whole

_GOES_AWAY = f"{GROUP}/v1beta1 goes away; write {GROUP}/{HUB}."
# Kueue says of all kinds but this that the older version goes away, and users' tools may count such warnings.
_KEEPS_OLDER = frozenset({"MultiKueueConfig"})
_PENDING = Column(name="Pending Workloads", path=".status.pendingWorkloads", type="integer")


def _status_of(condition: str) -> str:
    return f".status.conditions[?(@.type=='{condition}')].status"


def _columns(kind: str, version: str) -> tuple[Column, ...]:
    admitted = ".status.admittedWorkloads"
    match kind:
        case "ClusterQueue":
            return (
                Column(name="Cohort", path=".spec.cohortName" if version == HUB else ".spec.cohort"),
                Column(name="Strategy", path=".spec.queueingStrategy", priority=1),
                _PENDING,
                Column(name="Admitted Workloads", path=admitted, type="integer", priority=1),
            )
        case "LocalQueue":
            return (
                Column(name="ClusterQueue", path=".spec.clusterQueue"),
                _PENDING,
                Column(name="Admitted Workloads", path=admitted, type="integer"),
            )
        case "MultiKueueCluster":
            return (Column(name="Connected", path=_status_of("Active")), AGE)
        case "Workload":
            return (
                Column(name="Queue", path=".spec.queueName"),
                Column(name="Reserved in", path=".status.admission.clusterQueue"),
                Column(name="Admitted", path=_status_of("Admitted")),
                Column(name="Finished", path=_status_of("Finished")),
                AGE,
            )
        case "WorkloadPriorityClass":
            return (Column(name="Value", path=".value", type="integer"),)
    return ()


_WORDS: Mapping[str, Words] = {
    "AdmissionCheck": {
        "": "Something that a workload waits for beside quota.",
        "spec.controllerName": "Who decides; workloads wait until it has.",
        "spec.parameters": "The object that tells the controller more.",
    },
    "ClusterQueue": {
        "": "A share of the cluster: quota for each flavor and resource, and rules for using it.",
        "spec.cohortName": "The cohort whose queues lend to each other.",
        "spec.cohort": "The cohort whose queues lend to each other.",
        "spec.resourceGroups": "The quota, in groups of resources that come from the same flavor.",
        "spec.resourceGroups[].coveredResources": "The resources that this group has quota for.",
        "spec.resourceGroups[].flavors": "The flavors in the order in which they are tried.",
        "spec.resourceGroups[].flavors[].resources[].nominalQuota": "What the queue has by itself.",
        "spec.resourceGroups[].flavors[].resources[].borrowingLimit": "The most it may take beyond that.",
        "spec.resourceGroups[].flavors[].resources[].lendingLimit": "The most of it that others may use.",
        "spec.namespaceSelector": "The namespaces whose workloads may use the queue; {} is all, nothing is none.",
        "spec.queueingStrategy": "Whether a workload that does not fit holds up those behind it.",
        "spec.preemption": "Whom a workload may evict.",
        "spec.flavorFungibility": "When the next flavor is tried before borrowing or evicting in this one.",
        "spec.admissionChecksStrategy": "What workloads wait for beside quota.",
        "spec.stopPolicy": "Hold stops new workloads, HoldAndDrain those that run too.",
        "spec.fairSharing": "The weight of the queue where shares are fair.",
    },
    "Cohort": {
        "": "Queues and other cohorts that lend to each other, with quota of its own.",
        "spec.parentName": "The cohort above this one.",
        "spec.resourceGroups": "Quota that all queues below share.",
    },
    "LocalQueue": {
        "": "The name under which a namespace's jobs reach a ClusterQueue.",
        "spec.clusterQueue": "The ClusterQueue that the quota comes from.",
        "spec.stopPolicy": "Hold stops new workloads, HoldAndDrain those that run too.",
    },
    "MultiKueueCluster": {"": "Another cluster that workloads may be sent to."},
    "MultiKueueConfig": {"": "The clusters that workloads of a check may be sent to."},
    "ProvisioningRequestConfig": {"": "How nodes are asked for before workloads start."},
    "ResourceFlavor": {
        "": "A class of nodes that quota is counted in.",
        "spec.nodeLabels": "The labels by which its nodes are found.",
        "spec.nodeTaints": "The taints of its nodes; only workloads that tolerate them get the flavor.",
        "spec.tolerations": "Tolerations that pods get with the flavor.",
        "spec.topologyName": "The topology of its nodes.",
    },
    "Topology": {
        "": "How nodes lie in the data centre: blocks, racks, hosts.",
        "spec.levels": "The labels that say where a node is, from the widest to the narrowest.",
    },
    "Workload": {
        "": "Pods that start together, what they ask for, and what they got.",
        "spec.active": "Whether it may run; false evicts it.",
        "spec.podSets": "Groups of equal pods.",
        "spec.podSets[].count": "How many pods there are.",
        "spec.podSets[].minCount": "How few will do.",
        "spec.podSets[].replicas": "Read as count; write count.",
        "spec.queueName": "The LocalQueue that it waits in.",
        "spec.priority": "Which workload is first: the higher number.",
        "status.admission": "The quota that it holds, and where its pods go.",
    },
    "WorkloadPriorityClass": {
        "": "A name for a priority of workloads; the pods' own priority is not touched.",
        "value": "The priority: the higher number is first.",
    },
}


def _with_replicas(workload: Struct) -> Struct:
    """A workload whose pod sets may say `replicas`: a field that a definition lacks is gone before anybody sees it."""
    spec = workload.fields["spec"]
    assert isinstance(spec, Struct), "the spec of a workload is an object"
    pod_sets = spec.fields["podSets"]
    assert isinstance(pod_sets, ListOf) and isinstance(pod_sets.item, Struct), "pod sets are a list of objects"
    pod_set = replace(pod_sets.item, fields={**pod_sets.item.fields, "replicas": Whole(least=0)})
    changed = replace(spec, fields={**spec.fields, "podSets": replace(pod_sets, item=pod_set)})
    return replace(workload, fields={**workload.fields, "spec": changed})


def _definition(name: str, *, is_strict: bool) -> Definition:
    kind = KINDS[name]
    reads_replicas = name == "Workload" and not is_strict
    return Definition(
        group=GROUP,
        kind=name,
        plural=kind.plural,
        short_names=kind.short_names,
        is_namespaced=kind.is_namespaced,
        words=_WORDS[name],
        versions=tuple(
            Version(
                name=version,
                shape=_with_replicas(shape) if reads_replicas else shape,
                is_stored=version == HUB,
                has_status=kind.has_status,
                warning=_GOES_AWAY if version != HUB and name not in _KEEPS_OLDER else "",
                columns=_columns(name, version),
                rules=rules_of(name, is_hub=version == HUB, is_strict=is_strict),
                selectable=(".status.admission.clusterQueue",) if name == "Workload" and version == HUB else (),
            )
            for version, shape in kind.shapes.items()
        ),
    )


def definitions(conversion: Object | None, *, is_strict: bool = False) -> list[Object]:
    """The CustomResourceDefinitions of all Kueue's kinds; `conversion` says who translates between the versions."""
    return [definition_object(_definition(name, is_strict=is_strict), conversion=conversion) for name in sorted(KINDS)]
