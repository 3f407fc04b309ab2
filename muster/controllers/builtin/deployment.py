"""Deployments: replica sets that come and go so that all pods get the newest template. Listed in `workloads`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from muster.controllers.builtin import deployment_status as statuses
from muster.controllers.builtin.conditions import condition_of, with_condition
from muster.controllers.builtin.deployment_scaling import emptied, is_resized, resized, rolled, to_clean
from muster.controllers.builtin.deployment_sets import (
    REVISION,
    Sets,
    annotations_of,
    bare_template,
    counted,
    is_rolling,
    size,
    sorted_out,
    with_new,
)
from muster.controllers.builtin.gathering import all_done
from muster.controllers.builtin.owners import claimed, controller_of, is_controlled_by, key_of, owner_keys, selector_of
from muster.controllers.builtin.pods import ENDED, PODS, phase_of
from muster.controllers.builtin.replicaset import REPLICA_SETS
from muster.controllers.events import NORMAL, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.model.errors import InvalidObject
from muster.store.errors import AlreadyExists, StoreError
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key
from muster.store.rules import Deletion

DEPLOYMENTS = "deployments.apps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What a deployment needs next, in the order of the writes."""

    create: Object | None = None
    update: Sequence[Object] = field(default=())
    delete: Sequence[Object] = field(default=())
    status: Object
    annotations: dict[str, str]  # of the deployment, written with its status


def deployment_steps(deployment: Object, there: Sequence[Object], *, has_old_pods: bool, now_s: float) -> Steps:
    """What to do about a deployment with these replica sets; `has_old_pods`: of other sets than the new one."""
    conditions = (deployment.get("status") or {}).get("conditions") or []
    if is_deleting(deployment):
        sets = sorted_out(deployment, there)
        status = statuses.counts(deployment, sets, conditions, now_s)
        return Steps(status=status, annotations=annotations_of(deployment))
    conditions = statuses.pausing(deployment, conditions, now_s)
    sets = sorted_out(deployment, there)
    is_paused = bool(deployment["spec"].get("paused"))
    if is_paused or is_resized(deployment, sets):
        conditions = _with_found(deployment, sets, conditions, now_s)
        sets = resized(deployment, sets)
        status = statuses.counts(deployment, sets, conditions, now_s)
        return _steps(deployment, there, sets, status=status, delete=to_clean(deployment, sets) if is_paused else ())
    before = sets
    sets = _advanced(deployment, sets, has_old_pods=has_old_pods)
    if before.new is None and sets.new is not None:
        message = f'Created new replica set "{sets.new["metadata"]["name"]}"'
        conditions = _noted(deployment, conditions, "NewReplicaSetCreated", message, now_s)
    else:
        conditions = _with_found(deployment, sets, conditions, now_s)
    status = statuses.counts(deployment, sets, conditions, now_s)
    is_still = all(size(one) == size(other) for one, other in zip(before.all, sets.all, strict=False))
    is_done = is_still and statuses.is_complete(deployment, status)
    status = statuses.rollout(deployment, sets, status, now_s)
    return _steps(deployment, there, sets, status=status, delete=to_clean(deployment, sets) if is_done else ())


def _advanced(deployment: Object, sets: Sets, *, has_old_pods: bool) -> Sets:
    """One step towards the new template."""
    if is_rolling(deployment):
        return rolled(deployment, sets if sets.new is not None else with_new(deployment, sets))
    if any(map(size, sets.old)):
        return emptied(deployment, sets)
    if has_old_pods or any(counted(one, "replicas") for one in sets.old):
        return sets
    if sets.new is None:
        return with_new(deployment, sets)
    if size(sets.new) != size(deployment):
        return sets.scaled(sets.new, size(deployment), deployment)
    return sets


def _with_found(deployment: Object, sets: Sets, conditions: list[Object], now_s: float) -> list[Object]:
    if sets.new is None or condition_of(conditions, statuses.PROGRESSING) is not None:
        return conditions
    message = f'Found new replica set "{sets.new["metadata"]["name"]}"'
    return _noted(deployment, conditions, "FoundNewReplicaSet", message, now_s)


def _noted(deployment: Object, conditions: list[Object], reason: str, message: str, now_s: float) -> list[Object]:
    if not statuses.has_deadline(deployment):
        return conditions
    new = statuses.condition(statuses.PROGRESSING, "True", reason, message)
    return with_condition(conditions, statuses.timed(new, now_s))


