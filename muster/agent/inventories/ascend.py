"""Ascend's chips as Huawei's own tool `npu-smi info` lists them. Called by the agent.

The table has two lines for each chip: number, name, health, power and temperature; then bus and memory.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence

from muster.agent.cards import FoundCard, NoInventory

COMMAND = ("npu-smi", "info")
NAME = "Ascend"
_WAIT_S = 10.0
_MOST_TEXT = 1 << 20
_FIRST = re.compile(r"\|\s*(\d+)\s+(\S+)\s*\|\s*(\S+)\s*\|\s*([\d.]+|-)\s+(\d+|-)\s")
_SECOND = re.compile(r"\|\s*(\d+)\s*(?:\d+\s*)?\|\s*([0-9A-Fa-f:.]+)\s*\|.*?(\d+)\s*/\s*(\d+)\s*\|\s*$")
_FILES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")


def _told() -> str:
    try:
        done = subprocess.run(COMMAND, capture_output=True, timeout=_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NoInventory(f"npu-smi does not answer: {problem}") from None
    if done.returncode != 0:
        raise NoInventory(f"npu-smi ends with {done.returncode}")
    return done.stdout.decode(errors="replace")


class AscendInventory:
    """The chips of one machine."""

    def __init__(self, told: Callable[[], str] = _told) -> None:
        self._told = told  # what the tool says

    def found(self) -> Sequence[FoundCard]:
        """The chips there are now."""
        cards: list[FoundCard] = []
        first: re.Match[str] | None = None
        for line in self._told()[:_MOST_TEXT].splitlines():
            if found := _FIRST.match(line):
                first = found
            elif first is not None and (second := _SECOND.match(line)):
                cards.append(_card(len(cards), first, second))
                # A module of two chips says its own line once for each, or once for both.
        return cards


def _card(index: int, first: re.Match[str], second: re.Match[str]) -> FoundCard:
    health, power, temperature = first[3], first[4], first[5]
    return FoundCard(
        uuid=f"{NAME}{first[2]}-{second[2]}",
        index=index,
        vendor=f"{NAME}{first[2]}",
        model=f"{NAME}{first[2]}",
        memory_mib=int(second[4]),
        is_healthy=health == "OK",
        problem="" if health == "OK" else f"npu-smi says {health}",
        temperature_c=int(temperature) if temperature != "-" else None,
        power_w=float(power) if power != "-" else None,
        files=(f"/dev/davinci{index}", *_FILES),
        used_mib=int(second[3]),
        details={"bus": second[2]},
    )
