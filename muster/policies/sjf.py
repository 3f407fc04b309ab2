"""sjf: the group that will be done soonest goes first, as its annotation tells; those that tell nothing go last."""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.durations import duration_s
from muster.engine.policy import Hooks, Policy, argument
from muster.engine.standing import Standing

EXPECTED = "muster.io/expected-duration"


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The annotation that tells how long a group will run, such as 45m."""

    expected: str = argument(EXPECTED)


def build(arguments: Arguments) -> Hooks:
    def length(group: Standing) -> float:
        found = duration_s(group.group.annotations.get(arguments.expected, ""))
        return float("inf") if found is None else found

    def compare(first: Standing, second: Standing) -> int:
        one, two = length(first), length(second)
        return (one > two) - (one < two)

    return Hooks(compare_workloads=compare)


POLICY = Policy(name="sjf", arguments=Arguments, build=build)
