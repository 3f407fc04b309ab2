"""gang: groups start with their minimum or not at all, and none falls below its minimum for another. Volcano's plugin.

A group is ready when enough of its pods have places, of every role and of every kind of sub group that asks for a
minimum; pods that ask for nothing count, for there is always room for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy, Vote
from muster.engine.standing import READY, VALID, PodStanding, Standing, SubStanding
from muster.model.groups import PodStatus

PROMISED = READY | {PodStatus.PIPELINED}


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    return Hooks(
        compare_workloads=lambda first, second: has_minimum(first) - has_minimum(second),
        compare_subs=lambda first, second: sub_has_minimum(first) - sub_has_minimum(second),
        starving=lacks_minimum,
        preempt=spare_ones,
        reclaim=spare_ones,
        valid=find_fault,
        ready=is_ready,
        promised=lambda group: Vote.PERMIT if will_be_ready(group) else Vote.REJECT,
        sub_ready=sub_has_minimum,
        sub_promised=lambda sub: Vote.PERMIT if sub_will_have_minimum(sub) else Vote.REJECT,
    )


def lacks_minimum(group: Standing) -> bool:
    """Whether it has no place, now or soon, for all the pods that must run together."""
    return group.ready + group.promised < group.count_least


def spare_ones(_preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
    """Of every group as many pods as it has above its minimum, the first of the candidates."""
    taken: dict[str, int] = {}
    spare: set[str] = set()
    for pod in candidates:
        owner = pod.owner
        gone = taken.get(owner.key, 0)
        if owner.ready - gone > owner.count_least:
            taken[owner.key] = gone + 1
            spare.add(pod.key)
    return frozenset(spare)


def find_fault(group: Standing) -> str:
    """Why there are not pods enough, whatever places there are."""
    for role, least in _role_minima(group).items():
        have = group.count_role(role, VALID)
        if have < least:
            return f"it has {have} of the {least} pods that it needs of {role or 'no role'}"
    for rule in group.group.sub_groups:
        have = sum(sub.rule is rule for sub in group.subs.values())
        if have < rule.least:
            return f"it has {have} of the {rule.least} sub groups that it needs of {rule.name}"
    have = group.of(VALID)
    return f"it has {have} of the {group.count_least} pods that must start together" if have < group.count_least else ""


def is_ready(group: Standing) -> bool:
    """Whether all its minima have places."""
    roles = all(
        group.count_role(role, READY) + group.role_best_effort(role) >= least
        for role, least in _role_minima(group).items()
    )
    subs = all(
        sum(sub.rule is rule and sub_has_minimum(sub) for sub in group.subs.values()) >= rule.least
        for rule in group.group.sub_groups
    )
    return roles and subs and has_minimum(group)


def will_be_ready(group: Standing) -> bool:
    """Whether all its minima have places once those told to go have left."""
    roles = all(
        group.count_role(role, PROMISED) + group.role_best_effort(role) >= least
        for role, least in _role_minima(group).items()
    )
    subs = all(
        sum(sub.rule is rule and sub_will_have_minimum(sub) for sub in group.subs.values()) >= rule.least
        for rule in group.group.sub_groups
    )
    return roles and subs and group.ready + group.promised + group.idle_best_effort >= group.count_least


def has_minimum(group: Standing) -> bool:
    """Whether enough of its pods have places."""
    return group.ready + group.idle_best_effort >= group.count_least


def sub_has_minimum(sub: SubStanding) -> bool:
    """The same for a sub group."""
    return sub.ready + sub.idle_best_effort >= sub.size


def sub_will_have_minimum(sub: SubStanding) -> bool:
    """The same once those told to go have left."""
    return sub.ready + sub.promised + sub.idle_best_effort >= sub.size


def _role_minima(group: Standing) -> dict[str, int]:
    """The minima of roles, where they are to be kept: not where the group starts with fewer than they are together."""
    minima = group.group.minimum_by_role
    return dict(minima) if group.count_least >= sum(minima.values()) else {}


POLICY = Policy(name="gang", arguments=Arguments, build=build)
