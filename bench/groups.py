"""Groups: what it costs to take up and place many gangs with Volcano's default tiers. `python -m bench group-pods`."""

from __future__ import annotations

import json
import time
from typing import Any

from muster.app.config import Configuration
from muster.app.policies import build_tiers
from muster.app.scheduling import parts_of
from muster.controllers.group_objects import GroupObjects
from muster.controllers.sessions import Sessions
from muster.controllers.view import View
from muster.dialects.volcano.configuration import DEFAULT_ACTIONS, default_tiers
from muster.dialects.volcano.names import POD_GROUPS, QUEUES
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.session import Session
from muster.engine.slots import NodeSlots
from muster.engine.stages.groups import run_stages
from muster.engine.state import EngineState
from muster.model.groups import FairQueue, Group, GroupPod, GroupSnapshot, PodStatus
from muster.model.snapshot import Snapshot
from muster.model.topology import Node
from muster.store.records import Action, Event, Key, Record

GIB = 2**30
QUEUE_COUNT = 10


def gangs(nodes: int, count: int, size: int) -> GroupSnapshot:
    """Alike nodes, ten queues, and so many groups of alike pods that all have to start together."""
    requests = {"cpu": 2000, "memory": 4 * GIB, "pods": 1}
    allocatable = {"cpu": 64_000, "memory": 256 * GIB, "pods": 110}
    groups = {
        f"ns/g{index}": Group(
            key=f"ns/g{index}",
            namespace="ns",
            queue=f"q{index % QUEUE_COUNT}",
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
        queues={f"q{index}": FairQueue(name=f"q{index}") for index in range(QUEUE_COUNT)},
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


def _spec(group: Group) -> dict[str, Any]:
    least = {"cpu": f"{group.resources_least['cpu']}m", "memory": str(group.resources_least["memory"])}
    return {"queue": group.queue, "minMember": group.minimum, "minResources": least}


def _record(key: Key, spec: dict[str, Any], revision: int) -> Record:
    obj = {"metadata": {"namespace": key.namespace, "name": key.name, "uid": key.name}, "spec": spec}
    return Record(key, key.name, revision, revision, json.dumps(obj).encode())


def living_pods_per_cpu_second(nodes: int = 5_000, count: int = 6_250, size: int = 8) -> float:
    """The same of a session on a living cluster: over the state's own table, with all that is told of it."""
    given = gangs(nodes, count, size)
    parts = parts_of(Configuration())
    snapshot = Snapshot(nodes=given.nodes, queues={parts.plain_queue.name: parts.plain_queue})
    state = EngineState(snapshot, parts.slots(snapshot))
    view = View()
    objects = GroupObjects(view, parts.placement, parts.tiers)
    written = {Key(QUEUES, "", name): {"weight": 1} for name in given.queues}
    written |= {Key(POD_GROUPS, *key.split("/")): _spec(group) for key, group in given.groups.items()}
    records = [_record(key, spec, number) for number, (key, spec) in enumerate(written.items(), 1)]
    for seen in [one for record in records if (one := view.learn(Event(Action.ADDED, record, None, 0.0))) is not None]:
        objects.hear(seen)
    objects.sync()
    objects.pods.update(given.pods)
    sessions = Sessions(objects)
    started = time.process_time()
    report = sessions.run(state, 0.0, given.nodes)
    taken_s = time.process_time() - started
    assert report is not None and len(report.ending.binds) == count * size, "all of them fit"
    return len(report.ending.binds) / taken_s
