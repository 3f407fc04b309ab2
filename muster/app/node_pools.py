"""The file of simulated nodes that `muster up --nodes` takes: pools of equal nodes, with cards where they have any.

pools:
- name: gpu
  count: 4                       # or minimum, maximum, nodeStartTime, idleTime
  price: 32.77
  capacity: {cpu: "64", memory: 512Gi}
  labels: {zone: a}
  taints: [{key: gpu, value: "true", effect: NoSchedule}]
  cards: {model: NVIDIA-A100, count: 8, memory: 40Gi, slots: 10}
  runTime: exponential(10m)
  startTime: 2s
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from muster.app.manifests import read_file
from muster.controllers.nodes.heartbeat import node_object
from muster.controllers.nodes.pools import IDLE_S, POOL, PRICE, Pool
from muster.controllers.nodes.simulated import address_of
from muster.controllers.nodes.timing import Habits, Length, read_length
from muster.engine.devices_text import register_text
from muster.model.device import Device
from muster.model.documents import parse_value
from muster.model.durations import NANOSECONDS, duration_ns
from muster.model.errors import InvalidObjects
from muster.model.fields import Fields
from muster.model.labels import dns1123_subdomain_problem
from muster.model.shapes import (
    Anything,
    ListOf,
    MapOf,
    Struct,
    Text,
    Whole,
    shape_problems,
    unknown_fields,
)
from muster.store.kinds import Object
from muster.vendors.nvidia import REGISTER, VENDOR

NODES_MOST = 100_000
_CARDS_MOST = 64
_PRICE_MOST = 1_000_000
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
        "minimum": Whole(least=0, most=NODES_MOST),
        "maximum": Whole(least=0, most=NODES_MOST),
        "nodeStartTime": Text(least=1),
        "idleTime": Text(least=1),
        "price": Anything(),
        "capacity": _TEXTS,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "taints": ListOf(item=_TAINT),
        "cards": _CARDS,
        "runTime": Text(least=1),
        "startTime": Text(least=1),
        "stopTime": Text(least=1),
    },
    required=("name",),
)
_FILE = Struct(fields={"pools": ListOf(item=_POOL_FIELDS)}, required=("pools",))


def read_pools(path: Path) -> tuple[Pool, ...]:
    """The pools of a file; raises `InvalidObject` with all that is wrong."""
    return pools_of(parse_value(read_file(path), str(path)))


def pools_of(values: object) -> tuple[Pool, ...]:
    """The same of what a file says."""
    fields = Fields.of(values)
    problems = (*shape_problems(_FILE, values, ""), *unknown_fields(_FILE, values, ""))
    if problems:
        raise InvalidObjects(problems)
    found: list[Pool] = []
    names: set[str] = set()
    for given in fields.children("pools"):
        pool = _pool(given)
        if twice := names & pool.names:
            raise given.error("name", f"gives a second node {min(twice)}", "give each pool its own name")
        names |= pool.names
        if len(names) > NODES_MOST:
            raise fields.error("pools", f"have more than {NODES_MOST} nodes", "give fewer")
        found.append(pool)
    return tuple(found)


def _pool(pool: Fields) -> Pool:
    name = pool.text("name")
    if problem := dns1123_subdomain_problem(name):
        raise pool.error("name", f"is {name!r}", problem)
    pool.quantities("capacity")  # so that mistakes show at once
    minimum, maximum = _sizes(pool)
    price = _price(pool)
    return Pool(
        name=name,
        nodes=tuple(_node(pool, f"{name}-{number}", price) for number in range(maximum)),
        habits=Habits(start=_length(pool, "startTime"), run=_run(pool), stop=_length(pool, "stopTime")),
        minimum=minimum,
        start=_length(pool, "nodeStartTime"),
        idle_s=_idle_s(pool),
        price=price,
    )


def _sizes(pool: Fields) -> tuple[int, int]:
    """The fewest and the most nodes of a pool."""
    if pool.has("count"):
        if pool.has("minimum") or pool.has("maximum"):
            raise pool.error("count", "is given beside minimum or maximum", "give count, or the other two")
        return pool.integer("count"), pool.integer("count")
    if not pool.has("maximum"):
        raise pool.error("count", "is missing", "give count, or minimum and maximum")
    minimum, maximum = pool.integer("minimum", 0), pool.integer("maximum")
    if minimum > maximum:
        raise pool.error("minimum", f"is {minimum}, more than the maximum {maximum}", "give no more than that")
    return minimum, maximum


def _price(pool: Fields) -> float:
    price = pool.quantity("price")
    if price is None:
        return 0.0
    micros = price.scaled(6, 2**62)
    if not 0 <= micros <= _PRICE_MOST * 10**6:
        raise pool.error("price", f"is {pool.raw('price')}", f"give from 0 up to {_PRICE_MOST} for an hour of a node")
    return micros / 1e6


def _idle_s(pool: Fields) -> float:
    if not pool.has("idleTime"):
        return IDLE_S
    idle_s = duration_ns(pool.text("idleTime"), pool.at("idleTime")) / NANOSECONDS
    if idle_s < 0:
        raise pool.error("idleTime", f"is {pool.text('idleTime')}", "give 0s or more")
    return idle_s


def _node(pool: Fields, name: str, price: float) -> Object:
    cards = pool.child("cards")
    devices = _devices(cards, name) if pool.has("cards") else ()
    capacity = {**_USUAL, **pool.text_map("capacity")}
    annotations = {POOL: pool.text("name"), **pool.text_map("annotations")}
    if price:
        annotations[PRICE] = f"{price:g}"
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
            model=_model(cards.text("model", "A100")),
            memory_mib=memory_mib,
            slots=cards.integer("slots", 10),
        )
        for number in range(cards.integer("count"))
    )


def _model(text: str) -> str:
    """What a card registers as: the plugin of its vendor puts the vendor's name first."""
    return text if VENDOR.name in text else f"{VENDOR.name}-{text}"


def _length(pool: Fields, name: str) -> Length:
    return read_length(pool.text(name), pool.at(name)) if pool.has(name) else Length()


def _run(pool: Fields) -> Length | None:
    return read_length(pool.text("runTime"), pool.at("runTime")) if pool.has("runTime") else None


def habits_by_node(pools: Iterable[Pool]) -> dict[str, Habits]:
    """How the pods of each node behave that there may be."""
    return {name: pool.habits for pool in pools for name in pool.names}


def nodes_of(pools: Iterable[Pool]) -> Iterator[Object]:
    """Every node that there may be."""
    for pool in pools:
        yield from pool.nodes
