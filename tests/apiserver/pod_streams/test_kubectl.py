"""Real kubectls with the processes of a real node: logs, exec, attach, cp and port-forward."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from random import Random

import pytest

from tests.apiserver.pod_streams.cluster import in_cluster
from tests.apiserver.pod_streams.test_forwarding import echo
from tests.kubernetes.build import NoControlPlane, older_kubectl, program

MUCH = Random(0).randbytes(50_000_000)
ECHO = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('got', line.strip(), flush=True)"
SOON_S = 30.0


@pytest.fixture(params=["1.36", "1.32"])
def kubectl(request):
    """How to run a kubectl of some version."""
    if not os.environ.get("MUSTER_KUBERNETES"):
        pytest.skip("needs kubectl: make test-kubernetes, or set MUSTER_KUBERNETES=1")
    try:
        return [str(program()), "kubectl"] if request.param == "1.36" else [str(older_kubectl())]
    except NoControlPlane as missing:
        pytest.skip(str(missing))


def test_logs(kubectl, tmp_path):
    async def test(cluster):
        for name in ("one", "two"):
            cluster.add_pod(name, "a", "b", labels={"app": "x"})
            for container in ("a", "b"):
                script = f"print('first of {container}')\nprint('last of {container}')"
                made = await cluster.node.start(name, container, script)
                await asyncio.wait_for(made.task, SOON_S)

        async def said(*arguments):
            code, out, err = await cluster.kubectl(kubectl, "logs", *arguments)
            assert code == 0, err
            return sorted(out.decode().splitlines())

        assert await said("one", "-c", "b") == ["first of b", "last of b"]
        assert await said("one", "--all-containers", "--tail=1") == ["last of a", "last of b"]
        assert await said("one", "-c", "a", "--since=1h", "--limit-bytes=5") == ["first"]
        assert await said("-l", "app=x", "-c", "a", "--tail=1", "--prefix") == [
            "[pod/one/a] last of a",
            "[pod/two/a] last of a",
        ]
        assert re.fullmatch(r"\d{4}-\S+Z first of a", (await said("one", "-c", "a", "--timestamps"))[0])
        code, _, err = await cluster.kubectl(kubectl, "logs", "one", "-c", "a", "--previous")
        assert (code, err) == (
            1,
            b'Error from server (BadRequest): previous terminated container "a" in pod "one" not found\n',
        )

    in_cluster(test, tmp_path)


def test_a_log_is_followed(kubectl, tmp_path):
    async def test(cluster):
        cluster.add_pod("p")
        container = await cluster.node.start("p", "main", ECHO)
        process = await cluster.start(kubectl, "logs", "-f", "p")
        async with asyncio.timeout(SOON_S):
            assert await process.stdout.readline() == b"ready\n"
            await container.process.write(b"more\n")
            assert await process.stdout.readline() == b"got more\n"
            await container.process.end_input()
            assert await process.communicate() == (b"", b"")
        assert process.returncode == 0

    in_cluster(test, tmp_path)


def test_commands(kubectl, tmp_path):
    async def test(cluster):
        cluster.add_pod("p")
        await cluster.node.start("p", "main", ECHO)
        shell = ("exec", "p", "--", "sh", "-c")
        answer = await cluster.kubectl(kubectl, *shell, "echo out; echo err >&2; exit 7")
        assert answer == (7, b"out\n", b"err\ncommand terminated with exit code 7\n")
        answer = await cluster.kubectl(kubectl, "exec", "-i", "p", "--", "tr", "a-z", "A-Z", given=b"hello")
        assert answer == (0, b"HELLO", b"")
        code, out, _ = await cluster.kubectl(kubectl, "exec", "-i", "p", "--", "cat", given=MUCH)
        assert code == 0 and out == MUCH
        code, _, err = await cluster.kubectl(kubectl, "exec", "p", "--", "no-such-program")
        assert code == 1 and b'exec: "no-such-program"' in err
        cluster.set_status("p", {"phase": "Succeeded"})
        _, _, err = await cluster.kubectl(kubectl, *shell, "true")
        assert err == b"error: cannot exec into a container in a completed pod; current phase is Succeeded\n"

    in_cluster(test, tmp_path)


def test_a_terminal(kubectl, tmp_path):
    """kubectl itself runs on a terminal, whose size arrives."""

    async def test(cluster):
        cluster.add_pod("p")
        await cluster.node.start("p", "main", ECHO)
        script = f"stty cols 91 rows 17; exec {' '.join(kubectl)} --kubeconfig {tmp_path}/kubeconfig exec -it p -- sh"
        terminal = await cluster.node.start("me", "terminal", f"import os\nos.execvp('sh', ['sh', '-c', {script!r}])",
                                            has_terminal=True)  # fmt: skip
        for line, wanted in ((b"stty size; test -t 1 && echo on a terminal\n", b"17 91\r\n"), (b"exit 3\n", b"")):
            await terminal.process.write(line)
            async with asyncio.timeout(SOON_S):
                while wanted not in b"".join(piece for _, piece in terminal.lines):
                    await asyncio.sleep(0.05)
        assert await asyncio.wait_for(terminal.process.exit_code(), SOON_S) == 3
        assert b"on a terminal\r\n" in b"".join(piece for _, piece in terminal.lines)

    in_cluster(test, tmp_path)


def test_attaching(kubectl, tmp_path):
    async def test(cluster):
        cluster.add_pod("p")
        container = await cluster.node.start("p", "main", ECHO)
        async with asyncio.timeout(SOON_S):
            while not container.lines:  # its first line would come to whoever attaches before it
                await asyncio.sleep(0.01)
            process = await cluster.start(kubectl, "attach", "-i", "p", has_input=True)
            process.stdin.write(b"one\n")
            assert await process.stdout.readline() == b"got one\n"
            process.stdin.close()  # which ends the container, and that the client
            await process.communicate()
        assert process.returncode == 0

    in_cluster(test, tmp_path)


def test_copies_both_ways(kubectl, tmp_path):
    async def test(cluster):
        cluster.add_pod("p")
        await cluster.node.start("p", "main", ECHO)
        (tmp_path / "there").write_bytes(MUCH)
        assert await cluster.kubectl(kubectl, "cp", f"{tmp_path}/there", "p:copied") == (0, b"", b"")
        assert (cluster.node.folder / "copied").read_bytes() == MUCH
        code, _, err = await cluster.kubectl(kubectl, "cp", "p:copied", f"{tmp_path}/back")
        assert (code, err) == (0, b"")
        assert (tmp_path / "back").read_bytes() == MUCH

    in_cluster(test, tmp_path)


async def forwarded(cluster, kubectl, port):
    """kubectl while it forwards, and the port it does that from."""
    process = await cluster.start(kubectl, "port-forward", "--address=127.0.0.1", "p", f":{port}")
    line = await asyncio.wait_for(process.stdout.readline(), SOON_S)
    found = re.match(rb"Forwarding from 127.0.0.1:(\d+) -> ", line)
    assert found, (line, await process.stderr.read())
    return process, int(found[1])


def test_ports(kubectl, tmp_path):
    async def through(local, data):
        reader, writer = await asyncio.open_connection("127.0.0.1", local)

        async def send():
            writer.write(data)
            await writer.drain()
            writer.write_eof()

        sending = asyncio.ensure_future(send())
        got = await asyncio.wait_for(reader.read(), SOON_S)
        await sending
        writer.close()
        return got

    async def test(cluster):
        cluster.add_pod("p")
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            process, local = await forwarded(cluster, kubectl, server.sockets[0].getsockname()[1])
            given = [b"%d" % number * 1_000 for number in range(20)]
            assert await asyncio.gather(*(through(local, one) for one in given)) == given
            assert await through(local, MUCH) == MUCH
            process.send_signal(signal.SIGTERM)
            await process.communicate()
        process, local = await forwarded(cluster, kubectl, 1)
        assert await through(local, b"") == b""
        _, err = await asyncio.wait_for(process.communicate(), SOON_S)
        assert b"error forwarding port 1 to pod p" in err

    in_cluster(test, tmp_path)


def test_an_older_protocol_is_refused_in_words(kubectl, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")

    async def test(cluster):
        cluster.add_pod("p")
        code, _, err = await cluster.kubectl(kubectl, "exec", "p", "--", "true")
        assert code == 1
        assert b"only WebSocket is spoken here" in err

    in_cluster(test, tmp_path)
