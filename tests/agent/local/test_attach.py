"""The input of containers: clients that are attached write to it, and see what is written from then on."""

from __future__ import annotations

from muster.model.pod_streams import CommandOptions, Output, Running
from muster.store.records import Key
from tests.agent.local.machine import Machine, on_machine, shell, state

ECHO = "echo ready; while read line; do echo got $line; done; echo end"


async def attached(machine: Machine, key: Key, *, has_stdin: bool = True) -> Running:
    """Attach to a container that has said that it is there."""
    pod = await machine.until(key, lambda pod: "running" in state(pod)["state"])
    assert pod is not None
    from muster.model.pod_streams import LogOptions

    async for line in await machine.streams.open_log(machine.place(key), LogOptions(is_followed=True)):
        if b"ready" in line:
            break
    return await machine.streams.attach(machine.place(key), CommandOptions(has_stdin=has_stdin, has_stdout=True))


async def text_of(running: Running, end: str = "") -> str:
    """What a container writes, up to some text or to its end."""
    text = ""
    async for _, piece in running.output():
        text += piece.decode()
        if end and end in text:
            break
    return text


def test_a_client_writes_to_a_container_and_its_end_is_the_end_of_the_input(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell(ECHO, stdin=True, stdinOnce=True), restartPolicy="Never")
        running = await attached(machine, key)
        await running.write(b"one\n")
        await running.write(b"two\n")
        await running.end_input()
        assert await text_of(running) == "got one\ngot two\nend\n"
        await running.close()
        await machine.phase(key, "Succeeded")
        assert await machine.log(key) == "ready\ngot one\ngot two\nend\n"

    on_machine(story, tmp_path)


def test_an_input_that_is_not_for_one_client_alone_outlives_clients(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell(ECHO, stdin=True))
        for number in (1, 2):
            running = await attached(machine, key)
            await running.write(f"{number}\n".encode())
            assert f"got {number}\n" in await text_of(running, str(number))
            await running.end_input()
            await running.close()
        pod = await machine.until(key, lambda _pod: True)
        assert "running" in state(pod)["state"]

    on_machine(story, tmp_path)


def test_a_container_without_input_reads_nothing_and_can_be_watched(tmp_path):
    async def story(machine: Machine) -> None:
        go = tmp_path / "go"
        script = f"cat; echo ready; until test -e {go}; do sleep 0.05; done; echo out; echo err >&2"
        key = await machine.create("p", shell(script), restartPolicy="Never")
        running = await attached(machine, key)
        await running.write(b"nobody reads this")
        go.touch()
        found = [one async for one in running.output()]
        assert sorted(found) == [(Output.STDOUT, b"out\n"), (Output.STDERR, b"err\n")]

    on_machine(story, tmp_path)


def test_a_container_with_a_terminal_has_one(tmp_path):
    async def story(machine: Machine) -> None:
        script = "test -t 0 && test -t 1 && echo ready; read line; stty size; echo got $line"
        key = await machine.create("p", shell(script, stdin=True, tty=True), restartPolicy="Never")
        running = await attached(machine, key)
        running.resize(91, 17)
        await running.write(b"typed\n")
        text = await text_of(running, "got")
        assert "17 91" in text and "got typed" in text
        await running.close()
        await machine.phase(key, "Succeeded")

    on_machine(story, tmp_path)
