"""Certificates and the audit log with a server of its own: who gets a connection, and what is left when it stops."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from muster.apiserver.certificates import client_certificate, prepare
from muster.apiserver.requests import User
from tests.e2e.process import Muster, command, started

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with started(tmp_path_factory.mktemp("up") / "state") as running:
        yield running


def asked(muster: Muster, certificate: Path, key: Path, path: str = PODS) -> tuple[int, dict]:
    """The answer to somebody with a certificate."""
    tls = ssl.create_default_context(cafile=muster.folder / "tls" / "ca.crt")
    tls.load_cert_chain(certificate, key)
    place = urlsplit(muster.url)
    connection = http.client.HTTPSConnection(place.hostname, place.port, context=tls, timeout=30)
    try:
        connection.request("GET", path, headers={"User-Agent": "by-certificate"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def written(folder: Path, certificate: bytes, key: bytes) -> tuple[Path, Path]:
    (folder / "user.crt").write_bytes(certificate)
    (folder / "user.key").write_bytes(key)
    return folder / "user.crt", folder / "user.key"


def test_a_user_with_a_certificate(muster, tmp_path):
    file = tmp_path / "ann"
    made = command("user", "ann", str(file), "--group", "devs", "--data", str(muster.folder))
    subprocess.run(made, check=True, capture_output=True)
    assert file.stat().st_mode & 0o777 == 0o600
    again = subprocess.run(made, check=False, capture_output=True, text=True)
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    config = yaml.safe_load(file.read_text())
    assert config["clusters"][0]["cluster"]["server"] == muster.url
    user = config["users"][0]["user"]
    pair = written(tmp_path, *(base64.b64decode(user[f"client-{name}-data"]) for name in ("certificate", "key")))
    status, answer = asked(muster, *pair)
    assert status == 403
    assert answer["message"].startswith('pods is forbidden: User "ann" cannot list')
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subjects = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "devs"}]
    binding = {"metadata": {"name": "devs"}, "roleRef": role, "subjects": subjects}
    place = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    assert muster.client.request("POST", place, binding).status == 201
    assert asked(muster, *pair)[0] == 200


@pytest.mark.parametrize("sort", ["another authority's", "over", "a server's"])
def test_certificates_that_are_not_good_get_no_connection(muster, tmp_path, sort):
    files = prepare(muster.folder / "tls", [], _now_s(muster))
    if sort == "a server's":
        pair = (files.certificate, files.key)
    else:
        if sort == "another authority's":
            files = prepare(tmp_path / "tls", [], _now_s(muster))
        days_s = 40 * 86_400 if sort == "over" else 0
        admin = User("root", ("system:masters",))
        pair = written(tmp_path, *client_certificate(files, admin, days=30, now_s=_now_s(muster) - days_s))
    with pytest.raises((ssl.SSLError, OSError)):
        asked(muster, *pair)


def _now_s(muster: Muster) -> float:
    return (muster.folder / "token").stat().st_mtime


def test_what_was_done_is_written_down_when_the_server_stops(tmp_path):
    folder = tmp_path / "state"
    with started(folder) as muster:
        assert muster.client.request("GET", PODS).status == 200
        assert muster.client.request("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}}).status == 201
        assert muster.stop() == 0
    events = [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]
    assert [(one["verb"], one["objectRef"].get("name")) for one in events] == [("list", None), ("create", "new")]
    assert (folder / "token").read_text().strip() not in (folder / "audit.log").read_text()
    with started(folder, "--no-audit") as quiet:
        assert quiet.client.request("GET", PODS).status == 200
        assert quiet.stop() == 0
    assert len((folder / "audit.log").read_text().splitlines()) == 2
