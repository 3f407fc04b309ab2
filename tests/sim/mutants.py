"""Faults to be put into the program on purpose: bugs that schedulers have had, or could have. Used by `test_storm`.

A mutant replaces one method or constant by a version that is wrong. Storms have to notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import muster.controllers.binder as binder
import muster.controllers.builtin.job as job_controller
import muster.controllers.cache as cache
import muster.dialects.kueue.job_statuses as job_statuses
from muster.app.nodes import Nodes
from muster.controllers.builtin.autoscaler import Autoscalers
from muster.controllers.cache import Cache
from muster.controllers.carrying_out import Writer
from muster.controllers.feed import Feed
from muster.controllers.nodes.pool_sizes import NodePools
from muster.controllers.nodes.simulated import SimulatedNodes
from muster.controllers.queue import KeyQueue
from muster.controllers.scheduler import Scheduler
from muster.controllers.tidying import Tidying
from muster.controllers.view import View
from muster.engine.ledger import Ledger
from muster.engine.state import EngineState
from muster.model.workload import Admission
from muster.store.client import PlainClient
from muster.store.errors import Expired
from muster.store.objects import Part
from muster.store.records import Scope

Patch = Callable[[Any, str, Any], None]
Mutant = Callable[[Patch], None]


def no_precondition(patch: Patch) -> None:
    """Updates overwrite whatever others have written meanwhile."""
    right = PlainClient.update

    async def update(self: PlainClient, key: Any, given: Any, part: Part = Part.MAIN) -> Any:
        metadata = {name: value for name, value in given["metadata"].items() if name != "resourceVersion"}
        return await right(self, key, {**given, "metadata": metadata}, part)

    patch(PlainClient, "update", update)


def stale_events(patch: Patch) -> None:
    """Events that come again or late are taken for news."""

    def learn(self: View, event: Any) -> Any:
        self._revisions.pop(event.record.key.resource, None)
        known = self.record(event.record.key)
        if known is not None and known.revision > event.record.revision:
            self._set(known.key, None, known.revision + 1)
        return right(self, event)

    right = View.learn
    patch(View, "learn", learn)


def missed_events(patch: Patch) -> None:
    """After a gap in the history the feed goes on with what comes next, and does not list."""
    right = Feed._start

    def start(self: Feed) -> Any:
        if getattr(self, "_has_listed", False):
            return self._store.watch(Scope(), self._store.store.revision)
        self._has_listed = True  # type: ignore[attr-defined]
        return right(self)

    patch(Feed, "_start", start)


def double_release(patch: Patch) -> None:
    """What a workload held is given back twice."""
    right = Ledger.release

    def release(self: Ledger, queue: Any, amounts: Any) -> None:
        right(self, queue, amounts)
        right(self, queue, amounts)

    patch(Ledger, "release", release)


def leak_on_gone(patch: Patch) -> None:
    """A workload that is deleted keeps what it held."""

    def drop(self: EngineState, key: str) -> None:
        self._leave_line(key)
        self.workloads.pop(key, None)

    patch(EngineState, "drop", drop)


def leak_on_error(patch: Patch) -> None:
    """What was decided and could not be written counts as if it had been."""
    patch(Cache, "look_again", lambda _self, _key: None)


def lost_preemptee(patch: Patch) -> None:
    """Who was evicted does not wait again."""
    patch(job_statuses, "REQUEUED_AT_ONCE", ())


def restart_undercount(patch: Patch) -> None:
    """Pods that run on a node are not counted."""
    patch(cache, "read_bound_pod", lambda _pod: None)


def half_gang(patch: Patch) -> None:
    """One pod of each gang is forgotten."""
    right = binder.seat

    def seat(slots: Any, pods: Any) -> Any:
        seating = right(slots, pods)
        seating.to_bind = seating.to_bind[: max(1, len(seating.to_bind) - 1)] if len(slots) else []
        seating.to_bind = seating.to_bind[:-1] if seating.bound_count else seating.to_bind
        return seating

    patch(binder, "seat", seat)


def wrong_slot(patch: Patch) -> None:
    """Every pod of a gang gets the first slot."""
    right = binder.seat

    def seat(slots: Any, pods: Any) -> Any:
        seating = right(slots, pods)
        first = next((given[0] for given in slots.values() if given), None)
        seating.to_bind = [(pod, note, first) for pod, note, _ in seating.to_bind]
        return seating

    patch(binder, "seat", seat)


def half_charge(patch: Patch) -> None:
    """What a workload holds is counted by half."""
    right = Admission.usage

    def usage(self: Admission) -> Any:
        return {cell: amount // 2 for cell, amount in right(self).items()}

    patch(Admission, "usage", usage)


def never_tried_again(patch: Patch) -> None:
    """What has failed once is dropped."""

    def failed(self: KeyQueue, key: Any, _now_s: float) -> float:
        self.done(key)
        return 0.0

    patch(KeyQueue, "failed", failed)


def idle_collector(patch: Patch) -> None:
    """What an owner leaves behind stays."""

    async def step(self: Tidying) -> bool:
        return False

    patch(Tidying, "step", step)


def name_for_identity(patch: Patch) -> None:
    """A node takes another pod of the same name for the one that it had: this was so."""
    right = SimulatedNodes.reconcile

    async def reconcile(self: SimulatedNodes, turn: Any) -> None:
        pod = turn.view.get(turn.key)
        if pod is not None:
            pod["spec"]["nodeName"]
        await right(self, turn)

    patch(SimulatedNodes, "reconcile", reconcile)


def one_try_to_register(patch: Patch) -> None:
    """Nodes that cannot be written at the start are given up: this was so."""
    patch(Nodes, "register", Nodes._register_once)


def deaf_to_nodes(patch: Patch) -> None:
    """The scheduler does not hear of changes of nodes."""
    right = Cache.hear

    def hear(self: Cache, seen: Any) -> None:
        if seen.key.resource != "nodes" or seen.before is None:
            right(self, seen)

    patch(Cache, "hear", hear)


def eviction_without_end(patch: Patch) -> None:
    """An evicted workload is let go before its pods are."""
    patch(job_statuses, "released", job_statuses.released)
    right = Writer.write_of

    def write_of(self: Writer, decision: Any, obj: Any) -> Any:
        write = right(self, decision, obj)
        if type(decision).__name__ == "Evict" and hasattr(write, "obj"):
            write.obj["status"].pop("admission", None)
        return write

    patch(Writer, "write_of", write_of)


def silent_gap(patch: Patch) -> None:
    """A feed that was too slow stops for good, and nobody notices."""

    async def take(self: Feed, watch: Any) -> None:
        try:
            await right(self, watch)
        except Expired:
            await asyncio.Event().wait()

    right = Feed._take
    patch(Feed, "_take", take)


def ended_pods_kept(patch: Patch) -> None:
    """The controller of jobs never lets go of pods that it has counted."""

    async def nothing(*_args: Any, **_named: Any) -> None:
        return None

    patch(job_controller, "_let_go", nothing)


def fault_in_the_scheduler(patch: Patch) -> None:
    """One pass in many ends in a fault of its own; it is survived, and has to be told."""
    right = Scheduler._carry_out

    async def carry_out(self: Scheduler, state: Any, decided: Any, now: float) -> Any:
        if len(decided.decisions) > 1:
            raise KeyError("nobody thought of this")
        return await right(self, state, decided, now)

    patch(Scheduler, "_carry_out", carry_out)


def deaf_autoscaler(patch: Patch) -> None:
    """Nobody acts upon the load of services."""

    async def nothing(_self: Autoscalers, _turn: Any) -> None:
        return None

    patch(Autoscalers, "reconcile", nothing)


def idle_nodes_kept(patch: Patch) -> None:
    """Pools of nodes grow and never shrink."""

    async def nothing(*_args: Any) -> None:
        return None

    patch(NodePools, "_shrink", nothing)


MUTANTS: tuple[Mutant, ...] = (
    no_precondition,
    stale_events,
    missed_events,
    double_release,
    leak_on_gone,
    leak_on_error,
    lost_preemptee,
    restart_undercount,
    half_gang,
    wrong_slot,
    half_charge,
    never_tried_again,
    idle_collector,
    name_for_identity,
    one_try_to_register,
    deaf_to_nodes,
    eviction_without_end,
    silent_gap,
    ended_pods_kept,
    fault_in_the_scheduler,
    deaf_autoscaler,
    idle_nodes_kept,
)
