"""resourcequota: groups are taken up only while their namespace's quota has room for them. Volcano's plugin."""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy, Vote
from muster.engine.session import Session
from muster.engine.session_queues import need_of
from muster.engine.standing import Standing
from muster.engine.vectors import add, is_within, plus


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    def opened(session: Session) -> Hooks:
        promised: dict[str, dict[str, float]] = {}  # by namespace, in this session

        def enqueueable(group: Standing) -> Vote:
            need = need_of(group)
            for quota in session.snapshot.quotas:
                if quota.namespace != group.group.namespace:
                    continue
                used = plus(need, quota.used, promised.get(quota.namespace, {}))
                if not is_within(used, quota.hard, [name for name in need if name in quota.hard]):
                    return Vote.REJECT
            return Vote.PERMIT if need else Vote.ABSTAIN

        def enqueued(group: Standing) -> None:
            add(promised.setdefault(group.group.namespace, {}), need_of(group))

        return Hooks(enqueueable=enqueueable, enqueued=enqueued)

    return Hooks(open=opened)


POLICY = Policy(name="resourcequota", arguments=Arguments, build=build)
