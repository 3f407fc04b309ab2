"""Builds the limiter, the stand-ins for the driver and the client program, and runs it. Used by the tests here."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT

HERE = Path(__file__).resolve().parent
SOURCES = ROOT / "limiter"
MIB = 1 << 20
PATIENCE_S = 120  # a limit for what hangs, far above what a loaded machine needs


def compiler() -> str:
    """A C compiler, or the test is skipped."""
    found = shutil.which("cc") or shutil.which("gcc")
    if not found or not shutil.which("make"):
        pytest.skip("needs a C compiler and make to build the limiter", allow_module_level=True)
    return found


def call(*words: object) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stderr}"


@dataclass(frozen=True)
class Built:
    """Where everything lies."""

    folder: Path

    @property
    def library(self) -> Path:
        return self.folder / "libmuster-limiter.so"

    @property
    def client(self) -> Path:
        return self.folder / "client"

    def with_sanitizer(self) -> Path | None:
        """The client and the limiter as one program under ThreadSanitizer; nothing where the compiler has none.

        The sanitizer needs dlsym for itself before anything of ours may run, so that ours has another name here.
        """
        program = self.folder / "client-tsan"
        if program.exists():
            return program
        flags = ["-std=gnu11", "-g", "-O1", "-fsanitize=thread", "-Ddlsym=limiter_dlsym", "-w"]
        words = [compiler(), *flags, "-o", program, HERE / "client.c", *sorted(SOURCES.glob("*.c")), "-ldl", "-pthread"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        return program if done.returncode == 0 else None


def build(folder: Path) -> Built:
    """Everything that the tests run, in this folder."""
    cc = compiler()
    call("make", "-s", "-C", SOURCES, f"BUILD={folder}")
    versions = folder / "fake.map"
    versions.write_text("FAKE { *; };\n")
    shared = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wl,-Bsymbolic"]
    named = ["-Wl,-soname,libcuda.so.1", f"-Wl,--version-script={versions}"]
    call(cc, *shared, *named, "-o", folder / "libcuda.so.1", HERE / "fake_cuda.c", "-ldl", "-pthread")
    call(cc, *shared, "-Wl,-soname,libnvidia-ml.so.1", "-o", folder / "libnvidia-ml.so.1", HERE / "fake_nvml.c")
    call(cc, "-std=gnu11", "-O1", "-Wall", "-Werror", "-o", folder / "client", HERE / "client.c", "-ldl", "-pthread")
    return Built(folder)


@dataclass(frozen=True)
class Card:
    """A card that the stand-ins count on, and tenants of it."""

    built: Built
    folder: Path
    preloads: bool = True

    def environment(self, tenant: str = "tenant", **settings: object) -> dict[str, str]:
        """What the agent would give a container: the library, the region, and these settings."""
        own = {
            "FAKE_CARD": self.folder / "card",
            "LD_LIBRARY_PATH": self.built.folder,
            "MUSTER_REGION": self.region(tenant),
        }
        if self.preloads:
            own["LD_PRELOAD"] = self.built.library
        cleared = {name: text for name, text in os.environ.items() if not name.startswith(("CUDA_", "MUSTER_"))}
        return cleared | {name: str(value) for name, value in (own | settings).items()}

    def region(self, tenant: str = "tenant") -> Path:
        return self.folder / f"{tenant}.region"

    def run(self, *words: object, tenant: str = "tenant", **settings: object) -> dict[str, str]:
        """What the client printed."""
        process = self.start(*words, tenant=tenant, **settings)
        try:
            output, problems = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
        assert process.returncode == 0, f"{words}: {process.returncode}\n{problems}"
        return dict(line.split("=", 1) for line in output.splitlines())

    def start(self, *words: object, tenant: str = "tenant", **settings: object) -> subprocess.Popen[str]:
        command = [str(self.built.client), *map(str, words)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=self.environment(tenant, **settings), text=True, **pipes)

    def count(self, name: str) -> int:
        """A counter of the stand-in: used, most_used, busy_until, launches, events, captured_events."""
        names = ("used", "most_used", "busy_until", "launches", "events", "captured_events")
        return struct.unpack_from("<6Q", (self.folder / "card").read_bytes())[names.index(name)]
