"""How much the server takes on at once, and whose turn it is: nobody waits for what a single client sends. For `asgi`.

Requests are counted by flow: who asks, with which program. Flows that want more than there is take turns; of one flow
so many wait, and further requests are told, after a pause, to come back. The cluster's own components are not held up.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque

from muster.apiserver.requests import User
from muster.apiserver.statuses import Problem, too_many

MOST_OF_FLOW = 100  # requests of one flow that are being answered
MOST_AT_ONCE = 300  # of all flows together
GUARANTEED = 4  # of each flow, whatever the others do
MOST_OF_SYSTEM = 200
MOST_WAITING = 200  # of one flow
TURN = 16  # requests begun before the loop looks at its sockets again
WAIT_S = 15.0
PAUSE_S = 1.0  # or up to twice as long, before a client is told that there is no room: it asks again no sooner
_MOST_PROGRAMS = 8  # of one user that have a flow of their own
_SHOWN = 64  # characters of a program's name that tell it apart
_SYSTEM_USERS = frozenset({"system:kube-controller-manager", "system:kube-scheduler"})
_SYSTEM_GROUPS = frozenset({"system:nodes", "system:serviceaccounts:kube-system"})


class Flow:
    """The requests of one user with one program."""

    __slots__ = ("at_once", "is_system", "key", "waiting")

    def __init__(self, key: tuple[str, str], *, is_system: bool) -> None:
        self.key = key
        self.is_system = is_system
        self.at_once = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Limits:
    """Requests that are being answered or wait for it."""

    def __init__(self) -> None:
        self._flows: dict[tuple[str, str], Flow] = {}
        self._programs: Counter[str] = Counter()  # flows by user
        self._rotation: deque[Flow] = deque()  # flows with somebody waiting, in the order of their turns
        self._at_once = 0
        self._begun = 0  # in this turn
        self._is_turning = False

    async def enter(self, user: User, program: str) -> Flow:
        """Begin a request as soon as it is its turn; `leave` has to follow."""
        flow = self._flow_of(user, program[:_SHOWN])
        if flow.is_system:
            if flow.at_once >= MOST_OF_SYSTEM:
                raise _no_room()
        elif self._rotation or not self._has_room(flow):
            await self._wait(flow)
            return flow
        self._begin(flow)
        return flow

    def leave(self, flow: Flow) -> None:
        """A request has been answered."""
        flow.at_once -= 1
        if not flow.is_system:
            self._at_once -= 1
            if self._rotation or flow.waiting:
                self._turn_soon()
        self._forget(flow)

    def _flow_of(self, user: User, program: str) -> Flow:
        key = (user.name, program)
        flow = self._flows.get(key)
        if flow is None and self._programs[user.name] >= _MOST_PROGRAMS:
            key = (user.name, "")  # however many names a client gives itself
            flow = self._flows.get(key)
        if flow is None:
            is_system = user.name in _SYSTEM_USERS or not _SYSTEM_GROUPS.isdisjoint(user.groups)
            flow = self._flows[key] = Flow(key, is_system=is_system)
            self._programs[user.name] += 1
        return flow

    def _forget(self, flow: Flow) -> None:
        if not flow.at_once and not flow.waiting and self._flows.get(flow.key) is flow:
            del self._flows[flow.key]
            name = flow.key[0]
            self._programs[name] -= 1
            if not self._programs[name]:
                del self._programs[name]

    def _has_room(self, flow: Flow) -> bool:
        if self._begun >= TURN or flow.at_once >= MOST_OF_FLOW:
            return False
        return self._at_once < MOST_AT_ONCE or flow.at_once < GUARANTEED

    def _begin(self, flow: Flow) -> None:
        flow.at_once += 1
        if not flow.is_system:
            self._at_once += 1
            self._begun += 1
            self._turn_soon()

    # Waiting ---------------------------------------------------------------------------------------------------------

    async def _wait(self, flow: Flow) -> None:
        if len(flow.waiting) >= MOST_WAITING:
            await asyncio.sleep(PAUSE_S * (1 + random.random()))  # spread, so that not all come back at once
            raise _no_room()
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        if not flow.waiting:
            self._rotation.append(flow)
        flow.waiting.append(turn)
        self._turn_soon()
        timer = loop.call_later(WAIT_S, _give_up, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(flow)  # it had its turn already
            raise
        finally:
            timer.cancel()

    def _turn_soon(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Let each flow that waits begin a request, one after another, for as many as there is room for now."""
        self._is_turning = False
        self._begun = 0
        stuck = 0
        while self._rotation and stuck < len(self._rotation) and self._begun < TURN:
            flow = self._rotation.popleft()
            while flow.waiting and flow.waiting[0].done():
                flow.waiting.popleft()  # it has given up
            if not flow.waiting:
                self._forget(flow)
            elif self._has_room(flow):
                self._begin(flow)
                flow.waiting.popleft().set_result(None)
                stuck = 0
                if flow.waiting:
                    self._rotation.append(flow)
            else:
                self._rotation.append(flow)
                stuck += 1


def _give_up(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(_no_room())


def _no_room() -> Problem:
    return too_many("too many requests, please try again later")
