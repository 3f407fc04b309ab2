"""How a pod and nodes are read: what each container asks for and holds, and the cards that nodes register. Pure.

For people who wonder why a pod gets other cards than they meant, and for tests; asked through the extender.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.dialects.hami.requests import requests_of
from muster.engine.contracts import Vendor
from muster.engine.devices_text import allocation_text
from muster.model.device import Device, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

Json = dict[str, Any]


def explained(pod: Fields, nodes: Iterable[Mapping[str, Any]], vendors: Sequence[Vendor]) -> Json:
    """What is read out of a pod and of nodes, in words of JSON."""
    asked = [{name: _request(request) for name, request in requests.items()} for requests in requests_of(pod, vendors)]
    return {
        "requests": asked,
        "shares": {vendor.name: _told(lambda vendor=vendor: _shares(vendor.shares_of(pod))) for vendor in vendors},
        "nodes": [
            {vendor.name: _told(lambda vendor=vendor, node=node: _devices(vendor, node)) for vendor in vendors}
            for node in map(Fields.of, nodes)
        ],
    }


def _told(read: Any) -> Any:
    """What is read, or what is wrong with it."""
    try:
        return read()
    except InvalidObject as problem:
        return {"problem": str(problem)}


def _request(request: DeviceRequest) -> Json:
    return {
        "count": request.count,
        "memoryMiB": request.memory_mib,
        "memoryPercent": request.memory_percent,
        "cores": request.cores,
        "slices": request.slices,
    }


def _shares(containers: tuple[tuple[Share, ...], ...]) -> Json:
    return {
        "text": allocation_text(containers[:-1] if containers and not containers[-1] else containers),
        "containers": [[_share(share) for share in shares] for shares in containers],
    }


def _share(share: Share) -> Json:
    return {"card": share.uuid, "vendor": share.vendor, "memoryMiB": share.memory_mib, "cores": share.cores}


def _devices(vendor: Vendor, node: Fields) -> list[Json]:
    return [_device(device) for device in vendor.devices_of(node)]


def _device(device: Device) -> Json:
    return {
        "card": device.uuid,
        "index": device.index,
        "vendor": device.vendor,
        "model": device.model,
        "memoryMiB": device.memory_mib,
        "cores": device.cores,
        "slots": device.slots,
        "numa": device.numa,
        "mode": device.mode,
        "isHealthy": device.is_healthy,
        "profiles": [profile.name for profile in device.profiles],
        "links": dict(device.pair_scores),
    }
