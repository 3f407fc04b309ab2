"""Disruption budgets: how many of the pods that a budget covers may be evicted now. Listed in `workloads`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from muster.controllers.builtin.conditions import with_condition
from muster.controllers.builtin.deployment import DEPLOYMENTS
from muster.controllers.builtin.owners import controller_of, matching_keys, selector_of
from muster.controllers.builtin.pods import PODS, is_ready, moment_s
from muster.controllers.builtin.portions import share
from muster.controllers.builtin.replicaset import REPLICA_SETS, REPLICATION_CONTROLLERS
from muster.controllers.builtin.service_ports import selected
from muster.controllers.builtin.statefulset import STATEFUL_SETS
from muster.controllers.builtin.statuses import put_status
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.model.times import moment_text
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key

BUDGETS = "poddisruptionbudgets.policy"
_TRUSTED_S = 120.0  # how long an eviction is believed to be on its way
_SCALED = {
    "ReplicaSet": REPLICA_SETS,
    "ReplicationController": REPLICATION_CONTROLLERS,
    "StatefulSet": STATEFUL_SETS,
    "Deployment": DEPLOYMENTS,
}


@dataclass(frozen=True, slots=True)
class Scale:
    """How many pods there should be, or why that is not known."""

    expected: int = 0
    problem: str = ""


def needs_scale(budget: Object) -> bool:
    """Whether a budget is a share of what should be there, and not of what is."""
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def budget_status(budget: Object, pods: Sequence[Object], scale: Scale, now_s: float) -> tuple[Object, float | None]:
    """The status of a budget, and after how many seconds it changes by itself."""
    before = budget.get("status") or {}
    generation = budget["metadata"].get("generation", 0)
    conditions = before.get("conditions") or []
    if scale.problem:
        new = _condition("False", "SyncFailed", scale.problem, generation)
        new["lastTransitionTime"] = moment_text(now_s)
        status = {**before, "disruptionsAllowed": 0, "observedGeneration": generation}
        return {**status, "conditions": with_condition(conditions, new)}, None
    disrupted, again_s = _disrupted(before.get("disruptedPods") or {}, pods, now_s)
    names = {pod["metadata"]["name"] for pod in pods if is_ready(pod) and not is_deleting(pod)}
    healthy = len(names - disrupted.keys())
    expected, desired = _wanted(budget["spec"], len(pods), scale)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    new = _condition("True" if allowed else "False", reason, "", generation)
    new["lastTransitionTime"] = moment_text(now_s)
    status = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": generation,
        "conditions": _seen_now(with_condition(conditions, new), generation),
    }
    return {**status, "disruptedPods": disrupted} if disrupted else status, again_s


def _wanted(spec: Object, count: int, scale: Scale) -> tuple[int, int]:
    """How many pods are expected, and how many have to be healthy."""
    if spec.get("maxUnavailable") is not None:
        most = share(spec["maxUnavailable"], scale.expected, is_rounded_up=True)
        return scale.expected, max(0, scale.expected - most)
    if isinstance(spec.get("minAvailable"), str):
        return scale.expected, share(spec["minAvailable"], scale.expected, is_rounded_up=True)
    return count, int(spec.get("minAvailable") or 0)


def _condition(status: str, reason: str, message: str, generation: int) -> Object:
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


def _seen_now(conditions: list[Object], generation: int) -> list[Object]:
    return [
        {**one, "observedGeneration": generation} if one["type"] == "DisruptionAllowed" else one for one in conditions
    ]


def _disrupted(known: Mapping[str, str], pods: Sequence[Object], now_s: float) -> tuple[dict[str, str], float | None]:
    """The evictions that were granted and are still on their way, and when the next of them is no longer believed."""
    there = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
    kept, waits = {}, []
    for name, text in known.items():
        left_s = (moment_s(text) or 0.0) + _TRUSTED_S - now_s
        if name in there and left_s > 0:
            kept[name] = text
            waits.append(left_s)
    return kept, min(waits, default=None)


class DisruptionBudgets:
    """The controller of disruption budgets."""

    name = "disruption"

    def keys(self, seen: Seen, view: View) -> Iterator[Key]:
        if seen.key.resource == BUDGETS:
            yield seen.key
        elif seen.key.resource == PODS:
            yield from matching_keys(seen, view, BUDGETS, selector_of)
        elif seen.key.resource in _SCALED.values() and _size(seen.before) != _size(seen.now):
            for one in view.all(BUDGETS, seen.key.namespace):
                if needs_scale(one):
                    yield Key(BUDGETS, seen.key.namespace, one["metadata"]["name"])

    async def reconcile(self, turn: Turn) -> None:
        budget = turn.view.get(turn.key)
        if budget is None:
            return
        selector = selector_of(budget)
        pods = [] if selector is None else selected(turn.view, turn.key.namespace, selector)
        scale = _scale(turn.view, pods) if needs_scale(budget) else Scale()
        status, again_s = budget_status(budget, pods, scale, turn.now_s)
        if again_s is not None:
            turn.look_again(again_s)
        await put_status(turn, budget, status)


def _size(given: Object | None) -> int | None:
    return None if given is None else given["spec"].get("replicas", 1)


def _scale(view: View, pods: Sequence[Object]) -> Scale:
    """What the owners of some pods want together; pods without one are not expected by anybody."""
    sizes: dict[str, int] = {}
    for pod in pods:
        owner = _top_owner(view, pod)
        if isinstance(owner, str):
            return Scale(problem=owner)
        if owner is not None:
            sizes[owner["metadata"]["uid"]] = _size(owner) or 0
    return Scale(sum(sizes.values()))


def _top_owner(view: View, pod: Object) -> Object | str | None:
    """The owner that has a size, or why there is none: a replica set's own owner comes before it."""
    owner: Object | None = None
    reference = controller_of(pod)
    namespace = pod["metadata"]["namespace"]
    if reference is None:
        return None
    while reference is not None:
        resource = _SCALED.get(reference["kind"])
        if resource is None:
            return owner or f"found no controllers for pod {pod['metadata']['name']!r} that have a scale"
        above = view.get(Key(resource, namespace, reference["name"]))
        if above is None or above["metadata"]["uid"] != reference["uid"]:
            return owner
        owner, reference = above, controller_of(above)
    return owner
