"""Random clusters for the proofs of placement: machines, queues, gangs, slices and foreign pods, and a plain count.

Every generator takes its chance as an argument, as those of `strategies.py` do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random

from muster.dialects.hami.cards import held_slices
from muster.model.fields import Fields
from muster.model.flavor import Flavor
from muster.model.labels import Taint
from muster.model.pod_rules import ANYWHERE, NodeRules, PodRules
from muster.model.podspec import PodShape
from muster.model.queue import Order, Queue
from muster.model.resources import PODS
from muster.model.settings import FairSharing, Settings
from muster.model.slices import CardRequests
from muster.model.topology import BoundPod, Node, TopologyRequest
from muster.model.workload import Admission, PodSet, Slot, Workload
from muster.vendors.nvidia import VENDOR
from tests.engine.builders import ANY, CPU, GPU, LOWER, NEVER, cohort, pod_set, preempts, queue
from tests.engine.slot_builders import LEVELS, machine, sharing, slice_of, sliced
from tests.properties.strategies import maybe

DEADLINE_S = 40.0
TOP = "all"
ALLOCATED = "hami.io/vgpu-devices-allocated"

# Random clusters -----------------------------------------------------------------------------------------------------


def a_node(chance: Random, name: str) -> Node:
    """A machine whose cards are counted or known one by one; which of both follows from its name."""
    labels = {"pool": chance.choice(("red", "green")), "disk": chance.choice(("fast", "fast", "slow"))}
    fields = {"rack": chance.choice("12"), "labels": labels, "cpu": chance.randint(2, 9), "pods": chance.choice((2, 9))}
    cards = chance.randint(1, 4)
    if int(name[1:]) % 2:
        device = {"memory_mib": 1000, "slots": chance.choice((1, 2, 4)), "cores": chance.choice((100, 100, 200))}
        node = sharing(name, 2, device=device, **fields)
        if maybe(chance, one_in=5):
            node = replace(node, devices=(replace(node.devices[0], is_healthy=False), *node.devices[1:]))
    else:
        node = machine(name, cards, **fields)
    is_ready, is_schedulable = not maybe(chance, one_in=9), not maybe(chance, one_in=9)
    return replace(
        node, taints=(Taint("busy"),) * maybe(chance, one_in=9), is_ready=is_ready, is_schedulable=is_schedulable
    )


def some_flavors(chance: Random) -> list[Flavor]:
    """One flavor of all nodes, one with a topology, or two pools."""
    kind = chance.randrange(4)
    if kind == 0:
        return [Flavor(name="red")]
    if kind == 1:
        return [Flavor(name="red", topology="racks", topology_levels=LEVELS)]
    return [Flavor(name=name, labels={"pool": name}) for name in ("red", "green")]


def some_queues(chance: Random, flavors: list[Flavor]) -> list[Queue]:
    found = [cohort(TOP)]
    for number in range(chance.randint(1, 3)):
        one = queue(
            f"q{number}",
            cohort=None if maybe(chance, one_in=6) else TOP,
            flavors={flavor.name: {GPU: chance.randint(2, 9), CPU: chance.randint(4, 20)} for flavor in flavors},
            order=chance.choice((Order.STRICT_FIFO, Order.BEST_EFFORT_FIFO, Order.BEST_EFFORT_FIFO)),
            preemption=preempts(
                within=chance.choice((NEVER, LOWER, LOWER)), reclaim=chance.choice((NEVER, LOWER, ANY))
            ),
        )
        found.append(one)
    return found


def some_settings(chance: Random) -> Settings:
    return Settings(
        fair_sharing=FairSharing() if maybe(chance, one_in=5) else None,
        needs_slots=True,
        gang_deadline_s=DEADLINE_S,
        recomputes_places=not maybe(chance, one_in=5),
        replaces_nodes_fast=not maybe(chance, one_in=3),
        parks_alike=not maybe(chance, one_in=4),
    )


def some_cards(chance: Random) -> CardRequests:
    kind = chance.randrange(3)
    if kind == 0:
        return slice_of(memory_mib=chance.choice((100, 300, 600)), cores=chance.choice((0, 30)))
    if kind == 1:
        return slice_of(percent=chance.choice((10, 50, 100)), cores=chance.choice((0, 60, 100)))
    return slice_of(cores=chance.choice((20, 100)), percent=50, count=chance.choice((1, 2)))


def some_rules(chance: Random) -> PodRules:
    if not maybe(chance, one_in=5):
        return ANYWHERE
    return PodRules(nodes=NodeRules(selector=(("disk", "fast"),)))


def some_pods(chance: Random, name: str, request: TopologyRequest | None, *, is_elastic: bool) -> PodSet:
    count = chance.choice((1, 1, 2, 3, 4))
    least = chance.randint(0 if is_elastic else 1, count) if is_elastic or maybe(chance, one_in=6) else count
    rules = some_rules(chance)
    shape = PodShape(node_selector=dict(rules.nodes.selector))
    fields = {"count": count, "least": least, "rules": rules, "shape": shape, "topology": request}
    if maybe(chance, one_in=3):
        return sliced(name, of=some_cards(chance), **fields)
    requests = {GPU: chance.choice((1, 1, 2))} if not maybe(chance, one_in=3) else {CPU: chance.randint(1, 4)}
    return pod_set(name, requests=requests, **fields)


def of_its_kind(one: Workload) -> Workload:
    """The workload with the key of its kind: equal for those that the engine cannot tell apart."""
    return replace(one, kind_key=f"{one.pod_sets} {one.priority} {one.is_elastic} {one.pods_least}")


def a_pod(chance: Random, key: str, nodes: Mapping[str, Node]) -> BoundPod:
    """A pod of somebody else, with or without a claim on cards; some claims are forged."""
    node = f"n{chance.randrange(7)}"
    requests = {CPU: chance.randrange(3), GPU: chance.choice((0, 0, 1, 2, 9))}
    pod = BoundPod(key=key, node=node, requests=requests)
    if not maybe(chance, one_in=2):
        return pod
    claims = (
        f"{node}-{chance.randrange(3)},NVIDIA,{chance.choice((1, 300, 9999))},{chance.choice((0, 50, 900))}:;",
        "x:;",
    )
    limits = {GPU: "1", "nvidia.com/gpumem": "200"}
    fields = Fields(
        {
            "metadata": {"name": key, "namespace": "other", "annotations": {ALLOCATED: chance.choice(claims)}},
            "spec": {"nodeName": node, "containers": [{"resources": {"limits": limits}}]},
            "status": {"phase": "Running"},
        }
    )
    devices = nodes[node].devices if node in nodes else ()
    found = held_slices(fields, devices, (VENDOR,)).slices
    return replace(pod, requests={CPU: 1, GPU: 1}, cards=slice_of(memory_mib=200), slices=found)


# A plain count -------------------------------------------------------------------------------------------------------


def slots_in(admission: Admission | None) -> Iterator[tuple[str, Slot]]:
    for pods in admission.pod_sets if admission is not None else ():
        yield from ((pods.name, slot) for slot in pods.slots)


class Count:
    """What workloads hold of nodes and cards, counted from their slots alone."""

    def __init__(self) -> None:
        self.amounts: Counter[tuple[str, str]] = Counter()
        self.whole: Counter[tuple[str, int]] = Counter()
        self.shares: dict[tuple[str, str], list[tuple[int, int, int]]] = {}

    def add(self, requests: Mapping[str, int], slot: Slot) -> None:
        self.amounts.update({(slot.node, CPU): requests.get(CPU, 0), (slot.node, PODS): 1})
        self.whole.update((slot.node, card) for card in slot.cards)
        for share in slot.slices.shares if slot.slices is not None else ():
            held = (share.memory_mib, share.cores, share.slots)
            self.shares.setdefault((slot.node, share.uuid), []).append(held)

    def problems(self, nodes: Mapping[str, Node], come: Count) -> Iterator[str]:
        """Where somebody came and more is given out than there is of what he got."""
        for (name, resource), amount in self.amounts.items():
            if come.amounts[name, resource] and amount > nodes[name].allocatable.get(resource, 0):
                yield f"{name} gives out {amount} of {resource}"
        for (name, number), _ in come.whole.items():
            cards = len(nodes[name].devices) or nodes[name].allocatable[GPU]
            if self.whole[name, number] > 1 or number >= cards:
                yield f"card {number} of {name} is given out {self.whole[name, number]} times"
        for name, uuid in come.shares:
            device = next((one for one in nodes[name].devices if one.uuid == uuid), None)
            totals = [sum(column) for column in zip(*self.shares[name, uuid], strict=True)]
            most = (device.memory_mib, device.cores, device.slots) if device is not None else (0, 0, 0)
            if any(total > limit for total, limit in zip(totals, most, strict=True)):
                yield f"card {uuid} of {name} is given out {totals} of {most}"
            elif device is not None and self.whole[name, device.index]:
                yield f"card {uuid} of {name} is given out whole and in slices"
