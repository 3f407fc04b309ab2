"""Cards out of what drivers and tools said: a stand-in for NVML, a recorded /sys, a recorded table."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from muster.agent.cards import NoInventory, Recorded
from muster.agent.inventories.amd import AmdInventory
from muster.agent.inventories.ascend import AscendInventory
from muster.agent.inventories.nvidia import NvidiaInventory
from muster.agent.settings import NodeSettings
from muster.model.device import Placement

GIB = 1 << 30


class Nvml:
    """NVML with two cards that are linked; `sick` do not answer, and `old` functions are not there."""

    class NVMLError(Exception):
        pass

    def __init__(self, sick=(), old=(), mig=False, count=2):
        self.sick, self.mig, self.count = sick, mig, count
        self.is_open = 0
        for name in old:
            setattr(self, name, self._missing)

    def _missing(self, *_):
        raise AttributeError

    def nvmlInit(self):
        self.is_open += 1

    def nvmlShutdown(self):
        self.is_open -= 1

    def nvmlDeviceGetCount(self):
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}".encode()

    def nvmlDeviceGetName(self, handle):
        return b"NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, handle):
        if handle in self.sick:
            raise self.NVMLError("GPU is lost")
        return SimpleNamespace(total=141 * GIB, used=GIB)

    def nvmlDeviceGetRemappedRows(self, handle):
        return (0, 0, 0, 0)

    def nvmlDeviceGetMigMode(self, handle):
        return (int(self.mig), int(self.mig))

    def nvmlDeviceGetPowerUsage(self, handle):
        return 91_500

    def nvmlDeviceGetTemperature(self, handle, _sensor):
        return 38

    def nvmlDeviceGetNumaNodeId(self, handle):
        return handle

    def nvmlDeviceGetMinorNumber(self, handle):
        return handle

    def nvmlDeviceGetPciInfo(self, handle):
        return SimpleNamespace(busId=f"0000:{handle:02}:00.0".encode())

    def nvmlSystemGetDriverVersion(self):
        return b"580.1"

    def nvmlDeviceGetNvLinkState(self, handle, link):
        return int(link < 4)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle, link):
        return self.nvmlDeviceGetPciInfo(1 - handle)

    def nvmlDeviceGetTopologyCommonAncestor(self, one, other):
        return 20

    def nvmlDeviceGetGpuInstanceProfileInfo(self, handle, number):
        if number:
            raise self.NVMLError("not supported")
        return SimpleNamespace(id=19, sliceCount=1, memorySizeMB=16_384, instanceCount=7)

    def nvmlDeviceGetGpuInstancePossiblePlacements(self, handle, profile):
        return [SimpleNamespace(start=n, size=1) for n in range(7)]

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=100 + handle, usedGpuMemory=GIB), SimpleNamespace(pid=7, usedGpuMemory=None)]


def test_what_nvml_says():
    nvml = Nvml()
    first, second = NvidiaInventory(nvml).found()
    assert (first.uuid, first.model, first.memory_mib, first.used_mib) == ("GPU-0", "NVIDIA-H200", 144_384, 1_024)
    assert (second.numa, second.temperature_c, second.power_w, second.is_healthy) == (1, 38, 91.5, True)
    assert first.links == {"GPU-1": 400} and first.files[0] == "/dev/nvidia0"
    assert first.details == {"bus": "0000:00:00.0", "driver": "580.1"}
    assert nvml.is_open == 0


def test_a_card_that_does_not_answer_is_there_and_sick():
    first, second = NvidiaInventory(Nvml(sick={0})).found()
    assert (first.is_healthy, first.problem, second.is_healthy) == (False, "its driver does not answer", True)


def test_what_a_driver_is_too_old_to_say_is_left_out():
    old = ("nvmlDeviceGetNumaNodeId", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetMigMode", "nvmlDeviceGetNvLinkState")
    first, _ = NvidiaInventory(Nvml(old=old)).found()
    assert (first.numa, first.mode, first.links) == (0, "", {"GPU-1": 40})


def test_a_card_that_is_cut_tells_of_its_partitions():
    first, _ = NvidiaInventory(Nvml(mig=True)).found()
    [profile] = first.profiles
    assert (first.mode, profile.name, profile.memory_mib, profile.instances) == ("mig", "1g.16gb", 16_384, 7)
    assert profile.placements[6] == Placement(6, 1)


def test_who_uses_how_much():
    found = [(use.card, use.process, use.memory_mib) for use in NvidiaInventory(Nvml()).uses()]
    assert found == [("GPU-0", 100, 1_024), ("GPU-0", 7, 0), ("GPU-1", 101, 1_024), ("GPU-1", 7, 0)]


def test_a_driver_that_does_not_start_gives_no_cards():
    nvml = Nvml()

    def fails():
        raise Nvml.NVMLError("driver not loaded")

    nvml.nvmlInit = fails
    with pytest.raises(NoInventory, match="driver not loaded"):
        NvidiaInventory(nvml).found()


# Other vendors -------------------------------------------------------------------------------------------------------


def recorded_sys(root, **cards):
    for name, files in cards.items():
        folder = root / name / "device"
        folder.mkdir(parents=True)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text + "\n")


def test_amd_s_cards_out_of_sys(tmp_path):
    mi300 = {
        "vendor": "0x1002",
        "device": "0x74a1",
        "unique_id": "3c1e5ab0a6c8e1f2",
        "product_name": "AMD Instinct MI300X",
        "mem_info_vram_total": str(192 * GIB),
        "mem_info_vram_used": str(2 * GIB),
        "numa_node": "1",
        "uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c1:00.0",
        "hwmon/hwmon4/temp1_input": "41000",
        "hwmon/hwmon4/power1_average": "141000000",
        "drm/renderD128/dev": "226:128",
    }
    recorded_sys(tmp_path, card0={"vendor": "0x1a03"}, card1=mi300, card2={"vendor": "0x1002", "numa_node": "-1"})
    (tmp_path / "card1-DP-1").mkdir()
    whole, sick = AmdInventory(tmp_path).found()
    assert (whole.uuid, whole.model, whole.memory_mib) == ("3c1e5ab0a6c8e1f2", "AMD-Instinct-MI300X", 196_608)
    assert (whole.numa, whole.temperature_c, whole.power_w) == (1, 41, 141.0)
    assert whole.files == ("/dev/kfd", "/dev/dri/renderD128")
    assert (sick.is_healthy, sick.numa) == (False, 0)
    with pytest.raises(NoInventory):
        AmdInventory(tmp_path / "none").found()


NPU_SMI = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc1                 Version: 24.1.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 93.7        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3351 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | Alarm         | -           51                0    / 0             |
| 0                         | 0000:01:00.0  | 97          0    / 0          60000/ 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
"""


def test_ascend_s_chips_out_of_npu_smi():
    good, bad = AscendInventory(lambda: NPU_SMI).found()
    assert (good.uuid, good.vendor, good.memory_mib, good.used_mib) == (
        "Ascend910B3-0000:C1:00.0",
        "Ascend910B3",
        65_536,
        3_351,
    )
    assert (good.temperature_c, good.power_w, good.files[0]) == (36, 93.7, "/dev/davinci0")
    assert (bad.is_healthy, bad.problem, bad.power_w) == (False, "npu-smi says Alarm", None)


@pytest.mark.parametrize("text", ["", "|" * 5_000, "| 0 910B3 | OK |", NPU_SMI[:700], "\n" * 100_000])
def test_half_a_table_gives_no_chips(text):
    assert AscendInventory(lambda: text).found() == []


def test_cards_that_were_written_down_are_given_out_like_any():
    cards = NvidiaInventory(Nvml()).found()
    again = Recorded(tuple(cards))
    assert NodeSettings().given_out(again.found()) == NodeSettings().given_out(cards)
