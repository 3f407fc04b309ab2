"""Whose turn it is: one client's requests wait for each other, not others for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from muster.apiserver import limits
from muster.apiserver.limits import Flow, Limits
from muster.apiserver.requests import User
from muster.apiserver.statuses import Problem

ANN, BOB = User("ann"), User("bob")
SYSTEM = User("system:serviceaccount:kube-system:scheduler", ("system:serviceaccounts:kube-system",))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Limits that a test can reach."""
    small = {"MOST_OF_FLOW": 4, "MOST_AT_ONCE": 6, "MOST_OF_SYSTEM": 8, "MOST_WAITING": 5, "PAUSE_S": 0.0}
    for name, value in {**small, "GUARANTEED": 1, "TURN": 3}.items():
        monkeypatch.setattr(limits, name, value)


def run(story: Callable[[Limits], Awaitable[None]]) -> None:
    async def whole() -> None:
        await story(Limits())

    asyncio.run(whole())


async def settled() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


class Client:
    """Sends requests and holds them until it is told to let go."""

    def __init__(self, limited: Limits, user: User, program: str = "kubectl") -> None:
        self._limited, self._user, self._program = limited, user, program
        self.begun: list[Flow] = []
        self.refused = 0
        self._tasks: list[asyncio.Task[None]] = []

    def send(self, count: int = 1) -> None:
        self._tasks += [asyncio.ensure_future(self._one()) for _ in range(count)]

    async def _one(self) -> None:
        try:
            flow = await self._limited.enter(self._user, self._program)
            self.begun.append(flow)
        except Problem as problem:
            self.refused += problem.code == 429 and problem.retry_after_s == 1

    def let_go(self) -> None:
        for flow in self.begun:
            self._limited.leave(flow)
        self.begun = []

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


def test_so_many_at_once_so_many_wait_and_the_rest_come_back():
    async def story(limited: Limits) -> None:
        ann = Client(limited, ANN)
        ann.send(20)
        await settled()
        assert (len(ann.begun), ann.refused) == (4, 12), "3 begin in the first turn, 5 wait"
        ann.let_go()
        await settled()
        assert len(ann.begun) == 4
        ann.let_go()
        await settled()
        assert not limited._flows and not limited._programs and not limited._rotation

    run(story)


def test_others_get_in_beside_a_flood():
    async def story(limited: Limits) -> None:
        floods = [Client(limited, ANN, f"program-{number}") for number in range(3)]
        for one in floods:
            one.send(50)
        await settled()
        assert sum(len(one.begun) for one in floods) == 6
        bob, scheduler = Client(limited, BOB), Client(limited, SYSTEM)
        bob.send()
        scheduler.send(8)
        await settled()
        assert (len(bob.begun), len(scheduler.begun)) == (1, 8)
        scheduler.send()
        await settled()
        assert scheduler.refused == 1

    run(story)


def test_flows_take_turns():
    async def story(limited: Limits) -> None:
        ann, bob = Client(limited, ANN), Client(limited, BOB)
        ann.send(9)
        bob.send(2)
        await settled()
        assert len(ann.begun) == 4
        assert len(bob.begun) == 2

    run(story)


def test_names_that_a_client_gives_itself_do_not_multiply_it():
    async def story(limited: Limits) -> None:
        clients = [Client(limited, ANN, f"program-{number}") for number in range(50)]
        for one in clients:
            one.send(20)
        await settled()
        assert len(limited._flows) <= 9

    run(story)


def test_whoever_gives_up_waiting_takes_no_place():
    async def story(limited: Limits) -> None:
        ann, other = Client(limited, ANN), Client(limited, ANN)
        ann.send(4)
        await settled()
        other.send(3)
        await settled()
        other.cancel()
        await settled()
        ann.let_go()
        await settled()
        assert not other.begun and not limited._flows

    run(story)


def test_waiting_has_an_end(monkeypatch):
    async def story(limited: Limits) -> None:
        monkeypatch.setattr(limits, "WAIT_S", 0.0)
        ann = Client(limited, ANN)
        ann.send(6)
        async with asyncio.timeout(5):
            while ann.refused < 2:
                await asyncio.sleep(0)
        assert len(ann.begun) == 4

    run(story)
