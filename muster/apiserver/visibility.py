"""visibility.kueue.x-k8s.io: who waits in a queue, and in which place. Called by `subresources`; nothing is kept."""

from __future__ import annotations

import asyncio
from types import MappingProxyType

from muster.apiserver.answers import Answer, json_answer
from muster.apiserver.api import Api
from muster.apiserver.facts import Kind, Subresource
from muster.apiserver.requests import Request, Target
from muster.apiserver.served import Served
from muster.apiserver.statuses import Problem, bad_request
from muster.dialects.kueue.names import GROUP as KUEUE
from muster.dialects.kueue.visibility import GROUP, PENDING, VERSIONS, waiting_in
from muster.model.fields import Fields
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.port import Store
from muster.store.records import Key, Scope

_USUAL_LIMIT = 1_000
_NUMBER_MOST = 2**31 - 1


def _kind(version: str, name: str, *, is_namespaced: bool) -> Served:
    summary = Subresource(group=GROUP, version=version, kind="PendingWorkloadsSummary", verbs=("get",))
    kind = Kind(
        group=GROUP,
        version=version,
        kind=name,
        type_name="",
        plural=f"{name.lower()}s",
        singular=name.lower(),
        is_namespaced=is_namespaced,
        verbs=(),
        subresources=MappingProxyType({PENDING: summary}),
    )
    return Served(kind, None)


KINDS = tuple(
    _kind(version, name, is_namespaced=name == "LocalQueue")
    for version in VERSIONS
    for name in ("ClusterQueue", "LocalQueue")
)


async def pending(api: Api, request: Request, target: Target) -> Answer:
    """Those that wait in a queue, a page of them."""
    limit, offset = _number(request, "limit", _USUAL_LIMIT), _number(request, "offset", 0)
    items = await asyncio.to_thread(_items, api.store.store, target)
    kind = target.served.kind
    return json_answer(
        {
            "kind": "PendingWorkloadsSummary",
            "apiVersion": f"{kind.group}/{kind.version}",
            "metadata": {},
            "items": items[offset : offset + limit],
        }
    )


def _items(store: Store, target: Target) -> list[Object]:
    """All who wait; in a thread of its own, since they may be many."""
    kind = target.served.kind
    try:
        named = decode(store.get(Key(f"{kind.plural}.{KUEUE}", target.namespace, target.name)))
    except NotFound:
        details = {"name": target.name, "group": GROUP, "kind": kind.singular}
        raise Problem(404, "NotFound", f'{kind.singular}.{GROUP} "{target.name}" not found', details=details) from None
    queue = (named["spec"].get("clusterQueue") or "") if kind.is_namespaced else target.name
    submit_queues = {}
    for record in store.page(Scope(f"localqueues.{KUEUE}")).records:
        submit_queues[record.key.path] = decode(record)["spec"].get("clusterQueue") or ""
    workloads = (Fields(decode(record)) for record in store.page(Scope(f"workloads.{KUEUE}")).records)
    waiting = waiting_in(workloads, submit_queues, queue) if queue else []
    own = f"{target.namespace}/{target.name}"
    return [one.item() for one in waiting if not kind.is_namespaced or one.submit_queue == own]


def _number(request: Request, name: str, usual: int) -> int:
    text = request.option(name)
    if not text:
        return usual
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > _NUMBER_MOST:
        raise bad_request(f"{name} is no whole number from 0 on")
    return int(text)
