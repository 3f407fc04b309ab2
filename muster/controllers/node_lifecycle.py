"""What follows from the state of nodes: taints of those that are not ready, and pods that must not stay there.

`NodeLifecycle` notices leases that were not renewed and keeps the taints of every node true to its conditions.
`TaintEviction` deletes pods from nodes with taints that they do not tolerate, or not for longer. A node without a lease
is one on paper: what its conditions say is believed for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from muster.controllers.loop import Turn
from muster.controllers.nodes.heartbeat import LEASE_NAMESPACE, LEASE_S, LEASES, NODES
from muster.controllers.view import Seen, View
from muster.model.times import moment_text, parse_moment
from muster.store.kinds import Object
from muster.store.records import Key
from muster.store.rules import Deletion

PODS, BY_NODE = "pods", "node"
NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OWN = (NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values())
_WATCHED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_MISSED_S = 40.0  # a node may be made anew in that time, and keeps its pods then
_SOON_S = 0.001  # what is left of a lease after rounding is nothing
_TAINTED = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
_NODE_GONE = ("DeletionByPodGC", "PodGC: node no longer exists")
_SILENT = ("NodeStatusUnknown", "Kubelet stopped posting node status.")


class NodeLifecycle:
    """Keeps the conditions and taints of nodes true."""

    name = "node lifecycle"

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}  # by node

    def keys(self, seen: Seen, _view: View) -> Iterable[Key]:
        if seen.key.resource == NODES:
            if seen.now is None:
                self._heard.pop(seen.key.name, None)
            yield seen.key
        elif seen.key.resource == LEASES and seen.key.namespace == LEASE_NAMESPACE and _is_turn(seen):
            yield Key(NODES, "", seen.key.name)

    async def reconcile(self, turn: Turn) -> None:
        node = turn.view.get(turn.key)
        if node is None:
            return
        left_s = self._left_s(turn)
        if left_s is not None:
            if left_s > _SOON_S:
                turn.look_again(left_s)
            elif _condition(node, "Ready") not in ("Unknown", ""):
                silent = {**node, "status": _silenced(node["status"], turn.now_s)}
                await turn.update_status(turn.key, silent)
                await _unready(turn, turn.key.name)
                return  # its taints follow from that
        taints = list((node.get("spec") or {}).get("taints") or ())
        wanted = _taints(node, taints, turn.now_s)
        if wanted != taints:
            await turn.update(turn.key, {**node, "spec": {**node["spec"], "taints": wanted}})

    def _left_s(self, turn: Turn) -> float | None:
        """For how long a node's lease still holds; `None` where it has none, or has not renewed it yet."""
        name = turn.key.name
        lease = turn.view.get(Key(LEASES, LEASE_NAMESPACE, name))
        spec = (lease or {}).get("spec") or {}
        renewed = spec.get("renewTime")
        if not renewed:
            self._heard.pop(name, None)
            return None
        heard = self._heard[name] = _heard(renewed, self._heard.get(name), turn)
        return heard.at_s + float(spec.get("leaseDurationSeconds") or LEASE_S) - turn.monotonic_s


class _Heard(NamedTuple):
    """What is known of the last sign of a node, by the clock that nobody can set."""

    renewed: str  # what the lease said
    at_s: float
    looked_at_s: float


def _heard(renewed: str, last: _Heard | None, turn: Turn) -> _Heard:
    """When a node was heard of last: by what its lease says where that can be, else now.

    A lease carries the time of a clock that may be set. Taken at its word, a clock that jumps ahead would silence all
    nodes at once, and one that jumps back would hide for as long that a node is silent.
    """
    now_s = turn.monotonic_s
    if last is not None and last.renewed == renewed:
        return last._replace(looked_at_s=now_s)
    said_s = now_s - (turn.now_s - parse_moment(renewed, "spec.renewTime"))
    can_be = last is not None and last.looked_at_s <= said_s <= now_s
    return _Heard(renewed, said_s if can_be else now_s, now_s)


def _is_turn(seen: Seen) -> bool:
    """Whether a lease is new or gone; one that is renewed in time changes nothing."""
    return seen.before is None or seen.now is None


def _condition(node: Object, kind: str) -> str:
    for one in (node.get("status") or {}).get("conditions") or ():
        if one.get("type") == kind:
            return str(one.get("status") or "")
    return ""


def _silenced(status: Object, now_s: float) -> Object:
    """The status of a node that is not heard of any more."""
    reason, message = _SILENT
    conditions = []
    for one in status.get("conditions") or ():
        if one.get("type") in _WATCHED and one.get("status") != "Unknown":
            one = {**one, "status": "Unknown", "reason": reason, "message": message}
            one["lastTransitionTime"] = moment_text(now_s)
        conditions.append(one)
    return {**status, "conditions": conditions}


