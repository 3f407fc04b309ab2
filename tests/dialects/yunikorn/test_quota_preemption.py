"""Quota preemption: who leaves a queue that holds more than its maximum, and when."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.yunikorn.configuration import DEFAULT_PARTITION
from muster.dialects.yunikorn.queue_tree import PREEMPTION_DELAY, QUOTA_DELAY, QueueNode, delay_s
from muster.dialects.yunikorn.quota_preemption import Cap, TakenBack, take_back
from muster.dialects.yunikorn.read import Reading, Surroundings, read_pods
from muster.dialects.yunikorn.validate import read_configuration
from tests.dialects.yunikorn.builders import pod

QUEUES = """
partitions:
  - name: default
    preemption: {quotapreemptionenabled: ON}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: team
            parent: true
            resources: {max: {vcore: '6'}}
            properties: {quota.preemption.delay: 10s}
            queues:
              - {name: a, resources: {guaranteed: {vcore: '2'}, max: {vcore: '3'}}}
              - {name: b}
"""


def reading(*pods: Any, is_on: str = "true") -> Reading:
    return read_pods(pods, read_configuration(QUEUES.replace("ON", is_on), DEFAULT_PARTITION), Surroundings())


def running(name: str, queue: str, **said: Any) -> Any:
    return pod(name, node="n", app=f"of-{name}", queue=f"root.team.{queue}", **said)


def taken_back(read: Reading, *, since: dict[str, float] | None = None, now: float = 100.0) -> TakenBack:
    return take_back(read.workloads.values(), read.queues, caps=read.caps, above_since=since or {}, now=now)


LATE = {"yunikorn/root.team.a": 50.0, "yunikorn/root.team": 50.0}


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([running("p", "a", cpu="3")], [], id="at the maximum nobody leaves"),
        pytest.param(
            [running("low", "a", cpu="2"), running("high", "a", cpu="2", priority=9)], ["low"], id="the least important"
        ),
        pytest.param(
            [running("old", "a", at=1.0, cpu="2"), running("new", "a", at=2.0, cpu="2")], ["new"], id="the youngest"
        ),
        pytest.param([running("all", "a", cpu="4")], [], id="nobody by whom the queue would fall below its guarantee"),
        pytest.param(
            [running("x", "b", at=1.0, cpu="5"), running("y", "b", at=2.0, cpu="2")], ["y"], id="of a queue below too"
        ),
        pytest.param(
            [*(running(f"a{n}", "a", at=float(n)) for n in range(4)), *(running(f"b{n}", "b") for n in range(3))],
            ["a3"],
            id="who leaves a queue leaves those above it",
        ),
        pytest.param([pod("waits", app="w", queue="root.team.a", cpu="9")], [], id="who waits holds nothing"),
    ],
)
def test_who_leaves(pods, want):
    found = taken_back(reading(*pods), since=LATE)
    assert sorted(found.leaving) == [f"default/pod/{name}" for name in want]


def test_a_queue_has_its_delay_first():
    read = reading(running("p", "a", cpu="2"), running("q", "a", cpu="2"))
    first = taken_back(read, now=100.0)
    assert (first.leaving, first.above_since, first.next_due) == ((), {"yunikorn/root.team.a": 100.0}, 110.0)
    assert not taken_back(read, since=dict(first.above_since), now=109.0).leaving
    assert taken_back(read, since=dict(first.above_since), now=110.0).leaving


def test_what_got_below_its_maximum_is_forgotten():
    assert taken_back(reading(running("p", "a")), since=LATE) == TakenBack()


def test_nobody_leaves_where_it_is_not_on():
    assert reading(running("p", "a", cpu="9"), is_on="false").caps == {}


def test_caps_are_of_queues_with_a_maximum():
    assert reading().caps["yunikorn/root.team.a"] == Cap(most={"cpu": 3000}, guaranteed={"cpu": 2000}, delay_s=10.0)
    assert "yunikorn/root.team.b" not in reading().caps


@pytest.mark.parametrize(
    ("text", "want"), [("45s", 45.0), ("1m", 60.0), ("", 30.0), ("soon", 30.0), ("-5s", 30.0), ("9" * 200, 30.0)]
)
def test_a_delay_that_cannot_be_read_counts_as_not_given(text, want):
    node = QueueNode(path="root", parent=None, is_leaf=True, number=0, properties={PREEMPTION_DELAY: text})
    assert delay_s(node, PREEMPTION_DELAY) == want
    assert delay_s(node, QUOTA_DELAY) == 0.0


def test_who_waits_may_preempt_after_the_delay():
    asked = pod("p", at=100.0, queue="root.team.a")
    configuration = read_configuration(QUEUES.replace("ON", "true"), "")
    young = read_pods([asked], configuration, Surroundings(now=110.0, does_time_pass=True))
    assert (young.workloads["default/pod/p"].may_preempt, young.preempts_at) == (False, 130.0)
    old = read_pods([asked], configuration, Surroundings(now=130.0, does_time_pass=True))
    assert (old.workloads["default/pod/p"].may_preempt, old.preempts_at) == (True, None)
    planned = read_pods([asked], configuration, Surroundings(now=110.0))
    assert planned.workloads["default/pod/p"].may_preempt
