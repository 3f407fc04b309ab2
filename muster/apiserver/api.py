"""What every handler works with. Made once by `server`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass, field

from muster.apiserver.admission import Completion
from muster.apiserver.apply.ownership import Ownership
from muster.apiserver.rights.access import Access
from muster.apiserver.rights.service_accounts import ServiceAccounts
from muster.apiserver.rights.submission import Submission
from muster.apiserver.rights.tokens import SigningKey
from muster.apiserver.served import Catalog
from muster.apiserver.watch_lines import SharedLines
from muster.apiserver.webhooks import Webhooks
from muster.model.pod_streams import NoNodes, PodStreams
from muster.model.usage import NoUsages, Usages
from muster.store.aio import AsyncStore
from muster.store.clock import Clock
from muster.store.objects import Objects


async def _nothing_to_do() -> None:
    """A server without definitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The store, the rules for objects, and what is served of them."""

    store: AsyncStore
    objects: Objects
    catalog: Catalog
    clock: Clock
    admission: Completion
    ownership: Ownership  # the same that `objects` has
    key: SigningKey = field(default_factory=SigningKey.new)  # of the tokens for service accounts
    nodes: PodStreams = field(default_factory=NoNodes)  # who runs the pods
    usages: Usages = field(default_factory=NoUsages)  # what they say is in use
    submission: Submission | None = None  # None: whoever may create a job may submit it to any queue
    lines: SharedLines = field(default_factory=SharedLines)
    on_definitions: Callable[[], Awaitable[None]] = _nothing_to_do  # after a definition was written
    access: Access = field(init=False)
    webhooks: Webhooks = field(init=False)
    accounts: ServiceAccounts = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "access", Access(self.store.store))
        object.__setattr__(self, "webhooks", Webhooks(self.store.store, self.catalog, self.access))
        object.__setattr__(self, "accounts", ServiceAccounts(self.store.store, self.key, self.clock))

    def with_admission(self, admission: Completion) -> Api:
        """The same with another admission, for one write."""
        other = copy(self)
        object.__setattr__(other, "admission", admission)
        return other
