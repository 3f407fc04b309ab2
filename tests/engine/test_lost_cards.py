"""Cards that a node loses and finds again: whoever holds one by name holds that one, whatever number it has by then."""

from __future__ import annotations

import json
from random import Random

import pytest

from muster.dialects.hami.cards import table_devices
from muster.engine.invariants import differences, violations
from muster.engine.state import EngineState
from muster.model.fields import Fields
from muster.model.topology import HOSTNAME, Node
from muster.model.workload import Slot, Workload
from muster.vendors.nvidia import VENDOR
from tests.engine.builders import (
    GPU,
    LOWER,
    evicted,
    key_of,
    name_of,
    preempts,
    queue,
    run_cycle,
    run_cycles,
    workload,
)
from tests.engine.slot_builders import held, placing_state, slice_of, sliced, where
from tests.support import assert_sound, proof_count

REGISTER = "hami.io/node-nvidia-register"
HOME = queue("team-a", gpus=99, preemption=preempts(within=LOWER))


def registering(cards: str) -> Node:
    """A node that registers these cards, one letter each, and numbers them from 0 on, as drivers do."""
    facts = {"count": 10, "devmem": 16_000, "devcore": 100, "type": "NVIDIA", "health": True, "mode": "hami-core"}
    register = json.dumps([{"id": card, "index": index, **facts} for index, card in enumerate(cards)])
    obj = {"metadata": {"name": "n", "annotations": {REGISTER: register}}}
    devices = table_devices(Fields(obj, ""), (VENDOR,)).devices
    return Node(name="n", labels={HOSTNAME: "n"}, allocatable={GPU: len(cards), "pods": 99}, devices=devices)


def holds(name: str, *cards: tuple[int, str]) -> Workload:
    """A workload on whole cards that stood at these numbers when it got them."""
    slot = Slot("n", tuple(number for number, _ in cards), None, tuple(card for _, card in cards))
    return held(workload(name, gpus=len(cards)), [slot])


def cards_of(state: EngineState, *names: str) -> str:
    """The cards of workloads, by name."""
    admissions = [state.workloads[key_of(name)].admission for name in names]
    slots = [slot for one in admissions if one is not None for given in one.pod_sets for slot in given.slots]
    return "".join(sorted(card for slot in slots for card in slot.names))


def fill(state: EngineState, count: int = 6) -> str:
    """The cards that are given to those who come for one each."""
    for number in range(count):
        state.take(workload(f"more-{number}", queued_at=9 + number))
    run_cycles(state, count + 1)
    assert not list(violations(state))
    return cards_of(state, *(f"more-{number}" for number in range(count)))


@pytest.mark.parametrize(
    ("one", "registers", "want"),
    [
        pytest.param(holds("w", (2, "C")), ["ABCD"], "ABD", id="nothing happens"),
        pytest.param(holds("w", (2, "C")), ["ABCD", "ACD"], "AD", id="one before it is lost, and all move up"),
        pytest.param(holds("w", (2, "C")), ["ABCD", "ACD", "ABCD"], "ABD", id="and comes back"),
        pytest.param(holds("w", (1, "B")), ["ABCD", "ACD"], "ACD", id="its own card is lost"),
        pytest.param(holds("w", (1, "B")), ["ABCD", "ACD", "ABCD"], "ACD", id="and comes back"),
        pytest.param(holds("w", (1, "B")), ["ABCD", "ACD", "ACDB"], "ACD", id="at another place"),
        pytest.param(holds("w", (0, "A"), (3, "D")), ["ABCD", "DCBA"], "BC", id="all are numbered anew"),
        pytest.param(holds("w", (2, "C")), ["ABCD", "", "DC"], "D", id="all are lost for a while"),
        pytest.param(holds("w", (2, "C")), ["ABCD", "XYZ"], "XYZ", id="others take the place of all"),
    ],
)
@pytest.mark.parametrize("how", ["running", "restarted", "before the node"])
def test_card_stays_its_holders(one, registers, want, how):
    """In a running engine, after a restart that sees the last register only, and when the node comes later."""
    nodes = [registering(cards) for cards in registers]
    if how == "running":
        state = placing_state(HOME, nodes[0], one)
        for node in nodes[1:]:
            state.put_node(node)
    elif how == "restarted":
        state = placing_state(HOME, nodes[-1], one)
    else:
        state = placing_state(HOME, one)
        state.put_node(nodes[-1])
    assert fill(state) == want
    state.drop(key_of("w"))
    left = set(registers[-1]) - set(want)
    assert set(cards_of(state, *(name_of(key) for key in state.workloads))) == set(want)
    run_cycles(state, 3)
    got = set(cards_of(state, *(name_of(key) for key in state.workloads)))
    assert got == set(want) | left, "what it gave back others get"
    assert not list(violations(state))


def test_old_records_without_names_go_by_number():
    state = placing_state(HOME, registering("ABCD"), held(workload("w"), [Slot("n", (2,))]))
    assert fill(state) == "ABD"


def test_card_beyond_those_that_the_node_has_is_held_all_the_same():
    """It was the eighth of a node that has two by now: its holder stays, and nobody else is in its way."""
    state = placing_state(HOME, registering("AB"), held(workload("w"), [Slot("n", (7,))]))
    assert fill(state) == "AB"
    state.put_node(registering("ABCDEFGH"))
    run_cycles(state, 5)
    assert not list(violations(state))
    assert "H" not in fill(state, 9)


def test_victims_are_those_on_the_card_itself():
    """Slices tell their card by name too: its number on the node is not where it stands among those that are held."""
    state = placing_state(HOME, registering("AB"), workload("vip", priority=9))
    run_cycle(state)
    state.put_node(registering("BA"))
    state.take(workload("low", pod_sets=(sliced(of=slice_of(memory_mib=16_000)),), queued_at=2))
    run_cycle(state)
    assert (cards_of(state, "vip"), where(state, "low")) == ("A", {"n": 1})
    state.take(workload("new", priority=5, queued_at=3))
    assert set(evicted(run_cycle(state))) == {"low"}
    run_cycle(state)
    assert cards_of(state, "new") == "B"
    assert not list(violations(state))


@pytest.mark.prove
def test_no_card_is_given_twice_however_they_are_numbered():
    assert_sound(_numbers_change, range(proof_count(1_000)))


def _numbers_change(chance: Random) -> None:
    state = placing_state(HOME, registering("ABCD"))
    for step in range(12):
        what = chance.random()
        if what < 0.4:
            state.take(workload(f"w{step}", gpus=chance.randint(1, 2), queued_at=step))
        elif what < 0.6 and state.workloads:
            state.drop(chance.choice(sorted(state.workloads)))
        else:
            cards = [card for card in "ABCDE" if chance.random() < 0.8]
            chance.shuffle(cards)
            state.put_node(registering("".join(cards)))
        run_cycles(state, 2)
        assert not list(violations(state))
        held_cards = cards_of(state, *(name_of(key) for key in state.workloads))
        assert len(set(held_cards)) == len(held_cards), f"{held_cards} are held"
    node = registering("".join(chance.sample("ABCDE", 5)))
    state.put_node(node)
    again = placing_state(HOME, node, *state.workloads.values())
    assert not list(differences(state, again))
