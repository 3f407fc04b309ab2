"""Domains of the network: which nodes are near to each other, tier by tier. Built when a session opens, asked by it.

A tree of domains by their members, with one more on top that holds all nodes. Mistakes do no harm: a domain that would
be its own ancestor, or has two parents, is left out of the tree with the reason, and so is one that is absurdly deep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from muster.engine.node_table_rows import BoolArray
from muster.model.groups import NetworkDomain

TOP = "<cluster-top-hypernode>"
DEPTH_MOST = 32


class DomainNode:
    """A domain in the tree."""

    __slots__ = ("children", "name", "nodes", "parent", "tier", "tier_name")

    def __init__(self, name: str, tier: int, tier_name: str = "") -> None:
        self.name = name
        self.tier = tier
        self.tier_name = tier_name
        self.parent: DomainNode | None = None
        self.children: list[DomainNode] = []
        self.nodes: frozenset[str] = frozenset()  # all below it

    def ancestors(self) -> list[DomainNode]:
        """Itself and all above it, up to the top."""
        found: list[DomainNode] = []
        one: DomainNode | None = self
        while one is not None:
            found.append(one)
            one = one.parent
        return found

    def below(self) -> list[DomainNode]:
        """Itself and all below it, level by level."""
        found = [self]
        for one in found:
            found.extend(one.children)
        return found


class DomainTree:
    """All domains of a session."""

    def __init__(self, domains: Mapping[str, NetworkDomain], nodes: Iterable[str]) -> None:
        known = set(nodes)
        self.problems: list[tuple[str, str]] = []
        self.nodes = {name: DomainNode(name, one.tier, one.tier_name) for name, one in sorted(domains.items())}
        for name in self.nodes:
            self._adopt(self.nodes[name], domains[name])
        self.top = DomainNode(TOP, max((one.tier for one in self.nodes.values()), default=0) + 1)
        self.top.children = [one for one in self.nodes.values() if one.parent is None]
        for one in self.top.children:
            one.parent = self.top
        self._flatten()
        for one in reversed(self.top.below()):
            own = domains[one.name].nodes if one is not self.top else ()
            one.nodes = frozenset(own).intersection(known).union(*(child.nodes for child in one.children))
        self.top.nodes = frozenset(known)
        self.nodes[TOP] = self.top
        self._rows: dict[tuple[str, int], BoolArray] = {}
        self._leaf_of = self._leaves()

    def _adopt(self, parent: DomainNode, domain: NetworkDomain) -> None:
        for name in domain.domains:
            child = self.nodes.get(name)
            if child is None:
                self.problems.append((parent.name, f"its member {name} is not there"))
            elif child.parent is not None:
                self.problems.append((name, f"is a member of {child.parent.name} and of {parent.name}"))
            elif child.tier >= parent.tier:  # so that no domain can be above itself
                is_circle = child in parent.ancestors()
                why = "would be above and below" if is_circle else f"is of tier {child.tier}, not below that of"
                self.problems.append((name, f"{why} {parent.name}"))
            else:
                child.parent = parent
                parent.children.append(child)

    def _flatten(self) -> None:
        """Put domains that are too deep right below the top: each level has all its nodes once more."""
        level, depth = self.top.children, 1
        while level:
            below = [child for one in level for child in one.children]
            if depth == DEPTH_MOST:
                for child in below:
                    assert child.parent is not None, "it is a child of somebody"
                    self.problems.append((child.name, f"is more than {DEPTH_MOST} levels deep, in {child.parent.name}"))
                    child.parent.children.remove(child)
                    child.parent = self.top
                    self.top.children.append(child)
                depth = 0
            level, depth = below, depth + 1

    def _leaves(self) -> dict[str, DomainNode]:
        """The lowest domain of every node."""
        found: dict[str, DomainNode] = {}
        for one in self.top.below():
            for node in one.nodes:
                if node not in found or one.tier < found[node].tier:
                    found[node] = one
        return found

    @property
    def is_any(self) -> bool:
        """Whether there are domains beside the one of all nodes."""
        return len(self.nodes) > 1

    @property
    def tier_most(self) -> int:
        """The highest tier that objects name."""
        return self.top.tier - 1

    @property
    def tier_least(self) -> int:
        return min((one.tier for one in self.nodes.values()), default=0)

    def tier_of(self, name: str) -> int | None:
        """The tier that goes by a name."""
        return next((one.tier for one in self.nodes.values() if name and one.tier_name == name), None)

    def leaf_of(self, node: str) -> DomainNode:
        """The lowest domain that a node is in."""
        return self._leaf_of.get(node, self.top)

    def common(self, first: str, second: str) -> DomainNode | None:
        """The lowest domain above two; where one is not named, the other."""
        one, two = self.nodes.get(first), self.nodes.get(second)
        if one is None or two is None:
            return one or two
        above = set(two.ancestors())
        return next((each for each in one.ancestors() if each in above), None)

    def around(self, nodes: Iterable[str]) -> DomainNode | None:
        """The lowest domain that holds all of these nodes."""
        wanted = set(nodes)
        holding = [one for one in self.nodes.values() if wanted <= one.nodes]
        return min(holding, key=lambda one: (one.tier, one.name), default=None) if wanted else None

    def rows_of(self, domain: DomainNode, names: list[str]) -> BoolArray | None:
        """The rows of a domain's nodes; `None` for all of them."""
        if domain is self.top:
            return None
        key = (domain.name, len(names))
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = np.array([name in domain.nodes for name in names], np.bool_)
        return rows
