"""A real Kubernetes control plane on loopback, in processes of its own. Tests compare Muster with it; tools/ reads it.

`started(folder)` gives a running one and stops it again. Without the controllers nothing touches the objects but the
API server itself, so that answers can be compared one by one.
"""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.build import NoControlPlane, program
from tests.kubernetes.client import Client

START_S = 300.0  # a control plane takes about 3; a machine that is busy with other things may take far longer
STOP_S = 60.0
POLL_S = 0.02
_PORTS = range(10_000, 32_000)  # below those that connections get: none takes one before its server does


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """A control plane: where it is, and how to be its administrator."""

    url: str
    token: str
    folder: Path

    @property
    def ca_file(self) -> Path:
        return self.folder / "server.crt"  # signed by itself

    @property
    def key_file(self) -> Path:
        return self.folder / "server.key"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def client(self) -> Client:
        return Client(url=self.url, token=self.token, ca_file=self.ca_file)

    def kubectl_command(self, *arguments: str) -> list[str]:
        """How to run the kubectl of the same version as the administrator."""
        return [str(program()), "kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """What kubectl prints; if it fails, what it said is raised."""
        command = self.kubectl_command(*arguments)
        answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=START_S)
        if answer.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {answer.stderr}")
        return answer.stdout


@contextmanager
def started(folder: Path, *, has_controllers: bool = False, is_durable: bool = False) -> Iterator[Plane]:
    """A control plane that keeps its state in the folder, flushed to the disk at each write where it is durable."""
    etcd_port, peer_port, port = free_ports(3)
    plane = Plane(url=f"https://127.0.0.1:{port}", token=secrets.token_hex(16), folder=folder)
    _write_identity(plane)
    etcd = [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-url=http://127.0.0.1:{etcd_port}",
        f"--listen-peer-url=http://127.0.0.1:{peer_port}",
        f"--unsafe-no-fsync={str(not is_durable).lower()}",
    ]
    with ExitStack() as running:
        running.enter_context(process(folder, "etcd", etcd))
        flags = _server_flags(plane, port, etcd_port)
        if not has_controllers:
            # The accounts that this admission plugin asks for are made by a controller.
            flags.append("--disable-admission-plugins=ServiceAccount")
        server = running.enter_context(process(folder, "kube-apiserver", flags))
        _wait_until(lambda: _answers(plane, "/readyz"), server, folder / "kube-apiserver.log")
        if has_controllers:
            common = [f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
            running.enter_context(process(folder, "kube-scheduler", common))
            keys = [f"--service-account-private-key-file={plane.key_file}", f"--root-ca-file={plane.ca_file}"]
            # So that comparisons of autoscalers need not wait for a quarter of a minute each.
            often = "--horizontal-pod-autoscaler-sync-period=1s"
            # Three times a minute it fails pods of nodes that do not exist, in the middle of a story or not.
            chosen = "--controllers=*,-pod-garbage-collector-controller"
            flags = [*common, *keys, often, chosen]
            manager = running.enter_context(process(folder, "kube-controller-manager", flags))
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            _wait_until(lambda: _answers(plane, account), manager, folder / "kube-controller-manager.log")
        yield plane


def _write_identity(plane: Plane) -> None:
    """The files that prove who the server and its administrator are."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise NoControlPlane("needs openssl to make the keys of a real control plane")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(plane.key_file)]
    names = ["-subj", "/CN=control-plane", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command = [openssl, "req", "-x509", *new_key, *names, "-days", "2", "-out", str(plane.ca_file)]
    subprocess.run(command, check=True, capture_output=True)
    (plane.folder / "tokens.csv").write_text(f'{plane.token},admin,admin,"system:masters"\n')
    cluster = {"server": plane.url, "certificate-authority": str(plane.ca_file)}
    configuration = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "plane",
        "clusters": [{"name": "plane", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": plane.token}}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "admin"}}],
    }
    plane.kubeconfig.write_text(json.dumps(configuration))


def _server_flags(plane: Plane, port: int, etcd_port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # a service cannot point at loopback
        f"--tls-cert-file={plane.ca_file}",
        f"--tls-private-key-file={plane.key_file}",
        f"--token-auth-file={plane.folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={plane.key_file}",
        f"--service-account-key-file={plane.ca_file}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",  # as every cluster has it that runs drivers of devices
    ]


@contextmanager
def process(folder: Path, part: str, flags: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """One part of the control plane, with its log in the folder, stopped at the end."""
    with (folder / f"{part}.log").open("wb") as log:
        process = subprocess.Popen([program(), part, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until(is_done: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Ask again and again until it is done; give up when the process ends or takes too long."""
    deadline = time.monotonic() + START_S
    while not is_done():
        try:
            process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() < deadline:
                continue
        raise RuntimeError(f"{log.stem} did not get ready within {START_S:.0f} s: {log.read_text()[-2000:]}")


def _answers(plane: Plane, path: str) -> bool:
    try:
        return plane.client.request("GET", path).status == 200
    except OSError:  # nobody listens yet
        return False


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; all are held before any is given back, so that they differ."""
    with ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            one = held.enter_context(socket.socket())
            with suppress(OSError):  # somebody has it
                one.bind(("127.0.0.1", secrets.choice(_PORTS)))
                found.append(one.getsockname()[1])
        return found
