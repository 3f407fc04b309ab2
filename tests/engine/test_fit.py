"""The report on a pod that fits nowhere: every node counted once by its first reason, and the nearest ones named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muster.engine.devices import CardWishes
from muster.engine.devices_pod import PodCards
from muster.engine.fit import why_not
from muster.engine.fit_reasons import Misfit
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import Demand, TableNode, demand, slice_demand
from muster.engine.policy import Hooks
from muster.engine.slices_ask import CardAsk
from muster.model.device import Device, DeviceRequest
from muster.model.labels import NodeTerm, Operator, Requirement, Taint
from muster.model.pod_rules import ANYWHERE
from muster.vendors.nvidia import VENDOR
from tests.engine.fit_builders import (
    HOSTNAME,
    REQUIRED,
    ZONE,
    affinity,
    app,
    asks,
    expression,
    near,
    node,
    ports,
    put,
    rules,
    spread,
    spreads,
    world,
)

A = rules({"app": "a"})
GUARD = rules({"app": "guard"}, affinity("podAntiAffinity", near(HOSTNAME, app("a"))))
HAS_RACK = {"matchExpressions": [expression("rack", "Exists")]}
IN_RACK = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [HAS_RACK]}}}}
FAR = (NodeTerm((Requirement("rack", Operator.EXISTS),)),)


def told(report):
    return [(reason.text, count) for reason, count in report.refusals]


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param(ANYWHERE, [], id="it fits"),
        pytest.param(
            rules(spec={"nodeSelector": {"disk": "ssd"}}),
            [("without the labels that the pod or its flavor asks for", 2)],
            id="selector",
        ),
        pytest.param(rules(spec=IN_RACK), [("outside the node affinity", 2)], id="affinity"),
        pytest.param(rules(volumes=(FAR,)), [("with a volume node affinity conflict", 2)], id="volume"),
        pytest.param(rules(spec=ports({"hostPort": 80})), [("where a host port is taken", 1)], id="ports"),
        pytest.param(
            rules({}, spreads(spread("rack", {}))), [("without the label rack to spread over", 2)], id="label"
        ),
        pytest.param(
            rules({"app": "b"}, spreads(spread(ZONE, app("b")))),
            [(f"where the spread over {ZONE} would be too uneven", 1)],
            id="spread",
        ),
        pytest.param(
            rules({}, affinity("podAffinity", near(ZONE, app("b")))),
            [("away from the pods that it must be near", 1)],
            id="pod affinity",
        ),
        pytest.param(
            rules({}, affinity("podAntiAffinity", near(ZONE, app("b")), near(HOSTNAME, app("b")))),
            [("near pods that it must be away from", 1)],
            id="pod anti-affinity",
        ),
        pytest.param(A, [("near pods that must be away from it", 1)], id="kept away"),
    ],
)
def test_rules(wanted, want):
    place = world(node("x-1"), node("y-1"))
    put(place, "x-1", replace(GUARD, ports=rules(spec=ports({"hostPort": 80})).ports))
    put(place, "y-1", rules({"app": "b"}))
    report = why_not(place, asks(wanted))
    assert told(report) == want
    assert report.nodes == 2 and report.fitting == 2 - sum(count for _, count in want)


def test_nodes_in_a_state():
    place = world(
        node("a", {}, Taint("gpu", "a100")),
        node("b", is_schedulable=False),
        node("c", is_ready=False),
        node("d", {}, Taint("gpu", "a100")),
    )
    report = why_not(place, asks(ANYWHERE))
    assert told(report) == [("with the taint gpu=a100:NoSchedule", 2), ("cordoned", 1), ("not ready", 1)]
    assert report.fitting == 0


def test_amounts_and_cards():
    table = NodeTable(
        [
            TableNode(name="small", amounts={"cpu": 1_000, "pods": 9}, cards=8, model="a"),
            TableNode(name="full", amounts={"cpu": 9_000, "pods": 0}, cards=8, model="a"),
            TableNode(name="few", amounts={"cpu": 9_000, "pods": 9}, cards=1, model="a"),
            TableNode(name="other", amounts={"cpu": 9_000, "pods": 9}, cards=8, model="b"),
            TableNode(name="gone", amounts={"cpu": 9_000, "pods": 9}, cards=8, model="a"),
        ]
    )
    table.drop("gone")
    report = why_not(Placer(table, []), demand({"cpu": 3_000, "pods": 1}, cards=4, models=("a",)))
    assert [(reason.misfit, count) for reason, count in report.refusals] == [
        (Misfit.RESOURCE, 1),
        (Misfit.POD_COUNT, 1),
        (Misfit.CARDS, 1),
        (Misfit.MODEL, 1),
    ]
    assert [one.text for one in report.nearest] == [
        "other: without a card of the models a",
        "small: cpu 2 short",
        "few: 3 cards short",
    ]
    assert report.text.startswith(
        "0 of 4 nodes fit, 1 short of cpu, 1 full of pods, 1 short of cards, 1 without a card"
    )
    assert "; nearest other: without a card of the models a; small: cpu 2 short; few" in report.text


def test_slices_are_tried_card_by_card():
    cards = [Device(uuid=uuid, vendor="NVIDIA", memory_mib=1_000, slots=9, numa=numa) for numa, uuid in enumerate("ab")]
    table = NodeTable([TableNode(name="two", devices=tuple(cards)), TableNode(name="one", devices=(cards[0],))])
    place = Placer(table, [])

    def slices(memory: int) -> Demand:
        wanted = {"NVIDIA": DeviceRequest(vendor="NVIDIA", count=1, memory_mib=memory)}
        pod = PodCards(requests=(wanted, wanted), vendors={"NVIDIA": VENDOR}, wishes={"NVIDIA": CardWishes()})
        return slice_demand({}, CardAsk(pod), card_memory_mib=1_000)

    assert why_not(place, slices(400)).fitting == 2
    assert told(why_not(place, slices(1_200))) == [("short of cards", 2)]
    # Each container for itself finds room on either node: only the exact try knows that both find it on one of them.
    assert place.place(slices(800)) is not None
    assert place.place(slices(800)) is None
    report = why_not(place, slices(800))
    words = "one: short of cards: 1/1 CardInsufficientMemory"
    assert told(report) == [("short of cards", 2)] and report.nearest[1].text == words


def test_what_no_node_could_have():
    place = world(node("a"))
    report = why_not(place, demand({"example.com/thing": 2}))
    assert report.nearest[0].text == "a: example.com/thing 2 short"
    assert why_not(place, demand({"cpu": 2**100})).fitting == 0


def test_the_nearest_have_the_fewest_reasons_and_lack_the_least():
    place = world(*(node(f"n{index}") for index in range(5)), node("n5", {}, Taint("gpu")))
    for row, cpu in enumerate((9_000, 8_500, 9_500, 9_600, 8_500, 0)):
        place.charge(row, demand({"cpu": cpu}), ())
    report = why_not(place, asks(ANYWHERE, cpu=2_000))
    assert [one.name for one in report.nearest] == ["n5", "n1", "n4"]
    assert report.nearest[1].text == "n1: cpu 500m short"
    both = why_not(place, asks(rules(spec={"nodeSelector": {HOSTNAME: "n0"}}), cpu=2_000))
    assert both.nearest[0].text == "n0: cpu 1 short"
    assert len(both.nearest[2].lacks) == 2


def test_only_some_rows():
    place = world(node("a"), node("b"), node("c", {}, Taint("gpu")))
    report = why_not(place, asks(ANYWHERE), within=np.array([True, False, True]))
    assert (report.nodes, report.fitting) == (2, 1)


def test_policies_may_refuse():
    place = world(node("a"), node("b"), hooks=[Hooks(fit=lambda pod, rows: np.arange(len(rows)) == 1)])
    assert told(why_not(place, asks(ANYWHERE))) == [("ruled out by a policy", 1)]


@pytest.mark.parametrize("word", ["find", "place"])
def test_a_pod_within_some_rows(word):
    place = world(node("a"), node("b"), node("c"))
    within = np.array([False, True, True])
    assert getattr(place, word)(asks(A), within=within).row == 1
    assert getattr(place, word)(asks(A), within=np.zeros(3, np.bool_)) is None


def test_gangs_within_some_rows():
    place = world(node("a"), node("b"), node("c"))
    within = np.array([False, True, True])
    assert place.place_many(asks(ANYWHERE, cpu=5_000), 5, within=within) is None
    assert place.place_all([asks(A, cpu=9_000), asks(A, cpu=9_500), asks(A, cpu=9_500)], within=within) is None
    found = place.place_many(asks(ANYWHERE, cpu=5_000), 4, within=within)
    assert found is not None and [one.row for one in found] == [1, 1, 2, 2]
    place.commit()


def test_rules_without_anything_known_of_nodes_are_a_mistake():
    table = NodeTable([TableNode(name="a", amounts={"cpu": 1_000, "pods": 1})])
    with pytest.raises(AssertionError, match="was not given"):
        Placer(table, []).find(asks(rules(spec={"nodeSelector": {"disk": "ssd"}})))
