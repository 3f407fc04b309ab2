"""The measure of idling: what counts as idle, and what does not."""

from __future__ import annotations

import pytest

from bench.living import Idling

WAITS, RUNS, DONE = {}, {"Admitted": "True"}, {"Admitted": "True", "Finished": "True"}


def workload(name: str, conditions: dict[str, str]) -> dict:
    told = [{"type": type_, "status": status} for type_, status in conditions.items()]
    return {"metadata": {"name": name}, "status": {"conditions": told}}


@pytest.mark.parametrize(
    ("heard", "longest_s"),
    [
        pytest.param([(0, "a", WAITS), (3, "a", RUNS)], 3, id="one waits that fits"),
        pytest.param([(0, "a", RUNS), (1, "b", WAITS), (9, "a", DONE), (11, "b", RUNS)], 2, id="full is not idle"),
        pytest.param([(0, "a", RUNS), (1, "a", DONE), (9, "b", WAITS), (10, "b", RUNS)], 1, id="nobody waits"),
        pytest.param([(0, "a", WAITS), (1, "a", WAITS), (4, "a", RUNS)], 4, id="hearing of it again changes nothing"),
    ],
)
def test_idling(heard, longest_s):
    idling = Idling(capacity=1, jobs=2)
    for now_s, name, conditions in heard:
        idling.hear(workload(name, conditions), now_s)
    assert idling.longest_s == longest_s


def test_it_is_over_when_all_have_finished():
    idling = Idling(capacity=1, jobs=1)
    idling.hear(workload("a", RUNS), 0)
    assert not idling.is_over
    idling.hear(workload("a", DONE), 1)
    assert idling.is_over
