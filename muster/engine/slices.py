"""Slices of cards: which rows could give a pod what it asks for, and exactly which cards of one row it gets.

Screening is a few operations over all rows and cards, and never refuses a row on which the pod fits; where pods have
wishes beyond amounts it may let rows pass on which they do not. The exact choice on one row then decides, by the same
code that answers HAMi's extender. Called by `Placer` and by whoever places one pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from muster.engine.contracts import Vendor
from muster.engine.devices import ANY_CARD, CardReason, CardWishes, Choice, is_model_wanted
from muster.engine.devices_order import CardOrder, card_score, is_of_vendor, ordered
from muster.engine.devices_pod import PodCards, PodQuotaRule, no_quota, try_pod
from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import AMOUNT_CAP, CARDS_CAP, BoolArray, Demand, IntArray, NodeRows
from muster.engine.slices_ask import ANYBODY, CardAsk
from muster.model.device import WHOLE_CORES, Card, Cards, ContainerShares, Device, DeviceRequest, Share, standing_shares
from muster.model.slices import NOBODY, PodTag, Slices

_NEVER = AMOUNT_CAP  # more memory than any card has


# Screening -----------------------------------------------------------------------------------------------------------


def cards_fit(demand: Demand, rows: NodeRows) -> BoolArray:
    """Which rows have the cards that one pod asks for; for slices: which could have them."""
    if demand.ask is not None:
        return _slices_fit(demand.ask, rows)
    if demand.cards == 1:
        return rows.card_most >= demand.milli
    fit: BoolArray = (rows.cards >= demand.milli).sum(axis=1) >= demand.cards
    return fit


def _slices_fit(ask: CardAsk, rows: NodeRows) -> BoolArray:
    fit: BoolArray = np.ones(len(rows), np.bool_)
    for request in ask.screened:
        # Each container must find its cards as they are; those that come after it only find less.
        wishes = ask.pod.wishes.get(request.vendor, ANY_CARD)
        serves = _serving(request, wishes, rows)
        fit &= _has_enough(serves, request, wishes, rows)
        if wishes.uuids:
            fit &= np.isin(rows.numbers, sorted(rows.slices.rows_with(wishes.uuids)))
    return fit


def cards_ever(ask: CardAsk, rows: NodeRows) -> BoolArray:
    """Which rows have cards that could serve each request if nobody else was there; more pass than would fit."""
    columns = rows.slices
    fit: BoolArray = np.ones(len(rows), np.bool_)
    for request in ask.screened:
        wishes = ask.pod.wishes.get(request.vendor, ANY_CARD)
        could = [_need(request, wishes, kind) <= kind.memory_mib for kind in columns.kinds]
        fit &= np.array(could)[rows.by_card(columns.kind)].any(axis=0)
        if wishes.uuids:
            fit &= np.isin(rows.numbers, sorted(rows.slices.rows_with(wishes.uuids)))
    return fit


def _serving(request: DeviceRequest, wishes: CardWishes, rows: NodeRows) -> BoolArray:
    """The cards, by rows, that could give the request a share."""
    columns = rows.slices
    needs = [_need(request, wishes, kind) for kind in columns.kinds]
    serves: BoolArray = rows.by_card(columns.room) >= _by_kind(needs, rows)
    cores = request.cores_on_a_card
    if cores:
        serves &= rows.by_card(columns.cores) >= cores
    if wishes.is_alone or cores == WHOLE_CORES:
        # All cores of a card that is not oversubscribed mean the card for itself.
        most = [kind.slots if wishes.is_alone or kind.cores == WHOLE_CORES else 0 for kind in columns.kinds]
        serves &= rows.by_card(columns.slots) >= _by_kind(most, rows)
    return serves


def _need(request: DeviceRequest, wishes: CardWishes, kind: Device) -> int:
    """The memory that the request needs on a card of this kind; more than there is where it cannot have one."""
    is_of_family = request.vendor == kind.vendor and is_of_vendor(kind, request.vendor)
    if not is_of_family or not is_model_wanted(kind.model, wishes):
        return _NEVER
    if wishes.modes is not None and kind.mode not in wishes.modes:
        return _NEVER
    return request.memory_on(kind)


def _by_kind(values: list[int], rows: NodeRows) -> IntArray | int:
    """A value for each card by its kind; one number where all kinds have the same."""
    of_kinds = set(values[1:])  # the first is no card at all, which never has room
    if len(of_kinds) == 1:
        return of_kinds.pop()
    found: IntArray = np.array(values, np.int64)[rows.by_card(rows.slices.kind)]
    return found


def _has_enough(serves: BoolArray, request: DeviceRequest, wishes: CardWishes, rows: NodeRows) -> BoolArray:
    """Which rows have as many serving cards as the request asks for."""
    columns = rows.slices
    if request.count == 1:
        return np.asarray(serves.any(axis=0))
    gives: IntArray = serves.astype(np.int64)
    partitioned = [kind.is_partitioned for kind in columns.kinds]
    if any(partitioned):
        # A partitioned card may give one container several shares, each of which takes a slot.
        gives *= np.where(np.array(partitioned)[rows.by_card(columns.kind)], rows.by_card(columns.slots), 1)
    if not wishes.is_on_one_numa:
        return np.asarray(gives.sum(axis=0) >= request.count)
    numa = rows.by_card(columns.numa)
    fit: BoolArray = np.zeros(len(rows), np.bool_)
    for number in np.unique(numa).tolist():
        fit |= np.where(numa == number, gives, 0).sum(axis=0) >= request.count
    return fit


def cards_room(demand: Demand, rows: NodeRows) -> IntArray:
    """How many such pods the cards of each row could take, or more: for pods that ask for cards."""
    if demand.ask is None:
        slots: IntArray = (np.maximum(rows.cards, 0) // demand.milli).sum(axis=1)
        return slots // demand.cards
    columns = rows.slices
    room = np.full(len(rows), AMOUNT_CAP, np.int64)
    for request in demand.ask.screened:
        shares = rows.by_card(columns.slots)
        for left, needs in (
            (columns.memory, [0 if kind.is_partitioned else request.memory_on(kind) for kind in columns.kinds]),
            (columns.cores, [0 if kind.is_partitioned else request.cores_on_a_card for kind in columns.kinds]),
        ):
            # What is cut by its driver is charged by the size of the partition, which only the exact try knows.
            need = np.array(needs, np.int64)[rows.by_card(columns.kind)]
            shares = np.where(need > 0, np.minimum(shares, rows.by_card(left) // np.maximum(need, 1)), shares)
        serves = _serving(request, demand.ask.pod.wishes.get(request.vendor, ANY_CARD), rows)
        room = np.minimum(room, np.where(serves, shares, 0).sum(axis=0) // min(max(1, request.count), CARDS_CAP))
    return room


# The exact choice ----------------------------------------------------------------------------------------------------


def choose(
    table: NodeTable, row: int, ask: CardAsk, *, tag: PodTag = NOBODY, is_within_quota: PodQuotaRule = no_quota
) -> Slices | Choice:
    """The slices that a pod gets on a row, or why it gets none there; nothing is taken."""
    cards = table.slices.cards_of(row)
    pod = _beside(table, row, ask, tag)
    if pod is None:
        return Choice(fits=False, counts={CardReason.UUID: len(cards)}, card_count=len(cards))
    found: Mapping[str, ContainerShares] | None = None
    if ask.plain is not None and pod is ask.pod and is_within_quota is no_quota:
        found = _quickly(table, row, cards=cards, ask=ask)
    if found is None:
        tried = try_pod(cards, pod, is_within_quota)
        if tried.refusal is not None:
            return tried.refusal
        found = tried.shares
    given = tuple(sorted(found.items()))
    shares = tuple(share for _, containers in given for share in standing_shares(containers, pod.init_count))
    return Slices(shares, given, tag=tag, apart=ask.neighbours.apart)


def _quickly(table: NodeTable, row: int, *, cards: Cards, ask: CardAsk) -> Mapping[str, ContainerShares] | None:
    """The shares of a pod with a single request and no wishes, by what the columns say; `None`: look closely.

    The answer is the same as that of `try_pod`, which takes longer to find it.
    """
    request, pod = ask.plain, ask.pod
    assert request is not None, "asked for pods without wishes"
    vendor = pod.vendors[request.vendor]
    serves = _serving(request, ANY_CARD, table.rows(np.array([row])))[:, 0].tolist()
    fitting = []
    for card, column in zip(cards, table.slices.columns_of(row), strict=True):
        if card.device.is_partitioned:
            return None
        if serves[column] and (vendor.fit is None or vendor.fit(card, request.memory_on(card.device), ()) is None):
            fitting.append(card)
    if not 0 < request.count <= len(fitting):
        return None
    scores = {card.device.uuid: card_score(card, (request,), pod.weights) for card in fitting}
    best = ordered(tuple(fitting), scores, pod.orders.get(vendor.name, CardOrder()))[-request.count :]
    shares = tuple(_settled(card, request, vendor) for card in reversed(best))
    return {vendor.name: tuple(shares if requests else () for requests in pod.requests)}


def _settled(card: Card, request: DeviceRequest, vendor: Vendor) -> Share:
    share = Share(
        uuid=card.device.uuid,
        vendor=request.vendor,
        index=card.device.index,
        memory_mib=request.memory_on(card.device),
        cores=request.cores_on_a_card,
    )
    return share if vendor.settle is None else vendor.settle(card, share)


def tag_of(demand: Demand) -> PodTag:
    """How other pods see one of this demand."""
    who = demand.rules.who
    return PodTag(who.namespace, who.labels) if who.namespace else NOBODY


def is_alike_for_all(table: NodeTable, row: int, demand: Demand) -> bool:
    """Whether every pod that asks for the same fares alike on a row, whatever its labels."""
    if demand.ask is None or demand.ask.neighbours != ANYBODY:
        return False
    return all(held.apart is None for held in table.slices.holders_on(row))


def near_rows(table: NodeTable, ask: CardAsk, tag: PodTag) -> BoolArray | None:
    """The rows on which the pod finds one that it wants to share a card with; `None`: it may go anywhere."""
    near = ask.neighbours.near
    if near is None:
        return None
    rows = table.slices.rows_holding(lambda other: other.is_selected_by(near, tag.namespace))
    if not rows and tag.is_selected_by(near, tag.namespace):
        return None
    found: BoolArray = np.zeros(table.row_count, np.bool_)
    found[sorted(rows)] = True
    return found


def _beside(table: NodeTable, row: int, ask: CardAsk, tag: PodTag) -> PodCards | None:
    """The pod's ask with only those cards that it may share, and others with it; `None`: there are none."""
    near, apart = ask.neighbours.near, ask.neighbours.apart
    wanted: set[str] = set()
    barred: set[str] = set()
    for held in table.slices.holders_on(row):
        if near is None and apart is None and held.apart is None:
            continue
        uuids = {share.uuid for share in held.shares}
        if held.tag.is_selected_by(near, tag.namespace):
            wanted |= uuids
        if held.tag.is_selected_by(apart, tag.namespace) or tag.is_selected_by(held.apart, held.tag.namespace):
            barred |= uuids
    is_bound = near is not None and (bool(wanted) or near_rows(table, ask, tag) is not None)
    if not is_bound and not barred:
        return ask.pod
    wishes = {}
    for name in ask.pod.asked_vendors:
        before = ask.pod.wishes.get(name, ANY_CARD)
        named = before.uuids
        if is_bound:
            named = frozenset(wanted & named if named else wanted)
            if not named:
                return None  # no cards named would mean any card
        wishes[name] = replace(before, uuids=named, uuids_not=before.uuids_not | barred)
    return replace(ask.pod, wishes=wishes)
