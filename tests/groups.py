"""Builders for sessions of groups: a row of a test shows only what matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.app.policies import build_tiers
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.profile import PolicyUse, Tier
from muster.engine.session import Session, SessionOptions
from muster.engine.session_groups import stand
from muster.engine.slots import NodeSlots
from muster.engine.standing import PodStanding, QueueStanding, Standing
from muster.model.groups import FairQueue, Group, GroupPhase, GroupPod, GroupSnapshot, PodStatus
from muster.model.topology import Node

GIB = 2**30


def node(
    name: str, cpu: int = 4, *, memory_gib: int = 16, labels: Mapping[str, str] | None = None, **more: int
) -> Node:
    """A node of so many cores."""
    allocatable = {"cpu": cpu * 1000, "memory": memory_gib * GIB, "pods": 110, **more}
    return Node(name=name, labels=labels or {}, allocatable=allocatable, is_ready=True)


def queue(name: str = "q", **more: Any) -> FairQueue:
    return FairQueue(name=name, **more)


def group(name: str, *, minimum: int = 1, queue: str = "q", **more: Any) -> Group:
    """A group of the namespace `ns` that was taken up."""
    known = {"phase": GroupPhase.INQUEUE, **more}
    return Group(key=f"ns/{name}", namespace="ns", queue=queue, minimum=minimum, **known)


def pod(name: str, group: str, *, cpu: float = 1, node: str = "", **more: Any) -> GroupPod:
    """A pod of a group: it runs where it has a node, else it waits."""
    known = {"status": PodStatus.RUNNING if node else PodStatus.PENDING, **more}
    requests = {"cpu": int(cpu * 1000), "pods": 1, **known.pop("requests", {})}
    return GroupPod(key=f"ns/{name}", uid=name, group=f"ns/{group}", node=node, requests=requests, **known)


def snapshot(
    nodes: Sequence[Node], queues: Sequence[FairQueue], groups: Sequence[Group], pods: Sequence[GroupPod], **more: Any
) -> GroupSnapshot:
    """A snapshot of all of these."""
    return GroupSnapshot(
        nodes={one.name: one for one in nodes},
        queues={one.name: one for one in queues},
        groups={one.key: one for one in groups},
        pods={one.key: one for one in pods},
        **{"now": 0.0, **more},
    )


def session(given: GroupSnapshot, *policies: str | PolicyUse, options: SessionOptions | None = None) -> Session:
    """A session with some policies in one tier."""
    uses = tuple(PolicyUse(name=one) if isinstance(one, str) else one for one in policies)
    slots = NodeSlots(Placer(NodeTable(), (), PodsOnNodes(NodeFacts())), flavors={})
    return Session(given, slots, build_tiers((Tier(uses),)).tiers, options)


def standing(name: str, priority: int = 0, *, least: int = 2, count: int = 4, **have: int) -> Standing:
    """A group by itself, so many of its pods `ready` and so many with `promised` places."""
    statuses = [PodStatus.RUNNING] * have.get("ready", 0) + [PodStatus.PIPELINED] * have.get("promised", 0)
    statuses += [PodStatus.PENDING] * (count - len(statuses))
    pods = [pod(f"{name}-{index}", name, status=status) for index, status in enumerate(statuses)]
    given = snapshot([], [queue()], [group(name, minimum=least, priority=priority)], pods)
    return stand(given, {"q": QueueStanding(queue())})[f"ns/{name}"]


def pod_of(owner: Standing, name: str, priority: int = 0) -> PodStanding:
    """One more pod of a group, known by its name alone."""
    given = GroupPod(key=name, uid=name, group=owner.key, status=PodStatus.PENDING, priority=priority)
    return PodStanding(given, owner, next(iter(owner.subs.values())))
