"""roundrobin: queues take turns; the one that got fewest pods in this session goes first."""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy
from muster.engine.session import Session
from muster.model.groups import PodStatus

GIVEN = frozenset((PodStatus.ALLOCATED, PodStatus.BINDING, PodStatus.PIPELINED))


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    def opened(session: Session) -> Hooks:
        def given(queue: str) -> int:
            return sum(group.of(GIVEN) for group in session.queues[queue].groups)

        return Hooks(compare_queues=lambda first, second: given(first) - given(second))

    return Hooks(open=opened)


POLICY = Policy(name="roundrobin", arguments=Arguments, build=build)
