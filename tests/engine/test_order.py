"""Which of the queues' heads goes first in a cycle."""

from __future__ import annotations

import pytest

from muster.engine.assignment import Assignment
from muster.engine.order import Entry, entry_order
from muster.model.settings import Settings
from tests.engine.builders import running, workload


def entry(*, level=0, is_preemptor=False, holds=False, **fields):
    make = running if holds else workload
    assignment = Assignment(pod_sets=(), usage={}, level=level)
    return Entry(workload=make("any", **fields), is_preemptor=is_preemptor, assignment=assignment)


BY_TIME = Settings(orders_by_priority=False)
PREEMPTORS = Settings(preemptors_first=True)


@pytest.mark.parametrize(
    ("settings", "first", "second"),
    [
        pytest.param(Settings(), entry(holds=True, level=1), entry(priority=9), id="one with quota"),
        pytest.param(Settings(), entry(level=0), entry(level=1, priority=9), id="less borrowing"),
        pytest.param(Settings(), entry(priority=2, queued_at=9), entry(priority=1), id="higher priority"),
        pytest.param(Settings(), entry(queued_at=1), entry(queued_at=2), id="longer waiting"),
        pytest.param(BY_TIME, entry(queued_at=1), entry(queued_at=2, priority=9), id="by time alone"),
        pytest.param(PREEMPTORS, entry(is_preemptor=True, level=2), entry(), id="one that waits for victims"),
        pytest.param(PREEMPTORS, entry(holds=True), entry(is_preemptor=True), id="but quota first"),
        pytest.param(Settings(), entry(), entry(is_preemptor=True, level=1), id="no favour unless set"),
    ],
)
def test_who_goes_first(settings, first, second):
    assert entry_order(first, settings) < entry_order(second, settings)


def test_equals_keep_the_order_they_come_in():
    one, other = entry(), entry()
    assert entry_order(one, Settings()) == entry_order(other, Settings())


def test_entry_that_was_not_looked_at_borrows_nothing():
    assert Entry(workload=workload("any")).level == 0
