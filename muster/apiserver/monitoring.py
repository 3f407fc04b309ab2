"""Health and figures of a process as an ASGI application: a few pages that somebody reads. Run by `app.monitoring`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from muster.apiserver.answers import Answer
from muster.apiserver.requests import Message, Receive
from muster.apiserver.sending import Send, refusal, send_answer
from muster.apiserver.statuses import Problem, method_not_allowed, no_such_route

Page = Callable[[], str]
IsAllowed = Callable[[str, str], Awaitable[bool]]  # whether whoever has a token may read a path
TEXT = b"text/plain; version=0.0.4; charset=utf-8"  # as Prometheus wants it told
_SCHEME = "bearer "
_MOST_TOKEN = 16_384  # characters; those of service accounts have about a thousand


async def everybody(_token: str, _path: str) -> bool:
    """For pages that tell nothing about anybody."""
    return True


class Pages:
    """Some pages by their path, for those who may read them."""

    def __init__(self, pages: Mapping[str, Page], is_allowed: IsAllowed = everybody) -> None:
        self._pages = pages
        self._is_allowed = is_allowed

    async def __call__(self, scope: Message, _receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", f"asked for {scope['type']}"
        try:
            answer = await self._answer(scope)
        except Exception as error:
            answer = refusal(error)
        await send_answer(answer, send, [])

    async def _answer(self, scope: Message) -> Answer:
        page = self._pages.get(scope["path"])
        if page is None:
            raise no_such_route()
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed()
        if self._is_allowed is not everybody:
            token = _token_in(scope)
            if not token:
                raise Problem(401, "Unauthorized", "show a token that the cluster knows")
            if not await self._is_allowed(token, scope["path"]):
                raise Problem(403, "Forbidden", f"this token may not get {scope['path']}")
        return Answer(200, page().encode(), TEXT)


def _token_in(scope: Message) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization" and len(value) <= _MOST_TOKEN:
            text = value.decode("latin-1")
            return text[len(_SCHEME) :].strip() if text.lower().startswith(_SCHEME) else ""
    return ""
