"""The names by which Volcano's objects and annotations go. Used by the readers and writers of this folder."""

from __future__ import annotations

SCHEDULING = "scheduling.volcano.sh/v1beta1"
TOPOLOGY = "topology.volcano.sh/v1alpha1"
QUEUES, POD_GROUPS = "queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh"  # as stores call them
HYPER_NODES, CORES = "hypernodes.topology.volcano.sh", "numatopologies.nodeinfo.volcano.sh"
QUEUE, POD_GROUP, HYPER_NODE = "Queue", "PodGroup", "HyperNode"

GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")  # on pods: the first that is there
TASK_SPEC = "volcano.sh/task-spec"
TASK_PRIORITY = "volcano.sh/task-priority"
PREEMPTABLE = "volcano.sh/preemptable"
ALLOCATED_DOMAIN = "volcano.sh/job-allocated-hypernode"

DEFAULT_QUEUE = "default"
ROOT_QUEUE = "root"
SCHEDULER = "volcano"
NAMESPACE = "volcano-system"
CONFIGURATION_MAP, CONFIGURATION_KEY = "volcano-scheduler-configmap", "volcano-scheduler.conf"
