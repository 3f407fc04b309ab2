"""Arguments of policies: typed, bounded, under either name, and refused with the field and what to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.app.policy_arguments import arguments_problem, read_arguments
from muster.engine.policy import Hooks, Policy, argument
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.policies import binpack, fgd


@dataclass(frozen=True, kw_only=True)
class Arguments:
    weight: int = argument(1, least=0, alias="trial.weight")
    share: float = argument(0.5, least=0, most=1)
    depth: int = argument(3, most=8)
    strategy: str = argument("best", choices=("best", "worst"))
    is_on: bool = True
    name: str = ""
    resources: tuple[str, ...] = ("cpu",)
    weights: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.weight > 100 and self.share == 0:
            raise ValueError("a weight above 100 needs a share")


POLICY = Policy(name="trial", arguments=Arguments, build=lambda _: Hooks())
PATH = "tiers[0].policies[1].arguments"


def read(given: dict[Any, Any]) -> Any:
    return read_arguments(POLICY, Fields(given, PATH))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({}, Arguments(), id="all defaults"),
        pytest.param({"weight": 7}, Arguments(weight=7), id="a whole number"),
        pytest.param({"weight": 7.0}, Arguments(weight=7), id="a whole number with a point"),
        pytest.param({"trial.weight": 7}, Arguments(weight=7), id="by its other name"),
        pytest.param({"weight": None, "trial.weight": 2}, Arguments(weight=2), id="null is absent"),
        pytest.param({"share": 1}, Arguments(share=1.0), id="a number"),
        pytest.param({"is_on": False, "name": "x"}, Arguments(is_on=False, name="x"), id="a flag and a text"),
        pytest.param({"strategy": "worst"}, Arguments(strategy="worst"), id="a choice"),
        pytest.param({"resources": ["a", "b"]}, Arguments(resources=("a", "b")), id="texts"),
        pytest.param({"weights": {"cpu": 2}}, Arguments(weights={"cpu": 2}), id="whole numbers by name"),
        pytest.param({"shares": {"cpu": 0.5}}, Arguments(shares={"cpu": 0.5}), id="numbers by name"),
    ],
)
def test_what_is_given(given, want):
    assert read(given) == want


KNOWN = "known are depth, is_on, name, resources, share, shares, strategy, weight, weights"


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"weight": "7"}, "weight: is '7'; give a whole number", id="a text for a number"),
        pytest.param({"weight": 1.5}, "weight: is 1.5; give a whole number", id="a part"),
        pytest.param({"weight": True}, "weight: is True; give a whole number", id="a flag for a number"),
        pytest.param({"weight": -1}, "weight: is -1; give 0 or more", id="below the least"),
        pytest.param({"trial.weight": -1}, "trial.weight: is -1; give 0 or more", id="under the name that was given"),
        pytest.param({"depth": 9}, "depth: is 9; give 8 or less", id="above the most"),
        pytest.param({"share": 2}, "share: is 2.0; give a number from 0 to 1", id="out of range"),
        pytest.param({"share": float("nan")}, "share: is nan; give a finite number", id="no number"),
        pytest.param({"share": "half"}, "share: is 'half'; give a number", id="a text for a part"),
        pytest.param({"is_on": "yes"}, "is_on: is 'yes'; give true or false", id="a text for a flag"),
        pytest.param({"name": 3}, "name: is 3; give a string", id="a number for a text"),
        pytest.param(
            {"strategy": "wurst"}, "strategy: is 'wurst'; did you mean worst? known are best, worst", id="no choice"
        ),
        pytest.param({"resources": "cpu"}, "resources: is 'cpu'; give a list", id="no list"),
        pytest.param({"resources": [1]}, "resources[0]: is 1; give a string", id="no text in a list"),
        pytest.param({"weights": [1]}, "weights: is a list; give an object", id="no object"),
        pytest.param({"weights": {"cpu": "a"}}, "weights.cpu: is 'a'; give a whole number", id="no number by name"),
        pytest.param({"weights": {1: 1}}, "weights: has the key 1; give a string as key", id="no name"),
        pytest.param({"wieght": 1}, f"wieght: is no argument of trial; did you mean weight? {KNOWN}", id="misspelt"),
        pytest.param({"zzz": 1}, f"zzz: is no argument of trial; {KNOWN}", id="nothing like it"),
        pytest.param({1: 1}, f"1: is no argument of trial; {KNOWN}", id="no text"),
        pytest.param(
            {"weight": 1, "trial.weight": 2}, "trial.weight: is given under two names; give weight alone", id="twice"
        ),
    ],
)
def test_what_is_refused(given, want):
    with pytest.raises(InvalidObject) as caught:
        read(given)
    assert str(caught.value) == f"{PATH}.{want}"


def test_all_that_is_wrong_is_named_at_once():
    with pytest.raises(InvalidObject) as caught:
        read({"weight": -1, "name": 3})
    assert str(caught.value).splitlines() == [
        f"{PATH}.weight: is -1; give 0 or more",
        f"{PATH}.name: is 3; give a string",
    ]


def test_what_the_dataclass_itself_refuses():
    with pytest.raises(InvalidObject) as caught:
        read({"weight": 101, "share": 0})
    assert str(caught.value) == f"{PATH}: cannot be used: a weight above 100 needs a share; change one of them"


def test_what_no_file_can_hold():
    with pytest.raises(InvalidObject) as caught:
        read_arguments(fgd.POLICY, Fields({"typical": []}, PATH))
    assert str(caught.value) == f"{PATH}.typical: cannot be given in a file; take it out"


def test_volcanos_name_of_an_argument():
    assert read_arguments(binpack.POLICY, Fields({"binpack.weight": 3}, PATH)) == binpack.Arguments(weight=3)


@dataclass
class Thawed:
    weight: int = 1


@dataclass(frozen=True)
class Bare:
    weight: int
    share: float


@dataclass(frozen=True)
class Unknown:
    weight: NoSuchType = 1  # noqa: F821


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        pytest.param(Arguments, "", id="fine"),
        pytest.param(dict, "its arguments are no frozen dataclass", id="no dataclass"),
        pytest.param(3, "its arguments are no frozen dataclass", id="no type"),
        pytest.param(Thawed, "its arguments are no frozen dataclass", id="not frozen"),
        pytest.param(Bare, "its arguments have no default for weight, share", id="no defaults"),
        pytest.param(
            Unknown,
            "the types of its arguments cannot be told: name 'NoSuchType' is not defined",
            id="a type of nowhere",
        ),
    ],
)
def test_dataclasses_of_arguments(kind, want):
    assert arguments_problem(Policy(name="x", arguments=kind, build=lambda _: Hooks())) == want
