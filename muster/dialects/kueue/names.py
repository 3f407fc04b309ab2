"""Names of Kueue's API that readers and writers share."""

from __future__ import annotations

GROUP = "kueue.x-k8s.io"

QUEUE_NAME = f"{GROUP}/queue-name"
PRIORITY_CLASS = f"{GROUP}/priority-class"
PRIORITY_BOOST = f"{GROUP}/priority-boost"
ALLOWED_FLAVORS = f"{GROUP}/workload-allowed-resource-flavors"
SLICE_REPLACEMENT_FOR = f"{GROUP}/workload-slice-replacement-for"
ADMISSION_GATED_BY = f"{GROUP}/admission-gated-by"
VARIANT_PARENT = f"{GROUP}/concurrent-admission-parent"
IS_GROUP = f"{GROUP}/is-group-workload"
TOPOLOGY_MANAGED = f"{GROUP}/tas"
TOPOLOGY_GATE = f"{GROUP}/topology"
JOB_UID = f"{GROUP}/job-uid"
POD_SET = f"{GROUP}/podset"
WORKLOAD = f"{GROUP}/workload"

# Muster's own: a workload that says false here is no victim, where the setting to honour it is on.
PREEMPTIBLE = "muster.dev/preemptible"
# Also Muster's: a LocalQueue or ClusterQueue whose annotation says so leaves the choice of nodes to kube-scheduler.
PLACEMENT = "muster.dev/placement"
KUBE_SCHEDULER = "kube-scheduler"
# Also Muster's: the label of a namespace that has a LocalQueue for jobs that name none.
HAS_DEFAULT_QUEUE = "muster.dev/default-queue"

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def cohort_name(name: str) -> str:
    """The tree's name of a cohort: a queue and a cohort may be called the same."""
    return f"cohort {name}"


def own_cohort_name(name: str) -> str:
    """The same the other way round."""
    return name.removeprefix("cohort ")


# Controllers of checks during which nodes appear or a cluster is chosen.
MULTIKUEUE = f"{GROUP}/multikueue"  # also who manages jobs that run in another cluster
DELAYING_CONTROLLERS = (f"{GROUP}/provisioning-request", MULTIKUEUE)
MULTIKUEUE_ORIGIN = f"{GROUP}/multikueue-origin"  # the label of what was made for another cluster
