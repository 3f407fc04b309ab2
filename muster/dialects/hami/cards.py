"""HAMi's annotations and the node table: cards of nodes, what pods ask and hold of them, and what is written on pods.

Pure mapping between objects and the table's words. What a pod says it holds is believed only as far as it makes cards
less free: anybody who may write pods can write annotations. Called by whoever feeds the table and writes decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from muster.dialects.hami.filter import written_shares
from muster.dialects.hami.policy import pod_policy
from muster.dialects.hami.quota import amounts_of
from muster.dialects.hami.read import NodeCards, held_shares, node_cards
from muster.dialects.hami.requests import (
    container_requests,
    containers_of,
    init_count,
    is_sized,
    request_problem,
    requests_of,
    vendors_named,
)
from muster.dialects.hami.settings import (
    ASSIGNED_AT,
    ASSIGNED_NODE,
    CARD_POLICY,
    DEFAULTS,
    NODE_POLICY,
    WEIGHTS,
    HamiSettings,
)
from muster.engine.contracts import Assigned, Vendor
from muster.engine.devices_order import is_of_vendor
from muster.engine.devices_pod import PodCards
from muster.engine.devices_vendor import capacity, counted
from muster.engine.node_table_rows import TableNode
from muster.engine.slices_ask import CARD_AFFINITY, CARD_ANTI_AFFINITY, CardAsk, read_neighbours
from muster.model.device import ContainerShares, Device, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.slices import CardRequests, PodTag, Slices

_CHOOSING = frozenset((NODE_POLICY, CARD_POLICY, WEIGHTS, CARD_AFFINITY, CARD_ANTI_AFFINITY))


# Nodes ---------------------------------------------------------------------------------------------------------------


def table_devices(node: Fields, vendors: Iterable[Vendor]) -> NodeCards:
    """The cards of a node as the table takes them in: each vendor's by their index, each name once."""
    devices: dict[str, Device] = {}
    problems: list[InvalidObject] = []
    status = node.child("status")
    annotations = node.child("metadata").child("annotations").values
    named = status.child("capacity").values.keys() | status.child("allocatable").values.keys()
    for vendor in vendors:
        is_registered = vendor.register in annotations
        if not is_registered and (vendor.is_counted or not _has_any(node, vendor.resources.names & named)):
            continue
        is_countable = bool(vendor.register) and not is_registered
        read = counted_cards(node, vendor) if is_countable else node_cards(node, (vendor,))
        problems.extend(read.problems)
        for device in sorted(read.devices, key=lambda device: device.index):
            if device.uuid in devices:
                path = node.child("metadata").at("annotations")
                problems.append(
                    InvalidObject(path, f"registers the card {device.uuid} twice", "give each its own name")
                )
            is_known = device.is_counted == vendor.is_counted
            devices.setdefault(device.uuid, device if is_known else replace(device, is_counted=vendor.is_counted))
    return NodeCards(tuple(devices.values()), tuple(problems))


def _has_any(node: Fields, names: Iterable[str]) -> bool:
    try:
        return any(capacity(node, name) > 0 for name in names)
    except InvalidObject:
        return True  # the vendor's own reading says what is wrong


def counted_cards(node: Fields, vendor: Vendor) -> NodeCards:
    """Whole cards that a node has without registering them: their number is known, their memory is not."""
    resource = vendor.resources.count
    try:
        count = counted(node, resource)
    except InvalidObject as problem:
        return NodeCards(problems=(problem,))
    name = node.child("metadata").text("name")
    devices = (
        Device(uuid=f"{name}-{vendor.name}-{index}", index=index, vendor=vendor.name, model=vendor.name)
        for index in range(count)
    )
    return NodeCards(tuple(devices))


# What pods ask -------------------------------------------------------------------------------------------------------


def card_requests(pod: Fields, vendors: Sequence[Vendor]) -> CardRequests | None:
    """What a pod asks of cards, with those annotations that say which cards and how; `None`: no card.

    Containers that name more than a number of cards are read as HAMi's webhook would store them. Amounts that no card
    could have are mistakes, but not those of vendors whose cards are given out by number as well: there the container
    gets whole cards.
    """
    requests: list[dict[str, DeviceRequest]] = []
    meant: dict[str, Vendor] = {}
    annotations: Mapping[str, str] | None = None  # read where they matter
    for container in containers_of(pod):
        named = vendors_named(container, vendors)
        if named and annotations is None:
            annotations = pod.child("metadata").text_map("annotations")
        for vendor in named:
            if vendor.admit is not None and not vendor.is_counted and is_sized(container, vendor):
                assert annotations is not None, "somebody is named, so they have been read"
                admitted = vendor.admit(container, annotations)
                container = Fields(admitted.container, container.path)
                annotations = {**annotations, **admitted.annotations}
        asked = container_requests(container, named)
        requests.append(asked)
        meant |= {vendor.name: vendor for vendor in named if vendor.name in asked}
        _check_unread(container, [one for one in named if one.name not in asked and not one.is_counted])
    if not meant or annotations is None:
        return None
    wished = _CHOOSING.union(*(vendor.wish_names for vendor in meant.values()))
    return CardRequests(
        by_container=tuple(tuple(asked.values()) for asked in requests),
        init_count=init_count(pod),
        annotations=tuple(sorted(item for item in annotations.items() if item[0] in wished)),
        is_by_name=not all(vendor.is_counted for vendor in meant.values()),
    )


