"""The kubeconfig that `muster up` writes: where the server is, how to know it, and how to be its administrator."""

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
    token: {token}
"""


def write_kubeconfig(path: Path, *, url: str, authority: bytes, token: str) -> None:
    """Write the file, readable for its owner alone."""
    text = _TEXT.format(url=url, authority=base64.b64encode(authority).decode(), token=token)
    write_private(path, text.encode())
