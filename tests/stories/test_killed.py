"""kill -9 at random moments of the stories: the same end after the restart, nothing doubled, no quota leaked."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from muster.app.demo.story import KUEUE, Stage
from muster.store.kinds import Object
from tests.stories.mortal import MortalStage, processes_of
from tests.stories.playing import assert_plays, story_of
from tests.stories.stages import Processes
from tests.support import is_full_proof

# Which stories, and whether with real processes; an ordinary run plays the first.
CASES = [
    ("preemption", True),
    ("quickstart", True),
    ("taken-back", False),
    ("suspend-and-resume", True),
    ("contention", True),
    ("deadlock-after", False),
    ("two-teams", False),
]
KILLS = 100  # of a full proof, over all stories
KILLS_OF_A_PLAY = 5


def holdings(stage: Stage) -> dict[str, Any]:
    """Who holds what: the same after the same story, whatever the server has gone through."""
    workloads = stage.all(f"workloads.{KUEUE}")
    return {
        "workloads": sorted((_job_of(one), _conditions(one), _is_held(one)) for one in workloads),
        "queues": {
            (one["metadata"].get("namespace", ""), one["metadata"]["name"]): _counts(one["status"])
            for kind in ("clusterqueues", "localqueues")
            for one in stage.all(f"{kind}.{KUEUE}")
        },
    }


def _job_of(workload: Object) -> str:
    name: str = workload["metadata"]["ownerReferences"][0]["name"]
    return name if not name.startswith("sample-job-") else "sample-job-*"


def _conditions(workload: Object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((one["type"], one["status"]) for one in workload["status"]["conditions"]))


def _is_held(workload: Object) -> bool:
    return "admission" in workload["status"]


def _counts(status: Object) -> dict[str, Any]:
    names = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads", "flavorsReservation", "flavorsUsage")
    return {name: status.get(name) for name in names}


def played(name: str, folder: Path, *, is_local: bool, chance: Random | None, kills: int) -> tuple[int, float, Any]:
    """Play a story with so many kills; gives how many there were, how long it took, and who holds what."""
    folder.mkdir()
    story, processes = story_of(name), Processes(folder) if is_local else None
    stage = MortalStage(story, folder, processes)
    try:
        began_s = time.monotonic()
        if chance is not None:
            stage.kill_by(chance, times=kills, within_s=PLAYS_S[name, is_local])
        assert_plays(story, stage)
        took_s = time.monotonic() - began_s
        held = holdings(stage)
        assert stage.stop() == 0
    finally:
        stage.close()
        left = processes_of(folder)
        for pid in left:  # also where the story failed
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not left, "a process was left behind"
    if processes is not None:
        for trace in (processes.begun, processes.ended):
            pods = trace.read_text().split()
            assert len(pods) == len(set(pods)), f"a container {trace.name} twice"
    return stage.kills, took_s, held


PLAYS_S: dict[tuple[str, bool], float] = {}  # how long a story takes on this machine without a kill


# Python leaves the socket of a handshake that is cut short to its garbage collector, which complains.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.prove
@pytest.mark.parametrize(("name", "is_local"), CASES if is_full_proof() else CASES[:1])
def test_kills_change_nothing(name: str, is_local: bool, tmp_path: Path):
    _, took_s, unkilled = played(name, tmp_path / "unkilled", is_local=is_local, chance=None, kills=0)
    PLAYS_S[name, is_local] = took_s
    wanted = -(-KILLS // len(CASES)) if is_full_proof() else 3
    kills, play = 0, 0
    while kills < wanted:
        chance = Random(f"{name} {play}")
        folder = tmp_path / f"play-{play}"
        more, _, held = played(
            name, folder, is_local=is_local, chance=chance, kills=min(wanted - kills, KILLS_OF_A_PLAY)
        )
        assert held == unkilled, f"{name}, play {play}, after {more} kills"
        kills, play = kills + more, play + 1
