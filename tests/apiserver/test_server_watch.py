"""Watches: what they send, in which order, in which form, and when they end."""

from __future__ import annotations

import asyncio

import pytest

from muster.apiserver import streams, watch_lines, watching
from muster.store.history import Limits
from tests.apiserver.world import World, config, in_world, pod

CONFIGS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content-type": "application/merge-patch+json"}


def told(events) -> list[tuple[str, str]]:
    return [(one["type"], one["object"]["metadata"]["name"]) for one in events]


def test_changes_come_in_order_from_a_revision_on():
    async def story(world: World) -> None:
        made = (await world.request("POST", CONFIGS, config("a"))).json["metadata"]
        async with world.exchange("GET", f"{CONFIGS}?watch=true&resourceVersion={made['resourceVersion']}") as watch:
            await world.request("POST", CONFIGS, config("b"))
            await world.request("PATCH", f"{CONFIGS}/a", {"data": {"k": "v"}}, headers=MERGE)
            await world.request("POST", "/api/v1/namespaces/other/configmaps", config("elsewhere"))
            await world.request("DELETE", f"{CONFIGS}/a")
            events = await watch.events(3)
            assert told(events) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a")]
            revisions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events]
            assert revisions == sorted(revisions)
            assert revisions[-1] == world.store.revision, "a deletion has a revision of its own"

    in_world(story)


@pytest.mark.parametrize("revision", ["", "&resourceVersion=0"])
def test_without_a_revision_the_present_comes_first(revision):
    async def story(world: World) -> None:
        for name in "ba":
            await world.request("POST", CONFIGS, config(name))
        async with world.exchange("GET", f"{CONFIGS}?watch=true{revision}") as watch:
            await world.request("POST", CONFIGS, config("c"))
            assert told(await watch.events(3)) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]

    in_world(story)


