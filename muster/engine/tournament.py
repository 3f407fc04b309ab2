"""Fair order: at every branching of the tree the entry goes first whose side has borrowed least.

Each entry is judged with its own request added. Judgements hold until a node on the entry's way to the top
changes, so after each entry only those of its own branches are judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.engine.fairness import Share, share_of
from muster.engine.ledger import Ledger
from muster.engine.order import Entry
from muster.engine.quota import is_borrowing_any
from muster.engine.tree import QuotaNode
from muster.model.settings import Settings

Judgement = tuple[bool, bool, Share, int, float]


class Tournament:
    """Hands out the entries of a cycle in fair order, one by one, as the ledger changes between them."""

    def __init__(self, entries: Sequence[Entry], ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._alone: list[Entry] = []
        self._by_root: dict[str, dict[QuotaNode, Entry]] = {}
        for entry in entries:
            queue = entry.queue
            assert queue is not None, "a head has a queue"
            if queue.parent is None or entry.assignment is None:
                self._alone.append(entry)
            else:
                self._by_root.setdefault(queue.root.name, {})[queue] = entry
        self._judgements: dict[QuotaNode, dict[QuotaNode, Judgement]] = {}  # by queue, then by node on its way up

    def __iter__(self) -> Iterator[Entry]:
        """All entries, tree by tree; the caller may charge the ledger between them."""
        yield from self._alone
        for name in sorted(self._by_root):
            waiting = self._by_root[name]
            while waiting:
                winner = self._winner(next(iter(waiting)).root, waiting)
                entry = waiting.pop(winner)
                yield entry
                self._forget(winner, waiting)

    def _forget(self, winner: QuotaNode, waiting: dict[QuotaNode, Entry]) -> None:
        """What the winner was given changes the shares of every branch that it is in."""
        changed = set(winner.path[1:-1])
        if changed:
            for queue in waiting:
                if not changed.isdisjoint(queue.path):
                    self._judgements.pop(queue, None)

    def _winner(self, root: QuotaNode, waiting: dict[QuotaNode, Entry]) -> QuotaNode:
        """Let each node pass up the best of its branches, widest nodes last."""
        best: dict[QuotaNode, QuotaNode] = {queue: queue for queue in waiting}
        nodes = {node for queue in waiting for node in queue.path[1:]}
        for node in sorted(nodes, key=lambda node: (-len(node.path), node.name)):
            passed_up = [best[child] for child in node.children if child in best]
            best[node] = min(passed_up, key=lambda queue: self._judgement(queue, node, waiting[queue]))
        return best[root]

    def _judgement(self, queue: QuotaNode, meeting: QuotaNode, entry: Entry) -> Judgement:
        known = self._judgements.get(queue)
        if known is None:
            known = self._judgements[queue] = self._judge(queue, entry)
        return known[meeting]

    def _judge(self, queue: QuotaNode, entry: Entry) -> dict[QuotaNode, Judgement]:
        """How the entry stands at each node above it, with its request added."""
        assert entry.assignment is not None, "only entries with an assignment take part"
        workload, usage = entry.workload, entry.assignment.usage
        fair = self._settings.fair_sharing
        favours_non_borrowing = fair is not None and fair.favours_non_borrowing
        priority = -workload.priority if self._settings.orders_by_priority else 0
        mark = self._ledger.checkpoint()
        self._ledger.charge(queue, usage)
        result = {}
        for below in queue.path[:-1]:
            assert below.parent is not None, "only the top has no parent"
            result[below.parent] = (
                self._settings.preemptors_first and not entry.is_preemptor,
                favours_non_borrowing and is_borrowing_any(below, usage),
                share_of(below),
                priority,
                workload.queued_at,
            )
        self._ledger.rollback(mark)
        return result
