"""One group of pod sets in one tree: its counts, its search, and the answer in the words of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from muster.engine.topology_assign import Search, Share, Short
from muster.engine.topology_counts import Counts, Slicing
from muster.engine.topology_leaves import Need, need_of
from muster.engine.topology_match import demands_of, exclusion, liked_leaves
from muster.engine.topology_request import Target, refusal, target_of
from muster.engine.topology_tree import DomainTree, Layout
from muster.model.resources import PODS
from muster.model.topology import (
    HOSTNAME,
    PlacedPods,
    Placement,
    PlacementAsk,
    PlacementRefusal,
    TopologyAssignment,
    TopologyRules,
    Unplaced,
)


@dataclass(frozen=True, slots=True)
class Group:
    """Pod sets that are placed together: the workers, and the one pod that leads them, if there is one."""

    workers: PlacementAsk
    leader: PlacementAsk | None = None

    @property
    def members(self) -> tuple[PlacementAsk, ...]:
        return (self.workers,) if self.leader is None else (self.leader, self.workers)


def group_of(members: Sequence[PlacementAsk]) -> Group | None:
    """The roles in a group; `None` when nobody can be the leader."""
    if len(members) == 1:
        return Group(members[0])
    leader = min(members, key=lambda ask: ask.count)
    workers = [ask for ask in members if ask is not leader]
    return Group(workers[0], leader) if len(workers) == 1 and leader.count == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finder:
    """Searches one tree, as things stand or as if no workload had a place."""

    tree: DomainTree
    column: int
    rules: TopologyRules
    explains: bool = False  # refusals say what kept each node out, which takes a look at all of them

    def find(self, group: Group, target: Target | PlacementRefusal | None = None) -> dict[str, Placement]:
        """Places for a group by pod set: for all of its pods or for none."""
        workers = group.workers
        if not self.tree.node_count:
            return self._refused(group, refusal(self.tree, Unplaced.NO_DOMAINS, self._level_asked(workers)))
        if target is None:
            target = target_of(self.tree, workers.request, workers.count, self.rules)
        if isinstance(target, PlacementRefusal):
            return self._refused(group, target)
        counts = self._counts(group, target.slicing)
        search = Search(counts, target, scores=self._scores(workers, counts), is_balanced=self.rules.is_balanced)
        shares = search.run()
        if isinstance(shares, Short):
            why = self._too_few(group, target, shares.fitting)
            if self.explains:
                excluded = exclusions(self, workers, target)
                why = replace(why, excluded=excluded, by_layer=fitting_layers(self.tree, counts, target))
            return self._refused(group, why)
        return self._placed(group, shares)

    def _counts(self, group: Group, slicing: Slicing) -> Counts:
        """The counts of the group's pods, from an earlier search if there was one for pods alike."""
        tree = self.tree
        need = _need(group.workers, tree)
        leader: Need | None = _need(group.leader, tree) if group.leader is not None else None
        layout = tree.layout  # laid out before the views are looked at: those of an older layout are dropped
        is_kept = all(ask.room is None for ask in group.members)  # what is known of nodes holds for now only
        key = (self.column, need, leader, slicing)
        counts = tree.views.get(key) if is_kept else None
        if not isinstance(counts, Counts):
            counts = Counts(tree, self.column, need=need, leader=leader, slicing=slicing)
            if is_kept:
                tree.views.put(key, counts)
        assert counts.layout is layout, "counts go with their layout"
        counts.refresh()
        return counts

    def _scores(self, workers: PlacementAsk, counts: Counts) -> list[list[int]] | None:
        """How much every domain is liked: the sum over its leaves that take any pod."""
        if not self.rules.follows_preferred_affinity:
            return None
        layout = counts.layout
        liked = liked_leaves(workers.shape.preferred, self.tree)
        scores = [[0] * layout.size(level) for level in range(layout.depth + 1)]
        scores[-1] = [score if pods else 0 for score, pods in zip(liked, counts.pods[-1], strict=True)]
        for level in range(layout.depth, 0, -1):
            for position, score in enumerate(scores[level]):
                scores[level - 1][layout.parents[level][position]] += score
        return scores

    # Answers ---------------------------------------------------------------------------------------------------------

    def _placed(self, group: Group, shares: Sequence[Share]) -> dict[str, Placement]:
        leaves = self.tree.layout.leaves
        found: dict[str, Placement] = {}
        if group.leader is not None:
            places = [PlacedPods(leaves[share.position].key, 1) for share in shares if share.leads]
            found[group.leader.name] = assignment(self.tree, places)
        places = [PlacedPods(leaves[share.position].key, share.amount) for share in shares if share.amount]
        found[group.workers.name] = assignment(self.tree, places)
        return found

    def _refused(self, group: Group, why: PlacementRefusal) -> dict[str, Placement]:
        return {ask.name: why for ask in group.members}

    def _too_few(self, group: Group, target: Target, fitting: int) -> PlacementRefusal:
        return PlacementRefusal(
            why=Unplaced.TOO_FEW,
            topology=self.tree.flavor.topology,
            level=self.tree.levels[target.level - 1],
            fitting=fitting,
            asked=target.need,
            is_of_slices=target.slicing.size > 1,
            has_leader=group.leader is not None,
            nodes=self.tree.node_count,
        )

    def _level_asked(self, ask: PlacementAsk) -> str:
        asked = ask.request
        return (asked.required or asked.preferred if asked is not None else "") or self.tree.levels[-1]


