"""What every store promises, whatever it keeps objects in: the same tests for all of them."""

from __future__ import annotations

import threading

import pytest

from muster.store.errors import AlreadyExists, Conflict, Expired, NotFound, TooNew
from muster.store.history import Limits
from muster.store.records import Cursor, Key, Scope
from tests.store.builders import PODS, content, create, names, nothing, pod, remove, replace, together, told

# Writes --------------------------------------------------------------------------------------------------------------


def test_every_write_takes_the_next_revision(store):
    first = store.write(create(pod("a"), 1))
    second = store.write(create(Key("nodes", "", "n"), 2))
    third = store.write(replace(pod("a"), 3))
    assert [first.revision, second.revision, third.revision] == [1, 2, 3]
    assert (third.uid, third.created) == (first.uid, 1)
    assert store.get(pod("a")) == third and content(third) == 3
    assert store.revision == 3


def test_a_deletion_takes_a_revision_too(store):
    store.write(create(pod("a"), "last words"))
    gone = store.write(remove(pod("a")))
    assert (gone.revision, content(gone)) == (2, "last words")
    with pytest.raises(NotFound, match="pods default/a does not exist"):
        store.get(pod("a"))
    assert store.write(create(pod("a"))).created == 3


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param(create(pod("a")), AlreadyExists, id="the name is taken"),
        pytest.param(replace(pod("b"), 2), NotFound, id="nothing to replace"),
        pytest.param(replace(pod("a"), 2, revision=7), Conflict, id="another state"),
        pytest.param(remove(pod("b")), NotFound, id="nothing to remove"),
        pytest.param(together(create(pod("b")), create(pod("a"))), AlreadyExists, id="the second of two"),
        pytest.param(lambda write: 1 // 0, ZeroDivisionError, id="a fault of the writer"),
    ],
)
def test_a_write_that_fails_leaves_nothing(store, change, error):
    store.write(create(pod("a"), 1))
    with pytest.raises(error):
        store.write(change)
    assert (store.revision, names(store.page(PODS).records), content(store.get(pod("a")))) == (1, ["default/a"], 1)
    assert store.write(create(pod("c"))).revision == 2


def test_a_text_that_cannot_be_stored_fails_its_own_write(store):
    with pytest.raises(UnicodeEncodeError):
        store.write(create(pod("a\ud800")))
    with pytest.raises(UnicodeEncodeError):
        store.write(create(pod("a"), owners=("\ud800",)))
    assert store.write(create(pod("a"), owners=('any, "text"', "\0"))).revision == 1


def test_several_objects_change_in_one_write(store):
    seen = []
    watch = store.watch(PODS, 0, lambda: seen.append((store.revision, names(store.page(PODS).records))))
    store.write(together(create(pod("a")), create(pod("b")), replace(pod("a"), 2), remove(pod("b"))))
    assert seen == [(4, ["default/a"])]
    assert told(watch.take()) == [
        ("ADDED", "default/a", 1),
        ("ADDED", "default/b", 2),
        ("MODIFIED", "default/a", 3),
        ("DELETED", "default/b", 4),
    ]


def test_a_write_sees_itself_and_what_came_before(store):
    owner = store.write(create(Key("jobs.batch", "x", "job")))
    store.write(together(create(pod("old", "x"), owners=(owner.uid,)), create(pod("kept", "x"), owners=(owner.uid,))))

    def change(write):
        remove(pod("old", "x"))(write)
        new = create(pod("new", "x"), owners=(owner.uid,))(write)
        assert write.get(pod("old", "x")) is None
        assert write.find(new.uid) == new and write.find(owner.uid) == owner and write.find("nobody") is None
        assert write.dependents(owner.uid) == [pod("kept", "x"), pod("new", "x")]
        assert names(write.page(Scope("pods", "x"), 0)) == ["x/kept", "x/new"]
        assert names(write.page(Scope("pods", "x"), 1)) == ["x/kept"]
        assert write.page(Scope("pods", "y"), 0) == []

    store.write(change)


def test_a_dry_run_answers_and_leaves_nothing(store):
    def change(write):
        write.discard()
        write.on_commit(lambda: pytest.fail("nothing was committed"))
        return create(pod("a"), 1)(write)

    assert store.write(change).revision == 1
    assert store.revision == 0 and store.page(PODS).records == []


