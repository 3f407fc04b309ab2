"""Limits by control groups: what is written where, on folders that look like them, and for real where permitted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muster.agent.local.cgroups import Cgroups, Limits, found_cgroups
from tests.agent.local.machine import Machine, container, on_machine, shell, state

LIMITS = Limits(memory_bytes=100, cpu_millis=1500)


def tree(mount: Path, *files: str) -> Path:
    for file in files:
        place = mount / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    return mount


def written(groups: tuple[str, ...]) -> dict[str, str]:
    return {file.name: file.read_text() for group in groups for file in Path(group).iterdir()}


def test_the_first_version_has_a_group_for_each_controller(tmp_path: Path):
    mount = tree(tmp_path / "mount", "memory/outer/cgroup.procs", "memory/cgroup.procs", "cpu/cgroup.procs")
    groups = Cgroups({"memory": mount / "memory" / "outer", "cpu": mount / "cpu"}, is_unified=False)
    made = groups.make("muster-x", LIMITS)
    assert made == (str(mount / "memory/outer/muster-x"), str(mount / "cpu/muster-x"))
    assert written(made) == {
        "memory.limit_in_bytes": "100",
        "memory.memsw.limit_in_bytes": "100",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
    }


def test_the_second_version_has_one_group(tmp_path: Path):
    groups = Cgroups({"memory": tmp_path, "cpu": tmp_path}, is_unified=True)
    made = groups.make("muster-x", LIMITS)
    assert made == (str(tmp_path / "muster-x"),)
    assert written(made) == {
        "memory.max": "100",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "150000 100000",
    }


def test_nothing_to_limit_makes_no_group_and_little_cpu_is_enough_to_live(tmp_path: Path):
    groups = Cgroups({"memory": tmp_path, "cpu": tmp_path}, is_unified=True)
    assert groups.make("a", Limits()) == ()
    assert written(groups.make("b", Limits(cpu_millis=1)))["cpu.max"] == "1000 100000"


def test_where_nothing_may_be_made_there_are_no_groups(tmp_path: Path):
    (tmp_path / "own").write_text("5:memory:/mine\n0::/\n")
    assert found_cgroups(tmp_path / "nothing", tmp_path / "own") is None
    assert found_cgroups(tmp_path / "nothing", tmp_path / "no file") is None
    assert Cgroups({"memory": tmp_path / "gone"}, is_unified=False).make("a", LIMITS) == ()


@pytest.fixture(scope="module")
def real() -> Cgroups:
    found = found_cgroups()
    if found is None:
        pytest.skip("control groups cannot be made here")
    return found


def test_memory_above_the_limit_is_the_end_at_once(real, tmp_path):
    async def story(machine: Machine) -> None:
        limits = {"limits": {"memory": "64Mi", "cpu": "2"}}
        script = "held = [bytearray(2**20) for _ in range(400)]; raise SystemExit(0)"  # too fast to be watched
        key = await machine.create(
            "p", container(sys.executable, "-c", script, resources=limits), restartPolicy="Never"
        )
        found = state(await machine.phase(key, "Failed"))["state"]["terminated"]
        assert (found["exitCode"], found["reason"]) == (137, "OOMKilled")

    on_machine(story, tmp_path, cgroups=real)


def test_a_container_is_in_its_group_and_the_group_goes_with_it(real, tmp_path):
    async def story(machine: Machine) -> None:
        limits = {"limits": {"cpu": "500m"}}
        key = await machine.create("p", shell("cat /proc/self/cgroup", resources=limits), restartPolicy="Never")
        pod = await machine.phase(key, "Succeeded")
        name = f"muster-{pod['metadata']['uid']}-main-0"
        assert name in await machine.log(key)
        assert not [place for place in real.places.values() if (place / name).exists()]

    on_machine(story, tmp_path, cgroups=real)
