"""exec and attach over real WebSockets: every byte arrives, ends are told, and nothing piles up in the server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
from urllib.parse import urlencode

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from muster.apiserver.pod_streams import connecting
from muster.apiserver.server import MOST_MESSAGE_BYTES
from muster.apiserver.websocket_protocol import MOST_PARTS
from tests.apiserver.pod_streams.cluster import in_cluster, stop

WAITING = "import time\ntime.sleep(1000)"
ECHO = "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)"
SOON_S = 10.0
RIGHTS = "rbac.authorization.k8s.io/v1"


def python(script: str, **more: str) -> str:
    """The path that runs a script in the pod of all these tests."""
    options = {"stdout": "true", "stderr": "true", **more}
    return "p/exec?" + urlencode([("command", one) for one in (sys.executable, "-c", script)] + list(options.items()))


async def pod(cluster):
    cluster.add_pod("p")
    await cluster.node.start("p", "main", WAITING)


async def shown(socket, lines):
    """So many lines of what comes next."""
    found = b""
    async with asyncio.timeout(SOON_S):
        while found.count(b"\n") < lines:
            found += (await socket.recv())[1:]
    return found


async def all_of(socket):
    """What came on each channel until the server closed."""
    found: dict[int, bytes] = {}
    async with asyncio.timeout(SOON_S):
        async for message in socket:
            found[message[0]] = found.get(message[0], b"") + message[1:]
    return found


def test_output_and_exit_codes(tmp_path):
    async def test(cluster):
        await pod(cluster)
        for protocol in ("v5.channel.k8s.io", "v4.channel.k8s.io"):
            for code in (0, 7):
                await ended(cluster, protocol, code)

    async def ended(cluster, protocol, code):
        script = f"import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit({code})"
        async with cluster.connect(python(script), protocol) as socket:
            assert socket.subprotocol == protocol
            found = await all_of(socket)
            assert socket.close_code == 1000
        status = json.loads(found.pop(3))
        assert found == {1: b"out\n", 2: b"err\n"}
        if code == 0:
            assert status == {"metadata": {}, "status": "Success"}
        else:
            assert status["reason"] == "NonZeroExitCode"
            assert status["details"] == {"causes": [{"reason": "ExitCode", "message": "7"}]}

    in_cluster(test, tmp_path)


def test_only_what_was_asked_for_is_sent(tmp_path):
    async def test(cluster):
        await pod(cluster)
        script = "import sys\nprint('out')\nprint('err', file=sys.stderr)"
        async with cluster.connect(python(script, stdout="false")) as socket:
            assert set(await all_of(socket)) == {2, 3}

    in_cluster(test, tmp_path)


def test_input_ends_when_the_client_says_so(tmp_path):
    async def test(cluster):
        await pod(cluster)
        script = "import sys\nprint(sys.stdin.read().upper(), end='')"
        async with cluster.connect(python(script, stdin="true")) as socket:
            for piece in (b"\x00hel", b"\x00", b"", b"\x00lo", b"\x07x", b"\xff\x00", b"\x00late"):
                await socket.send(piece)
            assert (await all_of(socket))[1] == b"HELLO"

    in_cluster(test, tmp_path)


def test_texts_in_base64(tmp_path):
    async def test(cluster):
        await pod(cluster)
        script = "import sys\nsys.stdout.write(input() + '!')"
        async with cluster.connect(python(script, stdin="true"), "base64.channel.k8s.io") as socket:
            await socket.send("0!!")  # no base64: nothing
            await socket.send("0" + base64.b64encode(b"hi\n").decode())
            async with asyncio.timeout(SOON_S):
                assert await socket.recv() == "1" + base64.b64encode(b"hi!").decode()

    in_cluster(test, tmp_path)


def test_a_terminal_and_its_size(tmp_path):
    async def test(cluster):
        await pod(cluster)
        script = (
            "import os, sys\nfor line in sys.stdin: print(sys.stdout.isatty(), *os.get_terminal_size(), flush=True)"
        )
        async with cluster.connect(python(script, stdin="true", tty="true")) as socket:
            sizes = ({"Width": 99, "Height": 33}, {"Width": -1}, {"Width": 10**9, "Height": 1}, "x", [])
            for size in sizes:
                await socket.send(b"\x04" + json.dumps(size).encode())
            await socket.send(b"\x04{")
            await socket.send(b"\x00go\n")
            assert await shown(socket, 2) == b"go\r\nTrue 99 33\r\n"
            await socket.send(b"\x00\x04")  # the end of input, as terminals have it
            assert json.loads((await all_of(socket))[3])["status"] == "Success"

    in_cluster(test, tmp_path)


def test_attaching_to_what_runs(tmp_path):
    async def test(cluster):
        cluster.add_pod("p")
        container = await cluster.node.start("p", "main", ECHO)
        async with cluster.connect("p/attach?stdin=true&stdout=true") as socket:
            await socket.send(b"\x00one\n")
            assert await shown(socket, 1) == b"got one\n"
        assert container.process.is_running, "it goes on when the client has gone"
        async with cluster.connect("p/attach?stdin=true&stdout=true") as socket:
            await socket.send(b"\xff\x00")
            assert json.loads((await all_of(socket))[3])["status"] == "Success"

    in_cluster(test, tmp_path)


def test_what_a_node_cannot_do_is_said_in_a_status(tmp_path):
    async def test(cluster):
        cluster.add_pod("p")
        async with cluster.connect("p/exec?command=a&stdout=true") as socket:
            status = json.loads((await all_of(socket))[3])
        assert (status["code"], status["reason"]) == (500, "InternalError")
        assert status["message"] == 'Internal error occurred: container not found ("main")'

    in_cluster(test, tmp_path)


# Slow and broken clients ---------------------------------------------------------------------------------------------


def test_a_slow_client_is_waited_for(tmp_path):
    """Nothing piles up for a client that does not read: the process has to wait."""

    async def test(cluster):
        await pod(cluster)
        async with cluster.connect(python("import sys\nwhile True: sys.stdout.buffer.write(bytes(65536))")) as socket:
            before = -1
            async with asyncio.timeout(SOON_S):
                await socket.recv()
                process = cluster.node.open[0]
                while process.given_bytes != before:
                    before = process.given_bytes
                    await asyncio.sleep(0.3)
            assert 0 < before < 16 * 1024 * 1024

    in_cluster(test, tmp_path)


def test_a_slow_process_is_waited_for(tmp_path):
    async def test(cluster):
        await pod(cluster)
        async with cluster.connect(python(WAITING, stdin="true")) as socket:
            sent = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    while True:
                        await socket.send(b"\x00" + bytes(65536))
                        sent += 65536
            assert sent < 16 * 1024 * 1024
            socket.transport.abort()  # what is on its way would have to arrive before a close

    in_cluster(test, tmp_path)


def test_a_process_ends_with_its_client(tmp_path):
    async def test(cluster):
        await pod(cluster)
        for number, is_rude in enumerate((False, True)):
            async with cluster.connect(python("print(1, flush=True)\n" + WAITING)) as socket:
                await socket.recv()
                if is_rude:
                    socket.transport.abort()
            async with asyncio.timeout(SOON_S):
                assert await cluster.node.open[number].exit_code() == 137

    in_cluster(test, tmp_path)


def too_large(socket):
    return socket.send(b"\x00" + bytes(MOST_MESSAGE_BYTES))


def too_many_parts(socket):
    return socket.send(iter([b"\x00"] + [b""] * (MOST_PARTS + 1)))


def no_utf8(socket):
    return socket.send(b"\xff\xff", text=True)


def test_bad_messages_end_the_connection(tmp_path):
    async def test(cluster):
        await pod(cluster)
        for number, send in enumerate((too_large, too_many_parts, no_utf8)):
            async with cluster.connect(python(WAITING, stdin="true")) as socket:
                with contextlib.suppress(ConnectionClosed):
                    async with asyncio.timeout(SOON_S):
                        await send(socket)
                        await socket.recv()
                assert socket.close_code in (1007, 1009)
            async with asyncio.timeout(SOON_S):
                await cluster.node.open[number].exit_code()

    in_cluster(test, tmp_path)


def test_a_long_command(tmp_path):
    async def test(cluster):
        await pod(cluster)
        async with cluster.connect(python(f"print(len({'x' * 60_000!r}))")) as socket:
            assert (await all_of(socket))[1] == b"60000\n"

    in_cluster(test, tmp_path)


def test_a_server_that_stops_ends_all(tmp_path):
    async def test(cluster):
        await pod(cluster)
        async with cluster.connect(python(WAITING)) as socket:
            stop()
            async with asyncio.timeout(SOON_S):
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
                assert socket.close_code == 1012
                assert await cluster.node.open[0].exit_code() == 137
                await cluster.serving

    in_cluster(test, tmp_path)


# Refusals ------------------------------------------------------------------------------------------------------------


REFUSED = [
    ("p/exec?command=a&stdout=true", "v5.channel.k8s.io", "wrong", 401, "Unauthorized"),
    ("none/exec?command=a&stdout=true", "v5.channel.k8s.io", "", 404, 'pods "none" not found'),
    (
        "p/exec?command=a&stdout=true&container=b",
        "v5.channel.k8s.io",
        "",
        400,
        "container b is not valid for pod p",
    ),
    ("p/exec?stdout=true", "v5.channel.k8s.io", "", 400, "you must specify at least one command for the container"),
    ("p/exec?command=a", "v5.channel.k8s.io", "", 400, "you must specify at least 1 of stdin, stdout, stderr"),
    ("p/exec?command=a&stdout=true", "x", "", 400, "requested protocol(s) are not supported: [x]; supports [v5"),
    ("p/no/exec", "v5.channel.k8s.io", "", 404, "the server could not find the requested resource"),
]


def test_refused_before_any_connection(tmp_path):
    async def test(cluster):
        await pod(cluster)
        for path, protocol, token, status, message in REFUSED:
            with pytest.raises(InvalidStatus) as refused:
                await cluster.connect(path, protocol, **({"token": token} if token else {}))
            answer = refused.value.response
            assert answer.status_code == status, path
            assert json.loads(answer.body)["message"].startswith(message), path

    in_cluster(test, tmp_path)


def test_nobody_may_take_all_connections(tmp_path, monkeypatch):
    monkeypatch.setattr(connecting, "MOST_OF_ONE", 1)

    async def test(cluster):
        await pod(cluster)
        async with cluster.connect(python("print(1, flush=True)\n" + WAITING)) as first:
            await first.recv()
            with pytest.raises(InvalidStatus) as refused:
                await cluster.connect(python(WAITING))
            assert refused.value.response.status_code == 429
        async with asyncio.timeout(SOON_S):
            while cluster.app.pod_room.count:
                await asyncio.sleep(0)
        async with cluster.connect(python("print(1)")) as again:
            assert (await all_of(again))[1] == b"1\n"

    in_cluster(test, tmp_path)


def test_who_may_only_look_runs_no_commands(tmp_path):
    """A WebSocket begins with a GET, but to look at a pod is less than to run something in it."""

    async def test(cluster):
        await pod(cluster)
        for verbs, status in ((["get"], 403), (["get", "create"], 101)):
            rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}]
            about = {"metadata": {"name": f"r{status}", "namespace": "default"}}
            role = {"apiVersion": RIGHTS, "kind": "Role", **about, "rules": rules}
            subject = {"kind": "User", "name": f"u{status}", "apiGroup": "rbac.authorization.k8s.io"}
            reference = {"kind": "Role", "name": f"r{status}", "apiGroup": "rbac.authorization.k8s.io"}
            binding = {"apiVersion": RIGHTS, "kind": "RoleBinding", **about, "subjects": [subject]}
            cluster.store.write(cluster.objects.create("roles.rbac.authorization.k8s.io", role))
            cluster.store.write(
                cluster.objects.create("rolebindings.rbac.authorization.k8s.io", {**binding, "roleRef": reference})
            )
        with pytest.raises(InvalidStatus) as refused:
            await cluster.connect(python("print(1)"), user="u403")
        assert refused.value.response.status_code == 403
        assert 'cannot create resource "pods/exec"' in json.loads(refused.value.response.body)["message"]
        async with cluster.connect(python("print(1)"), user="u101") as socket:
            assert (await all_of(socket))[1] == b"1\n"

    in_cluster(test, tmp_path)
