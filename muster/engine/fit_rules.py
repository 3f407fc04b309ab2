"""Rules of pods about other pods, over all rows at once: host ports, spreading, affinity and anti-affinity.

Each rule is Kubernetes' own as the kube-scheduler's plugins apply it. Asked by `Placer` for where a pod may go and by
`why_not` for the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muster.engine.fit_index import RowCounts
from muster.engine.fit_pods import Bond, PodsOnNodes
from muster.engine.fit_reasons import Misfit, Refusal, RefusedRows
from muster.engine.node_table_rows import BoolArray, IntArray
from muster.model.pod_rules import PodRules, SpreadRule


def allowed_by_pods(pods: PodsOnNodes, rules: PodRules) -> BoolArray | None:
    """Which rows the pods that are there leave to this one; `None` when there is nothing to ask."""
    refused: BoolArray | None = None
    for _, rows in pod_refusals(pods, rules):
        refused = rows if refused is None else refused | rows
    return None if refused is None else ~refused


def pod_refusals(pods: PodsOnNodes, rules: PodRules) -> Iterator[RefusedRows]:
    """Each reason for which pods that are there keep this one away, with its rows."""
    if rules.ports:
        yield Refusal(Misfit.PORTS), _port_taken(pods, rules)
    required = [rule for rule in rules.spread if rule.is_required]
    for rule in required:
        yield Refusal(Misfit.SPREAD_LABEL, rule.topology_key), pods.facts.column(rule.topology_key).ids == 0
    has_labels = has_keys(pods, required)
    for rule in required:
        yield Refusal(Misfit.SPREAD, rule.topology_key), _too_uneven(pods, rules, rule, has_labels)
    if rules.affinity:
        yield Refusal(Misfit.POD_AFFINITY), ~_near_all(pods, rules)
    for term in rules.anti_affinity:
        yield Refusal(Misfit.POD_ANTI_AFFINITY), near(pods, pods.count((term.group,)), term.topology_key) > 0
    for key, counts in pods.bonds_to(rules.who, Bond.REPELS):
        yield Refusal(Misfit.REPELLED), near(pods, counts, key) > 0


def near(pods: PodsOnNodes, counts: RowCounts, topology_key: str) -> IntArray:
    """For each row what is counted on all rows with the same value of a label; nothing for rows without it."""
    places = pods.facts.column(topology_key)
    totals: IntArray = counts.totals(places, pods.facts.is_present)[places.ids]
    return totals


def has_keys(pods: PodsOnNodes, spread: list[SpreadRule]) -> BoolArray:
    """Which rows have a node with the labels of all these rules: the others take no part in spreading."""
    there = pods.facts.is_present.copy()
    for rule in spread:
        there &= pods.facts.column(rule.topology_key).ids > 0
    return there


def spread_over(pods: PodsOnNodes, rules: PodRules, rule: SpreadRule) -> BoolArray:
    """Which rows the rule spreads over, as far as the pod's own selector, affinity and tolerations decide it."""
    there = np.ones(pods.facts.row_count, np.bool_)
    if rule.is_by_affinity:
        there &= pods.facts.selected(rules.nodes.selector, rules.nodes.affinity)
    if rule.is_by_taints:
        there &= pods.facts.tolerated(rules.nodes.tolerations)
    return there


def _port_taken(pods: PodsOnNodes, rules: PodRules) -> BoolArray:
    taken = np.zeros(pods.facts.row_count, np.bool_)
    for port in rules.ports:
        taken[list(pods.rows_with(port))] = True
    return taken


def _too_uneven(pods: PodsOnNodes, rules: PodRules, rule: SpreadRule, has_labels: BoolArray) -> BoolArray:
    """Where one pod more would be too many above the emptiest domain; a domain of no counted node holds none."""
    places = pods.facts.column(rule.topology_key)
    counted = has_labels & spread_over(pods, rules, rule)
    totals = pods.count((rule.group,), is_of_living=True).totals(places, counted)
    is_domain = np.bincount(places.ids[counted], minlength=places.width) > 0
    # Kubernetes: while there are too few domains, one of those to come counts as the emptiest.
    is_enough = np.count_nonzero(is_domain) >= rule.min_domains
    least = int(totals[is_domain].min()) if is_enough else 0
    uneven: BoolArray = totals[places.ids] + rule.has_self - least > rule.max_skew
    return uneven


def _near_all(pods: PodsOnNodes, rules: PodRules) -> BoolArray:
    """Where pods that match all terms are near by each of the terms' labels."""
    facts = pods.facts
    counts = pods.count(tuple(term.group for term in rules.affinity))
    fit, has_labels = np.ones(facts.row_count, np.bool_), np.ones(facts.row_count, np.bool_)
    is_first = True
    for key in dict.fromkeys(term.topology_key for term in rules.affinity):
        places = facts.column(key)
        totals = counts.totals(places, facts.is_present)
        is_first &= not totals.any()
        fit &= totals[places.ids] > 0
        has_labels &= places.ids > 0
    # Kubernetes: the first pod of a group that wants to be near itself may go to any node that has the labels.
    if is_first and all(pods.is_one_of(rules.who, term.group) for term in rules.affinity):
        return has_labels
    return fit
