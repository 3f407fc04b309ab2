"""Simulated pods use half of what they ask for, or what they say; their nodes what all of them use."""

from __future__ import annotations

from typing import Any

import pytest

from muster.controllers.nodes.simulated_usage import SimulatedUsage
from muster.model.usage import Usage
from muster.store.clock import VirtualClock

Json = dict[str, Any]


def pod(phase: str = "Running", requests: Json | None = None, **notes: str) -> Json:
    annotations = {f"sim.muster.dev/{name.replace('_', '-')}": value for name, value in notes.items()}
    spec = {"containers": [{"name": "a", "resources": {"requests": requests or {}}}, {"name": "b"}]}
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": spec, "status": {"phase": phase}}


ASKS = {"cpu": "100m", "memory": "2Mi"}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(pod(requests=ASKS), {"a": (50, 1 << 20), "b": (0, 0)}, id="half of what it asks for"),
        pytest.param(pod(requests=ASKS, cpu_usage="250m"), {"a": (250, 1 << 20), "b": (250, 0)}, id="as it says"),
        pytest.param(pod(memory_usage="1Ki"), {"a": (0, 1024), "b": (0, 1024)}, id="memory as it says"),
        pytest.param(pod(cpu_usage="much"), {"a": (0, 0), "b": (0, 0)}, id="what cannot be read"),
        pytest.param(pod(cpu_usage="-1"), {"a": (0, 0), "b": (0, 0)}, id="less than nothing"),
        pytest.param(pod("Pending", requests=ASKS), None, id="one that does not run"),
    ],
)
def test_of_a_pod(given: Json, want: dict[str, tuple[int, int]] | None) -> None:
    found = SimulatedUsage(lambda _node: (), VirtualClock(5.0)).of_pod(given)
    shown = None if found is None else {name: (u.cpu_nanos // 10**6, u.memory_bytes) for name, u in found.parts.items()}
    assert shown == want


def test_of_a_node() -> None:
    usage = SimulatedUsage(lambda node: [pod(requests=ASKS)] * 3 if node == "n" else [], VirtualClock(5.0))
    found = usage.of_node({"metadata": {"name": "n"}})
    assert found is not None and found.total == Usage(cpu_nanos=150_000_000, memory_bytes=3 << 20)
    empty = usage.of_node({"metadata": {"name": "m"}})
    assert empty is not None and empty.total == Usage(cpu_nanos=0, memory_bytes=0)
