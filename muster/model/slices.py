"""Slices of cards as data: what a pod's spec and annotations ask of cards, and what a pod holds of them.

Read by the dialects, chosen by `muster/engine/slices.py`, charged by the node table, kept in a workload's slots.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.model.device import ContainerShares, DeviceRequest, Share
from muster.model.labels import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequests:
    """What a pod asks of cards: amounts by container with the annotations that say which cards and how, or a part."""

    by_container: tuple[tuple[DeviceRequest, ...], ...] = ()  # init containers first
    init_count: int = 0
    annotations: tuple[tuple[str, str], ...] = ()  # in the order of their names
    milli: int = 0  # thousandths of each card, of pods that ask for a part and nothing else
    cards: int = 0  # on how many cards such a part is wanted
    models: tuple[str, ...] = ()  # of which models; none named: any
    is_by_name: bool = False  # even whole cards are told apart, because not everybody's would do

    @property
    def is_sliced(self) -> bool:
        """Whether anything but a number of whole cards is asked for."""
        return (
            self.is_by_name
            or bool(self.annotations)
            or any(
                request.memory_mib or request.cores or request.memory_percent not in (None, 100)
                for requests in self.by_container
                for request in requests
            )
        )


@dataclass(frozen=True, slots=True)
class PodTag:
    """How other pods see the holder of slices: by its namespace and its labels."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()  # in the order of their names

    def is_selected_by(self, selector: Selector | None, namespace: str) -> bool:
        """Whether the selector of a pod in that namespace means this one."""
        return selector is not None and namespace == self.namespace and selector.matches(dict(self.labels))


NOBODY = PodTag()


@dataclass(frozen=True, slots=True)
class Slices:
    """What one pod holds of the cards of its node."""

    shares: tuple[Share, ...]  # one for each card: what it holds while it runs
    given: tuple[tuple[str, ContainerShares], ...] = field(default=(), compare=False)  # by vendor and container
    pod: str = ""  # whose they are; a row can hold equal ones of several pods without a name
    tag: PodTag = NOBODY
    apart: Selector | None = None  # with whom it does not share a card
