"""Definitions of Volcano's kinds, for clusters that have none and for the embedded server."""

from __future__ import annotations

from muster.dialects.volcano import kinds, kinds_jobs
from muster.model.definitions import AGE, Column, Definition, Object, Rule, Rules, Version, definition_object
from muster.model.shapes import Struct

_AGE = Column(name="AGE", path=AGE.path, type="date")
_WIDE_QUEUE = Column(name="QUEUE", path=".spec.queue", priority=1)
_HYPER_NODE_RULES: Rules = {
    "spec.members[].selector": (
        Rule(
            # Counting them in a list would cost more than a cluster grants a rule in a list of any length.
            "has(self.exactMatch) ? !has(self.regexMatch) && !has(self.labelMatch)"
            " : has(self.regexMatch) != has(self.labelMatch)",
            "give exactly one of exactMatch, regexMatch and labelMatch",
        ),
    )
}


def _version(
    name: str, shape: Struct, *columns: Column, has_status: bool = True, rules: Rules | None = None
) -> Version:
    return Version(name=name, shape=shape, columns=columns, has_status=has_status, rules=rules or {})


KINDS: tuple[Definition, ...] = (
    Definition(
        group="scheduling.volcano.sh",
        kind="Queue",
        plural="queues",
        short_names=("q", "queue-v1beta1"),
        is_namespaced=False,
        versions=(_version("v1beta1", kinds.QUEUE, Column(name="PARENT", path=".spec.parent")),),
        words={
            "": "A share of the cluster that groups of pods wait for and run in.",
            "spec.weight": "The share of what no queue is promised, in relation to the other queues.",
            "spec.capability": "The most that the queue may use.",
            "spec.deserved": "What the queue may take back from others that use more than theirs.",
            "spec.guarantee": "What is kept for the queue even while it does not use it.",
            "spec.parent": "The queue above this one; without it the root.",
            "spec.priority": "Which queue is served first: the higher number.",
            "spec.reclaimable": "Whether others may take back what the queue uses beyond its share.",
            "spec.dequeueStrategy": "Whether a group that does not fit holds up those behind it: fifo, or traverse.",
        },
    ),
    Definition(
        group="scheduling.volcano.sh",
        kind="PodGroup",
        plural="podgroups",
        short_names=("pg", "podgroup-v1beta1"),
        is_namespaced=True,
        versions=(
            _version(
                "v1beta1",
                kinds.POD_GROUP,
                Column(name="STATUS", path=".status.phase"),
                Column(name="minMember", path=".spec.minMember", type="integer"),
                Column(name="RUNNINGS", path=".status.running", type="integer"),
                _AGE,
                _WIDE_QUEUE,
                has_status=False,
            ),
        ),
        words={
            "": "Pods of which so many must start together, or none.",
            "spec.minMember": "How many pods must start together.",
            "spec.minTaskMember": "How many pods of each task must start together.",
            "spec.minResources": "What the group needs before its pods are made.",
            "spec.queue": "The queue that the group waits in.",
            "spec.networkTopology": "How near to each other the pods must be placed.",
        },
    ),
    Definition(
        group="topology.volcano.sh",
        kind="HyperNode",
        plural="hypernodes",
        short_names=("hn",),
        is_namespaced=False,
        versions=(
            Version(
                name="v1alpha1",
                shape=kinds.HYPER_NODE,
                columns=(
                    Column(name="Tier", path=".spec.tier"),
                    Column(name="TierName", path=".spec.tierName"),
                    Column(name="NodeCount", path=".status.nodeCount", type="integer"),
                    AGE,
                ),
                rules=_HYPER_NODE_RULES,
            ),
        ),
        words={
            "": "A part of the network: nodes, or smaller parts, that are near to each other.",
            "spec.tier": "How far up the network it is; the smaller, the nearer its members are.",
            "spec.members": "The nodes or smaller parts that it consists of.",
        },
    ),
    Definition(
        group="nodeinfo.volcano.sh",
        kind="Numatopology",
        plural="numatopologies",
        short_names=("numatopo",),
        is_namespaced=False,
        versions=(_version("v1alpha1", kinds.NUMA_TOPOLOGY, has_status=False),),
        words={"": "What a node tells of its processors and memory, and of who holds them."},
    ),
    Definition(
        group="bus.volcano.sh",
        kind="Command",
        plural="commands",
        is_namespaced=True,
        versions=(_version("v1alpha1", kinds.COMMAND, has_status=False),),
        words={"": "Something that a job or a queue is told to do, once."},
    ),
    Definition(
        group="batch.volcano.sh",
        kind="Job",
        plural="jobs",
        short_names=("vcjob", "vj"),
        is_namespaced=True,
        versions=(
            _version(
                "v1alpha1",
                kinds_jobs.JOB,
                Column(name="STATUS", path=".status.state.phase"),
                Column(name="minAvailable", path=".status.minAvailable", type="integer"),
                Column(name="RUNNINGS", path=".status.running", type="integer"),
                _AGE,
                _WIDE_QUEUE,
            ),
        ),
        words={
            "": "Tasks of several pods each that start together.",
            "spec.minAvailable": "How many pods of all tasks must start together.",
            "spec.tasks": "The tasks, each with a template of its pods.",
            "spec.queue": "The queue that the job waits in.",
            "spec.policies": "What is done when something happens to a pod or a task.",
        },
    ),
    Definition(
        group="batch.volcano.sh",
        kind="CronJob",
        plural="cronjobs",
        short_names=("cronvcjob", "cronvj"),
        is_namespaced=True,
        versions=(_version("v1alpha1", kinds_jobs.CRON_JOB),),
        words={"": "A job that is made anew at set times."},
    ),
    Definition(
        group="flow.volcano.sh",
        kind="JobTemplate",
        plural="jobtemplates",
        short_names=("jt",),
        is_namespaced=True,
        versions=(_version("v1alpha1", kinds_jobs.JOB_TEMPLATE),),
        words={"": "A job that flows make copies of."},
    ),
    Definition(
        group="flow.volcano.sh",
        kind="JobFlow",
        plural="jobflows",
        short_names=("jf",),
        is_namespaced=True,
        versions=(_version("v1alpha1", kinds_jobs.JOB_FLOW, Column(name="Status", path=".status.state.phase"), AGE),),
        words={"": "Jobs made from templates, one after the other as they depend on each other."},
    ),
)


def definitions() -> list[Object]:
    """The CustomResourceDefinitions of all Volcano's kinds."""
    return [definition_object(kind) for kind in KINDS]
