"""Keys, and the tokens that clients send back to go on with a list."""

from __future__ import annotations

import base64

import pytest

from muster.model.errors import InvalidObject
from muster.store.records import Cursor, Key


@pytest.mark.parametrize("cursor", [Cursor(1, "/node"), Cursor(10**12, "team-a/ä name with spaces")])
def test_a_cursor_comes_back_as_it_was(cursor):
    assert Cursor.parse(cursor.text()) == cursor


def token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no token",
        "ä",
        "////",
        token("x a/b"),
        token("0 a/b"),
        token("-1 a/b"),
        token("3"),
        token("3 b"),
        token("9" * 5_000 + " a/b"),
    ],
)
def test_what_is_no_cursor_is_the_clients_mistake(text):
    with pytest.raises(InvalidObject, match="continue: is not a token of this server"):
        Cursor.parse(text)


def test_keys_read_well():
    assert str(Key("pods", "team-a", "run")) == "pods team-a/run"
    assert str(Key("nodes", "", "gpu-1")) == "nodes gpu-1"


def test_owners_are_of_the_same_namespace_or_of_none():
    pod = Key("pods", "a", "p")
    assert [Key("jobs.batch", namespace, "j").can_own(pod) for namespace in ("a", "", "b")] == [True, True, False]
    assert not pod.can_own(Key("nodes", "", "n"))
