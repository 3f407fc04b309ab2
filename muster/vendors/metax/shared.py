"""Which MetaX card a share may be taken of: what kind of work is on it already, and how the card divides its cores.

Pods tell two things of themselves: their class (online work suspends offline work on the same card, and neither shares
a card with work of no class), and the policy by which a card divides its cores, which is one for all on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from muster.engine.devices import CardReason, CardRules, Choice, Pick, asked_share, choose_cards
from muster.model.device import WHOLE_CORES, Card, Cards, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import shown

CLASS, QOS = "metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy"
ONLINE, OFFLINE = "online", "offline"
CLASSES = (ONLINE, OFFLINE)
BEST_EFFORT = "best-effort"
POLICIES = (BEST_EFFORT, "fixed-share", "burst-share")
CARD_QOS, ZONE = "QosPolicy", "LinkZone"  # what a register tells of a card beyond the common
BETWEEN = "/"


def mark_of(annotations: Mapping[str, str]) -> str:
    """What a pod's shares tell of it: its class, and its policy where that counts; other words say nothing."""
    own_class = annotations.get(CLASS, "")
    policy = "" if own_class == ONLINE else annotations.get(QOS, BEST_EFFORT)
    return BETWEEN.join((own_class if own_class in CLASSES else "", policy if policy in POLICIES else ""))


def check_words(annotations: Mapping[str, str]) -> None:
    """A class that is none is a mistake, and so is a policy where one counts."""
    is_online = annotations.get(CLASS) == ONLINE
    for name, choices in ((CLASS, CLASSES), (QOS, () if is_online else POLICIES)):
        if name in annotations and choices and annotations[name] not in choices:
            path = f"metadata.annotations[{name}]"
            raise InvalidObject(path, f"is {shown(annotations[name])}", "give one of " + ", ".join(choices))


def choose(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """One card after the other among those whose work goes together with the pod's."""
    own_class, _, policy = rules.wishes.mark.partition(BETWEEN)
    refused: dict[CardReason, int] = {}
    open_cards = []
    for card in cards:
        reason = _refusal(card, request, own_class=own_class, policy=policy)
        if reason is not None:
            refused[reason] = refused.get(reason, 0) + 1
        else:
            open_cards.append(_without_cores(card) if own_class == ONLINE else card)
    pick = _pick(cards, request, own_class)
    choice = choose_cards(
        tuple(open_cards),
        request,
        replace(rules, offer=_without_share if own_class == ONLINE else asked_share, pick=pick),
    )
    return replace(
        choice,
        shares=choice.shares if choice.fits else (),
        counts={**choice.counts, **refused},
        card_count=len(cards),
    )


def _without_cores(card: Card) -> Card:
    """Online work gets its cores whatever others have of them."""
    return replace(card, use=replace(card.use, cores=0))


def _without_share(card: Card, request: DeviceRequest) -> Share:
    return replace(asked_share(card, request), cores=0)


def _refusal(card: Card, request: DeviceRequest, *, own_class: str, policy: str) -> CardReason | None:
    if request.vendor != card.device.vendor:
        return CardReason.TYPE
    if not card.device.is_healthy:
        return CardReason.SICK
    if not card.use.slots:
        return None
    classes = {mark.partition(BETWEEN)[0] for mark in card.use.marks} & set(CLASSES)
    if bool(classes) != (own_class in CLASSES) or (ONLINE in classes and own_class == OFFLINE):
        return CardReason.APP_CLASS
    if own_class != ONLINE and request.cores != WHOLE_CORES and not _is_policy(card, policy):
        return CardReason.QOS
    return None


def _is_policy(card: Card, policy: str) -> bool:
    """Whether the card divides its cores so, or has no policy yet; those on it know better than its register."""
    policies = {mark.partition(BETWEEN)[2] for mark in card.use.marks} - {""}
    current = policies or {card.device.details.get(CARD_QOS, "")}
    return policy in current or current == {""}


def _pick(cards: Cards, request: DeviceRequest, own_class: str) -> Pick | None:
    if own_class == ONLINE:
        marks = {card.device.uuid: card.use.marks for card in cards}
        return lambda found, count: sorted(found, key=lambda share: _crowd(marks[share.uuid]))[:count]
    if not own_class and request.cores == WHOLE_CORES:
        zones = {card.device.uuid: card.device.details.get(ZONE, "0") for card in cards}
        return lambda found, count: _in_one_zone(found, count, zones)
    return None


def _crowd(marks: Sequence[str]) -> tuple[bool, int, int]:
    """The less of online work the better, and rather some of both than offline work alone, which would be stopped."""
    classes = [mark.partition(BETWEEN)[0] for mark in marks]
    online, offline = classes.count(ONLINE), classes.count(OFFLINE)
    return (not online and offline > 0, online, offline)


def _in_one_zone(found: Sequence[Share], count: int, zones: Mapping[str, str]) -> list[Share]:
    """Cards of the smallest zone of links that has enough; else of several, and last of none."""
    groups: dict[str, list[Share]] = {}
    for share in found:
        groups.setdefault(zones[share.uuid], []).append(share)
    unlinked = groups.pop("0", [])
    linked = sorted(groups.values(), key=len)
    enough = next((group for group in linked if len(group) >= count), None)
    ranked = enough if enough is not None else [share for group in (*linked, unlinked) for share in group]
    return ranked[:count]
