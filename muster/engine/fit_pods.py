"""Which pods are on which row, as other pods' rules see them: counted by selector, by term and by host port.

Counts are kept for the selectors that are asked about and move with every pod, so that a pod with rules about other
pods costs a few operations on columns and no walk over pods. Goes along with the node table: `Placer` charges both and
rolls both back. Questions are put by `fit_rules.py` and `fit_scores.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from muster.engine.fit_index import LabelIndex, RowCounts, SelectorIndex
from muster.engine.fit_nodes import NodeFacts
from muster.model.labels import Labels, Selector
from muster.model.pod_rules import NAMESPACE_NAME, HostPort, PodGroup, PodIdentity, PodRules, PodTerm

COUNTS_KEPT = 512  # those asked for longest ago are forgotten first

Groups = tuple[PodGroup, ...]  # pods that are in all of them are meant
Mark = int


class Bond(Enum):
    """What terms of pods that are there have to say about pods that come."""

    REPELS = "required anti-affinity"
    NEEDS = "required affinity"
    LIKES = "preferred affinity and anti-affinity, counted by weight"


@dataclass(frozen=True, slots=True)
class _Change:
    row: int
    rules: PodRules
    count: int  # below zero: they left


class _Count:
    """How many pods of some groups are on each row."""

    __slots__ = ("groups", "is_of_living", "rows")

    def __init__(self, groups: Groups, is_of_living: bool) -> None:
        self.groups = groups
        self.is_of_living = is_of_living  # pods that are being deleted do not count
        self.rows = RowCounts()

    @property
    def selector(self) -> Selector:
        """A selector that all its pods match."""
        selector = self.groups[0].selector
        assert selector is not None, "nobody counts the pods of a group without any"
        return selector

    @property
    def is_by_namespace_labels(self) -> bool:
        return any(group.namespace_selector is not None for group in self.groups)


class _Kind:
    """Pods that nobody's rules can tell apart: where they are, and which counts they are in."""

    __slots__ = ("counts", "rows")

    def __init__(self) -> None:
        self.rows = RowCounts()
        self.counts: list[_Count] = []


