"""Kubeconfigs: where the server is, how to know it, and how to be somebody there. For `muster up` and `muster user`."""

from __future__ import annotations

import base64
from pathlib import Path

from muster.apiserver.private_files import write_private

_TEXT = """apiVersion: v1
kind: Config
current-context: muster
clusters:
- name: muster
  cluster:
    server: {url}
    certificate-authority-data: {authority}
contexts:
- name: muster
  context:
    cluster: muster
    user: muster
users:
- name: muster
  user:
{credentials}
"""
_SERVER = "    server: "


def write_kubeconfig(path: Path, *, url: str, authority: bytes, token: str) -> None:
    """Write the file of whoever has a token, readable for its owner alone."""
    _write(path, url, authority, {"token": token})


def write_certified(path: Path, *, url: str, authority: bytes, certificate: bytes, key: bytes) -> None:
    """Write the file of whoever has a certificate, readable for its owner alone."""
    given = {"client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)}
    _write(path, url, authority, given)


def server_in(path: Path) -> str:
    """Where the server of a file is that was written here."""
    found = [line.removeprefix(_SERVER) for line in path.read_text().splitlines() if line.startswith(_SERVER)]
    assert found, f"{path} names no server"
    return found[0]


def _write(path: Path, url: str, authority: bytes, credentials: dict[str, str]) -> None:
    lines = "\n".join(f"    {name}: {value}" for name, value in credentials.items())
    write_private(path, _TEXT.format(url=url, authority=_encoded(authority), credentials=lines).encode())


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
