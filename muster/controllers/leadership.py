"""Which of several processes acts: the one that holds a lease. Started by `app` around the work of a leader.

Nobody believes another machine's clock. A leader counts from the moment before it asked for its renewal, and stops when
its own deadline has come, whatever the server says by then. A candidate counts from the moment after it has seen the
lease change. So what a leader calls over is over for everybody, as long as clocks go nearly alike. What it has sent
before arrives within `Election.request_s` or never; a successor waits for that, and reads everything anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from muster.controllers.lease_record import held, new_lease, record_of, released
from muster.model.election import Election
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.errors import Conflict, NotFound, StoreError, Unavailable
from muster.store.kinds import Object
from muster.store.records import Key

log = logging.getLogger(__name__)
LEASES = "leases.coordination.k8s.io"
Result = TypeVar("Result")
Work = Callable[[], Coroutine[Any, Any, None]]


class Leases(Protocol):
    """The lease of an election, wherever it is kept; each call raises a `StoreError` where it was not done."""

    async def read(self) -> Object | None:
        """The lease as it is now, never as it was once; `None` where there is none."""

    async def create(self, lease: Object) -> Object:
        """Add it; gives it as it is kept."""

    async def update(self, lease: Object) -> Object:
        """Replace it, unless somebody has written it since it was read."""


class Lost(Exception):
    """Somebody else holds the lease."""


class Elector:
    """One process that leads, or waits until it may."""

    def __init__(self, leases: Leases, clock: Clock, *, identity: str, election: Election) -> None:
        self.identity = identity
        self.election = election
        self._leases = leases
        self._clock = clock
        self._lease: Object | None = None  # as it was seen last
        self._changed_at_s = 0.0  # when it was seen to say something new
        self._until_s: float | None = None  # when to stop; None: somebody else leads, or nobody
        self._told_of = ""  # the leader that was spoken of last
        self._requests: set[asyncio.Future[Any]] = set()  # of the work, that nobody has answered yet

    @property
    def is_leading(self) -> bool:
        """Whether this process may write now."""
        return self._until_s is not None and self._clock.monotonic_s() < self._until_s

    async def run(self, work: Work) -> None:
        """Stand for election until cancelled, and do the work whenever and as long as this process leads."""
        while True:
            wait_s = await self._elected()
            log.info("%s leads, and begins in %.3g s", self.identity, wait_s)
            try:
                await self._lead(work, wait_s)
                log.warning("%s does not lead any more", self.identity)
            except asyncio.CancelledError:
                await self._let_go()
                raise
            finally:
                self._until_s = None

    async def write(self, request: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Make a write as the leader; refused without the lease, and given up soon enough for a successor."""
        sent = asyncio.ensure_future(self._sent(request))
        self._requests.add(sent)
        sent.add_done_callback(self._answered)
        # Whoever waits for it may be cancelled. It is under way all the same, and is waited for before letting go.
        return await asyncio.shield(sent)

    async def _sent(self, request: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        if not self.is_leading:
            raise Unavailable("this process does not lead")
        return await within(self._clock, self.election.request_s, request())

    def _answered(self, sent: asyncio.Future[Any]) -> None:
        self._requests.discard(sent)
        if not sent.cancelled():
            sent.exception()  # whoever asked may be gone, and then nobody else looks

    # Becoming the leader ---------------------------------------------------------------------------------------------

    async def _elected(self) -> float:
        """Wait until the lease is this process's; gives how long to wait before anything is read."""
        while True:
            try:
                wait_s = await self._tried()
            except StoreError as problem:
                log.warning("%s could not ask for the lease: %s", self.identity, problem)
                wait_s = None
            if wait_s is not None:
                return wait_s
            left_s = self._changed_at_s + self._lasts_s() - self._clock.monotonic_s()
            look_s = self.election.look_s
            await self._clock.sleep(left_s if 0 < left_s < look_s else look_s)

    async def _tried(self) -> float | None:
        """Take the lease where nobody holds it any more; gives how long to wait then, and `None` while it is held."""
        found = await self._asked(self._leases.read())
        self._see(found)
        if self._is_held_by_another():
            self._tell_of(self._lease)
            return None
        before = record_of(self._lease).holder if self._lease is not None else ""
        await self._take(found)
        if not before:
            return 0.0  # nobody has held it, or who has held it waited for its last write before letting go
        if before == self.identity:
            return self.election.margin_s  # what it has written before may be under way
        return self.election.settle_s

    def _see(self, found: Object | None) -> None:
        """Note what the lease says; one that is gone lasts as long as it would have."""
        if found is not None:
            if self._lease is None or found.get("spec") != self._lease.get("spec"):
                self._changed_at_s = self._clock.monotonic_s()
            self._lease = found

    def _tell_of(self, lease: Object | None) -> None:
        """Say once for whom this process waits."""
        holder = record_of(lease).holder if lease is not None else ""
        if holder != self._told_of:
            log.info("%s waits for %s, which leads", self.identity, holder)
        self._told_of = holder

    def _is_held_by_another(self) -> bool:
        holder = record_of(self._lease).holder if self._lease is not None else ""
        if holder in ("", self.identity):
            return False
        return self._clock.monotonic_s() < self._changed_at_s + self._lasts_s()

    def _lasts_s(self) -> float:
        """For how long the lease holds since it was seen to change: by its holder's settings, if it tells them."""
        if self._lease is None:
            return 0.0
        return record_of(self._lease).lease_s or self.election.lease_s

    async def _take(self, found: Object | None) -> None:
        """Write the lease as this process's own; from then on it may write, until its deadline."""
        election, asked_s = self.election, self._clock.monotonic_s()
        given = found if found is not None else new_lease(election.name, election.namespace)
        wanted = held(given, self.identity, lease_s=election.lease_s, now_s=self._clock.now_s())
        write = self._leases.create if found is None else self._leases.update
        self._lease = await self._asked(write(wanted))
        self._changed_at_s = self._clock.monotonic_s()
        self._until_s = asked_s + election.renew_deadline_s

    async def _asked(self, request: Coroutine[Any, Any, Result]) -> Result:
        """Ask for the lease, at most as long as that is of use."""
        limit_s = self.election.request_s
        if self._until_s is not None:
            limit_s = min(limit_s, max(0.0, self._until_s - self._clock.monotonic_s()))
        return await within(self._clock, limit_s, request)

    # Leading ---------------------------------------------------------------------------------------------------------

    async def _lead(self, work: Work, wait_s: float) -> None:
        """Work, and renew the lease, until it is lost."""
        tasks = [asyncio.create_task(self._renewed()), asyncio.create_task(self._begun(work, wait_s))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # raises what has ended it
            assert not self.is_leading, "the work of a leader has ended by itself"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _begun(self, work: Work, wait_s: float) -> None:
        await self._clock.sleep(wait_s)
        if self.is_leading:  # else the process has slept for longer than it wanted to
            await work()

    async def _renewed(self) -> None:
        """Renew the lease until that is over."""
        while self.is_leading:
            assert self._until_s is not None, "a leader has a deadline"
            await self._clock.sleep(min(self.election.retry_s, self._until_s - self._clock.monotonic_s()))
            try:
                if self.is_leading:
                    await self._renew()
            except Lost:
                self._until_s = None
            except StoreError as problem:
                log.warning("%s could not renew its lease: %s", self.identity, problem)

    async def _renew(self) -> None:
        assert self._lease is not None, "whoever renews a lease has seen it"
        try:
            await self._take(self._lease)
        except (Conflict, NotFound):
            # Somebody has edited it, an answer was lost, or it belongs to another by now.
            found = await self._asked(self._leases.read())
            if found is not None and record_of(found).holder != self.identity:
                raise Lost from None
            await self._take(found)

    # Letting go ------------------------------------------------------------------------------------------------------

    async def _let_go(self) -> None:
        """Leave the lease to others, once all that was sent has been answered or given up."""
        was_leading, self._until_s = self.is_leading, None
        if self._requests:
            await asyncio.wait(self._requests)
        if not was_leading:
            return
        try:
            found = await self._asked(self._leases.read())  # a renewal may have been cut off
            if found is not None and record_of(found).holder == self.identity:
                await self._asked(self._leases.update(released(found, self._clock.now_s())))
        except StoreError as problem:
            log.info("%s could not release its lease, which ends by itself: %s", self.identity, problem)


async def within(clock: Clock, seconds: float, request: Coroutine[Any, Any, Result]) -> Result:
    """The answer to a request; `Unavailable` after some time without one."""
    answer = asyncio.ensure_future(request)
    timer = clock.timer(seconds)
    try:
        await asyncio.wait((answer, timer), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise Unavailable(f"no answer within {seconds:.3g} s")
    finally:
        timer.cancel()
        answer.cancel()


class ClientLeases:
    """The lease of an election as an object like any other: written by a client, and read past everything that lags."""

    def __init__(self, client: Client, read: Callable[[Key], Coroutine[Any, Any, Object]], election: Election) -> None:
        self._client = client
        self._read = read
        self._key = Key(LEASES, election.namespace, election.name)

    async def read(self) -> Object | None:
        try:
            return await self._read(self._key)
        except NotFound:
            return None

    async def create(self, lease: Object) -> Object:
        return await self._client.create(LEASES, lease)

    async def update(self, lease: Object) -> Object:
        return await self._client.update(self._key, lease)
