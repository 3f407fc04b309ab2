"""The server as an ASGI application: lets people in, finds the handler, and turns whatever comes of it into an answer.

Nothing that goes wrong inside reaches a client as anything but a Status. Run by `server`, and by tests without one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from muster.apiserver import reviews, subresources, writes
from muster.apiserver.answers import Answer, Headers, Joined, Stream, encode, json_answer, text_answer, warning_headers
from muster.apiserver.api import Api
from muster.apiserver.authentication import ANONYMOUS, MASTERS, Authenticator
from muster.apiserver.discovery import Discovery
from muster.apiserver.limits import InFlight
from muster.apiserver.lists import get_object, list_objects
from muster.apiserver.requests import Message, Receive, Request, Target, User, read_json
from muster.apiserver.routes import target_or_refuse, verb_of
from muster.apiserver.statuses import Problem, bad_request, no_such_route, problem_of
from muster.apiserver.streams import Streams
from muster.apiserver.watching import watch_objects
from muster.model.fields import Fields

if TYPE_CHECKING:
    from muster.apiserver.openapi import Documents

Send = Callable[[Message], Awaitable[None]]
Backup = Callable[[Path], int]  # writes a copy of all objects to a file, and gives its revision
log = logging.getLogger(__name__)

_HEALTH = ("/healthz", "/livez", "/readyz")
BACKUP_PATH = "/muster/backup"
_LONGEST_PATH = 8 * 1024
# kubectl asks for the older schemas, as protobuf, of a kind that the newer do not have. There are none: a document that
# says so makes it say that there is no such kind.
_OLDER_SCHEMAS = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_NO_OLDER_SCHEMAS = b"\n\x032.0\x12\x0e\n\x06Muster\x12\x04none\x42\x00"


class App:
    """The API over one store."""

    def __init__(self, api: Api, authenticator: Authenticator, backup: Backup | None = None) -> None:
        self._api = api
        self._backup = backup
        self._authenticator = authenticator
        self._discovery = Discovery(api.catalog)
        self._documents: Documents | None = None
        self._in_flight = InFlight()
        self.streams = Streams()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", f"asked for {scope['type']}"
        request: Request | None = None
        target: Target | None = None
        try:
            user = self._enter(scope)
            request = Request(scope, receive, user)
            if request.path.startswith(("/api/", "/apis/")) and self._is_about_objects(request.path):
                target = target_or_refuse(request.path, self._api.catalog)
                answer = await self._handle(request, target)
            elif request.path == BACKUP_PATH and request.method == "POST":
                answer = await self._make_backup(request)
            else:
                answer = self._about_server(request)
        except Exception as error:
            answer = _refusal(error, request, target)
        warnings = request.warnings if request is not None else []
        if isinstance(answer, Stream):
            assert request is not None, "only a request that was read has a stream as its answer"
            await self.streams.send(answer, request, send)
        else:
            await _send_answer(answer, send, warnings)

    def _enter(self, scope: Message) -> User:
        path = scope["path"]
        if len(path) > _LONGEST_PATH:
            raise Problem(414, "RequestURITooLong", f"the path is longer than {_LONGEST_PATH} characters")
        user = self._authenticator.user(scope["headers"])
        if user is not None:
            return user
        if path in _HEALTH:
            return ANONYMOUS
        raise Problem(401, "Unauthorized", "Unauthorized")

    @staticmethod
    def _is_about_objects(path: str) -> bool:
        """Whether a path goes beyond a group and its version."""
        depth = path.rstrip("/").count("/")
        return depth > (2 if path.startswith("/api/") else 3)

    async def _handle(self, request: Request, target: Target) -> Answer | Stream:
        verb = verb_of(request.method, target)
        request.warn(target.served.deprecation)
        if verb == "list" and request.flag("watch"):
            self.streams.check_room(request.user.name)
            return watch_objects(self._api, request, target)
        with self._in_flight.one(is_write=verb not in ("get", "list")):
            if target.subresource:
                return await subresources.HANDLERS[target.subresource](self._api, request, target)
            if target.served.rules is None:
                if target.served.kind.kind == "Binding":
                    return await subresources.bind(self._api, request, target)
                return await reviews.review(self._api, request, target, self._authenticator)
            if verb == "get":
                return get_object(self._api, request, target)
            return await _VERBS[verb](self._api, request, target)

    def _about_server(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            raise Problem(405, "MethodNotAllowed", "only GET is allowed here", details={})
        if request.path in _HEALTH or request.path.startswith(tuple(f"{one}/" for one in _HEALTH)):
            return text_answer("ok")
        if request.path == "/openapi/v2":
            return Answer(200, _NO_OLDER_SCHEMAS, _OLDER_SCHEMAS)
        if request.path.startswith("/openapi/v3"):
            return self._schemas(request.path)
        answer = self._discovery.answer(request)
        if answer is None:
            raise no_such_route()
        return answer

    async def _make_backup(self, request: Request) -> Answer:
        """Have the store copied to a file on this machine, for the administrator alone."""
        if self._backup is None or MASTERS not in request.user.groups:
            raise no_such_route()
        path = Path(Fields.of(read_json(await request.body(), "Backup")).text("path"))
        if not path.is_absolute():
            raise bad_request("give the whole path of a file that is not there yet")
        revision = await asyncio.to_thread(self._backup, path)
        return json_answer({"revision": revision})

    def _schemas(self, path: str) -> Answer:
        if self._documents is None:
            # Made late: most servers that run for a test or a minute are never asked.
            from muster.apiserver.openapi import Documents

            self._documents = Documents(one.kind for one in self._api.catalog.all)
        name = path.removeprefix("/openapi/v3").strip("/")
        document = self._documents.document(name) if name else self._documents.index()
        if document is None:
            raise no_such_route()
        return Answer(200, document)


_VERBS: dict[str, Callable[[Api, Request, Target], Awaitable[Answer]]] = {
    "list": list_objects,
    "create": writes.create,
    "update": writes.update,
    "patch": writes.patch,
    "delete": writes.delete,
    "deletecollection": writes.delete_collection,
}


def _refusal(error: Exception, request: Request | None, target: Target | None) -> Answer:
    served = target.served if target is not None else None
    name = (target.name if target is not None else "") or (request.object_name if request is not None else "")
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


async def _send_answer(answer: Answer, send: Send, warnings: list[str]) -> None:
    body = answer.body
    headers = [(b"content-type", answer.content_type), (b"content-length", str(len(body)).encode()), *answer.headers]
    headers += warning_headers(warnings)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if isinstance(body, Joined):
        for chunk in body.chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})
