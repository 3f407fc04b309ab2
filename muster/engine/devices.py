"""Choosing cards for one container: which cards it may have, rule by rule, and which of those it gets.

Pure arithmetic on the cards of one node. `devices_order` puts the cards into the order in which they are tried,
`devices_links` picks among fitting ones by how near they are to each other. Called by whoever places pods on cards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from muster.engine.devices_links import best_connected, worst_connected
from muster.model.device import WHOLE_CORES, Card, Cards, DeviceRequest, DeviceUse, Share


class CardReason(Enum):
    """Why one card was passed over. The values are the words that HAMi's users know from their events."""

    UNHEALTHY = "CardNotHealth"
    CORDONED = "CardCordoned"
    TYPE = "CardTypeMismatch"
    NUMA = "NumaNotFit"
    UUID = "CardUuidMismatch"
    SHARERS = "CardTimeSlicingExhausted"
    NOT_ALONE = "ExclusiveDeviceAllocateConflict"
    QUOTA = "ResourceQuotaNotFit"
    MEMORY = "CardInsufficientMemory"
    CORES = "CardInsufficientCore"
    CORES_EXHAUSTED = "CardComputeUnitsExhausted"
    PARTITION = "CardMigTopologyInfeasible"
    MODE = "ModeNotFit"
    SICK = "CardUnhealthy"
    APP_CLASS = "CardAppClassMismatch"
    QOS = "CardQosPolicyMismatch"
    OTHER_CARD = "CardNotFoundCustomFilterRule"
    TOO_FEW = "AllocatedCardsInsufficientRequest"
    TOO_FEW_ON_NODE = "NodeInsufficientDevice"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardWishes:
    """Which cards a pod wants, beyond amounts."""

    models: tuple[str, ...] = ()  # lower case; one must occur in the card's model; empty: any model
    models_not: tuple[str, ...] = ()  # lower case; none may occur
    uuids: frozenset[str] = frozenset()  # empty: any card
    uuids_not: frozenset[str] = frozenset()
    modes: str | None = None  # a text in which the card's mode must occur; None: any mode
    is_on_one_numa: bool = False
    is_alone: bool = False  # only cards that nobody uses
    is_by_links: bool = False  # cards near to each other, or a lone card far from the others
    mark: str = ""  # what the pod's shares tell of it to others who want the same cards


ANY_CARD = CardWishes()

# Asked with the shares chosen so far for this container and the one in question; a no counts as a lack of quota.
QuotaRule = Callable[[tuple[Share, ...]], bool]
# A vendor's own rule for one card: the memory asked for and the shares already chosen on the same card.
VendorRule = Callable[[Card, int, Sequence[Share]], CardReason | None]
# What a request is on one card.
Offer = Callable[[Card, DeviceRequest], Share]
# Which of all shares that fit a container gets, in the order in which the cards were tried; at least as many as given.
Pick = Callable[[Sequence[Share], int], Sequence[Share]]


def within_any_quota(_shares: tuple[Share, ...]) -> bool:
    """No quota at all."""
    return True


def asked_share(card: Card, request: DeviceRequest) -> Share:
    """The memory and cores that are asked for."""
    return Share(
        uuid=card.device.uuid,
        vendor=request.vendor,
        index=card.device.index,
        memory_mib=request.memory_on(card.device),
        cores=request.cores_on_a_card,
    )


@dataclass(frozen=True, slots=True)
class CardRules:
    """What is asked about each card beyond the request itself."""

    wishes: CardWishes = ANY_CARD
    is_within_quota: QuotaRule = within_any_quota
    vendor_rule: VendorRule | None = None
    held: tuple[Share, ...] = ()  # what the pod's other containers got of the vendor's cards
    offer: Offer = asked_share
    pick: Pick | None = None  # None: the first that fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The cards that a container gets, or how many cards were passed over for which reason."""

    fits: bool
    shares: tuple[Share, ...] = ()  # where it does not fit: as far as it went
    counts: Mapping[CardReason, int] = field(default_factory=dict)
    card_count: int = 0

    @property
    def text(self) -> str:
        """The reasons in one line, as HAMi words them: "2/8 CardInsufficientMemory"."""
        if CardReason.TOO_FEW_ON_NODE in self.counts:
            return CardReason.TOO_FEW_ON_NODE.value
        parts = (f"{count}/{self.card_count} {reason.value}" for reason, count in self.counts.items())
        return ", ".join(sorted(parts))


@dataclass(slots=True)
class _Search:
    """What one walk over the cards has found so far."""

    wanted: int
    found: list[Share] = field(default_factory=list)
    counts: dict[CardReason, int] = field(default_factory=dict)
    numa: int | None = None  # of the run of cards looked at; None: no card yet

    def count(self, reason: CardReason, by: int = 1) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + by

    def start_run(self, numa: int) -> None:
        """The cards of another NUMA node begin: what was found on the last one was not enough."""
        if self.numa != numa and self.found:
            self.count(CardReason.NUMA, len(self.found))
            self.found.clear()
        self.numa = numa