def _check_unread(container: Fields, vendors: Iterable[Vendor]) -> None:
    for vendor in vendors:
        problem = request_problem(container, vendor)
        if problem is not None:
            raise problem


def card_ask(asked: CardRequests, vendors: Iterable[Vendor], settings: HamiSettings = DEFAULTS) -> CardAsk:
    """The same as the engine takes it; mistakes in the annotations raise `InvalidObject`."""
    annotations = dict(asked.annotations)
    policy = pod_policy(annotations, settings)
    named = {request.vendor for requests in asked.by_container for request in requests}
    known = {vendor.name: vendor for vendor in vendors if vendor.name in named}
    pod = PodCards(
        requests=tuple({request.vendor: request for request in requests} for requests in asked.by_container),
        vendors=known,
        init_count=asked.init_count,
        wishes={name: policy.wishes(vendor) for name, vendor in known.items()},
        orders={name: policy.order(vendor) for name, vendor in known.items()},
        weights=policy.weights,
    )
    return CardAsk(pod, read_neighbours(annotations))


def pod_tag(pod: Fields) -> PodTag:
    """How other pods' rules about neighbours see this one."""
    metadata = pod.child("metadata")
    return PodTag(metadata.text("namespace"), tuple(sorted(metadata.text_map("labels").items())))


# What pods hold ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldSlices:
    """What counts as held by a pod, and what is wrong with what it says."""

    slices: Slices | None = None  # None: nothing
    problems: tuple[InvalidObject, ...] = ()


def held_slices(
    pod: Fields, devices: Sequence[Device], vendors: Sequence[Vendor], *, granted: Slices | None = None
) -> HeldSlices:
    """What a pod holds of its node's cards, to be charged as a hold: it is there, whether it fits or not.

    `granted` is what was decided here; it stands whatever the annotations say. Otherwise a claim can only make cards
    less free: cards that the node has not are passed over, more than a card has is the whole card, less memory than the
    pod's containers ask for is the whole card too, and where a claim cannot be read every card of that vendor is taken.
    """
    claim = _Claim(pod, {device.uuid: device for device in devices})
    annotations = pod.child("metadata").child("annotations").values
    for vendor in vendors:
        if vendor.allocated in annotations:
            claim.read(vendor)
    if granted is not None:
        if claim.shares and _memory_by_card(claim.shares) != _memory_by_card(granted.shares):
            claim.complain("tell of other cards than the pod was given")
        return HeldSlices(granted, tuple(claim.problems))
    if not claim.shares:
        return HeldSlices(None, tuple(claim.problems))
    metadata = pod.child("metadata")
    try:
        apart = read_neighbours(metadata.text_map("annotations")).apart
    except InvalidObject as problem:
        apart = None
        claim.problems.append(problem)
    name = f"{metadata.text('namespace')}/{metadata.text('name')}"
    held = Slices(tuple(claim.shares), pod=name, tag=pod_tag(pod), apart=apart)
    return HeldSlices(held, tuple(claim.problems))


