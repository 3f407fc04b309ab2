"""Variants: one workload raced in several flavors; the best that works stays, and a worse one makes way."""

from __future__ import annotations

import pytest

from muster.engine.cycle import Cycle
from muster.engine.order import Entry
from muster.engine.variants import better_variant, worse_variant
from muster.model.plan import Return
from muster.model.reason import Code
from muster.model.settings import Settings
from tests.engine.builders import (
    evicted,
    name_of,
    node_of,
    queue,
    reserved,
    run_cycle,
    run_until_quiet,
    running,
    state_of,
    waits,
    workload,
)

RACED = Settings(concurrent_admission=True)
THREE = queue("team-a", flavors={"best": 1, "good": 1, "poor": 1})


def variant(name, flavor, *, of="parent", **fields):
    """One that waits for a flavor of its own."""
    return workload(name, variant_of=of, allowed_flavors=frozenset((flavor,)), **fields)


def runs(name, flavor, *, of="parent", **fields):
    return running(name, flavor=flavor, variant_of=of, allowed_flavors=frozenset((flavor,)), **fields)


# Who is better ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "others", "better", "worse"),
    [
        pytest.param(variant("w", "good"), [runs("r", "best")], "r", None, id="a better one runs"),
        pytest.param(variant("w", "good"), [runs("r", "poor")], None, "r", id="a worse one runs"),
        pytest.param(variant("w", "good"), [runs("r", "good")], None, None, id="one as good runs"),
        pytest.param(variant("w", "good"), [runs("r", "best", of="another")], None, None, id="another's variant"),
        pytest.param(workload("w"), [runs("r", "best")], None, None, id="it is no variant"),
        pytest.param(variant("w", "good"), [runs("r", "best", is_admitted=False)], None, None, id="not running yet"),
        pytest.param(variant("w", "good"), [runs("r", "best"), runs("s", "poor")], "r", "s", id="both"),
        pytest.param(variant("w", "unknown"), [runs("r", "poor")], "r", None, id="a flavor of nobody is the worst"),
        pytest.param(
            workload("w", variant_of="parent"),
            [runs("r", "poor")],
            "r",
            None,
            id="so is one that names none",
        ),
        pytest.param(
            workload("w", variant_of="parent", allowed_flavors=frozenset(("poor", "best"))),
            [runs("r", "good")],
            None,
            "r",
            id="the best of several counts",
        ),
    ],
)
def test_siblings(waiting, others, better, worse):
    state = state_of(THREE, waiting, *others, settings=RACED)
    entry = Entry(workload=waiting, queue=node_of(state, "team-a"))
    found = [look(Cycle(state), entry) for look in (better_variant, worse_variant)]
    assert [holder and name_of(holder.workload.key) for holder in found] == [better, worse]


def test_variants_are_nothing_where_the_setting_is_off():
    state = state_of(THREE, variant("w", "good"), runs("r", "best"), runs("s", "poor"))
    entry = Entry(workload=state.workloads["default/w"], queue=node_of(state, "team-a"))
    assert better_variant(Cycle(state), entry) is worse_variant(Cycle(state), entry) is None


@pytest.mark.parametrize("home", [None, queue("team-a", flavors={}, groups=())])
def test_without_flavors_all_are_as_good(home):
    state = state_of(THREE if home is None else home, runs("r", "best"), settings=RACED)
    entry = Entry(workload=variant("w", "good"), queue=node_of(state, "team-a") if home is not None else None)
    assert better_variant(Cycle(state), entry) is worse_variant(Cycle(state), entry) is None


@pytest.mark.parametrize(
    ("last", "want"),
    [
        pytest.param("", "r", id="any move is welcome"),
        pytest.param("good", "r", id="to this flavor and better ones"),
        pytest.param("best", None, id="not to this flavor"),
        pytest.param("unknown", "r", id="a flavor of nobody bounds nothing"),
    ],
)
def test_moves_are_bounded(last, want):
    home = queue("team-a", flavors={"best": 1, "good": 1, "poor": 1}, last_acceptable_flavor=last)
    state = state_of(home, runs("r", "poor"), settings=RACED)
    found = worse_variant(Cycle(state), Entry(workload=variant("w", "good"), queue=node_of(state, "team-a")))
    assert (found and name_of(found.workload.key)) == want


# In cycles -------------------------------------------------------------------------------------------------------


def test_variant_steps_aside_while_a_better_one_runs():
    state = state_of(THREE, variant("w", "good"), runs("r", "best"), settings=RACED)
    plan = run_cycle(state)
    assert (reserved(plan), waits(plan)) == ({}, {"w": Code.BETTER_VARIANT_RUNS})
    assert "default/r" in plan.verdicts["default/w"].reason.text


def test_worse_one_leaves_before_the_better_one_starts():
    state = state_of(THREE, variant("w", "best"), runs("r", "good"), settings=RACED)
    first = run_cycle(state, victims_leave=False)
    assert (evicted(first), waits(first)) == (
        {"r": Code.FLAVOR_MIGRATION},
        {"w": Code.WAITING_FOR_PREEMPTED_WORKLOADS},
    )
    assert first.decisions[-1].why is Return.PENDING_MIGRATION
    again = run_cycle(state, victims_leave=False)
    assert (evicted(again), list(waits(again))) == ({}, ["w"]), "it is told once"
    state.drop("default/r")
    assert reserved(run_cycle(state)) == {"w": "best"}


def test_race_ends_with_the_best_flavor_that_has_room():
    state = state_of(
        THREE,
        running("other", flavor="best"),
        *(variant(name, name) for name in ("best", "good", "poor")),
        settings=RACED,
    )
    run_until_quiet(state)
    assert [name for name in state.workloads if state.holders.get(name)] == ["default/good", "default/other"]
    state.drop("default/other")
    run_until_quiet(state)
    assert [name for name in state.workloads if state.holders.get(name)] == ["default/best"]
