"""Which pod has which slot: what is written on pods counts first, then their nodes, then their numbers and names."""

from __future__ import annotations

from typing import Any

import pytest

from muster.controllers.seating import INDEX_LABELS, POD_SET_LABEL, SLOT_ANNOTATION, seat, slot_note
from muster.model.slices import Share, Slices
from muster.model.workload import Slot
from tests.stopwatch import is_done_within

SLOTS = {"main": (Slot("a"), Slot("a"), Slot("b"))}
TWO_SETS = {"x": (Slot("a"),), "y": (Slot("b"),)}


def pod(name: str, node: str = "", **more: Any) -> dict[str, Any]:
    labels = {POD_SET_LABEL: more["of"]} if "of" in more else {}
    labels |= {INDEX_LABELS[0]: more["index"]} if "index" in more else {}
    notes = {SLOT_ANNOTATION: more["slot"]} if "slot" in more else {}
    spec = {"nodeName": node, **more.get("spec", {})}
    status = {"phase": more.get("phase", "Pending")}
    return {"metadata": {"namespace": "n", "name": name, "labels": labels, "annotations": notes}, "spec": spec} | {
        "status": status
    }


@pytest.mark.parametrize(
    ("slots", "pods", "seated", "to_bind"),
    [
        pytest.param(SLOTS, [pod("p")], "", {"p": "main/0"}, id="the first that is free"),
        pytest.param(SLOTS, [pod("q"), pod("p")], "", {"p": "main/0", "q": "main/1"}, id="in the order of names"),
        pytest.param(SLOTS, [pod("p", index="2")], "", {"p": "main/2"}, id="its own number"),
        pytest.param(
            SLOTS,
            [pod("p", index="9"), pod("q", index="-1")],
            "",
            {"p": "main/0", "q": "main/1"},
            id="not a slot",
        ),
        pytest.param(SLOTS, [pod("p", "a", slot="main/1"), pod("q")], "p", {"q": "main/0"}, id="what is written on it"),
        pytest.param(SLOTS, [pod("p", "b", slot="main/1")], "p", {}, id="its node counts, not what is written on it"),
        pytest.param(SLOTS, [pod("p", "b", slot="main/" + "9" * 5000)], "p", {}, id="nonsense is written on it"),
        pytest.param(SLOTS, [pod("p", "a"), pod("q", "a", slot="main/0")], "pq", {}, id="others leave it its own"),
        pytest.param(SLOTS, [pod("p", "c"), pod("q")], "", {"q": "main/0"}, id="a stranger has no slot"),
        pytest.param(SLOTS, [pod("p", "b"), pod("q", "b")], "p", {}, id="one slot for one pod"),
        pytest.param(SLOTS, [pod("p", "b", phase="Failed"), pod("q", "b")], "q", {}, id="what is over has none"),
        pytest.param(SLOTS, [pod("p", spec={"schedulingGates": [{"name": "g"}]})], "", {}, id="gated"),
        pytest.param(SLOTS, [pod("p", spec={"schedulerName": "else"})], "", {}, id="of another scheduler"),
        pytest.param(TWO_SETS, [pod("p", of="y"), pod("q", of="x")], "", {"p": "y/0", "q": "x/0"}, id="by pod set"),
        pytest.param(TWO_SETS, [pod("p"), pod("q", of="z")], "", {}, id="of no pod set"),
        pytest.param({}, [pod("p"), pod("q", "a")], "", {}, id="no slots"),
    ],
)
def test_seating(slots, pods, seated, to_bind):
    found = seat(slots, pods)
    assert found.seated == {f"n/{name}" for name in seated}
    assert {one["metadata"]["name"]: note for one, note, _ in found.to_bind} == to_bind


def test_pods_that_are_over_count_as_bound_and_those_without_a_slot_are_named():
    found = seat(SLOTS, [pod("a", "a", phase="Succeeded"), pod("b", "a"), *(pod(f"c{number}") for number in range(3))])
    assert found.bound_count == 2
    assert [one["metadata"]["name"] for one in found.without_slot] == ["c2"]


def test_many_pods_that_others_have_bound_cost_little():
    slots = {"main": tuple(Slot("a") for _ in range(5_000))}
    pods = [pod(f"p{number}", "a") for number in range(5_000)]
    assert is_done_within(2.0, lambda: seat(slots, pods))
    assert len(seat(slots, pods).seated) == 5_000


def sliced(card: str) -> Slot:
    return Slot("a", (), Slices((Share(uuid=card, vendor="NVIDIA", memory_mib=5000),)))


@pytest.mark.parametrize("before", [sliced("other card"), Slot("a", (0,), None, ("GPU-7",)), Slot("a")])
def test_a_pod_that_holds_other_cards_has_none_of_the_new_slots(before):
    """It was bound before its workload was evicted and admitted anew: its cards are not those of the new slot."""
    leaving = pod("p", "a", slot=slot_note("main", 0, before))
    found = seat({"main": (sliced("card"),)}, [leaving, pod("q")])
    assert not found.seated, "so it is charged by itself"
    assert [one["metadata"]["name"] for one, _, _ in found.to_bind] == ["q"]
    again = pod("q", "a", slot=found.to_bind[0][1])
    assert seat({"main": (sliced("card"),)}, [leaving, again]).seated == {"n/q"}
