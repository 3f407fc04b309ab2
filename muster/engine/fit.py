"""Why a pod fits nowhere, in numbers: how many nodes refuse it for which reason, and which nodes come nearest.

Asked for pods that found no place, by the stages and by the commands that explain; all nodes are looked at together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from muster.engine.devices import Choice
from muster.engine.fit_reasons import Misfit, Refusal
from muster.engine.fit_rules import pod_refusals
from muster.engine.node_table_columns import Placer, has_model
from muster.engine.node_table_rows import AMOUNT_CAP, BoolArray, Demand, FloatArray, IntArray, NodeRows
from muster.engine.slices import cards_fit, choose, tag_of
from muster.model.pod_rules import ANYWHERE
from muster.model.resources import PODS, amount_text

NEAREST_SHOWN = 3
LACKS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that keeps a pod off one node, and how much of it is missing where it is an amount."""

    refusal: Refusal
    short: int = 0

    @property
    def text(self) -> str:
        match self.refusal.misfit:
            case Misfit.RESOURCE | Misfit.POD_COUNT:
                return f"{self.refusal.about} {amount_text(self.refusal.about, self.short)} short"
            case Misfit.CARDS if self.short:
                return f"{self.short} {'card' if self.short == 1 else 'cards'} short"
            case Misfit.CARDS if self.refusal.about:
                return f"{self.refusal.text}: {self.refusal.about}"
        return self.refusal.text


