"""What a container on the local node is told about cards: which it may use, and how much of each. Pure.

The variables are those that NVIDIA's tools, CUDA and HAMi's limiter read. Where nothing was given out nothing is seen.
"""

from __future__ import annotations

from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object
from muster.vendors.nvidia import shares_of

NONE = {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
WHOLE_CORES = 100


def card_variables(pod: Object, container: str) -> dict[str, str]:
    """The variables of one container."""
    spec = pod["spec"]
    names = [one["name"] for one in (*(spec.get("initContainers") or ()), *spec["containers"])]
    try:
        by_container = shares_of(Fields.of(pod))
    except InvalidObject:
        return dict(NONE)  # whatever wrote that, it has given out nothing
    index = names.index(container)
    shares = by_container[index] if index < len(by_container) else ()
    if not shares:
        return dict(NONE)
    uuids = ",".join(share.uuid for share in shares)
    variables = {"NVIDIA_VISIBLE_DEVICES": uuids, "CUDA_VISIBLE_DEVICES": uuids}
    variables |= {f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{one.memory_mib}m" for number, one in enumerate(shares)}
    if 0 < shares[0].cores < WHOLE_CORES:
        variables["CUDA_DEVICE_SM_LIMIT"] = str(shares[0].cores)
    return variables
