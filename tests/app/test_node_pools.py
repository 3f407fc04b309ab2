"""The file of simulated nodes: what becomes of it, what is refused, and what their pods answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from muster.app.node_pools import read_pools
from muster.app.plugins import vendors
from muster.controllers.nodes.simulated_streams import SimulatedStreams
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.pod_streams import CommandOptions, LogOptions, Place, Unreachable
from muster.vendors.nvidia import ALLOCATED, devices_of
from tests.controllers.nodes.pods import pod
from tests.stopwatch import is_done_within
from tests.support import ROOT

EXAMPLE = ROOT / "examples" / "gpu-cluster.yaml"


def test_the_example_is_a_cluster():
    cards, cpu, spot = read_pools(EXAMPLE)
    assert [pool.name for pool in (cards, cpu, spot)] == ["a100", "cpu", "spot"]
    assert [(pool.minimum, len(pool.nodes)) for pool in (cards, cpu, spot)] == [(4, 4), (8, 8), (0, 8)]
    first = cards.nodes[0]
    devices = devices_of(Fields.of(first))
    assert [(one.uuid, one.memory_mib, one.slots) for one in devices][:1] == [("GPU-a100-0-0", 81920, 10)]
    assert first["status"]["capacity"] == {
        "cpu": "96",
        "memory": "1Ti",
        "pods": "110",
        "ephemeral-storage": "100Gi",
        "nvidia.com/gpu": "80",
    }
    assert cards.habits.run is not None and cpu.habits.run is None
    assert (spot.start.first_s, spot.idle_s, spot.price) == (20.0, 120.0, 1.25)
    assert spot.nodes[0]["metadata"]["annotations"]["sim.muster.dev/price"] == "1.25"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param("pools: [{name: a, count: -1}]", "pools[0].count", id="fewer than none"),
        pytest.param("pools: [{name: a, count: 1, memory: 5}]", "pools[0].memory", id="an unknown field"),
        pytest.param("pools: [{name: A_b, count: 1}]", "pools[0].name", id="no name for a node"),
        pytest.param("pools: [{name: a, count: 1}, {name: a, count: 1}]", "pools[1].name", id="twice"),
        pytest.param("pools: [{name: a, count: 1, capacity: {cpu: many}}]", "pools[0].capacity[cpu]", id="no amount"),
        pytest.param("pools: [{name: a, count: 1, runTime: soon}]", "pools[0].runTime", id="no time"),
        pytest.param("pools: [{name: a, count: 1, cards: {count: 1, memory: 1}}]", "cards.memory", id="no memory"),
        pytest.param("pools: [{name: a, count: 999999999}]", "pools[0].count", id="too many"),
        pytest.param("pools: [{name: a}]", "give count, or minimum and maximum", id="no number"),
        pytest.param("pools: [{name: a, count: 1, maximum: 2}]", "pools[0].count", id="two kinds of numbers"),
        pytest.param("pools: [{name: a, minimum: 3, maximum: 2}]", "pools[0].minimum", id="more than the most"),
        pytest.param("pools: [{name: a, maximum: 1, price: -1}]", "pools[0].price", id="a price below zero"),
        pytest.param("pools: [{name: a, maximum: 1, price: dear}]", "pools[0].price", id="no price"),
        pytest.param("pools: [{name: a, maximum: 1, idleTime: -1s}]", "pools[0].idleTime", id="before it began"),
        pytest.param("pools: [{name: a, maximum: 1, nodeStartTime: x}]", "pools[0].nodeStartTime", id="no start"),
        pytest.param("[]", "", id="no file of pools"),
    ],
)
def test_what_is_refused(text: str, where: str, tmp_path: Path):
    (tmp_path / "nodes.yaml").write_text(text)
    with pytest.raises(InvalidObject) as refused:
        read_pools(tmp_path / "nodes.yaml")
    assert where in str(refused.value)


def test_many_nodes_are_read_fast(tmp_path: Path):
    (tmp_path / "nodes.yaml").write_text("pools: [{name: a, count: 2000, cards: {count: 8, memory: 80Gi}}]")
    assert is_done_within(4.0, lambda: read_pools(tmp_path / "nodes.yaml"))


PLACE = Place(node="a100-0", namespace="x", pod="p", uid="u", container="c")


def _streams(allocated: str = "") -> SimulatedStreams:
    node = read_pools(EXAMPLE)[0].nodes[0]
    given = pod("c", metadata={"annotations": {ALLOCATED: allocated} if allocated else {}})
    running = {"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "lastState": {}}
    given["status"] = {"containerStatuses": [running]}
    found = {"pods": given, "nodes": node}
    return SimulatedStreams(lambda resource, _namespace, _name: found.get(resource), vendors().values())


def _answer(streams: SimulatedStreams, *command: str) -> tuple[int, str]:
    async def ask() -> tuple[int, str]:
        running = await streams.run(PLACE, CommandOptions(command=command, has_stdout=True))
        text = b"".join([piece async for _, piece in running.output()])
        return await running.exit_code(), text.decode()

    return asyncio.run(ask())


def test_a_pod_sees_its_slice_of_a_card():
    streams = _streams("GPU-a100-0-3,NVIDIA,20480,30:;")
    assert _answer(streams, "nvidia-smi", "-L") == (0, "GPU 0: NVIDIA-A100-SXM4-80GB (UUID: GPU-a100-0-3)\n")
    code, table = _answer(streams, "nvidia-smi")
    assert code == 0 and "0MiB / 20480MiB" in table and "up to 30%" in table
    assert len({len(line) for line in table.splitlines()}) == 1


def test_a_pod_without_cards_sees_none():
    assert _answer(_streams(), "nvidia-smi") == (6, "No devices were found\n")
    assert _answer(_streams(), "bash")[0] == 127


def test_a_simulated_pod_has_a_log():
    async def read() -> bytes:
        pieces = await _streams().open_log(PLACE, LogOptions(has_timestamps=True))
        return b"".join([piece async for piece in pieces])

    assert asyncio.run(read()) == b"2026-01-01T00:00:00Z simulated container c of x/p runs\n"
    with pytest.raises(Unreachable):
        asyncio.run(_streams().open_log(PLACE, LogOptions(is_previous=True)))