@dataclass(frozen=True, slots=True)
class NearNode:
    """A node that the pod nearly fits on, and all that is missing."""

    name: str
    lacks: tuple[Lack, ...]

    @property
    def text(self) -> str:
        shown = [lack.text for lack in self.lacks[:LACKS_SHOWN]]
        if len(self.lacks) > LACKS_SHOWN:
            shown.append(f"and {len(self.lacks) - LACKS_SHOWN} more")
        return f"{self.name}: {', '.join(shown)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """Where a pod fits and why not elsewhere; every node that refuses it is counted once, by its first reason."""

    nodes: int
    fitting: int
    refusals: tuple[tuple[Refusal, int], ...]  # the most frequent first
    nearest: tuple[NearNode, ...]

    @property
    def text(self) -> str:
        """The report in one line."""
        parts = [f"{self.fitting} of {self.nodes} nodes fit"]
        parts += [f"{count} {reason.text}" for reason, count in self.refusals]
        line = ", ".join(parts)
        return f"{line}; nearest {'; '.join(node.text for node in self.nearest)}" if self.nearest else line


@dataclass(frozen=True, slots=True)
class _Check:
    """One reason, the rows that it holds for, and where it is about an amount how much of it is missing."""

    refusal: Refusal
    rows: BoolArray
    short: IntArray | None = None
    asked: int = 1


def why_not(placer: Placer, demand: Demand, *, within: BoolArray | None = None) -> FitReport:
    """How many nodes refuse the pod and why, among some rows if they are named."""
    table = placer.table
    asked_of = table.is_present[: table.row_count]
    if within is not None:
        asked_of = asked_of & within
    checks = list(_checks(placer, demand))
    if demand.ask is not None:
        checks.append(_card_check(placer, demand, checks))
    left = asked_of.copy()
    counts: dict[Refusal, int] = {}
    for check in checks:
        count = int(np.count_nonzero(left & check.rows))
        left &= ~check.rows
        if count:
            counts[check.refusal] = counts.get(check.refusal, 0) + count
    return FitReport(
        nodes=int(np.count_nonzero(asked_of)),
        fitting=int(np.count_nonzero(left)),
        refusals=tuple(sorted(counts.items(), key=lambda item: -item[1])),  # equally frequent: the first asked
        nearest=tuple(
            NearNode(table.names[row], _lacks(placer, demand, checks=checks, row=row))
            for row in _nearest(checks, np.flatnonzero(asked_of & ~left))
        ),
    )


def closed_nodes(placer: Placer, demand: Demand) -> str:
    """How many nodes are closed to a pod whoever runs there, each counted by its first reason; empty: none is."""
    if placer.pods is None or demand.rules is ANYWHERE:
        return ""
    left = placer.table.is_present[: placer.table.row_count].copy()
    parts = []
    for reason, rows in placer.pods.facts.refusals(demand.rules.nodes):
        count = int(np.count_nonzero(left & rows))
        left &= ~rows
        if count:
            parts.append(f"{count} {reason.text}")
    return f"of the nodes {', '.join(parts)}" if parts else ""


def _checks(placer: Placer, demand: Demand) -> Iterator[_Check]:
    """Every filter in the order of the kube-scheduler: the node itself, then amounts, volumes and other pods."""
    rows, pods = placer.table.rows(), placer.pods
    of_nodes = [] if pods is None else pods.facts.refusals(demand.rules.nodes)
    of_pods = [] if pods is None or demand.rules is ANYWHERE else list(pod_refusals(pods, demand.rules))
    late = (Misfit.VOLUME,)
    yield from (_Check(*one) for one in of_nodes if one[0].misfit not in late)
    yield from (_Check(*one) for one in of_pods if one[0].misfit is Misfit.PORTS)
    yield from _amount_checks(demand, rows)
    yield from (_Check(*one) for one in of_nodes if one[0].misfit in late)
    yield from (_Check(*one) for one in of_pods if one[0].misfit is not Misfit.PORTS)
    if placer.fit_hooks:
        fit = np.ones(len(rows), np.bool_)
        for hook in placer.fit_hooks:
            fit &= hook(demand, rows)
        yield _Check(Refusal(Misfit.POLICY), ~fit)


def _card_check(placer: Placer, demand: Demand, others: list[_Check]) -> _Check:
    """For slices, rows that refuse the pod for nothing else: their cards were tried one by one and did not suit."""
    refused = np.logical_or.reduce([check.rows for check in others])
    return _Check(Refusal(Misfit.CARDS), ~refused & ~placer.fits(demand))


def _amount_checks(demand: Demand, rows: NodeRows) -> Iterator[_Check]:
    for resource, amount in demand.amounts:
        reason = Refusal(Misfit.POD_COUNT if resource == PODS else Misfit.RESOURCE, resource)
        free, asked = rows.free(resource), min(amount, AMOUNT_CAP)
        is_absurd = resource not in rows.resources or amount > AMOUNT_CAP  # what no node has, or could have
        yield _Check(reason, (free < asked) | is_absurd, short=np.maximum(asked - free, 1), asked=max(asked, 1))
    if demand.ask is not None:
        yield _Check(Refusal(Misfit.CARDS), ~cards_fit(demand, rows))
    elif demand.cards:
        short = demand.cards - (rows.cards >= demand.milli).sum(axis=1)
        yield _Check(Refusal(Misfit.CARDS), short > 0, short=short, asked=demand.cards)
    if demand.models:
        yield _Check(Refusal(Misfit.MODEL, ", ".join(demand.models)), ~has_model(demand, rows))


def _nearest(checks: list[_Check], refused: IntArray) -> list[int]:
    """The nodes with the fewest reasons, and of those with the least missing; the earlier among equals."""
    reasons: IntArray = np.zeros(len(refused), np.int64)
    missing: FloatArray = np.zeros(len(refused))
    for check in checks:
        fails = check.rows[refused]
        reasons += fails
        if check.short is not None:
            missing += np.where(fails, check.short[refused] / check.asked, 0.0)
    best = np.lexsort((refused, missing, reasons))[:NEAREST_SHOWN]
    return [int(refused[place]) for place in best]


def _lacks(placer: Placer, demand: Demand, *, checks: list[_Check], row: int) -> tuple[Lack, ...]:
    failing = [check for check in checks if check.rows[row]]
    found = (Lack(check.refusal, 0 if check.short is None else int(check.short[row])) for check in failing)
    lacks = tuple(dict.fromkeys(found))  # several rules may give the same reason
    if demand.ask is None:
        return lacks
    tried = choose(placer.table, row, demand.ask, tag=tag_of(demand))
    of_cards = Lack(Refusal(Misfit.CARDS, tried.text if isinstance(tried, Choice) else ""))
    return tuple(of_cards if lack.refusal.misfit is Misfit.CARDS else lack for lack in lacks)
