"""What a pod set's topology request means in one tree: which level holds all of it, and how it is sliced."""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.topology_counts import Slicing
from muster.engine.topology_tree import DomainTree
from muster.model.topology import PlacementRefusal, TopologyRequest, TopologyRules, Unplaced

NOTHING_ASKED = TopologyRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A request in numbers. Levels count from 1, the widest, to the leaves."""

    level: int  # the domain that should hold all pods
    need: int  # how many slices, or pods if there are none
    slicing: Slicing
    is_required: bool = False  # all in one domain of the level, or nowhere
    is_unconstrained: bool = False
    packs: bool = False  # fill the domains with the least left first
    within: tuple[int, int] | None = None  # level and position of the only domain that may be used


def target_of(
    tree: DomainTree, request: TopologyRequest | None, count: int, rules: TopologyRules
) -> Target | PlacementRefusal:
    """The target of `count` pods, or why the request makes no sense here."""
    asked = request or NOTHING_ASKED
    slicing = slicing_of(tree, asked, rules)
    if isinstance(slicing, PlacementRefusal):
        return slicing
    named = asked.required or asked.preferred
    if named and named not in tree.levels:
        return refusal(tree, Unplaced.LEVEL_MISSING, named)
    if named:
        level = tree.levels.index(named) + 1
    else:
        level = _unnamed_level(tree, asked, slicing)
    if slicing.level < level:
        return refusal(tree, Unplaced.SLICE_LEVEL_ABOVE, tree.levels[slicing.level - 1])
    if count % slicing.size:
        return refusal(tree, Unplaced.SLICES_UNEVEN, tree.levels[slicing.level - 1])
    return Target(
        level=level,
        need=count // slicing.size,
        slicing=slicing,
        is_required=bool(asked.required),
        is_unconstrained=not named,
        packs=not named and rules.packs_unconstrained,
    )


def _unnamed_level(tree: DomainTree, asked: TopologyRequest, slicing: Slicing) -> int:
    """Pods that may go anywhere start at the leaves; slices that may, at the widest domains."""
    is_sliced = bool(asked.slice_level or asked.layers)
    if is_sliced and (not asked.is_unconstrained or slicing.level < tree.depth):
        return 1
    return tree.depth


def slicing_of(tree: DomainTree, asked: TopologyRequest, rules: TopologyRules) -> Slicing | PlacementRefusal:
    """The slices that a request asks for; none are slices of one pod at the leaves."""
    layers: tuple[tuple[str, int], ...] = ()
    if asked.layers and rules.has_layers:
        layers = asked.layers
    elif asked.slice_level:
        layers = ((asked.slice_level, asked.slice_size),)
    found: list[tuple[int, int]] = []
    for label, size in layers:
        if label not in tree.levels:
            return refusal(tree, Unplaced.SLICE_LEVEL_MISSING, label)
        if size < 1:
            return refusal(tree, Unplaced.SLICE_SIZE_MISSING, label)
        level = tree.levels.index(label) + 1
        if found and level <= found[-1][0]:
            return refusal(tree, Unplaced.LAYERS_UNORDERED, label)
        if found and found[-1][1] % size:
            return refusal(tree, Unplaced.SLICES_UNEVEN, label)
        found.append((level, size))
    if not found:
        return Slicing(tree.depth, 1)
    return Slicing(*found[0], inner=tuple(found[1:]))


def refusal(tree: DomainTree, why: Unplaced, level: str = "") -> PlacementRefusal:
    return PlacementRefusal(why=why, topology=tree.flavor.topology, level=level, nodes=tree.node_count)
