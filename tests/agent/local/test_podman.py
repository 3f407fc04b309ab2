"""Containers out of images by a real podman, where one is installed and may run containers: a story of its life.

The image is made here, of nothing but a static busybox, so that nothing is fetched from anywhere.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.agent.local.images import Runtime
from tests.agent.local.machine import Machine, on_machine, state

IMAGE = "localhost/muster-test:1"
PROGRAMS = ("sh", "sleep", "cat", "echo", "trap")
SOON_S = 60.0


def podman(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["podman", *words], capture_output=True, text=True, check=False, timeout=SOON_S)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    program, busybox = shutil.which("podman"), shutil.which("busybox")
    if program is None or busybox is None:
        pytest.skip("needs podman and a static busybox")
    folder = tmp_path_factory.mktemp("podman")
    # Who may not raise limits has to say that containers need not.
    limits = 'default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]'
    chosen = f'\n[engine]\nruntime = "{shutil.which("runc")}"\n' if shutil.which("runc") else ""
    (folder / "containers.conf").write_text(f"[containers]\n{limits}\n{chosen}")
    with tarfile.open(folder / "root.tar", "w") as root:
        root.add(busybox, "bin/busybox")
        for name in PROGRAMS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            root.addfile(link)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "CONTAINERS_CONF", str(folder / "containers.conf"))
        entry = ("--change", 'ENTRYPOINT ["/bin/echo", "the image itself:"]', "--change", "ENV PATH=/bin")
        made = podman("import", *entry, str(folder / "root.tar"), IMAGE)
        tried = podman("run", "--rm", "--network", "host", IMAGE, "works") if made.returncode == 0 else made
        if tried.returncode:
            pytest.skip(f"podman may not run containers here: {tried.stderr.strip()[-200:]}")
        yield Runtime(program)
        podman("rmi", "--force", IMAGE)


def containers_of(uid: str) -> str:
    return podman("ps", "--all", "--filter", f"name=muster-{uid}", "--format", "{{.Names}}").stdout


def test_an_image_runs_what_it_is_made_for(runtime: Runtime, tmp_path: Path):
    async def story(machine: Machine) -> None:
        main = {"name": "main", "image": IMAGE, "args": ["$(WHO)"], "env": [{"name": "WHO", "value": "you"}]}
        key = await machine.create("p", main, restartPolicy="Never")
        await machine.phase(key, "Succeeded")
        assert await machine.log(key) == "the image itself: you\n"

    on_machine(story, tmp_path, find_runtime=lambda: runtime)


def test_a_container_is_entered_fails_as_it_does_and_leaves_nothing(runtime: Runtime, tmp_path: Path):
    async def story(machine: Machine) -> None:
        of_image = {"annotations": {"muster.dev/runtime": "image"}}
        waits = {"name": "main", "image": IMAGE, "command": ["sh", "-c", "echo begun; exec sleep 1000"]}
        key = await machine.create("p", waits, metadata=of_image, terminationGracePeriodSeconds=1)
        await machine.until(key, lambda pod: state(pod)["ready"])
        async with asyncio.timeout(SOON_S):
            while await machine.log(key) != "begun\n":  # podman runs a little before its container does
                await asyncio.sleep(0.05)
        uid = machine.place(key).uid
        assert containers_of(uid) == f"muster-{uid}-main\n"
        assert await machine.command(key, "sh", "-c", "echo in; exit 4") == (4, "in\n", "")
        await machine.delete(key)
        await machine.gone(key)
        assert containers_of(uid) == ""
        fails = {"name": "main", "image": IMAGE, "command": ["sh", "-c", "exit 7"]}
        key = await machine.create("q", fails, metadata=of_image, restartPolicy="Never")
        pod = await machine.phase(key, "Failed")
        assert state(pod)["state"]["terminated"]["exitCode"] == 7

    on_machine(story, tmp_path, find_runtime=lambda: runtime)
