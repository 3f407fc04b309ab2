"""enqueue: take up groups that wait, as far as their queues may promise them what they need at least.

Volcano's action of that name. A group that is not taken up has no pods placed, and is asked again in the next session.
"""

from __future__ import annotations

from muster.engine.session import Session
from muster.engine.session_order import Ordered
from muster.engine.standing import QueueStanding, Standing
from muster.model.groups import GroupPhase

NOT_TAKEN_UP = "its queue cannot promise what it needs at least"


def enqueue(session: Session) -> None:
    """Take up groups queue by queue, one of each at a time."""
    lines: dict[str, Ordered[Standing]] = {}
    for name, queue in session.queues.items():
        waiting = [group for group in queue.groups if group.phase is GroupPhase.PENDING]
        lines[name] = Ordered(session.compare_groups, waiting)
    queues: Ordered[QueueStanding] = Ordered(session.compare_queues, session.queues.values())
    while queues:
        queue = queues.pop()
        line = lines[queue.name]
        if not line:
            continue
        group = line.pop()
        if group.group.resources_least is None or session.tiers.is_enqueueable(group):
            session.tiers.note_enqueued(group)
            group.phase = GroupPhase.INQUEUE
        else:
            session.outcome.reasons[group.key] = session.tiers.find_fault(group) or NOT_TAKEN_UP
        queues.push(queue)
