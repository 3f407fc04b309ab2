"""Vastai's cards: whole ones, or dies of which several share a board. Found by `app` through VENDOR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from muster.engine.contracts import DeviceResources, Vendor, VendorSettings
from muster.engine.devices import CardReason, CardRules, Choice, choose_cards
from muster.engine.devices_links import fullest_groups, togetherness
from muster.engine.devices_vendor import Family, bare_devices, bare_share, named, plain_vendor, whole_cards
from muster.model.device import Card, Cards, ContainerShares, DeviceRequest, Share

NAME = "Vastai"
BOARD, STRATEGY, BY_DIE = "AIC", "DeviceStrategy", "die"  # what a register tells of a card beyond the common
RESOURCES = DeviceResources(count="vastaitech.com/va")


def choose(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """One card after the other; of dies those that share the fewest boards."""
    rules = replace(rules, offer=bare_share)
    if not cards or cards[0].device.details.get(STRATEGY) != BY_DIE:
        return choose_cards(cards, request, rules)
    boards = _boards(cards)
    occupied = {boards.get(card.device.uuid) for card in cards if card.use.slots}

    def is_alone(card: Card, _memory_mib: int, _here: Sequence[Share]) -> CardReason | None:
        board = boards.get(card.device.uuid)
        return CardReason.NOT_ALONE if board is not None and board in occupied else None

    def pick(found: Sequence[Share], count: int) -> Sequence[Share]:
        return found[:1] if count == 1 else fullest_groups(found, count, boards)

    return choose_cards(
        cards, request, replace(rules, pick=pick, vendor_rule=is_alone if rules.wishes.is_alone else None)
    )


def score(cards: Cards, containers: ContainerShares) -> float:
    """How well the containers keep to single boards."""
    return togetherness(containers, _boards(cards))


def _boards(cards: Cards) -> dict[str, str]:
    return {card.device.uuid: card.device.details[BOARD] for card in cards if BOARD in card.device.details}


def vendor(resources: DeviceResources) -> Vendor:
    """Vastai's record under an administrator's names."""
    family = Family(
        name=NAME,
        resources=resources,
        register="hami.io/node-va-register",
        to_allocate=f"hami.io/{NAME}-devices-to-allocate",
        allocated=f"hami.io/{NAME}-devices-allocated",
        use_uuid="vastaitech.com/use-gpuuuid",
        avoid_uuid="vastaitech.com/nouse-gpuuuid",
    )
    return replace(
        plain_vendor(family),
        devices_of=partial(bare_devices, family=family),
        request_of=partial(whole_cards, family=family),
        choose=choose,
        score=score,
    )


VENDOR = vendor(RESOURCES)
SETTINGS = VendorSettings(name="vastai", read=lambda given: (vendor(named(given.child("vastai"), RESOURCES)),))
