"""fifo: who came first goes first."""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy
from muster.engine.standing import Standing


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    def compare(first: Standing, second: Standing) -> int:
        one, two = first.group.created_at, second.group.created_at
        return (one > two) - (one < two)

    return Hooks(compare_workloads=compare)


POLICY = Policy(name="fifo", arguments=Arguments, build=build)
