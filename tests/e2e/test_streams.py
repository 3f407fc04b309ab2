"""Many watches of a server that is killed, forgets its past and serves slow readers: none is told anything wrong.

The six promises: events come in order, once, without a gap; a watch goes on where it was after any disconnect, or is
told to list anew; what one write has changed is not taken apart; a bookmark and a list are what they say.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.e2e.followers import Follower, Key, Manners, Seen, Segment, manners_of
from tests.e2e.lives import Json, LastingConnection, Lives, Version, config_of, make_namespaces, version_of
from tests.store.linear import Answer, Timeline
from tests.support import is_full_proof

WRITERS = 4
END = "end"  # the last object that is made
LARGE_BYTES = 1_000_000
LARGE_WRITES = 40  # more than the history keeps of what was replaced
WHAT = {"ADDED": "create", "MODIFIED": "replace", "DELETED": "remove"}


@dataclass(slots=True)
class Round:
    """Writers in two namespaces, and what they know to have happened there."""

    lives: Lives
    namespace: str
    written: dict[int, tuple[Key, Version]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)  # uids
    removed_together: list[list[str]] = field(default_factory=list)
    unanswered: set[str] = field(default_factory=set)  # names of objects that were perhaps removed one by one
    have_left: list[asyncio.Event] = field(default_factory=list)  # of those who want to be away meanwhile
    has_compacted: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def large_namespace(self) -> str:
        return f"{self.namespace}-large"

    def path(self, namespace: str) -> str:
        return f"/api/v1/namespaces/{namespace}/configmaps"

    async def write_small(self, number: int, count: int) -> None:
        """Make, change and remove objects, now and then all at once."""
        chance = Random(f"{self.namespace} {number}")
        connection, path = LastingConnection(self.lives), self.path(self.namespace)
        for turn in range(count):
            name, value = f"w{number}-{chance.randrange(4)}", f"{number}-{turn}"
            what = chance.choices(("POST", "PUT", "DELETE", "all"), (40, 40, 18, 2))[0]
            if what == "all":
                heard = await connection.request("DELETE", path)
            else:
                body = config_of(name, value) if what != "DELETE" else None
                heard = await connection.request(what, path if what == "POST" else f"{path}/{name}", body)
            if heard is None:
                self.unanswered.add(name)
            elif heard[0] in (200, 201):
                self._keep(heard[1])
        connection.close()

    async def write_large(self) -> None:
        """Write so much that the history loses all there was, once those who want to be away have left."""
        for one in self.have_left:
            await one.wait()
        connection, path = LastingConnection(self.lives), self.path(self.large_namespace)
        await connection.request("POST", path, config_of("large", "first"))
        count = 0
        while count < LARGE_WRITES:
            body = config_of("large", f"large-{count}", pad=LARGE_BYTES)
            heard = await connection.request("PUT", f"{path}/large", body)
            if heard is None:
                continue
            assert heard[0] == 200, heard[1]
            self._keep(heard[1])
            count += 1
        connection.close()
        self.has_compacted.set()

    def _keep(self, said: Json) -> None:
        if said["kind"] == "ConfigMapList":
            self.removed_together.append([one["metadata"]["uid"] for one in said["items"]])
        elif said["kind"] == "Status":
            self.removed.append(said["details"]["uid"])
        else:
            metadata = said["metadata"]
            key = metadata["namespace"], metadata["name"]
            self.written[int(metadata["resourceVersion"])] = key, version_of(said)

    async def write(self, count: int) -> None:
        """All the writing, and the last object after it."""
        await asyncio.gather(self.write_large(), *(self.write_small(number, count) for number in range(WRITERS)))
        await self.lives.ask("POST", self.path(self.namespace), config_of(END, END))


# What has to be true -------------------------------------------------------------------------------------------------


def truth_of(round_: Round, followers: list[Follower]) -> dict[int, Seen]:
    """All events by their revision. All clients saw the same, and what was acknowledged is there."""
    truth: dict[int, Seen] = {}
    places = (round_.namespace, round_.large_namespace)
    for event in (event for one in followers for segment in one.segments for event in segment.events):
        if event.key[0] in places:
            known = truth.setdefault(event.version.revision, event)
            assert known == event, f"two events have one revision: {known}, {event}"
    for revision, (key, version) in round_.written.items():
        if revision not in truth and key[0] == round_.large_namespace:
            truth[revision] = Seen("MODIFIED", key, version)  # those who look there may all have been thrown out
        assert revision in truth, f"nobody saw {key} at {revision}"
        assert (truth[revision].key, truth[revision].version) == (key, version), f"{truth[revision]} was {version}"
    gone = Counter(event.version.uid for event in truth.values() if event.kind == "DELETED")
    for uid in (*round_.removed, *(uid for uids in round_.removed_together for uid in uids)):
        assert gone[uid] == 1, f"{uid} was removed, and {gone[uid]} times seen to be"
    return truth


def check_segment(manners: Manners, segment: Segment, truth: dict[int, Seen], places: tuple[str, ...]) -> None:
    """What one client was told since it listed is all that happened, in order, once."""
    scope = (manners.namespace,) if manners.namespace else places
    events = [one for one in segment.events if one.key[0] in scope]
    expected = [
        truth[revision]
        for revision in sorted(truth)
        if segment.start < revision <= segment.end and truth[revision].key[0] in scope
    ]
    assert events == expected, f"{manners} after {segment.start}: {first_difference(events, expected)}"
    for before, mark in segment.marks:
        early = [one for one in segment.events[before:] if one.version.revision <= mark]
        assert not early, f"{manners}: after the bookmark {mark} came {early[0]}"
        late = [one for one in segment.events[:before] if one.version.revision > mark]
        assert not late, f"{manners}: before the bookmark {mark} came {late[0]}"


def first_difference(events: list[Seen], expected: list[Seen]) -> str:
    for place, (one, other) in enumerate(zip(events, expected, strict=False)):
        if one != other:
            return f"event {place} is {one}, not {other}"
    return f"{len(events)} events, not {len(expected)}"


def check_states(followers: list[Follower], truth: dict[int, Seen], round_: Round) -> None:
    """Every list, and every state that came as events, is the one of its revision."""
    timeline = Timeline()
    for revision, event in sorted(truth.items()):
        if event.key[0] == round_.namespace:  # of the other one, not all events need to be known
            timeline.add(Answer(0, 0, WHAT[event.kind], event.key, event.version, revision))
    for follower in followers:
        for segment in follower.segments:
            listed = {key: one for key, one in segment.state.items() if key[0] == round_.namespace}
            assert listed == timeline.at(segment.start), f"{follower.manners} at {segment.start}"


def check_wholes(followers: list[Follower], truth: dict[int, Seen], round_: Round) -> None:
    """What was removed by one write has revisions side by side, and no list or bookmark lies between them."""
    given = {segment.start for one in followers for segment in one.segments}
    given |= {mark for one in followers for segment in one.segments for _, mark in segment.marks}
    gone = {event.version.uid: event for event in truth.values() if event.kind == "DELETED"}
    times = Counter(uid for uids in round_.removed_together for uid in uids)
    for uids in filter(None, round_.removed_together):
        # All that were there are named, also what somebody else has removed just before.
        own = [uid for uid in uids if times[uid] == 1 and uid not in round_.removed]
        revisions = [gone[uid].version.revision for uid in own if gone[uid].key[1] not in round_.unanswered]
        if revisions:
            whole = set(range(min(revisions), max(revisions) + 1))
            others = whole - {gone[uid].version.revision for uid in uids}
            assert not others, f"the write at {sorted(revisions)} has {sorted(others)} of others within"
            assert not given & (whole - {max(whole)}), f"the write at {sorted(revisions)} was seen half done"


def check(followers: list[Follower], round_: Round) -> None:
    """All six promises."""
    truth = truth_of(round_, followers)
    for follower in followers:
        for segment in follower.segments:
            check_segment(follower.manners, segment, truth, (round_.namespace, round_.large_namespace))
        for place in follower.expired_at:
            assert place < max(round_.written), f"{follower.manners} was thrown out at {place}"
        if follower.late_at is not None:
            assert follower.late_at in follower.expired_at, f"{follower.manners} went on at {follower.late_at}"
    check_states(followers, truth, round_)
    check_wholes(followers, truth, round_)


# Rounds --------------------------------------------------------------------------------------------------------------


async def one_round(lives: Lives, number: int, *, streams: int, writes: int) -> Counter[str]:
    """Streams, writers, a kill and a loss of the past; gives how often the rarer things have happened."""
    chance = Random(number)
    round_ = Round(lives, f"streams-{number}")
    await make_namespaces(lives, [round_.namespace, round_.large_namespace])
    manners = [manners_of(chance, round_.namespace) for _ in range(streams)]
    shared = {"last": (round_.namespace, END), "has_compacted": round_.has_compacted}
    followers = [Follower(lives, one, chance=Random(chance.random()), **shared) for one in manners]
    round_.have_left = [one.has_left for one in followers]
    lives.kill_after(chance.randrange(10, WRITERS * writes), chance)
    await asyncio.gather(round_.write(writes), *(one.follow() for one in followers))
    await lives.ask("DELETE", f"{round_.path(round_.large_namespace)}/large")  # the next round lists everything, too
    check(followers, round_)
    return Counter(
        late=sum(one.late_at is not None for one in followers),
        expired=sum(len(one.expired_at) for one in followers),
        bookmarks=sum(len(segment.marks) for one in followers for segment in one.segments),
    )


@pytest.mark.prove
def test_streams(tmp_path):
    happened: Counter[str] = Counter()
    with Lives(tmp_path / "state") as lives:
        for number in range(20 if is_full_proof() else 1):
            streams, writes = (50, 150) if is_full_proof() else (20, 60)
            try:
                happened += asyncio.run(one_round(lives, number, streams=streams, writes=writes))
            except AssertionError as problem:
                raise AssertionError(f"round {number}: {problem}") from problem
    assert happened["late"] and happened["expired"], f"nobody was too late: {happened}"
    assert happened["bookmarks"] or not is_full_proof(), f"there was no bookmark: {happened}"


# The proof would notice ----------------------------------------------------------------------------------------------

ONE, TWO, THREE = (Seen("MODIFIED", ("x", "a"), Version("u", revision, "")) for revision in (4, 5, 7))
OTHER = Seen("MODIFIED", ("x", "a"), Version("u", 5, "other"))


@pytest.mark.parametrize(
    ("events", "marks", "end", "problem"),
    [
        pytest.param([ONE, TWO, THREE], [(2, 6)], 7, "", id="all is well"),
        pytest.param([ONE, TWO], [(2, 6)], 6, "", id="not to the end"),
        pytest.param([ONE, THREE], [], 7, "event 1 is", id="a gap"),
        pytest.param([ONE], [(1, 6)], 6, "1 events, not 2", id="a gap before a bookmark"),
        pytest.param([ONE, TWO, TWO, THREE], [], 7, "event 2 is", id="twice"),
        pytest.param([TWO, ONE, THREE], [], 7, "event 0 is", id="out of order"),
        pytest.param([ONE, OTHER, THREE], [], 7, "event 1 is", id="another state"),
        pytest.param([ONE, TWO, THREE], [(1, 6)], 7, "after the bookmark 6 came", id="a bookmark too early"),
        pytest.param([ONE, TWO, THREE], [(2, 4)], 7, "before the bookmark 4 came", id="a bookmark of the past"),
    ],
)
def test_a_wrong_stream_is_noticed(events, marks, end, problem):
    manners = Manners("x", has_bookmarks=True, wants_initial=False, is_slow=False, is_absent=False)
    truth = {one.version.revision: one for one in (ONE, TWO, THREE)}
    segment = Segment(3, {}, events, marks, end)
    if problem:
        with pytest.raises(AssertionError, match=problem):
            check_segment(manners, segment, truth, ("x",))
    else:
        check_segment(manners, segment, truth, ("x",))
