"""Cards one by one: what is held of each card that a node registered, who holds it, and columns of what is left.

Part of the node table, which calls it and keeps the record for undoing. Everything is a sum of what is held, so pods
may leave in any order, and a card that was gone for a while comes back with what is held of it.

A card is given out in two ways, and both count against the same card: by parts in thousandths, which take that part of
its memory and of its cores, and by slices, which take so much memory, so many cores and one of its slots each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from muster.engine.arrays import grown
from muster.engine.node_table_rows import WHOLE, BoolArray, IntArray, OnCards
from muster.model.device import Card, Cards, Device, DeviceUse, Partition, Share
from muster.model.slices import PodTag, Slices

NO_ROOM = -1  # below any amount of memory that can be asked for
NO_KIND = 0
_GAPS_MOST = 16  # cards that a node has lost and whose numbers are kept free

Key = TypeVar("Key", bound=Hashable)

_NO_DEVICE = Device(uuid="", memory_mib=0, cores=0, slots=0, is_healthy=False)


@dataclass(slots=True)
class _Place:
    """One card of a row and what is held of it."""

    device: Device
    is_here: bool = True  # else the node has lost it, or never had it
    parts: int = 0  # thousandths
    sharers: int = 0  # who hold those parts
    memory_mib: int = 0  # of slices, as are the next two
    cores: int = 0
    slots: int = 0
    card: Card | None = None  # as `Card`, until something changes

    @property
    def is_usable(self) -> bool:
        return self.is_here and self.device.is_healthy and not self.device.is_cordoned

    @property
    def is_held(self) -> bool:
        return bool(self.parts or self.sharers or self.slots or self.memory_mib or self.cores)

    def left(self) -> tuple[int, int, int]:
        """Memory, cores and slots that are left; parts are rounded up together, not one by one."""
        device = self.device
        slots = device.slots - self.slots - self.sharers
        return (
            device.memory_mib - self.memory_mib - -(-device.memory_mib * self.parts // WHOLE),
            device.cores - self.cores - -(-device.cores * self.parts // WHOLE),
            slots if self.parts < WHOLE else min(slots, 0),  # a whole card is nobody else's
        )

    def milli(self, slots_left: int) -> int:
        """What is left to be given out by parts, in thousandths: the least of memory and cores."""
        device = self.device
        # Nobody knows how much a card without memory has, and one that its driver cuts is given out by partitions only.
        if not device.memory_mib or device.is_partitioned or not device.is_counted:
            return min(0, -self.parts)
        left = (device.memory_mib - self.memory_mib) * WHOLE // device.memory_mib
        if device.cores:
            left = min(left, (device.cores - self.cores) * WHOLE // device.cores)
        if self.slots:
            left = min(left, WHOLE - 1)  # a card that somebody is on is not whole, however little that one holds
        left -= self.parts
        return left if self.is_usable and slots_left > 0 else min(left, 0)


class CardColumns:
    """What is left of every registered card, as matrices of cards by rows, and who holds slices of which."""

    def __init__(self) -> None:
        self.memory: IntArray = np.zeros((0, 0), np.int64)  # MiB left
        self.cores: IntArray = np.zeros((0, 0), np.int64)  # per cent left
        self.slots: IntArray = np.zeros((0, 0), np.int64)  # how many more may share it
        self.is_usable: BoolArray = np.zeros((0, 0), np.bool_)  # there, healthy and not cordoned
        self.room: IntArray = np.zeros((0, 0), np.int64)  # memory left where anybody can get in at all
        self.kind: IntArray = np.zeros((0, 0), np.int64)  # which of `kinds` it is
        self.numa: IntArray = np.zeros((0, 0), np.int64)
        self.kinds: list[Device] = [_NO_DEVICE]  # an example of each vendor, model, mode and size
        self._kind_numbers: dict[Hashable, int] = {}
        self._places: dict[int, list[_Place]] = {}
        self._columns: dict[int, dict[str, int]] = {}  # by row and uuid, also of cards that are gone and still held
        self._present: dict[int, tuple[int, ...]] = {}  # by row: those that are here, in the order of its devices
        self._holders: dict[int, dict[Slices, int]] = {}  # by row: how many hold just that
        self._tags: dict[PodTag, dict[int, int]] = {}  # by row: how many such pods hold slices there
        self._rows_by_uuid: dict[str, set[int]] = {}
        # By row that has not registered its cards yet: the names of those that are held by number.
        self._held_names: dict[int, dict[str, int]] = {}

    # Changes from outside --------------------------------------------------------------------------------------------

    def lengthen(self, rows: int) -> None:
        """Make room for rows."""
        self._grow(len(self.memory), rows)

    def is_known(self, row: int) -> bool:
        """Whether the cards of a row are known one by one."""
        return row in self._places

    def width_of(self, row: int) -> int:
        """How many columns the cards of a row take."""
        return len(self._places[row])

    def put(self, row: int, devices: Sequence[Device], held: Sequence[tuple[int, int]]) -> int:
        """Learn of a node's cards; gives how many columns they need. A card keeps its column as long as it is held.

        `held` are parts and sharers by number, of a node whose cards were only counted so far.
        """
        places = self._places.setdefault(row, [])
        before = self._columns.get(row, {})
        for place in places:
            place.is_here, place.card = False, None
        kept = {uuid: column for uuid, column in before.items() if places[column].is_held}
        vacant = dict.fromkeys(column for column, place in enumerate(places) if not place.is_held)
        # Held by number while no card stood there.
        nameless = {column for column, place in enumerate(places) if place.is_held and place.device is _NO_DEVICE}
        for number, (parts, sharers) in enumerate(held):
            places.append(_Place(_NO_DEVICE, is_here=False, parts=parts, sharers=sharers))
            vacant[number] = None  # whoever holds a card by number holds the one that stands there now
        for uuid, number in self._held_names.pop(row, {}).items():
            if number < len(places) and places[number].is_held:
                kept[uuid] = number  # whoever holds it by name holds that one, whatever its number is by now
                vacant.pop(number, None)
                nameless.discard(number)
        # A card stands at the number that its node gives it: whoever holds that number holds it after a restart too.
        wanted = {device.index for device in devices if device.index < len(devices) + _GAPS_MOST}
        while len(wanted) == len(devices) and len(places) <= max(wanted, default=-1):
            vacant[len(places)] = None
            places.append(_Place(_NO_DEVICE, is_here=False))
        columns: dict[str, int] = {}
        for device in devices:
            if device.uuid in columns:
                continue  # a second card of one name cannot be told from the first, so it is not given out
            column = kept.pop(device.uuid, None)
            if column is None:
                is_its_own = device.index in vacant or device.index in nameless
                column = device.index if is_its_own else next(iter(vacant), len(places))
                vacant.pop(column, None)
                nameless.discard(column)
            if column == len(places):
                places.append(_Place(device))
            places[column].device, places[column].is_here = device, True
            columns[device.uuid] = column
        self._columns[row] = columns | kept
        self._present[row] = tuple(columns.values())
        self._name_row(row, before, self._columns[row])
        self._grow(len(places), self.memory.shape[1])
        self._hold_anew(row)
        return len(places)

    def _name_row(self, row: int, before: Iterable[str], now: Iterable[str]) -> None:
        for uuid in before:
            self._rows_by_uuid[uuid].discard(row)
            if not self._rows_by_uuid[uuid]:
                del self._rows_by_uuid[uuid]
        for uuid in now:
            self._rows_by_uuid.setdefault(uuid, set()).add(row)

    def _hold_anew(self, row: int) -> None:
        """Count again what slices hold of each card of a row: which cards they are of may have changed."""
        for place in self._places[row]:
            place.memory_mib = place.cores = place.slots = 0
        for held, count in self._holders.get(row, {}).items():
            self._add(row, held, count)

    # What pods hold --------------------------------------------------------------------------------------------------

    def take_part(self, row: int, column: int, *, milli: int, sign: int) -> None:
        """Give out a part of a card, or take it back."""
        places = self._places[row]
        if column >= len(places):  # its node has fewer cards by now
            places.extend(_Place(_NO_DEVICE, is_here=False) for _ in range(column + 1 - len(places)))
            self._grow(len(places), self.memory.shape[1])
        place = places[column]
        place.parts += sign * milli
        place.sharers += sign
        place.card = None

    def take(self, row: int, held: Slices, sign: int) -> list[int]:
        """Give out slices, or take them back; gives the columns of those cards that are here."""
        holders = self._holders.setdefault(row, {})
        _count(holders, held, sign)
        if not holders:
            del self._holders[row]
        rows = self._tags.setdefault(held.tag, {})
        _count(rows, row, sign)
        if not rows:
            del self._tags[held.tag]
        return self._add(row, held, sign)

    def _add(self, row: int, held: Slices, count: int) -> list[int]:
        columns = self._columns_of(row, held)
        for share, column in columns:
            place = self._places[row][column]
            place.memory_mib += count * share.memory_mib
            place.cores += count * share.cores
            place.slots += count * share.slots
            place.card = None
        return [column for _, column in columns]

    def _columns_of(self, row: int, held: Slices) -> list[tuple[Share, int]]:
        known = self._columns.get(row, {})
        return [(share, known[share.uuid]) for share in held.shares if share.uuid in known]

    def settle(self, row: int, column: int) -> int:
        """Bring the columns of one card up to date; gives what is left of it in thousandths."""
        place = self._places[row][column]
        memory, cores, slots = place.left()
        self.memory[column, row], self.cores[column, row], self.slots[column, row] = memory, cores, slots
        is_usable = place.is_usable
        # A card without any cores left takes nobody, but one that never had any is not shared by cores.
        is_open = is_usable and slots > 0 and (cores > 0 or cores == place.device.cores == 0)
        self.room[column, row] = memory if is_open else NO_ROOM
        self.is_usable[column, row] = is_usable
        return place.milli(slots)

    def settle_node(self, row: int) -> list[int]:
        """Bring all cards of a row up to date, also what does not change with use; gives thousandths by column."""
        for column, place in enumerate(self._places[row]):
            self.kind[column, row] = self._kind_of(place.device) if place.is_here else NO_KIND
            self.numa[column, row] = place.device.numa
        return [self.settle(row, column) for column in range(len(self._places[row]))]

    def is_sound(self, row: int, pods: Iterable[OnCards]) -> bool:
        """Whether no card of these pods is given out more than it has; cards that a node lost may be owed."""
        for held in pods:
            columns = held if isinstance(held, tuple) else [column for _, column in self._columns_of(row, held)]
            if not all(_is_within_its_card(self._places[row][column]) for column in columns):
                return False
            if isinstance(held, Slices) and self._has_overlap(row, held):
                return False
        return True

    def _has_overlap(self, row: int, held: Slices) -> bool:
        """Whether a pod's partitions lie on those of others."""
        for share in held.shares:
            own = [part.placement for part in share.partitions]
            if not own:
                continue
            others = _partitions((one for one in self._holders[row] if one != held), share.uuid)
            if any(place.overlaps(other.placement) for place in own for other in others):
                return True
        return False

    # Questions -------------------------------------------------------------------------------------------------------

    def cards_of(self, row: int) -> Cards:
        """The cards of a row with what is taken of each, in the order in which its node names them."""
        places = self._places.get(row, [])
        return tuple(places[column].card or self._made(row, places[column]) for column in self.columns_of(row))

    def columns_of(self, row: int) -> tuple[int, ...]:
        """Where the cards of a row stand in the matrices, in the order of `cards_of`."""
        return self._present.get(row, ())

    def _made(self, row: int, place: _Place) -> Card:
        device = place.device
        memory, cores, slots = place.left()
        use = DeviceUse(
            slots=device.slots - slots,
            memory_mib=device.memory_mib - memory,
            cores=device.cores - cores,
            partitions=_partitions(self._holders.get(row, ()), device.uuid) if device.is_partitioned else (),
            marks=() if device.is_counted else _marks(self._holders.get(row, {}), device.uuid),
        )
        place.card = Card(device, use)
        return place.card

    def names_at(self, row: int, columns: Sequence[int]) -> tuple[str, ...]:
        """The names of cards; none where they are only counted."""
        places = self._places.get(row)
        return tuple([places[column].device.uuid for column in columns]) if places is not None else ()

    def column_of(self, row: int, uuid: str, number: int) -> int:
        """Where a card stands that somebody holds by name; one that its node has lost gets a column of its own.

        Cards that are only counted stand at their number; when they are registered, they are told by the name.
        """
        if row not in self._places:
            self._held_names.setdefault(row, {})[uuid] = number
            return number
        columns = self._columns[row]
        if uuid not in columns:
            columns[uuid] = len(self._places[row])
            self._places[row].append(_Place(replace(_NO_DEVICE, uuid=uuid), is_here=False))
            self._name_row(row, (), (uuid,))
            self._grow(len(self._places[row]), self.memory.shape[1])
        return columns[uuid]

    def columns_held(self, row: int, held: Slices) -> tuple[int, ...]:
        """Where the cards of slices stand, as far as they are known."""
        return tuple(column for _, column in self._columns_of(row, held))

    def holders_on(self, row: int) -> Iterable[Slices]:
        """Those who hold slices of a row's cards."""
        return self._holders.get(row, {}).keys()

    def rows_holding(self, is_meant: Callable[[PodTag], bool]) -> set[int]:
        """The rows on which such pods hold slices."""
        return {row for tag, rows in self._tags.items() if is_meant(tag) for row in rows}

    def rows_with(self, uuids: Iterable[str]) -> set[int]:
        """The rows that have any of these cards."""
        return {row for uuid in uuids for row in self._rows_by_uuid.get(uuid, ())}

    # Inside ----------------------------------------------------------------------------------------------------------

    def _kind_of(self, device: Device) -> int:
        key = (device.vendor, device.model, device.mode, device.memory_mib, device.cores, device.slots)
        number = self._kind_numbers.get(key)
        if number is None:
            number = self._kind_numbers[key] = len(self.kinds)
            self.kinds.append(device)
        return number

    def _grow(self, columns: int, rows: int) -> None:
        more = max(0, columns - self.memory.shape[0]), max(0, rows - self.memory.shape[1])
        if more == (0, 0):
            return
        self.memory, self.cores, self.slots = (grown(one, *more) for one in (self.memory, self.cores, self.slots))
        self.kind, self.numa = grown(self.kind, *more), grown(self.numa, *more)
        self.is_usable = grown(self.is_usable, *more)
        self.room = grown(self.room, *more, fill=NO_ROOM)


