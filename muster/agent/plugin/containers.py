"""What a container sees of its shares: variables and mounts, or both as a CDI file. Pure.

The limits stand in a file that the container can read and not write, because a tenant can change its environment; the
variables say the same for those who only look there. With CDI the container's runtime puts all of this in when the
container is created, after the agent has settled whose it is. The cards and the driver's libraries come from NVIDIA's
runtime, which goes by the variables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.model.device import WHOLE_CORES, Share

CDI_VENDOR, CDI_CLASS = "muster.dev", "share"
CDI_VERSION = "0.6.0"
INSIDE = "/etc/muster"  # where a container finds its limits, read-only
WORK = "/var/lib/muster-share"  # and what it shares with its other processes
TURNS = "/var/lib/muster-turns"  # and with the other tenants of its cards
PRELOAD = "/etc/ld.so.preload"
LIMITS, REGION = "limits", "region"
OPT_OUT = "CUDA_DISABLE_CONTROL"
SET_ELSEWHERE = ("CUDA_TASK_PRIORITY", "GPU_CORE_UTILIZATION_POLICY")  # by the webhook, in the container's own spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where things are on the machine."""

    state: str = "/var/lib/muster/agent"
    library: str = "/usr/local/muster/libmuster-limiter.so"  # empty: nothing is preloaded
    preload: str = "/usr/local/muster/ld.so.preload"  # a file that names the library


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All that a container gets."""

    variables: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, str, bool], ...] = ()  # inside, on the machine, whether read-only


def share_key(ids: Iterable[str]) -> str:
    """A name for what the kubelet calls by the devices that it has picked."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:32]


def limit_variables(shares: Sequence[Share], *, settings: Mapping[str, str], is_scaled: bool) -> dict[str, str]:
    """The limits in HAMi's words: memory of each card, and the cores of the first; all where nothing else is said."""
    variables = {f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{one.memory_mib}m" for number, one in enumerate(shares)}
    if shares and 0 < shares[0].cores < WHOLE_CORES:
        variables["CUDA_DEVICE_SM_LIMIT"] = str(shares[0].cores)
    if is_scaled:
        variables["CUDA_OVERSUBSCRIBE"] = "true"
    return variables | dict(settings)


def limits_text(variables: Mapping[str, str]) -> str:
    """The file of limits: a line for each."""
    return "".join(f"{name}={value}\n" for name, value in sorted(variables.items()))


def sight(key: str, shares: Sequence[Share], places: Places, *, is_opted_out: bool, limits: Mapping[str, str]) -> Sight:
    """What a container with these shares sees; `key` names its folder on the machine."""
    uuids = ",".join(share.uuid for share in shares)
    variables = {"NVIDIA_VISIBLE_DEVICES": uuids, "CUDA_VISIBLE_DEVICES": uuids}
    if is_opted_out:
        return Sight(variables=variables)
    folder = f"{places.state}/shares/{key}"
    variables |= {
        "MUSTER_LIMITS": f"{INSIDE}/{LIMITS}",
        "MUSTER_REGION": f"{WORK}/{REGION}",
        "MUSTER_TURNS": TURNS,
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{WORK}/{REGION}.cache",
        **limits,
    }
    mounts = [
        (INSIDE, f"{folder}/read", True),
        (WORK, f"{folder}/work", False),
        (TURNS, f"{places.state}/turns", False),
    ]
    if places.library:
        mounts += [(places.library, places.library, True), (PRELOAD, places.preload, True)]
    return Sight(variables=variables, mounts=tuple(mounts))


def allocated(seen: Sight) -> dict[str, Any]:
    """The same as the kubelet wants to hear it."""
    return {
        "envs": dict(seen.variables),
        "mounts": [
            {"container_path": inside, "host_path": outside, "read_only": is_read_only}
            for inside, outside, is_read_only in seen.mounts
        ],
    }


def cdi_name(key: str) -> str:
    """The device that a container is given, and that its runtime looks up when it creates the container."""
    return f"{CDI_VENDOR}/{CDI_CLASS}={key}"


def cdi_text(key: str, seen: Sight) -> str:
    """The CDI file of one container."""
    edits: dict[str, Any] = {"env": [f"{name}={value}" for name, value in sorted(seen.variables.items())]}
    if seen.mounts:
        edits["mounts"] = [
            {
                "hostPath": outside,
                "containerPath": inside,
                "options": ["ro" if is_read_only else "rw", "nosuid", "nodev", "bind"],
            }
            for inside, outside, is_read_only in seen.mounts
        ]
    spec = {
        "cdiVersion": CDI_VERSION,
        "kind": f"{CDI_VENDOR}/{CDI_CLASS}",
        "devices": [{"name": key, "containerEdits": edits}],
    }
    return json.dumps(spec, indent=1, sort_keys=True)
