"""The cycles of one pass, and what they have decided. Called by the scheduler, and by whoever looks ahead."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.controllers.sessions import SessionReport
from muster.engine.decide import decide
from muster.engine.state import EngineState
from muster.model.plan import Decision, Hold, Plan, Requeue, Retry
from muster.model.reason import Verdict

CYCLES_MOST = 512  # of one pass: what is decided is to be seen soon


@dataclass(slots=True)
class Decided:
    """What a pass has decided."""

    decisions: dict[str, list[Decision]] = field(default_factory=dict)  # by workload
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    cycles: int = 0
    is_cut_short: bool = False  # there may be more to decide
    session: SessionReport | None = None  # of groups, where there was anything to decide


def run_cycles(state: EngineState, now: float, decisions_most: int = 0) -> Decided:
    """Run cycles until every head was tried in vain since the last change, and nobody can grow; or up to a bound.

    What is left is for the next pass, which follows on the writes of this one.
    """
    decided = Decided()
    while decided.cycles < CYCLES_MOST and not (decided.cycles and state.is_settled and not state.growing()):
        if decisions_most and len(decided.decisions) >= decisions_most:
            decided.is_cut_short = True
            break
        state.begin_cycle(max(now, state.now))
        plan = decide(state)
        state.apply(plan)
        decided.cycles += 1
        _note(decided, plan)
    return decided


def _note(decided: Decided, plan: Plan) -> None:
    """Take down what a cycle decided."""
    for decision in plan.decisions:
        if not isinstance(decision, (Requeue, Retry, Hold)):
            decided.decisions.setdefault(decision.workload, []).append(decision)
    decided.verdicts.update(plan.verdicts)
