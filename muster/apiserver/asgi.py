"""The server as an ASGI application: lets people in, finds the handler, and turns whatever comes of it into an answer.

Nothing that goes wrong inside reaches a client as anything but a Status. Run by `server`, and by tests without one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from muster.apiserver import metrics, reviews, subresources, writes
from muster.apiserver.answers import Answer, Stream, encode, json_answer, text_answer
from muster.apiserver.api import Api
from muster.apiserver.authentication import ANONYMOUS, Authenticator
from muster.apiserver.certificates import CERTIFIED, Certified
from muster.apiserver.definitions.checks import DEFINITIONS
from muster.apiserver.definitions.conversion import Unconverted
from muster.apiserver.discovery import Discovery
from muster.apiserver.limits import Limits
from muster.apiserver.lists import get_object, list_objects
from muster.apiserver.pod_streams.connecting import CONNECTED, GONE, Conversation, Room, Wire, converse, hold
from muster.apiserver.requests import Message, Receive, Request, Target, User, read_json
from muster.apiserver.rights.access import MASTERS, question_of
from muster.apiserver.rights.audit import AuditLog, Entry
from muster.apiserver.rights.impersonation import acting_as as acting_as_whom
from muster.apiserver.rights.rbac import Question
from muster.apiserver.routes import find_target, verb_of
from muster.apiserver.sending import Send, refusal, send_answer
from muster.apiserver.statuses import Problem, bad_request, no_such_route, too_many
from muster.apiserver.streams import Streams
from muster.apiserver.watching import watch_objects
from muster.model.fields import Fields

if TYPE_CHECKING:
    from muster.apiserver.openapi import Documents

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
        self.pod_room = Room()
        self.streams = Streams()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await self._connect(scope, receive, send)
            return
        assert scope["type"] == "http", f"asked for {scope['type']}"
        received_s = self._api.clock.now_s()
        exchange = _Exchange()
        try:
            answer = await self._answer(exchange, scope, receive)
        except Exception as error:
            answer = _refused(error, exchange)
        request = exchange.request
        if isinstance(answer, Stream):
            assert request is not None, "only a request that was read has a stream as its answer"
            await self.streams.send(answer, request, send)
        else:
            await send_answer(answer, send, request.warnings if request is not None else [])
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
            self._check(exchange, request, scope)
            return await self._allowed(request, exchange)
        finally:
            self.limits.leave(flow)

    def _check(self, exchange: _Exchange, request: Request, scope: Message) -> Question:
        """Find out what is asked for and on whose behalf, and refuse what they may not do."""
        if request.path.startswith(("/api/", "/apis/")) and self._is_about_objects(request.path):
            exchange.target = find_target(request.path, self._api.catalog)
        asked = exchange.asked = question_of(request, exchange.target)
        acting_as = acting_as_whom(self._api.access, exchange.user, scope["headers"])
        if acting_as is not exchange.user:
            request.user = exchange.acting_as = acting_as
        exchange.reason = self._api.access.check(request.user, asked)
        return asked

    async def _connect(self, scope: Message, receive: Receive, send: Send) -> None:
        """Connect a client with a pod, or say as HTTP would why not."""
        received_s, code = self._api.clock.now_s(), 101
        exchange = _Exchange()
        with ExitStack() as held:
            try:
                protocol, conversation = await self._prepare(exchange, {**scope, "method": "GET"}, receive)
                assert exchange.request is not None, "it was read"
                held.enter_context(self.pod_room.one(exchange.request.user.name))
            except Exception as error:
                answer = _refused(error, exchange)
                code = answer.status
                await send_answer(answer, send, [], kind="websocket.http.response")
            else:
                await self._hold(protocol, conversation, Wire(receive, send, scope["extensions"].get(GONE)))
        if self._audit is not None and exchange.asked is not None:
            self._note(exchange, scope, code, received_s)

    async def _prepare(self, exchange: _Exchange, scope: Message, receive: Receive) -> tuple[str, Conversation]:
        user = exchange.user = self._enter(scope)
        request = exchange.request = Request(scope, receive, user)
        flow = await self.limits.enter(user, request.header(b"user-agent"))
        try:
            asked = self._check(exchange, request, scope)
            if exchange.target is None or exchange.target.subresource not in CONNECTED:
                raise no_such_route()
            # Whoever may look at a pod may not therefore run commands in it; Kubernetes asks for both, too.
            exchange.asked = asked._replace(verb="create")
            exchange.reason = self._api.access.check(request.user, exchange.asked)
            return converse(self._api, request, exchange.target, scope["subprotocols"])
        finally:
            self.limits.leave(flow)

    @staticmethod
    async def _hold(protocol: str, conversation: Conversation, wire: Wire) -> None:
        try:
            await hold(protocol, conversation, wire)
        except Exception:
            log.exception("a connection with a pod failed")
            with suppress(OSError):
                await wire.send({"type": "websocket.close", "code": 1011})

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
                annotations=tuple(request.annotations.items()),
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
        if target.served.kind.group == metrics.GROUP:
            return await metrics.metrics(self._api, request, target)
        if verb in ("create", "update", "patch"):
            request.warn(target.served.without_effect)
        if verb == "list" and request.flag("watch"):
            self.streams.check_room(request.user.name)
            return watch_objects(self._api, request, target)
        if target.served.resource == DEFINITIONS and verb not in ("get", "list"):
            return await self._change_definition(request, target, verb)
        if target.subresource == "log":
            self.streams.check_room(request.user.name)
        if target.subresource:
            return await subresources.HANDLERS[target.subresource](self._api, request, target)
        if target.served.rules is None:
            if target.served.kind.kind == "Binding":
                return await subresources.bind(self._api, request, target)
            return await reviews.review(self._api, request, target, self._authenticator)
        if verb == "get":
            return get_object(self._api, request, target)
        return await _VERBS[verb](self._api, request, target)

    async def _change_definition(self, request: Request, target: Target, verb: str) -> Answer | Stream:
        """A write to a definition is answered when it is in force: what comes next may rely on it."""
        answer: Answer | Stream
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


def _refused(error: Exception, exchange: _Exchange) -> Answer:
    target, request = exchange.target, exchange.request
    name = (target.name if target is not None else "") or (request.object_name if request is not None else "")
    return refusal(error, target.served if target is not None else None, name)
