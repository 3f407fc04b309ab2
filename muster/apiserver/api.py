"""What every handler works with. Made once by `server`."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.apiserver.admission import Admission
from muster.apiserver.apply.ownership import Ownership
from muster.apiserver.served import Catalog
from muster.apiserver.watch_lines import SharedLines
from muster.store.aio import AsyncStore
from muster.store.clock import Clock
from muster.store.objects import Objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The store, the rules for objects, and what is served of them."""

    store: AsyncStore
    objects: Objects
    catalog: Catalog
    clock: Clock
    admission: Admission
    ownership: Ownership  # the same that `objects` has
    lines: SharedLines = field(default_factory=SharedLines)
