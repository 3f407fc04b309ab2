"""The local node runs commands as processes: how they start, end, are stopped, and what they find."""

from __future__ import annotations

import base64
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.agent.local.machine import Machine, container, on_machine, shell, state

FOREVER = "exec sleep 1000"


def ended(pod: dict, name: str = "main", kind: str = "containerStatuses") -> dict:
    return state(pod, name, kind)["state"]["terminated"]


@pytest.mark.parametrize(
    ("script", "phase", "want"),
    [
        pytest.param("exit 0", "Succeeded", {"exitCode": 0, "reason": "Completed"}, id="well"),
        pytest.param("exit 7", "Failed", {"exitCode": 7, "reason": "Error"}, id="with a code"),
        pytest.param("kill -9 $$$$", "Failed", {"exitCode": 137, "signal": 9, "reason": "Error"}, id="by a signal"),
    ],
)
def test_how_a_command_ends_is_how_its_pod_ends(script, phase, want, tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell(f"echo out; echo err >&2; {script}"), restartPolicy="Never")
        pod = await machine.phase(key, phase)
        assert want.items() <= ended(pod).items(), ended(pod)
        assert sorted((await machine.log(key)).splitlines()) == ["err", "out"]
        ready = next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "PodCompleted" if phase == "Succeeded" else "PodFailed")

    on_machine(story, tmp_path)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param(["no-such-command"], 'exec: "no-such-command": executable file not found in $PATH', id="unknown"),
        pytest.param(["/no/such/file"], 'exec: "/no/such/file": no such file or directory', id="no file"),
        pytest.param(["/etc/passwd"], 'exec: "/etc/passwd": permission denied', id="no program"),
    ],
)
def test_a_command_that_is_not_there_fails_with_its_name(command, message, tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", container(*command), restartPolicy="Never")
        found = ended(await machine.phase(key, "Failed"))
        assert (found["exitCode"], found["reason"], found["message"]) == (128, "StartError", message)

    on_machine(story, tmp_path)


def test_an_image_without_a_command_cannot_be_run(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", {"name": "main", "image": "nginx"})
        pod = await machine.until(key, lambda pod: state(pod)["state"].get("waiting", {}).get("message"))
        waiting = state(pod)["state"]["waiting"]
        assert waiting["reason"] == "ErrImagePull"
        assert "give the container a command" in waiting["message"]
        await machine.delete(key)
        await machine.gone(key)

    on_machine(story, tmp_path)


def test_what_fails_is_begun_again_after_pauses(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell("echo run; exit 3"), restartPolicy="OnFailure")
        pod = await machine.until(key, lambda pod: state(pod)["restartCount"] >= 2 and "waiting" in state(pod)["state"])
        assert state(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert state(pod)["lastState"]["terminated"]["exitCode"] == 3
        assert pod["status"]["phase"] == "Running"
        assert await machine.log(key, is_previous=True) == "run\n"

    on_machine(story, tmp_path)


def told(machine: Machine) -> list[tuple[str, str]]:
    return [(one["reason"], one["message"].partition(" in pod")[0]) for one in machine.view.all("events")]


def test_people_are_told_what_happens(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell("exit 3"), container("none", name="b"), restartPolicy="OnFailure")
        wanted = {
            ("Started", "Started container main"),
            ("BackOff", "Back-off restarting failed container main"),
            ("Failed", 'Error: exec: "none": executable file not found in $PATH'),
        }
        await machine.until(key, lambda _pod: wanted <= set(told(machine)))

    on_machine(story, tmp_path)


def test_a_pod_that_is_deleted_is_asked_first(tmp_path):
    async def story(machine: Machine) -> None:
        said = tmp_path / "said"
        script = f"trap 'echo stopped > {said}; exit 0' TERM; echo up; while :; do sleep 0.05; done"
        key = await machine.create("p", shell(script))
        await machine.until(key, lambda pod: state(pod)["ready"])
        async for line in await machine.streams.open_log(machine.place(key), _followed()):
            assert line == b"up\n"
            break
        await machine.delete(key)
        await machine.gone(key)
        assert said.read_text() == "stopped\n"

    on_machine(story, tmp_path)


def _followed():
    from muster.model.pod_streams import LogOptions

    return LogOptions(is_followed=True)


def test_a_pod_that_does_not_listen_is_killed_with_all_its_processes(tmp_path):
    async def story(machine: Machine) -> None:
        script = "trap '' TERM; setsid sleep 1000 & echo $! $$$$; while :; do sleep 0.05; done"
        key = await machine.create("p", shell(script))
        await machine.until(key, lambda pod: state(pod)["ready"])
        async for line in await machine.streams.open_log(machine.place(key), _followed()):
            pids = [int(one) for one in line.split()]
            break
        await machine.delete(key, grace_s=1)
        await machine.gone(key)
        assert not [pid for pid in pids if is_alive(pid)]

    on_machine(story, tmp_path)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_init_containers_run_in_order_and_sidecars_beside(tmp_path):
    async def story(machine: Machine) -> None:
        order = tmp_path / "order"
        key = await machine.create(
            "p",
            shell(f"echo main >> {order}"),
            initContainers=[
                shell(f"echo first >> {order}", name="first"),
                shell(f"echo beside >> {order}; {FOREVER}", name="beside", restartPolicy="Always",
                      startupProbe={"exec": {"command": ["grep", "beside", str(order)]}, "periodSeconds": 1}),
                shell(f"echo second >> {order}", name="second"),
            ],
            restartPolicy="Never",
        )  # fmt: skip
        pod = await machine.phase(key, "Succeeded")
        assert order.read_text().split() == ["first", "beside", "second", "main"]
        assert ended(pod, "beside", "initContainerStatuses")["exitCode"] == 143

    on_machine(story, tmp_path)


def test_a_failing_init_container_fails_a_pod_that_never_restarts(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell("exit 0"), initContainers=[shell("exit 5", "i")], restartPolicy="Never")
        pod = await machine.phase(key, "Failed")
        assert ended(pod, "i", "initContainerStatuses")["exitCode"] == 5
        assert state(pod)["state"] == {"waiting": {"reason": "PodInitializing"}}

    on_machine(story, tmp_path)


def test_a_pod_ends_at_its_deadline(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell(FOREVER), activeDeadlineSeconds=1)
        pod = await machine.phase(key, "Failed")
        assert pod["status"]["reason"] == "DeadlineExceeded"
        assert ended(pod)["exitCode"] == 143

    on_machine(story, tmp_path)


def test_a_container_above_its_memory_is_killed(tmp_path):
    async def story(machine: Machine) -> None:
        script = "import time; held = bytearray(200 * 2**20); time.sleep(1000)"
        limits = {"limits": {"memory": "100Mi"}}
        key = await machine.create(
            "p", container(sys.executable, "-c", script, resources=limits), restartPolicy="Never"
        )
        found = ended(await machine.phase(key, "Failed"))
        assert (found["exitCode"], found["reason"]) == (137, "OOMKilled")

    on_machine(story, tmp_path)


def test_variables_come_from_everywhere(tmp_path):
    async def story(machine: Machine) -> None:
        await machine.client.create("configmaps", named("ConfigMap", "conf", data={"a": "1", "b": "2"}))
        secret = {"key": base64.b64encode(b"hidden").decode()}
        await machine.client.create("secrets", named("Secret", "sec", data=secret))
        env = [
            {"name": "PLAIN", "value": "x"},
            {"name": "BUILT", "value": "$(PLAIN)-$(C_a)-$$(PLAIN)-$(UNKNOWN)"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "key"}}},
            {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        ]
        script = 'echo "$BUILT|$SECRET|${MAYBE-unset}|$NAME|$LABEL|$CPU|$C_b|$0"'
        whole = [{"prefix": "C_", "configMapRef": {"name": "conf"}}]
        limits = {"limits": {"cpu": "1500m"}}
        main = container("sh", "-c", script, "$(NAME)!", env=env, envFrom=whole, resources=limits)
        key = await machine.create("p", main, restartPolicy="Never", metadata={"labels": {"app": "web"}})
        await machine.phase(key, "Succeeded")
        assert await machine.log(key) == "x-1-$(PLAIN)-$(UNKNOWN)|hidden|unset|p|web|1500|2|p!\n"

    on_machine(story, tmp_path)


def named(kind: str, name: str, **more: object) -> dict:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **more}


def test_a_missing_config_map_is_waited_for(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create(
            "p", shell("echo $a", envFrom=[{"configMapRef": {"name": "late"}}]), restartPolicy="Never"
        )
        pod = await machine.until(key, lambda pod: state(pod)["state"].get("waiting", {}).get("message"))
        want = {"reason": "CreateContainerConfigError", "message": 'configmap "late" not found'}
        assert state(pod)["state"]["waiting"] == want
        await machine.client.create("configmaps", named("ConfigMap", "late", data={"a": "1"}))
        await machine.phase(key, "Succeeded")
        assert await machine.log(key) == "1\n"

    on_machine(story, tmp_path)


def test_volumes_are_where_the_command_looks_for_them(tmp_path):
    async def story(machine: Machine) -> None:
        await machine.client.create("configmaps", named("ConfigMap", "conf", data={"a": "1", "b": "2"}))
        secret = {"key": base64.b64encode(b"hidden").decode()}
        await machine.client.create("secrets", named("Secret", "sec", data=secret))
        (tmp_path / "host").mkdir()
        (tmp_path / "host" / "file").write_text("from the machine")
        volumes = [
            {"name": "conf", "configMap": {"name": "conf", "items": [{"key": "b", "path": "deep/er"}]}},
            {"name": "sec", "secret": {"secretName": "sec"}},
            {"name": "down", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {
                "name": "all",
                "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "conf"}}]},
            },
            {"name": "host", "hostPath": {"path": str(tmp_path / "host")}},
            {"name": "shared", "emptyDir": {}},
        ]
        mounts = [{"name": one["name"], "mountPath": f"/mnt/{one['name']}"} for one in volumes]
        files = "/mnt/conf/deep/er /mnt/sec/key /mnt/down/name /mnt/all/token /mnt/all/a /mnt/host/file /mnt/shared/x"
        writes = shell("echo -n shared > /mnt/shared/x", name="w", volumeMounts=mounts)
        reads = shell(f"for one in {files}; do cat $one; echo; done", volumeMounts=mounts)
        key = await machine.create(
            "p", reads, initContainers=[writes], volumes=volumes, restartPolicy="Never", serviceAccountName="default"
        )
        await machine.phase(key, "Succeeded")
        want = ["2", "hidden", "p", "the token", "1", "from the machine", "shared"]
        assert (await machine.log(key)).splitlines() == want

    on_machine(story, tmp_path)


def test_files_follow_their_config_map(tmp_path):
    async def story(machine: Machine) -> None:
        made = await machine.client.create("configmaps", named("ConfigMap", "conf", data={"a": "old"}))
        script = "until grep -q new /conf/a; do sleep 0.05; done; cat /conf/a"
        main = shell(script, volumeMounts=[{"name": "conf", "mountPath": "/conf"}])
        key = await machine.create(
            "p", main, volumes=[{"name": "conf", "configMap": {"name": "conf"}}], restartPolicy="Never"
        )
        await machine.phase(key, "Running")
        from muster.store.records import Key

        await machine.client.update(Key("configmaps", "default", "conf"), {**made, "data": {"a": "new"}})
        await machine.phase(key, "Succeeded")
        assert await machine.log(key) == "new"

    on_machine(story, tmp_path)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_port_in_use_is_the_containers_own_problem(tmp_path):
    async def story(machine: Machine) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            key = await machine.create("p", container(sys.executable, "-c", SERVER, str(port)), restartPolicy="Never")
            await machine.phase(key, "Failed")
            assert "Address already in use" in await machine.log(key)

    on_machine(story, tmp_path)


SERVER = """
import sys, http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/good" else 500)
        self.end_headers()
http.server.HTTPServer.allow_reuse_address = False
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_ports_can_be_reached_and_asked(tmp_path):
    async def story(machine: Machine) -> None:
        port = free_port()
        good = {"httpGet": {"path": "/good", "port": "web"}, "periodSeconds": 1}
        main = container(
            sys.executable, "-c", SERVER, str(port), ports=[{"name": "web", "containerPort": port}],
            readinessProbe=good, startupProbe={"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 50},
        )  # fmt: skip
        key = await machine.create("p", main)
        await machine.until(key, lambda pod: state(pod)["ready"])
        connection = await machine.streams.connect(machine.place(key), port)
        await connection.write(b"GET /good HTTP/1.0\r\n\r\n")
        assert (await connection.read()).startswith(b"HTTP/1.0 200")
        await connection.close()

    on_machine(story, tmp_path)


def test_a_container_whose_liveness_is_gone_is_begun_again(tmp_path):
    async def story(machine: Machine) -> None:
        probe = {"exec": {"command": ["sh", "-c", "sleep 1000"]}, "periodSeconds": 1, "failureThreshold": 1}
        key = await machine.create("p", shell(FOREVER, livenessProbe={**probe, "timeoutSeconds": 1}))
        pod = await machine.until(key, lambda pod: state(pod)["restartCount"] >= 1)
        assert state(pod)["lastState"]["terminated"]["exitCode"] == 143

    on_machine(story, tmp_path)


def test_commands_run_where_the_container_runs(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create(
            "p", shell("echo content > file; echo up; exec sleep 1000", env=[{"name": "A", "value": "1"}])
        )
        await machine.until(key, lambda pod: state(pod)["ready"])
        async for _ in await machine.streams.open_log(machine.place(key), _followed()):
            break
        assert await machine.command(key, "sh", "-c", "cat file; echo $A >&2; exit 4") == (4, "content\n", "1\n")
        assert await machine.command(key, "cat", given=b"given") == (0, "given", "")
        code, out, _ = await machine.command(key, "sh", "-c", "test -t 1 && echo terminal", has_terminal=True)
        assert (code, out.strip()) == (0, "terminal")

    on_machine(story, tmp_path)


def test_a_hook_runs_before_the_signal(tmp_path):
    async def story(machine: Machine) -> None:
        said = tmp_path / "said"
        hook = {"preStop": {"exec": {"command": ["sh", "-c", f"echo hook >> {said}"]}}}
        script = f"trap 'echo signal >> {said}; exit 0' TERM; while :; do sleep 0.05; done"
        key = await machine.create("p", shell(script, lifecycle=hook))
        await machine.until(key, lambda pod: state(pod)["ready"])
        await machine.delete(key)
        await machine.gone(key)
        assert said.read_text().split()[0] == "hook"

    on_machine(story, tmp_path)


def test_a_keeper_that_is_killed_takes_its_container_along(tmp_path):
    async def story(machine: Machine) -> None:
        key = await machine.create("p", shell(FOREVER), restartPolicy="Never")
        await machine.until(key, lambda pod: state(pod)["ready"])
        pid = machine.node.run_of(machine.place(key)).keeper_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert ended(await machine.phase(key, "Failed"))["reason"] == "ContainerStatusUnknown"

    on_machine(story, tmp_path)
