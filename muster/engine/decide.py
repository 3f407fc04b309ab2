"""Decide: one cycle over the engine's state, without changing it."""

from __future__ import annotations

from muster.engine.cycle import Cycle
from muster.engine.stages.grow import grow
from muster.engine.stages.reserve import reserve
from muster.engine.state import EngineState
from muster.model.plan import Plan


def decide(state: EngineState) -> Plan:
    """The plan of one cycle. The same state gives the same plan; the ledger is left as it was found."""
    mark = state.ledger.checkpoint()
    cycle = Cycle(state)
    try:
        reserve(cycle)
        grow(cycle)
    finally:
        state.ledger.rollback(mark)
    return cycle.plan()
