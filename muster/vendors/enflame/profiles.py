"""How an Enflame card is cut: profiles such as 3g.20gb, three slices with 20 GB, and which of them a request gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.model.device import AMOUNT_MAX, WHOLE_CORES, DeviceRequest

GB_MIB = 1024
SIZE_MOST = AMOUNT_MAX // GB_MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One way to cut a part off a card."""

    name: str
    number: str  # as the plugin calls it
    slices: int
    memory_gb: int
    cores: int  # per cent of the card, rounded down so that all slices of a card are never more than the card

    @property
    def memory_mib(self) -> int:
        return self.memory_gb * GB_MIB


def read_profiles(numbers: Mapping[str, str]) -> tuple[Profile, ...]:
    """The profiles of a node by their names, the smallest first; names of another form are passed over."""
    sizes = {name: _sizes(name) for name in numbers}
    most = max((slices for slices, _ in sizes.values()), default=0)
    found = [
        Profile(name=name, number=numbers[name], slices=slices, memory_gb=memory, cores=slices * WHOLE_CORES // most)
        for name, (slices, memory) in sizes.items()
        if slices and memory
    ]
    return tuple(sorted(found, key=lambda profile: (profile.slices, profile.memory_gb, profile.name)))


def _sizes(name: str) -> tuple[int, int]:
    """The slices and the memory in GB that a name tells of; 0 for what it does not."""
    slices, _, memory = name.lower().strip().partition(".")
    return _number(slices.strip().removesuffix("g")), _number(memory.partition(".")[0].strip().removesuffix("gb"))


def _number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(SIZE_MOST))
    return int(text) if is_number and int(text) <= SIZE_MOST else 0


def profile_for(request: DeviceRequest, profiles: tuple[Profile, ...]) -> Profile | None:
    """The profile of so many slices, or the smallest with enough memory and cores; `None`: there is none."""
    if request.slices:
        return next((profile for profile in profiles if profile.slices == request.slices), None)
    most = profiles[-1].memory_gb if profiles else 0
    memory_gb = _in_gb(request.memory_mib, most)
    enough = (one for one in profiles if one.memory_gb >= memory_gb and one.cores >= request.cores)
    return next(enough, None)


def _in_gb(memory: int, most_gb: int) -> int:
    """Memory is asked for in GB or in MiB: what is far more than any profile has is meant in MiB."""
    return -(-memory // GB_MIB) if memory > 2 * most_gb else memory


def profile_of(memory_mib: int, cores: int, profiles: Iterable[Profile]) -> Profile | None:
    """The profile by which a share was cut."""
    return next((one for one in profiles if (one.memory_mib, one.cores) == (memory_mib, cores)), None)
