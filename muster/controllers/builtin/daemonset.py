"""Daemon sets: one pod on each node that suits. Listed in `workloads`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from muster.controllers.builtin.daemonset_nodes import pod_for, suits
from muster.controllers.builtin.daemonset_steps import Look, Steps, daemon_status, daemon_steps
from muster.controllers.builtin.gathering import all_done
from muster.controllers.builtin.making import MOST_AT_ONCE, Told, create_all, tell_pods
from muster.controllers.builtin.names import free_name
from muster.controllers.builtin.owners import claimed, is_controlled_by, key_of, owner_keys, selector_of
from muster.controllers.builtin.pods import PODS, is_active, soonest_s
from muster.controllers.builtin.revisions import REVISION_LABEL, REVISIONS, History, history, revision_label, truncate
from muster.controllers.builtin.statuses import put_status
from muster.controllers.events import Events
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.store.errors import AlreadyExists
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key
from muster.store.rules import Deletion

DAEMON_SETS = "daemonsets.apps"
NODES = "nodes"
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 900.0
_KNOWN_MOST = 10_000


class DaemonSets:
    """The controller of daemon sets."""

    name = "daemonset"

    def __init__(self) -> None:
        self._events = Events("daemonset-controller")
        # When a pod of a set has last ended on a node, and how long its next end has to wait: a delay, nothing more.
        self._ends: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def keys(self, seen: Seen, view: View) -> Iterator[Key]:
        if seen.key.resource == DAEMON_SETS:
            yield seen.key
        elif seen.key.resource in (PODS, REVISIONS):
            yield from owner_keys(seen, view, DAEMON_SETS, "DaemonSet")
        elif seen.key.resource == NODES:
            for one in view.all(DAEMON_SETS):
                states = [None if state is None else suits(one, state) for state in (seen.before, seen.now)]
                if states[0] != states[1]:
                    yield key_of(DAEMON_SETS, one)

    async def reconcile(self, turn: Turn) -> None:
        owner = turn.view.get(turn.key)
        if owner is None:
            return
        selector = selector_of(owner)
        if selector is None or not selector.requirements or is_deleting(owner):
            return
        pods = await claimed(turn, owner, PODS, selector)
        known = [one for one in turn.view.owned(owner["metadata"]["uid"], REVISIONS) if is_controlled_by(one, owner)]
        past = await history(turn, owner, known, REVISION_LABEL)
        revision = past.newest["metadata"]["labels"][REVISION_LABEL]
        look = Look(owner, pods, turn.view.all(NODES), turn.now_s)
        steps = daemon_steps(look, revision)
        await self._carry_out(turn, look, steps, revision)
        if (wait_s := soonest_s(filter(is_active, pods), look.least_s, turn.now_s)) is not None:
            turn.look_again(wait_s)
        await put_status(turn, owner, daemon_status(look, revision, past.collisions))
        await truncate(turn, owner, past, _live(past, revision, pods))

    async def _carry_out(self, turn: Turn, look: Look, steps: Steps, revision: str) -> None:
        owner = look.owner
        doomed = [*steps.delete, *(pod for node, pod in steps.ended if self._may_go(turn, owner, node))]
        await all_done(turn.delete(key_of(PODS, pod), Deletion(uid=pod["metadata"]["uid"])) for pod in doomed)
        new = [self._new_pod(turn, look, node, revision) for node in steps.create[:MOST_AT_ONCE]]
        made, problem = await create_all(turn, PODS, new)
        is_known = problem is None or isinstance(problem, AlreadyExists)  # such a pod is only not seen yet
        await tell_pods(turn, self._events, owner, Told(made, doomed, None if is_known else problem))
        if problem is not None:
            raise problem

    def _new_pod(self, turn: Turn, look: Look, node: str, revision: str) -> Object:
        """A pod for a node, with a name that follows from the pods that were there."""
        pod = pod_for(look.owner, node, revision)
        uids = sorted(one["metadata"]["uid"] for one in look.pods.get(node, ()))
        facts = [look.owner["metadata"]["uid"], node, revision, uids]
        metadata = pod["metadata"]
        metadata["name"] = free_name(
            metadata["generateName"],
            facts,
            lambda name: turn.view.record(Key(PODS, turn.key.namespace, name)) is not None,
        )
        return pod

    def _may_go(self, turn: Turn, owner: Object, node: str) -> bool:
        """Whether a pod that has ended is replaced now; one that ends again and again waits longer each time."""
        place = (str(owner["metadata"]["uid"]), node)
        since_s, wait_s = self._ends.pop(place, (0.0, 0.0))
        left_s = since_s + wait_s - turn.now_s
        if left_s > 0:
            self._ends[place] = (since_s, wait_s)
            turn.look_again(left_s)
            return False
        is_forgiven = turn.now_s - since_s > 2 * _LONGEST_WAIT_S
        wait_s = _FIRST_WAIT_S if is_forgiven or not wait_s else min(_LONGEST_WAIT_S, 2 * wait_s)
        self._ends[place] = (turn.now_s, wait_s)
        if len(self._ends) > _KNOWN_MOST:
            self._ends.popitem(last=False)
        return True


def _live(past: History, revision: str, pods: list[Object]) -> set[str]:
    """The names of the revisions that pods are made from, and of the newest."""
    used = {revision, *map(revision_label, pods)}
    return {str(one["metadata"]["name"]) for one in past.known if one["metadata"]["labels"].get(REVISION_LABEL) in used}
