"""Cards as an agent finds them on its machine, and whoever finds them. Used by the inventories and by the agent.

A `FoundCard` is what there is; what is given out of it, which may be more or less, is a matter of the node's settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from muster.model.device import PartitionProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCard:
    """One card of this machine."""

    uuid: str
    index: int
    vendor: str  # the word by which pods and annotations name the family of cards
    model: str
    memory_mib: int
    numa: int = 0
    is_healthy: bool = True
    problem: str = ""  # why it is not healthy
    temperature_c: int | None = None  # None: it does not say
    power_w: float | None = None
    mode: str = ""
    profiles: tuple[PartitionProfile, ...] = ()  # the partitions that it can be cut into
    links: Mapping[str, int] = field(default_factory=dict)  # nearness to other cards, by their uuid
    files: tuple[str, ...] = ()  # in /dev, by which it is used
    used_mib: int = 0
    details: Mapping[str, str] = field(default_factory=dict)  # driver, bus and the like


class NoInventory(Exception):
    """Why nothing is known of a machine's cards."""


class Inventory(Protocol):
    """Whoever knows one vendor's cards of a machine."""

    def found(self) -> Sequence[FoundCard]:
        """The cards there are now; raises `NoInventory` where that cannot be said."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Cards that were written down."""

    cards: tuple[FoundCard, ...]

    def found(self) -> Sequence[FoundCard]:
        return self.cards
