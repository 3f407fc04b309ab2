"""Which Ascend chips a container gets: near each other by their network, in pairs where two are one module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from muster.engine.devices import CardReason, CardRules, Choice, choose_cards, fitting_shares
from muster.engine.devices_links import fullest_groups, togetherness
from muster.model.device import WHOLE_CORES, Cards, ContainerShares, DeviceRequest, Share
from muster.vendors.ascend.chips import Chip

NETWORK = "NetworkID"  # what a register tells of a chip beyond the common
NETWORKED = "Ascend910"  # the chips that have a network among themselves
NETWORK_WEIGHT = 10
MODULE = 2


def choose(cards: Cards, request: DeviceRequest, rules: CardRules, *, chip: Chip) -> Choice:
    """One chip after the other, or the ones that belong together."""
    modes = rules.wishes.modes
    if modes is not None:
        if not any(card.device.mode == modes for card in cards):
            return Choice(fits=False, counts={CardReason.MODE: 1}, card_count=len(cards))
        # Where chips are shared without templates, cores count in per cent, whatever the register says.
        cards = tuple(replace(card, device=replace(card.device, cores=WHOLE_CORES)) for card in cards)
    if chip.is_paired and request.count > 1:
        return _in_pairs(cards, request, rules)
    networks = networks_of(cards)
    if not chip.name.startswith(NETWORKED) or len(networks) < len(cards):
        return choose_cards(cards, request, rules)

    def pick(found: Sequence[Share], count: int) -> Sequence[Share]:
        is_settled = count == 1 or len(found) == count
        return found[:count] if is_settled else fullest_groups(found, count, networks)

    return choose_cards(cards, request, replace(rules, pick=pick))


def networks_of(cards: Cards) -> dict[str, str]:
    """The networks of the chips that have one, by chip."""
    return {card.device.uuid: card.device.details[NETWORK] for card in cards if NETWORK in card.device.details}


def _in_pairs(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """Whole modules; their number stands in the chips' own."""
    found, counts = fitting_shares(cards, request, rules)
    modules: dict[int, list[Share]] = {}
    for share in found:
        modules.setdefault(share.index // MODULE, []).append(share)
    full = [share for shares in modules.values() if len(shares) == MODULE for share in shares]
    wanted = -(-request.count // MODULE) * MODULE
    if len(full[:wanted]) != request.count:
        counts[CardReason.TOO_FEW] = len(full[:wanted])
        return Choice(fits=False, shares=tuple(found), counts=counts, card_count=request.count)
    return Choice(fits=True, shares=tuple(full[:wanted]), card_count=len(cards))


def score(cards: Cards, containers: ContainerShares, *, chip: Chip) -> float:
    """How well the containers keep to single networks."""
    if not chip.name.startswith(NETWORKED):
        return 0.0
    return NETWORK_WEIGHT * togetherness(containers, networks_of(cards))
