"""The NVIDIA cards of this machine, as the driver's own library tells. Used by `app` when the local node registers.

The library is loaded by name; where it is missing, or says nothing, there are no cards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from muster.model.device import Device

LIBRARY = "libnvidia-ml.so.1"
SLOTS = 10  # containers that may share a card, as HAMi's plugin has it unless told otherwise
_TEXT_BYTES = 96
_MIB = 20
_FINE = 0


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class NoCards(Exception):
    """Why nothing is known of cards."""


def found_cards(library: str = LIBRARY) -> tuple[Device, ...]:
    """The cards of this machine."""
    try:
        with _opened(library) as nvml:
            return tuple(_cards(nvml))
    except NoCards:
        return ()


@contextmanager
def _opened(library: str) -> Iterator[ctypes.CDLL]:
    try:
        nvml = ctypes.CDLL(library)
        _check(nvml.nvmlInit_v2())
    except (OSError, AttributeError) as problem:
        raise NoCards(str(problem)) from None
    try:
        yield nvml
    except AttributeError as problem:
        raise NoCards(str(problem)) from None  # a library that is older than what is asked of it
    finally:
        nvml.nvmlShutdown()


def _cards(nvml: ctypes.CDLL) -> Iterator[Device]:
    count = ctypes.c_uint()
    _check(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)))
    for index in range(count.value):
        handle, memory = ctypes.c_void_p(), _Memory()
        _check(nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)))
        _check(nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)))
        name, uuid = (ctypes.create_string_buffer(_TEXT_BYTES) for _ in range(2))
        _check(nvml.nvmlDeviceGetName(handle, name, _TEXT_BYTES))
        _check(nvml.nvmlDeviceGetUUID(handle, uuid, _TEXT_BYTES))
        yield Device(
            uuid=uuid.value.decode(),
            index=index,
            vendor="NVIDIA",
            model=name.value.decode().replace(" ", "-"),
            memory_mib=memory.total >> _MIB,
            slots=SLOTS,
        )


def _check(code: int) -> None:
    if code != _FINE:
        raise NoCards(f"NVML answers with {code}")
