"""What pods and nodes use, as the nodes themselves say. Asked by the API server's metrics and by the autoscaler.

Whoever runs pods implements `Usages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Amounts in use: processors on average over a window, memory at its end."""

    cpu_nanos: int  # billionths of a processor
    memory_bytes: int

    def __add__(self, other: Usage) -> Usage:
        return Usage(cpu_nanos=self.cpu_nanos + other.cpu_nanos, memory_bytes=self.memory_bytes + other.memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What was measured, when, and over which time."""

    at_s: float
    window_s: float
    parts: Mapping[str, Usage]  # by container; of a node the one part has no name

    @property
    def total(self) -> Usage:
        return sum(self.parts.values(), Usage(cpu_nanos=0, memory_bytes=0))


class Usages(Protocol):
    """All nodes, as they are asked what is in use; nothing where that is not known."""

    def of_node(self, node: Mapping[str, Any], /) -> Measure | None:
        """What a node uses, given its object."""

    def of_pod(self, pod: Mapping[str, Any], /) -> Measure | None:
        """What the containers of a pod use, given its object."""


class NoUsages:
    """For a server without nodes: nothing is in use."""

    def of_node(self, _node: Mapping[str, Any], /) -> Measure | None:
        return None

    def of_pod(self, _pod: Mapping[str, Any], /) -> Measure | None:
        return None
