"""Pools of equal simulated nodes: what they are, and how one tells a node that is just coming up. Used by `app`.

How many nodes a pool has is decided in `pool_sizes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from muster.controllers.nodes.timing import PREFIX, Habits, Length
from muster.store.kinds import Object

POOL = PREFIX + "pool"  # the annotation that says which pool a node is of
STARTING = PREFIX + "starting-until"  # on a node that is coming up
PRICE = PREFIX + "price"
IDLE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Equal nodes: as many as there may be, of which some are there."""

    name: str
    nodes: tuple[Object, ...]  # as they register
    habits: Habits = field(default_factory=Habits)  # of their pods
    minimum: int = 0
    start: Length = field(default_factory=Length)  # of a node, until it is ready
    idle_s: float = IDLE_S
    price: float = 0.0  # of a node for an hour
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        assert 0 <= self.minimum <= len(self.nodes), f"pool {self.name} has more nodes than it may have"
        object.__setattr__(self, "names", frozenset(name_of(node) for node in self.nodes))

    @property
    def is_elastic(self) -> bool:
        return self.minimum < len(self.nodes)

    def missing(self, there: Iterable[str]) -> Iterator[Object]:
        """The nodes that could be added, in order."""
        known = set(there)
        return (node for node in self.nodes if name_of(node) not in known)


def name_of(node: Object) -> str:
    """The name of a node."""
    return str(node["metadata"]["name"])


def is_starting(node: Object | None) -> bool:
    """Whether a node is there and not up yet."""
    return STARTING in ((node or {}).get("metadata", {}).get("annotations") or {})
