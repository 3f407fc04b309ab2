"""A server that is killed and comes back, and clients that go on with it. Used by the proofs over HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from bench.wire import GONE, Connection, connect
from tests.e2e.process import BARE, Muster, started

LONGEST_DELAY_S = 0.03
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """An object as a client sees it."""

    uid: str
    revision: int
    value: str


def version_of(shown: Json) -> Version:
    metadata = shown["metadata"]
    return Version(metadata["uid"], int(metadata["resourceVersion"]), shown["data"]["value"])


class Lives:
    """The lives of a server, one after another, over the same folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = ExitStack()
        self._muster = self._start()
        self.times = itertools.count()  # of questions and answers, in the order in which they happened
        self._answers_left = 0
        self._delay_s = 0.0

    def __enter__(self) -> Lives:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _start(self) -> Muster:
        return self._running.enter_context(started(self._folder, module=BARE))

    def kill(self) -> None:
        """kill -9, and the next life. Nobody asks anything meanwhile: the loop waits for it."""
        self._running.close()
        self._muster = self._start()

    def kill_after(self, answers: int, chance: Random) -> None:
        """Kill it when clients with lasting connections have got so many answers more, at any moment of its work."""
        self._answers_left = answers
        self._delay_s = chance.random() * LONGEST_DELAY_S

    def has_answered(self) -> None:
        """Called with each answer."""
        self._answers_left -= 1
        if not self._answers_left:
            asyncio.get_running_loop().call_later(self._delay_s, self.kill)

    async def connect(self, **options: int) -> Connection:
        client = self._muster.client
        assert client.ca_file is not None, "a server has a certificate"
        return await connect(client.url, client.token, client.ca_file, **options)

    async def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """Ask on a connection of its own, again where the server was killed; gives what it said."""
        while True:
            try:
                connection = await self.connect()
            except GONE:
                continue
            try:
                return json.loads((await connection.request(method, path, encoded(body)))[1])
            except GONE:
                continue
            finally:
                connection.close()


class LastingConnection:
    """A client's connection, made anew when the server was killed. What was asked then is not asked again."""

    def __init__(self, lives: Lives) -> None:
        self._lives = lives
        self._connection: Connection | None = None

    async def request(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json] | None:
        """The answer; none where the server was killed before it came."""
        while self._connection is None:
            try:
                self._connection = await self._lives.connect()
            except GONE:
                continue  # nothing was asked yet
        try:
            status, answer = await self._connection.request(method, path, encoded(body))
        except GONE:
            self.close()
            return None
        self._lives.has_answered()
        return status, json.loads(answer)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def encoded(body: Json | None) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def config_of(name: str, value: str, *, revision: int = 0, pad: int = 0) -> Json:
    """An object of which every version is different; with a revision, to be written over that one alone."""
    metadata: Json = {"name": name}
    if revision:
        metadata["resourceVersion"] = str(revision)
    data = {"value": value}
    if pad:
        data["pad"] = "x" * pad
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def make_namespaces(lives: Lives, names: list[str]) -> int:
    """Make namespaces; gives a revision from which on all that happens in them can be watched."""
    for name in names:
        made = await lives.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert made["kind"] == "Namespace", made
    return int(made["metadata"]["resourceVersion"])
