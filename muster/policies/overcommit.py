"""overcommit: take up groups until the cluster is promised a little more than it has. Volcano's plugin of that name."""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy, Vote, argument
from muster.engine.session import Session
from muster.engine.session_queues import need_of, promised_at_start
from muster.engine.standing import Standing
from muster.engine.vectors import add, is_within, minus, most_of, plus, total_of
from muster.model.groups import HOLDING, PodStatus

FACTOR = 1.2
USING = HOLDING | {PodStatus.RELEASING}


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How many times the cluster may be promised; below one means the default."""

    factor: float = argument(FACTOR, alias="overcommit-factor")


def build(arguments: Arguments) -> Hooks:
    factor = arguments.factor if arguments.factor >= 1 else FACTOR

    def opened(session: Session) -> Hooks:
        own = total_of(pod.requests for pod in session.pods.values() if pod.status in USING)
        used = most_of(own, session.used())  # others' pods use nodes as well
        idle = minus({name: amount * factor for name, amount in session.total.items()}, used)
        promised: dict[str, float] = {}
        for group in session.groups.values():
            add(promised, promised_at_start(group))

        def enqueueable(group: Standing) -> Vote:
            need = need_of(group)
            is_room = not need or is_within(plus(promised, need), idle, need)
            return Vote.PERMIT if is_room else Vote.REJECT

        def enqueued(group: Standing) -> None:
            add(promised, need_of(group))

        return Hooks(enqueueable=enqueueable, enqueued=enqueued)

    return Hooks(open=opened)


POLICY = Policy(name="overcommit", arguments=Arguments, build=build)
