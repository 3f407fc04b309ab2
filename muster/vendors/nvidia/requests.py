"""What a container asks of NVIDIA's cards: its resources and its pod's annotations, read."""

from __future__ import annotations

from collections.abc import Mapping

from muster.engine.devices import CardWishes
from muster.engine.devices_vendor import WHOLE_PERCENT, asked, listed, whole
from muster.model.device import AMOUNT_MAX, DeviceRequest
from muster.model.fields import Fields
from muster.vendors.nvidia.settings import NAME, NvidiaSettings

USE_TYPE, AVOID_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_UUID, AVOID_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
NUMA_BIND = "nvidia.com/numa-bind"
MODE = "nvidia.com/vgpu-mode"
WISHES = frozenset((USE_TYPE, AVOID_TYPE, USE_UUID, AVOID_UUID, NUMA_BIND, MODE))
TRUE = ("1", "t", "T", "true", "TRUE", "True")  # what Go reads as true


def request_of(container: Fields, settings: NvidiaSettings) -> DeviceRequest | None:
    """The cards that a container asks for; nothing where its memory is no amount that a card could have."""
    count = whole(asked(container, settings.count_resource))
    if count is None or count <= 0:
        return None
    memory, percent = _memory(container, settings), _percent(container, settings)
    if memory is None:
        return None
    if memory == 0 and percent is None:
        memory = settings.default_memory_mib
        percent = WHOLE_PERCENT if memory == 0 else None
    return DeviceRequest(
        vendor=NAME,
        count=min(count, AMOUNT_MAX),
        memory_mib=memory,
        memory_percent=percent,
        cores=_cores(container, settings),
    )


def _memory(container: Fields, settings: NvidiaSettings) -> int | None:
    """The memory of each card in MiB, 0 where none is given, `None` where it is out of all bounds."""
    given = asked(container, settings.memory_resource)
    if given is None:
        return 0
    factor = settings.resources.memory_factor
    amount = whole(given)
    return amount * factor if amount is not None and 0 <= amount <= AMOUNT_MAX // factor else None


def _percent(container: Fields, settings: NvidiaSettings) -> int | None:
    amount = whole(asked(container, settings.memory_percent_resource))
    return None if amount is None or amount <= 0 else min(amount, WHOLE_PERCENT)


def _cores(container: Fields, settings: NvidiaSettings) -> int:
    amount = whole(asked(container, settings.cores_resource))
    return settings.default_cores if amount is None else min(max(0, amount), AMOUNT_MAX)


def wishes_of(annotations: Mapping[str, str]) -> CardWishes:
    """Which cards the pod's annotations name; a blank annotation names none."""
    return CardWishes(
        models=tuple(part.lower() for part in listed(annotations.get(USE_TYPE, ""))),
        models_not=tuple(part.lower() for part in listed(annotations.get(AVOID_TYPE, ""))),
        uuids=frozenset(listed(annotations.get(USE_UUID, ""))),
        uuids_not=frozenset(listed(annotations.get(AVOID_UUID, ""))),
        modes=annotations.get(MODE) or None,
        is_on_one_numa=annotations.get(NUMA_BIND) in TRUE,
    )
