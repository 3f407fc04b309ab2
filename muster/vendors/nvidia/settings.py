"""What an administrator can set about NVIDIA's cards, with HAMi's defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace

from muster.engine.contracts import DeviceResources
from muster.model.device import AMOUNT_MAX, WHOLE_CORES, Device
from muster.model.fields import Fields

NAME = "NVIDIA"
DEFAULT_CORE_POLICY = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaSettings:
    """How containers ask for NVIDIA's cards, and what they get where they do not say."""

    count_resource: str = "nvidia.com/gpu"
    memory_resource: str = "nvidia.com/gpumem"
    memory_percent_resource: str = "nvidia.com/gpumem-percentage"
    cores_resource: str = "nvidia.com/gpucores"
    priority_resource: str = "nvidia.com/priority"
    memory_factor: int = 1  # one unit of the memory resource is so many MiB; 0 counts as 1
    default_memory_mib: int = 0  # 0: the whole card
    default_cores: int = 0  # per cent; 0: whatever is left
    default_count: int = 1  # cards of a container that names memory or cores only; 0: none
    core_policy: str = DEFAULT_CORE_POLICY
    hides_cards: bool = False  # containers that ask for no card are shown none
    runtime_class: str = ""
    split_count: int = 10  # how many containers may share a card
    memory_scaling: float = 1.0  # above 1: more memory is given out than there is
    core_scaling: float = 1.0

    @property
    def resources(self) -> DeviceResources:
        return DeviceResources(
            count=self.count_resource,
            memory=self.memory_resource,
            memory_percent=self.memory_percent_resource,
            cores=self.cores_resource,
            priority=self.priority_resource,
            memory_factor=max(1, self.memory_factor),
        )


DEFAULTS = NvidiaSettings()
SCALING_MOST = 1000.0


def read_settings(section: Fields) -> NvidiaSettings:
    """The `nvidia` section of HAMi's device configuration; what it does not say keeps its default."""
    return NvidiaSettings(
        count_resource=section.text("resourceCountName", DEFAULTS.count_resource),
        memory_resource=section.text("resourceMemoryName", DEFAULTS.memory_resource),
        memory_percent_resource=section.text("resourceMemoryPercentageName", DEFAULTS.memory_percent_resource),
        cores_resource=section.text("resourceCoreName", DEFAULTS.cores_resource),
        priority_resource=section.text("resourcePriorityName", DEFAULTS.priority_resource),
        memory_factor=section.integer("memoryFactor", DEFAULTS.memory_factor, least=0),
        default_memory_mib=section.integer("defaultMemory", DEFAULTS.default_memory_mib, least=0),
        default_cores=section.integer("defaultCores", DEFAULTS.default_cores, least=0, most=WHOLE_CORES),
        default_count=section.integer("defaultGPUNum", DEFAULTS.default_count, least=0),
        core_policy=section.text("gpuCorePolicy", DEFAULTS.core_policy),
        hides_cards=section.flag("overwriteEnv", DEFAULTS.hides_cards),
        runtime_class=section.text("runtimeClassName", DEFAULTS.runtime_class),
        split_count=section.integer("deviceSplitCount", DEFAULTS.split_count, least=1),
        memory_scaling=_scaling(section, "deviceMemoryScaling"),
        core_scaling=_scaling(section, "deviceCoreScaling"),
    )


def _scaling(section: Fields, name: str) -> float:
    factor = section.number(name, 1.0)
    if not 0 < factor <= SCALING_MOST:
        raise section.error(name, f"is {factor}", f"give a number above 0, at most {SCALING_MOST:g}")
    return factor


def registered(device: Device, settings: NvidiaSettings) -> Device:
    """A card as its node registers it: what is given out of it, which may be more than there is.

    A partitioned card is cut by its driver, so nothing of it can be given out twice.
    """
    if device.is_partitioned:
        return replace(device, slots=settings.split_count, cores=WHOLE_CORES)
    return replace(
        device,
        slots=settings.split_count,
        memory_mib=min(AMOUNT_MAX, int(device.memory_mib * settings.memory_scaling)),
        cores=int(WHOLE_CORES * settings.core_scaling),
    )
