"""Groups: what it costs to take up and place many gangs with Volcano's default tiers. `python -m bench group-pods`."""

from __future__ import annotations

import time

from muster.app.policies import build_tiers
from muster.dialects.volcano.configuration import DEFAULT_ACTIONS, default_tiers
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.session import Session
from muster.engine.slots import NodeSlots
from muster.engine.stages.groups import run_stages
from muster.model.groups import FairQueue, Group, GroupPod, GroupSnapshot, PodStatus
from muster.model.topology import Node

GIB = 2**30
QUEUES = 10


def gangs(nodes: int, count: int, size: int) -> GroupSnapshot:
    """Alike nodes, ten queues, and so many groups of alike pods that all have to start together."""
    requests = {"cpu": 2000, "memory": 4 * GIB, "pods": 1}
    allocatable = {"cpu": 64_000, "memory": 256 * GIB, "pods": 110}
    groups = {
        f"ns/g{index}": Group(
            key=f"ns/g{index}",
            namespace="ns",
            queue=f"q{index % QUEUES}",
            minimum=size,
            resources_least={name: amount * size for name, amount in requests.items()},
        )
        for index in range(count)
    }
    pods = [
        GroupPod(key=f"{key}-w-{number}", uid=f"{key}-{number}", group=key, status=PodStatus.PENDING, requests=requests)
        for key in groups
        for number in range(size)
    ]
    return GroupSnapshot(
        now=0.0,
        nodes={f"n{index}": Node(name=f"n{index}", allocatable=allocatable, is_ready=True) for index in range(nodes)},
        queues={f"q{index}": FairQueue(name=f"q{index}") for index in range(QUEUES)},
        groups=groups,
        pods={pod.key: pod for pod in pods},
    )


def pods_per_cpu_second(nodes: int = 5_000, count: int = 6_250, size: int = 8) -> float:
    """Pods placed in a CPU-second of a session, its opening counted in."""
    given = gangs(nodes, count, size)
    tiers = build_tiers(default_tiers()).tiers
    started = time.process_time()
    slots = NodeSlots(Placer(NodeTable(), (), PodsOnNodes(NodeFacts())), flavors={})
    session = Session(given, slots, tiers)
    run_stages(session, DEFAULT_ACTIONS)
    taken_s = time.process_time() - started
    assert len(session.outcome.binds) == count * size, "all of them fit"
    return len(session.outcome.binds) / taken_s