def test_calls_are_made_once_the_write_is_there(store):
    seen = []

    def change(write):
        write.on_commit(lambda: seen.append(store.revision))
        return create(pod("a"))(write)

    store.write(change)
    assert seen == [1]


def test_of_racing_writers_exactly_one_wins(store):
    store.write(create(pod("a"), -1))
    outcomes: list[list[bool]] = []

    def race(number, together_now, revision):
        together_now.wait()
        try:
            store.write(replace(pod("a"), number, revision=revision))
            outcomes[-1].append(True)
        except Conflict:
            outcomes[-1].append(False)

    for revision in range(1, 6):
        outcomes.append([])
        start = threading.Barrier(4)
        racers = [threading.Thread(target=race, args=(number, start, revision)) for number in range(4)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
    assert [sorted(one) for one in outcomes] == [[False, False, False, True]] * 5
    assert store.revision == 6


def test_a_broken_listener_harms_nobody(store, caplog):
    store.watch(PODS, 0, lambda: 1 // 0)
    watch = store.watch(PODS, 0, nothing)
    store.write(create(pod("a")))
    assert store.write(create(pod("b"))).revision == 2
    assert len(watch.take().events) == 2
    assert "a callback of the store failed" in caplog.text


# Lists ---------------------------------------------------------------------------------------------------------------


def fill(store, *keys):
    store.write(together(*(create(key) for key in keys)))


def test_lists_are_in_the_order_of_paths(store):
    fill(store, pod("x", "a"), pod("x", "a-b"), pod("b"), pod("a"), pod("z", "ab"), Key("nodes", "", "n"))
    page = store.page(PODS)
    assert names(page.records) == ["a-b/x", "a/x", "ab/z", "default/a", "default/b"]
    assert (page.revision, page.remaining, page.next) == (6, 0, None)
    assert names(store.page(Scope("pods", "a")).records) == ["a/x"]
    assert names(store.page(Scope("nodes")).records) == ["/n"]
    assert store.page(Scope("pods", "nowhere")).records == store.page(Scope("jobs.batch")).records == []


def paged(store, scope, limit, between=nothing):
    """All pages of a list, with something going on between them."""
    page = store.page(scope, limit=limit)
    found, sizes = list(page.records), [len(page.records)]
    while page.next is not None:
        between()
        cursor = Cursor.parse(page.next.text())
        page = store.page(scope, limit=limit, at=cursor.revision, after=cursor.after)
        found += page.records
        sizes.append(len(page.records))
    return found, sizes


def test_pages_add_up(store):
    fill(store, *(pod(f"p{number}") for number in range(7)), pod("other", "elsewhere"))
    found, sizes = paged(store, Scope("pods", "default"), 3)
    assert found == store.page(Scope("pods", "default")).records and sizes == [3, 3, 1]
    assert store.page(PODS, limit=3).remaining == 5


def test_pages_show_one_revision_while_writes_go_on(store):
    fill(store, *(pod(f"p{number}") for number in range(6)))
    before = store.page(PODS).records
    churn = iter(
        [
            together(create(pod("p00")), remove(pod("p5")), replace(pod("p3"), "new")),
            together(create(pod("p55")), remove(pod("p4")), replace(pod("p0"), "new"), remove(pod("p00"))),
        ]
    )
    found, sizes = paged(store, PODS, 2, between=lambda: store.write(next(churn)))
    assert found == before and sizes == [2, 2, 2]
    assert names(store.page(PODS).records) == [f"default/p{end}" for end in ("0", "1", "2", "3", "55")]


def test_lists_at_earlier_revisions(store):
    store.write(create(pod("a"), 1))
    store.write(create(pod("b"), 2))
    store.write(replace(pod("a"), 3))
    store.write(remove(pod("b")))
    lists = [{r.key.name: content(r) for r in store.page(PODS, at=at).records} for at in (1, 2, 3, 4)]
    assert lists == [{"a": 1}, {"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 3}]
    assert store.page(PODS, at=2, limit=1).remaining == 1


def test_a_list_cannot_be_of_the_future_or_the_forgotten_past(make_store):
    store = make_store(Limits(events=2))
    for number in range(5):
        store.write(create(pod(f"p{number}")))
    with pytest.raises(Expired, match="revision 2 is too old, the history starts after 3"):
        store.page(PODS, at=2)
    with pytest.raises(TooNew, match="revision 6 is ahead of the newest, 5"):
        store.page(PODS, at=6)
    assert len(store.page(PODS, at=3).records) == 3


# Watches -------------------------------------------------------------------------------------------------------------


def test_a_watch_replays_then_follows(store):
    store.write(create(pod("a"), 1))
    store.write(replace(pod("a"), 2))
    watch = store.watch(PODS, 1, nothing)
    store.write(remove(pod("a")))
    taken = watch.take()
    assert told(taken) == [("MODIFIED", "default/a", 2), ("DELETED", "default/a", 3)]
    assert [content(event.before) for event in taken.events] == [1, 2]
    assert content(taken.events[1].record) == 2
    assert watch.take() == ([], 3)


def test_a_watch_is_about_its_scope(store):
    everything, pods = store.watch(Scope(), 0, nothing), store.watch(PODS, 0, nothing)
    here = store.watch(Scope("pods", "here"), 0, nothing)
    store.write(together(create(pod("a", "here")), create(pod("b", "there")), create(Key("nodes", "", "n"))))
    assert [len(one.take().events) for one in (everything, pods, here)] == [3, 2, 1]
    # What there was not is said as well: a bookmark for those who missed nothing.
    store.write(create(Key("nodes", "", "m")))
    assert (here.take(), pods.take()) == (([], 4), ([], 4))


def test_a_watch_can_be_resumed_anywhere(store):
    for number in range(6):
        store.write(together(create(pod(f"p{number}")), replace(pod(f"p{number}"), 1)))
    whole = store.watch(PODS, 0, nothing).take().events
    for since in range(13):
        assert store.watch(PODS, since, nothing).take().events == whole[since:]


def test_watches_are_woken_by_their_own_resource(store):
    woken = []
    watch = store.watch(PODS, 0, lambda: woken.append("pods"))
    store.watch(Scope("nodes"), 0, lambda: woken.append("nodes"))
    store.watch(Scope(), 0, lambda: woken.append("all"))
    store.write(together(create(pod("a")), create(pod("b"))))
    assert sorted(woken) == ["all", "pods"]
    watch.close()
    store.write(create(pod("c")))
    assert sorted(woken) == ["all", "all", "pods"]


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(Limits(events=3), id="too many events"),
        pytest.param(Limits(size_bytes=120), id="too many bytes"),
    ],
)
def test_who_falls_too_far_behind_is_told(make_store, limits):
    store = make_store(limits)
    slow = store.watch(PODS, 0, nothing)
    unconcerned = store.watch(Scope("nodes"), 0, nothing)
    store.write(create(pod("a")))
    for number in range(9):
        store.write(replace(pod("a"), number))
    with pytest.raises(Expired, match="revision 0 is too old"):
        slow.take()
    with pytest.raises(Expired):
        store.watch(PODS, store.compacted - 1, nothing)
    assert store.watch(PODS, store.compacted, nothing).take().events
    assert unconcerned.take() == ([], 10), "nothing that it waited for was dropped"


def test_history_is_forgotten_with_age(make_store, clock):
    store = make_store(Limits(age_s=60))
    for number in range(3):
        store.write(create(pod(f"p{number}")))
        clock.advance(50)
    assert store.compacted == 1


def test_a_watch_cannot_start_in_the_future(store):
    with pytest.raises(TooNew):
        store.watch(PODS, 1, nothing)


def test_objects_without_a_living_owner_are_known(store):
    owner = store.write(create(Key("jobs.batch", "x", "job")))
    mine = (owner.uid,)
    store.write(together(*(create(pod(*name), owners=mine) for name in (("a", "there"), ("b", "x"), ("c", "x")))))
    assert store.strays() == [pod("a", "there")]
    store.write(remove(owner.key))
    assert store.strays() == [pod("a", "there"), pod("b", "x"), pod("c", "x")]
    store.write(together(remove(pod("a", "there")), remove(pod("b", "x")), remove(pod("c", "x"))))
    assert store.strays() == []
