"""Random histories of a store: it is a list of states, one for each revision, whatever it is kept in."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from muster.store.base import BaseStore
from muster.store.errors import Expired, StoreError
from muster.store.history import Limits
from muster.store.kinds import Propagation
from muster.store.port import Change
from muster.store.records import Action, Event, Key, Record, Scope
from muster.store.rules import Deletion
from tests.store.builders import create, nothing, open_store, remove, replace, together
from tests.store.collector import Collector
from tests.store.kinds import World, a_config
from tests.support import proof_count

NAMESPACES = ("a", "a-b", "b")
RESOURCES = ("pods", "nodes")
SCOPES = [Scope(), *(Scope(resource, namespace) for resource in RESOURCES for namespace in ("", *NAMESPACES))]
LISTS = SCOPES[1:]


class Stream:
    """A client that watches: it knows what it has been told, and resumes or lists anew as clients do."""

    def __init__(self, history: StoreHistory, scope: Scope, since: int) -> None:
        self.history, self.scope, self.seen = history, scope, since
        self.watch = history.store.watch(scope, since, nothing)

    def resume(self) -> None:
        """Lose the connection and come back with the last revision that was seen."""
        try:
            self.watch = self.history.store.watch(self.scope, self.seen, nothing)
        except Expired:
            assert self.seen < self.history.store.compacted
            self.__init__(self.history, self.scope, self.history.store.revision)

    def take(self) -> None:
        """All events since the last ones, in order, once, none missing, none of another scope."""
        missed = [one for one in self.history.log[self.seen :] if is_within(one.record.key, self.scope)]
        try:
            taken = self.watch.take()
        except Expired:
            # The places are in the resource's history: what is gone may have been of another namespace.
            passed = self.history.log[self.seen : self.history.store.compacted]
            assert any(is_within(one.record.key, Scope(self.scope.resource)) for one in passed), "nothing was lost"
            self.resume()
            return
        assert taken.events == missed
        assert taken.revision == len(self.history.log), "the bookmark is true"
        self.seen = taken.revision


def is_within(key: Key, scope: Scope) -> bool:
    return scope.resource in ("", key.resource) and scope.namespace in ("", key.namespace)


class StoreHistory:
    """A store, and beside it all its states and events as plain lists."""

    def __init__(self, kind: str, folder: Path, chance: Random) -> None:
        self.kind, self.folder, self.chance = kind, folder, chance
        self.limits = Limits(events=chance.choice((0, 3, 10, 100)))
        self.store: BaseStore = open_store(kind, folder, self.limits)
        self.states: list[dict[Key, Record]] = [{}]
        self.log: list[Event] = []
        self.streams: list[Stream] = []

    def step(self) -> None:
        acts = [self.write, self.write, self.write, self.list_all, self.list_pages, self.watch, self.listen]
        self.chance.choice([*acts, self.restart] if self.kind == "sqlite" else acts)()

    def a_change(self) -> Change[Record]:
        key = Key(self.chance.choice(RESOURCES), self.chance.choice(NAMESPACES), self.chance.choice("vwxyz"))
        return (
            self.chance.choice((create, create, replace))(key, self.chance.random())
            if self.chance.random() < 0.7
            else remove(key)
        )

    def write(self) -> None:
        changes = [self.a_change() for _ in range(self.chance.choice((1, 1, 2, 4)))]
        state, events = dict(self.states[-1]), []
        try:
            records = self.store.write(together(*changes))
        except StoreError:
            assert self.store.revision == len(self.log)
            return
        for record in records:
            before = state.get(record.key)
            if before is not None and self.was_removal(record, before):
                del state[record.key]
                events.append((Action.DELETED, record, before))
            else:
                state[record.key] = record
                events.append((Action.MODIFIED if before is not None else Action.ADDED, record, before))
            self.states.append(dict(state))
        self.log += [Event(*event, time_s=1_000.0) for event in events]
        assert [event.record.revision for event in self.log] == list(range(1, len(self.log) + 1))
        assert self.store.revision == len(self.log)

    @staticmethod
    def was_removal(record: Record, before: Record) -> bool:
        """The builders keep the content when they remove, and never when they replace."""
        return record.value.partition(b', "rev')[0] == before.value.partition(b', "rev')[0]

    def at(self, revision: int, scope: Scope) -> list[Record]:
        found = [record for key, record in self.states[revision].items() if is_within(key, scope)]
        return sorted(found, key=lambda record: record.key.path)

    def list_all(self) -> None:
        scope, at = self.chance.choice(LISTS), self.chance.randint(0, len(self.log))
        assert self.store.page(scope).records == self.at(len(self.log), scope)
        try:
            page = self.store.page(scope, at=at)
        except Expired:
            assert at < self.store.compacted
            return
        assert page.records == self.at(at or len(self.log), scope) and page.remaining == 0

    def list_pages(self) -> None:
        """A list in pages shows one state, however much is written between them."""
        scope, limit = self.chance.choice(LISTS), self.chance.randint(1, 4)
        page = self.store.page(scope, limit=limit)
        want, found = self.at(page.revision, scope), page.records
        while page.next is not None:
            assert page.remaining == len(want) - len(found)
            self.write()
            try:
                page = self.store.page(scope, limit=limit, at=page.next.revision, after=page.next.after)
            except Expired:
                assert page.revision < self.store.compacted
                return
            found = found + page.records
        assert found == want

    def watch(self) -> None:
        since = self.chance.randint(self.store.compacted, len(self.log))
        self.streams.append(Stream(self, self.chance.choice(SCOPES), since))

    def listen(self) -> None:
        for stream in self.streams:
            self.chance.choice((stream.take, stream.resume, nothing))()

    def restart(self) -> None:
        """Nothing of it shows, but for the history that the limits allow."""
        self.store.close()
        self.store = open_store(self.kind, self.folder, self.limits)
        assert self.store.revision == len(self.log)
        for stream in self.streams:
            stream.resume()

    def end(self) -> None:
        for stream in self.streams:
            stream.take()
        for scope in LISTS:
            assert self.store.page(scope).records == self.at(len(self.log), scope)
        self.store.close()


@pytest.mark.prove
@pytest.mark.parametrize(("kind", "full", "steps"), [("memory", 1_000, 120), ("sqlite", 200, 60)])
def test_a_store_is_a_list_of_states(tmp_path, kind, full, steps):
    for seed in range(proof_count(full)):
        history = StoreHistory(kind, tmp_path / str(seed), Random(seed))
        try:
            for _ in range(steps):
                history.step()
            history.end()
        except AssertionError as problem:
            raise AssertionError(f"StoreHistory({kind!r}, …, Random({seed})): {problem}") from problem
        finally:
            history.store.close()


# Garbage -------------------------------------------------------------------------------------------------------------


def a_family(chance: Random) -> tuple[World, dict[str, tuple[str, ...]]]:
    """Objects that own each other in every way there is, rings included: uids with the uids of their owners."""
    world = World(chance.randrange(100))
    count = chance.randint(1, 9)
    uids = [world.create("configmaps", a_config(f"c{number}"))["metadata"]["uid"] for number in range(count)]
    owners = {uid: tuple(chance.sample(uids, chance.choice((0, 1, 1, 2)) % (count + 1))) for uid in uids}
    for number, uid in enumerate(uids):
        given = a_config(f"c{number}", owners[uid])
        for one in given["metadata"].get("ownerReferences", ()):
            one["blockOwnerDeletion"] = chance.random() < 0.7
        world.store.write(world.objects.update(Key("configmaps", "default", f"c{number}"), given))
    return world, owners


def left_without(owners: dict[str, tuple[str, ...]], gone: set[str]) -> set[str]:
    """Who is left when some are gone: not those who had owners and have lost them all."""
    gone = set(gone)
    while lost := {uid for uid, its in owners.items() if its and uid not in gone and gone.issuperset(its)}:
        gone |= lost
    return set(owners) - gone


def check_collection(seed: int) -> None:
    """Whatever is deleted in whatever way, the collector ends, and leaves exactly those who should be left."""
    chance = Random(seed)
    world, owners = a_family(chance)
    collector = Collector(world)
    uid = chance.choice(list(owners))
    propagation = chance.choice(list(Propagation))
    key = world.store.state.find(uid).key
    world.store.write(world.objects.delete(key, Deletion(propagation=propagation)))
    for _ in range(chance.randint(0, 4)):
        collector.step()
    if chance.random() < 0.5:
        collector = Collector(world)  # the last one died
    collector.run()
    left = {record.uid: record for record in world.store.page(Scope("configmaps")).records}
    if propagation is Propagation.ORPHAN:
        assert set(left) == set(owners) - {uid}
    else:
        assert set(left) == left_without(owners, {uid})
    assert world.store.strays() == []


@pytest.mark.prove
def test_the_collector_leaves_exactly_those_who_have_an_owner_left():
    for seed in range(proof_count(5_000)):
        try:
            check_collection(seed)
        except AssertionError as problem:
            raise AssertionError(f"check_collection({seed}): {problem}") from problem
