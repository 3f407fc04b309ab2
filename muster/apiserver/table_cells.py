"""Which columns the table of a kind has, and what each shows of an object. Called by `tables`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muster.apiserver import table_cells_access as access
from muster.apiserver import table_cells_cluster as cluster
from muster.apiserver import table_cells_kueue as kueue
from muster.apiserver import table_cells_workloads as workloads
from muster.apiserver.facts import KINDS, Column
from muster.apiserver.table_cells_pods import POD
from muster.apiserver.table_texts import AGE, NAME, Cell, Cells, age, field

# The columns that every kind shows alike; what a kind says of its own goes before them.
_COMMON: Cells = {
    "Name": field("metadata.name"),
    "Age": age,
    "Created At": field("metadata.creationTimestamp"),
}
_BUILT_IN: Mapping[str, Cells] = {
    "APIService": access.API_SERVICE,
    "CSIDriver": cluster.CSI_DRIVER,
    "CSINode": cluster.CSI_NODE,
    "CertificateSigningRequest": access.CERTIFICATE_SIGNING_REQUEST,
    "ClusterRoleBinding": access.ROLE_BINDING,
    "ComponentStatus": cluster.COMPONENT_STATUS,
    "ConfigMap": cluster.CONFIG_MAP,
    "ControllerRevision": workloads.CONTROLLER_REVISION,
    "CronJob": workloads.CRON_JOB,
    "DaemonSet": workloads.DAEMON_SET,
    "Deployment": workloads.DEPLOYMENT,
    "EndpointSlice": cluster.ENDPOINT_SLICE,
    "Endpoints": cluster.ENDPOINTS,
    "Event": access.EVENT,
    "FlowSchema": access.FLOW_SCHEMA,
    "HorizontalPodAutoscaler": workloads.HORIZONTAL_POD_AUTOSCALER,
    "IPAddress": cluster.IP_ADDRESS,
    "Ingress": cluster.INGRESS,
    "IngressClass": cluster.INGRESS_CLASS,
    "Job": workloads.JOB,
    "Lease": cluster.LEASE,
    "MutatingAdmissionPolicy": access.MUTATING_POLICY,
    "MutatingAdmissionPolicyBinding": access.ADMISSION_POLICY_BINDING,
    "MutatingWebhookConfiguration": access.WEBHOOK_CONFIGURATION,
    "Namespace": cluster.NAMESPACE,
    "NetworkPolicy": cluster.NETWORK_POLICY,
    "Node": cluster.NODE,
    "PersistentVolume": cluster.PERSISTENT_VOLUME,
    "PersistentVolumeClaim": cluster.PERSISTENT_VOLUME_CLAIM,
    "Pod": POD,
    "PodDisruptionBudget": workloads.POD_DISRUPTION_BUDGET,
    "PodTemplate": workloads.POD_TEMPLATE,
    "PriorityClass": workloads.PRIORITY_CLASS,
    "PriorityLevelConfiguration": access.PRIORITY_LEVEL_CONFIGURATION,
    "ReplicaSet": workloads.REPLICA_SET,
    "ReplicationController": workloads.REPLICATION_CONTROLLER,
    "ResourceClaim": workloads.RESOURCE_CLAIM,
    "ResourceQuota": cluster.RESOURCE_QUOTA,
    "ResourceSlice": workloads.RESOURCE_SLICE,
    "RoleBinding": access.ROLE_BINDING,
    "RuntimeClass": cluster.RUNTIME_CLASS,
    "Secret": cluster.SECRET,
    "Service": cluster.SERVICE,
    "ServiceCIDR": cluster.SERVICE_CIDR,
    "StatefulSet": workloads.STATEFUL_SET,
    "StorageClass": cluster.STORAGE_CLASS,
    "ValidatingAdmissionPolicy": access.VALIDATING_POLICY,
    "ValidatingAdmissionPolicyBinding": access.ADMISSION_POLICY_BINDING,
    "ValidatingWebhookConfiguration": access.WEBHOOK_CONFIGURATION,
    "VolumeAttachment": cluster.VOLUME_ATTACHMENT,
    "VolumeAttributesClass": cluster.VOLUME_ATTRIBUTES_CLASS,
}

# A part of other kinds that is never listed, and so has no facts of its own.
_SCALE = ("autoscaling", "v1", "Scale")
_SCALE_COLUMNS = (
    Column(name="Name", type="string"),
    Column(name="Desired", type="integer"),
    Column(name="Available", type="integer"),
    Column(name="Age", type="string"),
)
_SCALE_CELLS: Cells = {"Desired": field("spec.replicas", 0), "Available": field("status.replicas", 0)}


class Shown(NamedTuple):
    """A column and what it shows."""

    column: Column
    cell: Cell


def shown(group: str, version: str, kind: str) -> tuple[Shown, ...]:
    """The columns of a kind; one that nothing is known of shows its name and its age."""
    own: Cells = {}
    columns: tuple[Column, ...] = ()
    if (group, version, kind) in KINDS:
        columns, own = KINDS[group, version, kind].columns, _BUILT_IN.get(kind, {})
    elif (group, version, kind) == _SCALE:
        columns, own = _SCALE_COLUMNS, _SCALE_CELLS
    elif group == kueue.GROUP:
        columns, own = kueue.COLUMNS.get(kind, ()), kueue.CELLS.get(kind, {})
    return tuple(Shown(one, own.get(one.name) or _COMMON[one.name]) for one in columns or (NAME, AGE))
