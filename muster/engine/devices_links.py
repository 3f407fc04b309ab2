"""Which of several fitting cards to take by how near they are to each other. Called by `devices`.

A pair score is higher the faster the link between two cards. A container of one card gets the one that is worst
connected, so that well connected cards stay together for those who need several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import comb

from muster.model.device import ContainerShares, Share

PairScores = Mapping[str, Mapping[str, int]]  # by card, by other card
# More combinations than this are not walked: cards are then added one by one, each the nearest to those chosen.
COMBINATIONS_MOST = 20_000


def worst_connected(shares: Sequence[Share], scores: PairScores) -> Share:
    """The card with the lowest sum of pair scores to the other fitting ones; the first of equals."""
    return min(shares, key=lambda share: _nearness(share, shares, scores))


def best_connected(shares: Sequence[Share], count: int, scores: PairScores) -> tuple[Share, ...]:
    """The cards with the highest sum of pair scores; the first of equal combinations."""
    if comb(len(shares), count) > COMBINATIONS_MOST:
        return _grown(shares, count, scores)
    return best_combination(combinations(shares, count), scores)


def best_combination(choices: Iterable[tuple[Share, ...]], scores: PairScores) -> tuple[Share, ...]:
    """The first of the given combinations whose pair scores have the highest sum."""
    return max(choices, key=lambda shares: _sum_of_pairs(shares, scores))


def _grown(shares: Sequence[Share], count: int, scores: PairScores) -> tuple[Share, ...]:
    """A good set of cards where trying all sets would take too long."""
    chosen = [max(shares, key=lambda share: _nearness(share, shares, scores))]
    while len(chosen) < count:
        rest = [share for share in shares if share not in chosen]
        chosen.append(max(rest, key=lambda share: _nearness(share, chosen, scores)))
    return tuple(share for share in shares if share in chosen)


def _nearness(share: Share, others: Sequence[Share], scores: PairScores) -> int:
    of_card = scores.get(share.uuid, {})
    return sum(of_card.get(other.uuid, 0) for other in others if other.uuid != share.uuid)


def _sum_of_pairs(shares: Sequence[Share], scores: PairScores) -> int:
    return sum(scores.get(one.uuid, {}).get(other.uuid, 0) for one, other in combinations(shares, 2))


# Groups --------------------------------------------------------------------------------------------------------------


def fullest_groups(shares: Sequence[Share], count: int, groups: Mapping[str, str]) -> list[Share]:
    """So many cards out of as few groups as possible, the group with the most fitting cards first; groups by card."""
    members: dict[str | None, list[Share]] = {}
    for share in shares:
        members.setdefault(groups.get(share.uuid), []).append(share)
    alone = members.pop(None, [])
    largest_first = sorted(members.values(), key=len, reverse=True)
    return [share for group in (*largest_first, alone) for share in group][:count]


def togetherness(containers: ContainerShares, groups: Mapping[str, str]) -> float:
    """How well containers keep to one group each: the part of a container's cards in its largest group, summed up."""
    total = 0.0
    for shares in containers:
        named = [groups.get(share.uuid) for share in shares]
        if None in named:
            return 0.0
        if named:
            total += max(named.count(name) for name in set(named)) / len(named)
    return total
