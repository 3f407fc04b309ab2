"""A whole server without a socket, asked one request after the other. Used by the tests of apply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from muster.app.kinds import catalog
from tests.apiserver.world import World

Json = dict[str, Any]


class Direct:
    """All kinds that are served, in memory."""

    def __init__(self, loop: asyncio.AbstractEventLoop, world: World) -> None:
        self._loop = loop
        self.world = world

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Json]:
        """The status and the body of an answer."""
        asked = self.world.request(method, path, body, headers={"content-type": content_type, **(headers or {})})
        answer = self._loop.run_until_complete(asked)
        return answer.status, json.loads(answer.body)


@contextmanager
def direct() -> Iterator[Direct]:
    """A server of its own."""

    async def start() -> World:
        return World(catalog=catalog())

    loop = asyncio.new_event_loop()
    try:
        yield Direct(loop, loop.run_until_complete(start()))
    finally:
        loop.close()
