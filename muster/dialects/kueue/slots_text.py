"""Slots on record: the node and the cards of every pod of an admitted workload, as text in the workload's status.

The text is the message of a condition of Muster's own, so that the admission, its quota and its places are one write
that any server keeps as it is (docs/decisions/0018-slots-on-record.md). Written by `write.py`, read by the controllers.

    {"main":[["node-a",[0,1]],["node-b",[],3]]}     pods of pod set main: one on two cards, three without cards

Cards whose node tells their names stand with them, [0,"GPU-7a5c"]: numbers may change when a node loses a card.

Slices of cards that are known one by one stand in place of the numbers: by vendor and container, each share as
[uuid, index, MiB, cores, slots], and partitions behind them.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from muster.engine.slices_ask import read_neighbours
from muster.engine.slot_asks import PODS_MOST
from muster.model.device import AMOUNT_MAX, ContainerShares, Partition, Placement, Share, standing_shares
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.slices import NOBODY, PodTag, Slices
from muster.model.workload import PodSet, PodSetAdmission, Slot, Workload

CONDITION = "muster.dev/Slots"
CONDITIONS = (CONDITION, *(f"{CONDITION}-{number}" for number in (2, 3, 4)))  # a status has room for 16
REASON = "Placed"
MESSAGE_MOST = 32_000  # characters of one message; the API takes a few more
TEXT_MOST = 4_000_000  # characters of what was packed
CARDS_MOST = 1024  # of one node
NAME_MOST = 253  # characters of a card's name
_PACKED = "z:"
_HINT = "leave it to the scheduler"
Given = tuple[tuple[str, ContainerShares], ...]


# Writing -------------------------------------------------------------------------------------------------------------


def slots_messages(pod_sets: Iterable[PodSetAdmission]) -> tuple[str, ...]:
    """The slots of pod sets as messages of conditions, none where there are no slots."""
    slots = {given.name: [_run(slot, count) for slot, count in _runs(given.slots)] for given in pod_sets if given.slots}
    if not slots:
        return ()
    text = json.dumps(slots, separators=(",", ":"))
    if len(text) > MESSAGE_MOST:
        text = _PACKED + b64encode(zlib.compress(text.encode(), 6)).decode()
    parts = tuple(text[start : start + MESSAGE_MOST] for start in range(0, len(text), MESSAGE_MOST))
    if len(parts) > len(CONDITIONS):
        raise InvalidObject("status.conditions", f"cannot hold the {len(text)} characters that tell of its slots")
    return parts


def _runs(slots: tuple[Slot, ...]) -> Iterator[tuple[Slot, int]]:
    """Equal slots behind each other once, with their number; what containers got tells slices apart."""
    for (slot, _), same in groupby(slots, key=lambda slot: (slot, slot.slices.given if slot.slices else ())):
        yield slot, len(list(same))


def _run(slot: Slot, count: int) -> list[Any]:
    cards: Any = list(map(list, zip(slot.cards, slot.names, strict=True))) if slot.names else list(slot.cards)
    if slot.slices is not None:
        cards = {
            vendor: [[_share(share) for share in shares] for shares in containers]
            for vendor, containers in slot.slices.given
        }
    if count > 1:
        return [slot.node, cards, count]
    return [slot.node, cards] if cards else [slot.node]


def _share(share: Share) -> list[Any]:
    base = [share.uuid, share.index, share.memory_mib, share.cores, share.slots]
    marks = [share.mark] if share.mark else []
    return base + [[one.profile, one.placement.start, one.placement.size] for one in share.partitions] + marks


# Reading -------------------------------------------------------------------------------------------------------------


def with_slots(workload: Workload, obj: Fields) -> Workload:
    """The workload with the slots that its object has on record; `InvalidObject` where the record cannot be read."""
    admission = workload.admission
    messages = _messages(obj) if admission is not None else ()
    if admission is None or not messages:
        return workload
    read = _Reading(f"{obj.path}status.conditions")
    runs = read.runs_by_pod_set(messages)
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    given = []
    for one in admission.pod_sets:
        slots = tuple(read.slots(runs.pop(one.name, []), pod_sets.get(one.name)))
        if len(slots) > one.count:
            raise read.problem(f"tells of {len(slots)} slots of pod set {one.name}, which got {one.count}")
        given.append(replace(one, slots=slots))
    if runs:
        raise read.problem("tells of pod sets that got nothing")
    return workload.changed(admission=replace(admission, pod_sets=tuple(given)))


def recorded_slots(obj: Fields) -> dict[str, tuple[Slot, ...]]:
    """The slots on record by pod set, for those who bind pods to them; they are nobody's charge."""
    messages = _messages(obj)
    read = _Reading(f"{obj.path}status.conditions")
    runs = read.runs_by_pod_set(messages) if messages else {}
    return {name: tuple(read.slots(given, None)) for name, given in runs.items()}


def _messages(obj: Fields) -> tuple[str, ...]:
    found = {one.text("type"): one for one in obj.child("status").children("conditions")}
    held = (found[name] for name in CONDITIONS if name in found)
    return tuple(one.text("message") for one in held if one.text("status") == "True")


