"""What the node table is made of: nodes as they come in, what one pod takes of a node, and views of rows.

Used by `muster/engine/node_table.py` and by the policies, which score whole columns of rows at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.engine.slices_ask import CardAsk
from muster.model.device import Device
from muster.model.pod_rules import ANYWHERE, PodRules
from muster.model.resources import CPU
from muster.model.slices import Slices

if TYPE_CHECKING:
    from muster.engine.card_patterns import CpuRange
    from muster.engine.node_table import NodeTable
    from muster.engine.slices_table import CardColumns

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

WHOLE = 1000  # shares of a card are counted in thousandths
CARDS_CAP = 2**31  # more cards than any node has: who asks for more fits nowhere either
AMOUNT_CAP = 2**62  # what a cell can hold: a node with more counts as having this much, a pod asking more fits nowhere

# How pods use cards, as columns of the table's `kinds`: without any, a part of one, then so many whole ones.
NO_CARD, SHARED = 0, 1

OnCards = tuple[int, ...] | Slices  # what one pod holds of cards: cards by number, or slices of them


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNode:
    """A node as the table takes it in: its allocatable amounts and its cards, all of one model.

    Cards are counted, or known one by one as its node registers them. A row that once knew them one by one does not go
    back to a mere count: what is held of them could not be told any more.
    """

    name: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    cards: int = 0
    model: str = ""
    devices: tuple[Device, ...] = ()  # in the order of their index; empty: only their number is known

    @property
    def card_count(self) -> int:
        return len(self.devices) or self.cards


@dataclass(frozen=True, slots=True)
class Demand:
    """What one pod takes of a node; pods with equal demands share their columns."""

    amounts: tuple[tuple[str, int], ...] = ()  # by resource, in the order of the names
    cards: int = 0
    milli: int = 0  # of each of its cards
    models: tuple[str, ...] = ()  # the card models it may run on; none named: any
    rules: PodRules = ANYWHERE  # what else it asks of its place
    ask: CardAsk | None = None  # slices of cards; `cards` and `milli` are then what policies see of it
    # Worked out when first asked for: demands are looked up again and again.
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)
    _of_nodes: Demand | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert self.cards >= 0 and 0 <= self.milli <= WHOLE, f"{self.cards} cards of {self.milli} thousandths"
        assert (self.cards > 0) == (self.milli > 0), "cards and their share are asked for together"
        assert min([amount for _, amount in self.amounts], default=0) >= 0, "a pod cannot ask for less than nothing"

    def __hash__(self) -> int:
        if self._hash is None:
            value = hash((self.amounts, self.cards, self.milli, self.models, self.rules, self.ask))
            object.__setattr__(self, "_hash", value)
            return value
        return self._hash

    @property
    def of_nodes(self) -> Demand:
        """The same with only those rules that each node answers by itself."""
        if self.rules is ANYWHERE:
            return self
        if self._of_nodes is None:
            object.__setattr__(self, "_of_nodes", replace(self, rules=self.rules.of_nodes))
        assert self._of_nodes is not None, "it has just been set"
        return self._of_nodes

    @property
    def is_shared(self) -> bool:
        """Whether it takes a part of a card only."""
        return 0 < self.milli < WHOLE

    @property
    def card_milli(self) -> int:
        """Everything it takes of cards."""
        return self.cards * self.milli

    @property
    def kind(self) -> int:
        """How it uses cards, as a column of `kinds`."""
        if not self.cards:
            return NO_CARD
        # Slices are parts of cards, however big: one card may give several of them to one pod.
        return SHARED if self.is_shared or self.ask is not None else SHARED + self.cards

    def amount(self, resource: str) -> int:
        for name, amount in self.amounts:
            if name == resource:
                return amount
        return 0


def demand(
    amounts: Mapping[str, int],
    *,
    cards: int = 0,
    milli: int = WHOLE,
    models: tuple[str, ...] = (),
    rules: PodRules = ANYWHERE,
) -> Demand:
    """The demand of a pod from its requests by resource; without cards the share is none."""
    wanted = tuple(sorted(set(models))) if models else ()
    return Demand(_known(amounts), min(cards, CARDS_CAP), milli if cards else 0, wanted, rules)


def _known(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted([pair for pair in amounts.items() if pair[1]]))


def slice_demand(amounts: Mapping[str, int], ask: CardAsk, *, card_memory_mib: int = 0) -> Demand:
    """The demand of a pod that asks for slices of cards.

    Policies see which part of a card it takes, in whole per cents, so that they have few kinds of pods to tell apart:
    an amount of memory counts as its part of a card of `card_memory_mib`, the usual size in the cluster, and as next to
    nothing where that is not known. What fits where is decided by the amounts themselves.
    """
    return Demand(_known(amounts), min(ask.cards, CARDS_CAP), ask.percent(card_memory_mib) * WHOLE // 100, ask=ask)


class Placed(NamedTuple):
    """Where one pod went: the row of its node and the cards it got there."""

    row: int
    cards: tuple[int, ...] = ()
    slices: Slices | None = None  # of a pod that asks for slices

    @property
    def held(self) -> OnCards:
        """What is charged and given back."""
        return self.cards if self.slices is None else self.slices


class Scores(NamedTuple):
    """A policy's opinion on rows: the higher the better, and for pods of one card which card is best."""

    values: FloatArray | IntArray
    card: IntArray | None = None  # None: no opinion, the tightest card that fits


