"""What containers use is what their processes have worked and hold, between two looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.agent.local import usage
from muster.agent.local.usage import LEAST_S, LocalUsage
from muster.model.pod_streams import LogOptions
from muster.store.clock import RealClock, VirtualClock
from tests.agent.local.machine import Machine, on_machine, shell

# Holds 20 MiB, has children that work, and says when it is done.
WORK = "(j=0; while [ $j -lt 30000 ]; do j=$((j+1)); done)"
SCRIPT = f'x=$(head -c 20971520 /dev/zero | tr "\\0" a); for i in 1 2 3; do {WORK}; done'


def test_a_container_s_processes_are_added_up(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        busy = shell(f"{SCRIPT}; echo done; exec sleep 1000", name="busy")
        key = await machine.create("p", busy, shell("exec sleep 1000", name="idle"), terminationGracePeriodSeconds=0)
        pod = await machine.until(key, lambda pod: (pod.get("status") or {}).get("phase") == "Running")
        pieces = await machine.streams.open_log(machine.place(key, "busy"), LogOptions(is_followed=True))
        async for piece in pieces:
            if b"done" in piece:
                break
        found = LocalUsage(machine.node.pods_folder, RealClock()).of_pod(pod)
        assert found is not None
        assert set(found.parts) == {"busy", "idle"}
        assert found.parts["busy"].cpu_nanos > found.parts["idle"].cpu_nanos
        assert found.total.memory_bytes > 0

    on_machine(story, tmp_path)


def test_a_pod_that_does_not_run_uses_nothing(tmp_path: Path) -> None:
    assert LocalUsage(tmp_path, RealClock()).of_pod({"metadata": {"uid": "none"}}) is None


def test_a_rate_is_taken_since_a_look_that_is_long_enough_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock(1_000.0)
    worked_s = 50.0
    monkeypatch.setattr(usage, "_machine_cpu_s", lambda: worked_s)
    local = LocalUsage(tmp_path, clock)

    def look(after_s: float, more_s: float) -> tuple[float, float]:
        nonlocal worked_s
        clock.advance(after_s)
        worked_s += more_s
        found = local.of_node({})
        assert found is not None
        return found.window_s, found.total.cpu_nanos / 1e9

    assert look(10.0, 20.0) == (10.0, 2.0)
    assert look(1.0, 1.0) == (11.0, pytest.approx(21.0 / 11.0))  # too soon: since the look before the last one
    assert look(LEAST_S, 10.0) == (6.0, pytest.approx(11.0 / 6.0))
    assert local.of_node({}).total.memory_bytes > 0  # type: ignore[union-attr]
