"""Random mixes of whole cards, parts and slices: no card is sold twice, tries leave no trace, screening refuses nobody.

What is held is kept beside the table as a plain list, and every figure is worked out from that list again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest

from muster.engine.devices import CardWishes
from muster.engine.devices_order import CardOrder
from muster.engine.devices_pod import PodCards, try_pod
from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import WHOLE, Demand, OnCards, TableNode, demand, slice_demand
from muster.engine.slices import cards_fit, cards_room, choose
from muster.engine.slices_ask import CardAsk
from muster.model.device import Card, Device, DeviceRequest, PartitionProfile, Placement, standing_shares, take
from muster.model.slices import Slices
from muster.vendors.nvidia import VENDOR
from tests.support import assert_sound, proof_count

HISTORIES = 1000
BLOCKS = 10
STEPS = 40
PROFILES = (
    PartitionProfile(
        name="1g", memory_mib=100, cores=14, slices=1, placements=tuple(Placement(n, 1) for n in range(7))
    ),
    PartitionProfile(
        name="2g", memory_mib=200, cores=28, slices=2, placements=tuple(Placement(n, 2) for n in (0, 2, 4))
    ),
)


@dataclass(frozen=True, eq=False)
class Held:
    """One pod on the table."""

    row: int
    demand: Demand
    on: OnCards


# Random things -------------------------------------------------------------------------------------------------------


def a_card(chance: Random, name: str) -> Device:
    is_partitioned = chance.random() < 0.15
    return Device(
        uuid=name,
        index=int(name.split("-")[1]),
        vendor="NVIDIA",
        model=chance.choice(("NVIDIA", "NVIDIA A100", "NVIDIA-T4")),
        memory_mib=1000 if is_partitioned else chance.choice((500, 1001, 4096, 4096)),
        cores=100 if is_partitioned else chance.choice((100, 100, 100, 200, 0)),
        slots=chance.choice((1, 2, 10)),
        numa=chance.randrange(2),
        mode="mig" if is_partitioned else "hami-core",
        is_healthy=chance.random() < 0.9,
        is_cordoned=chance.random() < 0.1,
        profiles=PROFILES if is_partitioned else (),
    )


def a_node(chance: Random, number: int) -> TableNode:
    amounts = {"cpu": 1000}
    if chance.random() < 0.15:
        return TableNode(name=f"node-{number}", amounts=amounts, cards=chance.randint(0, 4))
    cards = tuple(a_card(chance, f"{number}-{card}") for card in range(chance.randint(0, 5)))
    return TableNode(name=f"node-{number}", amounts=amounts, devices=cards)


def a_request(chance: Random) -> DeviceRequest:
    memory = chance.choice((0, 0, 1, 100, 150, 400, 900))
    percent = chance.choice((None, 10, 33, 100)) if not memory else chance.choice((None, 50))
    return DeviceRequest(
        vendor="NVIDIA",
        count=chance.choice((1, 1, 1, 2, 3)),
        memory_mib=memory,
        memory_percent=percent,
        cores=chance.choice((0, 0, 5, 30, 60, 100, 300)),
    )


def an_ask(chance: Random) -> CardAsk:
    containers = chance.choice((1, 1, 1, 2, 3))
    requests = [{"NVIDIA": a_request(chance)} if chance.random() < 0.8 else {} for _ in range(containers)]
    if not any(requests):
        requests[0] = {"NVIDIA": a_request(chance)}
    wishes = CardWishes()
    if chance.random() < 0.4:
        wishes = CardWishes(
            models=chance.choice(((), ("a100",))),
            models_not=chance.choice(((), ("t4",))),
            uuids=chance.choice((frozenset(), frozenset({"0-0", "1-1"}))),
            modes=chance.choice((None, "hami-core", "mig")),
            is_on_one_numa=chance.random() < 0.3,
            is_alone=chance.random() < 0.3,
        )
    order = CardOrder(chance.choice(("binpack", "spread", "numa", "mutex")), wishes.is_on_one_numa)
    init_count = chance.choice((0, 0, 1)) if containers > 1 else 0
    pod = PodCards(
        requests=tuple(requests),
        vendors={"NVIDIA": VENDOR},
        init_count=init_count,
        wishes={"NVIDIA": wishes},
        orders={"NVIDIA": order},
    )
    return CardAsk(pod)


def a_demand(chance: Random) -> Demand:
    amounts = {"cpu": chance.randint(0, 5)}
    kind = chance.random()
    if kind < 0.15:
        return demand(amounts, cards=chance.choice((1, 1, 2)))
    if kind < 0.35:
        return demand(amounts, cards=chance.choice((1, 1, 2)), milli=chance.choice((1, 50, 250, 333, 500, 999)))
    return slice_demand(amounts, an_ask(chance), card_memory_mib=4096)


# Figures worked out anew ---------------------------------------------------------------------------------------------


def facts(table: NodeTable) -> list[object]:
    """Everything that charges change, but for when; byte for byte where it is a matrix."""
    count, columns = table.row_count, table.slices
    by_row = (table.cards, table.sharers, table.kinds, table.card_most, table.card_sum)
    by_card = (columns.memory, columns.cores, columns.slots, columns.is_usable, columns.room, columns.kind)
    parts: list[object] = [matrix[:count].tobytes() for matrix in by_row]
    parts += [matrix[:, :count].tobytes() for matrix in (table.free, *by_card)]
    parts += [(columns.cards_of(row), dict.fromkeys(columns.holders_on(row))) for row in range(count)]
    parts += [sorted(columns.rows_holding(lambda _tag: True))]
    return parts


def check_cards(table: NodeTable, nodes: list[TableNode], held: list[Held]) -> None:
    """No card gives more than it has, and what the table says is left of it is what is left."""
    for row, node in enumerate(nodes):
        here = [one for one in held if one.row == row]
        for number in range(node.cards):
            given = sum(one.demand.milli for one in here if number in one.on)
            assert table.cards[row, number] == WHOLE - given >= 0
        for card in table.slices.cards_of(row):
            check_card(table, row, card, here)


def check_card(table: NodeTable, row: int, card: Card, here: list[Held]) -> None:
    device = card.device
    order = [one.device.uuid for one in table.slices.cards_of(row)]
    column = table.slices.columns_of(row)[order.index(device.uuid)]
    parts = [one.demand.milli for one in here if not isinstance(one.on, Slices) and column in one.on]
    shares = [
        share for one in here if isinstance(one.on, Slices) for share in one.on.shares if share.uuid == device.uuid
    ]
    memory, cores = sum(share.memory_mib for share in shares), sum(share.cores for share in shares)
    sharers = len(parts) + sum(share.slots for share in shares)
    assert sum(parts) * device.memory_mib <= (device.memory_mib - memory) * WHOLE, f"{card} is out of memory"
    assert sum(parts) * device.cores <= (device.cores - cores) * WHOLE, f"{card} is out of cores"
    assert sharers <= device.slots, f"{card} has too many sharers"
    assert WHOLE not in parts or sharers == 1, f"{card} is whole and shared"
    if device.cores == 100 and any(share.cores == 100 for share in shares):
        assert not parts, f"{card} is somebody's own"
    left = int(table.cards[row, column])
    assert left >= 0
    if left:
        assert device.is_healthy and not device.is_cordoned and sharers < device.slots
        assert (sum(parts) + left) * device.memory_mib <= (device.memory_mib - memory) * WHOLE
        assert (left == WHOLE) == (sharers == 0)
    assert card.use.partitions == () or device.is_partitioned


def check_try(table: NodeTable, wanted: Demand, row: int) -> Slices | None:
    """Screening, the exact choice and the plain try agree on a row, and leave it as it was."""
    ask = wanted.ask
    assert ask is not None
    fits = bool(cards_fit(wanted, table.rows())[row])
    assert fits == bool(cards_fit(wanted, table.rows(np.array([row])))[0]), "a row alone is screened like all of them"
    cards = table.slices.cards_of(row)
    got = choose(table, row, ask)
    tried = try_pod(cards, ask.pod)
    if not isinstance(got, Slices):
        assert tried.refusal == got
        has_partitions = any(card.device.is_partitioned for card in cards)
        assert ask.plain is None or has_partitions or not fits, "amounts alone are screened exactly"
        return None
    assert fits, "screening refuses what the exact try accepts"
    assert cards_room(wanted, table.rows())[row] >= 1
    assert dict(got.given) == tried.shares
    want = [share for containers in tried.shares.values() for share in standing_shares(containers, ask.pod.init_count)]
    assert list(got.shares) == want
    return got


def place(table: NodeTable, wanted: Demand, chance: Random) -> Held | None:
    """Put a pod on some row that takes it."""
    rows = list(range(table.row_count))
    chance.shuffle(rows)
    for row in rows:
        on: OnCards | None
        if wanted.ask is not None:
            on = check_try(table, wanted, row)
        else:
            free = [card for card, milli in enumerate(table.cards[row].tolist()) if milli >= wanted.milli]
            on = tuple(chance.sample(free, wanted.cards)) if len(free) >= wanted.cards else None
            assert (on is not None) == cards_fit(wanted, table.rows())[row]
        if on is not None:
            if isinstance(on, Slices):
                on = replace(on, pod=str(chance.random()))
            table.charge(row, wanted, on)
            return Held(row, wanted, on)
    return None


# Histories -----------------------------------------------------------------------------------------------------------


def check_history(chance: Random) -> None:
    nodes = [a_node(chance, number) for number in range(chance.randint(1, 3))]
    table = NodeTable(nodes)
    start = facts(table)
    held: list[Held] = []
    marks: list[tuple[int, list[Held], list[object]]] = []
    for _ in range(STEPS):
        word = chance.choice(("place", "place", "place", "leave", "mark", "back"))
        if word == "place":
            placed = place(table, a_demand(chance), chance)
            held += [placed] if placed else []
        elif word == "leave" and held:
            gone = held.pop(chance.randrange(len(held)))
            table.release(gone.row, gone.demand, gone.on)
        elif word == "mark":
            marks.append((table.checkpoint(), list(held), facts(table)))
        elif word == "back" and marks:
            mark, held, before = marks.pop()
            table.rollback(mark)
            assert facts(table) == before, "a discarded try left a trace"
        check_cards(table, nodes, held)
    check_node_comes_back(table, nodes, chance)
    chance.shuffle(held)
    for one in held:
        table.release(one.row, one.demand, one.on)
    assert facts(table) == start, "everybody left, and something is still held"


def check_node_comes_back(table: NodeTable, nodes: list[TableNode], chance: Random) -> None:
    """A node that loses a card, or all of them for a while, comes back with what is held of it."""
    row = chance.randrange(len(nodes))
    node = nodes[row]
    if not node.devices:
        return
    before = facts(table)
    lost = chance.choice(node.devices)
    for fewer in (tuple(one for one in node.devices if one is not lost), ()):
        table.put(replace(node, devices=fewer))
        assert lost.uuid not in [card.device.uuid for card in table.slices.cards_of(row)]
        assert table.card_sum[row] <= sum(table.cards[row].clip(0))
    table.put(node)
    assert facts(table) == before


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_card_is_sold_twice(block):
    assert_sound(check_history, range(block, proof_count(HISTORIES) // BLOCKS * BLOCKS, BLOCKS))


# Holds ---------------------------------------------------------------------------------------------------------------


def check_hold(chance: Random) -> None:
    """A place held over others' heads lets nobody else in, and is sound as soon as they have left."""
    nodes = [a_node(chance, 0)]
    table = NodeTable(nodes)
    empty = facts(table)
    held = [one for one in (place(table, a_demand(chance), chance) for _ in range(8)) if one]
    mark = table.checkpoint()
    for one in held:
        table.release(one.row, one.demand, one.on)
    wanted = a_demand(chance)
    claim = place(table, wanted, chance)
    table.rollback(mark)
    if claim is None:
        return
    before = facts(table)
    mark = table.checkpoint()
    table.charge(0, claim.demand, claim.on, is_hold=True)
    table.rollback(mark)
    assert facts(table) == before
    table.charge(0, claim.demand, claim.on, is_hold=True)
    for _ in range(5):
        other = place(table, a_demand(chance), chance)  # asserts that no card of its own is given twice
        if other:
            table.release(other.row, other.demand, other.on)
    chance.shuffle(held)
    for one in held:
        table.release(one.row, one.demand, one.on)
    check_cards(table, nodes, [claim])
    table.release(0, claim.demand, claim.on)
    assert facts(table) == empty


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_holds_let_nobody_in(block):
    for number in range(proof_count(HISTORIES) // BLOCKS):
        seed = number * BLOCKS + block
        try:
            check_hold(Random(seed))
        except AssertionError as problem:
            raise AssertionError(f"check_hold(Random({seed})): {problem}") from problem


def test_equal_cards_are_taken_alike():
    """The model's own sum of shares is what the table shows of a card."""
    node = TableNode(name="a", devices=tuple(a_card(Random(1), f"0-{card}") for card in range(4)))
    table = NodeTable([node])
    chance = Random(2)
    held = [one for one in (place(table, slice_demand({}, an_ask(chance)), chance) for _ in range(30)) if one]
    shares = [share for one in held if isinstance(one.on, Slices) for share in one.on.shares]
    plain = take(tuple(Card(device) for device in node.devices), shares)
    assert [one.use.memory_mib for one in plain] == [one.use.memory_mib for one in table.slices.cards_of(0)]
    assert [one.use.slots for one in plain] == [one.use.slots for one in table.slices.cards_of(0)]
