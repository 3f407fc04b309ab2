"""All of `multikueue` on one feed. Made by `app` for an embedded cluster, a real one and a simulated one."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from muster.controllers.feed import Changes
from muster.controllers.loop import Loop
from muster.controllers.multikueue.checks import Checks
from muster.controllers.multikueue.clusters import CLUSTERS, Clusters, Open
from muster.controllers.multikueue.local import CHECKS, CONFIGS, Local
from muster.controllers.multikueue.mirror import Mirror
from muster.controllers.multikueue.sender import Sender
from muster.controllers.view import Seen
from muster.dialects.kueue.job_steps import WORKLOADS
from muster.dialects.kueue.multikueue import SendingRules
from muster.engine.contracts import Integration, JobKind
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.records import Key


def sent_kinds(kinds: Iterable[JobKind]) -> tuple[Integration, ...]:
    """The kinds of job that can be sent: those that are made of templates, of which another cluster makes pods."""
    return tuple(kind for kind in kinds if isinstance(kind, Integration) and kind.suspend is not None)


class MultiKueue:
    """What sends workloads to other clusters."""

    def __init__(self, feed: Changes, client: Client, clock: Clock, *, rules: SendingRules, open_: Open) -> None:
        self.local = Local(feed.view, rules)
        self.clusters = Clusters(open_, clock)
        self._sending = Loop(Sender(self.local, self.clusters), feed, client, clock)
        self._keeping = Loop(self.clusters, feed, client, clock)
        self._checking = Loop(Checks(self.local), feed, client, clock)
        self.local.copy_changed = self._sending.look_at
        self.clusters.hearing.link_changed = self._link_changed
        self.clusters.hearing.mirror_of = lambda link: Mirror(link, self.local)
        feed.listen(self._hear)

    def works(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What has to be run beside the feed."""
        return self.clusters.run(), self._sending.run(), self._keeping.run(), self._checking.run()

    def _hear(self, seen: Seen) -> None:
        if seen.key.resource == WORKLOADS:
            if any(obj is not None and self.local.check_of(obj) for obj in (seen.before, seen.now)):
                self._look_there(seen.key)
        elif seen.key.resource in (CHECKS, CONFIGS, CLUSTERS):
            self._look_at_all()

    def _link_changed(self, name: str) -> None:
        self._keeping.look_at(Key(CLUSTERS, "", name))
        self._look_at_all()

    def _look_at_all(self) -> None:
        for key in self.local.sent():
            self._sending.look_at(key)
            self._look_there(key)

    def _look_there(self, key: Key) -> None:
        """Have every cluster that can be reached look at its copies of a workload."""
        for link in self.clusters.links.values():
            if link.loop is not None:
                link.loop.look_at(key)
