"""Lines: who is next, who steps aside, who comes back and when."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.lines import Line, is_backing_off, stays_in_line
from muster.model.plan import Return, ScanProgress
from muster.model.queue import Order
from tests.engine.builders import key_of, name_of, workload

STRICT, BEST_EFFORT = Order.STRICT_FIFO, Order.BEST_EFFORT_FIFO
STOPPED_HALFWAY = ScanProgress(tried=({"gpu": -1}, {"gpu": 0}), generation=0, kind_key="", cycle=0)
TRIED_ALL = ScanProgress(tried=({"gpu": -1},), generation=0, kind_key="", cycle=0)


def line_of(*workloads, order=BEST_EFFORT, now=0.0):
    line = Line(order)
    for one in workloads:
        line.add(one, now)
    return line


def names(workloads):
    return [name_of(one.key) for one in workloads]


def in_line(line):
    """The names of those in line, best first: a copy of the line is emptied from its head."""
    copy, found = deepcopy(line), []
    while (head := copy.head()) is not None:
        found.append(name_of(head.key))
        copy.remove(head.key)
    assert sorted(found) == sorted(names(line.waiting())), "everybody in line becomes the head"
    return found


def park(line, name, why=Return.NO_FIT, *, parks_alike=True):
    line.park(key_of(name), why, parks_alike=parks_alike)


@pytest.mark.parametrize(
    ("why", "strict", "best_effort"),
    [
        pytest.param(Return.GENERIC, True, False, id="no particular reason"),
        pytest.param(Return.NO_FIT, True, False, id="does not fit"),
        pytest.param(Return.PREEMPTION_NO_CANDIDATES, True, False, id="nobody to preempt"),
        pytest.param(Return.PREEMPTION_GATED, True, False, id="may not preempt"),
        pytest.param(Return.NAMESPACE_MISMATCH, False, False, id="namespace not admitted"),
        pytest.param(Return.FAILED_AFTER_NOMINATION, True, True, id="came too late"),
        pytest.param(Return.PENDING_PREEMPTION, True, True, id="waits for its victims"),
        pytest.param(Return.PENDING_MIGRATION, True, True, id="waits for its other self"),
        pytest.param(Return.PREEMPTION_FAILED, True, True, id="its victims could not be told"),
    ],
)
def test_reason_decides_between_line_and_parking(why, strict, best_effort):
    assert stays_in_line(STRICT, why, None) is strict
    assert stays_in_line(BEST_EFFORT, why, None) is best_effort
    assert stays_in_line(BEST_EFFORT, why, TRIED_ALL) is best_effort
    assert stays_in_line(BEST_EFFORT, why, STOPPED_HALFWAY), "a flavor is left to try"
    assert stays_in_line(STRICT, why, None, is_called_back=True), "something changed meanwhile"


@pytest.mark.parametrize(
    ("one", "holds"),
    [
        pytest.param(workload("a"), False, id="free to go"),
        pytest.param(workload("a", held_until=11.0), True, id="backs off"),
        pytest.param(workload("a", held_until=10.0), False, id="the time has come"),
        pytest.param(workload("a", is_held=True), True, id="until somebody says so"),
    ],
)
def test_backing_off(one, holds):
    assert is_backing_off(one, now=10.0) is holds
    line = line_of(one, now=10.0)
    assert (names(line.parked()), in_line(line)) == ((["a"], []) if holds else ([], ["a"]))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(workload("z", priority=2), workload("a", priority=1), id="higher priority"),
        pytest.param(workload("z", queued_at=1), workload("a", queued_at=2), id="longer waiting"),
        pytest.param(workload("z", uid="1"), workload("a", uid="2"), id="smaller uid"),
        pytest.param(workload("a", uid="1"), workload("z", uid="1"), id="name"),
    ],
)
def test_order_in_line(first, second):
    for line in (line_of(first, second), line_of(second, first, order=STRICT)):
        assert names([line.head()]) == names([first])
        assert in_line(line) == names([first, second])
        assert len(line) == 2


def test_empty_line_has_no_head():
    line = line_of()
    assert line.head() is None
    assert line.get("default/a") is None
    assert line.remove("default/a") is None


def test_head_changes_as_workloads_come_and_go():
    line = line_of(workload("a", priority=1), workload("b", priority=2))
    assert names([line.head()]) == ["b"]
    line.remove(key_of("b"))
    assert names([line.head()]) == ["a"]
    line.add(workload("c", priority=3), 0.0)
    assert names([line.head()]) == ["c"]
    line.add(workload("c", priority=0), 0.0)
    assert in_line(line) == ["a", "c"]
    assert names([line.head()]) == ["a"]
    park(line, "a")
    assert (names([line.head()]), line.is_parked(key_of("a")), line.is_parked(key_of("c"))) == (["c"], True, False)
    assert line.get(key_of("a")).priority == 1
    assert len(line) == 2


def test_one_that_waits_for_its_victims_goes_first():
    line = line_of(workload("a", priority=1), workload("b", priority=2))
    line.keep(key_of("a"), Return.PENDING_PREEMPTION)
    assert (in_line(line), line.sticky) == (["a", "b"], key_of("a"))
    line.keep(key_of("b"), Return.PENDING_PREEMPTION)
    assert (in_line(line), line.sticky) == (["b", "a"], key_of("b"))
    line.keep(key_of("b"), Return.FAILED_AFTER_NOMINATION)
    assert line.sticky == key_of("b"), "it stays until it leaves or is replaced"
    line.remove(key_of("b"))
    assert line.sticky == ""


def test_strict_line_knows_no_such_favour():
    line = line_of(workload("a", priority=1), workload("b", priority=2), order=STRICT)
    line.keep(key_of("a"), Return.PENDING_PREEMPTION)
    assert (in_line(line), line.sticky) == (["b", "a"], "")


def test_favour_ends_when_its_bearer_is_taken_in_anew():
    line = line_of(workload("a", priority=1), workload("b", priority=2))
    line.keep(key_of("a"), Return.PENDING_PREEMPTION)
    line.add(workload("a", priority=1), 0.0)
    assert in_line(line) == ["b", "a"]


def test_parked_bearer_loses_its_favour_to_the_next():
    line = line_of(workload("a"), workload("b", priority=1))
    line.keep(key_of("a"), Return.PENDING_PREEMPTION)
    park(line, "a")
    line.keep(key_of("b"), Return.PENDING_PREEMPTION)
    assert (in_line(line), line.sticky) == (["b"], key_of("b"))


def test_keeping_a_parked_one_brings_it_back():
    line = line_of(workload("a"))
    park(line, "a")
    line.keep(key_of("a"), Return.FAILED_AFTER_NOMINATION)
    assert (in_line(line), names(line.parked())) == (["a"], [])


def test_unknown_workloads_are_neither_kept_nor_parked():
    line = line_of()
    line.keep(key_of("a"), Return.PENDING_PREEMPTION)
    park(line, "a")
    assert len(line) == 0


ALIKE = [workload("a", kind_key="k", priority=2), workload("b", kind_key="k"), workload("c", kind_key="other")]


@pytest.mark.parametrize(
    ("why", "parks_alike", "order", "parked"),
    [
        pytest.param(Return.NO_FIT, True, BEST_EFFORT, ["a", "b"], id="those alike could not start either"),
        pytest.param(Return.PREEMPTION_NO_CANDIDATES, True, BEST_EFFORT, ["a", "b"], id="nor preempt"),
        pytest.param(Return.NO_FIT, False, BEST_EFFORT, ["a"], id="not where the setting is off"),
        pytest.param(Return.GENERIC, True, BEST_EFFORT, ["a"], id="not for a reason of its own"),
        pytest.param(Return.NAMESPACE_MISMATCH, True, STRICT, ["a"], id="not in a strict line"),
    ],
)
def test_parking_takes_those_alike_along(why, parks_alike, order, parked):
    line = line_of(*ALIKE, order=order)
    park(line, "a", why, parks_alike=parks_alike)
    assert sorted(names(line.parked())) == parked
    assert line.shown_by("k") == (key_of("a") if len(parked) > 1 else "")
    line.add(workload("d", kind_key="k"), 0.0)
    assert line.is_parked(key_of("d")) is (len(parked) > 1), "one more of the kind"


def test_workloads_of_no_kind_are_not_alike():
    line = line_of(workload("a"), workload("b"))
    park(line, "a")
    assert (names(line.parked()), in_line(line)) == (["a"], ["b"])


def test_flush_calls_back_those_that_may_be_tried():
    line = line_of(workload("a"), workload("b", priority=1), workload("c", priority=2))
    park(line, "a")
    park(line, "b")
    line.flush(lambda one: one.priority > 0)
    assert (in_line(line), names(line.parked())) == (["c", "b"], ["a"])


def test_flush_gives_every_kind_a_new_chance():
    line = line_of(*ALIKE)
    park(line, "a")
    assert in_line(line) == ["c"]
    line.flush(lambda _: True)
    assert (in_line(line), names(line.parked()), line.shown_by("k")) == (["a", "b", "c"], [], "")
    line.add(workload("d", kind_key="k"), 0.0)
    assert not line.is_parked(key_of("d"))


def test_better_one_of_a_parked_kind_waits_with_it():
    line = line_of(*ALIKE)
    park(line, "a")
    line.add(workload("d", kind_key="k", priority=9), 0.0)
    assert in_line(line) == ["c"]
    line.remove(key_of("d"))
    line.remove(key_of("a"))
    line.flush(lambda _: True)
    assert in_line(line) == ["b", "c"]


def test_one_called_back_brings_its_kind_along():
    line = line_of(*ALIKE, workload("z", kind_key="other", priority=-1))
    park(line, "a")
    park(line, "c", Return.GENERIC)
    line.recall(key_of("b"))
    assert (in_line(line), names(line.parked()), line.shown_by("k")) == (["a", "b", "z"], ["c"], "")
    line.recall(key_of("c"))
    assert in_line(line) == ["a", "b", "c", "z"]
    line.recall(key_of("unknown"))
    line.recall(key_of("a"))
    assert in_line(line) == ["a", "b", "c", "z"], "one in line stays where it is"


# Turns -----------------------------------------------------------------------------------------------------------


def turns_of(used, *workloads):
    """A line whose submit queues take turns by what they have used."""
    line = Line(BEST_EFFORT, used.__getitem__)
    for one in workloads:
        line.add(one, 0.0)
    return line


def test_submit_queue_that_used_least_goes_first():
    used = {"red": 5.0, "blue": 2.0}
    line = turns_of(used, workload("a", submit_queue="red", priority=9), workload("b", submit_queue="blue"))
    assert names([line.head()]) == ["b"]
    used["blue"] = 7.0
    assert names([line.head()]) == ["a"]
    line.remove(key_of("a"))
    assert names([line.head()]) == ["b"]
    line.remove(key_of("b"))
    assert line.head() is None


def test_kind_is_parked_in_every_submit_queue():
    line = turns_of(
        {"red": 0.0, "blue": 0.0},
        workload("a", submit_queue="red", kind_key="k"),
        workload("b", submit_queue="blue", kind_key="k"),
        workload("c", submit_queue="blue", kind_key="other"),
    )
    park(line, "a")
    assert sorted(names(line.parked())) == ["a", "b"]
    assert names([line.head()]) == ["c"]


# Against a naive line --------------------------------------------------------------------------------------------


class NaiveLine:
    """The same rules on plain dictionaries, sorted anew at every question."""

    def __init__(self, order):
        self.order, self.sticky = order, ""
        self.line, self.set_aside = {}, {}
        self.alone, self.hopeless = set(), set()  # those set aside one by one, and kinds set aside

    def add(self, one):
        self.remove(one.key)
        (self.set_aside if one.kind_key in self.hopeless else self.line)[one.key] = one

    def remove(self, key):
        self.sticky = "" if self.sticky == key else self.sticky
        self.line.pop(key, None)
        self.set_aside.pop(key, None)
        self.alone.discard(key)

    def keep(self, key, why):
        if why is Return.PENDING_PREEMPTION and self.order is BEST_EFFORT:
            self.sticky = key

    def park(self, key, why):
        kind = self.line[key].kind_key
        self.set_aside[key] = self.line.pop(key)
        if why is Return.NO_FIT and self.order is BEST_EFFORT and kind:
            self.hopeless.add(kind)
            alike = [other for other, one in self.line.items() if one.kind_key == kind]
            self.set_aside.update((other, self.line.pop(other)) for other in alike)
        else:
            self.alone.add(key)

    def flush(self):
        self.hopeless.clear()
        self.alone.clear()
        self.line.update(self.set_aside)
        self.set_aside.clear()

    def recall(self, key):
        one = self.line.get(key) or self.set_aside.get(key)
        if one is None:
            return
        self.hopeless.discard(one.kind_key)
        self.alone.discard(key)
        back = [k for k, w in self.set_aside.items() if w.kind_key == one.kind_key and k not in self.alone]
        self.line.update((k, self.set_aside.pop(k)) for k in back)

    def head(self):
        order = sorted((w.key != self.sticky, -w.priority, w.queued_at, w.uid, w.key) for w in self.line.values())
        return order[0][-1] if order else None


REASONS = (Return.NO_FIT, Return.GENERIC, Return.PENDING_PREEMPTION, Return.FAILED_AFTER_NOMINATION)


def step(chance, line, naive):
    """One random change of both."""
    what = chance.choice(("add", "add", "add", "remove", "recall", "keep", "park", "park", "flush"))
    if what == "add":
        name, priority = f"w{chance.randrange(8)}", chance.randrange(3)
        kind = chance.choice(("", "k", "l"))
        one = workload(
            name, priority=priority, queued_at=float(chance.randrange(3)), kind_key=kind and f"{kind}{priority}"
        )
        line.add(one, 0.0)
        naive.add(one)
    elif what == "remove":
        key = key_of(f"w{chance.randrange(8)}")
        line.remove(key)
        naive.remove(key)
    elif what == "recall":
        key = key_of(f"w{chance.randrange(8)}")
        line.recall(key)
        naive.recall(key)
    elif what == "flush":
        line.flush(lambda _: True)
        naive.flush()
    elif naive.line:
        key = chance.choice((naive.head(), *naive.line))  # mostly the head is tried
        why = chance.choice(REASONS)
        if what == "keep":
            line.keep(key, why)
            naive.keep(key, why)
        else:
            line.park(key, why, parks_alike=True)
            naive.park(key, why)


@given(st.randoms(use_true_random=False), st.sampled_from(Order))
def test_line_does_what_the_naive_one_does(chance, order):
    line, naive = Line(order), NaiveLine(order)
    for _ in range(chance.randrange(40)):
        step(chance, line, naive)
        head = line.head()
        assert (head.key if head is not None else None) == naive.head()
        assert {one.key for one in line.waiting()} == set(naive.line)
        assert {one.key for one in line.parked()} == set(naive.set_aside)
        assert line.sticky == naive.sticky
        assert len(line) == len(naive.line) + len(naive.set_aside)
