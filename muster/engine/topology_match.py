"""Which hosts a pod may use at all: taints, node selector and required affinity, decided once for nodes alike.

Only where leaves are hosts: a rack has no labels of its own. Results hold as long as the tree's layout does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from muster.engine.topology_tree import DomainTree, Layout
from muster.model.labels import (
    NodeTerm,
    NodeTerms,
    PreferredTerm,
    Toleration,
    first_untolerated,
    matches,
    preference,
)
from muster.model.podspec import PodShape
from muster.model.topology import Node

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Demands:
    """What a pod asks of its node besides room."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: NodeTerms | None = None
    tolerations: tuple[Toleration, ...] = ()


NO_DEMANDS = Demands()


def demands_of(shape: PodShape, tree: DomainTree) -> Demands:
    """A pod's demands in a flavor, which gives it tolerations; none where leaves are no hosts."""
    if not tree.is_by_host:
        return NO_DEMANDS
    selector = tuple(sorted(shape.node_selector.items()))
    return Demands(selector, shape.affinity, (*shape.tolerations, *tree.flavor.tolerations))


def allowed_leaves(demands: Demands, tree: DomainTree) -> list[bool] | None:
    """Whether each leaf may be used; `None` when all may."""
    if not tree.is_by_host:
        return None
    layout = tree.layout
    found = layout.matches.get(demands)
    if found is None:
        found = _allowed(demands, layout)
        layout.matches.put(demands, found)
    return found or None


def _allowed(demands: Demands, layout: Layout) -> list[bool]:
    """Whether each leaf may be used; empty when all may."""
    is_plain = not demands.selector and demands.affinity is None
    if is_plain and not any(node.taints for node in _nodes(layout)):
        return []
    terms = demands.affinity or ()
    keys = _keys_of(terms, [key for key, _ in demands.selector])
    return _for_each(layout, keys, _asks_names(terms), lambda node: not exclusion(demands, node))


def liked_leaves(terms: tuple[PreferredTerm, ...], tree: DomainTree) -> list[int]:
    """How much each leaf is liked."""
    layout = tree.layout
    if not tree.is_by_host or not terms:
        return [0] * len(layout.leaves)
    found = layout.likings.get(terms)
    if found is None:
        inner = tuple(preferred.term for preferred in terms)
        keys = _keys_of(inner, [])

        def liking(node: Node) -> int:
            return preference(terms, node.labels, node_name=node.name)

        found = _for_each(layout, keys, _asks_names(inner), liking)
        layout.likings.put(terms, found)
    return found


def exclusion(demands: Demands, node: Node) -> str:
    """What keeps a pod from a node, in words; nothing when it may run there."""
    taint = first_untolerated(node.taints, demands.tolerations)
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        return f'taint "{taint.key}{value}:{taint.effect}"'
    if any(node.labels.get(key) != value for key, value in demands.selector):
        return "nodeSelector"
    if not matches(demands.affinity, node.labels, node_name=node.name):
        return "affinity"
    return ""


def _keys_of(terms: NodeTerms, more: list[str]) -> tuple[str, ...]:
    """The labels that the answer depends on."""
    return tuple(sorted({*more, *(requirement.key for term in terms for requirement in term.expressions)}))


def _asks_names(terms: tuple[NodeTerm, ...]) -> bool:
    return any(term.names for term in terms)


def _for_each(
    layout: Layout, keys: tuple[str, ...], asks_names: bool, answer: Callable[[Node], Answer]
) -> list[Answer]:
    """The answer for every leaf, asked once for nodes that differ in nothing that matters."""
    known: dict[object, Answer] = {}
    found: list[Answer] = []
    for node in _nodes(layout):
        values = [node.labels.get(key) for key in keys]
        alike = (node.name if asks_names else "", node.taints, *values)
        if alike not in known:
            known[alike] = answer(node)
        found.append(known[alike])
    return found


def _nodes(layout: Layout) -> Iterator[Node]:
    for leaf in layout.leaves:
        assert leaf.node is not None, "a leaf that was laid out had a node"
        yield leaf.node
