"""Random files with objects of Kueue, Volcano, YuniKorn and of nobody in particular, for one plan. Used by its proof.

Every mix has work of all four, on whole cards and on slices of cards, beside pods that run already.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

Object = dict[str, Any]

GPU, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
REGISTER, ALLOCATED = "hami.io/node-nvidia-register", "hami.io/vgpu-devices-allocated"
KUEUE, SCHEDULING = "kueue.x-k8s.io/v1beta2", "scheduling.volcano.sh/v1beta1"
CARD_MIB, SHARERS = 10_000, 4
PRIORITIES = {"low": -10, "high": 100}
RESOURCES = ("cpu", GPU, MEMORY, CORES)
_PREEMPTIONS = (
    {},
    {"withinClusterQueue": "LowerPriority"},
    {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
)
_ACTIONS = (
    "enqueue, allocate, backfill",
    "enqueue, allocate, preempt, reclaim, backfill",
    "enqueue, gangpreempt, gangreclaim, allocate, backfill",
    "allocate, backfill, shuffle, consolidate",
)


def obj(kind: str, name: str, version: str = "v1", **parts: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **parts}


def own(kind: str, name: str, version: str = "v1", **parts: Any) -> Object:
    """An object of the one namespace."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "ns"}, **parts}


def mixed_file(chance: Random) -> list[Object]:
    """All objects of one mix, in any order."""
    nodes = [_node(chance, index) for index in range(chance.randint(1, 4))]
    if not any(REGISTER in one["metadata"].get("annotations", {}) for one in nodes):
        nodes.append(_sliced_node("sliced", chance.randint(1, 3)))
    objects = [
        *nodes,
        *_running(chance, nodes),
        *(
            obj("PriorityClass", name, "scheduling.k8s.io/v1", value=value, globalDefault=False)
            for name, value in PRIORITIES.items()
        ),
        *_kueue(chance),
        *_volcano(chance),
        *_yunikorn(chance),
        *_plain(chance),
    ]
    chance.shuffle(objects)
    return objects


# Nodes and what runs on them -----------------------------------------------------------------------------------------


def _node(chance: Random, index: int) -> Object:
    if chance.random() < 0.5:
        return _sliced_node(f"n{index}", chance.randint(1, 3))
    cards = chance.randint(0, 4)
    return obj("Node", f"n{index}", status={"allocatable": _amounts(chance.randint(2, 8), cards)})


def _sliced_node(name: str, cards: int) -> Object:
    card = {"count": SHARERS, "devmem": CARD_MIB, "devcore": 100, "type": "NVIDIA-A10", "health": True}
    register = [{**card, "id": f"{name}-{index}", "index": index} for index in range(cards)]
    node = obj("Node", name, status={"allocatable": _amounts(8, cards * SHARERS)})
    node["metadata"]["annotations"] = {REGISTER: json.dumps(register)}
    return node


def _amounts(cores: int, cards: int) -> Object:
    return {"cpu": str(cores), "memory": "64Gi", "pods": "20", **({GPU: str(cards)} if cards else {})}


def _running(chance: Random, nodes: list[Object]) -> list[Object]:
    """Pods that run: one of no group and perhaps a group, each on a node that has room for it."""
    found = []
    for index, node in enumerate(nodes):
        name = node["metadata"]["name"]
        limits = {"cpu": "1"}
        annotations = {}
        if REGISTER in node["metadata"].get("annotations", {}):
            limits |= {GPU: "1", MEMORY: "4000"}
            annotations[ALLOCATED] = f"{name}-0,NVIDIA,4000,0:;"
        elif GPU in node["status"]["allocatable"]:
            limits |= {GPU: "1"}
        pod = own("Pod", f"r{index}", spec={**pod_spec(chance, limits), "nodeName": name}, status={"phase": "Running"})
        if chance.random() < 0.6:
            annotations["scheduling.k8s.io/group-name"] = f"running{index}"
            spec = {"minMember": chance.randint(0, 1), "queue": chance.choice(("left", "right"))}
            found.append(own("PodGroup", f"running{index}", SCHEDULING, spec=spec, status={"phase": "Running"}))
        pod["metadata"]["annotations"] = annotations
        found.append(pod)
    return found


def _ask(chance: Random) -> Object:
    kind = chance.choice(("cpu", "cards", "slices", "slices"))
    limits = {"cpu": str(chance.randint(1, 2))}
    if kind == "cards":
        limits[GPU] = str(chance.randint(1, 3))
    if kind == "slices":
        limits |= {GPU: str(chance.randint(1, 2)), MEMORY: chance.choice(("2500", "5000", "9000"))}
        if chance.random() < 0.5:
            limits[CORES] = chance.choice(("30", "60"))
    return limits


def pod_spec(chance: Random, limits: Object) -> Object:
    named = {"priorityClassName": chance.choice(tuple(PRIORITIES))} if chance.random() < 0.6 else {}
    return {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "x", "resources": {"limits": limits}}],
        **named,
    }


