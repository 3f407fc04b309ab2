"""How a cluster is reached: what kubeconfig files and pods know of it, and what is said where they do not."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import sys
from pathlib import Path

import pytest
import yaml

from muster.apiserver.certificates import prepare
from muster.model.errors import InvalidObject
from muster.store.kube_config import Access, default_access, in_cluster, read_kubeconfig

NOW_S = 1_700_000_000.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    """A folder with an authority, and a certificate and key of its own."""
    folder = tmp_path_factory.mktemp("tls")
    files = prepare(folder / "tls", ["127.0.0.1"], NOW_S)
    for name, path in (("ca.crt", files.authority), ("me.crt", files.certificate), ("me.key", files.key)):
        (folder / name).write_bytes(path.read_bytes())
    return folder


def written(folder: Path, user: dict, cluster: dict | None = None, **context: str) -> Path:
    given = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/", **(cluster or {})}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "me", **context}}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(given))
    return path


def headers(access: Access, *, is_refused: bool = False) -> dict[str, str]:
    return dict(asyncio.run(access.credentials.headers(is_refused=is_refused)))


def test_a_token(tmp_path):
    access = read_kubeconfig(written(tmp_path, {"token": "secret", "as": "somebody"}, namespace="team"))
    assert (access.url, access.namespace) == ("https://127.0.0.1:6443", "team")
    assert headers(access) == {"Authorization": "Bearer secret", "Impersonate-User": "somebody"}
    assert access.tls is not None and access.tls.verify_mode is ssl.CERT_REQUIRED


def test_a_token_in_a_file_that_changes(tmp_path):
    (tmp_path / "token").write_text("first\n")
    access = read_kubeconfig(written(tmp_path, {"tokenFile": "token"}))
    assert headers(access) == {"Authorization": "Bearer first"}
    (tmp_path / "new").write_text("second\n")
    (tmp_path / "new").rename(tmp_path / "token")
    assert headers(access) == {"Authorization": "Bearer second"}
    (tmp_path / "token").unlink()
    assert headers(access) == {"Authorization": "Bearer second"}


@pytest.mark.parametrize("is_inline", [False, True], ids=["by file", "inline"])
def test_certificates(tmp_path, certificates, is_inline):
    def given(name: str, field: str) -> dict[str, str]:
        if is_inline:
            return {f"{field}-data": base64.b64encode((certificates / name).read_bytes()).decode()}
        return {field: os.path.relpath(certificates / name, tmp_path)}

    user = {**given("me.crt", "client-certificate"), **given("me.key", "client-key")}
    access = read_kubeconfig(written(tmp_path, user, given("ca.crt", "certificate-authority")))
    assert headers(access) == {}
    assert access.tls is not None and len(access.tls.get_ca_certs()) == 1


def test_nobody_is_trusted_blindly_unless_that_is_said(tmp_path):
    access = read_kubeconfig(written(tmp_path, {}, {"insecure-skip-tls-verify": True, "tls-server-name": "other"}))
    assert access.tls is not None and access.tls.verify_mode is ssl.CERT_NONE
    assert access.server_name == "other"


PLUGIN = """
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
with open(sys.argv[1], "a") as log:
    log.write("x")
number = os.path.getsize(sys.argv[1])
status = {"token": f"{os.environ['PREFIX']}-{number}"}
if number < 3:
    status["expirationTimestamp"] = "2001-01-01T00:00:00Z"
print(json.dumps({"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def test_a_program_that_knows_who_we_are(tmp_path):
    (tmp_path / "plugin.py").write_text(PLUGIN)
    given = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "plugin.py"), str(tmp_path / "calls")],
        "env": [{"name": "PREFIX", "value": "token"}],
        "provideClusterInfo": True,
    }

    async def story() -> list[str]:
        access = read_kubeconfig(written(tmp_path, {"exec": given}))
        asked = [await access.credentials.headers() for _ in range(4)]
        asked.append(await access.credentials.headers(is_refused=True))
        return [one["Authorization"] for one in asked]

    # The first two have ended when they come, the third is good until it is refused.
    assert asyncio.run(story()) == [f"Bearer token-{number}" for number in (1, 2, 3, 3, 4)]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param({"command": "/no/such/program"}, id="no program"),
        pytest.param({"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}, id="it fails"),
        pytest.param({"command": sys.executable, "args": ["-c", "print('hello')"]}, id="it says something else"),
    ],
)
def test_a_program_that_does_not(tmp_path, command):
    access = read_kubeconfig(written(tmp_path, {"exec": command}))
    with pytest.raises(InvalidObject, match=r"exec\.command"):
        headers(access)


@pytest.mark.parametrize(
    ("user", "cluster", "told"),
    [
        pytest.param({"auth-provider": {"name": "gcp"}}, {}, "auth-provider", id="a thing of the past"),
        pytest.param({"client-certificate": "me.crt"}, {}, "client-key", id="no key"),
        pytest.param({"exec": {"command": "x", "apiVersion": "v7"}}, {}, "apiVersion", id="an unknown version"),
        pytest.param({}, {"server": "127.0.0.1"}, "server", id="no address"),
        pytest.param({}, {"certificate-authority-data": "%%"}, "base64", id="not base64"),
        pytest.param({}, {"certificate-authority": "none.crt"}, "certificate-authority", id="no such file"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, user, cluster, told):
    with pytest.raises(InvalidObject, match=told):
        read_kubeconfig(written(tmp_path, user, cluster))


def test_a_context_that_is_not_there(tmp_path):
    path = written(tmp_path, {})
    with pytest.raises(InvalidObject, match="contexts"):
        read_kubeconfig(path, context="elsewhere")
    with pytest.raises(InvalidObject, match="cannot be read"):
        read_kubeconfig(tmp_path / "none")


def test_several_files_are_one(tmp_path):
    first = tmp_path / "first"
    first.write_text(json.dumps({"current-context": "there", "clusters": [], "users": [], "contexts": []}))
    second = {
        "current-context": "ignored",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "there", "context": {"cluster": "c"}}],
    }
    (tmp_path / "second").write_text(json.dumps(second))
    access = default_access({"KUBECONFIG": f"{first}{os.pathsep}{tmp_path / 'second'}"})
    assert (access.url, access.tls) == ("http://127.0.0.1:1", None)


def test_a_pod_knows_its_cluster(tmp_path, certificates):
    (tmp_path / "token").write_text("mine")
    (tmp_path / "namespace").write_text("muster-system")
    (tmp_path / "ca.crt").write_bytes((certificates / "ca.crt").read_bytes())
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = in_cluster(environment, tmp_path)
    assert (access.url, access.namespace) == ("https://[fd00::1]:6443", "muster-system")
    assert headers(access) == {"Authorization": "Bearer mine"}
    with pytest.raises(InvalidObject, match="--kubeconfig"):
        in_cluster({}, tmp_path)
