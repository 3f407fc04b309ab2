"""Eight clients of a server that is killed while they ask: every history has an order that explains all answers.

An answer that never came says nothing: the operation may have happened or not. What the watch of the namespace shows
afterwards decides it, and has to agree with all that was acknowledged.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from tests.e2e.lives import Json, LastingConnection, Lives, Version, config_of, make_namespaces, version_of
from tests.store.linear import WRITES, Answer, Timeline, check_linear
from tests.support import is_full_proof

CLIENTS = 8
OPERATIONS = 512  # of all clients together
TOGETHER = 10  # histories that share a kill
NAMES = ("a", "b", "c")
CHOICES = ("create", "remove", "replace", "compare", "get", "get", "list")
END = "end"
METHODS = {"create": "POST", "remove": "DELETE", "replace": "PUT", "compare": "PUT"}


@dataclass(slots=True)
class History:
    """What the clients of one namespace asked, and what they heard."""

    lives: Lives
    namespace: str
    seed: int
    answers: list[Answer] = field(default_factory=list)
    unanswered: list[tuple[Answer, str]] = field(default_factory=list)  # with the value that was to be written

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    async def ask(self, number: int) -> None:
        """All that one client does."""
        chance = Random(self.seed * CLIENTS + number)
        connection = LastingConnection(self.lives)
        known: dict[str, Version] = {}
        for turn in range(OPERATIONS // CLIENTS):
            what, name = chance.choice(CHOICES), chance.choice(NAMES)
            if what == "compare" and name not in known:
                what = "get"
            value, expected = f"{number}-{turn}", known.get(name)
            path = self.path if what in ("create", "list") else f"{self.path}/{name}"
            body = None
            if what in ("create", "replace", "compare"):
                revision = expected.revision if what == "compare" and expected is not None else 0
                body = config_of(name, value, revision=revision)
            asked = next(self.lives.times)
            heard = await connection.request(METHODS.get(what, "GET"), path, body)
            answered = next(self.lives.times)
            if heard is None:
                self.unanswered.append((Answer(asked, answered, what, name, None), value))
                continue
            answer = answer_of(Answer(asked, answered, what, name, None), *heard, expected)
            if isinstance(answer.found, Version):
                known[name] = answer.found
            self.answers.append(answer)
        connection.close()


def answer_of(question: Answer, status: int, said: Json, expected: Version | None) -> Answer:
    """A question with what came back."""
    if status == 404:
        return replace(question, what="is absent")
    if status == 409:
        assert said["reason"] == ("AlreadyExists" if question.what == "create" else "Conflict"), said
        return (
            replace(question, what="is present")
            if question.what == "create"
            else replace(question, what="conflict", found=expected)
        )
    assert status in (200, 201), said
    if question.what == "list":
        found = next((version_of(one) for one in said["items"] if one["metadata"]["name"] == question.key), None)
        return replace(question, found=found, revision=int(said["metadata"]["resourceVersion"]))
    if question.what == "remove":
        return replace(question, found=said["details"]["uid"])
    found = version_of(said)
    return replace(question, found=found, revision=found.revision if question.what in WRITES else 0)


async def events_of(history: History, since: int) -> list[Json]:
    """All that has happened in a namespace, in the order in which a watch shows it."""
    await history.lives.ask("POST", history.path, config_of(END, END))
    connection = await history.lives.connect()
    events: list[Json] = []
    async for line in connection.lines(f"{history.path}?watch=true&resourceVersion={since}"):
        event = json.loads(line)
        assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
        if event["object"]["metadata"]["name"] == END:
            break
        if event["object"]["metadata"]["name"] in NAMES:
            events.append(event)
    connection.close()
    return events


def check(history: History, events: list[Json]) -> None:
    """The events are what was acknowledged and some of what was not answered; the answers fit into their order."""
    writes = {one.revision: one for one in history.answers if one.what in WRITES and one.revision}
    removes = {one.found: one for one in history.answers if one.what == "remove"}
    assert len(removes) == sum(one.what == "remove" for one in history.answers), "an object was removed twice"
    reads = [one for one in history.answers if one.what not in WRITES]
    unanswered = sorted(history.unanswered, key=lambda one: one[0].asked)
    timeline = Timeline()
    happened: list[Answer] = []
    for event in events:
        shown, name = version_of(event["object"]), event["object"]["metadata"]["name"]
        is_removal = event["type"] == "DELETED"
        claimed = removes.pop(shown.uid, None) if is_removal else writes.pop(shown.revision, None)
        if claimed is None:
            claimed = claim(unanswered, name, None if is_removal else shown.value)
        elif not is_removal:
            assert (claimed.key, claimed.found) == (name, shown), f"{claimed} was acknowledged, the watch has {event}"
        assert claimed is not None, f"nobody has asked for {event}"
        assert (event["type"] == "ADDED") == (claimed.what == "create"), f"{event} came of {claimed}"
        happened.append(replace(claimed, key=name, found=shown, revision=shown.revision))
        timeline.add(happened[-1])
    assert not writes and not removes, f"acknowledged and not there: {[*writes.values(), *removes.values()]}"
    check_linear(sorted([*reads, *happened], key=lambda one: one.asked), timeline)


def claim(unanswered: list[tuple[Answer, str]], name: str, value: str | None) -> Answer | None:
    """Take the first operation without an answer that would explain an event; a removal has no value."""
    for place, (answer, written) in enumerate(unanswered):
        is_fitting = answer.what == "remove" if value is None else answer.what in WRITES and written == value
        if answer.key == name and is_fitting:
            del unanswered[place]
            return answer
    return None


async def one_batch(lives: Lives, batch: int, count: int) -> set[int]:
    """Some histories at once and a kill in the middle of all of them; gives the revisions of their writes."""
    seeds = range(batch * TOGETHER, batch * TOGETHER + count)
    histories = [History(lives, f"history-{seed}", seed) for seed in seeds]
    since = await make_namespaces(lives, [one.namespace for one in histories])
    chance = Random(batch)
    lives.kill_after(chance.randrange(OPERATIONS * count // 10, OPERATIONS * count * 9 // 10), chance)
    await asyncio.gather(*(one.ask(number) for one in histories for number in range(CLIENTS)))
    assert any(one.unanswered for one in histories), f"batch {batch}: nobody asked while the server was killed"
    revisions: list[int] = []
    for history in histories:
        events = await events_of(history, since)
        try:
            check(history, events)
        except AssertionError as problem:
            raise AssertionError(f"seed {history.seed}: {problem}") from problem
        revisions += [version_of(one["object"]).revision for one in events]
    assert len(revisions) == len(set(revisions)), "a revision was given twice"
    return set(revisions)


@pytest.mark.prove
def test_every_history_has_an_order(tmp_path):
    used: set[int] = set()
    with Lives(tmp_path / "state") as lives:
        for batch in range(100 if is_full_proof() else 1):
            revisions = asyncio.run(one_batch(lives, batch, TOGETHER if is_full_proof() else 4))
            assert not used & revisions, f"batch {batch}: a revision was given twice"
            used |= revisions


def event_of(kind: str, revision: int, value: str) -> Json:
    metadata = {"name": "a", "uid": "u", "resourceVersion": str(revision)}
    return {"type": kind, "object": {"metadata": metadata, "data": {"value": value}}}


ADDED, MODIFIED, DELETED = event_of("ADDED", 5, "0-0"), event_of("MODIFIED", 7, "1-0"), event_of("DELETED", 9, "1-0")
MADE = Answer(0, 1, "create", "a", Version("u", 5, "0-0"), 5)
CHANGED = Answer(2, 3, "replace", "a", Version("u", 7, "1-0"), 7)
REMOVED = Answer(4, 5, "remove", "a", "u")


@pytest.mark.parametrize(
    ("answers", "unanswered", "events", "problem"),
    [
        pytest.param([MADE, CHANGED, REMOVED], [], [ADDED, MODIFIED, DELETED], "", id="all is well"),
        pytest.param([MADE], [(CHANGED, "1-0"), (REMOVED, "")], [ADDED, MODIFIED], "", id="some of it happened"),
        pytest.param([MADE, CHANGED], [], [ADDED], "acknowledged and not there", id="a lost write"),
        pytest.param([MADE, REMOVED], [], [ADDED], "acknowledged and not there", id="a lost removal"),
        pytest.param([MADE], [], [ADDED, MODIFIED], "nobody has asked for", id="a write out of nothing"),
        pytest.param(
            [MADE], [(CHANGED, "1-0")], [ADDED, DELETED], "nobody has asked for", id="a removal out of nothing"
        ),
        pytest.param([REMOVED, REMOVED], [], [], "removed twice", id="two removals"),
        pytest.param([MADE, CHANGED], [], [ADDED, event_of("MODIFIED", 7, "2-0")], "the watch has", id="a wrong value"),
        pytest.param([CHANGED], [], [MODIFIED], "cannot be", id="a change of nothing"),
        pytest.param([MADE, CHANGED], [], [MODIFIED, ADDED], "cannot be", id="a wrong order"),
        pytest.param(
            [MADE, Answer(8, 9, "get", "a", MADE.found)],
            [(replace(CHANGED, answered=6), "1-0")],
            [ADDED, MODIFIED],
            "was never right",
            id="an older state after what had happened unanswered",
        ),
    ],
)
def test_what_cannot_be_is_noticed(answers, unanswered, events, problem):
    history = History(None, "x", 0, answers, unanswered)
    if problem:
        with pytest.raises(AssertionError, match=problem):
            check(history, events)
    else:
        check(history, events)
