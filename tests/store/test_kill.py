"""kill -9 of a process that writes with eight threads: nothing acknowledged is lost, no revision is used twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from muster.store.clock import RealClock, VirtualClock
from muster.store.history import Limits
from muster.store.records import Scope
from muster.store.sqlite import Committer, SqliteStore
from muster.store.sqlite_file import StoreFile
from muster.store.sqlite_owner import FILE_NAME
from tests.store.builders import content, create, pod, together
from tests.store.writer_process import THREADS, slot
from tests.support import ROOT, is_full_proof

OBJECTS = 10_000
READY_S = 2.0 if is_full_proof() else 10.0  # an ordinary run shares the machine with other tests


def fill(folder: Path) -> None:
    """A store with many objects in it."""
    committer = Committer(StoreFile(folder / FILE_NAME), VirtualClock(1.0), Limits())
    for start in range(0, OBJECTS, 500):
        many = together(*(create(pod(f"p{number}"), "x" * 1_300) for number in range(start, start + 500)))
        committer.commit([(many, lambda outcome: None)])
    committer.close()


def live_and_die(folder: Path, acknowledgements: int) -> tuple[float, int, list[tuple[int, int, int]]]:
    """Run the process until it has acknowledged so much, and kill it: when it was ready, where it began, its lines."""
    command = [sys.executable, "-m", "tests.store.writer_process", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        _, ready_s, revision = process.stdout.readline().split()
        lines = [process.stdout.readline() for _ in range(acknowledgements)]
        process.kill()
        lines += process.stdout.readlines()
    whole = [tuple(map(int, line.split())) for line in lines if line.endswith("\n")]
    return float(ready_s), int(revision), whole


@pytest.mark.prove
def test_kills_lose_nothing_that_was_acknowledged(tmp_path):
    fill(tmp_path)
    chance = Random(0)
    counts = dict.fromkeys(range(THREADS), 0)
    used: set[int] = set(range(OBJECTS + 1))
    for life in range(200 if is_full_proof() else 6):
        ready_s, began, lines = live_and_die(tmp_path, chance.randrange(1, 120))
        assert ready_s <= READY_S, f"life {life}: ready after {ready_s} s"
        assert began >= max(used), f"life {life}: goes on from {began}, after {max(used)} was acknowledged"
        for thread, number, revision in lines:
            assert revision not in used, f"life {life}: revision {revision} is used twice"
            used.add(revision)
            assert number > counts[thread], f"life {life}: thread {thread} counts {number} after {counts[thread]}"
            counts[thread] = number
    check_what_is_left(tmp_path, counts, max(used))


def check_what_is_left(folder: Path, counts: dict[int, int], newest: int) -> None:
    store = SqliteStore(folder, RealClock())
    assert store.revision >= newest
    for thread, number in counts.items():
        found = content(store.get(slot(thread)))[0] if number else 0
        assert found >= number, f"thread {thread}: {number} was acknowledged, {found} is there"
    assert len(store.page(Scope("pods")).records) == OBJECTS
    # Every write since has counted one object up by one: no revision is missing, none was used twice.
    total = sum(content(record)[0] for record in store.page(Scope("slots")).records)
    assert store.revision == OBJECTS + total
    store.close()
