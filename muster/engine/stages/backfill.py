"""backfill: pods that ask for nothing go wherever they are let in. Volcano's action of that name."""

from __future__ import annotations

from functools import cmp_to_key

from muster.engine.session import Session
from muster.engine.session_places import best_place, classes, fitting_rows
from muster.engine.stages.allocate import placeable
from muster.engine.standing import Standing


def backfill(session: Session) -> None:
    """Place pods that ask for nothing, by queue, group and pod."""

    def compare(first: Standing, second: Standing) -> int:
        by_queue = session.compare_queues(session.queues[first.queue], session.queues[second.queue])
        return by_queue if first.queue != second.queue else session.compare_groups(first, second)

    waiting = [group for group in placeable(session) if group.idle_best_effort]
    for group in sorted(waiting, key=cmp_to_key(compare)):
        for pod in session.sorted_pods(pod for pod in group.pending() if pod.is_best_effort):
            for rows in classes(session, fitting_rows(session, pod)):
                placed = best_place(session, pod, rows)
                if placed is not None:
                    session.allocate(pod, placed.row, placed.held)
                    break
        if session.tiers.is_ready(group):
            session.bind(group)
