"""What simulated users do, mix by mix: queues that lend, gangs on cards, slices of cards, pods alone, services, and
nodes that come and go.

A mix says which nodes and queues there are and what is submitted; what users and machines do besides is the same for
all and in `troubles`. All of it fits into the cluster, alone, once nothing is broken.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from muster.dialects.volcano.names import SCHEDULER as VOLCANO
from muster.dialects.yunikorn.names import SCHEDULER as YUNIKORN
from muster.dialects.yunikorn.names import TASK_GROUP_NAME, TASK_GROUPS
from muster.sim.objects import (
    GPU,
    GPU_CORES,
    GPU_MEMORY,
    PRIORITIES,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    Amounts,
    autoscaler,
    cluster_queue,
    cohort,
    cron_job,
    deployment,
    job,
    pod,
    pod_template,
)
from muster.store.kinds import Object

NAMES = tuple("abcd")  # few, so that one is used again

Submit = Callable[[Random, str], Object]

_PREEMPTION = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A kind of cluster and what is asked of it."""

    name: str
    pools: Object  # of nodes, as a file has them
    queues: Callable[[Random], list[Object]]
    submit: tuple[Submit, ...]


def _run_s(chance: Random) -> float:
    return chance.choice((1, 5, 30, 90))


def _labels(chance: Random, queues: tuple[str, ...]) -> dict[str, str]:
    return {QUEUE_LABEL: chance.choice(queues), PRIORITY_LABEL: chance.choice(tuple(PRIORITIES))}


def _template(chance: Random, asked: Amounts, run_s: float | None = None) -> Object:
    exit_code = 1 if chance.random() < 0.1 else 0
    return pod_template(asked, run_s=_run_s(chance) if run_s is None else run_s, exit_code=exit_code)


# Queues that lend to each other --------------------------------------------------------------------------------------


def _lending_queues(chance: Random) -> list[Object]:
    first, second = {"nominalQuota": "3"}, {"nominalQuota": "3"}
    if chance.random() < 0.5:
        first["borrowingLimit"] = "2"
    if chance.random() < 0.5:
        second["lendingLimit"] = "2"
    upper = chance.choice(("all", "half"))
    tree = [cohort("half", "all")] if upper == "half" else []
    return [
        *tree,
        cluster_queue("one", {"cpu": first}, cohort="all", preemption=_PREEMPTION),
        cluster_queue("two", {"cpu": second}, cohort=upper, preemption=_PREEMPTION),
        cluster_queue("lone", {"cpu": {"nominalQuota": "3"}}),
    ]


def _small_job(chance: Random, name: str) -> Object:
    template = _template(chance, {"cpu": chance.choice(("500m", "1", "1"))})
    return job(name, chance.randint(1, 3), template, labels=_labels(chance, ("one", "one", "two", "lone")))


# Gangs on whole cards ------------------------------------------------------------------------------------------------


def _card_queues(_chance: Random) -> list[Object]:
    amounts = {GPU: {"nominalQuota": "6"}}
    return [cluster_queue("main", amounts, preemption={"withinClusterQueue": "LowerPriority"})]


def _card_job(chance: Random, name: str) -> Object:
    template = _template(chance, {GPU: chance.choice(("1", "2"))})
    return job(name, chance.randint(1, 3), template, labels=_labels(chance, ("main",)))


# Slices of cards -----------------------------------------------------------------------------------------------------


def _slice_queues(_chance: Random) -> list[Object]:
    amounts = {GPU: {"nominalQuota": "40"}, GPU_MEMORY: {"nominalQuota": "100k"}, GPU_CORES: {"nominalQuota": "400"}}
    return [cluster_queue("main", amounts, preemption={"withinClusterQueue": "LowerPriority"})]


def _slice_ask(chance: Random) -> Amounts:
    cards = chance.choice((1, 1, 2))
    asked = {GPU: str(cards), GPU_MEMORY: chance.choice(("3000", "5000", "8000")) if cards == 1 else "3000"}
    return {**asked, GPU_CORES: "30"} if chance.random() < 0.5 else asked


def _slice_job(chance: Random, name: str) -> Object:
    template = _template(chance, _slice_ask(chance))
    return job(name, chance.randint(1, 3), template, labels=_labels(chance, ("main",)))


