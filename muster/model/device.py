"""Cards as a node registers them, what a container asks of them and what it got. Amounts: MiB and per cent of a card.

A whole card and a slice of one are both a `Share`: a number of slots, memory and cores of one `Device`. Cards that the
driver cuts into partitions (MIG) give shares that hold a place on the card as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

WHOLE_CORES = 100  # per cent: all cores of one card
PARTITIONED = "mig"  # the mode of a card that is cut into partitions by its driver
AMOUNT_MAX = 2**31 - 1  # cards count in 32 bits; what is larger is refused when reading


@dataclass(frozen=True, slots=True)
class Placement:
    """Consecutive memory slices of a partitioned card."""

    start: int
    size: int

    def overlaps(self, other: Placement) -> bool:
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProfile:
    """One kind of partition that a card can be cut into, and where it may lie."""

    name: str
    memory_mib: int = 0
    cores: int = 0
    slices: int = 0
    instances: int = 0  # the most of this kind that the card holds at once
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition in use: its profile and where it lies."""

    profile: str
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One card as its node registered it; memory and cores are already scaled where cards are oversubscribed."""

    uuid: str
    index: int = 0
    vendor: str = ""  # the word by which pods and annotations name the family of cards
    model: str = ""
    memory_mib: int = 0
    cores: int = WHOLE_CORES
    slots: int = 1  # how many containers may share it
    numa: int = 0
    mode: str = ""
    is_healthy: bool = True
    is_cordoned: bool = False  # no new pods, those that run stay
    is_counted: bool = True  # a whole one may be given out as one of a number; else only by its name
    profiles: tuple[PartitionProfile, ...] = ()
    pair_scores: Mapping[str, int] = field(default_factory=dict)  # nearness to other cards, by their uuid
    details: Mapping[str, str] = field(default_factory=dict)  # what only its vendor understands

    @property
    def is_partitioned(self) -> bool:
        return self.mode == PARTITIONED


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """What one container asks for: so many cards, and of each so much memory and so many cores."""

    vendor: str
    count: int
    memory_mib: int = 0  # of each card; 0: `memory_percent` says
    memory_percent: int | None = None  # of each card; None: not given
    cores: int = 0  # per cent of each card; 0: whatever is left
    slices: int = 0  # of each card, as its vendor cuts it; 0: not asked for so

    def memory_on(self, device: Device) -> int:
        """The memory asked of one card; a percentage is of the card's own memory, rounded down."""
        if self.memory_mib > 0 or self.memory_percent is None:
            return self.memory_mib
        return device.memory_mib * self.memory_percent // 100

    @property
    def cores_on_a_card(self) -> int:
        """Nobody gets more than one card's cores out of one card."""
        return min(self.cores, WHOLE_CORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of one card that a container holds."""

    uuid: str
    vendor: str = field(
        default="", compare=False
    )  # the word by which its text names the card; the card is told by uuid
    index: int = 0
    memory_mib: int = 0
    cores: int = 0
    slots: int = 1
    partitions: tuple[Partition, ...] = ()  # empty: the card is not partitioned, or the place is not chosen yet
    mark: str = ""  # what its vendor has to know of the holder where others want the same card


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What is taken of one card."""

    slots: int = 0
    memory_mib: int = 0
    cores: int = 0
    partitions: tuple[Partition, ...] = ()
    marks: tuple[str, ...] = ()  # of those who hold shares, where they have any

    def plus(self, share: Share) -> DeviceUse:
        return DeviceUse(
            slots=self.slots + share.slots,
            memory_mib=self.memory_mib + share.memory_mib,
            cores=self.cores + share.cores,
            partitions=self.partitions + share.partitions,
            marks=(*self.marks, share.mark) if share.mark else self.marks,
        )


@dataclass(frozen=True, slots=True)
class Card:
    """A card and what is taken of it."""

    device: Device
    use: DeviceUse = DeviceUse()

    def plus(self, share: Share) -> Card:
        return replace(self, use=self.use.plus(share))


Cards = tuple[Card, ...]  # the cards of one node, in the order in which they are tried from the end
ContainerShares = tuple[tuple[Share, ...], ...]  # by container, init containers first


def take(cards: Cards, shares: Iterable[Share]) -> Cards:
    """The cards with these shares taken; shares of cards that are not here count nowhere."""
    by_uuid: dict[str, list[Share]] = {}
    for share in shares:
        by_uuid.setdefault(share.uuid, []).append(share)
    result = []
    for card in cards:
        for share in by_uuid.get(card.device.uuid, ()):
            card = card.plus(share)
        result.append(card)
    return tuple(result)


def standing_shares(containers: ContainerShares, init_count: int) -> tuple[Share, ...]:
    """What a pod holds of each card while it runs: the larger of its hungriest init container and of all others.

    One share for each card, in the order in which the pod first names the cards. A partition counts as taken whichever
    container holds it: it cannot be given to others while the pod may still need it.
    """
    peak: dict[str, Share] = {}
    running: dict[str, Share] = {}
    first: dict[str, Share] = {}
    for number, shares in enumerate(containers):
        for uuid, share in _by_card(shares).items():
            first.setdefault(uuid, share)
            if number < init_count:
                peak[uuid] = _larger(peak[uuid], share) if uuid in peak else share
            else:
                running[uuid] = _sum(running[uuid], share) if uuid in running else share
    return tuple(
        _larger(running[uuid], peak[uuid]) if uuid in running and uuid in peak else running.get(uuid) or peak[uuid]
        for uuid in first
    )


def _by_card(shares: Iterable[Share]) -> dict[str, Share]:
    result: dict[str, Share] = {}
    for share in shares:
        result[share.uuid] = _sum(result[share.uuid], share) if share.uuid in result else share
    return result


def _sum(one: Share, other: Share) -> Share:
    return replace(
        one,
        memory_mib=one.memory_mib + other.memory_mib,
        cores=one.cores + other.cores,
        slots=one.slots + other.slots,
        partitions=one.partitions + other.partitions,
    )


def _larger(one: Share, other: Share) -> Share:
    return replace(
        one,
        memory_mib=max(one.memory_mib, other.memory_mib),
        cores=max(one.cores, other.cores),
        slots=max(one.slots, other.slots),
        partitions=one.partitions + tuple(part for part in other.partitions if part not in one.partitions),
    )
