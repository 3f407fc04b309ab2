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
from muster.apiserver.authentication import ANONYMOUS, Authenticator
from muster.apiserver.certificates import CERTIFIED, Certified
from muster.apiserver.definitions.checks import DEFINITIONS
from muster.apiserver.definitions.conversion import Unconverted
from muster.apiserver.discovery import Discovery
from muster.apiserver.limits import Limits
from muster.apiserver.lists import get_object, list_objects
from muster.apiserver.requests import Message, Receive, Request, Target, User, read_json
from muster.apiserver.rights.access import MASTERS, question_of
from muster.apiserver.rights.audit import AuditLog, Entry
from muster.apiserver.rights.impersonation import acting_as as acting_as_whom
from muster.apiserver.rights.rbac import Question
from muster.apiserver.routes import find_target, verb_of
from muster.apiserver.statuses import Problem, bad_request, no_such_route, problem_of, too_many
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
_MOST_CONVERSIONS = 20
# kubectl asks for the older schemas, as protobuf, of a kind that the newer do not have. There are none: a document that
# says so makes it say that there is no such kind.
_OLDER_SCHEMAS = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_NO_OLDER_SCHEMAS = b"\n\x032.0\x12\x0e\n\x06Muster\x12\x04none\x42\x00"


class _Exchange:
    """One request as far as it is known: for the answer when it goes wrong, and for the audit log."""

    __slots__ = ("acting_as", "asked", "reason", "request", "target", "user")

    def __init__(self) -> None:
        self.request: Request | None = None
        self.target: Target | None = None
        self.user = ANONYMOUS
        self.acting_as: User | None = None
        self.asked: Question | None = None
        self.reason = ""  # why it was allowed


