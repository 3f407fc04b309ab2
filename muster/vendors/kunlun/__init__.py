"""Kunlunxin's cards: whole ones (kunlun) and shares in three sizes (XPU). Found by `app` through VENDORS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from muster.engine.contracts import AdmittedContainer, Assigned, DeviceResources, Vendor, VendorSettings
from muster.engine.devices import CardReason, CardRules, CardWishes, Choice, asked_share, is_uuid_wanted
from muster.engine.devices_vendor import (
    Family,
    asked,
    bounded,
    counted,
    limited,
    named,
    of_family,
    plain_annotations,
    plain_vendor,
    plain_wishes,
    sized_request,
    whole_cards,
    with_amounts,
)
from muster.model.device import WHOLE_CORES, Card, Cards, ContainerShares, Device, DeviceRequest, Share
from muster.model.fields import INT64_MAX, Fields
from muster.vendors.kunlun.topology import choose_numbers, unevenness

WHOLE, SHARED = "kunlun", "XPU"
CARD_MIB = 98304
SIZES_MIB = (24576, 49152, CARD_MIB)  # that a share may have
SHARERS = 100
NUMBERS = "BAIDU_COM_DEVICE_IDX"
USE_OLD, AVOID_OLD = "baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid"
USE, AVOID = "hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid"
NOBODYS = "-"  # no card is called so
RESOURCES = DeviceResources(count="kunlunxin.com/xpu")
SHARED_RESOURCES = DeviceResources(count="kunlunxin.com/vxpu", memory="kunlunxin.com/vxpu-memory")

CardRule = Callable[[Card, DeviceRequest], bool]


def devices_of(node: Fields, family: Family) -> tuple[Device, ...]:
    """The whole cards that the node's capacity counts; the second half stands at the other processor."""
    count = counted(node, family.resources.count)
    name = node.child("metadata").text("name")
    devices = (
        Device(
            uuid=f"{name}-kunlun-{index}",
            index=index,
            model=WHOLE,
            memory_mib=CARD_MIB,
            slots=SHARERS,
            numa=int(index >= count // 2),
        )
        for index in range(count)
    )
    return of_family(node, WHOLE, tuple(devices))


# Requests ------------------------------------------------------------------------------------------------------------


def shared_request(container: Fields, family: Family) -> DeviceRequest | None:
    """Shares of so many cards; cores go with the memory."""
    count = bounded(asked(container, family.resources.count), least=1)
    memory = bounded(asked(container, family.resources.memory), most=INT64_MAX, default=CARD_MIB)
    if count is None or memory is None:
        return None
    size = _size_of(memory)
    request = sized_request(SHARED, count=count, memory_mib=size, cores=size * WHOLE_CORES // CARD_MIB)
    return request if asked(container, family.resources.memory) is not None else replace(request, memory_percent=100)


def _size_of(memory: int) -> int:
    return next((size for size in SIZES_MIB if memory <= size), CARD_MIB)


def admit_shared(container: Fields, _annotations: Mapping[str, str], family: Family) -> AdmittedContainer:
    """The container with its memory rounded up to a size that there is."""
    memory = limited(container, family.resources.memory)
    if limited(container, family.resources.count) is None or memory is None:
        return AdmittedContainer(container.values, limited(container, family.resources.count) is not None)
    sizes = {family.resources.memory: str(_size_of(memory.scaled(0, INT64_MAX)))}
    return AdmittedContainer(with_amounts(container, sizes, sizes), True)


def wishes_of(annotations: Mapping[str, str], family: Family) -> CardWishes:
    """Which cards the pod's annotations name, by either name; where both name some, it has to be one of both."""
    wishes = plain_wishes(annotations, family)
    older = plain_wishes(annotations, replace(family, use_uuid=USE_OLD, avoid_uuid=AVOID_OLD))
    named = wishes.uuids | older.uuids
    if wishes.uuids and older.uuids:
        named = wishes.uuids & older.uuids or frozenset((NOBODYS,))
    return replace(wishes, uuids=named, uuids_not=wishes.uuids_not | older.uuids_not)


# Choosing ------------------------------------------------------------------------------------------------------------


def is_idle(card: Card, _request: DeviceRequest) -> bool:
    """Whether nobody is on a whole card."""
    return card.device.is_healthy and not card.use.slots


def can_share(card: Card, request: DeviceRequest) -> bool:
    """Whether the card has room, and all on it have shares of the same size."""
    use, device = card.use, card.device
    has_memory = request.memory_mib + use.memory_mib <= device.memory_mib
    has_cores = not device.cores or request.cores + use.cores <= device.cores
    has_place = not device.slots or use.slots < device.slots
    has_room = device.is_healthy and has_memory and has_cores and has_place
    return has_room and (not use.slots or use.memory_mib // use.slots == request.memory_mib)


def choose(cards: Cards, request: DeviceRequest, rules: CardRules, *, fits: CardRule, is_whole: bool) -> Choice:
    """The cards that belong together and are free; single cards are not looked at one by one."""
    wishes = rules.wishes
    refused: dict[CardReason, int] = {}
    free: dict[int, Card] = {}
    for card in cards:
        reason = _refusal(card, wishes)
        if reason is not None:
            refused[reason] = refused.get(reason, 0) + 1
        elif not fits(card, request):
            continue
        elif wishes.is_alone and card.use.slots:
            refused[CardReason.NOT_ALONE] = refused.get(CardReason.NOT_ALONE, 0) + 1
        else:
            free[card.device.index] = card
    numbers = choose_numbers(sorted(free), request.count)
    shares = tuple(_share(free[number], request, is_whole) for number in numbers)
    if shares and rules.is_within_quota(shares):
        return Choice(fits=True, shares=shares, card_count=len(cards))
    if shares:
        refused = {CardReason.QUOTA: len(shares)}
    return Choice(fits=False, counts=refused or {CardReason.NUMA: 1}, card_count=len(cards))


def _refusal(card: Card, wishes: CardWishes) -> CardReason | None:
    if card.device.is_cordoned:
        return CardReason.CORDONED
    return None if is_uuid_wanted(card.device.uuid, wishes) else CardReason.UUID


def _share(card: Card, request: DeviceRequest, is_whole: bool) -> Share:
    share = asked_share(card, request)
    return replace(share, memory_mib=card.device.memory_mib, cores=card.device.cores) if is_whole else share


def score(cards: Cards, containers: ContainerShares) -> float:
    """A node is the better, the less the pod breaks up its wings."""
    if any(card.device.vendor != WHOLE for card in cards):
        return 0.0
    before = unevenness(sorted({card.device.index for card in cards if card.use.slots}))
    now = unevenness(sorted({share.index for shares in containers for share in shares}))
    return {-1: 3000.0, 0: 2000.0, 2: 0.0}.get(now - before, 1000.0)


# What pods hold ------------------------------------------------------------------------------------------------------


def annotate(_pod: Fields, containers: ContainerShares, _assigned: Assigned, *, family: Family) -> dict[str, str]:
    """What is written on a pod with whole cards: the numbers of the last container's."""
    last = next((shares for shares in reversed(containers) if shares), ())
    numbers = {NUMBERS: ",".join(str(share.index) for share in last)} if last else {}
    return {**plain_annotations(containers, family), **numbers}


def whole_vendor(resources: DeviceResources) -> Vendor:
    """The record of whole cards under an administrator's names."""
    family = Family(
        name=WHOLE, resources=resources, allocated="hami.io/kunlun-allocated", use_uuid=USE, avoid_uuid=AVOID
    )
    return replace(
        plain_vendor(family),
        devices_of=partial(devices_of, family=family),
        request_of=partial(whole_cards, family=family),
        annotate=partial(annotate, family=family),
        wishes_of=partial(wishes_of, family=family),
        wish_names=frozenset((USE, AVOID, USE_OLD, AVOID_OLD)),
        choose=partial(choose, fits=is_idle, is_whole=True),
        score=score,
    )


def shared_vendor(resources: DeviceResources) -> Vendor:
    """The record of shared cards under an administrator's names."""
    family = Family(
        name=SHARED,
        resources=resources,
        register="hami.io/node-register-xpu",
        to_allocate="hami.io/xpu-devices-to-allocate",
        allocated="hami.io/xpu-devices-allocated",
        use_uuid=USE,
        avoid_uuid=AVOID,
    )
    return replace(
        plain_vendor(family),
        request_of=partial(shared_request, family=family),
        admit=partial(admit_shared, family=family),
        wishes_of=partial(wishes_of, family=family),
        wish_names=frozenset((USE, AVOID, USE_OLD, AVOID_OLD)),
        choose=partial(choose, fits=can_share, is_whole=False),
    )


VENDORS = (whole_vendor(RESOURCES), shared_vendor(SHARED_RESOURCES))


def read_settings(given: Fields) -> tuple[Vendor, ...]:
    """Both kinds under an administrator's names."""
    section = given.child("kunlun")
    parts = {"count": "resourceVCountName", "memory": "resourceVMemoryName"}
    return whole_vendor(named(section, RESOURCES)), shared_vendor(named(section, SHARED_RESOURCES, **parts))


SETTINGS = VendorSettings(name="kunlun", read=read_settings)
