"""Pods that save their work before they leave, and the folders in which others find it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.agent.local.checkpoints import KEPT_S, Checkpoints, checkpoint_of
from muster.agent.local.environment import CannotStart
from muster.controllers.nodes.checkpoints import COMMAND, GRACE, SIGNAL
from tests.agent.local.machine import Machine, on_machine, shell, state

COUNT = "n=0; test -e $MUSTER_CHECKPOINT_DIR/n && read n < $MUSTER_CHECKPOINT_DIR/n; echo from $n; "


def annotated(**annotations: str) -> dict:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u1", "controller": True}
    return {"annotations": annotations, "ownerReferences": [owner]}


async def left(machine: Machine, name: str, script: str, **annotations: str) -> str:
    """Run a pod of the job until it says that it is up, have it leave; gives what it wrote."""
    key = await machine.create(name, shell(COUNT + script), metadata=annotated(**annotations))
    await machine.until(key, lambda pod: state(pod)["ready"])
    pieces = await machine.streams.open_log(machine.place(key), followed())
    said, is_told = "", False
    async for piece in pieces:  # of one line or of several
        said += piece.decode()
        if "up\n" in said and not is_told:
            is_told = True
            await machine.delete(key)
    await machine.gone(key)
    return said


def followed() -> Any:
    from muster.model.pod_streams import LogOptions

    return LogOptions(is_followed=True)


def told(machine: Machine) -> list[tuple[str, str]]:
    return [(one["reason"], one["message"]) for one in machine.view.all("events") if "eckpoint" in one["reason"]]


def test_work_goes_on_where_a_signal_has_left_it(tmp_path):
    saves = "trap 'echo $((n + 5)) > $MUSTER_CHECKPOINT_DIR/n; exit 0' USR1; echo up; while :; do sleep 0.05; done"

    async def story(machine: Machine) -> None:
        for number in (0, 5, 10):
            assert f"from {number}\n" in await left(machine, f"p{number}", saves, **{SIGNAL: "SIGUSR1"})
        assert told(machine)[0] == ("Checkpoint", "Sent SIGUSR1 to container main to save its work")

    on_machine(story, tmp_path)


def test_a_command_saves_before_the_signal_to_end(tmp_path):
    ends = "trap 'cat $MUSTER_CHECKPOINT_DIR/n; exit 0' TERM; echo up; while :; do sleep 0.05; done"

    async def story(machine: Machine) -> None:
        said = await left(machine, "p", ends, **{COMMAND: "echo 7 > $MUSTER_CHECKPOINT_DIR/n"})
        assert said == "from 0\nup\n7\n"
        assert told(machine) == [("Checkpoint", "Container main has saved its work")]

    on_machine(story, tmp_path)


@pytest.mark.parametrize("command", [pytest.param("exit 1", id="fails"), pytest.param("sleep 1000", id="is too slow")])
def test_a_command_that_does_not_save_is_told_and_the_pod_ends(command, tmp_path):
    async def story(machine: Machine) -> None:
        await left(machine, "p", "echo up; exec sleep 1000", **{COMMAND: command, GRACE: "1s"})
        assert [reason for reason, _ in told(machine)] == ["CheckpointFailed"]

    on_machine(story, tmp_path)


def test_a_folder_goes_when_its_owner_has_gone(tmp_path):
    async def story(machine: Machine) -> None:
        kept = list((tmp_path / "checkpoints").glob("owners/*"))
        assert kept == []
        await left(machine, "p", "echo 1 > $MUSTER_CHECKPOINT_DIR/n; echo up; exec sleep 1000", **{SIGNAL: "SIGTERM"})
        assert (tmp_path / "checkpoints" / "owners" / "u1" / "all" / "n").read_text() == "1\n"
        machine.owners.clear()
        await left(machine, "q", "echo up; exec sleep 1000", **{SIGNAL: "SIGTERM"})
        assert list((tmp_path / "checkpoints").glob("owners/*")) == []

    on_machine(story, tmp_path)


class At:
    """A clock that stands."""

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        return self._now_s


def pod(**metadata: Any) -> dict:
    return {"metadata": {"namespace": "ns", "name": "p", **metadata}, "spec": {"containers": [{"name": "main"}]}}


def test_each_index_of_a_job_has_its_own_folder_and_a_pod_alone_its_name(tmp_path: Path):
    folders = Checkpoints(tmp_path, At(0.0), lambda _owner: True)  # type: ignore[arg-type]
    first = folders.folder_of(pod(**annotated(), labels={"batch.kubernetes.io/job-completion-index": "3"}))
    assert first == tmp_path / "owners" / "u1" / "3"
    assert folders.folder_of(pod(**annotated())) == tmp_path / "owners" / "u1" / "all"
    assert folders.folder_of(pod()) == tmp_path / "pods" / "ns" / "p"


def test_what_a_pod_alone_has_saved_is_kept_for_a_week(tmp_path: Path):
    place = Checkpoints(tmp_path, At(0.0), lambda _owner: True).folder_of(pod())  # type: ignore[arg-type]
    written_s = place.stat().st_mtime
    for at_s, is_kept in ((written_s + KEPT_S - 1, True), (written_s + KEPT_S + 1, False)):
        Checkpoints(tmp_path, At(at_s), lambda _owner: True).tidy()  # type: ignore[arg-type]
        assert place.exists() is is_kept


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        pytest.param({SIGNAL: "USR1"}, "give a name such as SIGUSR1", id="no signal"),
        pytest.param({COMMAND: "x", GRACE: "soon"}, "'soon'", id="no time"),
        pytest.param({COMMAND: "x", GRACE: "-1s"}, "give 0s or more", id="before it began"),
        pytest.param(
            {COMMAND: "x", "kubectl.kubernetes.io/default-container": "none"}, "give one of main", id="no container"
        ),
    ],
)
def test_mistakes_keep_a_pod_from_starting(annotations, problem):
    with pytest.raises(CannotStart, match=problem) as found:
        checkpoint_of(pod(annotations=annotations))
    assert found.value.reason == "CreateContainerConfigError"
