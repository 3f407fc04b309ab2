"""The signs of life of nodes: a lease that is renewed, and a status that says Ready. For simulated and local nodes.

Kubernetes renews each lease every ten seconds. So many nodes that this would be more than some writes a second do it
less often, and their leases say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from muster.controllers.loop import Turn
from muster.controllers.nodes.cards import offered
from muster.controllers.view import Seen, View
from muster.model.times import micro_time, moment_text, parse_moment
from muster.store.kinds import Object
from muster.store.records import Key

NODES, LEASES = "nodes", "leases.coordination.k8s.io"
LEASE_NAMESPACE = "kube-node-lease"
RENEW_S, LEASE_S = 10.0, 40
RENEWALS_A_SECOND = 20
_ROUNDING_S = 0.001
STATUS_S = 300.0  # how old the status may become while nothing changes
_FINE = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class Heartbeats:
    """Renews the leases of some nodes, and says that they are ready."""

    name = "heartbeats"

    def __init__(self, nodes: Mapping[str, Object], is_silent: Callable[[Object], bool] = lambda _node: False) -> None:
        self._nodes = nodes  # as they register, by name
        self._is_silent = is_silent
        self._pause_s = max(RENEW_S, len(nodes) / RENEWALS_A_SECOND)

    def keys(self, seen: Seen, _view: View) -> Iterable[Key]:
        if seen.key.resource == NODES and seen.key.name in self._nodes:
            yield seen.key

    async def reconcile(self, turn: Turn) -> None:
        node = turn.view.get(turn.key)
        if node is None or self._is_silent(node):
            return
        await self._renew(turn, node)
        status = node.get("status") or {}
        wanted = self._status(node, turn.now_s)
        if _is_stale(status, wanted, turn.now_s):
            await turn.update_status(turn.key, {**node, "status": wanted})

    async def _renew(self, turn: Turn, node: Object) -> None:
        key = Key(LEASES, LEASE_NAMESPACE, turn.key.name)
        lease = turn.view.get(key)
        if lease is None:
            await turn.create(LEASES, self._lease(node, turn.now_s))
        else:
            waited_s = turn.now_s - _renewed_s(lease)  # below nothing: the clock was set back since
            if -_ROUNDING_S <= waited_s < self._pause_s - _ROUNDING_S:
                turn.look_again(self._pause_s - waited_s)
                return
            wanted = self._lease(node, turn.now_s)
            await turn.update(key, {**lease, "spec": {**(lease.get("spec") or {}), **wanted["spec"]}})
        turn.look_again(self._pause_s)

    def _lease(self, node: Object, now_s: float) -> Object:
        metadata = node["metadata"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": metadata["name"], "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": metadata["name"],
                "leaseDurationSeconds": max(LEASE_S, int(4 * self._pause_s)),
                "renewTime": micro_time(now_s),
            },
        }

    def _status(self, node: Object, now_s: float) -> Object:
        status = node.get("status") or {}
        registered = offered(self._nodes[node["metadata"]["name"]], node)
        before = {one.get("type"): one for one in status.get("conditions") or ()}
        conditions = [_condition(one, before.get(one[0]) or {}, now_s) for one in _FINE]
        own = {one[0] for one in _FINE}
        others = [one for kind, one in before.items() if kind not in own]
        return {**status, **registered, "conditions": others + conditions}


def _renewed_s(lease: Object) -> float:
    text = (lease.get("spec") or {}).get("renewTime")
    return parse_moment(text, "spec.renewTime") if text else 0.0


def _condition(wanted: tuple[str, str, str, str], before: Object, now_s: float) -> Object:
    kind, value, reason, message = wanted
    now = moment_text(now_s)
    since = before.get("lastTransitionTime") if before.get("status") == value else None
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since or now,
    }


def _is_stale(status: Object, wanted: Object, now_s: float) -> bool:
    """Whether a status says something else, or has been said too long ago."""
    if _without_time(status) != _without_time(wanted):
        return True
    times = [one.get("lastHeartbeatTime") for one in status.get("conditions") or () if one.get("type") == "Ready"]
    return not times or not times[0] or parse_moment(times[0], "lastHeartbeatTime") + STATUS_S <= now_s


def _without_time(status: Object) -> Object:
    conditions = [{**one, "lastHeartbeatTime": None} for one in status.get("conditions") or ()]
    return {**status, "conditions": conditions}


def node_object(
    name: str,
    *,
    capacity: Mapping[str, str],
    labels: Mapping[str, str],
    address: str,
    machine: Mapping[str, str] | None = None,
) -> Object:
    """A node as its agent registers it; a machine that is real says what it is."""
    info = dict.fromkeys(("bootID", "kernelVersion", "machineID", "osImage", "systemUUID"), "")
    info |= {"architecture": "amd64", "operatingSystem": "linux", "containerRuntimeVersion": "muster://1"}
    info |= {"kubeletVersion": "v1.36.0", "kubeProxyVersion": "", **(machine or {})}
    own = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": info["architecture"],
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": info["architecture"],
    }
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **labels}},
        "spec": {},
        "status": {
            "capacity": dict(capacity),
            "allocatable": dict(capacity),
            "addresses": addresses,
            "nodeInfo": info,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        },
    }
