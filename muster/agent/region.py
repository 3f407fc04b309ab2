"""Reads the region that the limiter's processes share, for watching: who holds what on which card.

The layout is limiter/region.h; docs/limiter.md describes it. Called by what watches the tenants of a node. A tenant can
write its own region, so what is read here is its word: compare it with NVML before acting on it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from muster.model.errors import InvalidObject

MAGIC = b"MREGION1"
VERSION = 1
DEVICES, SLOTS = 16, 256
DEVICES_AT, DEVICE_BYTES = 256, 128
SLOTS_AT, SLOT_BYTES = 4096, 512
REGION_BYTES = SLOTS_AT + SLOTS * SLOT_BYTES
UNLIMITED = 2**64 - 1

HEADER = struct.Struct("<8sIII")
# uuid, memory limit, core limit, (unused), balance, refilled at, bytes of a context, throttled ns, refusals
DEVICE = struct.Struct("<48sQIIqQQQQ")
SLOT = struct.Struct("<QII16Q16Q16Q")
LIVE = 2  # the state in the two top bits of an owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A card as the tenant's processes see it."""

    uuid: str
    memory_limit: int  # bytes; UNLIMITED where there is none
    core_limit: int  # per cent of the card's time; 100 where there is none
    throttled_ns: int
    refusals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What one process holds, by the number of the card in its container."""

    pid: int  # as its own container counts
    host_pid: int  # 0 where nobody wrote it
    charged: tuple[int, ...]
    residual: tuple[int, ...]  # the part of `charged` that no allocation of its own explains
    busy_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A whole region at one moment."""

    devices: tuple[Device, ...]
    processes: tuple[Process, ...]

    def used(self, device: int) -> int:
        """The bytes that all processes together are charged with on a card."""
        return sum(process.charged[device] for process in self.processes)


def read_region(path: Path) -> Region:
    """The region in this file; a file that is none is refused."""
    with path.open("rb") as file:
        content = file.read(REGION_BYTES + 1)
    return parse_region(content, str(path))


def parse_region(content: bytes, path: str = "region") -> Region:
    """The region in these bytes."""
    if len(content) != REGION_BYTES:
        raise InvalidObject(path, f"has {len(content)} bytes", hint=f"a region has {REGION_BYTES}")
    magic, version, size, _ = HEADER.unpack_from(content)
    if (magic, version, size) != (MAGIC, VERSION, REGION_BYTES):
        raise InvalidObject(path, "is no region of this version", hint="it is made by the limiter or the agent")
    return Region(
        devices=tuple(read_device(content, DEVICES_AT + number * DEVICE_BYTES) for number in range(DEVICES)),
        processes=tuple(
            read_process(content, at)
            for at in range(SLOTS_AT, REGION_BYTES, SLOT_BYTES)
            if int.from_bytes(content[at : at + 8], "little") >> 62 == LIVE
        ),
    )


def read_device(content: bytes, at: int) -> Device:
    uuid, memory_limit, core_limit, _, _, _, _, throttled_ns, refusals = DEVICE.unpack_from(content, at)
    return Device(
        uuid=uuid.rstrip(b"\0").decode("ascii", "replace"),
        memory_limit=memory_limit,
        core_limit=core_limit,
        throttled_ns=throttled_ns,
        refusals=refusals,
    )


def read_process(content: bytes, at: int) -> Process:
    owner, host_pid, _, *numbers = SLOT.unpack_from(content, at)
    charged, residual, busy_ns = numbers[:DEVICES], numbers[DEVICES : 2 * DEVICES], numbers[2 * DEVICES :]
    return Process(
        pid=owner & 0xFFFFFFFF,
        host_pid=host_pid,
        charged=tuple(charged),
        residual=tuple(residual),
        busy_ns=tuple(busy_ns),
    )