def _need(ask: PlacementAsk, tree: DomainTree) -> Need:
    return need_of(ask.shape, tree, ask.room)


def assignment(tree: DomainTree, places: Sequence[PlacedPods]) -> TopologyAssignment:
    """Places as they are written down; hosts are named without what they stand in."""
    return TopologyAssignment((HOSTNAME,) if tree.is_by_host else tree.levels, tuple(places))


def merged(tree: DomainTree, parts: Sequence[TopologyAssignment]) -> TopologyAssignment:
    """Several assignments as one, in the order of the domains' names."""
    counts: dict[tuple[str, ...], int] = {}
    for part in parts:
        for domain in part.domains:
            key = tree.key_of(domain.values)
            counts[key] = counts.get(key, 0) + domain.count
    paths = {key: leaf.path if (leaf := tree.leaf(key)) is not None else key for key in counts}
    return assignment(tree, [PlacedPods(key, counts[key]) for key in sorted(counts, key=lambda key: (paths[key], key))])


# Why not -----------------------------------------------------------------------------------------------------------


def exclusions(finder: Finder, workers: PlacementAsk, target: Target) -> tuple[tuple[str, int], ...]:
    """What kept nodes from taking a single pod, and how many; by the sentence of it."""
    tree = finder.tree
    layout, demands = tree.layout, demands_of(workers.shape, tree)
    counts: dict[str, int] = {}
    for position, leaf in enumerate(layout.leaves):
        if not leaf.nodes:
            continue
        why = ""
        if not _is_inside(layout, position, target.within):
            why = "topologyDomain"
        elif tree.is_by_host and leaf.node is not None:
            why = exclusion(demands, leaf.node)
        why = why or _missing_resource(finder, workers, position)
        if why:
            counts[why] = counts.get(why, 0) + len(leaf.nodes)
    return tuple(sorted(counts.items()))


def fitting_layers(tree: DomainTree, counts: Counts, target: Target) -> tuple[tuple[str, int, int], ...]:
    """How many of the slices of each layer would fit, each by itself."""
    slicing = target.slicing
    if not slicing.inner:
        return ()
    pods = target.need * slicing.size
    return tuple(
        (tree.levels[level - 1], sum(held // size for held in counts.pods[level]), pods // size)
        for level, size in ((slicing.level, slicing.size), *slicing.inner)
    )


def _is_inside(layout: Layout, position: int, within: tuple[int, int] | None) -> bool:
    return within is None or layout.ancestor(position, within[0]) == within[1]


def _missing_resource(finder: Finder, workers: PlacementAsk, position: int) -> str:
    """The resource that a leaf has least of for one pod, if it cannot take one."""
    free = finder.tree.columns[finder.column].frees[position]
    have: Mapping[str, int] = dict(zip(finder.tree.resources, free.amounts if free is not None else (), strict=False))
    needed = {**{name: amount for name, amount in workers.shape.requests.items() if amount > 0}, PODS: 1}
    short = [(have.get(name, 0) // amount, name) for name, amount in needed.items() if have.get(name, 0) < amount]
    return f'resource "{min(short)[1]}"' if short else ""


def without_slices(ask: PlacementAsk) -> PlacementAsk:
    """The same ask for pods of which none belongs to a slice any more."""
    if ask.request is None:
        return ask
    return replace(ask, request=replace(ask.request, slice_level="", slice_size=0, layers=()))
