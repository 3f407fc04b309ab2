"""What the status of a deployment says: its counts, and how it comes along. Pure; called by `deployment`."""

from __future__ import annotations

from muster.controllers.builtin.conditions import condition_of, with_condition, without
from muster.controllers.builtin.deployment_sets import Sets, counted, most_unavailable, size
from muster.controllers.builtin.pods import moment_s
from muster.controllers.builtin.replicaset import FAILURE
from muster.model.fields import INT32_MAX
from muster.model.times import moment_text
from muster.store.kinds import Object

PROGRESSING, AVAILABLE = "Progressing", "Available"
TIMED_OUT, DONE = "ProgressDeadlineExceeded", "NewReplicaSetAvailable"
_SUMMED = ("replicas", "readyReplicas", "availableReplicas", "terminatingReplicas")


def condition(kind: str, status: str, reason: str, message: str) -> Object:
    """A condition without its times."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def timed(given: Object, now_s: float) -> Object:
    """A condition that became so now."""
    now = moment_text(now_s)
    return {**given, "lastUpdateTime": now, "lastTransitionTime": now}


def has_deadline(deployment: Object) -> bool:
    """Whether a rollout can take too long."""
    deadline_s = deployment["spec"].get("progressDeadlineSeconds")
    return deadline_s is not None and deadline_s != INT32_MAX


def pausing(deployment: Object, conditions: list[Object], now_s: float) -> list[Object]:
    """The conditions after the deployment was paused or resumed: the time does not run while it is paused."""
    known = condition_of(conditions, PROGRESSING)
    if not has_deadline(deployment) or (known is not None and known.get("reason") == TIMED_OUT):
        return conditions
    is_noted = known is not None and known.get("reason") == "DeploymentPaused"
    is_paused = bool(deployment["spec"].get("paused"))
    if is_paused and not is_noted:
        new = condition(PROGRESSING, "Unknown", "DeploymentPaused", "Deployment is paused")
    elif is_noted and not is_paused:
        new = condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed")
    else:
        return conditions
    return with_condition(conditions, timed(new, now_s))


def counts(deployment: Object, sets: Sets, conditions: list[Object], now_s: float) -> Object:
    """The status: what the sets have together, and whether that is enough."""
    sums = {name: sum(counted(one, name) for one in sets.all) for name in _SUMMED}
    sums["updatedReplicas"] = 0 if sets.new is None else counted(sets.new, "replicas")
    sums["unavailableReplicas"] = max(0, sum(map(size, sets.all)) - sums["availableReplicas"])
    terminating = sums.pop("terminatingReplicas")
    status: Object = {name: count for name, count in sums.items() if count}
    status["terminatingReplicas"] = terminating
    status["observedGeneration"] = deployment["metadata"].get("generation", 0)
    if collisions := counted(deployment, "collisionCount"):
        status["collisionCount"] = collisions
    if sums["availableReplicas"] >= size(deployment) - most_unavailable(deployment):
        new = condition(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        message = "Deployment does not have minimum availability."
        new = condition(AVAILABLE, "False", "MinimumReplicasUnavailable", message)
    status["conditions"] = with_condition(conditions, timed(new, now_s))
    return status


def is_complete(deployment: Object, status: Object) -> bool:
    """Whether all wanted pods are new and serve."""
    wanted = size(deployment)
    names = ("updatedReplicas", "replicas", "availableReplicas")
    is_seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return is_seen and all(status.get(name, 0) == wanted for name in names)


def rollout(deployment: Object, sets: Sets, status: Object, now_s: float) -> Object:
    """The status with how the rollout comes along, and what hinders it."""
    conditions = status["conditions"]
    if not has_deadline(deployment):
        conditions = without(conditions, PROGRESSING)
    known = condition_of(conditions, PROGRESSING)
    is_settled = (
        status.get("replicas", 0) == status.get("updatedReplicas", 0)
        and known is not None
        and known.get("reason") == DONE
    )
    if has_deadline(deployment) and not is_settled:
        conditions = _progress(deployment, sets, {**status, "conditions": conditions}, now_s)
    failure = _failure(sets)
    conditions = without(conditions, FAILURE) if failure is None else with_condition(conditions, failure)
    return {**status, "conditions": conditions}


def _progress(deployment: Object, sets: Sets, status: Object, now_s: float) -> list[Object]:
    conditions: list[Object] = status["conditions"]
    what = f'Deployment "{deployment["metadata"]["name"]}"'
    if sets.new is not None:
        what = f'ReplicaSet "{sets.new["metadata"]["name"]}"'
    if is_complete(deployment, status):
        new = condition(PROGRESSING, "True", DONE, f"{what} has successfully progressed.")
        return with_condition(conditions, timed(new, now_s))
    if _is_progressing(deployment, status):
        new = timed(condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{what} is progressing."), now_s)
        known = condition_of(conditions, PROGRESSING)
        if known is not None and known["status"] == "True":
            new["lastTransitionTime"] = known["lastTransitionTime"]
        return [*without(conditions, PROGRESSING), new]
    if is_timed_out(deployment, conditions, now_s):
        new = condition(PROGRESSING, "False", TIMED_OUT, f"{what} has timed out progressing.")
        return with_condition(conditions, timed(new, now_s))
    return conditions


def _is_progressing(deployment: Object, status: Object) -> bool:
    def old(given: Object) -> int:
        return int(given.get("replicas", 0)) - int(given.get("updatedReplicas", 0))

    before = deployment.get("status") or {}
    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old(status) < old(before) or any(status.get(name, 0) > before.get(name, 0) for name in grown)


def is_timed_out(deployment: Object, conditions: list[Object], now_s: float) -> bool:
    """Whether nothing has moved for longer than the deadline."""
    known = condition_of(conditions, PROGRESSING)
    if known is None or known.get("reason") == DONE:
        return False
    return known.get("reason") == TIMED_OUT or deadline_in_s(deployment, known, now_s) < 0


def deadline_in_s(deployment: Object, known: Object, now_s: float) -> float:
    """How long until a rollout has taken too long."""
    since_s = moment_s(known.get("lastUpdateTime")) or 0.0
    return since_s + float(deployment["spec"]["progressDeadlineSeconds"]) - now_s


def look_again_s(deployment: Object, status: Object, now_s: float) -> float | None:
    """When to look whether the rollout has taken too long."""
    known = condition_of(status["conditions"], PROGRESSING)
    if known is None or not has_deadline(deployment) or is_complete(deployment, status):
        return None
    if known.get("reason") in (TIMED_OUT, "DeploymentPaused"):
        return None
    return max(0.0, deadline_in_s(deployment, known, now_s)) + 1.0


def _failure(sets: Sets) -> Object | None:
    for one in (sets.new, *sets.old):
        found = condition_of(((one or {}).get("status") or {}).get("conditions") or (), FAILURE)
        if found is not None:
            return {**found, "lastUpdateTime": found["lastTransitionTime"]}
    return None
