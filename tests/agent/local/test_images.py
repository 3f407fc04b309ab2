"""Containers out of images: what a runtime is told, and a program that acts like one to see the whole way."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.agent.local.cgroups import Limits
from muster.agent.local.images import ImageRun, Runtime, found_runtime, needs_image
from tests.agent.local.machine import Machine, on_machine, state

# Runs the command of `run` as a process, whatever the image; images are there when they were pulled.
FAKE = """#!/bin/sh
here=$(dirname "$0")
echo "$@" >> $here/asked
case "$1" in
info) exit 0 ;;
image) test -e $here/image-$3 ;;
pull) test "$2" != missing || { echo "manifest for $2 is unknown" >&2; exit 1; }; touch $here/image-$2 ;;
rm) exit 0 ;;
exec)
    shift
    while test "$1" = --interactive -o "$1" = --tty; do shift; done
    shift
    exec "$@" ;;
run)
    while test "$1" != --entrypoint; do
        if test "$1" = --env; then export "$2"; fi
        shift
    done
    command="$2"
    shift 3
    exec "$command" "$@" ;;
esac
"""


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "podman"
    program.write_text(FAKE)
    program.chmod(0o755)
    return Runtime(str(program))


def asked(runtime: Runtime) -> str:
    return (Path(runtime.program).parent / "asked").read_text()


CONTAINER = {
    "name": "main",
    "image": "app:1",
    "args": ["--to", "$(WHERE)"],
    "stdin": True,
    "workingDir": "/work",
    "securityContext": {"runAsUser": 7},
    "volumeMounts": [{"name": "v", "mountPath": "/data", "readOnly": True}],
}


@pytest.mark.parametrize(
    ("program", "cards"),
    [
        pytest.param("podman", "--device nvidia.com/gpu=GPU-1 --device nvidia.com/gpu=GPU-2", id="podman"),
        pytest.param("docker", '--gpus "device=GPU-1,GPU-2"', id="docker"),
    ],
)
def test_what_a_runtime_is_told(program: str, cards: str, tmp_path: Path):
    run = ImageRun(
        name="muster-u-main",
        hostname="p",
        container=CONTAINER,
        variables={"WHERE": "home"},
        mounts={"/data": tmp_path},
        limits=Limits(memory_bytes=1024, cpu_millis=1500),
        cards=("GPU-1", "GPU-2"),
    )
    want = (
        f"{program} run --rm --name muster-u-main --hostname p --network host --pull never --interactive "
        f"--env WHERE=home --volume {tmp_path.resolve()}:/data:ro --workdir /work --memory 1024 --cpus 1.5 --user 7 "
        f"{cards} app:1 --to home"
    )
    assert " ".join(Runtime(program).run(run)) == want


def test_a_command_takes_the_place_of_the_images_own():
    container = {"name": "main", "image": "app", "command": ["sh", "-c"], "args": ["echo"]}
    run = ImageRun(name="n", hostname="p", container=container, variables={}, mounts={})
    assert Runtime("podman").run(run)[-5:] == ("--entrypoint", "sh", "app", "-c", "echo")


def test_images_are_needed_where_there_is_no_command_or_somebody_wants_them():
    pod = {"metadata": {"annotations": {"muster.dev/runtime": "image"}}}
    assert needs_image({"metadata": {}}, {"image": "a"})
    assert not needs_image({"metadata": {}}, {"image": "a", "command": ["sh"]})
    assert needs_image(pod, {"image": "a", "command": ["sh"]})


def test_a_runtime_that_does_not_work_is_none(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found_runtime() is None
    for program, code in (("podman", 1), ("docker", 0)):
        (tmp_path / program).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / program).chmod(0o755)
    assert found_runtime() == Runtime(str(tmp_path / "docker"))


OF_IMAGE = {"annotations": {"muster.dev/runtime": "image"}}


def of_image(script: str, image: str = "app", **more: object) -> dict:
    return {"name": "main", "image": image, "command": ["sh"], "args": ["-c", script], **more}


def test_an_image_is_fetched_and_its_container_runs_is_entered_and_taken_away(runtime, tmp_path):
    async def story(machine: Machine) -> None:
        main = of_image("echo hello $WHO; exec sleep 1000", env=[{"name": "WHO", "value": "you"}])
        key = await machine.create("p", main, metadata=OF_IMAGE)
        await machine.until(key, lambda pod: state(pod)["ready"])
        assert await machine.command(key, "sh", "-c", "echo in; exit 4") == (4, "in\n", "")
        uid = machine.place(key).uid
        await machine.delete(key)
        await machine.gone(key)
        said = asked(runtime)
        assert "pull app\n" in said
        assert f"exec muster-{uid}-main sh -c" in said
        assert f"rm --force muster-{uid}-main\n" in said

    on_machine(story, tmp_path, find_runtime=lambda: runtime)


def test_how_a_container_of_an_image_ends_is_how_its_pod_ends(runtime, tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", of_image("echo out; exit 3"), restartPolicy="Never", metadata=OF_IMAGE)
        pod = await machine.phase(key, "Failed")
        assert state(pod)["state"]["terminated"]["exitCode"] == 3
        assert await machine.log(key) == "out\n"

    on_machine(story, tmp_path, find_runtime=lambda: runtime)


@pytest.mark.parametrize(
    ("container", "reason", "message"),
    [
        pytest.param({"image": "missing"}, "ErrImagePull", "manifest for missing is unknown", id="unknown"),
        pytest.param(
            {"image": "app", "imagePullPolicy": "Never"},
            "ErrImageNeverPull",
            'Container image "app" is not present with pull policy of Never',
            id="never fetched",
        ),
    ],
)
def test_an_image_that_cannot_be_had_is_waited_for(container, reason, message, runtime, tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", {"name": "main", **container})
        pod = await machine.until(key, lambda pod: state(pod)["state"].get("waiting", {}).get("message"))
        waiting = state(pod)["state"]["waiting"]
        assert waiting["reason"] == reason
        assert message in waiting["message"]
        assert pod["status"]["phase"] == "Pending"
        await machine.delete(key)
        await machine.gone(key)

    on_machine(story, tmp_path, find_runtime=lambda: runtime)


def test_an_image_that_is_there_is_not_fetched_unless_it_is_the_latest(runtime, tmp_path):
    (Path(runtime.program).parent / "image-app:1").touch()

    async def story(machine: Machine) -> None:
        for name, image in (("p", "app:1"), ("q", "app")):
            key = await machine.create(name, of_image("exit 0", image), restartPolicy="Never", metadata=OF_IMAGE)
            await machine.phase(key, "Succeeded")
        assert [line for line in asked(runtime).splitlines() if line.startswith("pull")] == ["pull app"]

    on_machine(story, tmp_path, find_runtime=lambda: runtime)
