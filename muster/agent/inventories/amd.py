"""AMD's cards as the kernel's driver shows them in /sys. Called by the agent.

The driver `amdgpu` gives each card a folder below /sys/class/drm, with its memory, its unique id and its NUMA node.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muster.agent.cards import FoundCard, NoInventory

ROOT = Path("/sys/class/drm")
VENDOR_ID = "0x1002"
NAME = "AMD"
_MIB = 20
_MILLI, _MICRO = 1_000, 1_000_000
_MOST_CARDS = 1_024


class AmdInventory:
    """The cards of one machine."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root

    def found(self) -> Sequence[FoundCard]:
        """The cards there are now."""
        if not self._root.is_dir():
            raise NoInventory(f"{self._root} is not there: the kernel has no driver for cards")
        folders = sorted(one / "device" for one in self._root.glob("card[0-9]*") if one.name[4:].isdigit())
        own = [one for one in folders[:_MOST_CARDS] if _text(one / "vendor") == VENDOR_ID]
        return [_card(folder, index) for index, folder in enumerate(own)]


def _card(folder: Path, index: int) -> FoundCard:
    memory, used = _number(folder / "mem_info_vram_total"), _number(folder / "mem_info_vram_used")
    bus = _text(folder / "uevent").partition("PCI_SLOT_NAME=")[2].partition("\n")[0]
    sensors = next(iter(sorted(folder.glob("hwmon/hwmon*"))), folder)
    temperature, power = _number(sensors / "temp1_input"), _number(sensors / "power1_average")
    render = next((one.name for one in sorted(folder.glob("drm/renderD*"))), "")
    return FoundCard(
        uuid=_text(folder / "unique_id") or bus or f"{NAME}-{index}",
        index=index,
        vendor=NAME,
        model=_text(folder / "product_name").replace(" ", "-") or f"{NAME}-{_text(folder / 'device')}",
        memory_mib=memory >> _MIB,
        numa=max(0, _number(folder / "numa_node")),
        is_healthy=memory > 0,
        problem="" if memory > 0 else "its driver tells no memory",
        temperature_c=temperature // _MILLI if temperature else None,
        power_w=power / _MICRO if power else None,
        files=("/dev/kfd", *((f"/dev/dri/{render}",) if render else ())),
        used_mib=used >> _MIB,
        details={"bus": bus} if bus else {},
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _text(path)
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0
