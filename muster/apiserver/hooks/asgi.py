"""The webhooks as an ASGI application: reviews in, answers out. Run by `serving`, and by tests without a socket.

What cannot be read is refused with a Status, and nothing that goes wrong inside shows as anything else. Bodies have
their limits, and so has what is taken on at once: whoever finds no room waits for a while and is then told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.apiserver.answers import Answer, json_answer, text_answer
from muster.apiserver.authentication import ANONYMOUS
from muster.apiserver.hooks.admission import Rules
from muster.apiserver.hooks.conversion import convert
from muster.apiserver.hooks.reviews import Asked, allowed, denied, read_review
from muster.apiserver.requests import Message, Receive, Request, read_json
from muster.apiserver.sending import Send, refusal, send_answer
from muster.apiserver.statuses import Problem, forbidden, invalid, method_not_allowed, no_such_route, too_many
from muster.model.errors import InvalidObject
from muster.store.errors import Forbidden
from muster.store.kinds import Object

MUTATE, MUTATE_CARDS, VALIDATE, CONVERT = "/mutate", "/mutate-cards", "/validate", "/convert"
HEALTH = ("/healthz", "/readyz")
MOST_REVIEW_BYTES = 16 * 1024 * 1024  # an object before and after, each as large as an API server takes them
MOST_LIST_BYTES = 256 * 1024 * 1024  # a whole list, which an API server has converted in one piece
MOST_AT_ONCE = 64
MOST_LISTS_AT_ONCE = 2
MOST_WAITING = 1_000
WAIT_S = 9.0  # less than an API server waits for an answer


class Room:
    """Room for so many at once; others wait."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._waiting = 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A place, held until it is left; raises Problem where too many wait already, or it takes too long."""
        if self._waiting >= MOST_WAITING:
            raise _no_room()
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                await self._free.acquire()
        except TimeoutError:
            raise _no_room() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()


def _no_room() -> Problem:
    return too_many("more reviews have come than can be answered now")


class HookApp:
    """Answers an API server's questions about writes, and converts objects for it."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._room = Room(MOST_AT_ONCE)
        self._list_room = Room(MOST_LISTS_AT_ONCE)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", f"asked for {scope['type']}"
        try:
            answer = await self._answer(scope, receive)
        except Exception as error:
            answer = refusal(error)
        await send_answer(answer, send, [])

    async def _answer(self, scope: Message, receive: Receive) -> Answer:
        path = scope["path"]
        if path in HEALTH:
            return text_answer("ok")
        if path not in (MUTATE, MUTATE_CARDS, VALIDATE, CONVERT):
            raise no_such_route()
        if scope["method"] != "POST":
            raise method_not_allowed()
        if path == CONVERT:
            async with self._list_room.one():
                request = Request(scope, receive, ANONYMOUS, most_bytes=MOST_LIST_BYTES)
                return Answer(200, await convert(await request.body()))
        async with self._room.one():
            request = Request(scope, receive, ANONYMOUS, most_bytes=MOST_REVIEW_BYTES)
            asked = read_review(read_json(await request.body(), "AdmissionReview"))
            return json_answer(await self._reviewed(asked, path))

    async def _reviewed(self, asked: Asked, path: str) -> Object:
        try:
            if path == MUTATE_CARDS:
                return allowed(asked, after=self._rules.complete_cards(asked))
            if path == MUTATE:
                warnings = self._rules.read_as_meant(asked)
                return allowed(asked, after=await self._rules.complete(asked), warnings=warnings)
            return allowed(asked, warnings=await self._rules.judge(asked))
        except InvalidObject as error:
            return denied(asked, invalid(asked.kind, asked.group, _name_of(asked), error))
        except Forbidden as error:
            return denied(asked, forbidden(error.key, error.problem))
        except Problem as problem:
            return denied(asked, problem)


def _name_of(asked: Asked) -> str:
    metadata = (asked.object or {}).get("metadata") or {}
    return asked.name or str(metadata.get("name") or metadata.get("generateName") or "")