def test_a_list_as_a_watch_says_where_the_present_ends():
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a"))
        query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with world.exchange("GET", f"{CONFIGS}?{query}") as watch:
            added, end = await watch.events(2)
            assert told([added]) == [("ADDED", "a")]
            assert (end["type"], end["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
            assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert end["object"]["metadata"]["resourceVersion"] == str(world.store.revision)
            await world.request("POST", CONFIGS, config("b"))
            assert told(await watch.events(1)) == [("ADDED", "b")]
        query = query.replace("sendInitialEvents=true", "sendInitialEvents=false")
        async with world.exchange("GET", f"{CONFIGS}?{query}") as watch:
            await asyncio.sleep(0)
            await world.request("POST", CONFIGS, config("c"))
            assert told(await watch.events(1)) == [("ADDED", "c")]

    in_world(story)


def test_a_selector_sees_objects_come_and_go():
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a", labels={"app": "x"}, data={"k": "old"}))
        query = f"watch=true&resourceVersion={world.store.revision}&labelSelector=app=x"
        async with world.exchange("GET", f"{CONFIGS}?{query}") as watch:
            await world.request("POST", CONFIGS, config("b", labels={"app": "y"}))
            for name, label in (("b", "x"), ("a", "y"), ("b", "x"), ("a", "y")):
                body = {"metadata": {"labels": {"app": label}}, "data": {"k": "new"}}
                await world.request("PATCH", f"{CONFIGS}/{name}", body, headers=MERGE)
            await world.request("DELETE", f"{CONFIGS}/a")
            await world.request("DELETE", f"{CONFIGS}/b")
            events = await watch.events(3)
            assert told(events) == [("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b")]
            left = events[1]["object"]
            assert (left["data"], left["metadata"]["labels"]) == ({"k": "old"}, {"app": "x"}), "as it last matched"
            assert left["metadata"]["resourceVersion"] == "6", "under the revision at which it stopped"

    in_world(story)


def test_a_field_selector_sees_them_too():
    async def story(world: World) -> None:
        async with world.exchange("GET", f"{PODS}?watch=true&fieldSelector=spec.nodeName=n1") as watch:
            await world.request("POST", PODS, pod("a"))
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n1"}}
            await world.request("POST", f"{PODS}/a/binding", binding)
            assert told(await watch.events(1)) == [("ADDED", "a")]

    in_world(story)


def test_forms():
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a", data={"k": "v"}))
        table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        async with world.exchange("GET", f"{CONFIGS}?watch=true", headers=table) as watch:
            (event,) = await watch.events(1)
            assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
            assert event["object"]["rows"][0]["cells"][0] == "a"
        metadata = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
        async with world.exchange("GET", f"{CONFIGS}?watch=true", headers=metadata) as watch:
            (event,) = await watch.events(1)
            assert event["object"]["kind"] == "PartialObjectMetadata"
            assert "data" not in event["object"]

    in_world(story)


def test_bookmarks_say_how_far_all_is_told(monkeypatch):
    monkeypatch.setattr(watching, "BOOKMARK_S", 0.01)

    async def story(world: World) -> None:
        query = f"watch=true&resourceVersion={world.store.revision}&allowWatchBookmarks=true"
        async with world.exchange("GET", f"{CONFIGS}?{query}") as watch:
            await world.request("POST", PODS, pod("other"))
            while (event := (await watch.events(1))[0])["object"]["metadata"]["resourceVersion"] != str(
                world.store.revision
            ):
                assert event["type"] == "BOOKMARK"

    in_world(story)


def test_the_last_bookmark_comes_before_the_end(monkeypatch):
    monkeypatch.setattr(watching, "LAST_BOOKMARK_S", 0.99)

    async def story(world: World) -> None:
        query = f"watch=true&resourceVersion={world.store.revision}&timeoutSeconds=1&allowWatchBookmarks=true"
        answer = await world.get(f"{CONFIGS}?{query}")
        assert answer.json["type"] == "BOOKMARK", "and nothing after it"

    in_world(story)


def test_a_watch_ends_after_its_time():
    async def story(world: World) -> None:
        answer = await world.get(f"{CONFIGS}?watch=true&timeoutSeconds=1")
        assert (answer.status, answer.body) == (200, b"")

    in_world(story)


def test_a_hundred_watches_share_the_bytes():
    async def story(world: World) -> None:
        path = f"{CONFIGS}?watch=true&resourceVersion={world.store.revision}"
        watches = [world.exchange("GET", path) for _ in range(100)]
        opened = [await one.__aenter__() for one in watches]
        await asyncio.sleep(0)
        for number in range(20):
            await world.request("POST", CONFIGS, config(f"c{number}"))
        for one in opened:
            assert told(await one.events(20)) == [("ADDED", f"c{number}") for number in range(20)]
        first, *others = [one.chunks for one in opened]
        assert all(len(one) == len(first) for one in others)
        shared = [all(one is other for one, other in zip(first, chunks, strict=True)) for chunks in others]
        assert all(shared), "the very same bytes go to all"
        for one in watches:
            await one.__aexit__(None, None, None)

    in_world(story)


# Slow clients and the end of the server ------------------------------------------------------------------------------


def test_a_client_that_is_slower_than_the_history_is_told_to_list_anew():
    async def story(world: World) -> None:
        async with world.exchange("GET", f"{CONFIGS}?watch=true&resourceVersion={world.store.revision}") as watch:
            await world.request("POST", CONFIGS, config("first"))
            await watch.events(1)
            watch.is_reading.clear()
            for number in range(20):
                await world.request("POST", CONFIGS, config(f"c{number}"))
            watch.is_reading.set()
            await watch.done
            last = watch.answer().body.splitlines()[-1]
            assert b'"type":"ERROR"' in last
            assert b'"reason":"Expired"' in last

    in_world(story, limits=Limits(events=5))


def test_what_has_piled_up_is_sent_piece_by_piece():
    async def story(world: World) -> None:
        since = world.store.revision
        for number in range(40):
            await world.request("POST", CONFIGS, config(f"c{number:02}", data={"k": "x" * 50_000}))
        async with world.exchange("GET", f"{CONFIGS}?watch=true&resourceVersion={since}") as watch:
            assert told(await watch.events(40)) == [("ADDED", f"c{number:02}") for number in range(40)]
            assert max(map(len, watch.chunks)) < 2 * watch_lines.CHUNK_BYTES

    in_world(story)


def test_watches_end_with_the_server():
    async def story(world: World) -> None:
        async with world.exchange("GET", f"{CONFIGS}?watch=true") as watch:
            await world.request("POST", CONFIGS, config("a"))
            await watch.events(1)
            world.app.streams.close()
            async with asyncio.timeout(5):
                await watch.done

    in_world(story)


@pytest.mark.parametrize("limit", ["MOST", "MOST_A_USER"])
def test_beyond_the_limit_a_watch_is_refused(monkeypatch, limit):
    monkeypatch.setattr(streams, limit, 1)

    async def story(world: World) -> None:
        async with world.exchange("GET", f"{CONFIGS}?watch=true"):
            await asyncio.sleep(0)
            assert (await world.get(f"{CONFIGS}?watch=true")).status == 429
        async with world.exchange("GET", f"{CONFIGS}?watch=true") as watch:
            await world.request("POST", CONFIGS, config("a"))
            assert told(await watch.events(1)) == [("ADDED", "a")], "there is room again"

    in_world(story)
