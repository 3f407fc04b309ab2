"""Endpoints: the addresses behind each service that has a selector, in the older form. Listed in `workloads`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from muster.controllers.builtin.owners import matching_keys, plain_selector_of
from muster.controllers.builtin.pods import PODS, is_ready
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
from muster.store.records import Key

ENDPOINTS = "endpoints"
MANAGED = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_MOST = 1_000  # addresses of one object


def service_keys(seen: Seen, view: View) -> Iterator[Key]:
    """The services that a change of themselves or of a pod concerns."""
    if seen.key.resource == SERVICES:
        yield seen.key
    elif seen.key.resource == PODS:
        yield from matching_keys(seen, view, SERVICES, plain_selector_of)


def subsets(service: Object, pods: Iterable[Object]) -> list[Object]:
    """The addresses behind a service, those with the same ports together."""
    is_published = bool(service["spec"].get("publishNotReadyAddresses"))
    groups: dict[bytes, Object] = {}
    for pod in pods:
        if not can_serve(pod, has_leaving=is_published):
            continue
        ports = [_port(one) for one in ports_of(service, pod)]
        if not ports and service["spec"].get("ports"):
            continue
        ports.sort(key=lambda one: msgspec.json.encode(one, order="sorted"))
        group = groups.setdefault(msgspec.json.encode(ports, order="sorted"), {"ports": ports} if ports else {})
        side = "addresses" if is_published or is_ready(pod) else "notReadyAddresses"
        group.setdefault(side, []).append(_address(service, pod))
    for group in groups.values():
        for side in ("addresses", "notReadyAddresses"):
            if side in group:
                group[side].sort(key=lambda one: (one["ip"], one["targetRef"]["uid"]))
    return [groups[text] for text in sorted(groups)]


def _port(given: Object) -> Object:
    return {name: value for name, value in given.items() if value != ""}


def _address(service: Object, pod: Object) -> Object:
    address: Object = {"ip": addresses_of(pod)[0], "targetRef": pod_reference(pod)}
    if name := host_name(service, pod):
        address["hostname"] = name
    if node := pod["spec"].get("nodeName"):
        address["nodeName"] = node
    return address


def endpoints_of(service: Object, pods: Iterable[Object], before: Object | None, now_s: float) -> Object | None:
    """The endpoints of a service as they should be; `None` when they are so."""
    groups, is_cut = _cut(subsets(service, pods))
    labels = labels_for(service, MANAGED)
    metadata = {"name": service["metadata"]["name"], "namespace": service["metadata"]["namespace"]}
    known = (before or {}).get("metadata") or metadata
    annotations = dict(known.get("annotations") or {})
    if is_cut:
        annotations[OVER_CAPACITY] = "truncated"
    else:
        annotations.pop(OVER_CAPACITY, None)
    if before is not None:
        is_same = (before.get("subsets") or []) == groups and (known.get("labels") or {}) == labels
        if is_same and annotations == (known.get("annotations") or {}):
            return None
    annotations[TRIGGER_TIME] = moment_text(now_s)
    new: Object = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {**known, "labels": labels}}
    new["metadata"]["annotations"] = annotations
    return {**new, "subsets": groups} if groups else new


def _cut(groups: list[Object]) -> tuple[list[Object], bool]:
    """At most so many addresses, the ready ones before the others."""
    count = sum(len(group.get(side, ())) for group in groups for side in ("addresses", "notReadyAddresses"))
    if count <= _MOST:
        return groups, False
    room, cut = _MOST, [{"ports": group["ports"]} if "ports" in group else {} for group in groups]
    for side in ("addresses", "notReadyAddresses"):
        for group, kept in zip(groups, cut, strict=True):
            if taken := group.get(side, [])[:room]:
                kept[side] = taken
                room -= len(taken)
    return [group for group in cut if len(group) > ("ports" in group)], True


class EndpointsOfServices:
    """The controller of endpoints."""

    name = "endpoints"

    def keys(self, seen: Seen, view: View) -> Iterator[Key]:
        yield from service_keys(seen, view)
        if seen.key.resource == ENDPOINTS:
            yield Key(SERVICES, seen.key.namespace, seen.key.name)

    async def reconcile(self, turn: Turn) -> None:
        key = Key(ENDPOINTS, turn.key.namespace, turn.key.name)
        service, before = turn.view.get(turn.key), turn.view.get(key)
        if service is None:
            if before is not None and (before["metadata"].get("labels") or {}).items() >= MANAGED.items():
                await turn.delete(key)
            return
        if not service["spec"].get("selector"):
            return
        wanted = endpoints_of(service, pods_behind(turn.view, service), before, turn.now_s)
        if wanted is not None and before is None:
            await turn.create(ENDPOINTS, wanted)
        elif wanted is not None:
            await turn.update(key, wanted)
