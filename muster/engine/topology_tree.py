"""The domains of one flavor: its nodes gathered by their labels, and what each leaf has left.

Fed by changes of nodes, pods and usage; a change touches one leaf. Leaves are kept in the order of their names, so
a domain of any level is a run of leaves and a run of children. What was counted for one kind of pod is kept in
`views` and brought up to date leaf by leaf (`topology_counts.py`). Owned by `topology.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from muster.model.flavor import Flavor
from muster.model.topology import HOSTNAME, Node, Path

NOW, EMPTY = 0, 1  # columns: what is left as things stand, and if no workload had a place yet
VIEWS_MOST = 32  # kinds of pods whose counts are kept
LOG_LEAST = 1024

Usage = dict[Path, dict[str, int]]  # by leaf, by resource

Value = TypeVar("Value")


class Free:
    """What a leaf has left, by the number of the resource. Leaves with the same left share one, so that counts can."""

    __slots__ = ("amounts",)

    def __init__(self, amounts: tuple[int, ...]) -> None:
        self.amounts = amounts


class Leaf:
    """A domain of the lowest level: one host, or all the nodes of a rack."""

    __slots__ = ("base", "key", "nodes", "path", "position")

    def __init__(self, key: Path, path: Path) -> None:
        self.key = key  # as assignments name it
        self.path = path
        self.nodes: dict[str, Node] = {}
        self.base: dict[str, int] = {}  # what its nodes have, less what pods without an assignment hold
        self.position = -1  # among all leaves; below zero until it is laid out


class Layout:
    """The domains level by level, in the order of their names. Level 0 is the whole, the last level are the leaves."""

    def __init__(self, leaves: list[Leaf], depth: int) -> None:
        self.leaves = leaves
        self.depth = depth
        self.paths: list[list[Path]] = [[] for _ in range(depth + 1)]
        self.parents: list[list[int]] = [[] for _ in range(depth + 1)]
        # Children of domain i are first[level][i] up to first[level][i + 1] of the next level.
        self.first: list[list[int]] = [[] for _ in range(depth)]
        self.matches: dict[Hashable, list[bool] | None] = {}  # by what pods ask of nodes: see `topology_match.py`
        self.likings: dict[Hashable, list[int]] = {}
        self.paths[depth] = [leaf.path for leaf in leaves]
        for level in range(depth, 0, -1):
            self._gather(level)

    def _gather(self, level: int) -> None:
        """The parents of a level's domains: equal beginnings lie side by side."""
        above, first, parents = self.paths[level - 1], self.first[level - 1], self.parents[level]
        for position, path in enumerate(self.paths[level]):
            name = path[: level - 1]
            if not above or above[-1] != name:
                above.append(name)
                first.append(position)
            parents.append(len(above) - 1)
        first.append(len(self.paths[level]))

    def size(self, level: int) -> int:
        return len(self.paths[level])

    def children(self, level: int, position: int) -> range:
        first = self.first[level]
        return range(first[position], first[position + 1])

    def span(self, level: int, position: int, below: int) -> range:
        """The domains of a lower level that a domain holds."""
        start, end = position, position + 1
        for at in range(level, below):
            start, end = self.first[at][start], self.first[at][end]
        return range(start, end)

    def ancestor(self, leaf: int, level: int) -> int:
        """The domain of a level that a leaf is in."""
        position = leaf
        for at in range(self.depth, level, -1):
            position = self.parents[at][position]
        return position


class Column:
    """What every leaf has left, and which leaves changed since."""

    __slots__ = ("changed", "epoch", "frees")

    def __init__(self) -> None:
        self.frees: list[Free | None] = []  # None: the leaf has no node now
        self.changed: list[int] = []
        self.epoch = 0  # grows when `changed` starts anew

    def put(self, position: int, free: Free | None) -> None:
        if self.frees[position] is free:
            return
        self.frees[position] = free
        self.changed.append(position)
        if len(self.changed) > 2 * len(self.frees) + LOG_LEAST:
            self.restart()

    def restart(self) -> None:
        self.changed = []
        self.epoch += 1


