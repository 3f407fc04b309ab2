"""A plain HTTP client for any server that speaks the Kubernetes API. Tests ask the same of two servers with it."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]


@cache
def trusting(ca_file: Path | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered to one request."""

    status: int
    headers: Mapping[str, str]  # names in lower case; of one that comes several times, the last
    body: bytes
    warnings: tuple[str, ...] = ()

    @property
    def json(self) -> Json:
        answer: Json = json.loads(self.body)
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Where a server is, and as whom to ask it."""

    url: str
    token: str = ""
    ca_file: Path | None = None
    timeout_s: float = 120.0
    headers: tuple[tuple[str, str], ...] = ()  # that every request has, such as whom to act as

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json", accept: str = ""
    ) -> Answer:
        """Send one request; a body that is not bytes goes out as JSON."""
        with self._sent(method, path, body, {"Content-Type": content_type, "Accept": accept}) as answer:
            headers = {name.lower(): value for name, value in answer.getheaders()}
            warnings = tuple(answer.headers.get_all("Warning") or ())
            return Answer(answer.status, headers, answer.read(), warnings)

    def watch(self, path: str) -> Iterator[Json]:
        """The events of a watch as they come, until the server ends it or the generator is closed."""
        with self._sent("GET", path, None, {}) as answer:
            if answer.status != http.client.OK:
                raise ConnectionError(f"GET {path}: {answer.status} {answer.read()[:500]!r}")
            while line := answer.readline():
                yield json.loads(line)

    @contextmanager
    def _sent(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        place = urlsplit(self.url)
        assert place.hostname, f"{self.url} names no host"
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=self.timeout_s)
        if place.scheme == "https":
            connection = http.client.HTTPSConnection(
                place.hostname, place.port, timeout=self.timeout_s, context=trusting(self.ca_file)
            )
        given = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        given |= {name: value for name, value in (*self.headers, *headers.items()) if value}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, body=data, headers=given)
            yield connection.getresponse()
        finally:
            connection.close()
