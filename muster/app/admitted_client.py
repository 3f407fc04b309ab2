"""The writes of controllers where users have webhooks or policies: those have the same say in them as in everybody's.

Made by `living`. Without any of them a write costs three looks at empty tables more than a plain one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from muster.apiserver.admission.review import Outcome, admitted, admitted_part, attributes_of, reviewed
from muster.apiserver.api import Api
from muster.apiserver.requests import Request, Target, User
from muster.apiserver.served import Served
from muster.apiserver.statuses import Problem
from muster.apiserver.webhooks import Operation
from muster.store.binding import Binding
from muster.store.client import PlainClient
from muster.store.errors import Conflict, Forbidden
from muster.store.kinds import Object
from muster.store.metadata import metadata_of
from muster.store.objects import PLAINLY, By, Part, Written, decode
from muster.store.port import Change
from muster.store.records import Key
from muster.store.rules import Deletion

Result = TypeVar("Result")
_CONFLICT = 409


class AdmittedClient:
    """Writes as a controller, through the webhooks and policies that there are."""

    def __init__(self, api: Api, plain: PlainClient, user: str) -> None:
        self._api = api
        self._plain = plain
        self._user = User(user, groups=("system:authenticated",))
        self._by = By(user)

    async def create(self, resource: str, given: Object) -> Object:
        if not self._api.webhooks.are_there:
            return await self._plain.create(resource, given)
        metadata = metadata_of(given)
        target = Target(self._served(resource), metadata.get("namespace") or "", metadata.get("name") or "")

        def build(api: Api) -> Change[Outcome]:
            complete = api.admission.complete_new
            make = api.objects.create(resource, given, self._by, complete=lambda new, _: complete(resource, new))
            return lambda write: (make(write), 201)

        written, _ = await _told(target.key, lambda: reviewed(self._api, self._request("POST"), target, build))
        return decode(written.record)

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        if not self._api.webhooks.are_there:
            return await self._plain.update(key, given, part)
        subresource = "" if part is Part.MAIN else part.value
        target = Target(self._served(key.resource), key.namespace, key.name, subresource)

        def build(api: Api) -> Change[Outcome]:
            complete = partial(api.admission.complete, key.resource)
            change = api.objects.modify(key, lambda _: given, part=part, by=self._by, complete=complete)
            return lambda write: (change(write), 200)

        written: Written
        written, _ = await _told(key, lambda: reviewed(self._api, self._request("PUT"), target, build))
        return decode(written.record)

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        if self._api.webhooks.are_there:
            request, target = self._request("DELETE"), Target(self._served(key.resource), key.namespace, key.name)
            asked = attributes_of(request, target, Operation.DELETE)
            if self._api.webhooks.concern(asked):
                asked = replace(asked, before=decode(self._api.store.store.get(key)))
                await _told(key, lambda: admitted(self._api, request, asked))
        return await self._plain.delete(key, deletion)

    async def bind(self, binding: Binding) -> int:
        if self._api.webhooks.are_there:
            key = binding.key
            target = Target(self._served(key.resource), key.namespace, key.name, "binding")
            sent = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": key.name, "uid": binding.uid} if binding.uid else {"name": key.name},
                "target": {"kind": "Node", "name": binding.node},
            }
            await _told(key, lambda: admitted_part(self._api, self._request("POST"), target, sent))
        return await self._plain.bind(binding)

    def _served(self, resource: str) -> Served:
        return next(one for one in self._api.catalog.all if one.resource == resource and one.is_stored_version)

    def _request(self, method: str) -> Request:
        """A request that nobody has sent: what webhooks are told of it, and who hears their warnings."""
        return Request({"method": method, "path": "", "headers": (), "query_string": b""}, _nothing, self._user)


async def _nothing() -> dict[str, object]:
    raise AssertionError("a write of the server itself has no body to read")


async def _told(key: Key, write: Callable[[], Awaitable[Result]]) -> Result:
    """Make a write; what webhooks and policies say against it is an error as of the store."""
    try:
        return await write()
    except Problem as problem:
        error = Conflict if problem.code == _CONFLICT else Forbidden
        raise error(key, problem.message) from None
