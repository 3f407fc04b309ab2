"""Many clients at once: every history has an order that explains all answers, and every race one winner."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from random import Random

import pytest

from muster.store.base import BaseStore
from muster.store.errors import AlreadyExists, Conflict, Expired, NotFound
from muster.store.history import Limits
from muster.store.records import Key, Record, Scope
from tests.store.builders import PODS, content, create, open_store, pod, remove, replace, together
from tests.store.linear import WRITES, Answer, Timeline, check_linear
from tests.support import is_full_proof, proof_count

CLIENTS = 8
NAMES = ("a", "b", "c")


def at_once(count: int, act: Callable[[int], None]) -> None:
    """Do something on several threads; what one of them raises is raised."""
    problems: list[BaseException] = []

    def run(number: int) -> None:
        try:
            act(number)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


# Histories -----------------------------------------------------------------------------------------------------------


def one_operation(store: BaseStore, key: Key, chance: Random) -> tuple[str, Record | None, int]:
    """Ask the store something: what it was, what came back, at which revision if that is known."""
    what = chance.choice(("create", "remove", "replace", "compare", "get", "get", "list"))
    try:
        if what == "get":
            return what, store.get(key), 0
        if what == "list":
            page = store.page(PODS)
            return what, next((one for one in page.records if one.key == key), None), page.revision
        number = chance.random()
        if what == "compare":
            expected = store.get(key)
            change = replace(key, number, revision=expected.revision)
        else:
            change = {"create": create(key, number), "replace": replace(key, number), "remove": remove(key)}[what]
        record = store.write(change)
        return what, record, record.revision
    except NotFound:
        return "is absent", None, 0
    except AlreadyExists:
        return "is present", None, 0
    except Conflict:
        return "conflict", expected, 0


def history_of(store: BaseStore, seed: int, count: int) -> list[Answer]:
    """What several clients asked and were answered, with the order in which that happened."""
    times = itertools.count()
    answers: list[Answer] = []

    def client(number: int) -> None:
        chance = Random(seed * CLIENTS + number)
        for _ in range(count // CLIENTS):
            key, asked = pod(chance.choice(NAMES)), next(times)
            what, found, revision = one_operation(store, key, chance)
            answers.append(Answer(asked, next(times), what, key, found, revision))

    at_once(CLIENTS, client)
    return sorted(answers, key=lambda answer: answer.asked)


def timeline_of(answers: list[Answer], newest: int) -> Timeline:
    """The states after each revision; every revision belongs to exactly one write."""
    writes = sorted((one for one in answers if one.what in WRITES), key=lambda one: one.revision)
    assert [one.revision for one in writes] == list(range(1, newest + 1)), "a revision is missing or was given twice"
    timeline = Timeline()
    for write in writes:
        if write.what == "remove":
            assert content(write.found) == content(timeline.at(write.revision)[write.key])
        timeline.add(write)
    return timeline


@pytest.mark.prove
@pytest.mark.parametrize(("kind", "full"), [("memory", 500), ("sqlite", 500)])
def test_every_history_has_an_order(tmp_path, kind, full):
    for seed in range(full if is_full_proof() else 4):
        store = open_store(kind, tmp_path / str(seed))
        answers = history_of(store, seed, count=512)
        newest = store.revision
        store.close()
        try:
            check_linear(answers, timeline_of(answers, newest))
        except AssertionError as problem:
            raise AssertionError(f"seed {seed}: {problem}") from problem


def test_an_order_that_cannot_be_is_noticed(tmp_path):
    """A read that shows the past after somebody has seen the present."""
    store = open_store("memory", tmp_path)
    first, second = store.write(create(pod("a"), 1)), store.write(replace(pod("a"), 2))
    writes = [Answer(0, 1, "create", pod("a"), first, 1), Answer(2, 3, "replace", pod("a"), second, 2)]
    timeline = timeline_of(writes, 2)
    check_linear([*writes, Answer(4, 5, "get", pod("a"), second)], timeline)
    check_linear([*writes, Answer(4, 5, "conflict", pod("a"), first)], timeline)
    for untrue in ("get", first), ("list", None), ("conflict", second), ("is absent", None):
        with pytest.raises(AssertionError, match="was never right after 2"):
            check_linear([*writes, Answer(4, 5, untrue[0], pod("a"), untrue[1])], timeline)
    with pytest.raises(AssertionError, match="written into the past"):
        check_linear([Answer(0, 1, "get", pod("a"), second), Answer(2, 3, "replace", pod("a"), second, 2)], timeline)
    with pytest.raises(AssertionError, match="missing or was given twice"):
        timeline_of([writes[0], writes[0]], 2)


# Races ---------------------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_every_race_has_one_winner(store):
    races, racers = proof_count(10_000) // 2, 4  # for each of the two stores
    store.write(create(pod("a"), -1))
    start = threading.Barrier(racers)
    winners: list[int] = []

    def racer(number: int) -> None:
        for race in range(races):
            start.wait()
            try:
                store.write(replace(pod("a"), number, revision=race + 1))
                winners.append(race)
            except Conflict:
                continue

    at_once(racers, racer)
    assert winners == list(range(races))


# Streams -------------------------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_streams_under_load(tmp_path, kind):
    """Fast and slow readers while pairs of objects are written together and the history is short."""
    for round_ in range(50 if is_full_proof() else 1):
        store = open_store(kind, tmp_path / str(round_), Limits(events=40))
        readers = [Reader(store, Random(number)) for number in range(10)]

        def act(number: int, store: BaseStore = store, readers: list[Reader] = readers) -> None:
            if number < len(readers):
                readers[number].follow()
                return
            write_pairs(store, 150)
            for reader in readers:
                reader.is_over = True
                reader.news.set()

        at_once(len(readers) + 1, act)
        store.close()


def write_pairs(store: BaseStore, count: int) -> None:
    for number in range(count):
        pair = [Key("pods", "x", f"{side}{number % 5}") for side in ("left", "right")]
        make = create if number < 5 else replace
        store.write(together(*(make(key, number) for key in pair)))


class Reader:
    """One client: follows, is thrown out when it is slow, and starts anew; every step is checked."""

    def __init__(self, store: BaseStore, chance: Random) -> None:
        self.store, self.chance = store, chance
        self.patience = chance.choice((1.0, 0.5, 0.01))  # how often it cares about news
        self.news = threading.Event()
        self.is_over = False
        self.start(store.revision)

    def start(self, since: int) -> None:
        self.seen = since
        self.watch = self.store.watch(Scope("pods", "x"), since, self.news.set)

    def follow(self) -> None:
        while not self.is_over:
            self.news.wait()
            self.news.clear()
            if self.chance.random() > self.patience:
                continue
            try:
                self.check()
                if self.chance.random() < 0.2:
                    self.start(self.seen)  # the connection was lost
            except Expired:
                self.start_anew()

    def start_anew(self) -> None:
        """List and watch from there, again and again where the history has run past that meanwhile."""
        while True:
            try:
                self.start(self.store.page(PODS).revision)
                return
            except Expired:
                continue

    def check(self) -> None:
        taken = self.watch.take()
        if revisions := [event.record.revision for event in taken.events]:
            assert revisions == list(range(self.seen + 1, revisions[-1] + 1)), "ordered, unique, none missing"
            assert len(revisions) % 2 == 0, "a write came in two halves"
        assert taken.revision == (revisions[-1] if revisions else self.seen), "the bookmark is true"
        self.seen = taken.revision
