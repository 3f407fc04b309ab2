"""Cards that are lost on demand: who loses by that, and what is still offered."""

from __future__ import annotations

import pytest

from muster.controllers.nodes.cards import LOST, has_lost_card, lost_cards, offered
from muster.engine.devices_text import register_text
from muster.model.device import Device
from muster.vendors.nvidia import ALLOCATED, REGISTER

CARDS = [Device(uuid=f"GPU-{number}", memory_mib=1024, slots=10, model="T4") for number in range(2)]


def node(lost: str = "", *, has_cards: bool = True) -> dict:
    annotations = {REGISTER: register_text(CARDS)} if has_cards else {}
    if lost:
        annotations[LOST] = lost
    allocatable = {"cpu": "8", **({"nvidia.com/gpu": "20"} if has_cards else {})}
    return {"metadata": {"name": "n", "annotations": annotations}, "status": {"allocatable": allocatable}}


@pytest.mark.parametrize(
    ("lost", "left"),
    [
        pytest.param("", "20", id="none"),
        pytest.param("GPU-1", "10", id="one"),
        pytest.param(" GPU-0 , GPU-1,", "0", id="all, written loosely"),
        pytest.param("GPU-7,,", "20", id="one that was never there"),
    ],
)
def test_a_node_offers_what_is_left(lost, left):
    assert offered(node(), node(lost))["allocatable"] == {"cpu": "8", "nvidia.com/gpu": left}


def test_a_node_without_cards_has_none_to_lose():
    assert offered(node(has_cards=False), node("GPU-1", has_cards=False))["allocatable"] == {"cpu": "8"}
    assert lost_cards(None) == frozenset()


@pytest.mark.parametrize(
    ("allocated", "want"),
    [
        pytest.param("GPU-1,NVIDIA,100,0:;", True, id="a part of it"),
        pytest.param(";GPU-0,NVIDIA,100,0:GPU-1,NVIDIA,100,0:;", True, id="among others, in its second container"),
        pytest.param("GPU-0,NVIDIA,100,0:;", False, id="another"),
        pytest.param("", False, id="nothing"),
        pytest.param("nonsense", False, id="what cannot be read"),
    ],
)
def test_pods_that_hold_a_lost_card(allocated, want):
    pod = {"metadata": {"annotations": {ALLOCATED: allocated}}}
    assert has_lost_card(pod, node("GPU-1")) is want
    assert not has_lost_card(pod, node())