class _Claim:
    """What a pod's annotations say that it holds, as far as that is believed. Lives for one reading."""

    def __init__(self, pod: Fields, devices: Mapping[str, Device]) -> None:
        self._pod = pod
        self._devices = devices
        self.shares: list[Share] = []
        self.problems: list[InvalidObject] = []

    def complain(self, problem: str) -> None:
        path = self._pod.child("metadata").at("annotations")
        self.problems.append(InvalidObject(path, problem, "leave to the scheduler what it writes"))

    def read(self, vendor: Vendor) -> None:
        """Take in what is claimed of one vendor's cards."""
        try:
            held = held_shares(self._pod, (vendor,))
        except InvalidObject as problem:
            self.problems.append(problem)
            if any(vendor.name in requests for requests in requests_of(self._pod, (vendor,))):
                family = (device for device in self._devices.values() if is_of_vendor(device, vendor.name))
                self.shares.extend(_whole(device, vendor) for device in family)
            return
        claimed = () if held is None else held.shares[vendor.name]
        is_too_little = bool(claimed) and amounts_of(claimed).memory_mib < self._asked_mib(vendor)
        if is_too_little:
            self.complain("tell of less memory than the containers ask for")
        for share in claimed:
            device = self._devices.get(share.uuid)
            if device is None:
                self.complain(f"tell of the card {shown(share.uuid)}, which the node has not")
            elif is_too_little:
                self.shares.append(_whole(device, vendor))
            else:
                self._take(share, device)

    def _take(self, share: Share, device: Device) -> None:
        """Believe in a share, but in no more than the card has."""
        if share.memory_mib > device.memory_mib or share.cores > device.cores or share.slots > device.slots:
            self.complain(f"tell of more than the card {shown(share.uuid)} has")
        memory, cores = min(share.memory_mib, device.memory_mib), min(share.cores, device.cores)
        held = replace(share, memory_mib=memory, cores=cores, slots=min(share.slots, device.slots))
        self.shares.append(held)

    def _asked_mib(self, vendor: Vendor) -> int:
        """The memory that the containers ask for all together; a part of a card counts as nothing, as it is of any."""
        try:
            asked = card_requests(self._pod, (vendor,))
        except InvalidObject:
            return 0
        running = asked.by_container[asked.init_count :] if asked is not None else ()
        return sum(request.memory_mib * request.count for requests in running for request in requests)


def _whole(device: Device, vendor: Vendor) -> Share:
    return Share(
        uuid=device.uuid,
        vendor=vendor.name,
        index=device.index,
        memory_mib=device.memory_mib,
        cores=device.cores,
        slots=device.slots,
    )


def _memory_by_card(shares: Iterable[Share]) -> dict[str, int]:
    return {share.uuid: share.memory_mib for share in shares}


def shares_of_container(pod: Fields, name: str, vendor: Vendor) -> tuple[Share, ...]:
    """What one container holds of a vendor's cards, as the pod's annotations say.

    The entries stand for all containers, or only for those that ask for cards (`written_shares`).
    """
    entries = vendor.shares_of(pod)
    containers = containers_of(pod)
    asked = requests_of(pod, (vendor,))
    asking = tuple(one for one, requests in zip(containers, asked, strict=True) if requests)
    filled = tuple(shares for shares in entries if shares)
    if len(filled) == len(asking):  # in the order of those that ask, whether the others have entries or not
        containers, entries = asking, filled
    found = (shares for one, shares in zip(containers, entries, strict=False) if one.text("name") == name)
    return next(found, ())


# What is written -----------------------------------------------------------------------------------------------------


def whole_slices(
    pod: Fields, names: Sequence[str], vendors: Iterable[Vendor], devices: Iterable[Device]
) -> Slices | None:
    """Whole cards, given by name, as slices that are all of a card; `None` where the pod asks for other cards."""
    known = {device.uuid: device for device in devices if device.uuid in names}
    given, shares = [], []
    for vendor in vendors:
        here = [known[name] for name in names if name in known and is_of_vendor(known[name], vendor.name)]
        if not here:
            continue
        own = [_whole(device, vendor) for device in here]
        by_container = _dealt(own, _counts(pod, vendor), init_count(pod))
        if by_container is None:
            return None
        given.append((vendor.name, by_container))
        shares += own
    return Slices(tuple(shares), tuple(given)) if len(shares) == len(names) else None


def _counts(pod: Fields, vendor: Vendor) -> list[int]:
    """How many cards each container asks for."""
    return [asked[vendor.name].count if asked else 0 for asked in requests_of(pod, (vendor,))]


def _dealt(cards: Sequence[Share], counts: Sequence[int], first_main: int) -> ContainerShares | None:
    """Each container's cards: those that run before the others have the first ones, and give them back."""
    if sum(counts[first_main:]) > len(cards) or max(counts) > len(cards):
        return None
    firsts = [0] * first_main + [sum(counts[first_main:number]) for number in range(first_main, len(counts))]
    return tuple(tuple(cards[first : first + count]) for first, count in zip(firsts, counts, strict=True))


def slice_annotations(
    pod: Fields, slices: Slices, vendors: Iterable[Vendor], *, node: TableNode, now_s: int
) -> dict[str, str]:
    """What is written on a pod that got these slices of a node's cards, as the node's plugin reads it."""
    known = {vendor.name: vendor for vendor in vendors}
    assigned = Assigned(node=node.name, now_s=now_s, devices=node.devices)
    annotations = {ASSIGNED_NODE: node.name, ASSIGNED_AT: str(now_s)}
    for name, containers in slices.given:
        annotations.update(known[name].annotate(pod, written_shares(containers, name, node.devices), assigned))
    return annotations
