"""Asks webhooks about writes: those that change them one after the other, then policies, then those that only judge.

Used by the handlers of writes, outside of any transaction: a webhook that hangs holds up nobody but its own request.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import NamedTuple

from muster.apiserver.outgoing import CallFailed, Client, endpoint_of, services_in_environment
from muster.apiserver.rights.access import Access
from muster.apiserver.served import Catalog
from muster.apiserver.statuses import Problem, internal_error
from muster.apiserver.webhooks.asking import authorizer_of
from muster.apiserver.webhooks.attributes import Attributes
from muster.apiserver.webhooks.kept import Kept
from muster.apiserver.webhooks.matching import in_version, is_meant, is_selected, matched, webhooks_in
from muster.apiserver.webhooks.policies import BINDINGS, Listener, Policies
from muster.apiserver.webhooks.reviews import (
    Verdict,
    denial,
    patched,
    request_of,
    review_of,
    verdict_of,
    version_for,
)
from muster.store.kinds import Object
from muster.store.port import Store

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"


Complete = Callable[[Object], Object]  # the server's own rules, run again on what a webhook has changed
_CALLS_AT_ONCE = 64


class _Asked(NamedTuple):
    """A webhook that a write concerns."""

    key: str
    webhook: Object
    matched: Attributes


class Webhooks:
    """All webhooks that there are at a time."""

    def __init__(self, store: Store, catalog: Catalog, access: Access) -> None:
        self._kept = Kept(store, catalog)
        self._access = access
        self._policies = Policies(self._kept, catalog, access)
        self._client = Client()
        self._services = services_in_environment()

    @property
    def are_there(self) -> bool:
        """Whether there are any, or policies in effect: almost always there are none."""
        return any(map(self._kept.has_any, (MUTATING, VALIDATING, BINDINGS)))

    def concern(self, asked: Attributes) -> bool:
        """Whether any webhook or policy may have a say: then a write takes the longer way."""
        is_named = any(next(self._named(resource, asked), None) is not None for resource in (MUTATING, VALIDATING))
        return is_named or self._policies.concern(asked)

    async def mutate(self, asked: Attributes, listener: Listener, complete: Complete) -> Object | None:
        """The object as the webhooks want it; who asked for it is asked again where others have changed it since."""
        to_ask_again: dict[str, None] = {}
        seen: dict[str, None] = {}  # asked already, and willing to be asked again
        is_changed = False
        for one in self._named(MUTATING, asked):
            new = await self._changed(one.webhook, asked, listener)
            if new is not None and new != asked.object:
                is_changed = True
                to_ask_again.update(seen)
                asked = asked.about(new)
            if one.webhook.get("reinvocationPolicy") == "IfNeeded":
                seen[one.key] = None
        if not is_changed or asked.object is None:
            return asked.object
        completed = complete(deepcopy(asked.object))
        if completed != asked.object:
            to_ask_again.update(seen)
            asked = asked.about(completed)
        for one in self._named(MUTATING, asked):
            if one.key in to_ask_again:
                new = await self._changed(one.webhook, asked, listener)
                if new is not None and new != asked.object:
                    to_ask_again.update(seen)
                    asked = asked.about(new)
        return asked.object

    async def validate(self, asked: Attributes, listener: Listener) -> None:
        """Raise what the first policy or webhook that does not allow the write says."""
        self._policies.check(asked, listener)
        limit = asyncio.Semaphore(_CALLS_AT_ONCE)

        async def judge(webhook: Object) -> Problem | None:
            async with limit:
                try:
                    await self._verdict(webhook, asked, listener, is_mutating=False)
                except Problem as problem:
                    return problem
            return None

        found = await asyncio.gather(*(judge(one.webhook) for one in self._named(VALIDATING, asked)))
        for problem in found:
            if problem is not None:
                raise problem

    # One webhook -----------------------------------------------------------------------------------------------------

    async def _changed(self, webhook: Object, asked: Attributes, listener: Listener) -> Object | None:
        """The object after one webhook, in the version of the request."""
        answer = await self._verdict(webhook, asked, listener, is_mutating=True)
        if answer is None or not answer[0].patch:
            return None
        verdict, named = answer
        if named.object is None:
            raise _broken(webhook, "the webhook has changed an object where there is none to change")
        try:
            after = patched(deepcopy(named.object), verdict)
        except CallFailed as failure:
            if webhook.get("failurePolicy") == "Ignore":
                return None
            raise _broken(webhook, str(failure)) from None
        if named.served is not asked.served:
            after = asked.served.kept.convert(after, asked.served.api_version)
        return after

    async def _verdict(
        self, webhook: Object, asked: Attributes, listener: Listener, *, is_mutating: bool
    ) -> tuple[Verdict, Attributes] | None:
        """What a webhook says of a write that it allows; None where it is not concerned or its failure is ignored."""
        named = matched(webhook, asked, self._kept.versions(asked.served))
        if named is None or not is_selected(webhook, asked, self._kept.namespace_labels):
            return None
        named = in_version(named, asked)
        uid = str(uuid.uuid4())
        request = request_of(asked, named, uid)
        told = {name: one for name, one in request.items() if name != "uid"}
        if not is_meant(webhook, named, told, authorizer_of(self._access, asked.user)):
            return None
        if asked.is_dry_run and webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            problem = f'admission webhook "{webhook["name"]}" does not support dry run'
            raise Problem(400, "BadRequest", problem)
        try:
            verdict = await self._call(webhook, request, is_mutating=is_mutating)
        except CallFailed as failure:
            if webhook.get("failurePolicy") == "Ignore":
                return None
            raise _broken(webhook, str(failure)) from None
        listener.warn(verdict.warnings)
        if not verdict.is_allowed:
            raise denial(webhook["name"], verdict.status)
        return verdict, named

    async def _call(self, webhook: Object, request: Object, *, is_mutating: bool) -> Verdict:
        version = version_for(webhook)
        endpoint = endpoint_of(webhook["clientConfig"], self._services)
        timeout_s = int(webhook.get("timeoutSeconds") or 10)
        body = await self._client.post(endpoint, review_of(request, version), timeout_s=timeout_s)
        return verdict_of(body, uid=request["uid"], version=version, is_mutating=is_mutating)

    # What there is ---------------------------------------------------------------------------------------------------

    def _named(self, resource: str, asked: Attributes) -> Iterator[_Asked]:
        """The webhooks whose rules name a write, in their order."""
        for key, webhook in webhooks_in(self._kept.all(resource)):
            found = matched(webhook, asked, self._kept.versions(asked.served))
            if found is not None:
                yield _Asked(key, webhook, found)

    async def close(self) -> None:
        """Hang up on all webhooks."""
        await self._client.close()


def _broken(webhook: Object, why: str) -> Problem:
    return internal_error(f'failed calling webhook "{webhook["name"]}": {why}')
