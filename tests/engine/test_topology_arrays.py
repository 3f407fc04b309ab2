"""Many leaves at once: arrays give the same places as counting leaf by leaf, whatever happens in between."""

from __future__ import annotations

from bisect import insort
from random import Random

import numpy as np
import pytest

from muster.engine import topology_leaves
from muster.engine.topology import PlacedUse, Topologies
from muster.engine.topology_arrays import AMOUNT_MOST, LeafOrder, LeftTable, times_each
from muster.engine.topology_tree import Column, Free
from muster.model.flavor import Flavor
from muster.model.labels import Taint
from muster.model.podspec import PodShape
from muster.model.topology import HOSTNAME, Node, PlacementAsk, TopologyAssignment, TopologyRequest
from tests.support import proof_count

RACK = "rack"
NUMBERS = {"cpu": 0, "pods": 1}
RUNS = 2_000


def column(*amounts):
    made = Column()
    made.frees = [None if one is None else Free(one) for one in amounts]
    return made


def times(made, *need, resources=NUMBERS, table=None):
    rows = (table or LeftTable()).rows(made, len(resources))
    return None if rows is None else times_each(rows, need, resources).tolist()


@pytest.mark.parametrize(
    ("amounts", "need", "want"),
    [
        pytest.param([(8, 9), (3, 9)], [("cpu", 2), ("pods", 1)], [4, 1], id="the scarcest resource counts"),
        pytest.param([(8, 1)], [("cpu", 2), ("pods", 1)], [1], id="also when it is the pods"),
        pytest.param([(-3, 9)], [("cpu", 2)], [0], id="who is over has nothing left"),
        pytest.param([None, (2, 2)], [("cpu", 1)], [0, 2], id="a leaf without nodes"),
        pytest.param([(4,)], [("cpu", 1), ("pods", 1)], [0], id="noted down before the resource was known"),
        pytest.param([(4, 4)], [("cards", 1)], [0], id="a resource that nobody has"),
        pytest.param([(4, 4)], [("cpu", AMOUNT_MOST + 1)], [0], id="more than anybody can have"),
        pytest.param([(2**70, 1), (1, 1)], [("cpu", 1)], None, id="too large for an array"),
        pytest.param([(AMOUNT_MOST + 1, 1)], [("cpu", 1)], None, id="nearly too large"),
    ],
)
def test_how_often_a_need_fits(amounts, need, want):
    assert times(column(*amounts), *need) == want


def test_table_follows_what_changes():
    made, table = column((1, 1), (2, 2), (3, 3)), LeftTable()
    assert times(made, ("cpu", 1), table=table) == [1, 2, 3]
    made.put(1, Free((9, 9)))
    made.put(1, Free((8, 8)))
    made.put(2, None)
    assert times(made, ("cpu", 1), table=table) == [1, 8, 0]
    more = {**NUMBERS, "cards": 2}
    made.put(0, Free((1, 1, 5)))
    assert times(made, ("cards", 1), resources=more, table=table) == [5, 0, 0]
    made.put(0, Free((2**80, 1, 5)))
    assert times(made, ("cpu", 1), resources=more, table=table) is None
    made.restart()
    made.frees[0] = Free((4, 4, 4))
    assert times(made, ("cpu", 1), resources=more, table=table) == [4, 8, 0]


@pytest.mark.parametrize("most", [3, 2**20], ids=["few numbers", "large numbers"])
def test_order_stays_sorted(most):
    chance = Random(most)
    numbers = [chance.randrange(most) for _ in range(50)]
    order = LeafOrder(np.array(numbers, dtype=np.int64))
    plain = sorted((number, number, position) for position, number in enumerate(numbers))
    for _ in range(300):
        assert list(order) == plain and order[-1] == plain[-1] and order[3:6] == plain[3:6]
        position, after = chance.randrange(len(numbers)), chance.randrange(most)
        before = (numbers[position], numbers[position], position)
        numbers[position] = after
        order.move(before, (after, after, position))
        plain.remove(before)
        insort(plain, (after, after, position))


# The same places -------------------------------------------------------------------------------------------------


def play(number):
    """The places that a cluster gives as it fills and empties."""
    chance = Random(number)
    topologies = Topologies([Flavor(name="gpu", topology="racks", topology_levels=(RACK, HOSTNAME))])
    for index in range(chance.randint(1, 20)):
        topologies.put_node(a_node(chance, index))
    held, found = [], []
    for step in range(30):
        asked = an_ask(chance)
        place = topologies.find({"gpu": [asked]}, is_empty=chance.random() < 0.1)["main"]
        found.append(place)
        if isinstance(place, TopologyAssignment) and topologies.has_room(
            [PlacedUse("gpu", place, asked.shape.requests)]
        ):
            held.append(PlacedUse("gpu", place, asked.shape.requests))
            topologies.charge(held[-1])
        if held and chance.random() < 0.3:
            topologies.release(held.pop(chance.randrange(len(held))))
        if chance.random() < 0.1:
            topologies.put_node(a_node(chance, chance.randrange(22)))
        if step % 2:
            topologies.commit()
    return found


def a_node(chance, index):
    amounts = {"cpu": chance.choice((4, 8, 8, 8, 2**70 if chance.random() < 0.02 else 9)), "pods": 10}
    cards = {"cards": chance.randint(0, 4)} if chance.random() < 0.5 else {}
    taints = (Taint("reserved", "", "NoSchedule"),) if chance.random() < 0.1 else ()
    labels = {RACK: f"rack-{index % 4}", HOSTNAME: f"node-{index}"}
    return Node(name=f"node-{index}", labels=labels, allocatable={**amounts, **cards}, taints=taints)


def an_ask(chance):
    requests = {"cpu": chance.randint(1, 4)} | ({"cards": 1} if chance.random() < 0.3 else {})
    wanted = chance.choice((None, TopologyRequest(required=RACK), TopologyRequest(preferred=HOSTNAME)))
    return PlacementAsk(name="main", count=chance.randint(1, 12), shape=PodShape(requests=requests), request=wanted)


@pytest.mark.prove
def test_arrays_give_the_same_places(monkeypatch):
    numbers = range(proof_count(RUNS))
    exact = [play(number) for number in numbers]
    monkeypatch.setattr(topology_leaves, "ARRAY_LEAST", 0)
    for number, places in zip(numbers, exact, strict=True):
        assert play(number) == places, f"play({number})"
