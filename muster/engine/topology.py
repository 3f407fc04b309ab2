"""Topology: the trees of all flavors, fed by changes, and the search for places in them.

`Topologies` is owned by the engine's state. It learns of nodes, of pods that no assignment accounts for, and of what
workloads hold; a cycle takes a checkpoint, charges and releases as it tries things, and rolls back, as with the ledger.
Searching changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from muster.engine.topology_find import Finder, group_of
from muster.engine.topology_leaves import pod_amounts
from muster.engine.topology_replace import Assignments, grown, replaced, taken_over
from muster.engine.topology_request import refusal
from muster.engine.topology_tree import EMPTY, NOW, DomainTree, Pool
from muster.model.flavor import Flavor
from muster.model.topology import (
    HOSTNAME,
    BoundPod,
    Node,
    Path,
    PlacedPods,
    Placement,
    PlacementAsk,
    PlacementRefusal,
    TopologyAssignment,
    TopologyRules,
    Unplaced,
)
from muster.model.workload import PodSet

Mark = int
Asks = Mapping[str, Sequence[PlacementAsk]]  # by flavor, in the order of the pod sets


@dataclass(frozen=True, slots=True)
class PlacedUse:
    """What the pods of one pod set hold: where they are, in which flavor, and what one of them requests."""

    flavor: str
    assignment: TopologyAssignment
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Change:
    """What came to a leaf, or went."""

    pool: Pool
    column: int
    key: Path
    amounts: Mapping[str, int]
    sign: int


class Topologies:
    """The trees of all flavors that have a topology, and what is held of them."""

    def __init__(self, flavors: Iterable[Flavor], rules: TopologyRules | None = None) -> None:
        self.rules = rules or TopologyRules()
        self.trees: dict[str, DomainTree] = {}
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, BoundPod] = {}
        self._held: dict[str, dict[str, int]] = {}  # by node: what pods without an assignment hold
        self._record: list[_Change] = []
        resources: dict[str, int] = {}
        hosts = Pool()
        for flavor in sorted(flavors, key=lambda flavor: flavor.name):
            if flavor.topology_levels:
                is_merged = self.rules.merges_flavors and flavor.topology_levels[-1] == HOSTNAME
                self.trees[flavor.name] = DomainTree(flavor, hosts if is_merged else Pool(), resources)

    # Changes that come from outside ----------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Learn of a node, new or changed."""
        if self._nodes.get(node.name) == node:
            return
        self._nodes[node.name] = node
        for tree in self.trees.values():
            tree.put_node(node, self._held)

    def drop_node(self, name: str) -> None:
        """Learn that a node is gone; what is held of it is remembered in case it comes back."""
        if self._nodes.pop(name, None) is not None:
            for tree in self.trees.values():
                tree.drop_node(name, self._held)

    def put_pod(self, pod: BoundPod) -> None:
        """Learn of a pod that holds a part of a node and that no assignment accounts for."""
        if self._pods.get(pod.key) != pod:
            self.drop_pod(pod.key)
            self._pods[pod.key] = pod
            self._shift_held(pod, 1)

    def drop_pod(self, key: str) -> None:
        pod = self._pods.pop(key, None)
        if pod is not None:
            self._shift_held(pod, -1)

    def _shift_held(self, pod: BoundPod, sign: int) -> None:
        amounts = pod_amounts(pod.requests)
        for tree in self.trees.values():
            tree.shift_base(pod.node, amounts, sign)
        held = self._held.setdefault(pod.node, {})
        for resource, amount in amounts.items():
            held[resource] = held.get(resource, 0) + sign * amount
        if not any(held.values()):
            del self._held[pod.node]

    # What workloads hold ---------------------------------------------------------------------------------------------

    def checkpoint(self) -> Mark:
        """A mark that `rollback` returns to."""
        return len(self._record)

    def rollback(self, mark: Mark) -> None:
        """Undo every charge and release since the mark, newest first."""
        assert mark <= len(self._record), "a checkpoint is rolled back once, and inner ones before outer ones"
        while len(self._record) > mark:
            change = self._record.pop()
            change.pool.shift(change.column, change.key, change.amounts, -change.sign)

    def commit(self) -> None:
        """Keep everything: what happened cannot be undone."""
        self._record.clear()

    def charge(self, use: PlacedUse) -> None:
        """Hold the places of a pod set, also those on nodes that are not there."""
        self._shift(use, 1, NOW)

    def release(self, use: PlacedUse) -> None:
        """Give the places of a pod set back."""
        self._shift(use, -1, NOW)

    def has_room(self, uses: Iterable[PlacedUse]) -> bool:
        """Whether the places are all there and free, at once."""
        wanted: dict[tuple[str, Path], dict[str, int]] = {}
        for use in uses:
            tree = self.trees.get(use.flavor)
            if tree is None:
                return False
            for key, amounts in _amounts_of(tree, use):
                # Trees that share their hosts share what is left of them.
                owner = use.flavor if len(tree.pool.trees) == 1 else ""
                total = wanted.setdefault((owner, key), {})
                for resource, amount in amounts.items():
                    total[resource] = total.get(resource, 0) + amount
                if not tree.has_room(key, total):
                    return False
        return True

    def _shift(self, use: PlacedUse, sign: int, column: int) -> None:
        tree = self.trees.get(use.flavor)
        if tree is None:
            return  # a flavor without a topology, or without an object: nothing is counted there
        for key, amounts in _amounts_of(tree, use):
            self._record.append(_Change(tree.pool, column, key, amounts, sign))
            tree.pool.shift(column, key, amounts, sign)

    # Searching -------------------------------------------------------------------------------------------------------

    def find(self, asks: Asks, *, is_empty: bool = False, explains: bool = False) -> dict[str, Placement]:
        """Places for a workload's pod sets, flavor by flavor and group by group, each counting those before it.

        Stops at the first group that finds none; pod sets after it have no entry, and pod sets without pods neither.
        With `is_empty`, as if no workload had a place yet; pods without an assignment still count.
        """
        column = EMPTY if is_empty else NOW
        found: dict[str, Placement] = {}
        mark = self.checkpoint()
        work = list(self._groups(asks))
        for number, (flavor, members) in enumerate(work):
            placed = self._find_group(flavor, members, column, explains=explains)
            found.update(placed)
            if any(isinstance(place, PlacementRefusal) for place in placed.values()):
                break
            if number + 1 < len(work):
                self._assume(flavor, members, placed, column)
        self.rollback(mark)
        return found

    def replace(self, asks: Asks, current: Assignments, host: str, *, explains: bool = False) -> dict[str, Placement]:
        """Places for a workload that lost a host: only the pods of that host move, near to those that stay.

        `current` are the places of its pod sets, which stay charged meanwhile, those of the host included.
        """
        found: dict[str, Placement] = {}
        mark = self.checkpoint()
        placed_before = {flavor: [ask for ask in asks[flavor] if ask.name in current] for flavor in asks}
        for flavor, members in self._groups(placed_before):
            tree, group = self.trees.get(flavor), group_of(members)
            if tree is None or group is None:
                found.update(self._misfit(flavor, members))
                break
            finder = Finder(tree=tree, column=NOW, rules=self.rules, explains=explains)
            placed = replaced(finder, group, current, host)
            found.update(placed)
            if any(isinstance(place, PlacementRefusal) for place in placed.values()):
                break
            moved = {name: _moved(tree, current[name], place) for name, place in placed.items()}
            self._assume(flavor, members, moved, NOW)
        self.rollback(mark)
        return found

    def _find_group(
        self, flavor: str, members: Sequence[PlacementAsk], column: int, *, explains: bool
    ) -> dict[str, Placement]:
        tree, group = self.trees.get(flavor), group_of(members)
        if tree is None or group is None:
            return self._misfit(flavor, members)
        finder = Finder(tree=tree, column=column, rules=self.rules, explains=explains)
        kept = taken_over(finder, group) if any(ask.previous is not None for ask in members) else None
        if kept is None:
            return finder.find(group)
        mark = self.checkpoint()
        self._assume(flavor, members, kept, column)
        placed = grown(finder, group, kept)
        self.rollback(mark)
        return placed

    def _assume(
        self, flavor: str, members: Iterable[PlacementAsk], placed: Mapping[str, Placement], column: int
    ) -> None:
        """Count places as held for the rest of this search."""
        for ask in members:
            place = placed[ask.name]
            assert isinstance(place, TopologyAssignment), "only what has a place can hold it"
            self._shift(PlacedUse(flavor, place, ask.shape.requests), 1, column)

    def _misfit(self, flavor: str, members: Iterable[PlacementAsk]) -> dict[str, Placement]:
        tree = self.trees.get(flavor)
        if tree is None:
            why = PlacementRefusal(why=Unplaced.NO_DOMAINS, topology="")
        else:
            why = refusal(tree, Unplaced.GROUP_WITHOUT_LEADER)
        return {ask.name: why for ask in members}

    @staticmethod
    def _groups(asks: Asks) -> Iterator[tuple[str, list[PlacementAsk]]]:
        """Pod sets of one named group together, in the order of the first of them."""
        for flavor in sorted(asks):
            groups: dict[str, list[PlacementAsk]] = {}
            for index, ask in enumerate(asks[flavor]):
                if ask.count > 0:
                    groups.setdefault(ask.group or f"#{index}", []).append(ask)
            for members in groups.values():
                yield flavor, members


def ask_of(pod_set: PodSet, count: int) -> PlacementAsk:
    """What `count` pods of a pod set ask of their place."""
    return PlacementAsk(name=pod_set.name, count=count, shape=pod_set.shape, request=pod_set.topology)


def _amounts_of(tree: DomainTree, use: PlacedUse) -> Iterator[tuple[Path, dict[str, int]]]:
    for domain in use.assignment.domains:
        yield tree.key_of(domain.values), pod_amounts(use.requests, domain.count)


def _moved(tree: DomainTree, before: TopologyAssignment, after: Placement) -> Placement:
    """The pods that came to each domain."""
    if isinstance(after, PlacementRefusal):
        return after
    known = {tree.key_of(domain.values): domain.count for domain in before.domains}
    came = [PlacedPods(d.values, d.count - known.get(tree.key_of(d.values), 0)) for d in after.domains]
    return TopologyAssignment(after.levels, tuple(domain for domain in came if domain.count > 0))
