"""Credentials that a program gives, as kubeconfig's `exec` names it. Used by `kube_config`.

The program is run when the first request needs it, when what it gave has ended, and when that was refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.times import parse_moment
from muster.store.kube_config import present, text_of

_TIMEOUT_S = 60.0
_EARLY_S = 30.0  # before its end a token is no longer used
_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class ExecCredentials:
    """What a program says that we are."""

    def __init__(
        self, given: Fields, folder: Path, others: Mapping[str, str], *, tls: ssl.SSLContext | None, url: str
    ) -> None:
        self._command = given.text("command")
        if not self._command:
            raise given.error("command", "is not given", "name the program")
        if "/" in self._command:
            self._command = str(folder / self._command)
        self._arguments = given.texts("args")
        self._environment = {one.text("name"): one.text("value") for one in given.children("env")}
        self._version = given.text("apiVersion") or _VERSIONS[0]
        if self._version not in _VERSIONS:
            raise given.error("apiVersion", f"is {self._version!r}", f"give {_VERSIONS[0]}")
        self._cluster = {"server": url} if given.flag("provideClusterInfo") else None
        self._others = others
        self._tls = tls
        self._headers: Mapping[str, str] | None = None
        self._until_s = 0.0
        self._asking = asyncio.Lock()

    async def headers(self, *, is_refused: bool = False) -> Mapping[str, str]:
        async with self._asking:
            if self._headers is None or is_refused or time.time() >= self._until_s:
                self._take(await self._ask())
            assert self._headers is not None, "the program was asked"
            return self._headers

    async def _ask(self) -> Mapping[str, object]:
        spec = {"interactive": False, **({"cluster": self._cluster} if self._cluster is not None else {})}
        asked = json.dumps({"apiVersion": self._version, "kind": "ExecCredential", "spec": spec})
        environment = {**os.environ, **self._environment, "KUBERNETES_EXEC_INFO": asked}
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
            )
        except OSError as problem:
            raise InvalidObject("exec.command", f"{self._command} cannot be run: {problem.strerror}", "") from None
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                told, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            raise InvalidObject("exec.command", f"{self._command} takes longer than {_TIMEOUT_S:.0f} s", "") from None
        if process.returncode:
            raise InvalidObject("exec.command", f"{self._command} ended with {process.returncode}", "") from None
        try:
            status = json.loads(told)["status"]
        except (ValueError, KeyError, TypeError):
            raise InvalidObject("exec.command", f"{self._command} printed no ExecCredential", "") from None
        return status if isinstance(status, dict) else {}

    def _take(self, status: Mapping[str, object]) -> None:
        certificate, key = text_of(status, "clientCertificateData"), text_of(status, "clientKeyData")
        if certificate and key and self._tls is not None:
            present(self._tls, certificate.encode(), key.encode())
        token = text_of(status, "token")
        self._headers = {**self._others, "Authorization": f"Bearer {token}"} if token else self._others
        ends_at = text_of(status, "expirationTimestamp")
        self._until_s = parse_moment(ends_at, "status.expirationTimestamp") - _EARLY_S if ends_at else float("inf")
