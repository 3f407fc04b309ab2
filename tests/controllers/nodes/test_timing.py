"""How long simulated pods take: what annotations can say, and what is refused."""

from __future__ import annotations

from random import Random

import pytest

from muster.controllers.nodes.timing import Habits, Length, behaviour_of, read_length
from muster.model.errors import InvalidObject
from tests.controllers.nodes.pods import pod


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("30s", Length("fixed", 30.0)),
        ("1h30m", Length("fixed", 5400.0)),
        ("uniform(10s,1m)", Length("uniform", 10.0, 60.0)),
        ("uniform(10s, 1m)", Length("uniform", 10.0, 60.0)),
        ("exponential(1m)", Length("exponential", 60.0)),
        ("lognormal(1m,0.5)", Length("lognormal", 60.0, 0.5)),
    ],
)
def test_lengths(text, want):
    assert read_length(text, "x") == want


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "30", "-5s", "uniform(1m,10s)", "uniform(10s)", "exponential(1m,1m)", "lognormal(1m,x)",
        "lognormal(1m,nan)", "lognormal(1m,-1)", "normal(1m,1s)", "uniform(" * 1000, "900000h", "9" * 5000 + "s",
    ],
)  # fmt: skip
def test_what_is_no_length(text):
    with pytest.raises(InvalidObject, match=r"metadata\.annotations"):
        read_length(text, "metadata.annotations[sim.muster.dev/run-time]")


@pytest.mark.parametrize("kind", ["uniform", "exponential", "lognormal"])
def test_chance_is_about_what_was_asked_for(kind):
    length = read_length(
        {"exponential": "exponential(1m)", "lognormal": "lognormal(1m,0.5)"}.get(kind, "uniform(10s,110s)"), "x"
    )
    drawn = sorted(length.draw(Random(seed)) for seed in range(2_000))
    middle = drawn[1_000]
    assert drawn[0] >= 0 and abs(middle - {"exponential": 41.6}.get(kind, 60)) < 6


@pytest.mark.parametrize(
    ("annotations", "policy", "want"),
    [
        pytest.param({}, "Always", (None, 0), id="pods that stay run for ever"),
        pytest.param({}, "Never", (10.0, 0), id="pods that end run for a while"),
        pytest.param({"run-time": "5s", "exit-code": "3"}, "Always", (5.0, 3), id="as it says"),
        pytest.param({"run-time": "5s", "failing-runs": "2"}, "Never", (5.0, 1), id="fails at first"),
    ],
)
def test_behaviour(annotations, policy, want):
    given = pod("c", restartPolicy=policy)
    given["metadata"]["annotations"] = {f"sim.muster.dev/{name}": value for name, value in annotations.items()}
    found = behaviour_of(given, Habits())
    length = None if found.run is None else found.run_s("c", 0)
    assert (length, found.code(0)) == want
    assert found.code(2) == (0 if "failing-runs" in annotations else want[1])


@pytest.mark.parametrize(
    ("name", "value"),
    [("exit-code", "256"), ("exit-code", "-1"), ("exit-code", "x"), ("fail", "²"), ("failing-runs", "9" * 5000)],
)
def test_numbers_that_are_none(name, value):
    given = pod("c", metadata={"annotations": {f"sim.muster.dev/{name}": value}})
    with pytest.raises(InvalidObject):
        behaviour_of(given, Habits())