class App:
    """The API over one store."""

    def __init__(
        self, api: Api, authenticator: Authenticator, backup: Backup | None = None, *, audit: AuditLog | None = None
    ) -> None:
        self._api = api
        self._backup = backup
        self._audit = audit
        self._authenticator = authenticator
        self._discovery = Discovery(api.catalog)
        self._documents: Documents | None = None
        self._documents_epoch = 0
        self.limits = Limits()
        self.streams = Streams()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http", f"asked for {scope['type']}"
        received_s = self._api.clock.now_s()
        exchange = _Exchange()
        try:
            answer = await self._answer(exchange, scope, receive)
        except Exception as error:
            answer = _refusal(error, exchange.request, exchange.target)
        request = exchange.request
        if isinstance(answer, Stream):
            assert request is not None, "only a request that was read has a stream as its answer"
            await self.streams.send(answer, request, send)
        else:
            await _send_answer(answer, send, request.warnings if request is not None else [])
        if self._audit is not None and exchange.asked is not None:
            code = 200 if isinstance(answer, Stream) else answer.status
            self._note(exchange, scope, code, received_s)

    async def _answer(self, exchange: _Exchange, scope: Message, receive: Receive) -> Answer | Stream:
        user = exchange.user = self._enter(scope)
        request = exchange.request = Request(scope, receive, user)
        if user is ANONYMOUS:
            return self._about_server(request)
        # Before anything else is done for it: there may be thousands. Who is told to come back has no line in the log.
        flow = await self.limits.enter(user, request.header(b"user-agent"))
        try:
            if request.path.startswith(("/api/", "/apis/")) and self._is_about_objects(request.path):
                exchange.target = find_target(request.path, self._api.catalog)
            exchange.asked = question_of(request, exchange.target)
            acting_as = acting_as_whom(self._api.access, user, scope["headers"])
            if acting_as is not user:
                request.user = exchange.acting_as = acting_as
            exchange.reason = self._api.access.check(request.user, exchange.asked)
            return await self._allowed(request, exchange)
        finally:
            self.limits.leave(flow)

    async def _allowed(self, request: Request, exchange: _Exchange) -> Answer | Stream:
        """The answer to somebody who may ask this."""
        if exchange.target is not None:
            request.api_version = exchange.target.served.api_version
            return await self._handle_converted(request, exchange.target)
        if exchange.asked is not None and exchange.asked.resource:
            raise no_such_route()
        if request.path == BACKUP_PATH and request.method == "POST":
            return await self._make_backup(request)
        return self._about_server(request)

    def _enter(self, scope: Message) -> User:
        path = scope["path"]
        if len(path) > _LONGEST_PATH:
            raise Problem(414, "RequestURITooLong", f"the path is longer than {_LONGEST_PATH} characters")
        certified: Certified | None = scope.get(CERTIFIED)
        if certified is not None and certified.ends_s > self._api.clock.now_s():
            return certified.user
        user = self._authenticator.user(scope["headers"])
        if user is not None:
            return user
        if path in _HEALTH:
            return ANONYMOUS
        raise Problem(401, "Unauthorized", "Unauthorized")

    def _note(self, exchange: _Exchange, scope: Message, code: int, received_s: float) -> None:
        """Have a request written down."""
        request, asked = exchange.request, exchange.asked
        assert self._audit is not None and request is not None and asked is not None, "it was read"
        if asked.resource and not asked.name:
            asked = asked._replace(name=request.object_name)
        query = scope["query_string"]
        uri = f"{request.path}?{query.decode('latin-1')}" if query else request.path
        client = scope.get("client") or ("",)
        self._audit.add(
            Entry(
                user=exchange.user,
                acting_as=exchange.acting_as,
                asked=asked,
                uri=uri,
                agent=request.header(b"user-agent"),
                address=client[0],
                code=code,
                received_s=received_s,
                answered_s=self._api.clock.now_s(),
                reason=exchange.reason,
            )
        )

    @staticmethod
    def _is_about_objects(path: str) -> bool:
        """Whether a path goes beyond a group and its version."""
        depth = path.rstrip("/").count("/")
        return depth > (2 if path.startswith("/api/") else 3)

    async def _handle_converted(self, request: Request, target: Target) -> Answer | Stream:
        """Handle a request, anew each time that a webhook had to be asked for a conversion first."""
        for _ in range(_MOST_CONVERSIONS):
            warnings = list(request.warnings)
            try:
                return await self._handle(request, target)
            except Unconverted as missing:
                request.warnings = warnings
                await missing.prepare()
        raise too_many("the object changes faster than it can be converted")

    async def _handle(self, request: Request, target: Target) -> Answer | Stream:
        verb = verb_of(request.method, target)
        request.warn(target.served.deprecation)
        if verb == "list" and request.flag("watch"):
            self.streams.check_room(request.user.name)
            return watch_objects(self._api, request, target)
        if target.served.resource == DEFINITIONS and verb not in ("get", "list"):
            return await self._change_definition(request, target, verb)
        if target.subresource:
            return await subresources.HANDLERS[target.subresource](self._api, request, target)
        if target.served.rules is None:
            if target.served.kind.kind == "Binding":
                return await subresources.bind(self._api, request, target)
            return await reviews.review(self._api, request, target, self._authenticator)
        if verb == "get":
            return get_object(self._api, request, target)
        return await _VERBS[verb](self._api, request, target)

    async def _change_definition(self, request: Request, target: Target, verb: str) -> Answer:
        """A write to a definition is answered when it is in force: what comes next may rely on it."""
        if target.subresource:
            answer = await subresources.HANDLERS[target.subresource](self._api, request, target)
        else:
            answer = await _VERBS[verb](self._api, request, target)
        await self._api.on_definitions()
        return answer

    def _about_server(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            raise Problem(405, "MethodNotAllowed", "only GET is allowed here", details={})
        if request.path in _HEALTH or request.path.startswith(tuple(f"{one}/" for one in _HEALTH)):
            return text_answer("ok")
        if request.path == "/.well-known/openid-configuration":
            return json_answer(self._api.accounts.configuration(f"https://{request.header(b'host')}"))
        if request.path == "/openid/v1/jwks":
            return Answer(200, encode(self._api.accounts.key.public_keys()), b"application/jwk-set+json")
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
        catalog = self._api.catalog
        if self._documents is None or self._documents_epoch != catalog.epoch:
            # Made late: most servers that run for a test or a minute are never asked.
            from muster.apiserver.openapi import Documents, names_of

            schemas = {names_of(one.kind): one.custom.open_api for one in catalog.all if one.custom is not None}
            self._documents = Documents((one.kind for one in catalog.all), schemas)
            self._documents_epoch = catalog.epoch
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
