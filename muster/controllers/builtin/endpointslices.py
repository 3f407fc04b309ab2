"""EndpointSlices: the addresses behind each service with a selector, a hundred to a slice. Listed in `workloads`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from muster.controllers.builtin.endpoints import service_keys
from muster.controllers.builtin.gathering import all_done
from muster.controllers.builtin.names import free_name
from muster.controllers.builtin.owners import controller_of, is_controlled_by, key_of, reference_to
from muster.controllers.builtin.pods import is_ready
from muster.controllers.builtin.service_ports import (
    SERVICES,
    TRIGGER_TIME,
    addresses_of,
    can_serve,
    host_name,
    labels_for,
    pod_reference,
    pods_behind,
    ports_of,
)
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.model.times import moment_text
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key
from muster.store.rules import Deletion

SLICES = "endpointslices.discovery.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
_MOST = 100  # endpoints of a slice
_NODE_S = 5.0  # after which to look for a node that was not there
_ZONE = "topology.kubernetes.io/zone"


@dataclass(slots=True)
class Steps:
    """The slices to make, to change and to delete."""

    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


def endpoint_of(service: Object, pod: Object, address: str, zone: str) -> Object:
    """What a slice says of one pod."""
    is_leaving = is_deleting(pod)
    is_published = bool(service["spec"].get("publishNotReadyAddresses"))
    endpoint: Object = {
        "addresses": [address],
        "conditions": {
            "ready": is_published or (is_ready(pod) and not is_leaving),
            "serving": is_ready(pod),
            "terminating": is_leaving,
        },
        "targetRef": pod_reference(pod),
    }
    if name := host_name(service, pod):
        endpoint["hostname"] = name
    if node := pod["spec"].get("nodeName"):
        endpoint["nodeName"] = node
    if zone:
        endpoint["zone"] = zone
    return endpoint


def slice_steps(
    service: Object, pods: Iterable[Object], there: Sequence[Object], zones: Mapping[str, str], now_s: float
) -> Steps:
    """What makes the slices of a service say what its pods are; an endpoint stays in its slice. `zones` are by node."""
    steps, known = Steps(), list(pods)
    for family in service["spec"].get("ipFamilies") or ["IPv4"]:
        wanted: dict[bytes, dict[str, Object]] = {}
        all_ports: dict[bytes, list[Object]] = {}
        for pod in known:
            address = next((one for one in addresses_of(pod) if (":" in one) == (family == "IPv6")), "")
            if not address or not can_serve(pod, has_leaving=True):
                continue
            ports = ports_of(service, pod)
            text = msgspec.json.encode(ports, order="sorted")
            all_ports[text] = ports
            node = pod["spec"].get("nodeName")
            if node and node not in zones and not service["spec"].get("publishNotReadyAddresses"):
                continue  # nothing can lead to a node that is not there
            zone = zones.get(node, "")
            wanted.setdefault(text, {})[pod["metadata"]["uid"]] = endpoint_of(service, pod, address, zone)
        if not wanted:  # so that there is always something to watch
            wanted[b""], all_ports[b""] = {}, []
        mine = [one for one in there if one["addressType"] == family]
        for text, endpoints in sorted(wanted.items()):
            same = [one for one in mine if _text(one) == msgspec.json.encode(all_ports[text], order="sorted")]
            taken = {one["metadata"]["name"] for one in same}
            mine = [one for one in mine if one["metadata"]["name"] not in taken]
            _fit(steps, _Group(service, family, all_ports[text], now_s), endpoints, same)
        steps.delete += mine
    families = service["spec"].get("ipFamilies") or ["IPv4"]
    steps.delete += [one for one in there if one["addressType"] not in families]
    return steps


@dataclass(frozen=True, slots=True)
class _Group:
    """The slices of a service that have the same ports."""

    service: Object
    family: str
    ports: list[Object]
    now_s: float


def _text(one: Object) -> bytes:
    return msgspec.json.encode(one.get("ports") or [], order="sorted")


def _fit(steps: Steps, group: _Group, endpoints: dict[str, Object], there: Sequence[Object]) -> None:
    left = dict(endpoints)
    kept: list[tuple[Object, list[Object]]] = []
    for one in there:
        uids = [(endpoint.get("targetRef") or {}).get("uid", "") for endpoint in one.get("endpoints") or ()]
        kept.append((one, [left.pop(uid) for uid in uids if uid in left]))
    rest = list(left.values())
    for _, held in kept:
        room = max(0, _MOST - len(held))
        held += rest[:room]
        rest = rest[room:]
    for number, (one, held) in enumerate(kept):
        if not held and (endpoints or number):
            steps.delete.append(one)
        elif _differs(one, new := _slice(group, held, one)):
            steps.update.append(new)
    taken = {str(one["metadata"]["name"]) for one in there}
    if not there and not rest:
        steps.create.append(_named(group, _slice(group, [], None), taken))
    for start in range(0, len(rest), _MOST):
        steps.create.append(_named(group, _slice(group, rest[start : start + _MOST], None), taken))


def _slice(group: _Group, endpoints: list[Object], before: Object | None) -> Object:
    service = group.service["metadata"]
    metadata: Object = dict((before or {}).get("metadata") or {"namespace": service["namespace"]})
    metadata["labels"] = labels_for(group.service, {SERVICE_NAME: service["name"], MANAGED_BY: MANAGER})
    metadata["ownerReferences"] = [reference_to(group.service)]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), TRIGGER_TIME: moment_text(group.now_s)}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": group.family,
        "endpoints": endpoints,
        "ports": group.ports,
    }


def _differs(one: Object, new: Object) -> bool:
    is_same = (one.get("endpoints") or []) == new["endpoints"]
    parts = ("labels", "ownerReferences")
    return not is_same or any(one["metadata"].get(part) != new["metadata"][part] for part in parts)


def _named(group: _Group, new: Object, taken: set[str]) -> Object:
    """A slice with a name that none has."""
    prefix = f"{group.service['metadata']['name']}-"
    facts = [group.service["metadata"]["uid"], group.family, group.ports]
    name = free_name(prefix, facts, taken.__contains__)
    taken.add(name)
    return {**new, "metadata": {**new["metadata"], "name": name, "generateName": prefix}}


class EndpointSlices:
    """The controller of endpoint slices."""

    name = "endpointslice"

    def keys(self, seen: Seen, view: View) -> Iterator[Key]:
        yield from service_keys(seen, view)
        if seen.key.resource == SLICES:
            for state in (seen.before, seen.now):
                reference = None if state is None else controller_of(state)
                if reference is not None and reference["kind"] == "Service":
                    yield Key(SERVICES, seen.key.namespace, reference["name"])

    async def reconcile(self, turn: Turn) -> None:
        service = turn.view.get(turn.key)
        if service is None or is_deleting(service) or not service["spec"].get("selector"):
            return
        pods = pods_behind(turn.view, service)
        there = [
            one
            for one in turn.view.owned(service["metadata"]["uid"], SLICES)
            if is_controlled_by(one, service) and (one["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER
        ]
        nodes = {node for pod in pods if (node := pod["spec"].get("nodeName"))}
        zones = {node: zone for node in nodes if (zone := _zone(turn.view, node)) is not None}
        if len(zones) < len(nodes):
            turn.look_again(_NODE_S)
        steps = slice_steps(service, pods, there, zones, turn.now_s)
        creations = [turn.create(SLICES, one) for one in steps.create]
        await all_done([*creations, *(turn.update(key_of(SLICES, one), one) for one in steps.update)])
        await all_done(turn.delete(key_of(SLICES, one), Deletion(uid=one["metadata"]["uid"])) for one in steps.delete)


def _zone(view: View, node: str) -> str | None:
    """The zone of a node, which may have none; `None` when there is no such node."""
    found = view.get(Key("nodes", "", node))
    return None if found is None else str((found["metadata"].get("labels") or {}).get(_ZONE, ""))