def _slice_pod(chance: Random, name: str) -> Object:
    return pod(f"pod-{name}", _template(chance, _slice_ask(chance)), {})


# Pods by themselves --------------------------------------------------------------------------------------------------


def _queued_pod(chance: Random, name: str) -> Object:
    return pod(f"pod-{name}", _template(chance, {"cpu": "1"}), _labels(chance, ("one", "one", "two", "lone")))


def _plain_pod(chance: Random, name: str) -> Object:
    template = _template(chance, {"cpu": chance.choice(("1", "2"))})
    template["spec"]["priorityClassName"] = chance.choice(tuple(PRIORITIES))
    return pod(f"plain-{name}", template, {})


# Groups of two other systems -----------------------------------------------------------------------------------------


def _group_job(chance: Random, name: str) -> Object:
    """A job whose pods are one of Volcano's groups; without a minimum, which a job that shrinks could not reach."""
    template = _template(chance, {"cpu": "1"})
    template["spec"] |= {"schedulerName": VOLCANO, "priorityClassName": chance.choice(tuple(PRIORITIES))}
    return job(f"group-{name}", chance.randint(1, 3), template)


def _application_job(chance: Random, name: str) -> Object:
    """A job whose pods are an application of YuniKorn's, a gang or not."""
    pods = chance.randint(1, 3)
    template = _template(chance, {"cpu": "1"})
    template["metadata"]["labels"] |= {"applicationId": f"app-{name}", "queue": chance.choice(("root.a", "root.b"))}
    if chance.random() < 0.5:
        groups = [{"name": "main", "minMember": pods, "minResource": {"cpu": "1"}}]
        template["metadata"]["annotations"] |= {TASK_GROUPS: json.dumps(groups), TASK_GROUP_NAME: "main"}
    template["spec"]["schedulerName"] = YUNIKORN
    return job(f"app-{name}", pods, template)


# Services and what runs by the clock ---------------------------------------------------------------------------------


def _service(chance: Random, name: str) -> Object:
    return deployment(f"web-{name}", chance.randint(1, 3), _template(chance, {"cpu": "500m"}, run_s=0))


def _autoscaler(_chance: Random, name: str) -> Object:
    return autoscaler(f"scaled-{name}", f"web-{name}")


def _regular(chance: Random, name: str) -> Object:
    labels = {QUEUE_LABEL: "lone"} if chance.random() < 0.5 else {}
    return cron_job(f"cron-{name}", _template(chance, {"cpu": "500m"}), **labels)


_CPU_NODES: Object = {"pools": [{"name": "cpu", "count": 3, "capacity": {"cpu": "4"}}]}
_ELASTIC_NODES: Object = {
    "pools": [
        {"name": "few", "minimum": 1, "maximum": 2, "capacity": {"cpu": "4"}, "nodeStartTime": "5s", "idleTime": "20s"},
        {
            "name": "more",
            "minimum": 0,
            "maximum": 3,
            "capacity": {"cpu": "4"},
            "nodeStartTime": "15s",
            "idleTime": "9s",
        },
    ]
}
_CARDS = {"count": 2, "memory": "10Gi", "slots": 10}

MIXES = (
    Mix(name="lending", pools=_CPU_NODES, queues=_lending_queues, submit=(_small_job,)),
    Mix(
        name="gangs",
        pools={"pools": [{"name": "gpu", "count": 2, "capacity": {GPU: "4", "cpu": "16"}}]},
        queues=_card_queues,
        submit=(_card_job,),
    ),
    Mix(
        name="slices",
        pools={"pools": [{"name": "gpu", "count": 2, "cards": _CARDS}]},
        queues=_slice_queues,
        submit=(_slice_job, _slice_pod),
    ),
    Mix(name="pods", pools=_CPU_NODES, queues=_lending_queues, submit=(_queued_pod, _plain_pod, _small_job)),
    Mix(
        name="services",
        pools=_CPU_NODES,
        queues=_lending_queues,
        submit=(_service, _service, _autoscaler, _regular, _small_job),
    ),
    Mix(
        name="groups",
        pools=_CPU_NODES,
        queues=_lending_queues,
        submit=(_group_job, _group_job, _application_job, _small_job, _plain_pod),
    ),
    Mix(name="elastic", pools=_ELASTIC_NODES, queues=_lending_queues, submit=(_small_job, _plain_pod)),
)
