"""The records of policies: hooks that are not asked, and what policies are told about workloads."""

from __future__ import annotations

from dataclasses import fields

import pytest

from muster.engine.policy import Hooks, Vote
from muster.engine.profile import HOOK_NAMES


def test_profiles_know_all_hooks():
    assert {one.name for one in fields(Hooks)} == {*HOOK_NAMES, "fills_nodes", "adapt", "open"}


def test_hooks_that_are_off_are_not_asked():
    hooks = Hooks(overused=lambda _: True, enqueueable=lambda _: Vote.PERMIT, fills_nodes=False)
    assert hooks.without(frozenset(("overused",))) == Hooks(enqueueable=hooks.enqueueable, fills_nodes=False)
    assert hooks.without(frozenset()) is hooks


def test_only_hooks_can_be_off():
    with pytest.raises(AssertionError, match="fills_nodes"):
        Hooks().without(frozenset(("fills_nodes",)))


def test_a_policy_that_is_opened_keeps_what_is_off():
    opened = Hooks(open=lambda _: Hooks(overused=lambda _: True, starving=lambda _: True))
    hooks = opened.without(frozenset(("overused",)))
    assert hooks.open is not None
    assert hooks.open(None).overused is None
    assert hooks.open(None).starving is not None
