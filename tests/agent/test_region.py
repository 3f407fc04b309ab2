"""The reader of the limiter's region agrees with the C side on every offset, and refuses what is no region."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from muster.agent import region
from muster.agent.region import DEVICE, HEADER, REGION_BYTES, SLOT, parse_region, read_region
from muster.model.errors import InvalidObject
from tests.limiter.building import SOURCES, call, compiler

OFFSETS = r"""
#include <stdio.h>
#include <stddef.h>
#include "region.h"
#define AT(type, field) printf(#type "." #field "=%zu\n", offsetof(struct type, field))
int main(void) {
    printf("bytes=%zu\ndevice=%zu\nslot=%zu\nmagic=%llx\n", sizeof(struct region), sizeof(struct region_device),
           sizeof(struct region_slot), REGION_MAGIC);
    AT(region, devices); AT(region, slots); AT(region, slots_used);
    AT(region_device, memory_limit); AT(region_device, core_limit); AT(region_device, account);
    AT(region_device, context_bytes); AT(region_device, throttled_ns); AT(region_device, refusals);
    AT(region_slot, host_pid); AT(region_slot, charged); AT(region_slot, residual); AT(region_slot, busy_ns);
}
"""


def test_both_sides_agree_on_the_layout(tmp_path: Path):
    (tmp_path / "offsets.c").write_text(OFFSETS)
    call(compiler(), "-std=gnu11", f"-I{SOURCES}", "-o", tmp_path / "offsets", tmp_path / "offsets.c")
    printed = subprocess.run([tmp_path / "offsets"], capture_output=True, text=True, check=True).stdout
    seen = dict(line.split("=") for line in printed.splitlines())
    assert bytes.fromhex(seen.pop("magic"))[::-1] == region.MAGIC
    assert {name: int(value) for name, value in seen.items()} == {
        "bytes": REGION_BYTES,
        "device": region.DEVICE_BYTES,
        "slot": region.SLOT_BYTES,
        "region.devices": region.DEVICES_AT,
        "region.slots": region.SLOTS_AT,
        "region.slots_used": struct.calcsize("<8sII"),
        "region_device.memory_limit": struct.calcsize("<48s"),
        "region_device.core_limit": struct.calcsize("<48sQ"),
        "region_device.account": struct.calcsize("<48sQII"),
        "region_device.context_bytes": struct.calcsize("<48sQIIqQ"),
        "region_device.throttled_ns": struct.calcsize("<48sQIIqQQ"),
        "region_device.refusals": struct.calcsize("<48sQIIqQQQ"),
        "region_slot.host_pid": struct.calcsize("<Q"),
        "region_slot.charged": struct.calcsize("<QII"),
        "region_slot.residual": struct.calcsize("<QII16Q"),
        "region_slot.busy_ns": struct.calcsize("<QII32Q"),
    }


def sample() -> bytearray:
    content = bytearray(REGION_BYTES)
    HEADER.pack_into(content, 0, region.MAGIC, 1, REGION_BYTES, 2)
    DEVICE.pack_into(content, region.DEVICES_AT, b"GPU-1", 2 << 30, 30, 0, -5, 7, 11, 13, 17)
    owner = region.LIVE << 62 | 12 << 32 | 4321
    numbers = [100 + number for number in range(48)]
    SLOT.pack_into(content, region.SLOTS_AT, owner, 99, 0, *numbers)
    SLOT.pack_into(content, region.SLOTS_AT + region.SLOT_BYTES, 1 << 62 | 5, 0, 0, *numbers)  # being claimed
    return content


def test_a_region_is_read_whole():
    found = parse_region(bytes(sample()))
    device, (process,) = found.devices[0], found.processes
    assert (device.uuid, device.memory_limit, device.core_limit) == ("GPU-1", 2 << 30, 30)
    assert (device.throttled_ns, device.refusals, len(found.devices)) == (13, 17, 16)
    assert (process.pid, process.host_pid) == (4321, 99)
    assert (process.charged[0], process.residual[0], process.busy_ns[15]) == (100, 116, 147)
    assert (found.used(0), found.used(1)) == (100, 101)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda content: content[:-1], "bytes"),
        (lambda content: content + b"x", "bytes"),
        (lambda content: b"X" + content[1:], "no region"),
        (lambda content: content[:8] + b"\x09" + content[9:], "no region"),
    ],
)
def test_what_is_no_region_is_refused(tmp_path: Path, change, problem: str):
    path = tmp_path / "region"
    path.write_bytes(change(bytes(sample())))
    with pytest.raises(InvalidObject, match=problem):
        read_region(path)
