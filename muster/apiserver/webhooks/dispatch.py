"""Asks webhooks about writes: those that change them one after the other, those that only judge all at once.

Used by the handlers of writes, outside of any transaction: a webhook that hangs holds up nobody but its own request.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

from muster.apiserver.served import Catalog, Served
from muster.apiserver.statuses import Problem
from muster.apiserver.webhooks.attributes import Attributes, labels_of
from muster.apiserver.webhooks.client import CallFailed, Client, endpoint_of, services_in_environment
from muster.apiserver.webhooks.matching import is_meant, is_selected, matched, webhooks_in
from muster.apiserver.webhooks.reviews import (
    Verdict,
    denial,
    internal_error,
    patched,
    request_of,
    review_of,
    verdict_of,
    version_for,
)
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.port import Store
from muster.store.records import Key, Scope

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
Warn = Callable[[tuple[str, ...]], None]
Complete = Callable[[Object], Object]  # the server's own rules, run again on what a webhook has changed
_CALLS_AT_ONCE = 64


class _Asked(NamedTuple):
    """A webhook that a write concerns."""

    key: str
    webhook: Object
    matched: Attributes


class Webhooks:
    """All webhooks that there are at a time."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog
        self._client = Client()
        self._services = services_in_environment()
        self._configurations: dict[str, tuple[list[int], list[Object]]] = {}  # by resource, with their revisions

    @property
    def are_there(self) -> bool:
        """Whether there are any: almost always there are none."""
        return any(self._store.page(Scope(resource), limit=1).records for resource in (MUTATING, VALIDATING))

    def concern(self, asked: Attributes) -> bool:
        """Whether any webhook may have to be asked: then a write takes the longer way."""
        return any(next(self._named(resource, asked), None) is not None for resource in (MUTATING, VALIDATING))

    async def mutate(self, asked: Attributes, warn: Warn, complete: Complete) -> Object | None:
        """The object as the webhooks want it; who asked for it is asked again where others have changed it since."""
        to_ask_again: dict[str, None] = {}
        seen: dict[str, None] = {}  # asked already, and willing to be asked again
        is_changed = False
        for one in self._named(MUTATING, asked):
            new = await self._changed(one.webhook, asked, warn)
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
                new = await self._changed(one.webhook, asked, warn)
                if new is not None and new != asked.object:
                    to_ask_again.update(seen)
                    asked = asked.about(new)
        return asked.object

    async def validate(self, asked: Attributes, warn: Warn) -> None:
        """Raise what the first webhook that does not allow the write says."""
        limit = asyncio.Semaphore(_CALLS_AT_ONCE)

        async def judge(webhook: Object) -> Problem | None:
            async with limit:
                try:
                    await self._verdict(webhook, asked, warn, is_mutating=False)
                except Problem as problem:
                    return problem
            return None

        found = await asyncio.gather(*(judge(one.webhook) for one in self._named(VALIDATING, asked)))
        for problem in found:
            if problem is not None:
                raise problem

    # One webhook -----------------------------------------------------------------------------------------------------

    async def _changed(self, webhook: Object, asked: Attributes, warn: Warn) -> Object | None:
        """The object after one webhook, in the version of the request."""
        answer = await self._verdict(webhook, asked, warn, is_mutating=True)
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
        self, webhook: Object, asked: Attributes, warn: Warn, *, is_mutating: bool
    ) -> tuple[Verdict, Attributes] | None:
        """What a webhook says of a write that it allows; None where it is not concerned or its failure is ignored."""
        named = matched(webhook, asked, self._versions(asked.served))
        if named is None or not is_selected(webhook, asked, self._namespace_labels):
            return None
        named = _in_version(named, asked)
        uid = str(uuid.uuid4())
        request = request_of(asked, named, uid)
        if not is_meant(webhook, named, {name: one for name, one in request.items() if name != "uid"}):
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
        warn(verdict.warnings)
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
        for key, webhook in webhooks_in(self._all(resource)):
            found = matched(webhook, asked, self._versions(asked.served))
            if found is not None:
                yield _Asked(key, webhook, found)

    def _all(self, resource: str) -> list[Object]:
        records = self._store.page(Scope(resource)).records
        if not records:
            return []
        revisions = [record.revision for record in records]
        known = self._configurations.get(resource)
        if known is None or known[0] != revisions:
            known = self._configurations[resource] = (revisions, [decode(record) for record in records])
        return known[1]

    def _versions(self, served: Served) -> list[Served]:
        return [one for one in self._catalog.all if one.resource == served.resource and one is not served]

    def _namespace_labels(self, name: str) -> dict[str, str]:
        try:
            return labels_of(decode(self._store.get(Key("namespaces", "", name))))
        except NotFound:
            return {}

    async def close(self) -> None:
        """Hang up on all webhooks."""
        await self._client.close()


def _in_version(named: Attributes, asked: Attributes) -> Attributes:
    """The write with its objects in the version that the webhook is for."""
    if named.served is asked.served or asked.kind is not None:
        return named

    def converted(given: Object | None) -> Object | None:
        return named.served.kept.convert(deepcopy(given), named.served.api_version) if given is not None else None

    return replace(named, object=converted(asked.object), before=converted(asked.before))


def _broken(webhook: Object, why: str) -> Problem:
    return internal_error(f'failed calling webhook "{webhook["name"]}": {why}')
