"""Nomination: heads that are refused at once, and what is found for the others."""

from __future__ import annotations

import pytest

from muster.engine.assignment import Assignment, Outcome
from muster.engine.cycle import Cycle
from muster.engine.nominate import Proposal, nominate, repropose
from muster.engine.order import Status
from muster.model.labels import EVERYTHING, Operator, Requirement, Selector
from muster.model.plan import Return, ScanProgress
from muster.model.reason import Code, because
from muster.model.workload import CheckState
from tests.engine.builders import (
    GPU,
    GPUS,
    LOWER,
    name_of,
    node_of,
    preempts,
    queue,
    running,
    state_of,
    workload,
)

ML_ONLY = Selector((Requirement("team", Operator.IN, frozenset(["ml"])),))


def nominated(state, name):
    one = state.workloads[f"default/{name}"]
    cycle = Cycle(state)
    return cycle, nominate(cycle, node_of(state, one.queue), one)


@pytest.mark.parametrize(
    ("admits", "namespaces", "fields", "code"),
    [
        pytest.param(EVERYTHING, {"default": {}}, {}, None, id="welcome"),
        pytest.param(None, {"default": {}}, {}, Code.NAMESPACE_NOT_ADMITTED, id="a queue that admits nobody"),
        pytest.param(ML_ONLY, {"default": {}}, {}, Code.NAMESPACE_NOT_ADMITTED, id="another namespace"),
        pytest.param(ML_ONLY, {"default": {"team": "ml"}}, {}, None, id="the right one"),
        pytest.param(EVERYTHING, {}, {}, Code.NAMESPACE_NOT_ADMITTED, id="one that is not there"),
        pytest.param(
            EVERYTHING, {"default": {}}, {"checks": {"budget": CheckState.REJECTED}}, Code.CHECK_FAILED, id="rejected"
        ),
        pytest.param(
            EVERYTHING, {"default": {}}, {"checks": {"budget": CheckState.RETRY}}, Code.CHECK_FAILED, id="to be retried"
        ),
        pytest.param(
            EVERYTHING, {"default": {}}, {"checks": {"budget": CheckState.PENDING}}, None, id="a check to come"
        ),
        pytest.param(
            EVERYTHING,
            {"default": {}},
            {"faults": (because(Code.REQUEST_ABOVE_LIMIT, path="spec", resources="cpu"),)},
            Code.MISCONFIGURED,
            id="pods that could never run",
        ),
    ],
)
def test_refused_at_once(admits, namespaces, fields, code):
    state = state_of(
        queue("team-a", gpus=4, admits_namespaces=admits), workload("train", **fields), namespaces=namespaces
    )
    _, entry = nominated(state, "train")
    assert entry.status is (Status.NOMINATED if code is None else Status.REFUSED)
    assert (entry.reason.code if entry.reason else None) is code
    is_mismatch = code is Code.NAMESPACE_NOT_ADMITTED
    assert entry.why is (Return.NAMESPACE_MISMATCH if is_mismatch else Return.GENERIC)


@pytest.mark.parametrize(
    ("admits", "namespaces", "text"),
    [
        (EVERYTHING, {}, "does not exist"),
        (None, {"default": {}}, "admits nobody"),
        (ML_ONLY, {"default": {}}, "does not match"),
    ],
)
def test_refused_namespace_is_told_why(admits, namespaces, text):
    state = state_of(queue("team-a", admits_namespaces=admits), workload("train"), namespaces=namespaces)
    assert text in nominated(state, "train")[1].reason.text


def test_finds_flavors_and_victims():
    state = state_of(
        queue("team-a", gpus=4, preemption=preempts(within=LOWER)),
        running("old", gpus=2),
        workload("new", gpus=3, priority=1),
    )
    _, entry = nominated(state, "new")
    assert entry.assignment.outcome is Outcome.PREEMPT
    assert [name_of(victim.holder.workload.key) for victim in entry.victims] == ["old"]
    assert not entry.is_preemptor


def test_one_that_preempted_before_is_known():
    state = state_of(queue("team-a", gpus=4), workload("new"))
    state.preemptors.add("default/new")
    assert nominated(state, "new")[1].is_preemptor


def test_search_goes_on_where_it_stopped():
    state = state_of(queue("team-a", flavors={"red": 4, "blue": 4}), workload("new"))
    state.progress["default/new"] = ScanProgress(tried=({GPU: 0},), generation=0, kind_key="", cycle=0)
    assert nominated(state, "new")[1].assignment.usage == {("blue", GPU): 1}


def test_slice_takes_over_from_the_one_it_names():
    state = state_of(
        queue("team-a", gpus=4), running("older", gpus=3), workload("newer", gpus=4, replaces="default/older")
    )
    _, entry = nominated(state, "newer")
    assert entry.older_slice.workload.key == "default/older"
    assert entry.assignment.usage == {GPUS: 1}


def test_repeated_search_waits_for_those_told_to_go():
    state = state_of(
        queue("team-a", gpus=4, preemption=preempts(within=LOWER)), running("old", gpus=4), workload("new", priority=1)
    )
    cycle, entry = nominated(state, "new")
    cycle.leaving = {victim.holder.workload.key: victim for victim in entry.victims}
    found = repropose(cycle, entry)
    assert (found.assignment.outcome, found.victims, found.label) == (Outcome.DEFERRED_FIT, [], "deferred_fit")


def test_repeated_search_finds_other_victims():
    state = state_of(
        queue("team-a", gpus=4, preemption=preempts(within=LOWER)),
        running("a", gpus=2),
        running("b", gpus=2, priority=1),
        workload("new", gpus=3, priority=2),
    )
    cycle, entry = nominated(state, "new")
    assert len(entry.victims) == 2
    cycle.leaving = {"default/a": next(v for v in entry.victims if v.holder.workload.key == "default/a")}
    found = repropose(cycle, entry)
    assert ([victim.holder.workload.key for victim in found.victims], found.label) == (["default/b"], "preempt")


def test_proposal_without_victims_is_labelled_as_skipped():
    assert Proposal(Assignment(pod_sets=(), usage={}, level=0), []).label == "skipped"
