"""The records of policies: hooks that are not asked, and what policies are told about workloads."""

from __future__ import annotations

from dataclasses import fields

import pytest

from muster.engine.policy import Hooks, Standing, Vote
from muster.engine.profile import HOOK_NAMES
from muster.model.podspec import PodShape
from muster.model.workload import PodSet, Workload


def test_profiles_know_all_hooks():
    assert {one.name for one in fields(Hooks)} == {*HOOK_NAMES, "fills_nodes", "adapt"}


def test_hooks_that_are_off_are_not_asked():
    hooks = Hooks(overused=lambda _: True, enqueueable=lambda _: Vote.PERMIT, fills_nodes=False)
    assert hooks.without(frozenset(("overused",))) == Hooks(enqueueable=hooks.enqueueable, fills_nodes=False)
    assert hooks.without(frozenset()) is hooks


def test_only_hooks_can_be_off():
    with pytest.raises(AssertionError, match="fills_nodes"):
        Hooks().without(frozenset(("fills_nodes",)))


def test_a_standing_counts_all_pod_sets():
    sets = tuple(
        PodSet(name=name, count=count, count_least=least, requests={}, shape=PodShape())
        for name, count, least in (("driver", 1, 1), ("workers", 8, 4))
    )
    standing = Standing(workload=Workload(key="a/b", uid="b", namespace="a", pod_sets=sets))
    assert (standing.count, standing.count_least) == (9, 5)
