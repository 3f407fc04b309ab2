"""The driver of Kueue's load shapes: what it drives, that it comes to its end, and what it makes of what it saw."""

from __future__ import annotations

import asyncio
import json

import pytest

from bench.kueue_driver import Outcome, Target, Use, drive
from bench.kueue_load import Cost, Loaded, muster_up, told
from bench.kueue_shapes import SHAPES, surroundings, workload_body


@pytest.mark.parametrize(
    ("name", "queues", "workloads", "work_s"),
    [
        pytest.param("baseline", 30, 15_000, 66.0),
        pytest.param("large", 1_000, 50_000, 4.03),
        pytest.param("topology", 30, 15_000, 66.0),
    ],
)
def test_shapes(name, queues, workloads, work_s):
    shape = SHAPES[name]
    assert (len(list(shape.queue_names())), shape.workloads) == (queues, workloads)
    assert shape.work_s == pytest.approx(work_s, abs=0.01)


def test_a_scaled_shape_has_some_of_every_class():
    scaled = SHAPES["topology"].scaled(0.001)
    assert [one.count for one in scaled.classes] == [1] * 9


def test_the_topology_shape_has_its_nodes_and_asks_for_them():
    shape = SHAPES["topology"]
    nodes = [obj for path, obj in surroundings(shape) if path == "/api/v1/nodes"]
    assert len(nodes) == 640
    sliced = next(one for one in shape.classes if one.name == "large-sliced")
    (pod_set,) = json.loads(workload_body(sliced, "q", "w"))["spec"]["podSets"]
    assert (pod_set["count"], pod_set["topologyRequest"]["podSetSliceSize"]) == (8, 4)


def test_use_is_summed_up_over_time():
    use = Use()
    for cpus_milli, now_s in ((2_000, 1), (4_000, 2), (-6_000, 4)):
        use.change(cpus_milli, now_s)
    assert use.cpu_s == 2 + 12


def test_what_is_told_stands_beside_what_kueue_took():
    waits_s = {"large": 16.0, "medium": 10.0, "small": 20.0}
    outcome = Outcome(
        wall_s=135, load_s=134, waits_s=waits_s, usage=0.6, workloads=9, evictions=3, writes=2.5, driver_cpu_s=1
    )
    costs = {"muster": Cost(pid=1, cpu_s=55, most_mb=200)}
    lines = list(told(Loaded(shape="baseline", outcome=outcome, costs=costs, load_average=0.5)))
    assert "wall: 135.0 s, 0.33 of Kueue's 405" in lines
    assert "mean wait of large: 16.0 s, 0.50 of Kueue's 32" in lines
    assert "muster, CPU: 55.0 s, 0.50 of Kueue's 110" in lines
    assert "muster, memory at most: 200.0 MB" in lines


def test_a_drive_comes_to_its_end():
    with muster_up() as under:
        target = Target(url=under.url, token=under.token, ca_file=str(under.ca_file), shape="few")
        outcome = asyncio.run(drive(target))
    assert outcome.workloads == SHAPES["few"].workloads == 46
    assert all(outcome.waits_s[size] >= 0 for size in ("small", "medium", "large"))
    assert 0 < outcome.usage <= 6, "a queue borrows at most five times what it has"
    assert outcome.writes >= 2, "each was created and admitted"
