"""What a container on the local node is told about cards: which it may use, and how much of each. Pure.

The variables are those that NVIDIA's tools, CUDA and HAMi's limiter read. Where nothing was given out nothing is seen.
"""

from __future__ import annotations

from muster.dialects.hami.cards import shares_of_container
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object
from muster.vendors.nvidia import VENDOR

NONE = {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
WHOLE_CORES = 100


def card_variables(pod: Object, container: str) -> dict[str, str]:
    """The variables of one container."""
    try:
        shares = shares_of_container(Fields.of(pod), container, VENDOR)
    except InvalidObject:
        return dict(NONE)  # whatever wrote that, it has given out nothing
    if not shares:
        return dict(NONE)
    uuids = ",".join(share.uuid for share in shares)
    variables = {"NVIDIA_VISIBLE_DEVICES": uuids, "CUDA_VISIBLE_DEVICES": uuids}
    variables |= {f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{one.memory_mib}m" for number, one in enumerate(shares)}
    if 0 < shares[0].cores < WHOLE_CORES:
        variables["CUDA_DEVICE_SM_LIMIT"] = str(shares[0].cores)
    return variables
