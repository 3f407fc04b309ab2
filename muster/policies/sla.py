"""sla: groups that have waited for their time go first and are taken up whatever others say. Volcano's plugin.

The time is said for all, or by a group's annotation.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.durations import duration_s
from muster.engine.policy import Hooks, Policy, Vote, argument
from muster.engine.session import Session
from muster.engine.standing import Standing

ANNOTATIONS = ("sla-waiting-time", "volcano.sh/sla-waiting-time")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How long a group waits at most, such as 1h30m; empty: as long as it takes."""

    waiting_time: str = argument("", alias="sla-waiting-time")

    def __post_init__(self) -> None:
        if self.waiting_time and duration_s(self.waiting_time) is None:
            raise ValueError(f"waiting_time is {self.waiting_time[:40]!r}: give a time such as 1h30m")


def build(arguments: Arguments) -> Hooks:
    def deadline(group: Standing) -> float | None:
        said = next((text for name in ANNOTATIONS if (text := group.group.annotations.get(name))), "")
        wait_s = duration_s(said or arguments.waiting_time)
        return None if wait_s is None or wait_s <= 0 else group.group.created_at + wait_s

    def compare(first: Standing, second: Standing) -> int:
        one, two = deadline(first), deadline(second)
        if one is None or two is None:
            return (one is None) - (two is None)
        return (one > two) - (one < two)

    def opened(session: Session) -> Hooks:
        def vote(group: Standing) -> Vote:
            due = deadline(group)
            return Vote.PERMIT if due is not None and session.now >= due else Vote.ABSTAIN

        return Hooks(compare_workloads=compare, enqueueable=vote, promised=vote)

    return Hooks(open=opened)


POLICY = Policy(name="sla", arguments=Arguments, build=build)
