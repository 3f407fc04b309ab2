"""resource-strategy-fit: each resource is packed or spread as it is told. Volcano's plugin of that name.

Pods may say otherwise for themselves by annotations. Beside that pods may be kept off nodes that have scarce resources
which they do not need, and pods without cards leave cpu and memory for the cards that are free.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from muster.engine.node_table_rows import BoolArray, Demand, FloatArray, IntArray, NodeRows, Scores
from muster.engine.policy import Hooks, Policy, argument
from muster.engine.session import Session
from muster.engine.standing import PodStanding
from muster.engine.vectors import MEMORY
from muster.model.resources import CPU, PODS

BEST = 100
MOST, LEAST = "MostAllocated", "LeastAllocated"
GIB = 2**30
POD_TYPE, POD_WEIGHTS = "volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight"
TEXT_MOST = 10_000


@dataclass(frozen=True)
class Rule:
    """Whether a resource is packed, and what it weighs."""

    is_packed: bool
    weight: float


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How much it counts, the rule of each resource, and what is said of scarce ones."""

    weight: int = argument(10, least=0, alias="resourceStrategyFitWeight")
    resources: Mapping[str, Any] = field(default_factory=dict)
    sra: Mapping[str, Any] = field(default_factory=dict)
    proportional: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _rules(self.resources)
        _scarce(self.sra)
        _proportions(self.proportional)


def build(arguments: Arguments) -> Hooks:
    rules = _rules(arguments.resources)
    scarce, scarce_weight = _scarce(arguments.sra)
    proportions = _proportions(arguments.proportional)

    def score(pod: Demand, rows: NodeRows) -> Scores:
        values = arguments.weight * BEST * _fit(rules, pod, rows)
        if scarce and scarce_weight:
            values = values + scarce_weight * BEST * _without_scarce(scarce, pod, rows)
        return Scores(values)

    def fit(pod: Demand, rows: NodeRows) -> BoolArray:
        return _leaves_enough(proportions, pod, rows)

    plain = Hooks(score=score, fit=fit if proportions else None, fills_nodes=False)

    def opened(session: Session) -> Hooks:
        own = {pod.key: found for pod in session.pods.values() if (found := _own_rules(rules, pod.pod.annotations))}

        def score_pod(pod: PodStanding, index: IntArray) -> FloatArray | None:
            """What a pod's own rules make of nodes, in place of what those for all do."""
            if pod.key not in own:
                return None
            rows = session.placer.table.rows(index)
            return arguments.weight * BEST * (_fit(own[pod.key], pod.demand, rows) - _fit(rules, pod.demand, rows))

        return replace(plain, score_pod=score_pod) if own else plain

    return replace(plain, open=opened)


def _own_rules(rules: Mapping[str, Rule], annotations: Mapping[str, str]) -> dict[str, Rule]:
    """The rules of a pod that has some of its own; what cannot be read counts as not given."""
    kind, text = annotations.get(POD_TYPE, ""), annotations.get(POD_WEIGHTS, "")
    weights = _own_weights(text)
    if kind not in (MOST, LEAST) and not weights:
        return {}
    found = {}
    for name, weight in (weights or {name: rule.weight for name, rule in rules.items()}).items():
        known = _rule_for(rules, name)
        is_packed = kind == MOST if kind in (MOST, LEAST) else known is not None and known.is_packed
        found[name] = Rule(is_packed, weight)
    return found


def _own_weights(text: str) -> dict[str, float]:
    if not text or len(text) > TEXT_MOST:
        return {}
    try:
        return {str(name): _number(weight, str(name)) for name, weight in json.loads(text).items()}
    except (ValueError, AttributeError, RecursionError):
        return {}


def _fit(rules: Mapping[str, Rule], pod: Demand, rows: NodeRows) -> FloatArray:
    """The weighted mean of how much is used, or left, of what the pod asks for; nothing where it is too little."""
    total: FloatArray = np.zeros(len(rows))
    fits = np.ones(len(rows), np.bool_)
    weights = 0.0
    for name, amount in pod.amounts:
        rule = _rule_for(rules, name)
        if rule is None or name == PODS:
            continue
        weights += rule.weight
        have = rows.total(name)
        used = have - rows.free(name) + amount
        is_there = have > 0
        fits &= ~is_there | (used <= have)
        share = np.where(is_there, used / np.maximum(have, 1), 0.0)
        total += rule.weight * np.where(is_there, share if rule.is_packed else 1 - share, 0.0)
    return np.where(fits, total / weights, 0.0) if weights else total