async def _unready(turn: Turn, node: str) -> None:
    """Say of the pods of a node that is not heard of that nobody should rely on them."""
    for pod in turn.view.with_term(PODS, BY_NODE, node):
        status = pod.get("status") or {}
        conditions = status.get("conditions") or []
        if not any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
            continue
        changed = [
            {**one, "status": "False", "reason": "NodeNotReady", "lastTransitionTime": moment_text(turn.now_s)}
            if one.get("type") == "Ready"
            else one
            for one in conditions
        ]
        metadata = pod["metadata"]
        key = Key(PODS, metadata["namespace"], metadata["name"])
        await turn.update_status(key, {**pod, "status": {**status, "conditions": changed}})


def _taints(node: Object, before: list[Object], now_s: float) -> list[Object]:
    """The taints that a node should have: its own, and those that its conditions ask for."""
    wanted = list(_asked_taints(node))
    kept = [one for one in before if one.get("key") not in _OWN or (one["key"], one.get("effect")) in wanted]
    there = {(one.get("key"), one.get("effect")) for one in kept}
    for key, effect in wanted:
        if (key, effect) not in there:
            time = {"timeAdded": moment_text(now_s)}
            kept.append({"key": key, "effect": effect, **time})
    return kept


def _asked_taints(node: Object) -> Iterator[tuple[str, str]]:
    ready = _condition(node, "Ready")
    if ready == "":
        yield NOT_READY, NO_SCHEDULE  # it has not come up yet
    elif ready != "True":
        key = UNREACHABLE if ready == "Unknown" else NOT_READY
        yield key, NO_SCHEDULE
        yield key, NO_EXECUTE
    if (node.get("spec") or {}).get("unschedulable"):
        yield UNSCHEDULABLE, NO_SCHEDULE
    for kind, key in _PRESSURES.items():
        if _condition(node, kind) == "True":
            yield key, NO_SCHEDULE


# Eviction ------------------------------------------------------------------------------------------------------------


class TaintEviction:
    """Deletes pods that do not tolerate the taints of their node, and removes those whose node is gone."""

    name = "taint eviction"

    def __init__(self) -> None:
        self._missed_s: dict[str, float] = {}  # since when a node is missed that pods are bound to

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == PODS and seen.now is not None and seen.now["spec"].get("nodeName"):
            if seen.before is None or seen.before["spec"] != seen.now["spec"]:
                yield seen.key
        elif seen.key.resource == NODES and (seen.now is None or _kicking(seen.before) != _kicking(seen.now)):
            for pod in view.with_term(PODS, BY_NODE, seen.key.name):
                yield Key(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])

    async def reconcile(self, turn: Turn) -> None:
        pod = turn.view.get(turn.key)
        name = (pod["spec"].get("nodeName") or "") if pod is not None else ""
        if pod is None or not name:
            return  # it is gone, and another of its name waits for a node
        uid = pod["metadata"]["uid"]
        node = turn.view.get(Key(NODES, "", name))
        if node is None:
            since_s = self._missed_s.setdefault(name, turn.now_s)
            if since_s + _MISSED_S > turn.now_s:
                turn.look_again(since_s + _MISSED_S - turn.now_s)
                return
            status = _disrupted(pod.get("status") or {}, _NODE_GONE, turn.now_s)
            if status.get("phase") not in ("Succeeded", "Failed"):
                await turn.update_status(turn.key, {**pod, "status": {**status, "phase": "Failed"}})
            await turn.delete(turn.key, Deletion(grace_s=0, uid=uid))
            return
        self._missed_s.pop(name, None)
        if pod["metadata"].get("deletionTimestamp"):
            return
        until_s = leaves_s(pod, node)
        if until_s == float("inf"):
            return
        if until_s > turn.now_s:
            turn.look_again(until_s - turn.now_s)
            return
        await turn.update_status(turn.key, {**pod, "status": _disrupted(pod.get("status") or {}, _TAINTED, turn.now_s)})
        await turn.delete(turn.key, Deletion(uid=uid))


def leaves_s(pod: Object, node: Object) -> float:
    """When a pod has to leave its node: at once, at some time, or never."""
    until_s = float("inf")
    tolerations = pod["spec"].get("tolerations") or ()
    for taint in _kicking(node):
        fitting = [one for one in tolerations if _tolerates(one, taint)]
        if not fitting:
            return float("-inf")
        limits = [one["tolerationSeconds"] for one in fitting if one.get("tolerationSeconds") is not None]
        if limits:
            added = taint.get("timeAdded")
            since_s = parse_moment(added, "timeAdded") if added else 0.0
            until_s = min(until_s, since_s + max(0, min(limits)))
    return until_s


def _kicking(node: Object | None) -> list[Object]:
    taints = ((node or {}).get("spec") or {}).get("taints") or ()
    return [one for one in taints if one.get("effect") == NO_EXECUTE]


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def _disrupted(status: Object, why: tuple[str, str], now_s: float) -> Object:
    others = [one for one in status.get("conditions") or () if one.get("type") != "DisruptionTarget"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": why[0],
        "message": why[1],
        "lastProbeTime": None,
        "lastTransitionTime": moment_text(now_s),
    }
    return {**status, "conditions": [*others, condition]}
