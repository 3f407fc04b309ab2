"""A server that is killed finds its containers again: none is doubled, none is lost, and their ends are known."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from muster.agent.local import keeper
from muster.agent.local.processes import PodFolder, RunFolder, Start
from muster.controllers.nodes.containers import BackOff
from muster.store.clock import RealClock
from muster.store.memory import MemoryStore
from tests.agent.local.machine import machine, shell, state
from tests.agent.local.test_node import is_alive


def test_containers_are_found_again_with_their_logs_and_ends(tmp_path):
    async def story() -> None:
        store = MemoryStore(RealClock())
        begun, go = tmp_path / "begun", tmp_path / "go"
        script = f"echo one; echo x >> {begun}; until test -e {go}; do sleep 0.02; done; echo two; exit 3"
        async with machine(tmp_path, store, is_ended=False) as first:
            key = await first.create("p", shell(script), restartPolicy="Never")
            await first.until(key, lambda pod: state(pod)["ready"])
        async with machine(tmp_path, store) as second:
            pod = await second.until(key, lambda pod: state(pod)["ready"])
            assert state(pod)["restartCount"] == 0
            go.touch()
            pod = await second.phase(key, "Failed")
            assert state(pod)["state"]["terminated"]["exitCode"] == 3
            assert await second.log(key) == "one\ntwo\n"
        assert begun.read_text() == "x\n"

    asyncio.run(story())


def test_what_ended_meanwhile_is_known(tmp_path):
    async def story() -> None:
        store = MemoryStore(RealClock())
        async with machine(tmp_path, store, is_ended=False) as first:
            key = await first.create("p", shell("exec sleep 1000"), restartPolicy="Never")
            await first.until(key, lambda pod: state(pod)["ready"])
            run = first.node.run_of(first.place(key))
        run.signal(signal.SIGTERM)
        await _over(run)
        async with machine(tmp_path, store) as second:
            pod = await second.phase(key, "Failed")
            assert state(pod)["state"]["terminated"]["exitCode"] == 143

    asyncio.run(story())


async def _over(run: RunFolder) -> None:
    async with asyncio.timeout(60):
        while (found := run.state()) is not None and not found.is_over:
            await asyncio.sleep(0.01)


def test_pods_that_are_gone_are_ended(tmp_path):
    async def story() -> None:
        async with machine(tmp_path, is_ended=False) as first:
            key = await first.create("p", shell("exec sleep 1000"))
            await first.until(key, lambda pod: state(pod)["ready"])
            run = first.node.run_of(first.place(key))
            pid = int((run.folder / "process").read_text().split()[0])
        async with machine(tmp_path) as second:
            async with asyncio.timeout(60):
                # A keeper that is ending may write once more: that is taken away at the next start.
                while is_alive(pid) or run.folder.exists():
                    second.node.tidy(set())
                    await asyncio.sleep(0.01)

    asyncio.run(story())


def test_pods_that_ended_before_the_start_leave_nothing_behind(tmp_path):
    async def story() -> None:
        store = MemoryStore(RealClock())
        async with machine(tmp_path, store) as first:
            key = await first.create("p", shell("true"), restartPolicy="Never")
            await first.phase(key, "Succeeded")
            folder = first.node.run_of(first.place(key)).folder
        async with machine(tmp_path, store) as second:
            await second.phase(key, "Succeeded")
            assert await second.log(key) == ""
            await second.delete(key)
            async with asyncio.timeout(60):
                while folder.exists():
                    await asyncio.sleep(0.01)

    asyncio.run(story())


def test_a_pod_that_is_taken_away_by_force_is_ended(tmp_path):
    async def story() -> None:
        async with machine(tmp_path) as made:
            key = await made.create("p", shell("trap '' TERM; while :; do sleep 0.05; done"))
            await made.until(key, lambda pod: state(pod)["ready"])
            run = made.node.run_of(made.place(key))
            pid = int((run.folder / "process").read_text().split()[0])
            await made.delete(key, grace_s=0)
            await made.gone(key)
            async with asyncio.timeout(60):
                while run.folder.exists():
                    await asyncio.sleep(0.01)
            assert not is_alive(pid)

    asyncio.run(story())


def test_only_the_first_keeper_keeps(tmp_path):
    assert keeper.claim(str(tmp_path), os.getpid())
    assert keeper.claim(str(tmp_path), os.getpid())
    assert not keeper.claim(str(tmp_path), 1)


def test_a_run_whose_keeper_never_came_is_lost_for_good(tmp_path):
    run = RunFolder(tmp_path / "pod" / "containers" / "main" / "0")
    run.folder.mkdir(parents=True)
    (run.folder / "start.json").write_text('{"started_s": 5.0}')
    found = run.state()
    assert found is not None
    assert (found.exit_code, found.reason) == (137, "ContainerStatusUnknown")
    assert not keeper.claim(str(run.folder), os.getpid()), "a keeper that comes now must not begin"


@pytest.mark.parametrize("text", ["", "x", "1", "{pid} 1", "999999999 5"])
def test_a_pid_is_believed_only_with_its_start_time(text, tmp_path):
    run = RunFolder(tmp_path / "0")
    run.folder.mkdir()
    (run.folder / "keeper").write_text(text.format(pid=os.getpid()))
    assert run.keeper_pid() is None


def test_older_runs_are_forgotten(tmp_path):
    pod = PodFolder(tmp_path / "pod")
    for number in range(4):
        run = pod.next_run("main")
        assert run.number == number
        _begin(run, tmp_path)
    assert [run.number for run in pod.runs("main")] == [2, 3]
    known = pod.container("main", BackOff())
    assert known.restarts == 3
    assert known.run is not None and known.before is not None


def _begin(run: RunFolder, folder: Path) -> None:
    command = Start(command=("true",), environment={"PATH": os.environ["PATH"]}, folder=folder)
    pid = run.begin(command, now_s=1.0, ends=0)
    os.waitpid(pid, 0)


def test_the_server_ends_what_it_runs(tmp_path):
    async def story() -> None:
        pids: list[int] = []
        async with machine(tmp_path) as made:
            key = await made.create("p", shell("exec sleep 1000"))
            await made.until(key, lambda pod: state(pod)["ready"])
            run = made.node.run_of(made.place(key))
            pids.append(int((run.folder / "process").read_text().split()[0]))
        assert not is_alive(pids[0])

    asyncio.run(story())
