"""What is known of every node beside its amounts: labels, taints, whether it takes pods; asked a column at a time.

Rows are those of the node table. Labels are numbered columns, so that a requirement is worked out once for each value
and looked up for all rows; answers are kept and brought up to date for the rows that changed. Fed by whoever feeds the
table, asked by `Placer`, by the rules about pods in `fit_rules.py`, and by `why_not`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from muster.engine.arrays import grown
from muster.engine.fit_reasons import Misfit, Refusal, RefusedRows
from muster.engine.node_table_rows import BoolArray, IntArray
from muster.engine.row_notes import RowNotes
from muster.model.labels import (
    PREFER_NO_SCHEDULE,
    NodeTerm,
    NodeTerms,
    Operator,
    PreferredTerm,
    Requirement,
    Taint,
    Toleration,
    first_untolerated,
)
from muster.model.pod_rules import LabelPairs, NodeRules
from muster.model.topology import Node

CORDONED = Taint("node.kubernetes.io/unschedulable")
NOT_READY = Taint("node.kubernetes.io/not-ready")
_SAY_NOT_READY = (NOT_READY.key, "node.kubernetes.io/unreachable")

MASKS_KEPT = 512  # those asked for longest ago are forgotten first
_VALUES_LEAST = 4096

_Rows = slice | IntArray
_ALL = slice(None)
_Cell = TypeVar("_Cell", bound=np.generic)


class LabelColumn:
    """The value of one label on every row, as a number; 0 stands for rows without the label."""

    __slots__ = ("_ids", "_numbers", "_row_count")

    def __init__(self, values: Iterable[str | None]) -> None:
        self._numbers: dict[str, int] = {}
        self._ids: IntArray = np.fromiter((self._number(value) for value in values), np.int64)
        self._row_count = len(self._ids)

    @property
    def ids(self) -> IntArray:
        return self._ids[: self._row_count]

    @property
    def width(self) -> int:
        """One more than the highest number."""
        return len(self._numbers) + 1

    def number_of(self, value: str) -> int:
        """The value's number; one that no row has is none of theirs."""
        return self._numbers.get(value, -1)

    def put(self, row: int, value: str | None) -> None:
        if row >= len(self._ids):
            self._ids = grown(self._ids, row + 1)
        self._row_count = max(self._row_count, row + 1)
        self._ids[row] = self._number(value)

    def holds(self, requirement: Requirement, rows: _Rows = _ALL) -> BoolArray:
        """Which rows meet a requirement on this label."""
        match requirement.operator:
            case Operator.IN | Operator.NOT_IN:
                is_met = np.zeros(self.width, np.bool_)
                known = (self._numbers.get(value) for value in requirement.values)
                is_met[[number for number in known if number is not None]] = True
                if requirement.operator is Operator.NOT_IN:
                    is_met = ~is_met
            case Operator.EXISTS | Operator.DOES_NOT_EXIST:
                is_met = np.full(self.width, requirement.operator is Operator.EXISTS)
                is_met[0] = not is_met[0]
            case _:
                met = (requirement.matches({requirement.key: value}) for value in self._numbers)
                is_met = np.fromiter((False, *met), np.bool_)
        answer: BoolArray = is_met[self.ids[rows]]
        return answer

    def _number(self, value: str | None) -> int:
        return 0 if value is None else self._numbers.setdefault(value, len(self._numbers) + 1)


class _Kept:
    """An answer for every row, and when it was right."""

    __slots__ = ("tick", "values")

    def __init__(self, values: BoolArray, tick: int) -> None:
        self.values = values
        self.tick = tick