# The four ------------------------------------------------------------------------------------------------------------


def _kueue(chance: Random) -> list[Object]:
    queues = []
    for name in ("one", "two"):
        quota = {"cpu": chance.randint(1, 6), GPU: chance.randint(0, 6), MEMORY: 20_000, CORES: 200}
        resources: list[Object] = [{"name": resource, "nominalQuota": str(quota[resource])} for resource in RESOURCES]
        if chance.random() < 0.3:
            resources[1]["borrowingLimit"] = "1"
        if chance.random() < 0.3:
            resources[0]["lendingLimit"] = "1"
        group = {"coveredResources": list(RESOURCES), "flavors": [{"name": "any", "resources": resources}]}
        spec = {
            "namespaceSelector": {},
            "cohortName": "all",
            "resourceGroups": [group],
            "preemption": chance.choice(_PREEMPTIONS),
        }
        queues += [
            obj("ClusterQueue", name, KUEUE, spec=spec),
            own("LocalQueue", name, KUEUE, spec={"clusterQueue": name}),
        ]
    jobs = []
    for index in range(chance.randint(1, 2)):
        job = own("Job", f"k{index}", "batch/v1", spec={**_job(chance), "suspend": True})
        job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": chance.choice(("one", "two"))}
        jobs.append(job)
    return [obj("Namespace", "ns"), obj("ResourceFlavor", "any", KUEUE, spec={}), *queues, *jobs]


def _job(chance: Random) -> Object:
    return {"parallelism": chance.randint(1, 3), "template": {"spec": pod_spec(chance, _ask(chance))}}


def _plain(chance: Random) -> list[Object]:
    return [
        own("Job", "p0", "batch/v1", spec=_job(chance)),
        own("Pod", "p1", spec=pod_spec(chance, _ask(chance))),
    ]


def _volcano(chance: Random) -> list[Object]:
    bounds = {"cpu": str(chance.randint(1, 8)), GPU: str(chance.randint(0, 8))}
    spec: Object = {"weight": chance.randint(1, 4), "capability": bounds} if chance.random() < 0.5 else {"weight": 1}
    found = [obj("Queue", "left", SCHEDULING, spec=spec), obj("Queue", "right", SCHEDULING, spec={"weight": 1})]
    for index in range(chance.randint(1, 3)):
        count = chance.randint(1, 4)
        tasks = [{"name": "w", "replicas": count, "template": {"spec": pod_spec(chance, _ask(chance))}}]
        least = {"minAvailable": chance.randint(1, count)} if chance.random() < 0.5 else {}
        queue = chance.choice(("left", "right", "default"))
        job_spec = {"tasks": tasks, "queue": queue, "priorityClassName": chance.choice(tuple(PRIORITIES)), **least}
        found.append(own("Job", f"v{index}", "batch.volcano.sh/v1alpha1", spec=job_spec))
    if chance.random() < 0.7:
        shared_out = chance.choice(("proportion", "capacity"))
        names = ("overcommit", "drf", "predicates", shared_out, chance.choice(("nodeorder", "binpack")))
        tiers = [{"plugins": [{"name": one} for one in names]}]
        tiers.insert(0, {"plugins": [{"name": one} for one in ("priority", "gang", "conformance")]})
        text = json.dumps({"actions": chance.choice(_ACTIONS), "tiers": tiers})
        found.append(own("ConfigMap", "volcano-scheduler-configmap", data={"volcano-scheduler.conf": text}))
    return found


def _yunikorn(chance: Random) -> list[Object]:
    bound = {"vcore": str(chance.randint(1, 8)), GPU: str(chance.randint(1, 6))}
    leaves = [{"name": "first", "resources": {"max": bound}}, {"name": "second"}]
    partition = {
        "name": "default",
        "placementrules": [{"name": "provided", "create": False}],
        "queues": [{"name": "root", "submitacl": "*", "queues": leaves}],
    }
    text = json.dumps({"partitions": [partition]})
    found = [own("ConfigMap", "yunikorn-configs", data={"queues.yaml": text})]
    for index in range(chance.randint(1, 2)):
        limits, count, least = _ask(chance), chance.randint(1, 3), chance.randint(1, 3)
        queue = f"root.{chance.choice(('first', 'second'))}"
        task_group = {"name": "g", "minMember": least, "minResource": limits}
        is_gang = chance.random() < 0.5
        for number in range(count):
            pod = own("Pod", f"y{index}-{number}", spec={**pod_spec(chance, limits), "schedulerName": "yunikorn"})
            pod["metadata"]["labels"] = {"applicationId": f"y{index}", "queue": queue}
            if is_gang:
                pod["metadata"]["annotations"] = {
                    "yunikorn.apache.org/task-group-name": "g",
                    "yunikorn.apache.org/task-groups": json.dumps([task_group]),
                }
            found.append(pod)
    return found
