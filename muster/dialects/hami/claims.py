"""What a pod's annotations claim, checked against what it asks for and what its node has. Pure.

Anybody who may write a pod can write its annotations. So a new pod must not bring those that only schedulers and
agents write (`forged`), and what stands on a pod when it is bound or served must be what its containers ask for, of
cards that the node has and that others have left free (`claim_problem`). Called by the webhook, the extender and the
agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from muster.dialects.hami.filter import HeldShares
from muster.dialects.hami.read import ENDED, held_shares
from muster.dialects.hami.requests import containers_of, init_count, requests_of
from muster.dialects.hami.settings import ASSIGNED_AT, ASSIGNED_NODE
from muster.engine.contracts import Vendor
from muster.engine.devices_order import is_of_vendor
from muster.model.device import Card, Device, DeviceRequest, Share, standing_shares, take
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown

PHASE, BOUND_AT = "hami.io/bind-phase", "hami.io/bind-time"
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"
_ALWAYS = frozenset({PHASE, BOUND_AT, ASSIGNED_NODE, ASSIGNED_AT, "muster.dev/bind-fence"})
_WRITTEN = ("-devices-to-allocate", "-devices-allocated", "-mig-allocations")  # the ends of names, behind HAMi's own
_PREFIX = "hami.io/"


def forged(annotations: Mapping[str, str]) -> list[str]:
    """The annotations of a new pod that only schedulers and agents may write, in order."""
    return sorted(
        name for name in annotations if name in _ALWAYS or (name.startswith(_PREFIX) and name.endswith(_WRITTEN))
    )


def claimed(pod: Fields, vendors: Iterable[Vendor], devices: Sequence[Device]) -> HeldShares | None:
    """What a pod holds of its node's cards; every card of a vendor where its claim on those cannot be read."""
    found: HeldShares | None = None
    for vendor in vendors:
        try:
            held = held_shares(pod, (vendor,))
        except InvalidObject:
            held = _all_of(pod, vendor, devices)
        if held is not None:
            found = held if found is None else replace(found, shares={**found.shares, **held.shares})
    return found


def _all_of(pod: Fields, vendor: Vendor, devices: Iterable[Device]) -> HeldShares | None:
    held = tuple(
        Share(
            uuid=one.uuid,
            vendor=vendor.name,
            index=one.index,
            memory_mib=one.memory_mib,
            cores=one.cores,
            slots=one.slots,
        )
        for one in devices
        if is_of_vendor(one, vendor.name)
    )
    metadata, node = pod.child("metadata"), pod.child("spec").text("nodeName")
    if not held or not node or pod.child("status").text("phase") in ENDED:
        return None
    return HeldShares(
        uid=metadata.text("uid"), namespace=metadata.text("namespace"), node=node, shares={vendor.name: held}
    )


def container_claims(pod: Fields, vendor: Vendor) -> tuple[tuple[str, tuple[Share, ...], DeviceRequest], ...]:
    """Each container that asks for a vendor's cards: its name, what it was given, what it asks for.

    Raises `InvalidObject` where the annotations have not an entry for each.
    """
    asked = [
        (one.text("name"), requests[vendor.name])
        for one, requests in zip(containers_of(pod), requests_of(pod, (vendor,)), strict=True)
        if vendor.name in requests
    ]
    given = [shares for shares in vendor.shares_of(pod) if shares]
    path = pod.child("metadata").at("annotations")
    if len(given) != len(asked):
        problem = f"give cards to {len(given)} containers, and {len(asked)} ask for some"
        raise InvalidObject(path, problem, "leave to the scheduler what it writes")
    claims = []
    for (name, request), shares in zip(asked, given, strict=True):
        if len(shares) != request.count:
            problem = f"give container {name} {len(shares)} cards, and it asks for {request.count}"
            raise InvalidObject(path, problem, "leave to the scheduler what it writes")
        claims.append((name, shares, request))
    return tuple(claims)


def claim_problem(
    pod: Fields, vendors: Iterable[Vendor], devices: Sequence[Device], others: Iterable[HeldShares]
) -> str:
    """What is wrong with a pod's claims on its node's cards, beside what others hold of them; empty: nothing."""
    known = {device.uuid: device for device in devices}
    taken = [share for held in others for shares in held.shares.values() for share in shares]
    cards = {card.device.uuid: card for card in take(tuple(Card(device) for device in devices), taken)}
    for vendor in vendors:
        try:
            # Others than NVIDIA round amounts up and join containers in ways of their own.
            claims = container_claims(pod, vendor) if vendor.is_counted else ()
            standing = _standing(pod, vendor, claims)
        except InvalidObject as problem:
            return str(problem)
        found = [_share_problem(*claim, known) for claim in claims]
        found += [_room_problem(share, cards.get(share.uuid)) for share in standing]
        if told := next(filter(None, found), ""):
            return told
    return ""


def _standing(
    pod: Fields, vendor: Vendor, claims: Sequence[tuple[str, tuple[Share, ...], DeviceRequest]]
) -> tuple[Share, ...]:
    """What a pod holds of each card; exact where it is known whose each entry is."""
    if claims:
        first = {one.text("name") for one in containers_of(pod)[: init_count(pod)]}
        return standing_shares(tuple(shares for _, shares, _ in claims), sum(name in first for name, _, _ in claims))
    held = held_shares(pod, (vendor,))
    return held.shares[vendor.name] if held is not None else ()


def _share_problem(
    container: str, shares: tuple[Share, ...], request: DeviceRequest, known: Mapping[str, Device]
) -> str:
    for share in shares:
        device = known.get(share.uuid)
        if device is None or device.is_partitioned:
            continue  # told by the look at the card; the place on a partitioned card says how much it is
        asked = request.memory_on(device)
        if share.memory_mib > asked:
            return f"container {container} was given {share.memory_mib} MiB of a card, and asks for {asked}"
        if request.cores and share.cores > request.cores_on_a_card:
            return f"container {container} was given {share.cores} % of a card, and asks for {request.cores}"
    return ""


def _room_problem(share: Share, card: Card | None) -> str:
    if card is None:
        return f"the card {shown(share.uuid)} was given, which the node has not"
    device, use = card.device, card.plus(share).use
    if device.is_partitioned:
        taken = [part.placement for part in card.use.partitions]
        is_free = not any(part.placement.overlaps(other) for part in share.partitions for other in taken)
    else:
        is_free = use.memory_mib <= device.memory_mib and use.cores <= device.cores and use.slots <= device.slots
    return "" if is_free else f"the card {share.uuid} has not so much left"
