"""Invariants: what must hold after every step, as checks that tests, `muster plan` and a running system share."""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.quota import fits
from muster.engine.state import EngineState
from muster.engine.tree import QuotaNode
from muster.model.plan import Plan, Reserve
from muster.model.resources import FlavorResource


def violations(state: EngineState) -> Iterator[str]:
    """Everything about a state that must not be, one sentence each."""
    for node in state.tree.nodes.values():
        yield from _node_violations(node)
    yield from _holder_violations(state)
    yield from _place_violations(state)


def _node_violations(node: QuotaNode) -> Iterator[str]:
    """Usage is never negative, and a parent uses what its children have above their reserves."""
    for key, used in node.usage.items():
        if used < 0:
            yield f"{node.name} uses {used} of {key}"
    if node.queue.is_leaf:
        return
    keys: dict[FlavorResource, None] = dict.fromkeys(node.usage)
    for child in node.children:
        keys.update(dict.fromkeys(child.usage))
    for key in keys:
        above = sum(max(0, child.usage.get(key, 0) - child.cell(key).reserved) for child in node.children)
        if above != node.usage.get(key, 0):
            yield f"{node.name} uses {node.usage.get(key, 0)} of {key}, its children {above}"


def _holder_violations(state: EngineState) -> Iterator[str]:
    """A queue uses what its workloads hold, no more and no less."""
    for node in state.tree.nodes.values():
        if not node.queue.is_leaf:
            continue
        held: dict[FlavorResource, int] = {}
        for holder in state.holders.in_queue(node.name).values():
            for key, amount in holder.usage.items():
                held[key] = held.get(key, 0) + amount
        if {key: amount for key, amount in held.items() if amount} != node.usage:
            yield f"{node.name} uses {node.usage}, its workloads hold {held}"


def _place_violations(state: EngineState) -> Iterator[str]:
    """Nobody is lost and nobody is in two places."""
    lines = state.lines
    for key, workload in state.workloads.items():
        is_waiting = any(line.get(key) is not None for line in lines.values())
        is_holding = state.holders.get(key) is not None
        if not is_waiting and not is_holding and state.should_wait(workload):
            yield f"{key} should wait in {workload.queue} and is nowhere"
        if is_waiting and is_holding:
            yield f"{key} waits and holds quota"
        if workload.is_finished and (is_waiting or is_holding):
            yield f"{key} has finished and is still there"


def unsafe_reserves(state: EngineState, plan: Plan) -> Iterator[str]:
    """Decisions that would take more than there is, in the order in which they are carried out."""
    mark = state.ledger.checkpoint()
    for decision in plan.decisions:
        if not isinstance(decision, Reserve):
            continue
        node = state.tree.leaf(decision.admission.queue)
        if node is None:
            yield f"{decision.workload} is given quota of {decision.admission.queue}, which is not there"
            continue
        workload = state.workloads[decision.workload]
        older = state.older_slice(workload)
        if older is not None:
            state.ledger.release(older.queue, older.usage)
        usage = decision.admission.usage()
        if not fits(node, usage):
            yield f"{decision.workload} is given {usage}, which {node.name} does not have"
        state.ledger.charge(node, usage)
    state.ledger.rollback(mark)