class NodeRows:
    """Some rows of the table, or all of them, as columns; what is not looked at is not copied."""

    __slots__ = ("_index", "_table")

    def __init__(self, table: NodeTable, index: IntArray | None = None) -> None:
        self._table = table
        self._index = index  # None: every row, in place

    def __len__(self) -> int:
        return self._table.row_count if self._index is None else len(self._index)

    @property
    def is_all(self) -> bool:
        """Whether these are all rows of the table."""
        return self._index is None

    @property
    def model_names(self) -> tuple[str, ...]:
        """The card models that `model` numbers."""
        return self._table.model_names

    @property
    def resources(self) -> tuple[str, ...]:
        return self._table.resources

    @property
    def cards(self) -> IntArray:
        """Free thousandths, one column per card; cards that a node has not are never free."""
        return self._rows_of(self._table.cards)

    @property
    def card_width(self) -> int:
        """How many cards the node with most of them has."""
        return int(self._table.cards.shape[1])

    @property
    def card_count(self) -> IntArray:
        return self._cells_of(self._table.card_count)

    @property
    def card_most(self) -> IntArray:
        """Free thousandths of the emptiest card."""
        return self._cells_of(self._table.card_most)

    @property
    def card_sum(self) -> IntArray:
        """Free thousandths of all cards."""
        return self._cells_of(self._table.card_sum)

    @property
    def slices(self) -> CardColumns:
        """What is known of cards one by one, for all rows; `by_card` cuts its matrices to these rows."""
        return self._table.slices

    def by_card(self, matrix: IntArray) -> IntArray:
        """The columns of a matrix of cards by rows that belong to these rows."""
        return matrix[:, : len(self)] if self._index is None else matrix[:, self._index]

    @property
    def numbers(self) -> IntArray:
        """Which rows of the table these are."""
        return np.arange(len(self)) if self._index is None else self._index

    @property
    def pattern(self) -> IntArray:
        """Numbers below `pattern_count`, equal for rows of one model whose cards are alike, one by one."""
        return self._cells_of(self._table.pattern)

    @property
    def pattern_count(self) -> int:
        return self._table.pattern_count

    def cards_of_pattern(self, number: int) -> tuple[int, tuple[int, ...]]:
        """The model of a pattern, as `model` numbers it, and its cards as `cards` has them."""
        return self._table.cards_of_pattern(number)

    @property
    def cpu_ranges(self) -> Mapping[int, CpuRange]:
        """By pattern, for all rows of the table: between which amounts the free cpu of those that have it lies."""
        return self._table.patterns.ranges()

    def pick(self, index: IntArray) -> NodeRows:
        """Some of these rows."""
        return NodeRows(self._table, index if self._index is None else self._index[index])

    @property
    def model(self) -> IntArray:
        return self._cells_of(self._table.model)

    @property
    def kinds(self) -> IntArray:
        """How many pods of each kind of card use are on the node."""
        return self._rows_of(self._table.kinds)

    @property
    def is_present(self) -> BoolArray:
        present = self._table.is_present
        return present[: len(self)] if self._index is None else present[self._index]

    def free(self, resource: str = CPU) -> IntArray:
        """What is free of a resource; nothing where no node has it."""
        return self._column(self._table.free, resource)

    def total(self, resource: str = CPU) -> IntArray:
        return self._column(self._table.total, resource)

    def _column(self, matrix: IntArray, resource: str) -> IntArray:
        column = self._table.column_of(resource)
        if column is None:
            return np.zeros(len(self), np.int64)
        return self._cells_of(matrix[column])

    def _rows_of(self, matrix: IntArray) -> IntArray:
        return matrix[: len(self)] if self._index is None else matrix[self._index]

    def _cells_of(self, vector: IntArray) -> IntArray:
        return vector[: len(self)] if self._index is None else vector[self._index]
