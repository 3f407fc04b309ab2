"""Lists: selectors, pages, and the state that they are of."""

from __future__ import annotations

import pytest

from muster.store.history import Limits
from tests.apiserver.world import World, config, in_world, pod

PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"


def names(answer) -> list[str]:
    return [one["metadata"]["name"] for one in answer.json["items"]]


def test_a_list_is_of_a_namespace_or_of_all():
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("b"))
        await world.request("POST", CONFIGS, config("a"))
        await world.request("POST", "/api/v1/namespaces/other/configmaps", config("c"))
        here = await world.get(CONFIGS)
        assert (here.json["kind"], here.json["apiVersion"]) == ("ConfigMapList", "v1")
        assert here.json["metadata"] == {"resourceVersion": str(world.store.revision)}
        assert names(here) == ["a", "b"]
        assert names(await world.get("/api/v1/configmaps")) == ["a", "b", "c"]
        assert names(await world.get("/api/v1/namespaces/empty/configmaps")) == []

    in_world(story)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("labelSelector=app=x", ["a", "b"]),
        ("labelSelector=app%3D%3Dx", ["a", "b"]),
        ("labelSelector=app!=x", ["c", "d"]),
        ("labelSelector=app", ["a", "b", "c"]),
        ("labelSelector=!app", ["d"]),
        ("labelSelector=app+in+(x,y),tier+notin+(front)", ["b", "c"]),
        ("labelSelector=tier+in+()", []),
        ("labelSelector=size%3E1", ["c"]),
        ("labelSelector=size%3C5", ["b"]),
        ("fieldSelector=metadata.name=a", ["a"]),
        ("fieldSelector=metadata.name!=a", ["b", "c", "d"]),
        ("fieldSelector=metadata.name==a,metadata.namespace=default", ["a"]),
        ("fieldSelector=spec.nodeName=n1", ["b"]),
        ("fieldSelector=spec.nodeName=", ["a", "d"]),
        ("fieldSelector=spec.nodeName!=n1,status.phase=Pending", ["a", "c", "d"]),
        ("fieldSelector=spec.hostNetwork=false", ["a", "b", "c", "d"]),
        ("labelSelector=app=x&fieldSelector=spec.nodeName=n1", ["b"]),
    ],
)
def test_selectors(selector, found):
    async def story(world: World) -> None:
        await world.request("POST", PODS, pod("a", labels={"app": "x", "tier": "front"}))
        await world.request("POST", PODS, pod("b", labels={"app": "x", "size": "1"}, spec={"nodeName": "n1"}))
        await world.request("POST", PODS, pod("c", labels={"app": "y", "size": "7"}, spec={"nodeName": "n2"}))
        await world.request("POST", PODS, pod("d"))
        assert names(await world.get(f"{PODS}?{selector}")) == found

    in_world(story)


@pytest.mark.parametrize("selector", ["", "&labelSelector=even=0", "&fieldSelector=metadata.name!=c07"])
def test_pages_are_of_one_state(selector):
    async def story(world: World) -> None:
        for number in range(20):
            await world.request("POST", CONFIGS, config(f"c{number:02}", labels={"even": str(number % 2)}))
        whole = names(await world.get(f"{CONFIGS}?{selector}"))
        page = await world.get(f"{CONFIGS}?limit=3{selector}")
        found, revision = names(page), page.json["metadata"]["resourceVersion"]
        while token := page.json["metadata"].get("continue"):
            await world.request("DELETE", f"{CONFIGS}/{whole[-1]}")
            await world.request("POST", CONFIGS, config(f"b{len(found)}", labels={"even": "0"}))
            page = await world.get(f"{CONFIGS}?limit=3&continue={token}{selector}")
            assert page.json["metadata"]["resourceVersion"] == revision
            assert len(names(page)) <= 3
            found += names(page)
        assert found == whole

    in_world(story)


def test_how_many_are_left():
    async def story(world: World) -> None:
        for number in range(5):
            await world.request("POST", CONFIGS, config(f"c{number}", labels={"a": "b"}))
        assert (await world.get(f"{CONFIGS}?limit=2")).json["metadata"]["remainingItemCount"] == 3
        selected = (await world.get(f"{CONFIGS}?limit=2&labelSelector=a")).json["metadata"]
        assert "remainingItemCount" not in selected, "not known without looking at all of them"
        last = (await world.get(f"{CONFIGS}?limit=5")).json["metadata"]
        assert set(last) == {"resourceVersion"}

    in_world(story)


def test_a_list_of_an_earlier_state():
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a"))
        then = world.store.revision
        await world.request("POST", CONFIGS, config("b"))
        exact = await world.get(f"{CONFIGS}?resourceVersion={then}&resourceVersionMatch=Exact")
        assert (names(exact), exact.json["metadata"]["resourceVersion"]) == (["a"], str(then))
        for query in (f"resourceVersion={then}", f"resourceVersion={then}&resourceVersionMatch=NotOlderThan", ""):
            assert names(await world.get(f"{CONFIGS}?{query}")) == ["a", "b"]
        assert names(await world.get(f"{CONFIGS}?resourceVersion=0")) == ["a", "b"]
        assert names(await world.get(f"{CONFIGS}?resourceVersion={then}&limit=5")) == ["a"]

    in_world(story)


def test_what_is_too_old_is_said_to_be():
    async def story(world: World) -> None:
        for number in range(9):
            await world.request("POST", CONFIGS, config(f"c{number}"))
        page = (await world.get(f"{CONFIGS}?limit=4")).json
        for number in range(9):
            await world.request("POST", CONFIGS, config(f"d{number}"))
        late = await world.get(f"{CONFIGS}?limit=4&continue={page['metadata']['continue']}")
        assert (late.status, late.json["reason"]) == (410, "Expired")
        rest = await world.get(f"{CONFIGS}?continue={late.json['metadata']['continue']}")
        assert names(rest) == [f"c{number}" for number in range(4, 9)] + [f"d{number}" for number in range(9)]
        exact = await world.get(f"{CONFIGS}?resourceVersion=3&resourceVersionMatch=Exact")
        assert (exact.status, exact.json["reason"]) == (410, "Expired")
        watch = await world.get(f"{CONFIGS}?watch=true&resourceVersion=3")
        assert (watch.status, watch.json["reason"]) == (410, "Expired")

    in_world(story, limits=Limits(events=5))


def test_a_forged_token_shows_nothing_of_another_namespace():
    async def story(world: World) -> None:
        await world.request("POST", "/api/v1/namespaces/other/configmaps", config("secret"))
        await world.request("POST", CONFIGS, config("a"))
        await world.request("POST", CONFIGS, config("b"))
        token = (await world.get("/api/v1/configmaps?limit=1")).json["metadata"]["continue"]
        assert names(await world.get(f"{CONFIGS}?continue={token}")) == ["b"]

    in_world(story)