class NodeFacts:
    """Labels, taints and state of the nodes in the table's rows."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._is_present: BoolArray = np.zeros(0, np.bool_)
        self._nodes: list[Node] = []
        self._names = LabelColumn(())
        self._columns: dict[str, LabelColumn] = {}
        self._taint_sets: dict[tuple[Taint, ...], int] = {}
        self._taint_ids: IntArray = np.zeros(0, np.int64)
        self._kept: dict[Hashable, _Kept] = {}
        self._suits: dict[NodeRules, _Kept] = {}
        self._notes = RowNotes()
        for row, node in enumerate(nodes):
            self.put(row, node)

    # Changes ---------------------------------------------------------------------------------------------------------

    def put(self, row: int, node: Node) -> None:
        """Learn of a node, new or changed, in the row that the table gave it."""
        assert row <= self.row_count, "rows come in the table's order"
        if row == self.row_count:
            self._nodes.append(node)
            self._is_present = _with_room(self._is_present, row + 1)
            self._taint_ids = _with_room(self._taint_ids, row + 1)
        self._nodes[row] = node
        self._is_present[row] = True
        self._put_taints(row)
        self._names.put(row, node.name)
        for key, column in tuple(self._columns.items()):
            column.put(row, node.labels.get(key))
            if column.width > _VALUES_LEAST + 2 * self.row_count:
                del self._columns[key]  # most of its values are of the past; it is made anew when asked for
        self._note(row)

    def drop(self, row: int) -> None:
        """Learn that a node is gone: what is on it counts for nobody until it comes back."""
        self._is_present[row] = False
        self._note(row)

    def _put_taints(self, row: int) -> None:
        renewed: Iterable[int] = (row,)
        if len(self._taint_sets) > _VALUES_LEAST + 2 * self.row_count:
            self._taint_sets.clear()  # most of them are of the past
            renewed = range(self.row_count)
        for each in renewed:
            taints = taints_of(self._nodes[each])
            self._taint_ids[each] = self._taint_sets.setdefault(taints, len(self._taint_sets))

    @property
    def row_count(self) -> int:
        return len(self._nodes)

    @property
    def tick(self) -> int:
        """Counts the changes so far."""
        return self._notes.tick

    def changed_since(self, tick: int) -> IntArray:
        """The rows that changed after `tick`, each once."""
        return self._notes.since(tick)

    def _note(self, row: int) -> None:
        self._notes.add(row)

    # Questions -------------------------------------------------------------------------------------------------------

    def node(self, row: int) -> Node:
        return self._nodes[row]

    @property
    def is_present(self) -> BoolArray:
        """Which rows have a node now."""
        return self._is_present[: self.row_count]

    def column(self, key: str) -> LabelColumn:
        """A label's values, made when first asked for and kept in step from then on."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(node.labels.get(key) for node in self._nodes)
        return column

    def suits(self, rules: NodeRules) -> BoolArray:
        """Which rows the node itself lets the pod on."""
        kept = self._suits.get(rules)
        if kept is None or kept.tick != self.tick:
            fit = self.tolerated(rules.tolerations) & self.selected(rules.selector, rules.affinity)
            for terms in rules.volumes:
                fit &= self._reaches(terms)
            if len(self._suits) >= MASKS_KEPT:
                self._suits.clear()
            kept = self._suits[rules] = _Kept(fit, self.tick)
        return kept.values

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> BoolArray:
        """Which rows have no taint that keeps the pod away."""

        def answer(rows: _Rows) -> BoolArray:
            is_open = [first_untolerated(taints, tolerations) is None for taints in self._taint_sets]
            return np.array(is_open, np.bool_)[self._taint_ids[: self.row_count][rows]]

        return self._kept_answer((Misfit.TAINT, tolerations), answer)

    def selected(self, selector: LabelPairs, affinity: NodeTerms | None) -> BoolArray:
        """Which rows have the labels that the pod asks for."""

        def answer(rows: _Rows) -> BoolArray:
            fit = self._labelled(selector, rows)
            return fit if affinity is None else fit & self._matches(affinity, rows)

        return self._kept_answer((Misfit.NODE_AFFINITY, selector, affinity), answer)

    def liked(self, terms: Iterable[PreferredTerm]) -> IntArray:
        """How much each row is liked: the weights of the preferred terms that it matches."""
        total = np.zeros(self.row_count, np.int64)
        for preferred in terms:
            total += preferred.weight * self._matches((preferred.term,), _ALL)
        return total

    def disliked(self, tolerations: tuple[Toleration, ...]) -> IntArray:
        """How many taints of each row would rather keep the pod away."""
        mild = (PREFER_NO_SCHEDULE,)
        counts = [
            sum(first_untolerated((taint,), tolerations, mild) is not None for taint in taints)
            for taints in self._taint_sets
        ]
        answer: IntArray = np.array(counts, np.int64)[self._taint_ids[: self.row_count]]
        return answer

    @property
    def has_mild_taints(self) -> bool:
        """Whether any node that was seen would rather keep some pods away."""
        return any(taint.effect == PREFER_NO_SCHEDULE for taints in self._taint_sets for taint in taints)

    def refusals(self, rules: NodeRules) -> list[RefusedRows]:
        """Each reason for which nodes by themselves refuse the pod, with its rows."""
        found: dict[Refusal, BoolArray] = {}
        ids = self._taint_ids[: self.row_count]
        for taints, number in self._taint_sets.items():
            taint = first_untolerated(taints, rules.tolerations)
            if taint is not None:
                reason = _taint_refusal(taint)
                found[reason] = found.get(reason, self._full(_ALL, False)) | (ids == number)
        found[Refusal(Misfit.NODE_SELECTOR)] = ~self._labelled(rules.selector, _ALL)
        if rules.affinity is not None:
            found[Refusal(Misfit.NODE_AFFINITY)] = ~self._matches(rules.affinity, _ALL)
        if rules.volumes:
            found[Refusal(Misfit.VOLUME)] = ~np.all([self._reaches(terms) for terms in rules.volumes], axis=0)
        return list(found.items())

    # Inside ----------------------------------------------------------------------------------------------------------

    def _kept_answer(self, key: Hashable, answer: Callable[[_Rows], BoolArray]) -> BoolArray:
        """An answer from what is kept, with the rows that changed asked anew."""
        kept = self._kept.pop(key, None)
        if kept is None:
            kept = _Kept(answer(_ALL), self.tick)
        elif kept.tick != self.tick:
            changed = self.changed_since(kept.tick)
            if len(kept.values) < self.row_count:
                kept.values = grown(kept.values, self.row_count - len(kept.values))
            kept.values[changed] = answer(changed)
            kept.tick = self.tick
        self._kept[key] = kept  # the newest stands last
        if len(self._kept) > MASKS_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept.values

    def _full(self, rows: _Rows, value: bool) -> BoolArray:
        return np.full(self.row_count if isinstance(rows, slice) else len(rows), value, np.bool_)

    def _labelled(self, selector: LabelPairs, rows: _Rows) -> BoolArray:
        fit = self._full(rows, True)
        for key, value in selector:
            column = self.column(key)
            fit &= column.ids[rows] == column.number_of(value)
        return fit

    def _matches(self, terms: NodeTerms, rows: _Rows, *, is_by_name: bool = True) -> BoolArray:
        """Which rows match one of the terms at least; a term that says nothing matches none."""
        fit = self._full(rows, False)
        for term in terms:
            if term != NodeTerm():
                fit |= self._matches_term(term, rows, is_by_name=is_by_name)
        return fit

    def _matches_term(self, term: NodeTerm, rows: _Rows, *, is_by_name: bool) -> BoolArray:
        parts = [self.column(requirement.key).holds(requirement, rows) for requirement in term.expressions]
        if is_by_name:
            parts += [self._names.holds(requirement, rows) for requirement in term.names]
        fit = self._full(rows, True)
        for part in parts:
            fit &= part
        return fit

    def _reaches(self, terms: NodeTerms) -> BoolArray:
        # Kubernetes looks at a volume's terms with a node's labels only, so its name is not compared.
        return self._kept_answer((Misfit.VOLUME, terms), lambda rows: self._matches(terms, rows, is_by_name=False))


def taints_of(node: Node) -> tuple[Taint, ...]:
    """A node's taints with those that Kubernetes gives to nodes in its state, which may not have arrived yet."""
    implied = []
    if not node.is_schedulable:
        implied.append(CORDONED)
    if not node.is_ready and not any(taint.key in _SAY_NOT_READY for taint in node.taints):
        implied.append(NOT_READY)
    return (*implied, *(taint for taint in node.taints if taint not in implied))


def _taint_refusal(taint: Taint) -> Refusal:
    if taint.key == CORDONED.key:
        return Refusal(Misfit.UNSCHEDULABLE)
    if taint.key in _SAY_NOT_READY:
        return Refusal(Misfit.NOT_READY)
    value = f"={taint.value}" if taint.value else ""
    return Refusal(Misfit.TAINT, f"{taint.key}{value}:{taint.effect}")


def _with_room(array: NDArray[_Cell], rows: int) -> NDArray[_Cell]:
    """The array, twice as long when it has no room for so many rows, so that nodes can come one by one."""
    return array if rows <= len(array) else grown(array, rows)