def _rule_for(rules: Mapping[str, Rule], name: str) -> Rule | None:
    """The rule of a resource: its own, or of the longest beginning that a star stands for."""
    if name in rules:
        return rules[name]
    stars = [one for one in rules if one.endswith("*") and name.startswith(one[:-1])]
    return rules[max(stars, key=len)] if stars else None


def _without_scarce(scarce: Mapping[str, float], pod: Demand, rows: NodeRows) -> FloatArray:
    """More for nodes with fewer scarce resources; nothing for nodes that lack what the pod asks for."""
    has_all = np.ones(len(rows), np.bool_)
    for name, _ in pod.amounts:
        has_all &= rows.total(name) > 0
    held: FloatArray = np.zeros(len(rows))
    for name, weight in scarce.items():
        held += weight * (rows.total(name) > 0)
    return np.where(has_all, 1 - held / sum(scarce.values()), 0.0)


def _leaves_enough(proportions: Mapping[str, tuple[float, float]], pod: Demand, rows: NodeRows) -> BoolArray:
    """Where a pod without cards leaves cpu and memory for the cards that are free."""
    fits = np.ones(len(rows), np.bool_)
    if any(pod.amount(name) for name in proportions):
        return fits
    for name, (cpu_milli, memory) in proportions.items():
        cards = np.maximum(rows.free(name), 0)
        has_cards = rows.total(name) > 0
        leaves = (rows.free(CPU) - pod.amount(CPU) >= cards * cpu_milli) & (
            rows.free(MEMORY) - pod.amount(MEMORY) >= cards * memory
        )
        fits &= ~has_cards | leaves
    return fits


# Arguments -----------------------------------------------------------------------------------------------------------


def _rules(given: Mapping[str, Any]) -> dict[str, Rule]:
    if not given:
        return {CPU: Rule(False, 1), MEMORY: Rule(False, 1)}
    rules = {}
    for name, one in given.items():
        kind, weight = (one.get("type"), one.get("weight", 1)) if isinstance(one, Mapping) else (None, 1)
        if kind not in (MOST, LEAST):
            raise ValueError(f"the type of {name} is {str(kind)[:40]!r}: give {MOST} or {LEAST}")
        rules[str(name)] = Rule(kind == MOST, _number(weight, f"the weight of {name}"))
    return rules


def _scarce(given: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    if not given or not given.get("enable", False):
        return {}, 0.0
    names = [name.strip() for name in str(given.get("resources", "")).split(",") if name.strip()]
    weights = given.get("resourceWeight") or {}
    if not isinstance(weights, Mapping):
        raise ValueError("sra.resourceWeight is no object: give a weight for each resource")
    scarce = {name: _number(weights.get(name, 1), f"the weight of {name}") for name in names}
    return {name: weight for name, weight in scarce.items() if weight}, _number(given.get("weight", 1), "sra.weight")


def _proportions(given: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """What goes with one of a resource: thousandths of cpu, and bytes of memory."""
    if not given or not given.get("enable", False):
        return {}
    names = [name.strip() for name in str(given.get("resources", "")).split(",") if name.strip()]
    rates = given.get("resourceProportion") or {}
    if not isinstance(rates, Mapping):
        raise ValueError("proportional.resourceProportion is no object: give a rate for each resource")
    found = {}
    for name in names:
        cpu, memory = (_number(rates.get(f"{name}.{kind}", 0), f"{name}.{kind}") for kind in ("cpu", "memory"))
        found[name] = (cpu * 1000, memory * GIB)
    return found


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        raise ValueError(f"{what} is {str(value)[:40]!r}: give a number, 0 or more")
    return float(value)


POLICY = Policy(name="resource-strategy-fit", arguments=Arguments, build=build)
