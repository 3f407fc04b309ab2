"""Faults to be put into the election of leaders on purpose. Used by `test_take_overs`, which has to notice each."""

from __future__ import annotations

from typing import Any

from muster.controllers.feed import Feed
from muster.controllers.leadership import Elector, within
from muster.model.election import Election
from muster.model.times import parse_moment
from muster.store.records import Scope
from tests.sim.mutants import Mutant, Patch


def no_margin(patch: Patch) -> None:
    """A leader acts until its lease ends, and its successor begins in the same moment."""
    right = Elector._take

    async def take(self: Elector, found: Any) -> None:
        await right(self, found)
        assert self._until_s is not None
        self._until_s += self.election.margin_s

    patch(Elector, "_take", take)
    patch(Election, "settle_s", property(lambda _: 0.0))


def believed_times(patch: Patch) -> None:
    """A candidate compares the time that a lease was renewed at with its own clock."""

    def is_held(self: Elector) -> bool:
        spec = (self._lease or {}).get("spec") or {}
        if spec.get("holderIdentity") in (None, "", self.identity):
            return False
        return self._clock.now_s() < parse_moment(spec["renewTime"], "") + spec["leaseDurationSeconds"]

    patch(Elector, "_is_held_by_another", is_held)


def no_list(patch: Patch) -> None:
    """A leader begins with what it knew when its process started, and hears of the rest by and by."""
    right = Feed._start

    def start(self: Feed) -> Any:
        link = self._store.store
        if not hasattr(link, "first_revision"):
            if not hasattr(link, "machine"):
                return right(self)
            link.first_revision = link.known
        revision = link.first_revision
        watch = self._store.watch(Scope(), revision)
        for resource in self._resources:
            self._tell(self.view.learn_all(resource, link.page(Scope(resource), at=revision).records, revision))
        return watch

    patch(Feed, "_start", start)


def late_writes(patch: Patch) -> None:
    """A leader that is past its deadline writes on until it hears of that."""

    async def sent(self: Elector, request: Any) -> Any:
        return await within(self._clock, self.election.request_s, request())

    patch(Elector, "_sent", sent)


def long_requests(patch: Patch) -> None:
    """Writes may be under way for longer than the margin."""
    patch(Election, "request_s", property(lambda self: 4 * self.margin_s))
    patch(Election, "settle_s", property(lambda self: 0.4 * self.margin_s))


def from_the_answer(patch: Patch) -> None:
    """A leader counts from when its renewal was answered, and not from when it asked."""
    right = Elector._take

    async def take(self: Elector, found: Any) -> None:
        await right(self, found)
        self._until_s = self._clock.monotonic_s() + self.election.renew_deadline_s

    patch(Elector, "_take", take)


def release_in_flight(patch: Patch) -> None:
    """A leader that stops lets go of the lease while its writes are under way."""
    right = Elector._let_go

    async def let_go(self: Elector) -> None:
        self._requests = set()
        await right(self)

    patch(Elector, "_let_go", let_go)


def own_old_writes(patch: Patch) -> None:
    """Whoever gets its own lease back goes on at once."""
    right = Elector._tried

    async def tried(self: Elector) -> Any:
        wait_s = await right(self)
        return 0.0 if wait_s == self.election.margin_s else wait_s

    patch(Elector, "_tried", tried)


LEADER_MUTANTS: tuple[Mutant, ...] = (
    no_margin,
    believed_times,
    no_list,
    late_writes,
    long_requests,
    from_the_answer,
    release_in_flight,
    own_old_writes,
)
