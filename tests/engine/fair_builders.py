"""Builders for fair sharing: queues with weights in one cohort, shares as numbers, victims and order as plain names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.engine.cycle import Cycle
from muster.engine.fair_victims import find_fair_victims
from muster.engine.fairness import Share, share_of
from muster.engine.nominate import nominate
from muster.engine.order import Entry
from muster.engine.state import EngineState
from muster.engine.tournament import Tournament
from muster.engine.tree import QuotaNode
from muster.engine.victims import Preemptor
from muster.model.queue import Queue, SubmitQueue
from muster.model.reason import Code
from muster.model.resources import FlavorResource
from muster.model.settings import FairSharing, Settings, UsageFairness
from muster.model.workload import Workload
from tests.engine.builders import (
    ANY,
    GPUS,
    LOWER,
    NAMESPACE,
    Declared,
    key_of,
    name_of,
    node_of,
    preempts,
    queue,
    workload,
)

TOP = "all"  # the cohort of queues that do not say otherwise
FINAL = "LessThanOrEqualToFinalShare"
INITIAL = "LessThanInitialShare"


def fair(**fields: Any) -> Settings:
    """Settings with fair shares; the fields are those of fair sharing."""
    return Settings(fair_sharing=FairSharing(**fields))


FAIR = fair()


def team(name: str, gpus: Declared = 0, *, weight: float = 1.0, cohort: str | None = TOP, **fields: Any) -> Queue:
    """A queue that takes back what it lent, and from its own workloads of lower priority."""
    rules = {"preemption": preempts(within=LOWER, reclaim=ANY)} | fields
    return queue(name, cohort=cohort, gpus=gpus, weight=weight, **rules)


def submit(name: str, *, weight: float = 1.0, queue: str = "team-a", **fields: Any) -> SubmitQueue:
    """A submit queue of the namespace that all tests use."""
    return SubmitQueue(key=key_of(name), queue=queue, weight=weight, **fields)


def turns(half_life_s: float = 100.0, sampling_s: float = 10.0, **fields: Any) -> Settings:
    """Settings with which submit queues take turns by what they have used."""
    return Settings(usage_fairness=UsageFairness(half_life_s=half_life_s, sampling_s=sampling_s, **fields))


def submitted(name: str, to: str, **fields: Any) -> Workload:
    """A workload that came through a submit queue."""
    return workload(name, submit_queue=f"{NAMESPACE}/{to}", **fields)


# Shares ----------------------------------------------------------------------------------------------------------


def shares(state: EngineState) -> dict[str, float]:
    """The share of every node below the top of its tree."""
    return {name: share_of(node).value for name, node in state.tree.nodes.items() if node.parent is not None}


def share_with(state: EngineState, node: QuotaNode, leaf: QuotaNode, amounts: Mapping[FlavorResource, int]) -> Share:
    """The share of a node if a leaf below it used that much more."""
    mark = state.ledger.checkpoint()
    state.ledger.charge(leaf, amounts)
    share = share_of(node)
    state.ledger.rollback(mark)
    return share


def share_without(state: EngineState, node: QuotaNode, leaf: QuotaNode, amounts: Mapping[FlavorResource, int]) -> Share:
    """The share of a node if a leaf below it used that much less, and never less than nothing."""
    mark = state.ledger.checkpoint()
    state.ledger.release(leaf, {key: min(amount, leaf.usage.get(key, 0)) for key, amount in amounts.items()})
    share = share_of(node)
    state.ledger.rollback(mark)
    return share


# Victims and order -----------------------------------------------------------------------------------------------


def fair_victims(
    state: EngineState,
    preemptor: Workload,
    *,
    requests: Mapping[FlavorResource, int] | None = None,
    has_place: Any = None,
) -> dict[str, Code]:
    """Who has to leave for a workload that needs the cards it asks for, in the order of leaving."""
    asked = requests or {GPUS: sum(sum(pods.requests.values()) * pods.count for pods in preemptor.pod_sets)}
    search = Cycle(state).search
    wanted = Preemptor(
        workload=preemptor,
        queue=node_of(state, preemptor.queue),
        requests=asked,
        contested=frozenset(asked),
        has_place=has_place,
    )
    return {name_of(victim.holder.workload.key): victim.code for victim in find_fair_victims(search, wanted)}


def entries_of(state: EngineState) -> list[Entry]:
    """The heads of all queues, nominated."""
    state.begin_cycle(state.now)
    cycle = Cycle(state)
    return [nominate(cycle, node, head) for node, head in state.heads()]


def order_of(state: EngineState, entries: Iterable[Entry] | None = None, *, charges: bool = True) -> list[str]:
    """In which order a tournament hands out the heads; what each asks for is charged before the next is chosen."""
    heads = list(entries) if entries is not None else entries_of(state)
    mark = state.ledger.checkpoint()
    order = []
    for entry in Tournament(heads, state.ledger, state.settings):
        order.append(name_of(entry.workload.key))
        if charges and entry.assignment is not None and entry.queue is not None:
            state.ledger.charge(entry.queue, entry.assignment.usage)
    state.ledger.rollback(mark)
    return order
