"""NVIDIA's cards as the driver's own library (NVML) tells, through `pynvml` of the extra `muster[node]`.

What a driver is too old to say is left out; a card that does not answer is there, and not healthy. Called by the agent.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from muster.agent.cards import FoundCard, NoInventory
from muster.agent.watching import Use
from muster.model.device import PARTITIONED, PartitionProfile, Placement

NAME = "NVIDIA"
_MIB = 20
_PROFILES = 32  # kinds of partitions that NVML may know
_LINKS = 18  # NVLinks of one card, at most
_PER_LINK = 100
_SLICES = 7  # of a card that is cut
_CORE_SENSOR = 0  # of temperature
# How near two cards are by what lies between them, as HAMi scores it: board, switch, switches, host bridge, node.
_NEARNESS = {0: 60, 10: 50, 20: 40, 30: 30, 40: 20, 50: 10}
_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")


class NvidiaInventory:
    """The cards of one machine."""

    def __init__(self, library: Any = None) -> None:
        self._library = library  # None: the real one, loaded when it is needed

    def found(self) -> Sequence[FoundCard]:
        """The cards there are now."""
        with self._opened() as nvml:
            try:
                count = nvml.library.nvmlDeviceGetCount()
                handles = [nvml.library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
            except nvml.library.NVMLError as problem:
                raise NoInventory(f"NVML does not list cards: {problem}") from None
            machine = _Machine(
                nvml, handles, [_text(nvml.said("nvmlDeviceGetUUID", one, otherwise="")) for one in handles]
            )
            return [machine.card(index) for index in range(count)]

    def uses(self) -> Sequence[Use]:
        """The memory that each process has of each card, as the driver tells."""
        with self._opened() as nvml:
            uses = []
            for index in range(nvml.said("nvmlDeviceGetCount", otherwise=0)):
                handle = nvml.said("nvmlDeviceGetHandleByIndex", index)
                uuid = _text(nvml.said("nvmlDeviceGetUUID", handle, otherwise=""))
                for one in nvml.said("nvmlDeviceGetComputeRunningProcesses", handle, otherwise=()):
                    uses.append(Use(uuid, int(one.pid), int(one.usedGpuMemory or 0) >> _MIB))
            return uses

    @contextmanager
    def _opened(self) -> Iterator[_Asked]:
        library = self._library
        if library is None:
            try:
                library = importlib.import_module("pynvml")
            except ImportError:
                raise NoInventory("pynvml is not installed: install muster[node]") from None
        try:
            library.nvmlInit()
        except library.NVMLError as problem:
            raise NoInventory(f"NVML does not start: {problem}") from None
        try:
            yield _Asked(library)
        finally:
            library.nvmlShutdown()


class _Asked:
    """The library, for what it may be too old to say."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def said(self, name: str, *arguments: Any, otherwise: Any = None) -> Any:
        """What a function says, or what to take where it is not there or fails."""
        try:
            return getattr(self.library, name)(*arguments)
        except (self.library.NVMLError, AttributeError):
            return otherwise


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class _Machine:
    """All cards of a machine while they are looked at."""

    def __init__(self, nvml: _Asked, handles: Sequence[Any], uuids: Sequence[str]) -> None:
        self._nvml = nvml
        self._handles = handles
        self._uuids = uuids

    def card(self, index: int) -> FoundCard:
        """One of them."""
        said, handle = self._nvml.said, self._handles[index]
        memory = said("nvmlDeviceGetMemoryInfo", handle)
        remapped = said("nvmlDeviceGetRemappedRows", handle, otherwise=(0, 0, 0, 0))
        problem = "rows of its memory could not be replaced" if remapped[3] else ""
        if memory is None:
            problem = "its driver does not answer"
        model = _text(said("nvmlDeviceGetName", handle, otherwise=NAME)).replace(" ", "-")
        is_cut = bool(said("nvmlDeviceGetMigMode", handle, otherwise=(0, 0))[0])
        power = said("nvmlDeviceGetPowerUsage", handle)
        minor = said("nvmlDeviceGetMinorNumber", handle, otherwise=index)
        bus = self._bus(handle)
        return FoundCard(
            uuid=self._uuids[index] or f"{NAME}-{bus or index}",
            index=index,
            vendor=NAME,
            model=model if model.startswith(NAME) else f"{NAME}-{model}",
            memory_mib=memory.total >> _MIB if memory is not None else 0,
            numa=max(0, int(said("nvmlDeviceGetNumaNodeId", handle, otherwise=0))),
            is_healthy=not problem,
            problem=problem,
            temperature_c=said("nvmlDeviceGetTemperature", handle, _CORE_SENSOR),
            power_w=power / 1_000 if power is not None else None,
            mode=PARTITIONED if is_cut else "",
            profiles=tuple(self._profiles(handle)) if is_cut else (),
            links=self._links(index),
            files=(f"/dev/nvidia{minor}", *_FILES),
            used_mib=memory.used >> _MIB if memory is not None else 0,
            details={"bus": bus, "driver": _text(said("nvmlSystemGetDriverVersion", otherwise=""))},
        )

    def _bus(self, handle: Any) -> str:
        found = self._nvml.said("nvmlDeviceGetPciInfo", handle)
        return _text(found.busId) if found is not None else ""

    def _profiles(self, handle: Any) -> Iterator[PartitionProfile]:
        """The partitions that a card can be cut into, and where each may lie."""
        for number in range(_PROFILES):
            info = self._nvml.said("nvmlDeviceGetGpuInstanceProfileInfo", handle, number)
            if info is None:
                continue
            places = self._nvml.said("nvmlDeviceGetGpuInstancePossiblePlacements", handle, info.id, otherwise=())
            if not places:
                continue
            yield PartitionProfile(
                name=f"{info.sliceCount}g.{-(-info.memorySizeMB // 1024)}gb",
                memory_mib=info.memorySizeMB,
                cores=info.sliceCount * 100 // _SLICES,
                slices=info.sliceCount,
                instances=info.instanceCount,
                placements=tuple(Placement(int(one.start), int(one.size)) for one in places),
            )

    def _links(self, index: int) -> Mapping[str, int]:
        """How near the other cards are: by their NVLinks, or by what lies between them."""
        own, said = self._handles[index], self._nvml.said
        by_bus: dict[str, int] = {}
        for link in range(_LINKS):
            if said("nvmlDeviceGetNvLinkState", own, link, otherwise=0):
                remote = said("nvmlDeviceGetNvLinkRemotePciInfo", own, link)
                bus = _text(remote.busId) if remote is not None else ""
                by_bus[bus] = by_bus.get(bus, 0) + _PER_LINK
        result = {}
        for other, handle in enumerate(self._handles):
            if other != index:
                between = said("nvmlDeviceGetTopologyCommonAncestor", own, handle, otherwise=-1)
                result[self._uuids[other]] = by_bus.get(self._bus(handle)) or _NEARNESS.get(between, 0)
        return result
