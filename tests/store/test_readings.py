"""Objects are read once for all who follow a store, and not too many of them are kept."""

from __future__ import annotations

from muster.controllers.view import View
from muster.store.readings import MOST, Readings
from muster.store.records import Action, Event, Key, Record


def record(revision: int) -> Record:
    return Record(Key("pods", "team", "one"), "uid", revision, 1, b'{"metadata":{"name":"%d"}}' % revision)


def test_a_state_is_read_once():
    readings = Readings()
    assert readings.of(record(1)) is readings.of(record(1))
    assert readings.of(record(2)) == {"metadata": {"name": "2"}}


def test_views_of_one_store_have_the_same_object():
    readings = Readings()
    first, second = View(readings=readings), View(readings=readings)
    for view in (first, second):
        view.learn(Event(Action.ADDED, record(1), None, 0.0))
    key = record(1).key
    assert first.get(key) is second.get(key)


def test_what_nobody_asks_for_is_forgotten_first():
    readings = Readings()
    kept, forgotten = readings.of(record(1)), readings.of(record(2))
    for revision in range(3, MOST + 2):
        readings.of(record(revision))
        assert readings.of(record(1)) is kept
    assert readings.of(record(1)) is kept
    assert readings.of(record(2)) is not forgotten
