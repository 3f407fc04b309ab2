"""Events are kept for an hour from when something was last added to them."""

from __future__ import annotations

from muster.controllers.old_events import KEPT_S, LOOK_S, REMOVED_AT_ONCE, OldEvents
from tests.apiserver.world import World, in_world

EVENTS = "/api/v1/namespaces/other/events"


async def tell(world: World, name: str) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": "other"}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about, "count": 1}
    assert (await world.request("POST", EVENTS, event)).status == 201


async def names(world: World) -> set[str]:
    return {one["metadata"]["name"] for one in (await world.get(EVENTS)).json["items"]}


def test_an_event_goes_after_an_hour_and_one_that_was_told_again_stays():
    async def story(world: World) -> None:
        old_events = OldEvents(world.front, world.objects, world.clock)
        for name in ("once", "again"):
            await tell(world, name)
        await old_events.look()
        world.clock.advance(KEPT_S - LOOK_S)
        again = (await world.get(f"{EVENTS}/again")).json
        assert (await world.request("PUT", f"{EVENTS}/again", {**again, "count": 2})).status == 200
        await tell(world, "new")
        await old_events.look()
        assert await names(world) == {"once", "again", "new"}
        world.clock.advance(LOOK_S)
        await old_events.look()
        assert await names(world) == {"again", "new"}
        world.clock.advance(KEPT_S)
        await old_events.look()
        assert await names(world) == set()

    in_world(story)


def test_many_go_in_several_writes():
    async def story(world: World) -> None:
        old_events = OldEvents(world.front, world.objects, world.clock)
        for number in range(2 * REMOVED_AT_ONCE + 1):
            await tell(world, f"e{number}")
        await old_events.look()
        world.clock.advance(KEPT_S)
        await old_events.look()
        assert await names(world) == set()

    in_world(story)
