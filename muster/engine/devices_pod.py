"""One pod on the cards of one node: every container gets its shares there, or the node is refused.

Pure: the cards come in and the shares go out, so a try that is thrown away leaves no trace. Called by whoever places
pods on cards; what a dialect knows of a pod's wishes comes in as data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.engine.contracts import Vendor
from muster.engine.devices import ANY_CARD, CardReason, CardRules, CardWishes, Choice, choose_cards
from muster.engine.devices_order import (
    EVEN_WEIGHTS,
    CardOrder,
    ScoreWeights,
    card_score,
    is_of_vendor,
    node_score,
    ordered,
)
from muster.model.device import Cards, ContainerShares, DeviceRequest, Share, standing_shares, take

# Asked with what the pod would hold of a vendor's cards; a no counts as a lack of quota.
PodQuotaRule = Callable[[Vendor, tuple[Share, ...]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCards:
    """What a pod asks of cards and how it wants them."""

    requests: tuple[Mapping[str, DeviceRequest], ...]  # by container, init containers first; by vendor
    vendors: Mapping[str, Vendor]  # those that are asked for, at least
    init_count: int = 0
    wishes: Mapping[str, CardWishes] = field(default_factory=dict)  # by vendor; none given: any card
    orders: Mapping[str, CardOrder] = field(default_factory=dict)  # by vendor; none given: spread
    weights: ScoreWeights = EVEN_WEIGHTS

    @property
    def asked_vendors(self) -> tuple[str, ...]:
        return tuple(sorted({name for requests in self.requests for name in requests}))


@dataclass(frozen=True, slots=True)
class CardsTry:
    """How a pod fares on one node."""

    score: float = 0.0  # how full the node's cards are before the pod, and what vendors add to that
    shares: Mapping[str, ContainerShares] = field(default_factory=dict)  # by vendor
    refusal: Choice | None = None  # None: it fits


def no_quota(_vendor: Vendor, _shares: tuple[Share, ...]) -> bool:
    """Nobody counts."""
    return True


def try_pod(before: Cards, pod: PodCards, is_within_quota: PodQuotaRule = no_quota) -> CardsTry:
    """Gives every container its shares: init containers each on the cards as they are, the others one after another."""
    attempt = _Attempt(pod, is_within_quota, {name: [] for name in pod.asked_vendors})
    running = before
    for number in range(len(pod.requests)):
        is_init = number < pod.init_count
        cards, refusal = attempt.serve(number, before if is_init else running)
        if refusal is not None:
            return CardsTry(refusal=refusal)
        running = running if is_init else cards
    shares = {name: tuple(given) for name, given in attempt.shares.items()}
    scorers = ((name, pod.vendors[name].score) for name in pod.asked_vendors)
    extra = sum(score(before, shares[name]) for name, score in scorers if score is not None)
    return CardsTry(node_score(before) + extra, shares)


@dataclass(slots=True)
class _Attempt:
    """What the containers served so far got. Lives for one try and is thrown away with it."""

    pod: PodCards
    is_within_quota: PodQuotaRule
    shares: dict[str, list[tuple[Share, ...]]]  # by vendor, by container

    def serve(self, number: int, cards: Cards) -> tuple[Cards, Choice | None]:
        """The cards after a container took its shares, or why it cannot have them."""
        requests = self.pod.requests[number]
        scores = {card.device.uuid: card_score(card, requests.values(), self.pod.weights) for card in cards}
        for name, given in self.shares.items():
            request = requests.get(name)
            if request is None:
                given.append(())
                continue
            cards = ordered(cards, scores, self.pod.orders.get(name, CardOrder()))
            choice = self._choose(cards, request, self.pod.vendors[name])
            if not choice.fits:
                return cards, choice
            cards, settled = _settled(cards, choice.shares, self.pod.vendors[name])
            given.append(settled)
        return cards, None

    def _choose(self, cards: Cards, request: DeviceRequest, vendor: Vendor) -> Choice:
        wishes = self.pod.wishes.get(vendor.name, ANY_CARD)
        candidates = tuple(card for card in cards if is_of_vendor(card.device, vendor.name))
        if request.count > len(candidates) and not _may_be_partitioned(candidates, wishes):
            return Choice(fits=False, counts={CardReason.TOO_FEW_ON_NODE: 1}, card_count=len(candidates))

        def is_within_quota(found: tuple[Share, ...]) -> bool:
            containers = (*self.shares[vendor.name], found)
            return self.is_within_quota(vendor, standing_shares(containers, self.pod.init_count))

        held = tuple(share for shares in self.shares[vendor.name] for share in shares)
        rules = CardRules(wishes, is_within_quota, vendor.fit, held)
        return (vendor.choose or choose_cards)(candidates, request, rules)


def _may_be_partitioned(cards: Cards, wishes: CardWishes) -> bool:
    """Whether one of the cards can serve the pod with several partitions."""
    return any(
        card.device.is_partitioned and (wishes.modes is None or card.device.mode in wishes.modes) for card in cards
    )


def _settled(cards: Cards, shares: Sequence[Share], vendor: Vendor) -> tuple[Cards, tuple[Share, ...]]:
    """The cards with the shares taken, and the shares as they are charged."""
    settled = []
    for share in shares:
        if vendor.settle is not None:
            share = vendor.settle(next(card for card in cards if card.device.uuid == share.uuid), share)
        cards = take(cards, (share,))
        settled.append(share)
    return cards, tuple(settled)
