"""What users and machines do to a cluster besides submitting work: edits, deletions, failures. Used by `storm`.

Each is a function of the world and of chance that says in a word what it did; what is refused is refused, as with any
user. `heal` takes back all that keeps work from being done.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from muster.controllers.belonging import WORKLOADS, object_key
from muster.controllers.cache import CLUSTER_QUEUES
from muster.controllers.nodes.simulated import FAILED
from muster.controllers.nodes.timing import FAIL
from muster.sim.objects import LOAD, LOAD_OF_ONE, SCALED_MOST, TOUCHED
from muster.sim.world import World
from muster.store.kinds import Object, Propagation
from muster.store.objects import Part
from muster.store.records import Key
from muster.store.rules import Deletion

JOBS, PODS, NODES = "jobs.batch", "pods", "nodes"
DEPLOYMENTS, CRON_JOBS = "deployments.apps", "cronjobs.batch"
AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
SUBMITTED = (JOBS, PODS, DEPLOYMENTS, CRON_JOBS, AUTOSCALERS)
_EDITED = (JOBS, PODS, WORKLOADS, NODES, CLUSTER_QUEUES)

Trouble = Callable[[World, Random], str]


def _any(world: World, chance: Random, *resources: str) -> Key | None:
    found = [record.key for resource in resources for record in world.records(resource)]
    return chance.choice(found) if found else None


def _noted(name: str, value: str) -> Callable[[Object], Object]:
    def how(obj: Object) -> Object:
        metadata = obj["metadata"]
        return {**obj, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), name: value}}}

    return how


def _without_note(name: str) -> Callable[[Object], Object]:
    def how(obj: Object) -> Object:
        obj["metadata"]["annotations"].pop(name, None)
        return obj

    return how


def _with_spec(**fields: Any) -> Callable[[Object], Object]:
    return lambda obj: {**obj, "spec": {**(obj.get("spec") or {}), **fields}}


# By users ------------------------------------------------------------------------------------------------------------


def touch(world: World, chance: Random) -> str:
    """Somebody else edits an object at the same time."""
    key = _any(world, chance, *_EDITED)
    if key is None:
        return "touch nothing"
    world.change(key, _noted(TOUCHED, str(chance.randint(0, 99))))
    return f"touch {key}"


def remove(world: World, chance: Random) -> str:
    """A user deletes something."""
    key = _any(world, chance, *SUBMITTED, WORKLOADS)
    if key is None:
        return "remove nothing"
    how = chance.choice((Propagation.BACKGROUND, Propagation.BACKGROUND, Propagation.FOREGROUND))
    world.delete(key, Deletion(propagation=how))
    return f"remove {key}"


def switch(world: World, chance: Random) -> str:
    """A user stops a workload, or lets it go on."""
    key = _any(world, chance, WORKLOADS)
    if key is None:
        return "switch nothing"
    world.change(key, _with_spec(active=chance.random() < 0.6))
    return f"switch {key}"


def scale(world: World, chance: Random) -> str:
    """A user wants more or fewer of something."""
    key = _any(world, chance, DEPLOYMENTS, JOBS)
    if key is None:
        return "scale nothing"
    count = chance.randint(1, 3)
    world.change(key, _with_spec(**{"replicas" if key.resource == DEPLOYMENTS else "parallelism": count}))
    return f"scale {key} to {count}"


def load(world: World, chance: Random) -> str:
    """A service gets more or fewer requests."""
    key = _any(world, chance, DEPLOYMENTS)
    if key is None:
        return "load nothing"
    amount = LOAD_OF_ONE * chance.randint(0, SCALED_MOST + 1)
    world.change(key, _noted(LOAD, str(amount)))
    return f"load {key} with {amount}"


# By administrators ---------------------------------------------------------------------------------------------------


def requota(world: World, chance: Random) -> str:
    """A quota grows or shrinks."""
    key = _any(world, chance, CLUSTER_QUEUES)
    if key is None:
        return "requota nothing"
    share = chance.choice((0, 1, 2))

    def how(queue: Object) -> Object:
        for resource in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]:
            resource["nominalQuota"] = str(int(_amount(resource["nominalQuota"]) * share / 2) + 1)
        return queue

    world.change(key, how)
    return f"requota {key}"


def _amount(text: str) -> int:
    return int(text.removesuffix("k")) * (1000 if text.endswith("k") else 1)


def hold(world: World, chance: Random) -> str:
    """A queue stops, or goes on."""
    key = _any(world, chance, CLUSTER_QUEUES)
    if key is None:
        return "hold nothing"
    world.change(key, _with_spec(stopPolicy=chance.choice(("None", "None", "Hold", "HoldAndDrain"))))
    return f"hold {key}"


def cordon(world: World, chance: Random) -> str:
    """A node takes no more pods, or does again."""
    key = _any(world, chance, NODES)
    if key is None:
        return "cordon nothing"
    world.change(key, _with_spec(unschedulable=chance.random() < 0.5))
    return f"cordon {key}"


# By machines ---------------------------------------------------------------------------------------------------------


def fail_node(world: World, chance: Random) -> str:
    """A node is not heard of any more, or comes back."""
    key = _any(world, chance, NODES)
    if key is None:
        return "fail nothing"
    is_failed = chance.random() < 0.6
    world.change(key, _noted(FAILED, "true" if is_failed else "false"))
    return f"fail {key} {is_failed}"


def shrink_node(world: World, chance: Random) -> str:
    """A node has less than it had, until it says otherwise itself."""
    key = _any(world, chance, NODES)
    if key is None:
        return "shrink nothing"

    def how(node: Object) -> Object:
        status = node.get("status") or {}
        return {**node, "status": {**status, "allocatable": {**status.get("allocatable", {}), "cpu": "1"}}}

    world.change(key, how, Part.STATUS)
    return f"shrink {key}"


def remove_node(world: World, chance: Random) -> str:
    """A node is gone, until its agent starts anew."""
    key = _any(world, chance, NODES)
    if key is None:
        return "remove no node"
    world.delete(key)
    return f"remove {key}"


def fail_pod(world: World, chance: Random) -> str:
    """A pod breaks."""
    key = _any(world, chance, PODS)
    if key is None:
        return "break nothing"
    world.change(key, _noted(FAIL, "137"))
    return f"break {key}"


TROUBLES: tuple[tuple[Trouble, int], ...] = (
    (touch, 8),
    (remove, 5),
    (switch, 2),
    (scale, 2),
    (load, 2),
    (requota, 3),
    (hold, 2),
    (cordon, 2),
    (fail_node, 3),
    (shrink_node, 2),
    (remove_node, 3),
    (fail_pod, 2),
)


def heal(world: World, queues: list[Object]) -> None:
    """Have everything be well again: queues as they were, nodes up, nothing switched off, nothing new by the clock."""
    for given in queues:
        key = object_key(world.resource_of(given), given)
        more = {"stopPolicy": "None"} if given["kind"] == "ClusterQueue" else {}
        world.change(key, _with_spec(**given["spec"], **more))
    for node in world.all(NODES):
        key = object_key(NODES, node)
        world.change(key, _noted(FAILED, "false"))
        world.change(key, _with_spec(unschedulable=False))
    for workload in world.all(WORKLOADS):
        if workload["spec"].get("active") is False:
            world.change(object_key(WORKLOADS, workload), _with_spec(active=True))
    for one in world.all(PODS):
        if FAIL in (one["metadata"].get("annotations") or {}):
            world.change(object_key(PODS, one), _without_note(FAIL))
    for one in world.all(DEPLOYMENTS):
        world.change(object_key(DEPLOYMENTS, one), _with_spec(replicas=1))
        world.change(object_key(DEPLOYMENTS, one), _noted(LOAD, str(2 * LOAD_OF_ONE)))  # its autoscaler has to act
    for one in world.all(CRON_JOBS):
        world.change(object_key(CRON_JOBS, one), _with_spec(suspend=True))