def choose_cards(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """The cards for one container out of those of one node, tried from the end of the list."""
    is_picky = rules.wishes.is_by_links or rules.pick is not None
    found, counts = fitting_shares(cards, request, rules, is_to_the_end=is_picky)
    if len(found) < request.count or request.count <= 0:
        if found:
            counts[CardReason.TOO_FEW] = len(found)
        return Choice(fits=False, shares=tuple(found), counts=counts, card_count=len(cards))
    return Choice(fits=True, shares=_picked(cards, found, request, rules), card_count=len(cards))


def fitting_shares(
    cards: Cards, request: DeviceRequest, rules: CardRules, *, is_to_the_end: bool = True
) -> tuple[list[Share], dict[CardReason, int]]:
    """The shares that cards can give, tried from the end of the list, and how many cards could not for which reason."""
    search = _Search(wanted=request.count)
    for card in reversed(cards):
        _look_at(card, request, rules=rules, search=search)
        if len(search.found) >= request.count and not is_to_the_end:
            break
    return search.found, search.counts


def _look_at(card: Card, request: DeviceRequest, *, rules: CardRules, search: _Search) -> None:
    """Takes a share of the card if every rule allows it; a partitioned card may give several."""
    while True:
        reason = _mismatch(card, rules.wishes, request.vendor)
        if reason is None and rules.wishes.is_on_one_numa:
            search.start_run(card.device.numa)
        share = rules.offer(card, request)
        reason = reason or _refusal(card, share, rules=rules, found=search.found)
        if reason is not None:
            search.count(reason)
            return
        search.found.append(replace(share, mark=rules.wishes.mark) if rules.wishes.mark else share)
        if not card.device.is_partitioned or len(search.found) >= search.wanted:
            return


def _mismatch(card: Card, wishes: CardWishes, vendor: str) -> CardReason | None:
    """Whether the card is out of the question whatever is free on it."""
    device = card.device
    if not device.is_healthy:
        return CardReason.UNHEALTHY
    if device.is_cordoned:
        return CardReason.CORDONED
    if vendor != device.vendor or not is_model_wanted(device.model, wishes):
        return CardReason.TYPE
    if wishes.modes is not None and device.mode not in wishes.modes:
        return CardReason.TYPE
    return None


def is_model_wanted(model: str, wishes: CardWishes) -> bool:
    """Whether the wished models, if any, allow this one."""
    lowered = model.lower()
    if any(part in lowered for part in wishes.models_not):
        return False
    return not wishes.models or any(part in lowered for part in wishes.models)


def is_uuid_wanted(uuid: str, wishes: CardWishes) -> bool:
    """Whether the wished cards, if any, hold this one."""
    return uuid not in wishes.uuids_not and (not wishes.uuids or uuid in wishes.uuids)


def _refusal(card: Card, share: Share, *, rules: CardRules, found: Sequence[Share]) -> CardReason | None:
    """The first rule that does not let the card give this share."""
    device = card.device
    # Only a partitioned card is asked twice for one container; what it gave the first time is no longer free.
    here = [one for one in found if one.uuid == device.uuid]
    use = card.use
    if not is_uuid_wanted(device.uuid, rules.wishes):
        return CardReason.UUID
    if use.slots + len(here) >= device.slots:
        return CardReason.SHARERS
    if rules.wishes.is_alone and use.slots > 0:
        return CardReason.NOT_ALONE
    if not rules.is_within_quota((*found, share)):
        return CardReason.QUOTA
    reason = _shortage(card, share, use)
    if reason is None and rules.vendor_rule is not None:
        reason = rules.vendor_rule(card, share.memory_mib, here)
    return reason


def _shortage(card: Card, share: Share, use: DeviceUse) -> CardReason | None:
    """What is not left on the card."""
    device = card.device
    if device.memory_mib - use.memory_mib < share.memory_mib:
        return CardReason.MEMORY
    if device.cores - use.cores < share.cores:
        return CardReason.CORES
    # All cores of a card that is not oversubscribed mean the card for itself.
    if device.cores == WHOLE_CORES and share.cores == WHOLE_CORES and use.slots > 0:
        return CardReason.NOT_ALONE
    # Asking for no cores is asking for whatever is left, and here nothing is.
    if device.cores != 0 and use.cores == device.cores and share.cores == 0:
        return CardReason.CORES_EXHAUSTED
    return None


def _picked(cards: Cards, found: list[Share], request: DeviceRequest, rules: CardRules) -> tuple[Share, ...]:
    """The shares to give out of all that fit."""
    if rules.pick is not None:
        return tuple(rules.pick(found, request.count))
    if not rules.wishes.is_by_links:
        return tuple(found)
    scores = {card.device.uuid: card.device.pair_scores for card in cards}
    if request.count == 1:
        return (worst_connected(found, scores),)
    return best_connected(found, request.count, scores)
