"""The file of simulated nodes that `muster up --nodes` takes: pools of equal nodes, with cards where they have any.

pools:
- name: gpu
  count: 4
  capacity: {cpu: "64", memory: 512Gi}
  labels: {zone: a}
  taints: [{key: gpu, value: "true", effect: NoSchedule}]
  cards: {model: NVIDIA-A100, count: 8, memory: 40Gi, slots: 10}
  runTime: exponential(10m)
  startTime: 2s
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.app.manifests import read_file
from muster.controllers.nodes.heartbeat import node_object
from muster.controllers.nodes.simulated import address_of
from muster.controllers.nodes.timing import PREFIX, Habits, Length, read_length
from muster.dialects.kueue.schema import ListOf, MapOf, Struct, Text, Whole, shape_problems, unknown_fields
from muster.engine.devices_text import register_text
from muster.model.device import Device
from muster.model.documents import parse_value
from muster.model.errors import InvalidObjects
from muster.model.fields import Fields
from muster.model.labels import dns1123_subdomain_problem
from muster.store.kinds import Object
from muster.vendors.nvidia import REGISTER, VENDOR

POOL = PREFIX + "pool"  # the annotation that says which pool a node is of
NODES_MOST = 100_000
_CARDS_MOST = 64
_MIB = 20
_USUAL = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_TEXTS = MapOf(item=Text())
_CARDS = Struct(
    fields={
        "model": Text(least=1),
        "count": Whole(least=1, most=_CARDS_MOST),
        "memory": Text(least=1),
        "slots": Whole(least=1, most=1_000),
    },
    required=("count", "memory"),
)
_TAINT = Struct(fields={"key": Text(least=1), "value": Text(), "effect": Text(least=1)}, required=("key", "effect"))
_POOL_FIELDS = Struct(
    fields={
        "name": Text(least=1),
        "count": Whole(least=0, most=NODES_MOST),
        "capacity": _TEXTS,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "taints": ListOf(item=_TAINT),
        "cards": _CARDS,
        "runTime": Text(least=1),
        "startTime": Text(least=1),
        "stopTime": Text(least=1),
    },
    required=("name", "count"),
)
_FILE = Struct(fields={"pools": ListOf(item=_POOL_FIELDS)}, required=("pools",))


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node as it registers, and how its pods behave."""

    node: Object
    habits: Habits


def read_pools(path: Path) -> dict[str, SimulatedNode]:
    """The nodes of a file, by name; raises `InvalidObject` with all that is wrong."""
    values = parse_value(read_file(path), str(path))
    fields = Fields.of(values)
    problems = (*shape_problems(_FILE, values, ""), *unknown_fields(_FILE, values, ""))
    if problems:
        raise InvalidObjects(problems)
    found: dict[str, SimulatedNode] = {}
    for pool in fields.children("pools"):
        for name, node in _nodes(pool):
            if name in found:
                raise pool.error("name", f"gives a second node {name}", "give each pool its own name")
            found[name] = node
            if len(found) > NODES_MOST:
                raise fields.error("pools", f"have more than {NODES_MOST} nodes", "give fewer")
    return found


def _nodes(pool: Fields) -> Iterator[tuple[str, SimulatedNode]]:
    name = pool.text("name")
    if problem := dns1123_subdomain_problem(name):
        raise pool.error("name", f"is {name!r}", problem)
    habits = Habits(start=_length(pool, "startTime"), run=_run(pool), stop=_length(pool, "stopTime"))
    pool.quantities("capacity")  # so that mistakes show at once
    for number in range(pool.integer("count")):
        node = f"{name}-{number}"
        yield node, SimulatedNode(_node(pool, node), habits)


def _node(pool: Fields, name: str) -> Object:
    cards = pool.child("cards")
    devices = _devices(cards, name) if pool.has("cards") else ()
    capacity = {**_USUAL, **pool.text_map("capacity")}
    annotations = {POOL: pool.text("name"), **pool.text_map("annotations")}
    if devices:
        slots = sum(device.slots for device in devices)
        capacity.setdefault(VENDOR.resources.count, str(slots))
        annotations[REGISTER] = register_text(devices)
    node = node_object(name, capacity=capacity, labels=pool.text_map("labels"), address=address_of(name))
    node["metadata"]["annotations"] = annotations
    node["spec"] = {"taints": [dict(taint) for taint in pool.items("taints")]}
    return node


def _devices(cards: Fields, node: str) -> tuple[Device, ...]:
    memory = cards.quantity("memory")
    assert memory is not None, "the file was checked"
    memory_mib = memory.scaled(0, 2**62) >> _MIB
    if not 0 < memory_mib < 2**31:
        raise cards.error("memory", f"is {cards.text('memory')}", "give the memory of one card, such as 80Gi")
    return tuple(
        Device(
            uuid=f"GPU-{node}-{number}",
            index=number,
            vendor=VENDOR.name,
            model=cards.text("model", "NVIDIA-A100"),
            memory_mib=memory_mib,
            slots=cards.integer("slots", 10),
        )
        for number in range(cards.integer("count"))
    )


def _length(pool: Fields, name: str) -> Length:
    return read_length(pool.text(name), pool.at(name)) if pool.has(name) else Length()


def _run(pool: Fields) -> Length | None:
    return read_length(pool.text("runTime"), pool.at("runTime")) if pool.has("runTime") else None


def habits_by_node(nodes: Mapping[str, SimulatedNode]) -> dict[str, Habits]:
    """How the pods of each node behave."""
    return {name: one.habits for name, one in nodes.items()}
