"""The domains of one flavor: its nodes gathered by their labels, and what each leaf has left.

Fed by changes of nodes, pods and usage; a change touches one leaf. Leaves are kept in the order of their names, so
a domain of any level is a run of leaves and a run of children. What was counted for one kind of pod is kept in
`views` and brought up to date leaf by leaf (`topology_counts.py`). Owned by `topology.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from muster.model.flavor import Flavor
from muster.model.topology import HOSTNAME, Node, Path

if TYPE_CHECKING:
    from muster.engine.topology_arrays import LeftTable

NOW, EMPTY = 0, 1  # columns: what is left as things stand, and if no workload had a place yet
VIEWS_MOST = 32  # kinds of pods whose counts are kept
LOG_LEAST = 1024

Usage = dict[Path, dict[str, int]]  # by leaf, by resource

Value = TypeVar("Value")


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


class Free:
    """What a leaf has left, by the number of the resource. Leaves with the same left share one, so that counts can."""

    __slots__ = ("amounts",)

    def __init__(self, amounts: tuple[int, ...]) -> None:
        self.amounts = amounts


class Leaf:
    """A domain of the lowest level: one host, or all the nodes of a rack."""

    __slots__ = ("base", "frees", "key", "node", "nodes", "path", "position")

    def __init__(self, key: Path) -> None:
        self.key = key  # as assignments name it
        self.path: Path = ()
        self.node: Node | None = None  # the last that came: pods are matched with it where a leaf is a host
        self.nodes: dict[str, Node] = {}
        self.base: dict[str, int] = {}  # what its nodes have, less what pods without an assignment hold
        self.frees: list[Free | None] = [None, None]  # what is left, by column; None: to be worked out, or no node
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
        # Which leaves pods may use and which they like, by what they ask of nodes: see `topology_match.py`.
        self.matches: Recent[list[bool]] = Recent(VIEWS_MOST)
        self.likings: Recent[list[int]] = Recent(VIEWS_MOST)
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

    def forget_matches(self) -> None:
        """A node changed its labels or taints."""
        self.matches.clear()
        self.likings.clear()

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

    __slots__ = ("changed", "epoch", "frees", "table")

    def __init__(self) -> None:
        self.table: LeftTable | None = None  # the same as arrays, once there are many leaves to count
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
            assert after >= 0, f"{'/'.join(key)} gives back more {resource} than is held of it"
            # Zero is stored as absence, so that a table compares equal however it came about.
            if after:
                held[resource] = after
            else:
                held.pop(resource, None)
        if not held:
            del self.usage[column][key]
        for tree in self.trees:
            tree.touch(column, key)


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

    def has_room(self, key: Path, amounts: Mapping[str, int]) -> bool:
        """Whether a leaf is there and has this much left."""
        leaf = self.leaf(key)
        if leaf is None:
            return False
        held = self.pool.usage[NOW].get(key, {})
        return all(amount <= leaf.base.get(name, 0) - held.get(name, 0) for name, amount in amounts.items())

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
            self._reseat(after, node.name, held)

    def drop_node(self, name: str, held: Mapping[str, Mapping[str, int]]) -> None:
        key = self._places.pop(name, None)
        if key is None:
            return
        members = self._members[key]
        del members[name]
        if not members:
            del self._members[key]
        self._reseat(key, name, held)

    def shift_base(self, node: str, amounts: Mapping[str, int], sign: int) -> None:
        """A pod without an assignment came to a node or went."""
        leaf = self._leaf_of.get(node)
        if leaf is None:
            return
        _add(leaf.base, amounts, -sign)
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

    def _reseat(self, key: Path, name: str, held: Mapping[str, Mapping[str, int]]) -> None:
        """Make a leaf of those who claim it, after the claim of one node changed."""
        members = self._members.get(key, {})
        leaf = self._leaves.get(key)
        if leaf is None:
            leaf = self._leaves[key] = Leaf(key)
        if self.is_by_host:
            # Two nodes of one host name cannot be told apart in an assignment: the first by name has it.
            seated = min(members, default="")
            for other in [other for other in leaf.nodes if other != seated]:
                self._leave(leaf, other, held)
        else:
            seated = name
        if name in leaf.nodes:
            self._leave(leaf, name, held)
        if seated in members and seated not in leaf.nodes:
            self._enter(leaf, members[seated], held)
        self._refill(leaf, NOW)
        self._refill(leaf, EMPTY)

    def _enter(self, leaf: Leaf, node: Node, held: Mapping[str, Mapping[str, int]]) -> None:
        path = self._path_of(node)
        assert path is not None, f"node {node.name} takes no part in flavor {self.flavor.name}"
        if leaf.position < 0 or leaf.path != path:
            self._layout = None
        elif self._layout is not None and self.is_by_host and not _match_alike(leaf.node, node):
            self._layout.forget_matches()
            self.views.clear()
        leaf.path = path
        leaf.node = node
        leaf.nodes[node.name] = node
        self._leaf_of[node.name] = leaf
        _add(leaf.base, node.allocatable, 1)
        _add(leaf.base, held.get(node.name, {}), -1)

    def _leave(self, leaf: Leaf, name: str, held: Mapping[str, Mapping[str, int]]) -> None:
        node = leaf.nodes.pop(name)
        del self._leaf_of[name]
        _add(leaf.base, node.allocatable, -1)
        _add(leaf.base, held.get(name, {}), 1)

    def _refill(self, leaf: Leaf, column: int) -> None:
        """Work out what a leaf has left; before it is laid out, only note that it has to be."""
        if self._layout is None or leaf.position < 0:
            leaf.frees[column] = None
        else:
            leaf.frees[column] = self._free_of(leaf, column)
            self.columns[column].put(leaf.position, leaf.frees[column])

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
        # Those laid out before come first and in order, so that sorting is quick.
        leaves = sorted((leaf for leaf in self._leaves.values() if leaf.nodes), key=lambda leaf: leaf.path)
        self._leaves = {leaf.key: leaf for leaf in leaves}
        for position, leaf in enumerate(leaves):
            leaf.position = position
        self._layout = Layout(leaves, self.depth)
        for number, column in enumerate(self.columns):
            for leaf in leaves:
                if leaf.frees[number] is None:
                    leaf.frees[number] = self._free_of(leaf, number)
            column.frees = [leaf.frees[number] for leaf in leaves]
            column.restart()
        self.views.clear()


def _add(total: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + sign * amount


def _match_alike(one: Node | None, other: Node) -> bool:
    """Whether no pod can tell two nodes apart, but for what they have left."""
    return one is not None and (one.name, one.labels, one.taints) == (other.name, other.labels, other.taints)
