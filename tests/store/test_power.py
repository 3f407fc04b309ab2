"""Power cuts: what was acknowledged is there afterwards, what was not is there as a whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from muster.store import sqlite
from muster.store.clock import VirtualClock
from muster.store.errors import StoreError, Unavailable
from muster.store.history import Limits
from muster.store.port import Change, Outcome
from muster.store.records import Record
from muster.store.sqlite import Committer
from muster.store.sqlite_file import StoreFile
from tests.store.builders import PODS, content, create, names, nothing, pod, remove, replace, together
from tests.store.disk import Disk, PowerCut
from tests.support import proof_count

LIVES = 3  # of a store, each ended by a cut
OPERATIONS_MOST = 220  # in one life
LIMITS = Limits(events=12)


@pytest.fixture(autouse=True)
def small_thresholds(monkeypatch):
    """Tidy early, so that short lives have all there is: rows forgotten, the file written anew."""
    monkeypatch.setattr(sqlite, "_ROWS_TO_FORGET", 6)
    monkeypatch.setattr(sqlite, "_SMALL_FILE_BYTES", 100_000)


def a_change(chance: Random) -> Change[object]:
    def one() -> Change[Record]:
        key, what = pod(f"p{chance.randrange(12)}"), "x" * chance.choice((10, 700, 5_000, 40_000))
        return chance.choice((create(key, what), create(key, what), replace(key, what), remove(key)))

    return together(*(one() for _ in range(chance.choice((1, 1, 1, 3)))))


Picture = tuple[int, list[Record]]


class Life:
    """One life of a store on a disk: writes until the power goes, and remembers what was promised."""

    def __init__(self, disk: Disk, chance: Random, synchronous: str = "FULL") -> None:
        self.disk = disk
        self.chance = chance
        self.driver = disk.driver(synchronous)
        self.acknowledged: Picture = (0, [])  # the newest promised revision, and all objects as of it
        self.still_open: list[Committer] = []
        self.possible: list[Picture] = []  # what the disk may hold beyond that

    def run(self) -> None:
        committer = Committer(StoreFile(Path("store.db"), self.driver), VirtualClock(1.0), LIMITS)
        self.acknowledged = picture(committer)
        while True:
            waiting = [a_change(self.chance) for _ in range(self.chance.choice((1, 2, 5)))]
            self.possible = [would_be(committer, waiting)]
            outcomes: list[Outcome[object]] = []
            committer.commit([(change, outcomes.append) for change in waiting])
            assert all(one.error is None or isinstance(one.error, StoreError) for one in outcomes)
            assert not any(isinstance(one.error, Unavailable) for one in outcomes), outcomes
            self.acknowledged = picture(committer)
            assert self.acknowledged == self.possible[0]

    def check(self, disk: Disk) -> Picture:
        """What the next life finds is what was promised, or one whole step beyond it."""
        committer = Committer(StoreFile(Path("store.db"), disk.driver()), VirtualClock(1.0), LIMITS)
        found = picture(committer)
        assert found in (self.acknowledged, *self.possible), (
            f"promised revision {self.acknowledged[0]}, found {found[0]} with {names(found[1])}"
        )
        watch = committer.state.watch(PODS, committer.state.history.compacted, nothing)
        revisions = [event.record.revision for event in watch.take().events]
        assert revisions == list(range(committer.state.history.compacted + 1, found[0] + 1)), "the history has a gap"
        for record in found[1]:
            content(record)
        self.still_open.append(committer)  # closing would write
        return found


def picture(committer: Committer) -> Picture:
    page = committer.state.page(PODS, limit=0, at=0, after="")
    return page.revision, page.records


def would_be(committer: Committer, waiting: list[Change[object]]) -> Picture:
    """What the store holds if all of these are done."""
    batch = sqlite.Batch(committer.state, 1.0)
    for change in waiting:
        batch.run(change)
    records = {record.key: record for record in picture(committer)[1]} | batch.staged
    kept = sorted((one for one in records.values() if one is not None), key=lambda one: one.key.path)
    return committer.state.revision + len(batch.events), kept


def cut_after(disk: Disk, count: int) -> None:
    """Let the power go at an operation, before it is done."""

    def meet(what: str) -> None:
        nonlocal count
        count -= 1
        if count < 0:
            raise PowerCut

    disk.on_operation = meet


def lives(seed: int, synchronous: str = "FULL") -> Iterator[None]:
    """Several lives on one disk, each checked after its cut."""
    chance = Random(seed)
    disk = Disk()
    found: Picture = (0, [])
    for _ in range(LIVES):
        life = Life(disk, chance, synchronous)
        life.acknowledged = found
        cut_after(disk, chance.randrange(OPERATIONS_MOST))
        with pytest.raises(PowerCut):
            life.run()
        disk = disk.after_cut(chance)
        found = life.check(disk.after_cut(chance))  # a copy: looking must not repair what the next life is to find
        yield


@pytest.mark.prove
@pytest.mark.parametrize("block", range(2))
def test_power_cuts_lose_nothing_that_was_acknowledged(block):
    for seed in range(block, proof_count(1_000) // LIVES + 1, 2):
        try:
            for _ in lives(seed):
                pass
        except (AssertionError, Unavailable) as problem:
            raise AssertionError(f"lives({seed}): {problem}") from problem


@pytest.mark.prove
def test_what_is_seen_after_a_kill_survives_a_power_cut():
    """A process dies before its write is synced; the next one shows that write; then the power goes."""
    for seed in range(proof_count(1_000)):
        chance = Random(seed)
        disk = Disk()
        life = Life(disk, chance)
        cut_after(disk, chance.randrange(OPERATIONS_MOST))
        with pytest.raises(PowerCut):
            life.run()
        disk = disk.after_kill()
        seen = Life(disk, chance)
        seen.acknowledged = life.check(disk)
        try:
            seen.check(disk.after_cut(chance))
        except AssertionError as problem:
            raise AssertionError(f"seed {seed}: {problem}") from problem


def test_less_than_full_would_be_noticed():
    """The same cuts find the fault when the disk is asked to sync less often."""
    lost = 0
    for seed in range(12):
        try:
            for _ in lives(seed, "NORMAL"):
                pass
        except AssertionError:
            lost += 1
    assert lost >= 3, f"only {lost} of 12 runs lost something"


# Named crash points --------------------------------------------------------------------------------------------------


class NamedFile(StoreFile):
    """A file that says what it is doing, for the names of crash points."""

    phase = "open"

    def append(self, events) -> None:
        self._during("append", lambda: super(NamedFile, self).append(events))

    def forget(self, revisions, compacted) -> None:
        self._during("forget", lambda: super(NamedFile, self).forget(revisions, compacted))

    def shrink(self) -> None:
        self._during("shrink", super().shrink)

    def close(self) -> None:
        self._during("close", super().close)

    def _during(self, phase, act) -> None:
        NamedFile.phase = phase
        act()
        NamedFile.phase = "between"


class NamedLife(Life):
    """A fixed number of turns, opened anew in the middle, with a name for each thing that happens to the disk."""

    def run(self) -> None:
        for _ in range(2):
            NamedFile.phase = "open"
            committer = Committer(NamedFile(Path("store.db"), self.driver), VirtualClock(1.0), LIMITS)
            NamedFile.phase = "between"
            for _ in range(14):
                waiting = [a_change(self.chance) for _ in range(3)]
                self.possible = [would_be(committer, waiting)]
                committer.commit([(change, lambda outcome: None) for change in waiting])
                self.acknowledged = picture(committer)
            committer.close()


def named(disk: Disk, cut_at: tuple[str, int] | None) -> Counter[str]:
    """Count the points by name; let the power go at one of them, the n-th time it is met."""
    met: Counter[str] = Counter()
    after = ""

    def meet(what: str) -> None:
        nonlocal after
        for point in filter(None, (after, f"{NamedFile.phase}: before {what}")):
            met[point] += 1
            if cut_at == (point, met[point]):
                raise PowerCut
        after = f"{NamedFile.phase}: after {what}"

    disk.on_operation = meet
    return met


@pytest.mark.prove
def test_every_named_crash_point_is_survived():
    disk = Disk()
    points = named(disk, None)
    NamedLife(disk, Random(0)).run()
    assert len(points) >= 20, sorted(points)
    for point, times in sorted(points.items()):
        for hit in range(max(1, proof_count(1_000) // 50)):
            disk = Disk()
            named(disk, (point, 1 + hit % times))
            life = NamedLife(disk, Random(0))
            try:
                with pytest.raises(PowerCut):
                    life.run()
                life.check(disk.after_cut(Random(hit)))
            except (AssertionError, Unavailable, pytest.fail.Exception) as problem:
                raise AssertionError(f"{point}, time {1 + hit % times}: {problem}") from problem
