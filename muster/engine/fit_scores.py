"""How much a pod likes the nodes that it fits on, compared with each other: whole numbers from 0 to 100.

These are the kube-scheduler's scores for preferred node affinity, PreferNoSchedule taints, preferred pod affinity and
spreading that is only wished for. Each is put on its scale over the candidates together, so that it is asked for all of
them at once and never kept. A policy weighs them and gives them to `Placer` by its hook `prefer`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from muster.engine.fit_pods import Bond, PodsOnNodes
from muster.engine.fit_rules import has_keys, near, spread_over
from muster.engine.node_table_rows import BoolArray, FloatArray, IntArray
from muster.model.pod_rules import PodRules
from muster.model.topology import HOSTNAME

BEST = 100


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows that a pod fits on, and what its rules are asked of."""

    rules: PodRules
    rows: IntArray
    pods: PodsOnNodes

    def __post_init__(self) -> None:
        assert len(self.rows), "nobody compares nodes where none fits"


def has_preferences(pods: PodsOnNodes, rules: PodRules) -> bool:
    """Whether anything could make the pod like one node better than another."""
    has_own = bool(rules.preferred_nodes or rules.preferred_pods) or any(not rule.is_required for rule in rules.spread)
    return has_own or pods.facts.has_mild_taints or pods.has_bonds(Bond.LIKES, Bond.NEEDS)


def node_affinity_scores(candidates: Candidates) -> IntArray:
    """By the weights of the preferred node terms that a node matches."""
    return _scaled(candidates.pods.facts.liked(candidates.rules.preferred_nodes)[candidates.rows])


def taint_scores(candidates: Candidates) -> IntArray:
    """By how few PreferNoSchedule taints are not tolerated."""
    counts = candidates.pods.facts.disliked(candidates.rules.nodes.tolerations)[candidates.rows]
    return BEST - _scaled(counts)


def pod_affinity_scores(candidates: Candidates, *, need_weight: int = 1) -> IntArray:
    """By the pod's own preferred terms, and by those of pods that are there and that are about it.

    What other pods must be near counts with the given weight: the pod makes the place more fitting for them.
    """
    rules, pods = candidates.rules, candidates.pods
    liked = np.zeros(pods.facts.row_count, np.int64)
    for preferred in rules.preferred_pods:
        term = preferred.term
        liked += preferred.weight * near(pods, pods.count((term.group,)), term.topology_key)
    for bond, weight in ((Bond.LIKES, 1), (Bond.NEEDS, need_weight)):
        for key, counts in pods.bonds_to(rules.who, bond):
            liked += weight * near(pods, counts, key)
    scores = liked[candidates.rows]
    low, high = int(scores.min()), int(scores.max())
    if high == low:
        return np.zeros(len(scores), np.int64)
    return (float(BEST) * ((scores - low) / (high - low))).astype(np.int64)


def spread_scores(candidates: Candidates) -> IntArray:
    """By how few pods of each group are in the node's domain; nodes without the labels come last."""
    rules, pods, rows = candidates.rules, candidates.pods, candidates.rows
    wished = [rule for rule in rules.spread if not rule.is_required]
    if not wished:
        return np.zeros(len(rows), np.int64)
    has_labels = has_keys(pods, wished)
    takes_part: BoolArray = has_labels[rows]
    total: FloatArray = np.zeros(len(rows))
    for rule in wished:
        places = pods.facts.column(rule.topology_key)
        counts = pods.count((rule.group,), is_of_living=True)
        if rule.topology_key == HOSTNAME:
            # Kubernetes counts a host's own pods, whatever the rule says of the nodes that take part.
            found = counts.column(pods.facts.row_count)[rows]
            domains = int(np.count_nonzero(takes_part))
        else:
            found = counts.totals(places, has_labels & spread_over(pods, rules, rule))[places.ids[rows]]
            domains = len(np.unique(places.ids[rows][takes_part]))
        # The more domains there are, the more a pod in one of them weighs; uneven spreads that are allowed weigh less.
        total += found * math.log(domains + 2) + float(rule.max_skew - 1)
    return _turned(_rounded(total), takes_part)


def _turned(counts: IntArray, takes_part: BoolArray) -> IntArray:
    """The fewest get the most; who takes no part gets nothing."""
    if not takes_part.any():
        return np.zeros(len(counts), np.int64)
    low, high = int(counts[takes_part].min()), int(counts[takes_part].max())
    scores = np.full(len(counts), BEST, np.int64) if high == 0 else BEST * (high + low - counts) // high
    return np.where(takes_part, scores, 0)


def _rounded(values: FloatArray) -> IntArray:
    """To the nearest whole number, halves away from zero; nothing here is below zero."""
    whole = np.floor(values)
    return (whole + (values - whole >= 0.5)).astype(np.int64)


def _scaled(counts: IntArray) -> IntArray:
    """As parts of the highest, from 0 to 100; all nothing when that is nothing."""
    high = int(counts.max())
    return counts if high == 0 else BEST * counts // high
