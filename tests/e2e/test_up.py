"""`muster up` as a process: how it starts and stops, what it leaves on disk, and who gets in."""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.process import Muster, command, started
from tests.kubernetes.client import Client, trusting
from tests.kubernetes.conftest import real_program

__all__ = ["real_program"]  # a fixture

CONFIGS = "/api/v1/namespaces/default/configmaps"
READY_S = 1.5
BUSY_S = 60.0  # on a machine that does other things at the same time; `bench server-ready` measures it on a quiet one


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """A server that the tests of this module share."""
    with started(tmp_path_factory.mktemp("up") / "state") as running:
        yield running


def config(name: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_says_where_it_is_and_what_to_type(muster: Muster):
    first, _, *typed = muster.lines
    assert muster.url in first
    assert str(muster.kubeconfig) in first
    assert [line.split()[0] for line in typed] == ["export", "kubectl", "kubectl"]
    assert muster.ready_s < BUSY_S


def test_what_is_there_from_the_beginning(muster: Muster):
    listed = muster.client.request("GET", "/api/v1/namespaces").json["items"]
    names = [one["metadata"]["name"] for one in listed]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    service = muster.client.request("GET", "/api/v1/namespaces/default/services/kubernetes").json
    assert service["spec"]["clusterIP"] == "10.96.0.1"
    groups = muster.client.request("GET", "/apis").json["groups"]
    assert "kueue.x-k8s.io" in [one["name"] for one in groups]


def test_nobody_else_can_read_its_files(muster: Muster):
    assert mode(muster.folder) == 0o700
    assert mode(muster.folder / "tls") == 0o700
    files = [path for path in muster.folder.rglob("*") if path.is_file()]
    assert {"kubeconfig", "token", "store.db", "ca.key", "server.key"} <= {path.name for path in files}
    assert {path.name: mode(path) for path in files} == {path.name: 0o600 for path in files}


def test_only_its_own_credentials_are_let_in(muster: Muster):
    ca_file = muster.folder / "tls" / "ca.crt"
    for token in ("", "wrong"):
        answer = Client(url=muster.url, token=token, ca_file=ca_file).request("GET", CONFIGS)
        assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(url=muster.url, token="x").request("GET", CONFIGS)


def test_it_speaks_tls_alone_and_only_to_this_machine(muster: Muster):
    place = urlsplit(muster.url)
    assert place.hostname == "127.0.0.1"
    with pytest.raises((http.client.HTTPException, OSError)):
        Client(url=f"http://{place.netloc}").request("GET", "/healthz")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((place.hostname, place.port)) as raw, pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(raw)


def test_a_head_without_end_is_refused(muster: Muster):
    place = urlsplit(muster.url)
    tls = ssl.create_default_context(cafile=muster.folder / "tls" / "ca.crt")
    with (
        socket.create_connection((place.hostname, place.port), timeout=20) as raw,
        tls.wrap_socket(raw, server_hostname=place.hostname) as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 300_000)
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    assert muster.client.request("GET", "/healthz").status == 200


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_while_somebody_watches(tmp_path, sign):
    with started(tmp_path / "state") as muster:
        seen = []
        is_watching = threading.Event()

        def watch() -> None:
            for event in muster.client.watch(f"{CONFIGS}?watch=true&fieldSelector=metadata.name%3Da"):
                seen.append(event["type"])
                is_watching.set()

        watching = threading.Thread(target=watch)
        watching.start()
        assert muster.client.request("POST", CONFIGS, config("a")).status == 201
        assert is_watching.wait(10)
        assert muster.stop(sign) == 0
        watching.join(10)
        assert seen == ["ADDED"]
        assert muster.process.stderr is not None
        assert muster.process.stderr.read() == ""


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path):
    folder = tmp_path / "state"
    with started(folder) as muster:
        made = [muster.client.request("POST", CONFIGS, config(f"c{number}")).json for number in range(20)]
        muster.stop(signal.SIGKILL)
    with started(folder) as again:
        listed = again.client.request("GET", CONFIGS).json["items"]
        kept = {one["metadata"]["name"]: one["metadata"]["uid"] for one in listed}
        assert kept.pop("kube-root-ca.crt")
        assert kept == {one["metadata"]["name"]: one["metadata"]["uid"] for one in made}
        assert again.client.request("POST", CONFIGS, config("later")).status == 201


def test_credentials_stay_the_same_over_a_restart(tmp_path):
    folder = tmp_path / "state"
    with started(folder) as muster:
        token, authority = (folder / "token").read_text(), (folder / "tls" / "ca.crt").read_bytes()
        muster.stop()
    with started(folder):
        assert ((folder / "token").read_text(), (folder / "tls" / "ca.crt").read_bytes()) == (token, authority)


def test_begin_anew(tmp_path):
    folder = tmp_path / "state"
    with started(folder) as muster:
        muster.client.request("POST", CONFIGS, config("a"))
        muster.stop()
    trusting.cache_clear()  # its authority is a new one
    with started(folder, "--fresh") as anew:
        assert anew.client.request("GET", f"{CONFIGS}/a").status == 404


@pytest.mark.parametrize("arguments", [(), ("--fresh",)])
def test_a_folder_of_somebody_else_is_left_alone(tmp_path, arguments):
    letter = tmp_path / "letter.txt"
    letter.write_text("dear")
    with pytest.raises(RuntimeError, match="not Muster's"), started(tmp_path, *arguments):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_folder_in_use_and_a_port_in_use_are_said_to_be(muster: Muster):
    with pytest.raises(RuntimeError, match="in use by process"), started(muster.folder):
        pass
    port = str(urlsplit(muster.url).port)
    other = muster.folder.parent / "other"
    answer = subprocess.run(
        command("up", "--data", str(other), "--port", port), capture_output=True, text=True, check=False, timeout=30
    )
    assert (answer.returncode, "cannot be listened on" in answer.stderr) == (1, True)


def test_a_copy_while_it_runs_and_the_way_back(tmp_path):
    folder, copy, anew = tmp_path / "state", tmp_path / "copy.db", tmp_path / "anew"
    with started(folder) as muster:
        muster.client.request("POST", CONFIGS, config("kept"))
        subprocess.run(command("backup", str(folder), str(copy)), check=True, capture_output=True)
        muster.client.request("POST", CONFIGS, config("too-late"))
        assert mode(copy) == 0o600
        again = subprocess.run(
            command("backup", str(folder), str(copy)), check=False, capture_output=True, text=True, timeout=30
        )
        assert (again.returncode, "exists already" in again.stderr) == (1, True)
    subprocess.run(command("restore", str(copy), str(anew)), check=True, capture_output=True)
    with started(anew) as restored:
        names = [one["metadata"]["name"] for one in restored.client.request("GET", CONFIGS).json["items"]]
        assert names == ["kept", "kube-root-ca.crt"]


# With the real kubectl -----------------------------------------------------------------------------------------------


def test_kubectl_works_with_what_up_has_written(muster: Muster, real_program: Path):
    assert "default" in muster.kubectl(real_program, "get", "namespaces", "-o", "name")
    made = muster.kubectl(real_program, "create", "job", "hello", "--image=busybox", "--", "echo", "hello")
    assert made == "job.batch/hello created\n"
    assert "hello" in muster.kubectl(real_program, "get", "jobs")
    assert muster.kubectl(real_program, "auth", "can-i", "create", "pods") == "yes\n"
    muster.kubectl(real_program, "create", "namespace", "team")
    muster.kubectl(real_program, "-n", "team", "create", "configmap", "c")
    assert muster.kubectl(real_program, "delete", "namespace", "team") == 'namespace "team" deleted\n'
