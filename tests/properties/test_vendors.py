"""Random pods on random nodes of every vendor: no card is oversold, no row is screened out, and texts come back."""

from __future__ import annotations

import json
from random import Random

import pytest

from muster.app.plugins import vendors
from muster.dialects.hami.cards import card_ask, card_requests, held_slices, slice_annotations, table_devices
from muster.engine.contracts import Vendor
from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import TableNode, slice_demand
from muster.engine.slices import cards_fit, choose
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.slices import Slices
from tests.support import assert_sound, proof_count

HISTORIES = 2000
KNOWN = tuple(vendors().values())
NAMED = tuple(vendor for vendor in KNOWN if not vendor.is_counted)
MEMORY = ("1", "4", "16", "20", "64", "4096", "8192", "10000", "24576", "32768")
PROFILES = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}


def a_card(chance: Random, vendor: Vendor, number: int) -> dict[str, object]:
    """A card of a register in JSON."""
    details = {"NetworkID": chance.randrange(2), "AIC": str(number // 2), "DeviceStrategy": chance.choice(("die", ""))}
    return {
        "id": f"{vendor.name}-{number}",
        "index": number,
        "count": chance.randint(1, 8),
        "devmem": chance.choice((16384, 32768, 65536, 98304)),
        "devcore": chance.choice((20, 64, 100)),
        "type": vendor.name,
        "health": chance.random() < 0.9,
        "custominfo": details,
    }


def a_register(chance: Random, vendor: Vendor) -> str:
    """The annotation in which a node of this vendor registers its cards, in the vendor's form."""
    cards = [a_card(chance, vendor, number) for number in range(chance.randint(1, 8))]
    if vendor.name in ("DCU", "MR-V100", "MR-V50", "BI-V150", "BI-V100"):
        fields = ("id", "count", "devmem", "devcore", "type")
        rows = ([*(card[name] for name in fields), 0, str(card["health"]).lower(), card["index"], ""] for card in cards)
        return "".join(",".join(map(str, row)) + ":" for row in rows)
    if vendor.name == "Enflame":
        devices = [{"index": str(card["index"]), "minor": "", "capacity": 6} for card in cards]
        return json.dumps({"devices": devices, "profiles": PROFILES})
    if vendor.name == "Metax-SGPU":
        own = {"uuid": "id", "totalDevCount": "count", "totalVRam": "devmem", "totalCompute": "devcore"}
        told = [{mine: card[name] for mine, name in own.items()} for card in cards]
        return json.dumps([{**one, "healthy": True, "linkZone": chance.randrange(3)} for one in told])
    return json.dumps(cards)


def a_node(chance: Random, name: str, vendor: Vendor) -> Fields:
    amounts = {
        vendor.resources.count: str(chance.randint(1, 8)),
        vendor.resources.memory: str(chance.choice((96, 192, 1024))),
        vendor.resources.cores: str(chance.choice((16, 32, 100, 800))),
    }
    notes = {vendor.register: a_register(chance, vendor)} if vendor.register and chance.random() < 0.9 else {}
    labels = {"node.kubernetes.io/instance-type": chance.choice(("inf2.xlarge", "trn1.32xlarge"))}
    if chance.random() < 0.3:
        notes["hami-vnpu-core"] = "true"
    capacity = {name: amount for name, amount in amounts.items() if name}
    return Fields(
        {"metadata": {"name": name, "annotations": notes, "labels": labels}, "status": {"capacity": capacity}}
    )


def a_pod(chance: Random, vendor: Vendor) -> Fields:
    def container(name: str) -> dict[str, object]:
        limits = {}
        if chance.random() < 0.9:
            limits[vendor.resources.count] = str(chance.choice((1, 1, 1, 2, 3, 4, 8)))
        if vendor.resources.memory and chance.random() < 0.6:
            limits[vendor.resources.memory] = chance.choice(MEMORY)
        if vendor.resources.cores and chance.random() < 0.4:
            limits[vendor.resources.cores] = str(chance.choice((1, 2, 8, 16, 50, 100)))
        return {"name": name, "resources": {"limits": limits}}

    notes = {"hami.io/gpu-scheduler-policy": chance.choice(("binpack", "spread", "mutex"))}
    if chance.random() < 0.3:
        notes["huawei.com/vnpu-mode"] = "hami-core"
    if chance.random() < 0.3:
        notes["metax-tech.com/sgpu-app-class"] = chance.choice(("online", "offline"))
    spec = {"containers": [container(f"c{number}") for number in range(chance.randint(1, 2))]}
    if chance.random() < 0.2:
        spec["initContainers"] = [container("first")]
    return Fields({"metadata": {"name": "p", "annotations": notes}, "spec": spec})


class World:
    """Nodes of several vendors, and the pods that got something of their cards."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.vendors = [chance.choice(NAMED) for _ in range(3)]
        nodes = [a_node(chance, f"n{number}", vendor) for number, vendor in enumerate(self.vendors)]
        self.rows = [
            TableNode(name=f"n{number}", devices=table_devices(node, KNOWN).devices)
            for number, node in enumerate(nodes)
        ]
        self.table = NodeTable(self.rows)
        self.held: list[tuple[int, object, Slices]] = []

    def place(self) -> None:
        """One pod on each row: it gets what the quick look promised, or nothing changes."""
        pod = a_pod(self.chance, self.chance.choice(self.vendors))
        try:
            asked = card_requests(pod, KNOWN)
        except InvalidObject:
            return
        if asked is None:
            return
        ask = card_ask(asked, KNOWN)
        wanted = slice_demand({}, ask)
        for row, node in enumerate(self.rows):
            got = choose(self.table, row, ask)
            if not isinstance(got, Slices):
                continue
            assert cards_fit(wanted, self.table.rows())[row], f"{asked} fits on {node.name}, which was screened out"
            self.check_texts(pod, got, node)
            self.table.charge(row, wanted, got)
            self.held.append((row, wanted, got))
            return

    def check_texts(self, pod: Fields, got: Slices, node: TableNode) -> None:
        """What is written on the pod tells the same again."""
        notes = slice_annotations(pod, got, KNOWN, node=node, now_s=7)
        metadata = {**pod.values["metadata"], "annotations": {**pod.values["metadata"]["annotations"], **notes}}
        bound = Fields({"metadata": metadata, "spec": {**pod.values["spec"], "nodeName": node.name}})
        again = held_slices(bound, node.devices, KNOWN)
        assert not again.problems, again.problems
        told = {(one.uuid, one.memory_mib, one.cores, one.mark) for one in again.slices.shares}
        assert told == {(one.uuid, one.memory_mib, one.cores, one.mark) for one in got.shares}, (told, got.shares)

    def leave(self) -> None:
        if self.held:
            row, wanted, got = self.held.pop(self.chance.randrange(len(self.held)))
            self.table.release(row, wanted, got)

    def check(self) -> None:
        for row in range(len(self.rows)):
            for card in self.table.slices.cards_of(row):
                device, use = card.device, card.use
                assert 0 <= use.memory_mib <= device.memory_mib, card
                assert 0 <= use.cores <= device.cores, card
                assert 0 <= use.slots <= device.slots, card


def check_history(chance: Random) -> None:
    world = World(chance)
    for _ in range(15):
        world.leave() if chance.random() < 0.25 else world.place()
        world.check()


@pytest.mark.prove
def test_no_card_of_any_vendor_is_sold_twice():
    assert_sound(check_history, range(proof_count(HISTORIES)))
