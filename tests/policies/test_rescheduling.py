"""rescheduling: pods leave nodes that are far busier than others."""

from __future__ import annotations

import pytest

from muster.app.policies import build_tiers
from muster.engine.profile import tier
from muster.engine.stages.groups import run_stages
from muster.model.errors import InvalidObjects
from muster.model.groups import MeasuredUse
from tests.groups import GIB, group, node, pod, queue
from tests.policies.opened import opened, uses

BUSY = {"n": MeasuredUse(cpu_percent=90), "m": MeasuredUse(cpu_percent=10)}
LOW = {"thresholds": {"cpu": 20, "memory": 20, "pods": 20}, "targetThresholds": {"cpu": 50, "memory": 50, "pods": 50}}


def strategy(**params):
    return {"name": "lowNodeUtilization", "params": params}


def evicted(pods, measured=BUSY, **arguments):
    given = opened(
        uses("rescheduling", **arguments),
        nodes=[node("n"), node("m")],
        pods=pods,
        measured=measured,
        queues=[queue(), queue("r")],
        groups=[group("a"), group("b", queue="r")],
    )
    run_stages(given, ["shuffle"])
    return given.outcome.evicted


FOUR = [pod(f"p{index}", "a", node="n", priority=index) for index in range(4)]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param({"strategies": [strategy(**LOW)]}, ["ns/p0", "ns/p1"], id="until the node is below its target"),
        pytest.param({}, [], id="nothing is told: no node is too busy"),
        pytest.param(
            {"strategies": [strategy(thresholds={"cpu": 20}, targetThresholds={"cpu": 95})]}, [], id="a mild target"
        ),
        pytest.param(
            {"strategies": [strategy(thresholds={"cpu": 5}, targetThresholds={"cpu": 50})]}, [], id="nobody is idle"
        ),
        pytest.param({"strategies": [{"name": "offlineOnly"}]}, [], id="a strategy of which nothing comes"),
        pytest.param({"strategies": [strategy(**LOW)], "queueSelector": ["r"]}, [], id="of another queue"),
        pytest.param({"strategies": [strategy(**LOW)], "labelSelector": {"x": "y"}}, [], id="with other labels"),
        pytest.param(
            {"strategies": [strategy(**LOW)], "queueSelector": ["q"], "interval": "1m", "metricsPeriod": "5m"},
            ["ns/p0", "ns/p1"],
            id="of this queue",
        ),
    ],
)
def test_who_leaves(arguments, want):
    assert evicted(FOUR, **arguments) == want


def test_of_equals_those_leave_first_that_are_promised_least():
    sure = {"requests": {"memory": GIB}, "limits": {"cpu": 1000, "memory": GIB}}
    pods = [pod("sure", "a", node="n", **sure), pod("some", "a", node="n"), pod("none", "a", cpu=0, node="n")]
    assert evicted(pods, strategies=[strategy(**LOW)]) == ["ns/none", "ns/some", "ns/sure"]


def test_places_for_pods_count():
    crowd = [pod(f"p{index:02}", "a", cpu=0.01, node="n") for index in range(60)]
    calm = {"n": MeasuredUse(), "m": MeasuredUse()}
    assert len(evicted(crowd, calm, strategies=[strategy(**LOW)])) == 5  # 55 of 110 are half of them


@pytest.mark.parametrize(
    ("strategies", "want"),
    [
        pytest.param([{"name": "dance"}], "a strategy is", id="unknown"),
        pytest.param(["lowNodeUtilization"], "a strategy is", id="no object"),
        pytest.param([strategy(thresholds={"disk": 1})], "thresholds has 'disk'", id="of what nobody measures"),
        pytest.param([strategy(thresholds={"cpu": "much"})], "thresholds has 'cpu'", id="no number"),
    ],
)
def test_mistakes_are_named(strategies, want):
    with pytest.raises(InvalidObjects) as caught:
        build_tiers((tier(uses("rescheduling", strategies=strategies)),))
    assert want in str(caught.value)
