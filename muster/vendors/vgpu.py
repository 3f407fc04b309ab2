"""NVIDIA's cards as Volcano's own device plugin shares them: `volcano.sh/vgpu-number` and its like. Found by `app`.

The node registers its cards under Volcano's annotation, in JSON or in a list of five or six fields; pods are told of
their shares by Volcano's annotations. The cards are not HAMi's: who asks for `nvidia.com/gpu` gets none of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from muster.engine.contracts import Assigned, DeviceResources, Vendor, VendorSettings
from muster.engine.devices_text import DEVICE_END, FIELD_END, read_old_register, read_register
from muster.engine.devices_vendor import (
    WHOLE_PERCENT,
    Family,
    asked,
    bounded,
    of_family,
    plain_annotations,
    plain_request,
    plain_vendor,
    register_of,
)
from muster.model.device import WHOLE_CORES, ContainerShares, Device, DeviceRequest
from muster.model.fields import Fields

NAME = "vGPU"
MAKER = "NVIDIA"  # left out of models: by that word HAMi's own cards go
ASSIGNED_NODE, ASSIGNED_AT = "volcano.sh/vgpu-node", "volcano.sh/vgpu-time"
OLD_FIELDS = (5, 6)  # name, sharers, memory, model, health, and in newer ones the mode
RESOURCES = DeviceResources(
    count="volcano.sh/vgpu-number",
    memory="volcano.sh/vgpu-memory",
    memory_percent="volcano.sh/vgpu-memory-percentage",
    cores="volcano.sh/vgpu-cores",
)
FAMILY = Family(
    name=NAME,
    resources=RESOURCES,
    register="volcano.sh/node-vgpu-register",
    to_allocate="volcano.sh/devices-to-allocate",
    allocated="volcano.sh/vgpu-ids-new",
)


def devices_of(node: Fields, family: Family) -> tuple[Device, ...]:
    """The cards that the node registers."""
    text, path = register_of(node, family.register)
    read = read_register(text, path) if text.lstrip().startswith("[") else read_old_register(_filled_in(text), path)
    numbered = (
        replace(device, index=index, model=f"{NAME} {device.model.replace(MAKER, '').strip(' -')}".strip())
        for index, device in enumerate(read)
    )
    return of_family(node, family.name, tuple(numbered))


def _filled_in(text: str) -> str:
    """A list of Volcano's fields as one of HAMi's: all cores are given out, and nobody tells of NUMA nodes."""
    cards = []
    for part in text.split(DEVICE_END):
        fields = part.split(FIELD_END)
        if len(fields) in OLD_FIELDS:
            uuid, count, memory, model, health = fields[:5]
            fields = [uuid, count, memory, str(WHOLE_CORES), model, "0", health]
        cards.append(FIELD_END.join(fields))
    return DEVICE_END.join(cards)


def request_of(container: Fields, family: Family) -> DeviceRequest | None:
    """The cards that a container asks for, by memory, by a part of all memory, or whole."""
    request = plain_request(container, family)
    percent = bounded(asked(container, family.resources.memory_percent), least=1, most=WHOLE_PERCENT, default=0)
    if request is None or request.memory_mib or not percent:
        return request
    return replace(request, memory_percent=percent)


def annotate(_pod: Fields, containers: ContainerShares, assigned: Assigned, *, family: Family) -> dict[str, str]:
    """What is written on a pod that got these shares; nothing where it got none."""
    written = plain_annotations(containers, family)
    return {**written, ASSIGNED_NODE: assigned.node, ASSIGNED_AT: str(assigned.now_s)} if written else {}


VENDOR: Vendor = replace(
    plain_vendor(FAMILY),
    devices_of=partial(devices_of, family=FAMILY),
    request_of=partial(request_of, family=FAMILY),
    annotate=partial(annotate, family=FAMILY),
)
# Volcano's plugin has a configuration of its own: HAMi's has no section for it.
SETTINGS = VendorSettings(name="vgpu", read=lambda _given: (VENDOR,))
