"""ReplicaSets and ReplicationControllers: as many pods of one template as asked for. Listed in `workloads`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from muster.controllers.builtin.conditions import condition_of, with_condition, without
from muster.controllers.builtin.making import MOST_AT_ONCE, Told, create_all, tell_pods
from muster.controllers.builtin.owners import (
    Choice,
    claimed,
    controller_of,
    key_of,
    owner_keys,
    plain_selector_of,
    selector_of,
)
from muster.controllers.builtin.pods import (
    PODS,
    is_active,
    is_available,
    is_ready,
    is_terminating,
    named_anew,
    pod_from,
    soonest_s,
)
from muster.controllers.builtin.scaling_down import to_delete
from muster.controllers.builtin.statuses import put_status
from muster.controllers.events import Events
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.model.times import moment_text
from muster.store.errors import AlreadyExists
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key
from muster.store.rules import Deletion

REPLICA_SETS = "replicasets.apps"
REPLICATION_CONTROLLERS = "replicationcontrollers"
FAILURE = "ReplicaFailure"


@dataclass(frozen=True, slots=True)
class Steps:
    """What a set of replicas needs next; at most one of the two."""

    create: Sequence[Object]
    delete: Sequence[Object]


def replica_steps(owner: Object, pods: Sequence[Object], related: Iterable[Object], now_s: float) -> Steps:
    """The pods to make, still without names, or to delete; `related` are also the pods of the owner's siblings."""
    if is_deleting(owner):
        return Steps([], [])
    active = [pod for pod in pods if is_active(pod)]
    missing = _wanted(owner) - len(active)
    if missing > 0:
        new = [pod_from(owner["spec"]["template"], owner) for _ in range(min(missing, MOST_AT_ONCE))]
        return Steps(new, [])
    return Steps([], to_delete(active, min(-missing, MOST_AT_ONCE), related, now_s))


def replica_status(owner: Object, pods: Sequence[Object], now_s: float) -> Object:
    """The counts of a set of replicas; the conditions stay."""
    spec, active = owner["spec"], [pod for pod in pods if is_active(pod)]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    least_s = spec.get("minReadySeconds") or 0
    counts = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in active),
        "readyReplicas": sum(is_ready(pod) for pod in active),
        "availableReplicas": sum(is_available(pod, least_s, now_s) for pod in active),
    }
    status = {name: count for name, count in counts.items() if count or name == "replicas"}
    if owner["kind"] == "ReplicaSet":
        status["terminatingReplicas"] = sum(is_terminating(pod) for pod in pods)
    status["observedGeneration"] = owner["metadata"].get("generation", 0)
    if conditions := (owner.get("status") or {}).get("conditions"):
        status["conditions"] = conditions
    return status


def with_failure(status: Object, problem: Exception | None, *, is_creating: bool, now_s: float) -> Object:
    """The status with what went wrong when pods were made or deleted, or without it."""
    conditions = status.get("conditions") or []
    if problem is None:
        conditions = without(conditions, FAILURE)
    elif condition_of(conditions, FAILURE) is None:
        reason = "FailedCreate" if is_creating else "FailedDelete"
        new = {"type": FAILURE, "status": "True", "reason": reason, "message": str(problem)}
        conditions = with_condition(conditions, {**new, "lastTransitionTime": moment_text(now_s)})
    rest = {name: value for name, value in status.items() if name != "conditions"}
    return {**rest, "conditions": conditions} if conditions else rest


class Replicas:
    """The controller of one of the two kinds."""

    def __init__(self, resource: str, kind: str, selector: Choice) -> None:
        self.name = kind.lower()
        self._resource = resource
        self._kind = kind
        self._selector = selector
        self._events = Events(f"{self.name}-controller")

    def keys(self, seen: Seen, view: View) -> Iterator[Key]:
        if seen.key.resource == self._resource:
            yield seen.key
        elif seen.key.resource == PODS:
            yield from owner_keys(seen, view, self._resource, self._kind, self._selector)

    async def reconcile(self, turn: Turn) -> None:
        owner = turn.view.get(turn.key)
        if owner is None:
            return
        selector = self._selector(owner)
        if selector is None or not selector.requirements:
            return
        pods = await claimed(turn, owner, PODS, selector)
        steps = replica_steps(owner, pods, self._related(turn.view, owner, pods), turn.now_s)
        new = named_anew(steps.create, owner, pods, lambda name: _is_there(turn, name))
        made, problem = await create_all(turn, PODS, new)
        if problem is None:
            problem = await _delete_all(turn, steps.delete)
        status = replica_status(owner, pods, turn.now_s)
        failure = None if isinstance(problem, AlreadyExists) else problem  # such a pod is only not seen yet
        status = with_failure(status, failure, is_creating=bool(steps.create), now_s=turn.now_s)
        await tell_pods(turn, self._events, owner, Told(made, steps.delete if failure is None else (), failure))
        least_s = owner["spec"].get("minReadySeconds") or 0
        if (wait_s := soonest_s(filter(is_active, pods), least_s, turn.now_s)) is not None:
            turn.look_again(wait_s)
        await put_status(turn, owner, status)
        if problem is not None:
            raise problem

    def _related(self, view: View, owner: Object, pods: Sequence[Object]) -> Iterable[Object]:
        """The pods of all sets that the same owner has, since they do the same work."""
        above = controller_of(owner)
        if above is None:
            return pods
        siblings = (one for one in view.owned(above["uid"], self._resource) if controller_of(one) == above)
        return [pod for one in siblings for pod in view.owned(one["metadata"]["uid"], PODS)]


def _is_there(turn: Turn, name: str) -> bool:
    return turn.view.record(Key(PODS, turn.key.namespace, name)) is not None


async def _delete_all(turn: Turn, pods: Sequence[Object]) -> Exception | None:
    deletions = (turn.delete(key_of(PODS, pod), Deletion(uid=pod["metadata"]["uid"])) for pod in pods)
    answers = await asyncio.gather(*deletions, return_exceptions=True)
    return next((answer for answer in answers if isinstance(answer, Exception)), None)


def _wanted(owner: Object) -> int:
    wanted = owner["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)


def replica_sets() -> Replicas:
    """The controller of replica sets."""
    return Replicas(REPLICA_SETS, "ReplicaSet", selector_of)


def replication_controllers() -> Replicas:
    """The controller of replication controllers, which are replica sets by an older name."""
    return Replicas(REPLICATION_CONTROLLERS, "ReplicationController", plain_selector_of)
