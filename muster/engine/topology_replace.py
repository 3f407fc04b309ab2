"""Pods that join others which stay where they are: those of a failed node, and those of a workload that grew.

They go near the others: into the same domain if one is required, and into the slice that was left incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from muster.engine.topology_counts import Slicing
from muster.engine.topology_find import Finder, Group, assignment, merged, without_slices
from muster.engine.topology_request import NOTHING_ASKED, Target, refusal, slicing_of, target_of
from muster.engine.topology_tree import DomainTree
from muster.model.topology import (
    Path,
    PlacedPods,
    Placement,
    PlacementAsk,
    PlacementRefusal,
    TopologyAssignment,
    TopologyRules,
    Unplaced,
)

Assignments = Mapping[str, TopologyAssignment]  # by pod set


def replaced(finder: Finder, group: Group, current: Assignments, host: str) -> dict[str, Placement]:
    """The group's places without a host: its pods move, all others stay. What stays is charged to the tree already."""
    tree = finder.tree
    if not tree.is_by_host:
        return _refused(group, refusal(tree, Unplaced.NOT_BY_HOST))
    kept = {ask.name: _without(tree, current[ask.name], (host,)) for ask in group.members}
    lost = {ask.name: current[ask.name].count - kept[ask.name].count for ask in group.members}
    return _joined(finder, group, kept, lost)


def taken_over(finder: Finder, group: Group) -> dict[str, TopologyAssignment] | None:
    """The places that a workload keeps of the older one that it takes over from; `None`: it has to start afresh."""
    kept: dict[str, TopologyAssignment] = {}
    for ask in group.members:
        if ask.previous is None:
            return None
        if any(finder.tree.leaf(finder.tree.key_of(domain.values)) is None for domain in ask.previous.domains):
            return None
        kept[ask.name] = _first_of(finder.tree, ask.previous, ask.count)
    return kept


def grown(finder: Finder, group: Group, kept: Assignments) -> dict[str, Placement]:
    """What a workload keeps of the older one, which is charged to the tree by now, and places for the rest."""
    return _joined(finder, group, kept, {ask.name: ask.count - kept[ask.name].count for ask in group.members})


def _joined(finder: Finder, group: Group, kept: Assignments, more: Mapping[str, int]) -> dict[str, Placement]:
    """What is kept, and a place for so many more pods of each pod set."""
    tree = finder.tree
    if not any(more.values()):
        return dict(kept)
    for name in kept:
        for domain in kept[name].domains:
            if tree.leaf(tree.key_of(domain.values)) is None:
                return _refused(group, refusal(tree, Unplaced.DOMAIN_GONE, "/".join(domain.values)))
    joining = _joining(group, more)
    target = _target(tree, joining, kept, finder.rules)
    found = finder.find(joining, target)
    result: dict[str, Placement] = {}
    for ask in group.members:
        new = found.get(ask.name)
        if isinstance(new, PlacementRefusal):
            return _refused(group, new)
        result[ask.name] = merged(tree, [kept[ask.name], new]) if new is not None else kept[ask.name]
    return result


def _joining(group: Group, more: Mapping[str, int]) -> Group:
    """The pods that look for a place, in their roles; a leader alone is a pod like any other."""
    workers = replace(group.workers, count=more[group.workers.name])
    leader = group.leader if group.leader is not None and more[group.leader.name] else None
    if leader is not None and not workers.count:
        return Group(without_slices(leader))
    return Group(workers, leader)


def _target(tree: DomainTree, joining: Group, kept: Assignments, rules: TopologyRules) -> Target | PlacementRefusal:
    """Where pods that join others have to go."""
    ask = joining.workers
    asked = ask.request or NOTHING_ASKED
    slicing = slicing_of(tree, asked, rules)
    if isinstance(slicing, PlacementRefusal):
        return slicing
    inside = _in_broken_slice(tree, ask, slicing, kept[ask.name])
    if inside is not None:
        is_unconstrained = not (asked.required or asked.preferred)
        return replace(inside, packs=is_unconstrained and rules.packs_unconstrained)
    target = target_of(tree, ask.request, ask.count, rules)
    stays = [domain for name in kept for domain in kept[name].domains]
    if isinstance(target, PlacementRefusal) or not target.is_required or not stays:
        return target
    return replace(target, within=(target.level, _position(tree, stays[0].values, target.level)))


def _in_broken_slice(tree: DomainTree, ask: PlacementAsk, slicing: Slicing, kept: TopologyAssignment) -> Target | None:
    """The domain of the innermost slice that lacks pods; only the slices inside of it still have to be made."""
    layers = [(slicing.level, slicing.size), *slicing.inner]
    for index in range(len(layers) - 1, -1, -1):
        level, size = layers[index]
        counts: dict[int, int] = {}
        for domain in kept.domains:
            position = _position(tree, domain.values, level)
            counts[position] = counts.get(position, 0) + domain.count
        broken = min((position for position, count in counts.items() if count % size), default=None)
        if broken is None:
            continue
        inner = layers[index + 1 :]
        rest = Slicing(*inner[0], inner=tuple(inner[1:])) if inner else Slicing(tree.depth, 1)
        if ask.count % rest.size:
            continue
        need = ask.count // rest.size
        return Target(level=level, need=need, slicing=rest, is_required=True, within=(level, broken))
    return None


def _position(tree: DomainTree, values: Path, level: int) -> int:
    layout = tree.layout
    leaf = tree.leaf(tree.key_of(values))
    assert leaf is not None, "a place that stays is there"
    return layout.ancestor(leaf.position, level)


def _without(tree: DomainTree, given: TopologyAssignment, key: Path) -> TopologyAssignment:
    return assignment(tree, [domain for domain in given.domains if tree.key_of(domain.values) != key])


def _first_of(tree: DomainTree, given: TopologyAssignment, count: int) -> TopologyAssignment:
    """The places of the first pods."""
    places: list[PlacedPods] = []
    for domain in given.domains:
        taken = min(domain.count, count)
        if taken:
            places.append(PlacedPods(tree.key_of(domain.values), taken))
        count -= taken
    return assignment(tree, places)


def _refused(group: Group, why: PlacementRefusal) -> dict[str, Placement]:
    return {ask.name: why for ask in group.members}