class Pool:
    """What workloads hold of leaves, for one tree or for all trees that share their hosts."""

    def __init__(self) -> None:
        self.trees: list[DomainTree] = []
        self.usage: tuple[Usage, Usage] = ({}, {})  # by column

    def shift(self, column: int, key: Path, amounts: Mapping[str, int], sign: int) -> None:
        """Add to or take from what is held of a leaf, whether or not its nodes are there."""
        held = self.usage[column].setdefault(key, {})
        for resource, amount in amounts.items():
            after = held.get(resource, 0) + sign * amount
            # Zero is stored as absence, so that a table compares equal however it came about.
            if after:
                held[resource] = after
            else:
                held.pop(resource, None)
        if not held:
            del self.usage[column][key]
        for tree in self.trees:
            tree.touch(column, key)


class Recent(Generic[Value]):
    """The last few values by key; the longest unused goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Hashable, Value] = {}

    def get(self, key: Hashable) -> Value | None:
        found = self._values.pop(key, None)
        if found is not None:
            self._values[key] = found
        return found

    def put(self, key: Hashable, value: Value) -> None:
        self._values[key] = value
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]

    def clear(self) -> None:
        self._values.clear()


class DomainTree:
    """The tree of domains of one flavor, and what its leaves have left."""

    def __init__(self, flavor: Flavor, pool: Pool, resources: dict[str, int]) -> None:
        assert flavor.topology_levels, f"flavor {flavor.name} has no topology"
        self.flavor = flavor
        self.levels = flavor.topology_levels
        self.depth = len(self.levels)
        self.is_by_host = self.levels[-1] == HOSTNAME
        self.pool = pool
        self.resources = resources  # numbers by name, shared by all trees
        self.columns = (Column(), Column())
        self.views: Recent[object] = Recent(VIEWS_MOST)
        self._members: dict[Path, dict[str, Node]] = {}  # who claims a leaf; hosts of one name claim the same
        self._leaves: dict[Path, Leaf] = {}
        self._leaf_of: dict[str, Leaf] = {}  # by node
        self._places: dict[str, Path] = {}  # by node, also of nodes that lost their claim
        self._interned: dict[tuple[int, ...], Free] = {}
        self._layout: Layout | None = None
        pool.trees.append(self)

    @property
    def layout(self) -> Layout:
        """The domains as they are now; laid out anew when a leaf came or moved."""
        if self._layout is None:
            self._lay_out()
        assert self._layout is not None
        return self._layout

    def leaf(self, key: Path) -> Leaf | None:
        """The leaf that an assignment names, if it has a node."""
        found = self._leaves.get(key)
        return found if found is not None and found.nodes else None

    def key_of(self, values: Path) -> Path:
        """How a domain of an assignment is called here; the levels above a host may have changed since."""
        return values[-1:] if self.is_by_host else values

    @property
    def node_count(self) -> int:
        return len(self._leaf_of)

    # Changes ---------------------------------------------------------------------------------------------------------

    def put_node(self, node: Node, held: Mapping[str, Mapping[str, int]]) -> None:
        """Learn of a node, new or changed; `held` is what pods without an assignment hold, by node."""
        before, path = self._places.get(node.name), self._path_of(node)
        after = self.key_of(path) if path is not None else None
        if before is not None and before != after:
            self.drop_node(node.name, held)
        if after is not None:
            self._places[node.name] = after
            self._members.setdefault(after, {})[node.name] = node
            self._settle(after, held)

    def drop_node(self, name: str, held: Mapping[str, Mapping[str, int]]) -> None:
        key = self._places.pop(name, None)
        if key is None:
            return
        members = self._members[key]
        del members[name]
        if not members:
            del self._members[key]
        self._settle(key, held)

    def shift_base(self, node: str, amounts: Mapping[str, int], sign: int) -> None:
        """A pod without an assignment came to a node or went."""
        leaf = self._leaf_of.get(node)
        if leaf is None:
            return
        for resource, amount in amounts.items():
            leaf.base[resource] = leaf.base.get(resource, 0) - sign * amount
        self._refill(leaf, NOW)
        self._refill(leaf, EMPTY)

    def touch(self, column: int, key: Path) -> None:
        """What is held of a leaf changed."""
        leaf = self._leaves.get(key)
        if leaf is not None:
            self._refill(leaf, column)

    def _path_of(self, node: Node) -> Path | None:
        """Where a node stands; nowhere if it takes no part in this flavor."""
        labels = node.labels
        if not (node.is_ready and node.is_schedulable):
            return None
        if any(labels.get(key) != value for key, value in self.flavor.labels.items()):
            return None
        if any(level not in labels for level in self.levels):
            return None
        return tuple(labels[level] for level in self.levels)

    def _settle(self, key: Path, held: Mapping[str, Mapping[str, int]]) -> None:
        """Make a leaf of those who claim it."""
        members = self._members.get(key, {})
        if self.is_by_host and len(members) > 1:
            # Two nodes of one host name cannot be told apart in an assignment: the first by name has it.
            first = min(members)
            members = {first: members[first]}
        leaf = self._leaves.get(key)
        if leaf is None:
            leaf = self._leaves[key] = Leaf(key, key)
        for name in leaf.nodes:
            self._leaf_of.pop(name, None)
        if self._moves(leaf, members):
            self._layout = None
        leaf.nodes = dict(members)
        leaf.base = {}
        for name, node in members.items():
            self._leaf_of[name] = leaf
            path = self._path_of(node)
            assert path is not None, f"node {name} takes no part in flavor {self.flavor.name}"
            leaf.path = path
            for resource, amount in node.allocatable.items():
                leaf.base[resource] = leaf.base.get(resource, 0) + amount
            for resource, amount in held.get(name, {}).items():
                leaf.base[resource] = leaf.base.get(resource, 0) - amount
        self._refill(leaf, NOW)
        self._refill(leaf, EMPTY)

    def _moves(self, leaf: Leaf, members: Mapping[str, Node]) -> bool:
        """Whether what was laid out no longer holds: a new leaf, another place, or other nodes to match pods with."""
        if self._layout is None or not members:
            return False
        if leaf.position < 0:
            return True
        if not self.is_by_host:
            return False
        node = next(iter(members.values()))
        known = self._layout.leaves[leaf.position].nodes
        before = next(iter(known.values())) if known else None
        if before is None or leaf.path != self._path_of(node):
            return True
        return before.labels != node.labels or before.taints != node.taints

    def _refill(self, leaf: Leaf, column: int) -> None:
        if self._layout is not None and leaf.position >= 0:
            self.columns[column].put(leaf.position, self._free_of(leaf, column))

    def _free_of(self, leaf: Leaf, column: int) -> Free | None:
        if not leaf.nodes:
            return None
        base, held = leaf.base, self.pool.usage[column].get(leaf.key)
        for resource in base:
            if resource not in self.resources:
                self.resources[resource] = len(self.resources)
        if held:
            amounts = tuple([base.get(name, 0) - held.get(name, 0) for name in self.resources])
        else:
            amounts = tuple([base.get(name, 0) for name in self.resources])
        found = self._interned.get(amounts)
        if found is None:
            if len(self._interned) > 2 * len(self._leaves) + LOG_LEAST:
                used = {free for column_ in self.columns for free in column_.frees if free is not None}
                self._interned = {free.amounts: free for free in used}
            found = self._interned[amounts] = Free(amounts)
        return found

    def _lay_out(self) -> None:
        self._leaves = {key: leaf for key, leaf in self._leaves.items() if leaf.nodes}
        leaves = sorted(self._leaves.values(), key=lambda leaf: leaf.path)
        for position, leaf in enumerate(leaves):
            leaf.position = position
        self._layout = Layout(leaves, self.depth)
        self._interned = {}
        for number, column in enumerate(self.columns):
            column.frees = [self._free_of(leaf, number) for leaf in leaves]
            column.restart()
        self.views.clear()
