"""The controllers of replica sets and what is built on them, and what they look things up by. Read by `__init__`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.controllers.builtin.daemonset import DaemonSets
from muster.controllers.builtin.deployment import Deployments
from muster.controllers.builtin.disruption import DisruptionBudgets
from muster.controllers.builtin.endpoints import EndpointsOfServices
from muster.controllers.builtin.endpointslices import EndpointSlices
from muster.controllers.builtin.ephemeral_claims import EphemeralClaims
from muster.controllers.builtin.owners import ORPHANS, orphan_terms
from muster.controllers.builtin.replicaset import replica_sets, replication_controllers
from muster.controllers.builtin.service_ports import LABELS, label_terms
from muster.controllers.builtin.statefulset import StatefulSets
from muster.controllers.builtin.volumes import INDEXES as VOLUME_INDEXES
from muster.controllers.builtin.volumes import RESOURCES as VOLUME_RESOURCES
from muster.controllers.builtin.volumes import Volumes
from muster.controllers.loop import Controller
from muster.controllers.view import Terms

WORKLOAD_CONTROLLERS: tuple[Callable[[], Controller], ...] = (
    replica_sets,
    replication_controllers,
    Deployments,
    StatefulSets,
    DaemonSets,
    EndpointsOfServices,
    EndpointSlices,
    DisruptionBudgets,
    Volumes,
    EphemeralClaims,
)
WORKLOAD_INDEXES: Mapping[tuple[str, str], Terms] = {
    ("pods", ORPHANS): orphan_terms,
    ("pods", LABELS): label_terms,
    ("replicasets.apps", ORPHANS): orphan_terms,
    **VOLUME_INDEXES,
}
WORKLOAD_RESOURCES = VOLUME_RESOURCES | frozenset(
    {
        "controllerrevisions.apps",
        "daemonsets.apps",
        "deployments.apps",
        "endpoints",
        "endpointslices.discovery.k8s.io",
        "nodes",
        "persistentvolumeclaims",
        "poddisruptionbudgets.policy",
        "pods",
        "replicasets.apps",
        "replicationcontrollers",
        "services",
        "statefulsets.apps",
    }
)
