"""Cards of the machine: a library that answers like the driver's, what the node registers, and what containers see."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from muster.agent.local.cards import card_variables
from muster.agent.local.node import local_node
from muster.agent.local.nvml import found_cards
from muster.model.fields import Fields
from muster.vendors.nvidia import ALLOCATED, devices_of
from tests.agent.local.machine import Machine, on_machine, shell

# Two cards of 16 GiB, as far as the library's callers can tell.
DRIVER = """
#include <string.h>
#include <stdio.h>
struct memory { unsigned long long total, free, used; };
int nvmlInit_v2(void) { return RESULT; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) { memory->total = 16ULL << 30; return 0; }
int nvmlDeviceGetName(void *handle, char *name, unsigned size) { strncpy(name, "NVIDIA T4", size); return 0; }
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size)
{ snprintf(uuid, size, "GPU-%ld", (long)handle); return 0; }
"""


def library(folder: Path, result: int = 0) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (folder / "nvml.c").write_text(DRIVER)
    made = folder / "libnvidia-ml.so.1"
    source = ["-shared", "-fPIC", f"-DRESULT={result}", "-o", str(made), str(folder / "nvml.c")]
    subprocess.run([compiler, *source], check=True)
    return str(made)


def test_cards_are_found_and_registered(tmp_path: Path):
    cards = found_cards(library(tmp_path))
    assert [(one.uuid, one.model, one.memory_mib) for one in cards] == [
        ("GPU-1", "NVIDIA-T4", 16384),
        ("GPU-2", "NVIDIA-T4", 16384),
    ]
    node = local_node("local", cards)
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "20"
    assert devices_of(Fields.of(node)) == cards


def test_without_a_driver_there_are_no_cards(tmp_path: Path):
    assert found_cards(str(tmp_path / "none.so")) == ()
    assert found_cards(library(tmp_path, result=9)) == ()
    assert "nvidia.com/gpu" not in local_node("local")["status"]["capacity"]


def pod(allocated: str) -> dict:
    annotations = {ALLOCATED: allocated} if allocated else {}
    containers = [{"name": "main"}, {"name": "beside"}]
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("allocated", "want"),
    [
        pytest.param("", {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}, id="nothing"),
        pytest.param("what?", {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}, id="nonsense"),
        pytest.param(
            "GPU-1,NVIDIA,4096,30:GPU-2,NVIDIA,2048,30:;;",
            {
                "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2",
                "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2",
                "CUDA_DEVICE_MEMORY_LIMIT_0": "4096m",
                "CUDA_DEVICE_MEMORY_LIMIT_1": "2048m",
                "CUDA_DEVICE_SM_LIMIT": "30",
            },
            id="slices of two",
        ),
    ],
)
def test_a_container_sees_what_it_was_given(allocated, want):
    assert card_variables(pod(allocated), "main") == want
    assert card_variables(pod(allocated), "beside")["CUDA_VISIBLE_DEVICES"] == ""


def test_a_container_on_a_machine_with_cards_finds_them_in_its_environment(tmp_path):
    async def story(machine: Machine) -> None:
        metadata = {"annotations": {ALLOCATED: "GPU-1,NVIDIA,4096,0:;"}}
        main = shell("echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES $CUDA_DEVICE_MEMORY_LIMIT_0")
        key = await machine.create("p", main, restartPolicy="Never", metadata=metadata)
        await machine.phase(key, "Succeeded")
        assert await machine.log(key) == "GPU-1 GPU-1 4096m\n"

    on_machine(story, tmp_path, has_cards=True)