class PodsOnNodes:
    """The pods on every row, with an undo record."""

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts
        self._kinds: dict[PodIdentity, _Kind] = {}
        self._kind_index: LabelIndex[PodIdentity] = LabelIndex()
        self._counts: dict[tuple[Groups, bool], _Count] = {}
        self._count_index: SelectorIndex[_Count] = SelectorIndex()
        self._bonds: dict[Bond, dict[PodTerm, RowCounts]] = {bond: {} for bond in Bond}
        self._bond_index: dict[Bond, SelectorIndex[PodTerm]] = {bond: SelectorIndex() for bond in Bond}
        self._ports: dict[int, dict[HostPort, RowCounts]] = {}
        self._namespaces: dict[str, Labels] = {}
        self._record: list[_Change] = []

    # Changes ---------------------------------------------------------------------------------------------------------

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Learn of a namespace's labels, new or changed."""
        self._namespaces[name] = {**labels, NAMESPACE_NAME: name}
        for key, count in tuple(self._counts.items()):
            if count.is_by_namespace_labels:
                self._forget(key)

    def add(self, row: int, rules: PodRules, count: int = 1) -> None:
        """So many pods with these rules come to a row."""
        self._record.append(_Change(row, rules, count))
        self._shift(row, rules, count)

    def remove(self, row: int, rules: PodRules, count: int = 1) -> None:
        """So many pods with these rules leave a row."""
        kind = self._kinds.get(rules.who)
        assert kind is not None and kind.rows.by_row.get(row, 0) >= count, "a row gives back only pods that are there"
        self._record.append(_Change(row, rules, -count))
        self._shift(row, rules, -count)

    def checkpoint(self) -> Mark:
        """A mark that `rollback` returns to."""
        return len(self._record)

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark, newest first."""
        assert mark <= len(self._record), "a checkpoint is rolled back once, and inner ones before outer ones"
        while len(self._record) > mark:
            change = self._record.pop()
            self._shift(change.row, change.rules, -change.count)

    def commit(self) -> None:
        """Keep everything: what happened cannot be undone."""
        self._record.clear()

    # Questions -------------------------------------------------------------------------------------------------------

    def by_row(self) -> dict[int, dict[PodIdentity, int]]:
        """How many pods of each kind are on each row."""
        found: dict[int, dict[PodIdentity, int]] = {}
        for who, kind in self._kinds.items():
            for row, count in kind.rows.by_row.items():
                found.setdefault(row, {})[who] = count
        return found

    def is_one_of(self, who: PodIdentity, group: PodGroup) -> bool:
        """Whether a pod belongs to a group."""
        return group.takes(who.namespace, dict(who.labels), self._labels_of(who.namespace))

    def count(self, groups: Groups, *, is_of_living: bool = False) -> RowCounts:
        """How many pods that are in all of these groups are on each row, those being deleted left out on demand."""
        if any(group.selector is None for group in groups):
            return RowCounts()
        key = (groups, is_of_living)
        count = self._counts.pop(key, None)
        if count is None:
            count = self._new_count(groups, is_of_living)
        self._counts[key] = count  # the newest stands last
        if len(self._counts) > COUNTS_KEPT:
            self._forget(next(iter(self._counts)))
        return count.rows

    def has_bonds(self, *bonds: Bond) -> bool:
        """Whether any pod that is there has such terms."""
        return any(self._bonds[bond] for bond in bonds)

    def bonds_to(self, who: PodIdentity, bond: Bond) -> Iterator[tuple[str, RowCounts]]:
        """Terms of pods that are there and that are about this pod: the topology key, and how many on each row."""
        for term in self._bond_index[bond].candidates(who.labels):
            if self.is_one_of(who, term.group):
                yield term.topology_key, self._bonds[bond][term]

    def rows_with(self, port: HostPort) -> set[int]:
        """The rows on which a host port is taken."""
        taken = self._ports.get(port.port, {})
        return {row for other, rows in taken.items() if port.clashes(other) for row in rows.by_row}

    # Inside ----------------------------------------------------------------------------------------------------------

    def _shift(self, row: int, rules: PodRules, count: int) -> None:
        kind = self._kinds.get(rules.who)
        if kind is None:
            kind = self._new_kind(rules.who)
        kind.rows.add(row, count)
        for each in kind.counts:
            each.rows.add(row, count)
        if not kind.rows.by_row:
            del self._kinds[rules.who]
            self._kind_index.remove(rules.who, rules.who.labels)
        for term in rules.anti_affinity:
            self._bind(Bond.REPELS, term, row, count)
        for term in rules.affinity:
            self._bind(Bond.NEEDS, term, row, count)
        for preferred in rules.preferred_pods:
            self._bind(Bond.LIKES, preferred.term, row, preferred.weight * count)
        for port in rules.ports:
            taken = self._ports.setdefault(port.port, {})
            rows = taken.setdefault(port, RowCounts())
            rows.add(row, count)
            if not rows.by_row:
                del taken[port]

    def _bind(self, bond: Bond, term: PodTerm, row: int, amount: int) -> None:
        selector = term.group.selector
        if selector is None:
            return
        bonds = self._bonds[bond]
        rows = bonds.get(term)
        if rows is None:
            rows = bonds[term] = RowCounts()
            self._bond_index[bond].add(term, selector)
        rows.add(row, amount)
        if not rows.by_row:
            del bonds[term]
            self._bond_index[bond].remove(term, selector)

    def _new_kind(self, who: PodIdentity) -> _Kind:
        kind = self._kinds[who] = _Kind()
        self._kind_index.add(who, who.labels)
        kind.counts = [count for count in self._count_index.candidates(who.labels) if self._is_in(who, count)]
        return kind

    def _new_count(self, groups: Groups, is_of_living: bool) -> _Count:
        count = _Count(groups, is_of_living)
        self._count_index.add(count, count.selector)
        for who in self._kind_index.candidates(count.selector):
            if self._is_in(who, count):
                kind = self._kinds[who]
                kind.counts.append(count)
                for row, pods in kind.rows.by_row.items():
                    count.rows.add(row, pods)
        return count

    def _forget(self, key: tuple[Groups, bool]) -> None:
        count = self._counts.pop(key)
        self._count_index.remove(count, count.selector)
        for who in self._kind_index.candidates(count.selector):
            kind = self._kinds[who]
            kind.counts = [each for each in kind.counts if each is not count]

    def _is_in(self, who: PodIdentity, count: _Count) -> bool:
        if who.is_terminating and count.is_of_living:
            return False
        return all(self.is_one_of(who, group) for group in count.groups)

    def _labels_of(self, namespace: str) -> Labels:
        """A namespace that nobody told of has no labels but its name."""
        return self._namespaces.get(namespace) or {NAMESPACE_NAME: namespace}
