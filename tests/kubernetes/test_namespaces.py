"""A namespace that waits for what is in it says the same as in a real cluster, and goes when that has gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from muster.app.kinds import catalog
from muster.controllers.tidying import Tidying
from tests.apiserver.world import World, in_world
from tests.kubernetes.client import Answer, Json

PATIENCE_S = 60.0
POLL_S = 0.1
NAME = "leaves"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIGS, GADGETS = f"/api/v1/namespaces/{NAME}/configmaps", f"/apis/example.org/v1/namespaces/{NAME}/gadgets"
MERGE = {"content-type": "application/merge-patch+json"}
Ask = Callable[[str, str, Json | None], Awaitable[Answer]]


def _definition() -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**kind, "metadata": {"name": "gadgets.example.org"}, "spec": spec}


async def _story(ask: Ask) -> tuple[set[tuple[str, ...]], bool]:
    """Make a namespace with what holds it, delete it, and let go; gives what it said, and whether it went."""
    await ask("POST", DEFINITIONS, _definition())
    await ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAME}})
    await _until(lambda: _is(ask, GADGETS, 200))
    gadget = {"apiVersion": "example.org/v1", "kind": "Gadget"}
    for number, holds in enumerate((["example.com/a"], ["example.com/a", "example.com/b"], [])):
        metadata = {"name": f"n{number}", "finalizers": holds}
        await ask("POST", CONFIGS, {"metadata": metadata})
        await ask("POST", GADGETS, {**gadget, "metadata": metadata})
    await ask("DELETE", f"/api/v1/namespaces/{NAME}", None)
    await _until(lambda: _has_told(ask))
    found = await _conditions(ask)
    for path in (CONFIGS, GADGETS):
        for number in (0, 1):
            await ask("PATCH", f"{path}/n{number}", {"metadata": {"finalizers": None}})
    await _until(lambda: _is(ask, f"/api/v1/namespaces/{NAME}", 404))
    return found, True


async def _conditions(ask: Ask) -> set[tuple[str, ...]]:
    status = (await ask("GET", f"/api/v1/namespaces/{NAME}", None)).json["status"]
    names = ("type", "status", "reason", "message")
    return {tuple(one[name] for name in names) for one in status.get("conditions", ())}


async def _has_told(ask: Ask) -> bool:
    return any(one[0] == "NamespaceFinalizersRemaining" and one[1] == "True" for one in await _conditions(ask))


async def _is(ask: Ask, path: str, status: int) -> bool:
    return (await ask("GET", path, None)).status == status


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not await holds():
        assert time.monotonic() < end_s, "it never held"
        await asyncio.sleep(POLL_S)


def test_both_say_the_same(plane_with_controllers):
    client = plane_with_controllers.client

    async def ask_real(method: str, path: str, body: Json | None) -> Answer:
        kind = MERGE["content-type"] if method == "PATCH" else "application/json"
        return await asyncio.to_thread(client.request, method, path, body, content_type=kind)

    theirs = asyncio.run(_story(ask_real))
    ours: list[tuple[set[tuple[str, ...]], bool]] = []

    async def in_ours(world: World) -> None:
        async def ask(method: str, path: str, body: Json | None) -> Answer:
            return await world.request(method, path, body, headers=MERGE if method == "PATCH" else {})

        tidying = asyncio.create_task(Tidying(world.front, world.objects, world.clock).run())
        ours.append(await _story(ask))
        tidying.cancel()

    in_world(in_ours, catalog=catalog())
    assert ours == [theirs]
