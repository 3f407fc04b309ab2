"""What a flavor search found: which standing is better, and what an assignment comes to as a whole."""

from __future__ import annotations

import pytest

from muster.engine.assignment import (
    Assignment,
    Attempt,
    FlavorChoice,
    Mode,
    Outcome,
    PodSetChoice,
    Standing,
    is_preferred,
    outcome_of,
)
from muster.model.queue import FlavorRules
from muster.model.reason import Code, because
from tests.engine.builders import CPU, GPU

NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = Mode
RATHER_BORROW, RATHER_PREEMPT = FlavorRules(), FlavorRules(prefers_preempting=True)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param((NO_CANDIDATES, 5), (NO_FIT, 0), id="nobody to preempt beats no fit"),
        pytest.param((NO_CANDIDATES, 0), (NO_CANDIDATES, 1), id="among those the lower"),
        pytest.param((PREEMPT, 5), (NO_CANDIDATES, 0), id="preempting beats nobody to preempt"),
        pytest.param((RECLAIM, 1), (PREEMPT, 1), id="others' expense beats one's own"),
        pytest.param((FIT, 1), (RECLAIM, 1), id="a fit beats reclaiming"),
        pytest.param((FIT, 0), (FIT, 1), id="less borrowing"),
        pytest.param((FIT, 0), (NO_FIT, 0), id="best and worst"),
    ],
)
def test_better_whatever_the_queue_prefers(better, worse):
    one, other = Standing(*better), Standing(*worse)
    for rules in (RATHER_BORROW, RATHER_PREEMPT):
        assert is_preferred(one, other, rules)
        assert not is_preferred(other, one, rules)


def test_preference_decides_between_borrowing_and_preempting():
    borrowing, preempting = Standing(FIT, 1), Standing(PREEMPT, 0)
    assert is_preferred(borrowing, preempting, RATHER_BORROW)
    assert is_preferred(preempting, borrowing, RATHER_PREEMPT)


@pytest.mark.parametrize("mode", Mode)
def test_nothing_is_better_than_itself(mode):
    for rules in (RATHER_BORROW, RATHER_PREEMPT):
        assert not is_preferred(Standing(mode, 1), Standing(mode, 1), rules)


def test_no_fit_is_as_bad_at_any_level():
    assert not is_preferred(Standing(NO_FIT, 0), Standing(NO_FIT, 3), RATHER_BORROW)


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [
        (FIT, Outcome.FIT),
        (RECLAIM, Outcome.PREEMPT),
        (PREEMPT, Outcome.PREEMPT),
        (NO_CANDIDATES, Outcome.PREEMPT),
        (NO_FIT, Outcome.NO_FIT),
    ],
)
def test_outcome_of_a_mode(mode, outcome):
    assert outcome_of(mode) is outcome


def pods(name="main", *, refusal=None, reasons=(), **modes):
    """A pod set that asks for two of each resource, in flavor spot."""
    flavors = {resource: FlavorChoice("spot", mode, 1, index) for index, (resource, mode) in enumerate(modes.items())}
    return PodSetChoice(
        name=name,
        count=2,
        requests=dict.fromkeys((*modes, "undeclared"), 2),
        flavors=flavors,
        attempts=(Attempt("spot", Standing(FIT, 0)),),
        reasons=reasons,
        refusal=refusal,
    )


def assignment(*pod_sets, is_deferred=False):
    return Assignment(pod_sets=pod_sets, usage={}, level=0, is_deferred=is_deferred)


SHORT = (because(Code.SHORT_OF_QUOTA),)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        pytest.param(assignment(pods(gpu=FIT)), Outcome.FIT, id="all fit"),
        pytest.param(assignment(pods()), Outcome.FIT, id="nothing asked for"),
        pytest.param(assignment(pods(gpu=FIT, cpu=RECLAIM, reasons=SHORT)), Outcome.PREEMPT, id="the worst resource"),
        pytest.param(
            assignment(pods(gpu=FIT), pods(refusal=Code.WAITING_FOR_QUOTA)), Outcome.NO_FIT, id="the worst pod set"
        ),
        pytest.param(assignment(), Outcome.NO_FIT, id="nothing found"),
        pytest.param(assignment(pods(gpu=FIT), is_deferred=True), Outcome.DEFERRED_FIT, id="later"),
        pytest.param(
            assignment(pods(gpu=PREEMPT, reasons=SHORT), is_deferred=True), Outcome.PREEMPT, id="only a fit is deferred"
        ),
    ],
)
def test_outcome_of_an_assignment(found, outcome):
    assert found.outcome is outcome


@pytest.mark.parametrize(
    ("codes", "hardest"),
    [
        ([], None),
        ([None, Code.WAITING_FOR_QUOTA], Code.WAITING_FOR_QUOTA),
        ([Code.WAITING_FOR_QUOTA, Code.EXCEEDS_MAX_QUOTA], Code.EXCEEDS_MAX_QUOTA),
        ([Code.NO_MATCHING_FLAVOR, Code.EXCEEDS_MAX_QUOTA], Code.NO_MATCHING_FLAVOR),
        ([Code.TOPOLOGY_PLACEMENT_FAILED, Code.WAITING_FOR_QUOTA], Code.WAITING_FOR_QUOTA),
    ],
)
def test_refusal_is_the_one_hardest_to_get_over(codes, hardest):
    assert assignment(*(pods(refusal=code) for code in codes)).refusal is hardest


def test_contested_are_the_resources_somebody_would_have_to_leave_for():
    found = assignment(pods(gpu=FIT, cpu=RECLAIM), pods("other", memory=NO_CANDIDATES))
    assert found.contested() == {("spot", "cpu"), ("spot", "memory")}


def test_scan_stops_are_told_by_pod_set():
    assert assignment(pods(gpu=FIT, cpu=FIT), pods("other")).tried() == ({"gpu": 0, "cpu": 1}, {})


def test_admission_counts_what_a_flavor_pays_for():
    admission = assignment(pods(gpu=FIT)).admission("team-a")
    assert admission.queue == "team-a"
    assert admission.pod_sets[0].usage == {"gpu": 2}
    assert admission.pod_sets[0].flavors == {"gpu": "spot"}
    assert admission.usage() == {("spot", "gpu"): 2}
    assert {GPU, CPU}.isdisjoint(admission.pod_sets[0].usage)
