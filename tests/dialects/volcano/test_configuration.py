"""Volcano's scheduler configuration: what is read, what absent flags mean, and what is refused."""

from __future__ import annotations

import pytest

from muster.app.policies import build_tiers
from muster.dialects.volcano.configuration import DEFAULT_ACTIONS, read_configuration
from muster.model.errors import InvalidObjects
from muster.model.fields import Fields


def read(value, **how):
    return read_configuration(Fields.of(value), **how)


def plugin(**given):
    return read({"tiers": [{"plugins": [given]}]}).tiers[0].policies[0]


def test_nothing_means_the_defaults():
    found = read({})
    assert found.actions == DEFAULT_ACTIONS
    assert [[use.name for use in tier.policies] for tier in found.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
    ]
    build_tiers(found.tiers)


@pytest.mark.parametrize("actions", ["enqueue, allocate,backfill", ["enqueue", "allocate", "backfill"]])
def test_actions_are_a_text_or_a_list(actions):
    assert read({"actions": actions}).actions == ("enqueue", "allocate", "backfill")


@pytest.mark.parametrize("flag", ["enableJobOrder", "enabledJobOrder"])
def test_flags_go_by_both_spellings(flag):
    assert plugin(name="gang", **{flag: False}).off == {"compare_workloads"}


def test_absent_flags_are_true_in_files_and_can_be_false():
    assert plugin(name="gang").off == frozenset()
    use = read({"tiers": [{"plugins": [{"name": "gang", "enableJobReady": True}]}]}, absent_flags=False).tiers[0]
    assert "ready" not in use.policies[0].off
    assert "compare_workloads" in use.policies[0].off


def test_a_hierarchy_is_off_unless_it_is_on():
    assert "hierarchy" not in plugin(name="capacity").arguments
    assert plugin(name="capacity", enableHierarchy=True).arguments["hierarchy"] is True


def test_preemption_is_told_how():
    given = {"configurations": [{"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True}}]}
    assert read(given).options.topology_aware


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"actions": "enqueue, dance"}, "actions: has 'dance'", id="action"),
        pytest.param({"tires": []}, "tires: is no part of a scheduler configuration", id="part"),
        pytest.param(
            {"tiers": [{"plugins": [{"name": "gang", "enableX": True}]}]},
            "tiers[0].plugins[0].enableX: is no flag",
            id="flag",
        ),
        pytest.param(
            {"tiers": [{"plugins": [{"name": "gang"}, {"name": "gang"}]}]},
            "tiers[0].plugins[1].name: is 'gang' again",
            id="twice",
        ),
        pytest.param(
            {"tiers": [{"plugins": [{"name": "drf", "enableHierarchy": True}, {"name": "proportion"}]}]},
            "tiers[0]: has proportion beside drf with enableHierarchy",
            id="two that share out queues",
        ),
    ],
)
def test_mistakes_are_named(given, want):
    with pytest.raises(InvalidObjects) as caught:
        read(given)
    assert [want in str(problem) for problem in caught.value.problems] == [True]


@pytest.mark.parametrize(
    ("use", "want"),
    [
        pytest.param({"name": "no-such"}, "is 'no-such', which is no policy", id="plugin"),
        pytest.param({"name": "drf", "arguments": {"x": 1}}, "is no argument of drf", id="argument"),
        pytest.param(
            {"name": "tdm", "arguments": {"tdm.revocable-zone.z": "8-9"}}, "the window of zone z is '8-9'", id="window"
        ),
        pytest.param(
            {"name": "usage", "arguments": {"thresholds": {"disk": 1}}}, "no threshold for 'disk'", id="threshold"
        ),
        pytest.param({"name": "sla", "arguments": {"sla-waiting-time": "soon"}}, "is 'soon'", id="time"),
        pytest.param(
            {"name": "resource-strategy-fit", "arguments": {"resources": {"cpu": {"type": "Best"}}}},
            "the type of cpu is 'Best'",
            id="strategy",
        ),
        pytest.param(
            {"name": "rescheduling", "arguments": {"strategies": [{"name": "x"}]}}, "give lowNodeUtilization", id="move"
        ),
    ],
)
def test_plugins_check_their_arguments(use, want):
    with pytest.raises(InvalidObjects) as caught:
        build_tiers(read({"tiers": [{"plugins": [use]}]}).tiers)
    assert [want in str(problem) for problem in caught.value.problems] == [True]