def _steps(
    deployment: Object, there: Sequence[Object], sets: Sets, *, status: Object, delete: Sequence[Object]
) -> Steps:
    known = {one["metadata"]["name"]: one for one in there}
    gone = {one["metadata"]["name"] for one in delete}
    annotations = dict(annotations_of(deployment))
    if sets.new is not None and (revision := annotations_of(sets.new).get(REVISION)):
        annotations[REVISION] = revision
    changed = [one for one in sets.all if one != known.get(one["metadata"]["name"])]
    return Steps(
        create=next((one for one in changed if "uid" not in one["metadata"]), None),
        update=[one for one in changed if "uid" in one["metadata"] and one["metadata"]["name"] not in gone],
        delete=delete,
        status=status,
        annotations=annotations,
    )


def scalings(there: Sequence[Object], steps: Steps) -> Iterator[Note]:
    """What to tell of the sets that have got another size."""
    before = {one["metadata"]["name"]: size(one) for one in there}
    for one in (*((steps.create,) if steps.create is not None else ()), *steps.update):
        name = one["metadata"]["name"]
        was, now = before.get(name, 0), size(one)
        if was != now:
            which = "up" if now > was else "down"
            yield Note(NORMAL, "ScalingReplicaSet", f"Scaled {which} replica set {name} from {was} to {now}")


class Deployments:
    """The controller of deployments."""

    name = "deployment"

    def __init__(self) -> None:
        self._events = Events("deployment-controller")

    def keys(self, seen: Seen, view: View) -> Iterator[Key]:
        if seen.key.resource == DEPLOYMENTS:
            yield seen.key
        elif seen.key.resource == REPLICA_SETS:
            yield from owner_keys(seen, view, DEPLOYMENTS, "Deployment")
        elif seen.key.resource == PODS and seen.now is None:
            yield from _deployments_of(seen, view)  # one that puts all up anew waits for the last pod to go

    async def reconcile(self, turn: Turn) -> None:
        deployment = turn.view.get(turn.key)
        if deployment is None:
            return
        selector = selector_of(deployment)
        if selector is None or not selector.requirements:
            return
        sets = await claimed(turn, deployment, REPLICA_SETS, selector)
        has_old_pods = any(_has_pods(turn.view, one) for one in sorted_out(deployment, sets).old)
        steps = deployment_steps(deployment, sets, has_old_pods=has_old_pods, now_s=turn.now_s)
        if steps.create is not None:
            await self._create(turn, deployment, steps)
        await all_done(turn.update(key_of(REPLICA_SETS, one), one) for one in steps.update)
        await all_done(
            turn.delete(key_of(REPLICA_SETS, one), Deletion(uid=one["metadata"]["uid"])) for one in steps.delete
        )
        for note in scalings(sets, steps):
            await self._events.tell(turn, deployment, note)
        await _put(turn, deployment, steps.status, steps.annotations)
        again_s = statuses.look_again_s(deployment, steps.status, turn.now_s)
        if again_s is not None:
            turn.look_again(again_s)

    async def _create(self, turn: Turn, deployment: Object, steps: Steps) -> None:
        assert steps.create is not None, "there is a set to make"
        try:
            await turn.create(REPLICA_SETS, steps.create)
        except AlreadyExists:
            known = turn.view.get(key_of(REPLICA_SETS, steps.create))
            if known is not None and not _is_same(known, steps.create, deployment):
                status = deployment.get("status") or {}
                collisions = counted(deployment, "collisionCount") + 1
                await _put(turn, deployment, {**status, "collisionCount": collisions}, annotations_of(deployment))
            raise
        except (StoreError, InvalidObject) as problem:
            status = deployment.get("status") or {}
            new = statuses.condition(statuses.PROGRESSING, "False", "ReplicaSetCreateError", str(problem))
            conditions = with_condition(status.get("conditions") or [], statuses.timed(new, turn.now_s))
            await _put(turn, deployment, {**status, "conditions": conditions}, annotations_of(deployment))
            raise


async def _put(turn: Turn, deployment: Object, status: Object, annotations: dict[str, str]) -> None:
    if (deployment.get("status") or {}) == status and annotations_of(deployment) == annotations:
        return
    metadata = {**deployment["metadata"], "annotations": annotations}
    await turn.update_status(turn.key, {**deployment, "metadata": metadata, "status": status})


def _is_same(known: Object, wanted: Object, deployment: Object) -> bool:
    return is_controlled_by(known, deployment) and bare_template(known) == bare_template(wanted)


def _has_pods(view: View, one: Object) -> bool:
    return any(phase_of(pod) not in ENDED for pod in view.owned(one["metadata"]["uid"], PODS))


def _deployments_of(seen: Seen, view: View) -> Iterator[Key]:
    reference = controller_of(seen.before or {"metadata": {}})
    if reference is None or reference["kind"] != "ReplicaSet":
        return
    owner = view.get(Key(REPLICA_SETS, seen.key.namespace, reference["name"]))
    above = None if owner is None else controller_of(owner)
    if above is not None and above["kind"] == "Deployment":
        yield Key(DEPLOYMENTS, seen.key.namespace, above["name"])
