"""Node sets by topology domain: which rows stand together by their nodes' labels, and which domains could hold a gang.

Levels are node labels, widest first. `Domains` is fed by changes of nodes only, beside the node table and with its row
numbers; what is free changes all the time and is passed in. Asked by `gangs.py` and `pod_victims.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import AMOUNT_CAP, BoolArray, IntArray
from muster.engine.numbering import Numbering
from muster.model.topology import Path

_NOWHERE = -1  # the number of a row that stands in no domain of a level


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainWish:
    """How near to each other the pods of a gang go, as labels of nodes; empty: wherever there is room."""

    required: str = ""  # all of them in one domain of this level
    preferred: str = ""  # in a domain of this level if one can hold them, else of the next wider level, and so on


NO_WISH = DomainWish()


@dataclass(frozen=True, slots=True)
class Domain:
    """One domain of a level, by the values of its labels and by its number."""

    level: str
    path: Path
    number: int


@dataclass(frozen=True, slots=True)
class Supply:
    """Something that a gang needs so much of and that rows have so much of: room for pods of a task, or a resource."""

    by_row: IntArray
    needed: int


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Rows to try a gang on."""

    rows: BoolArray | None = None  # None: all of them
    domain: Domain | None = None


class Domains:
    """Which rows stand in which domain, level by level."""

    def __init__(self, levels: Sequence[str]) -> None:
        self.levels = tuple(levels)  # widest first
        self._levels: list[Numbering[Path]] = [Numbering() for _ in self.levels]
        self._numbers: IntArray = np.full((len(self.levels), 0), _NOWHERE, np.int64)

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """Learn where a node stands, or that it stands elsewhere now."""
        self.drop(row)
        self._lengthen(row + 1)
        path: Path = ()
        for position, label in enumerate(self.levels):
            if label not in labels:
                return  # a node without the label of a level is in no domain of that level or a narrower one
            path = (*path, labels[label])
            self._numbers[position, row] = self._levels[position].enter(path)

    def drop(self, row: int) -> None:
        """Learn that a node is gone."""
        if row >= self._numbers.shape[1]:
            return
        for position, number in enumerate(self._numbers[:, row].tolist()):
            if number != _NOWHERE:
                self._levels[position].leave(number)
        self._numbers[:, row] = _NOWHERE

    def levels_of(self, wish: DomainWish) -> tuple[str, ...]:
        """The levels at which to look for a domain, in this order; none when no level has to be kept."""
        known = self.levels
        widest = known.index(wish.required) if wish.required in known else 0
        narrowest = known.index(wish.preferred) if wish.preferred in known else -1
        if wish.required in known:
            narrowest = max(narrowest, widest)
        return tuple(reversed(known[widest : narrowest + 1]))

    def sets_for(
        self, wish: DomainWish, rows: int, *, rooms: Sequence[Supply], amounts: Sequence[Supply] = ()
    ) -> Iterator[NodeSet]:
        """The node sets on which a gang could fit, in the order of trying; hopeless domains are not among them."""
        for level in self.levels_of(wish):
            for domain in self.fitting(level, rooms, amounts):
                yield NodeSet(self.rows_of(domain, rows), domain)
        if not wish.required:
            yield NodeSet()

    def rows_of(self, domain: Domain, rows: int) -> BoolArray:
        """The rows of a domain, as a mask over the first `rows`."""
        mask: BoolArray = self._numbers_of(domain.level, rows) == domain.number
        return mask

    def fitting(self, level: str, rooms: Sequence[Supply], amounts: Sequence[Supply] = ()) -> list[Domain]:
        """The domains that could have all that is needed, those with the least room left over first, ties by name."""
        supplies = [*rooms, *amounts]
        domains, sums = self._sums(level, [supply.by_row for supply in supplies])
        needed = np.array([float(supply.needed) for supply in supplies])
        is_enough = np.all(sums >= needed[:, None], axis=0)
        room = sums[: len(rooms)].sum(axis=0)  # what is needed is the same for all of them
        found = [(int(room[domain.number]), domain.path, domain) for domain in domains if is_enough[domain.number]]
        return [domain for _, _, domain in sorted(found, key=lambda entry: entry[:2])]

    def most_in_one(self, level: str, by_row: IntArray) -> int:
        """The largest sum that one domain of a level has."""
        domains, sums = self._sums(level, [by_row])
        return max((int(sums[0, domain.number]) for domain in domains), default=0)

    def home_of(self, level: str, rows: Sequence[int]) -> Domain | None:
        """The domain where most of these rows stand, the first by name among equals; none when none stands in one."""
        number_by_row = self._numbers_of(level, max(rows, default=-1) + 1)
        numbers = number_by_row[np.array(rows, np.int64)]
        counts = np.bincount(numbers[numbers != _NOWHERE])
        if not counts.any():
            return None
        paths = self._levels[self.levels.index(level)].keys
        path, number = min((paths[number], number) for number in np.flatnonzero(counts == counts.max()).tolist())
        return Domain(level, path, number)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _sums(self, level: str, columns: Sequence[IntArray]) -> tuple[list[Domain], IntArray]:
        """All domains of a level, and what each has in all of each column."""
        own = self._levels[self.levels.index(level)]
        sums = np.zeros((len(columns), len(own.keys) + 1), np.int64)  # the last is of the rows that stand nowhere
        for index, column in enumerate(columns):
            most = AMOUNT_CAP // max(1, len(column))  # so that no sum overflows
            numbers = self._numbers_of(level, len(column))
            np.add.at(sums[index], numbers, np.clip(column, 0, most))
        return [Domain(level, path, number) for path, number in own.number_by_key.items()], sums

    def _numbers_of(self, level: str, rows: int) -> IntArray:
        self._lengthen(rows)
        return self._numbers[self.levels.index(level), :rows]

    def _lengthen(self, rows: int) -> None:
        have = self._numbers.shape[1]
        if rows > have:
            more = max(rows, 2 * have) - have
            self._numbers = np.pad(self._numbers, ((0, 0), (0, more)), constant_values=_NOWHERE)
