"""A view takes in what is new, whatever comes late or twice."""

from __future__ import annotations

from muster.controllers.view import View
from muster.store.objects import decode
from muster.store.records import Action, Event, Key, Record

POD = Key("pods", "team", "one")


def event(action: Action, revision: int, uid: str = "a") -> Event:
    value = b'{"metadata":{"name":"one","namespace":"team","uid":"%s"}}' % uid.encode()
    return Event(action, Record(POD, uid, revision, revision, value), None, 0.0)


def test_what_is_gone_does_not_come_back_when_its_events_are_told_again():
    view = View()
    for one in (event(Action.ADDED, 1), event(Action.MODIFIED, 2), event(Action.DELETED, 3)):
        assert view.learn(one) is not None
    view.knows(("pods",), 3)
    assert view.learn(event(Action.ADDED, 1)) is None
    assert view.learn(event(Action.DELETED, 3)) is None
    assert view.get(POD) is None


def test_an_older_state_does_not_replace_a_newer_one():
    view = View()
    view.learn(event(Action.ADDED, 5, "b"))
    assert view.learn(event(Action.MODIFIED, 4, "a")) is None
    found = view.record(POD)
    assert found is not None and decode(found)["metadata"]["uid"] == "b"


def test_what_is_known_up_to_a_revision_can_be_asked():
    view = View()
    assert view.has_reached("services", 9)  # nobody follows them here
    view.knows(("pods",), 3)
    assert view.has_reached("pods", 3) and not view.has_reached("pods", 4)


def test_what_is_gone_is_found_nowhere_and_leaves_nothing_behind():
    view = View({("pods", "by-uid"): lambda pod: (pod["metadata"]["uid"],)})
    view.learn(event(Action.ADDED, 1, "a"))
    view.learn(event(Action.MODIFIED, 2, "b"))
    assert not view.has_term("pods", "by-uid", "a") and view.has_term("pods", "by-uid", "b")
    view.learn(event(Action.DELETED, 3))
    assert not view.has_term("pods", "by-uid", "b")
    assert not view._found_at, "each owner and term that has ever been would take memory"
