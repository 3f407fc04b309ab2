"""Feature gates: the table, which are on, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.dialects.kueue.gates import DEFAULT_GATES, GATES, FeatureGates, Stage, read_feature_gates
from muster.model.errors import InvalidObject, InvalidObjects
from tests.support import shared


def test_the_table_is_kueues() -> None:
    facts = json.loads(shared("conformance/kueue-default-feature-gates.json").read_text())
    known = {name: (gate.default, gate.stage.value) for name, gate in GATES.items()}
    assert known == {name: (fact["default"], fact["stage"]) for name, fact in facts.items()}


def test_needs_are_known_gates() -> None:
    assert all(need in GATES for gate in GATES.values() for need in gate.needs)


def test_the_defaults_hang_together() -> None:
    gates, notes = read_feature_gates({})
    assert gates == DEFAULT_GATES
    assert not notes


@pytest.mark.parametrize(
    ("wanted", "on", "off"),
    [
        pytest.param({}, ["PartialAdmission"], ["PriorityBoost"], id="defaults"),
        pytest.param({"PriorityBoost": True}, ["PriorityBoost"], [], id="one turned on"),
        pytest.param({"PartialAdmission": None}, ["PartialAdmission"], [], id="null leaves the default"),
        pytest.param({"AllAlpha": True}, ["PriorityBoost", "ConcurrentAdmission"], [], id="all of a stage"),
        pytest.param(
            {"AllAlpha": True, "PriorityBoost": False}, ["ConcurrentAdmission"], ["PriorityBoost"], id="a name wins"
        ),
        pytest.param(
            {"FlavorFungibility": False, "FlavorFungibilityPreserveScanProgress": False},
            [],
            ["FlavorFungibility"],
            id="a gate with those that need it",
        ),
    ],
)
def test_reading(wanted: Any, on: list[str], off: list[str]) -> None:
    gates, _ = read_feature_gates(wanted)
    assert all(gates.is_on(name) for name in on)
    assert not any(gates.is_on(name) for name in off)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        pytest.param(
            {"PartialAdmision": True},
            "featureGates.PartialAdmision: is no feature gate; did you mean PartialAdmission?",
            id="misspelt",
        ),
        pytest.param({"Zzz": True}, "featureGates.Zzz: is no feature gate; take it out", id="nothing like it"),
        pytest.param(
            {"PriorityBoost": "yes"}, "featureGates.PriorityBoost: is 'yes'; give true or false", id="no flag"
        ),
        pytest.param({5: True}, "featureGates: has a key that is no text; give names of feature gates", id="no name"),
        pytest.param(
            {"ManagedJobsNamespaceSelectorAlwaysRespected": False},
            "featureGates.ManagedJobsNamespaceSelectorAlwaysRespected: is locked: it can no longer be changed;"
            " take it out",
            id="locked",
        ),
        pytest.param(
            {"KueueDRAIntegrationConsumableCapacity": True, "KueueDRAIntegration": False},
            "featureGates.KueueDRAIntegrationConsumableCapacity: is on and needs KueueDRAIntegration;"
            " turn KueueDRAIntegration on, or KueueDRAIntegrationConsumableCapacity off",
            id="without what it needs",
        ),
        pytest.param(
            {"UnadmittedWorkloadsExplicitStatus": True, "UnadmittedWorkloadsObservability": False},
            "featureGates.UnadmittedWorkloadsExplicitStatus: is on and needs UnadmittedWorkloadsObservability;"
            " turn UnadmittedWorkloadsObservability on, or UnadmittedWorkloadsExplicitStatus off",
            id="even where it has no meaning here",
        ),
    ],
)
def test_refusals(wanted: Any, message: str) -> None:
    with pytest.raises(InvalidObjects) as caught:
        read_feature_gates(wanted)
    assert message in str(caught.value).splitlines()


@pytest.mark.parametrize("wanted", [[], "x", 5])
def test_gates_are_an_object(wanted: Any) -> None:
    with pytest.raises(InvalidObject):
        read_feature_gates(wanted)


def test_topology_cannot_go_alone() -> None:
    with pytest.raises(InvalidObjects) as caught:
        read_feature_gates({"TopologyAwareScheduling": False})
    needy = {problem.path.removeprefix("featureGates.") for problem in caught.value.problems}
    assert needy == {gate.name for gate in GATES.values() if gate.default and "TopologyAwareScheduling" in gate.needs}
    gates, _ = read_feature_gates({"TopologyAwareScheduling": False} | dict.fromkeys(needy, False))
    assert not gates.is_on("TopologyAwareScheduling")


@pytest.mark.parametrize(
    ("name", "value", "note"),
    [
        ("ShortWorkloadNames", True, "is known and changes nothing here"),
        ("TASReplaceNodeDueToNotReadyOverFixedTime", True, "is deprecated in Kueue"),
        ("ManagedJobsNamespaceSelectorAlwaysRespected", True, "is always on"),
        ("PriorityBoost", True, None),
    ],
)
def test_notes(name: str, value: bool, note: str | None) -> None:
    _, notes = read_feature_gates({name: value})
    assert [item.problem for item in notes] == ([note] if note else [])


def test_asking_for_an_unknown_gate_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError):
        DEFAULT_GATES.is_on("Nope")
    with pytest.raises(AssertionError):
        FeatureGates({"Nope": True})
    assert Stage("Beta") is Stage.BETA
