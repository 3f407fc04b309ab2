"""Calls to the servers that convert objects of a definition. Used by `conversion`, on a thread of its own.

Muster has no network of services: one that a definition names is reached only where a setting maps it to loopback.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import os
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 30.0
MOST_BYTES = 32 * 1024 * 1024
SERVICES = "MUSTER_WEBHOOK_SERVICES"  # namespace/name=127.0.0.1:8443,…
Json = dict[str, Any]


class WebhookFailed(Exception):
    """A webhook that gave no answer, or none that can be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a webhook is, and whom to trust there."""

    host: str
    port: int
    path: str
    server_name: str  # that its certificate has to be for
    authority: str  # PEM; empty: the system's authorities
    problem: str = ""  # why it cannot be reached at all


def endpoint_of(config: Json) -> Endpoint:
    """The server of a definition's `clientConfig`."""
    authority = base64.b64decode(config.get("caBundle") or "").decode("ascii", "replace")
    if url := config.get("url"):
        parts = urlsplit(url)
        host = parts.hostname or ""
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Endpoint(host=host, port=parts.port or 443, path=path, server_name=host, authority=authority)
    service = config["service"]
    name = f"{service['namespace']}/{service['name']}"
    where = _services().get(name, "")
    host, _, port = where.rpartition(":")
    problem = "" if where else f"there is no network of services; map {name} to loopback with {SERVICES}"
    if where and not (port.isdigit() and _is_loopback(host)):
        problem = f"{SERVICES} maps {name} to {where}, which is not an address of loopback with a port"
    return Endpoint(
        host=host,
        port=int(port) if port.isdigit() else 0,
        path=service.get("path") or "/",
        server_name=f"{service['name']}.{service['namespace']}.svc",
        authority=authority,
        problem=problem,
    )


def _services() -> dict[str, str]:
    pairs = (one.partition("=") for one in os.environ.get(SERVICES, "").split(",") if "=" in one)
    return {name.strip(): where.strip() for name, _, where in pairs}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class _NamedConnection(http.client.HTTPSConnection):
    """A connection to one address that expects the certificate of another name."""

    def __init__(self, endpoint: Endpoint, context: ssl.SSLContext) -> None:
        super().__init__(endpoint.host.strip("[]"), endpoint.port, timeout=TIMEOUT_S, context=context)
        self._name = endpoint.server_name
        self._tls = context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def call(endpoint: Endpoint, review: Json) -> Json:
    """Send a review and give the answer; raises WebhookFailed."""
    if endpoint.problem:
        raise WebhookFailed(endpoint.problem)
    try:
        context = ssl.create_default_context(cadata=endpoint.authority or None)
        connection = _NamedConnection(endpoint, context)
        try:
            body = json.dumps(review).encode()
            connection.request("POST", endpoint.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read(MOST_BYTES + 1)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as problem:
        raise WebhookFailed(f'Post "https://{endpoint.server_name}{endpoint.path}": {problem}') from None
    if len(text) > MOST_BYTES:
        raise WebhookFailed(f"the answer is longer than {MOST_BYTES} bytes")
    if answer.status != http.client.OK:
        raise WebhookFailed(f"the webhook answered with {answer.status}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise WebhookFailed("the answer is no JSON") from None
    if not isinstance(found, dict):
        raise WebhookFailed("the answer is no object")
    return found
