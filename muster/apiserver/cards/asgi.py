"""HAMi's scheduler endpoints as an ASGI application: /filter, /bind, /webhook, /explain and health. Run by `app`.

Whoever asks for cards has to show who they are. The webhook is asked by API servers, which show nothing: its answer
follows from the question, and nothing is kept. Bodies have their limits, and so has what is taken on at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.apiserver.answers import Answer, json_answer, text_answer
from muster.apiserver.authentication import ANONYMOUS
from muster.apiserver.cards.callers import Callers
from muster.apiserver.cards.extender import CardCluster, CardExtender
from muster.apiserver.cards.wire import bind_result, filter_error, filter_result, read_bind, read_filter
from muster.apiserver.hooks.asgi import MOST_AT_ONCE, MOST_REVIEW_BYTES, Room
from muster.apiserver.hooks.reviews import Asked, allowed, denied, read_review
from muster.apiserver.requests import Message, Receive, Request, read_json
from muster.apiserver.sending import Send, refusal, send_answer
from muster.apiserver.statuses import Problem, bad_request, method_not_allowed, no_such_route
from muster.dialects.hami.claims import forged
from muster.dialects.hami.explain import explained
from muster.dialects.hami.filter import Extender
from muster.dialects.hami.settings import HamiSettings
from muster.dialects.hami.webhook import BAD_REQUEST, BROKEN, FORBIDDEN, Webhook
from muster.engine.contracts import Vendor
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.clock import Clock
from muster.store.errors import StoreError
from muster.store.kinds import Object

FILTER, BIND, WEBHOOK, EXPLAIN = "/filter", "/bind", "/webhook", "/explain"
HEALTH = ("/healthz", "/readyz")
MOST_BYTES = 64 * 1024 * 1024  # a pod and thousands of nodes, where a scheduler sends them whole
_REASONS = {BAD_REQUEST: "BadRequest", FORBIDDEN: "Forbidden", BROKEN: "InternalError"}


@dataclass(frozen=True, slots=True)
class CardRules:
    """What is said of pods that ask for cards."""

    extender: Extender
    webhook: Webhook

    @staticmethod
    def of(vendors: tuple[Vendor, ...], settings: HamiSettings) -> CardRules:
        """The rules of HAMi under its settings."""
        return CardRules(Extender(vendors=vendors, settings=settings), Webhook(vendors=vendors, settings=settings))


class CardApp:
    """Answers a scheduler and an API server about cards."""

    def __init__(self, rules: CardRules, cluster: CardCluster, *, clock: Clock, callers: Callers) -> None:
        self._extender = CardExtender(rules.extender, cluster, clock)
        self._webhook = rules.webhook
        self._cluster = cluster
        self._clock = clock
        self._callers = callers
        self._room = Room(MOST_AT_ONCE)

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
        if path not in (FILTER, BIND, WEBHOOK, EXPLAIN):
            raise no_such_route()
        if scope["method"] != "POST":
            raise method_not_allowed()
        most = MOST_REVIEW_BYTES
        if path != WEBHOOK:
            self._callers.check(scope, self._clock.now_s())  # before a byte of the body is read
            most = MOST_BYTES
        async with self._room.one():
            body = await Request(scope, receive, ANONYMOUS, most_bytes=most).body()
            return json_answer(await self._said(path, read_json(body, path.removeprefix("/"))))

    async def _said(self, path: str, given: Object) -> Object:
        match path:
            case "/webhook":
                return self._reviewed(read_review(given))
            case "/filter":
                return await self._filtered(given)
            case "/bind":
                return await self._bound(given)
        return self._explained(given)

    # A scheduler asks ------------------------------------------------------------------------------------------------

    async def _filtered(self, given: Object) -> Object:
        try:
            args = read_filter(given)
            return filter_result(args, await self._extender.filter(args))
        except (InvalidObject, StoreError) as problem:
            return filter_error(str(problem))

    async def _bound(self, given: Object) -> Object:
        try:
            await self._extender.bind(read_bind(given))
        except (InvalidObject, StoreError) as problem:
            return bind_result(str(problem))
        return bind_result()

    def _explained(self, given: Object) -> Object:
        try:
            args = read_filter(given)
            return explained(Fields.of(args.pod), args.nodes or (), self._webhook.vendors)
        except InvalidObject as problem:
            raise bad_request(str(problem)) from None

    # An API server asks ----------------------------------------------------------------------------------------------

    def _reviewed(self, asked: Asked) -> Object:
        given = asked.object
        if asked.resource != "pods" or asked.subresource or not asked.is_new or given is None:
            return allowed(asked)
        found = forged((given.get("metadata") or {}).get("annotations") or {})
        if found:
            problem = f"the annotations {', '.join(found)} are for schedulers and agents to write: leave them out"
            return denied(asked, Problem(FORBIDDEN, "Forbidden", problem))
        metadata = given.get("metadata") or {}
        pod: dict[str, Any] = given
        if not metadata.get("namespace") and asked.namespace:
            pod = {**given, "metadata": {**metadata, "namespace": asked.namespace}}
        verdict = self._webhook.admit(pod, self._cluster.state().quotas.get(asked.namespace, {}))
        if not verdict.is_allowed:
            return denied(asked, Problem(verdict.code, _REASONS[verdict.code], verdict.message))
        after = dict(verdict.pod)
        if pod is not given:  # where it is was only said for the rules
            after["metadata"] = {name: value for name, value in after["metadata"].items() if name != "namespace"}
        return allowed(asked, after=after)
