"""ProvisioningRequests that pools of nodes fulfil: the pool grows until there is room for all pods of a request.

Called by the controller of the pools. Requests are seen to one after the other, the oldest first; the room of one that
was fulfilled is kept for its pods for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from muster.controllers.belonging import WORKLOADS, has_condition, object_key
from muster.controllers.loop import Turn
from muster.controllers.view import View
from muster.dialects.kueue.check_kinds import AUTOSCALING, PROVISIONING_REQUESTS
from muster.dialects.kueue.write import Setting, status_with
from muster.model.times import parse_moment
from muster.store.kinds import Object
from muster.store.records import Key

CHECK_CAPACITY = f"check-capacity.{AUTOSCALING}"  # room is looked for, and nothing is added
GROWING = (f"best-effort-atomic-scale-up.{AUTOSCALING}", "queued-provisioning.gke.io", "node-pools.muster.dev")
TEMPLATES = "podtemplates"
KEPT_S = 600.0  # for which the room of a fulfilled request is kept
PODS_MOST = 10_000  # of one request
_CLASSES = (CHECK_CAPACITY, *GROWING)


class Room(NamedTuple):
    """Whether there is room for some pods."""

    is_there: bool
    would_be: bool  # if these nodes were added
    nodes: frozenset[str]


# Whether there is room for pods: on what is there, and with the nodes that are coming and those that could be added.
# None: it is too early to ask that again.
Look = Callable[[Sequence[Object], Sequence[Object], Sequence[Sequence[Object]]], Awaitable[Room | None]]


class PoolRequests:
    """Sees to the requests of one cluster."""

    def __init__(self, look: Look) -> None:
        self._look = look

    async def nodes_for(
        self, turn: Turn, coming: Sequence[Object], candidates: Sequence[Sequence[Object]], *, again_s: float
    ) -> set[str]:
        """The nodes that have to be added for the next request; says of it how it stands."""
        request = next(_open(turn.view), None)
        if request is None:
            return set()
        pods = list(_pods_of(request, turn.view))
        if not pods:
            await _say(turn, request, "Failed", "InvalidSpec", f"its templates are not there, or more than {PODS_MOST}")
            return set()
        kept = [pod for one in _kept(turn) for pod in _pods_of(one, turn.view)]
        may_grow = request["spec"]["provisioningClassName"] != CHECK_CAPACITY
        room = await self._look([*kept, *pods], coming, candidates if may_grow else ())
        turn.look_again(again_s)
        if room is None:
            return set()
        if room.is_there:
            await _say(turn, request, "Provisioned", "CapacityIsFound", "There is room for all pods.")
        elif not room.would_be:
            await _say(turn, request, "Failed", "CapacityIsNotFound", "There is no room for all pods, nor could be.")
        elif not has_condition(request, "Accepted"):
            await _say(turn, request, "Accepted", "Accepted", "Nodes are added for it.")
            return set(room.nodes)
        else:
            return set(room.nodes)
        return set()


def _open(view: View) -> Iterator[Object]:
    """The requests that nobody has answered yet, the oldest first."""
    known = (one for one in view.all(PROVISIONING_REQUESTS) if one["spec"]["provisioningClassName"] in _CLASSES)
    found = [one for one in known if not has_condition(one, "Provisioned") and not has_condition(one, "Failed")]
    return iter(sorted(found, key=_age))


def _kept(turn: Turn) -> Iterator[Object]:
    """The requests whose pods may still come."""
    for one in sorted(turn.view.all(PROVISIONING_REQUESTS), key=_age):
        since_s = _since_s(one, "Provisioned")
        if since_s is None or has_condition(one, "Failed") or turn.now_s >= since_s + KEPT_S:
            continue
        owners = one["metadata"].get("ownerReferences") or ()
        names = [owner["name"] for owner in owners if owner.get("kind") == "Workload"]
        keys = [Key(WORKLOADS, one["metadata"]["namespace"], name) for name in names]
        workloads = [turn.view.get(key) for key in keys]
        # Once it is admitted its pods have their places on record, and are counted by those.
        if not any(workload is None or has_condition(workload, "Admitted") for workload in workloads):
            yield one


def _pods_of(request: Object, view: View) -> Iterator[Object]:
    """The pods that a request stands for, as if they were waiting; none where they are too many, or not known."""
    namespace, name = request["metadata"]["namespace"], request["metadata"]["name"]
    sets = request["spec"]["podSets"]
    templates = [view.get(Key(TEMPLATES, namespace, one["podTemplateRef"]["name"])) for one in sets]
    if sum(one["count"] for one in sets) > PODS_MOST:
        return
    found = [(one["count"], template) for one, template in zip(sets, templates, strict=True) if template is not None]
    if len(found) < len(sets):
        return
    for number, (count, template) in enumerate(found):
        for index in range(count):
            own = f"{name}-{number}-{index}"
            metadata = {"name": own, "namespace": namespace, "uid": f"{request['metadata']['uid']}-{number}-{index}"}
            metadata["creationTimestamp"] = request["metadata"]["creationTimestamp"]
            metadata["resourceVersion"] = "1"
            spec = {**template["template"]["spec"], "schedulerName": "default-scheduler"}
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": spec,
                "status": {"phase": "Pending"},
            }


async def _say(turn: Turn, request: Object, kind: str, reason: str, message: str) -> None:
    changed: Object = request
    for type_ in dict.fromkeys(("Accepted", kind) if kind == "Provisioned" else (kind,)):
        setting = Setting(type=type_, is_true=True, reason=reason if type_ == kind else "Accepted", message=message)
        status: dict[str, Any] = status_with(changed, setting, turn.now_s)
        changed = {**changed, "status": status}
    await turn.update_status(object_key(PROVISIONING_REQUESTS, request), changed)


def _since_s(request: Object, kind: str) -> float | None:
    for one in (request.get("status") or {}).get("conditions") or ():
        if one["type"] == kind and one["status"] == "True":
            return parse_moment(one["lastTransitionTime"], "status.conditions")
    return None


def _age(request: Object) -> tuple[str, str, str]:
    metadata = request["metadata"]
    return metadata["creationTimestamp"], metadata["namespace"], metadata["name"]
