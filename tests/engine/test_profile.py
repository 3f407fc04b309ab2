"""Profiles: the three that have names, and what a profile may not be."""

from __future__ import annotations

import pytest

from muster.engine.profile import PROFILES, Batch, Depth, PolicyUse, Profile, Stage, Tier, tier


@pytest.mark.parametrize(
    ("name", "depth", "batch", "needs_place"),
    [
        pytest.param("muster", Depth.DEVICE, Batch.HEADS, True, id="admission needs a place"),
        pytest.param("kueue", Depth.DOMAIN, Batch.HEADS, False, id="quota only"),
        pytest.param("kube-default", Depth.NODE, Batch.PODS, True, id="pod by pod"),
    ],
)
def test_the_named_ones(name, depth, batch, needs_place):
    profile = PROFILES[name]
    assert (profile.name, profile.depth, profile.batch, profile.needs_place) == (name, depth, batch, needs_place)


def test_depths_are_in_order():
    assert Depth.QUOTA < Depth.DOMAIN < Depth.NODE < Depth.DEVICE


def test_a_tier_of_names():
    use = PolicyUse(name="b", arguments={"weight": 2})
    assert tier("a", use) == Tier((PolicyUse(name="a"), use))


@pytest.mark.parametrize(
    ("depth", "stages", "complaint"),
    [
        pytest.param(Depth.NODE, (Stage.PLACE, Stage.PLACE), "has a stage twice", id="a stage twice"),
        pytest.param(Depth.QUOTA, (Stage.RESERVE, Stage.PLACE), "places without", id="places without nodes"),
        pytest.param(Depth.NODE, (Stage.RESERVE,), "places without", id="nodes without placing"),
    ],
)
def test_profiles_that_contradict_themselves(depth, stages, complaint):
    with pytest.raises(AssertionError, match=complaint):
        Profile(name="x", depth=depth, stages=stages, batch=Batch.ALL)
