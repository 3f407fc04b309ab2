"""The controllers of replica sets and what is built on them, and what they look things up by. Read by `__init__`."""

from __future__ import annotations

from collections.abc import Mapping

from muster.controllers.builtin.daemonset import DaemonSets
from muster.controllers.builtin.deployment import Deployments
from muster.controllers.builtin.owners import ORPHANS, orphan_terms
from muster.controllers.builtin.replicaset import REPLICA_SET, REPLICATION_CONTROLLER
from muster.controllers.builtin.statefulset import StatefulSets
from muster.controllers.loop import Controller
from muster.controllers.view import Terms

WORKLOADS: tuple[Controller, ...] = (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    Deployments(),
    StatefulSets(),
    DaemonSets(),
)
WORKLOAD_INDEXES: Mapping[tuple[str, str], Terms] = {
    (resource, ORPHANS): orphan_terms for resource in ("pods", "replicasets.apps", "controllerrevisions.apps")
}
WORKLOAD_RESOURCES = frozenset(
    {
        "controllerrevisions.apps",
        "daemonsets.apps",
        "deployments.apps",
        "nodes",
        "persistentvolumeclaims",
        "pods",
        "replicasets.apps",
        "replicationcontrollers",
        "statefulsets.apps",
    }
)
