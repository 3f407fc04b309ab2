"""What goes wrong with pods is said in the words that users of Kubernetes know."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.local.machine import Machine, on_machine, shell, state
from tests.agent.local.test_node import FOREVER, named

NEVER = {"exec": {"command": ["sh", "-c", "echo not yet; exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}


def from_key(kind: str, name: str, key: str) -> dict[str, Any]:
    return {"env": [{"name": "X", "valueFrom": {kind: {"name": name, "key": key}}}]}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        pytest.param(from_key("secretKeyRef", "none", "k"), 'secret "none" not found', id="no secret"),
        pytest.param(from_key("configMapKeyRef", "none", "k"), 'configmap "none" not found', id="no config map"),
        pytest.param(
            from_key("configMapKeyRef", "conf", "k"), "couldn't find key k in ConfigMap default/conf", id="no key"
        ),
        pytest.param({"envFrom": [{"secretRef": {"name": "none"}}]}, 'secret "none" not found', id="no whole secret"),
    ],
)
def test_references_to_what_is_not_there_are_waited_for(more, message, tmp_path):
    async def story(machine: Machine) -> None:
        await machine.client.create("configmaps", named("ConfigMap", "conf", data={"other": "1"}))
        key = await machine.create("p", shell("exit 0", **more))
        pod = await machine.until(key, lambda pod: state(pod)["state"].get("waiting", {}).get("message"))
        want = {"reason": "CreateContainerConfigError", "message": message}
        assert (state(pod)["state"]["waiting"], pod["status"]["phase"]) == (want, "Pending")
        await machine.until(key, lambda _pod: ("Failed", f"Error: {message}") in told(machine))

    on_machine(story, tmp_path)


def told(machine: Machine) -> list[tuple[str, str]]:
    return [(one["reason"], one["message"]) for one in machine.view.all("events")]


def test_a_pod_that_never_becomes_ready_runs_and_says_so(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell(FOREVER, readinessProbe=NEVER))
        want = ("Unhealthy", "Readiness probe failed: not yet")
        pod = await machine.until(key, lambda _pod: want in told(machine))
        assert pod["status"]["phase"] == "Running" and state(pod)["restartCount"] == 0
        ready = next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "ContainersNotReady")
        assert ready["message"] == "containers with unready status: [main]"

    on_machine(story, tmp_path)


@pytest.mark.parametrize("probe", ["startup", "liveness"])
def test_a_container_that_never_answers_is_begun_again(probe, tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell(FOREVER, **{f"{probe}Probe": NEVER}))
        await machine.until(key, lambda pod: state(pod)["restartCount"] >= 1)
        wanted = {
            ("Unhealthy", f"{probe.capitalize()} probe failed: not yet"),
            ("Killing", f"Container main failed {probe} probe, will be restarted"),
        }
        await machine.until(key, lambda _pod: wanted <= set(told(machine)))

    on_machine(story, tmp_path)


def test_a_pod_that_ignores_being_asked_is_killed_after_its_grace(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell("trap '' TERM; echo up; while :; do sleep 0.05; done"))
        await machine.until(key, lambda pod: state(pod)["ready"])
        from muster.model.pod_streams import LogOptions

        async for _ in await machine.streams.open_log(machine.place(key), LogOptions(is_followed=True)):
            break
        await machine.delete(key, grace_s=1)
        pod = await machine.until(key, lambda pod: "terminated" in state(pod)["state"])
        ended = state(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["signal"], ended["reason"]) == (137, 9, "Error")
        await machine.gone(key)

    on_machine(story, tmp_path)


def test_a_command_that_fails_again_and_again_backs_off(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell("exit 3"))
        pod = await machine.until(key, lambda pod: state(pod)["state"].get("waiting", {}).get("message"))
        waiting = state(pod)["state"]["waiting"]
        uid = pod["metadata"]["uid"]
        assert waiting["reason"] == "CrashLoopBackOff"
        assert waiting["message"].endswith(f"restarting failed container=main pod=p_default({uid})")

    on_machine(story, tmp_path)
