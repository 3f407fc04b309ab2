"""nodeorder: the kube-scheduler's scores, each from 0 to 100 times its weight. Volcano's plugin of that name.

Least and most requested and balanced use look at a node alone; node affinity, taints, pod affinity and spreading
compare the nodes that fit with each other, see `muster/engine/fit_scores.py`. Requests count as they are written: a pod
that asks for no cpu or memory counts as nothing, where the kube-scheduler supposes a little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.fit_scores import (
    BEST,
    Candidates,
    node_affinity_scores,
    pod_affinity_scores,
    spread_scores,
    taint_scores,
)
from muster.engine.node_table_rows import WHOLE, Demand, FloatArray, IntArray, NodeRows, Scores
from muster.engine.policy import Hooks, Policy, argument
from muster.model.resources import CPU

COUNTED = (CPU, "memory")
HUGE = 2**56


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The weight of each score; the defaults are Volcano's. `need` is what a pod counts that must be near this one."""

    least_requested: int = argument(1, least=0, alias="leastrequested.weight")
    most_requested: int = argument(0, least=0, alias="mostrequested.weight")
    balanced: int = argument(1, least=0, alias="balancedresource.weight")
    node_affinity: int = argument(2, least=0, alias="nodeaffinity.weight")
    pod_affinity: int = argument(2, least=0, alias="podaffinity.weight")
    taints: int = argument(3, least=0, alias="tainttoleration.weight")
    spread: int = argument(2, least=0, alias="podtopologyspread.weight")
    # Volcano: accepted; which images nodes have is not read, so that it adds nothing.
    images: int = argument(1, least=0, alias="imagelocality.weight")
    need: int = argument(1, least=0, most=100, alias="hardpodaffinity.weight")


def build(arguments: Arguments) -> Hooks:
    def score(pod: Demand, rows: NodeRows) -> Scores:
        values: IntArray = np.zeros(len(rows), np.int64)
        if arguments.least_requested:
            values += arguments.least_requested * least_requested(pod, rows)
        if arguments.most_requested:
            values += arguments.most_requested * most_requested(pod, rows)
        if arguments.balanced:
            values += arguments.balanced * balanced(pod, rows)
        return Scores(values)

    def prefer(candidates: Candidates) -> IntArray:
        return (
            arguments.node_affinity * node_affinity_scores(candidates)
            + arguments.taints * taint_scores(candidates)
            + arguments.pod_affinity * pod_affinity_scores(candidates, need_weight=arguments.need)
            + arguments.spread * spread_scores(candidates)
        )

    if not (arguments.least_requested or arguments.most_requested or arguments.balanced):
        return Hooks(prefer=prefer)
    # The best node need not stay the best: alike pods are placed one at a time.
    return Hooks(score=score, prefer=prefer, fills_nodes=False)


def least_requested(pod: Demand, rows: NodeRows) -> IntArray:
    """By what is left of cpu and memory once the pod is there."""
    used, total = _amounts(pod, rows)
    return _mean_percent(np.maximum(total - used, 0), total)


def most_requested(pod: Demand, rows: NodeRows) -> IntArray:
    """By what is taken of cpu and memory once the pod is there."""
    used, total = _amounts(pod, rows)
    return _mean_percent(np.minimum(used, total), total)


def balanced(pod: Demand, rows: NodeRows) -> IntArray:
    """By how evenly cpu, memory and, for pods with cards, the cards are taken once the pod is there."""
    if not pod.cards and not any(pod.amount(resource) for resource in COUNTED):
        # Kubernetes: pods that ask for nothing would all go to the one most balanced node.
        return np.zeros(len(rows), np.int64)
    used, total = _amounts(pod, rows)
    if pod.cards:
        cards = rows.card_count * WHOLE
        used = np.vstack((used, cards - rows.card_sum + pod.card_milli))
        total = np.vstack((total, cards))
    has = total > 0  # what a node has not is left out
    count = np.maximum(has.sum(axis=0), 1)
    share: FloatArray = np.where(has, np.minimum(used / np.maximum(total, 1), 1.0), 0.0)
    off = np.where(has, share - share.sum(axis=0) / count, 0.0)
    deviation = np.sqrt((off * off).sum(axis=0) / count)
    # Kubernetes: of two shares half the difference, which is the same but for the rounding.
    half = (share.max(axis=0) - np.where(has, share, 1.0).min(axis=0)) / 2
    deviation = np.where(count == 2, half, deviation)
    score: IntArray = ((1 - deviation) * BEST).astype(np.int64)
    return score


def _amounts(pod: Demand, rows: NodeRows) -> tuple[IntArray, IntArray]:
    """What is taken of cpu and memory once the pod is there, and what there is of them: resources by rows."""
    total = np.array([rows.total(resource) for resource in COUNTED])
    free = np.array([rows.free(resource) for resource in COUNTED])
    return total - free + np.array([[pod.amount(resource)] for resource in COUNTED]), total


def _mean_percent(part: IntArray, whole: IntArray) -> IntArray:
    """The mean of parts of a whole in per cent, each and all rounded down; what a node has not is left out."""
    # A hundred times an absurd amount does not fit in a cell.
    is_huge = whole > HUGE
    times, over = np.where(is_huge, 1, BEST), np.where(is_huge, whole // BEST, np.maximum(whole, 1))
    mean: IntArray = (times * part // over).sum(axis=0) // np.maximum((whole > 0).sum(axis=0), 1)
    return mean


POLICY = Policy(name="nodeorder", arguments=Arguments, build=build)