def _is_within_its_card(place: _Place) -> bool:
    memory, cores, slots = place.left()
    if not place.is_here:
        return True
    if place.device.is_partitioned:
        # Where partitions lie decides; how much memory they have all together is the word of the node.
        return slots >= 0 and not place.parts
    return min(memory, cores, slots) >= 0 and (place.parts < WHOLE or not place.slots)


def _count(counts: dict[Key, int], key: Key, step: int) -> None:
    """Count one up or down; nothing is kept of what comes to zero."""
    count = counts.get(key, 0) + step
    assert count >= 0, f"{key} is given back and was not held"
    if count:
        counts[key] = count
    else:
        del counts[key]


def _partitions(holders: Iterable[Slices], uuid: str) -> tuple[Partition, ...]:
    """The partitions of a card that are taken, by where they lie."""
    found = {part for held in holders for share in held.shares if share.uuid == uuid for part in share.partitions}
    return tuple(sorted(found, key=lambda part: (part.placement.start, part.placement.size, part.profile)))


def _marks(holders: Mapping[Slices, int], uuid: str) -> tuple[str, ...]:
    """What those who hold shares of a card tell of themselves."""
    found = [
        share.mark
        for held, count in holders.items()
        for share in held.shares
        if share.uuid == uuid and share.mark
        for _ in range(count)
    ]
    return tuple(sorted(found))