class _Reading:
    """One record on its way in. It may hold anything: whoever may write a status can write it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._count = 0
        self._names: dict[str, set[str]] = {}  # of cards, by node

    def problem(self, what: str) -> InvalidObject:
        return InvalidObject(f"{self._path}[{CONDITION}]", what, _HINT)

    def runs_by_pod_set(self, messages: tuple[str, ...]) -> dict[str, list[Any]]:
        """What is written down, by pod set."""
        text = "".join(messages)
        try:
            value = json.loads(self._unpacked(text) if text.startswith(_PACKED) else text)
        except (ValueError, RecursionError):
            raise self.problem("is not readable") from None
        if not isinstance(value, dict) or not all(isinstance(one, list) for one in value.values()):
            raise self.problem("is no list of slots by pod set")
        return value

    def _unpacked(self, text: str) -> str:
        try:
            packing = zlib.decompressobj()
            data = packing.decompress(b64decode(text[len(_PACKED) :], validate=True), TEXT_MOST)
            if packing.unconsumed_tail or not packing.eof:
                raise self.problem("is too long, or cut off")
            return data.decode()
        except (zlib.error, NotBase64, UnicodeDecodeError):
            raise self.problem("is not readable") from None

    def slots(self, runs: list[Any], pod_set: PodSet | None) -> Iterator[Slot]:
        """The slots of one pod set."""
        for run in runs:
            parts: list[Any] = run if isinstance(run, list) and len(run) <= 3 else []
            node = parts[0] if parts else None
            cards = parts[1] if len(parts) > 1 else []
            count = parts[2] if len(parts) > 2 else 1
            if not isinstance(node, str) or not node or not _is_number(count, PODS_MOST):
                raise self.problem("has a slot that is none")
            self._count += count
            if self._count > PODS_MOST:
                raise self.problem(f"tells of more than {PODS_MOST} slots")
            slot = self._sliced(node, cards, pod_set) if isinstance(cards, dict) else self._whole(node, cards)
            yield from [slot] * count

    def _whole(self, node: str, cards: Any) -> Slot:
        if not isinstance(cards, list):
            raise self.problem("has a slot with cards that are no numbers")
        named = [one for one in cards if isinstance(one, list)]
        if not all(len(one) == 2 and isinstance(one[1], str) and 0 < len(one[1]) <= NAME_MOST for one in named):
            raise self.problem("has a slot with a card whose name is none")
        numbers = [one[0] if isinstance(one, list) else one for one in cards]
        if not all(_is_number(one, CARDS_MOST - 1) for one in numbers) or len(named) not in (0, len(cards)):
            raise self.problem("has a slot with cards that are no numbers")
        names = tuple(one[1] for one in named)
        if len(set(numbers)) != len(numbers) or len(set(names)) != len(names):
            raise self.problem("has a slot with a card twice")
        known = self._names.setdefault(node, set())
        known.update(names)
        if len(known) > CARDS_MOST:
            raise self.problem(f"tells of more than {CARDS_MOST} cards of one node")
        return Slot(node, tuple(numbers), None, names)

    def _sliced(self, node: str, cards: Mapping[str, Any], pod_set: PodSet | None) -> Slot:
        given: Given = tuple((vendor, self._containers(vendor, cards[vendor])) for vendor in sorted(cards))
        asked = pod_set.cards if pod_set is not None else None
        init_count = asked.init_count if asked is not None else 0
        shares = tuple(share for _, containers in given for share in standing_shares(containers, init_count))
        apart = read_neighbours(dict(asked.annotations)).apart if asked is not None else None
        return Slot(node, (), Slices(shares, given, tag=_tag(pod_set), apart=apart))

    def _containers(self, vendor: str, containers: Any) -> ContainerShares:
        if not isinstance(containers, list) or not all(isinstance(one, list) for one in containers):
            raise self.problem("has a slot with slices that are none")
        return tuple(tuple(self._share(vendor, one) for one in shares) for shares in containers)

    def _share(self, vendor: str, share: Any) -> Share:
        parts: list[Any] = share if isinstance(share, list) and len(share) >= 5 else [None] * 5
        uuid, numbers = parts[0], parts[1:5]
        if not isinstance(uuid, str) or not all(_is_number(one, AMOUNT_MAX) for one in numbers):
            raise self.problem("has a slice that is none")
        index, memory_mib, cores, slots = numbers
        rest = parts[5:]
        mark = rest.pop() if rest and isinstance(rest[-1], str) else ""
        if len(mark) > NAME_MOST:
            raise self.problem("has a slice with a mark that is none")
        partitions = tuple(self._partition(one) for one in rest)
        return Share(
            uuid=uuid,
            vendor=vendor,
            index=index,
            memory_mib=memory_mib,
            cores=cores,
            slots=slots,
            partitions=partitions,
            mark=mark,
        )

    def _partition(self, value: Any) -> Partition:
        parts: list[Any] = value if isinstance(value, list) and len(value) == 3 else [None] * 3
        profile, start, size = parts
        if not isinstance(profile, str) or not _is_number(start, CARDS_MOST) or not _is_number(size, CARDS_MOST):
            raise self.problem("has a partition that is none")
        return Partition(profile, Placement(start, size))


def _is_number(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _tag(pod_set: PodSet | None) -> PodTag:
    """How other pods see those of a pod set, as the engine tags them when it places them."""
    who = pod_set.rules.who if pod_set is not None else None
    return PodTag(who.namespace, who.labels) if who is not None and who.namespace else NOBODY
