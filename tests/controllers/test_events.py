"""Events say what has happened, once; the same again raises a count."""

from __future__ import annotations

import asyncio

import pytest

from muster.controllers.events import AGAIN_S, EVENTS, NORMAL, WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import View
from muster.store.errors import Unavailable
from muster.store.records import Key
from tests.controllers.builtin.job_cluster import Cluster, Json, a_pod

MADE, WRONG = Note(NORMAL, "Made", "made it"), Note(WARNING, "Wrong", "it went wrong")


async def told(*notes: tuple[float, Note]) -> list[Json]:
    """What is kept after a pod was told about at some times."""
    cluster, events = Cluster(), Events("tests")
    pod = await cluster.client.create("pods", a_pod("p", {}))
    for now_s, note in notes:
        turn = Turn(Key("pods", "x", "p"), View(), cluster.client, now_s)
        await events.tell(turn, pod, note)
    found = cluster.all(EVENTS)
    await cluster.close()
    return sorted(found, key=lambda one: one["firstTimestamp"])


@pytest.mark.parametrize(
    ("notes", "counts"),
    [
        pytest.param([(0, MADE)], [1], id="once"),
        pytest.param([(0, MADE), (5, MADE), (9, MADE)], [3], id="the same again"),
        pytest.param([(0, MADE), (1, WRONG)], [1, 1], id="something else"),
        pytest.param([(0, MADE), (AGAIN_S + 1, MADE)], [1, 1], id="the same much later"),
        pytest.param([(0, MADE), (AGAIN_S - 1, MADE), (AGAIN_S + 9, MADE)], [3], id="the same on and on"),
    ],
)
def test_the_same_again_is_counted(notes, counts):
    assert [one["count"] for one in asyncio.run(told(*notes))] == counts


def test_an_event_names_what_it_is_about():
    (event,) = asyncio.run(told((1_700_000_000, WRONG)))
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["namespace"]) == ("Pod", "p", "x")
    assert about["uid"] and event["metadata"]["namespace"] == "x"
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Wrong", "it went wrong")
    assert event["source"] == {"component": "tests"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2023-11-14T22:13:20Z"


def test_an_event_that_cannot_be_written_is_dropped():
    class Full:
        async def create(self, resource: str, given: Json) -> Json:
            raise Unavailable("the disk is full")

    turn = Turn(Key("pods", "x", "p"), View(), Full(), 0.0)  # type: ignore[arg-type]
    asyncio.run(Events("tests").tell(turn, {**a_pod("p", {}), "metadata": {"name": "p", "uid": "u"}}, MADE))
    assert turn.written == {}


def test_a_long_message_is_cut():
    (event,) = asyncio.run(told((0, Note(NORMAL, "Long", "ä" * 2_000))))
    assert len(event["message"].encode()) == 1_024
