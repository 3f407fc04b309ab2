"""I3 and I5, from the objects alone: no node and no card has given out more than it has. Used by `invariants`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from muster.controllers.belonging import PODS
from muster.model.fields import Fields
from muster.model.quantity import parse_quantity
from muster.model.resources import amount_of
from muster.model.topology import read_bound_pod
from muster.sim.census import Census
from muster.store.kinds import Object
from muster.store.records import Key
from muster.vendors.nvidia import ALLOCATED, REGISTER, VENDOR

NODES = "nodes"


def crowded_nodes(census: Census) -> Iterator[str]:
    """I3: nodes on which the last step has put a pod without room for it."""
    for name in sorted(set(_just_bound(census))):
        on_node = [pod for pod in census.all(PODS) if pod["spec"].get("nodeName") == name]
        held: Counter[str] = Counter()
        for pod in on_node:
            bound = read_bound_pod(Fields(pod))
            if bound is not None:
                held.update({**bound.requests, "pods": 1})
        for resource, amount in held.items():
            if resource in VENDOR.resources.names and resource != VENDOR.resources.count:
                continue  # of these each card has its own
            # A place may have been given before its node became smaller, so the most that it ever had counts.
            most = max((_amount(resource, room.get(resource, "0")) for room in census.rooms[name]), default=0)
            if amount > most:
                yield f"I3: {name} has {most} of {resource}, and its pods hold {amount}"


def crowded_cards(census: Census) -> Iterator[str]:
    """I5: cards of which the last step has given out more than they have."""
    for name in sorted(set(_just_bound(census))):
        node = census.get(Key(NODES, "", name))
        text = ((node or {}).get("metadata", {}).get("annotations") or {}).get(REGISTER)
        if text is None:
            continue
        memory: Counter[str] = Counter()
        cores: Counter[str] = Counter()
        slots: Counter[str] = Counter()
        for pod in census.all(PODS):
            if pod["spec"].get("nodeName") == name and read_bound_pod(Fields(pod)) is not None:
                for uuid, mib, share in shares_of(pod):
                    memory[uuid] += mib
                    cores[uuid] += share
                    slots[uuid] += 1
        for card in json.loads(text):
            uuid = card["id"]
            if memory[uuid] > card["devmem"] or cores[uuid] > 100 or slots[uuid] > card["count"]:
                yield f"I5: {uuid} has given out {memory[uuid]} MiB, {cores[uuid]} % and {slots[uuid]} slots of {card}"


def shares_of(pod: Object) -> Iterator[tuple[str, int, int]]:
    """What is written on a pod of cards: the card, MiB and per cent."""
    text = (pod["metadata"].get("annotations") or {}).get(ALLOCATED, "")
    for share in text.replace(";", ":").split(":"):
        if share:
            uuid, _, mib, cores = share.split(",")
            yield uuid, int(mib), int(cores)


def wrong_cards(census: Census) -> Iterator[str]:
    """I5: pods that were just bound with other cards than they ask for, or than their node has."""
    for change in census.changes:
        pod = change.now
        if change.key.resource != PODS or pod is None or not _is_just_bound(change.before, pod):
            continue
        asked = sum(
            int((one.get("resources") or {}).get("limits", {}).get(VENDOR.resources.count, 0))
            for one in pod["spec"]["containers"]
        )
        node = census.get(Key(NODES, "", pod["spec"]["nodeName"]))
        text = ((node or {}).get("metadata", {}).get("annotations") or {}).get(REGISTER)
        if text is None or not asked:
            continue
        own = {card["id"] for card in json.loads(text)}
        given = [uuid for uuid, _, _ in shares_of(pod)]
        if len(given) != asked or not own.issuperset(given):
            yield f"I5: {change.key} asks for {asked} cards and has {given} of {sorted(own)}"


def _just_bound(census: Census) -> Iterator[str]:
    """The nodes that got pods in the last step."""
    for change in census.changes:
        if change.key.resource == PODS and change.now is not None and _is_just_bound(change.before, change.now):
            yield change.now["spec"]["nodeName"]


def _is_just_bound(before: Object | None, now: Object) -> bool:
    return bool(now["spec"].get("nodeName")) and not (before or {}).get("spec", {}).get("nodeName")


def _amount(resource: str, text: object) -> int:
    return amount_of(resource, parse_quantity(str(text)))
