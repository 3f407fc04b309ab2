"""What tables show of Kueue's kinds: the columns that its own definitions have. Part of `table_cells`.

A field that is not there is no text but nothing, as in every table of a kind that is not built in.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.apiserver.facts import Column
from muster.apiserver.table_texts import AGE, NAME, Cell, Cells, Object, at, condition, field

GROUP = "kueue.x-k8s.io"


def _condition(kind: str) -> Cell:
    return lambda item, _: (condition(item, kind) or {}).get("status")


def _cohort(queue: Object, _: float) -> object:
    return at(queue, "spec.cohortName") or at(queue, "spec.cohort")  # the second is the name in v1beta1


_PENDING = Column(name="Pending Workloads", type="integer")
_ADMITTED = "Admitted Workloads"

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "ClusterQueue": (
        NAME,
        Column(name="Cohort", type="string"),
        Column(name="Strategy", type="string", priority=1),
        _PENDING,
        Column(name=_ADMITTED, type="integer", priority=1),
    ),
    "LocalQueue": (
        NAME,
        Column(name="ClusterQueue", type="string"),
        _PENDING,
        Column(name=_ADMITTED, type="integer"),
    ),
    "MultiKueueCluster": (NAME, Column(name="Connected", type="string"), AGE),
    "Workload": (
        NAME,
        Column(name="Queue", type="string"),
        Column(name="Reserved in", type="string"),
        Column(name="Admitted", type="string"),
        Column(name="Finished", type="string"),
        AGE,
    ),
    "WorkloadPriorityClass": (NAME, Column(name="Value", type="integer")),
}
_COUNTS: Cells = {
    "Pending Workloads": field("status.pendingWorkloads", None),
    _ADMITTED: field("status.admittedWorkloads", None),
}
CELLS: Mapping[str, Cells] = {
    "ClusterQueue": {"Cohort": _cohort, "Strategy": field("spec.queueingStrategy", None), **_COUNTS},
    "LocalQueue": {"ClusterQueue": field("spec.clusterQueue", None), **_COUNTS},
    "MultiKueueCluster": {"Connected": _condition("Active")},
    "Workload": {
        "Queue": field("spec.queueName", None),
        "Reserved in": field("status.admission.clusterQueue", None),
        "Admitted": _condition("Admitted"),
        "Finished": _condition("Finished"),
    },
    "WorkloadPriorityClass": {"Value": field("value", None)},
}
