"""Answers on their way out, and what is answered when something went wrong. Used by the ASGI applications."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from muster.apiserver.answers import Answer, Headers, Joined, encode, warning_headers
from muster.apiserver.requests import Message
from muster.apiserver.served import Served
from muster.apiserver.statuses import Problem, problem_of

Send = Callable[[Message], Awaitable[None]]
log = logging.getLogger(__name__)


def refusal(error: Exception, served: Served | None = None, name: str = "") -> Answer:
    """The answer to a request that ended with an error: a Status, whatever it was."""
    problem = problem_of(error, served, name)
    if problem is None:
        # A fault of Muster's own: the log says which, the client only that.
        log.error("a request failed", exc_info=error)
        problem = Problem(500, "InternalError", "Internal error occurred: the server's log says more")
    headers: Headers = ()
    if problem.retry_after_s:
        headers = ((b"retry-after", str(problem.retry_after_s).encode()),)
    if problem.code in (408, 413):
        headers += ((b"connection", b"close"),)  # the rest of the body is not read
    if problem.code == 401:
        headers += ((b"www-authenticate", b"Bearer"),)
    return Answer(problem.code, encode(problem.status()), headers=headers)


async def send_answer(answer: Answer, send: Send, warnings: list[str], *, kind: str = "http.response") -> None:
    """Send an answer whole."""
    body = answer.body
    headers = [(b"content-type", answer.content_type), (b"content-length", str(len(body)).encode()), *answer.headers]
    headers += warning_headers(warnings)
    await send({"type": f"{kind}.start", "status": answer.status, "headers": headers})
    if isinstance(body, Joined):
        for chunk in body.chunks():
            await send({"type": f"{kind}.body", "body": chunk, "more_body": True})
        body = b""
    await send({"type": f"{kind}.body", "body": body})
