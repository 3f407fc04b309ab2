"""What is left behind is deleted: by owners, and by namespaces."""

from __future__ import annotations

import asyncio

from muster.controllers.tidying import Tidying
from muster.store.errors import Unavailable
from tests.apiserver.world import World, config, in_world

CONFIGS = "/api/v1/namespaces/other/configmaps"
MERGE = {"content-type": "application/merge-patch+json"}


async def tidied(world: World, *, until) -> None:
    """Let the collector work until something holds."""
    tidying = asyncio.create_task(Tidying(world.front, world.objects, world.clock).run())
    try:
        async with asyncio.timeout(5):
            while not await until():
                await asyncio.sleep(0)
    finally:
        tidying.cancel()
        await asyncio.gather(tidying, return_exceptions=True)


def owned_by(owner: dict) -> list[dict]:
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}]


def test_what_an_owner_leaves_goes_too():
    async def story(world: World) -> None:
        owner = (await world.request("POST", CONFIGS, config("owner"))).json["metadata"]
        await world.request("POST", CONFIGS, config("owned", ownerReferences=owned_by(owner)))
        await world.request("POST", CONFIGS, config("free"))
        await world.request("DELETE", f"{CONFIGS}/owner")

        async def is_done() -> bool:
            return (await world.get(f"{CONFIGS}/owned")).status == 404

        await tidied(world, until=is_done)
        assert (await world.get(f"{CONFIGS}/free")).status == 200

    in_world(story)


def test_a_namespace_goes_when_it_is_empty():
    async def story(world: World) -> None:
        for number in range(250):
            await world.request("POST", CONFIGS, config(f"c{number}"))
        await world.request("POST", CONFIGS, config("held", finalizers=["example.com/hold"]))
        await world.request("DELETE", "/api/v1/namespaces/other")

        async def is_nearly_empty() -> bool:
            return len((await world.get(CONFIGS)).json["items"]) == 1

        await tidied(world, until=is_nearly_empty)
        assert (await world.get("/api/v1/namespaces/other")).json["status"]["phase"] == "Terminating"

        async def is_gone() -> bool:
            await world.request("PATCH", f"{CONFIGS}/held", {"metadata": {"finalizers": None}}, headers=MERGE)
            return (await world.get("/api/v1/namespaces/other")).status == 404

        await tidied(world, until=is_gone)
        assert (await world.get("/api/v1/namespaces/default")).status == 200

    in_world(story)


def test_a_namespace_says_what_it_waits_for():
    async def story(world: World) -> None:
        holds = ["example.com/a", "example.com/b"]
        for number in range(150):
            await world.request("POST", CONFIGS, config(f"held{number}", finalizers=holds[: 1 + number % 2]))
        await world.request("POST", CONFIGS, config("zfree"))
        await world.request("DELETE", "/api/v1/namespaces/other")
        found: dict[str, tuple[str, str, str]] = {}

        async def has_told() -> bool:
            status = (await world.get("/api/v1/namespaces/other")).json["status"]
            for one in status.get("conditions", ()):
                found[one["type"]] = (one["status"], one["reason"], one["message"])
            return bool(found)

        await tidied(world, until=has_told)
        holding = "example.com/a in 150 resource instances, example.com/b in 75 resource instances"
        assert found == {
            "NamespaceDeletionDiscoveryFailure": (
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            "NamespaceDeletionGroupVersionParsingFailure": (
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            "NamespaceDeletionContentFailure": (
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            "NamespaceContentRemaining": (
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 150 resource instances",
            ),
            "NamespaceFinalizersRemaining": (
                "True",
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {holding}",
            ),
        }
        assert len((await world.get(CONFIGS)).json["items"]) == 150, "what nobody holds is gone, though it comes last"

    in_world(story)


def test_the_collector_outlives_a_store_that_cannot_write(monkeypatch):
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a"))
        await world.request("DELETE", "/api/v1/namespaces/other")
        submit = world.store.submit
        refusals = 0

        def refuse_once(change, done):
            nonlocal refusals
            refusals += 1
            if refusals == 1:
                raise Unavailable("the disk is full")
            submit(change, done)

        monkeypatch.setattr(world.store, "submit", refuse_once)

        async def is_gone() -> bool:
            if refusals:
                world.clock.advance(2)
            return (await world.get("/api/v1/namespaces/other")).status == 404

        await tidied(world, until=is_gone)

    in_world(story)
