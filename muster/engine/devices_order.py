"""The order in which the cards of a node are tried: fullest first, emptiest first, by NUMA node, or a chain of these.

Cards are tried from the end of the list, so the best one sorts last. Called by whoever places pods on cards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.model.device import Card, Cards, Device, DeviceRequest

BINPACK, SPREAD, NUMA, MUTEX, TOPOLOGY = "binpack", "spread", "numa", "mutex", "topology-aware"
SCORE_SCALE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreWeights:
    """How much each part of a card counts in its score."""

    slots: int = 1
    cores: int = 1
    memory: int = 1


EVEN_WEIGHTS = ScoreWeights()


@dataclass(frozen=True, slots=True)
class CardOrder:
    """A policy for cards: one word, or several with commas, the first of which decides first."""

    policy: str = SPREAD
    is_on_one_numa: bool = False  # cards of a NUMA node stay together

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word.strip() for word in self.policy.split(","))

    def has(self, word: str) -> bool:
        return word in self.words


def ordered(cards: Cards, scores: dict[str, float], order: CardOrder) -> Cards:
    """The cards sorted so that the best is last; equal ones keep their order."""
    if "," in order.policy or order.policy.strip() == NUMA:
        return tuple(sorted(cards, key=lambda card: _chain_key(card, scores[card.device.uuid], order)))
    return tuple(sorted(cards, key=lambda card: _single_key(card, scores[card.device.uuid], order)))


def _single_key(card: Card, score: float, order: CardOrder) -> tuple[float, ...]:
    numa = card.device.numa
    if order.policy == MUTEX:
        return (-card.use.slots, numa)
    if order.policy == BINPACK:
        return (-numa, score) if order.is_on_one_numa else (score, numa)
    return (numa, -score) if order.is_on_one_numa else (-score, numa)


def _chain_key(card: Card, score: float, order: CardOrder) -> tuple[float, ...]:
    keys = {BINPACK: score, SPREAD: -score, NUMA: float(card.device.numa)}
    words = [word for word in order.words if word in keys] or [SPREAD]
    if order.is_on_one_numa:
        words = [NUMA, *(word for word in words if word != NUMA)]
    return (*(keys[word] for word in words), card.device.index)


def card_score(card: Card, requests: Iterable[DeviceRequest], weights: ScoreWeights = EVEN_WEIGHTS) -> float:
    """How full the card is with the requests on it: 0 is empty, and each part that is full adds ten times its weight.

    A request counts only on cards whose model is the vendor's bare word, as in HAMi: registered models say more than
    that, so in practice the score is of what is taken now.
    """
    device, use = card.device, card.use
    slots, cores, memory = use.slots, use.cores, use.memory_mib
    for request in requests:
        if request.vendor == device.model:
            slots += 1
            cores += request.cores
            memory += _scored_memory(request, device)
    return SCORE_SCALE * (
        weights.slots * _part(slots, device.slots)
        + weights.cores * _part(cores, device.cores)
        + weights.memory * _part(memory, device.memory_mib)
    )


def _scored_memory(request: DeviceRequest, device: Device) -> int:
    """HAMi: where memory and a percentage are both given, the score goes by the percentage, the fit by the memory."""
    if request.memory_percent:
        return device.memory_mib * request.memory_percent // 100
    return request.memory_mib


def node_score(cards: Cards) -> float:
    """How full the cards of a node are all together."""
    slots = _part(sum(card.use.slots for card in cards), sum(card.device.slots for card in cards))
    cores = _part(sum(card.use.cores for card in cards), sum(card.device.cores for card in cards))
    memory = _part(sum(card.use.memory_mib for card in cards), sum(card.device.memory_mib for card in cards))
    return SCORE_SCALE * (slots + cores + memory)


def _part(used: int, total: int) -> float:
    return used / total if total else 0.0


def is_of_vendor(device: Device, vendor: str) -> bool:
    """Whether the card belongs to the family that a vendor's word names."""
    return vendor.lower() in (device.model or device.vendor).lower()
