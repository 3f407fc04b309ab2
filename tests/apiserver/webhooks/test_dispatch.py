"""Webhooks that hang, lie or are slow; objects that change meanwhile; versions; what is never asked about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.admission.test_rows import everything
from tests.apiserver.webhooks.hooks import Hooks, running
from tests.apiserver.webhooks.stories import CONFIGS, GROUP, Json, Story, config, configurations, hook
from tests.apiserver.world import World, in_world

PLACE = CONFIGS.format(ns="default")
MERGE = {"content-type": "application/merge-patch+json"}


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    with running(tmp_path_factory.mktemp("hooks")) as server:
        yield server


async def configured(world: World, hooks: Hooks, **given: Any) -> None:
    hooks.asked.clear()
    hooks.is_released.clear()
    for path, body in configurations(Story(requests=(), **given), "default", hooks):
        assert (await world.request("POST", path, body)).status == 201


async def until(is_done: Any) -> None:
    async with asyncio.timeout(20):
        while not is_done():
            await asyncio.sleep(0)


def test_one_that_hangs_holds_up_nobody_else(hooks: Hooks) -> None:
    async def story(world: World) -> None:
        only = {"objectSelector": {"matchLabels": {"slow": "yes"}}}
        await configured(world, hooks, validating=(hook("/slow", timeoutSeconds=30, **only),))
        hanging = [
            asyncio.create_task(world.request("POST", PLACE, config(f"slow-{number}", labels={"slow": "yes"})))
            for number in range(20)
        ]
        await until(lambda: len(hooks.asked) == 20)
        assert (await world.request("POST", PLACE, config("quick"))).status == 201
        assert not any(task.done() for task in hanging)
        hooks.is_released.set()
        assert {one.status for one in await asyncio.gather(*hanging)} == {201}

    in_world(story, catalog=everything())


def test_an_object_that_changes_meanwhile_is_judged_again(hooks: Hooks) -> None:
    async def story(world: World) -> None:
        await world.request("POST", PLACE, config("a"))
        only = {"matchConditions": [{"name": "c", "expression": "'mine' in object.data && !('theirs' in object.data)"}]}
        await configured(world, hooks, validating=(hook("/slow", "UPDATE", timeoutSeconds=30, **only),))
        mine = asyncio.create_task(world.request("PATCH", f"{PLACE}/a", {"data": {"mine": "1"}}, headers=MERGE))
        await until(lambda: hooks.asked)
        theirs = await world.request("PATCH", f"{PLACE}/a", {"data": {"theirs": "2"}}, headers=MERGE)
        assert theirs.status == 200
        hooks.is_released.set()
        assert (await mine).status == 200
        assert (await world.get(f"{PLACE}/a")).json["data"] == {"mine": "1", "theirs": "2"}
        assert len(hooks.asked) == 1, "the second time its condition does not hold"

    in_world(story, catalog=everything())


def test_an_object_of_a_known_revision_conflicts_when_it_changes_meanwhile(hooks: Hooks) -> None:
    async def story(world: World) -> None:
        made = (await world.request("POST", PLACE, config("a"))).json
        only = {"matchConditions": [{"name": "c", "expression": "has(object.data) && 'mine' in object.data"}]}
        await configured(world, hooks, validating=(hook("/slow", "UPDATE", timeoutSeconds=30, **only),))
        body = {**made, "data": {"mine": "1"}}
        mine = asyncio.create_task(world.request("PUT", f"{PLACE}/a", body))
        await until(lambda: hooks.asked)
        await world.request("PATCH", f"{PLACE}/a", {"data": {"theirs": "2"}}, headers=MERGE)
        hooks.is_released.set()
        assert (await mine).status == 409

    in_world(story, catalog=everything())


def test_an_answer_without_end_is_refused(hooks: Hooks) -> None:
    async def story(world: World) -> None:
        await configured(world, hooks, validating=(hook("/huge"),))
        answer = await world.request("POST", PLACE, config("a"))
        assert answer.status == 500
        assert "the answer is longer than" in answer.json["message"]

    in_world(story, catalog=everything())


def test_a_certificate_of_another_authority_is_not_trusted(hooks: Hooks) -> None:
    async def story(world: World) -> None:
        await configured(world, hooks, validating=(hook("/allow"),))
        path = f"{GROUP}/validatingwebhookconfigurations/default"
        found = (await world.get(path)).json
        for one in found["webhooks"]:
            del one["clientConfig"]["caBundle"]
        assert (await world.request("PUT", path, found)).status == 200
        answer = await world.request("POST", PLACE, config("a"))
        assert answer.status == 500 and "certificate verify failed" in answer.json["message"]
        assert not hooks.asked

    in_world(story, catalog=everything())


def test_a_service_is_reached_where_the_setting_says(hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        await configured(world, hooks, validating=(hook("/allow"),))
        path = f"{GROUP}/validatingwebhookconfigurations/default"
        found = (await world.get(path)).json
        found["webhooks"][0]["clientConfig"] = {
            "service": {"namespace": "n", "name": "s", "path": "/deny"},
            "caBundle": hooks.bundle,
        }
        assert (await world.request("PUT", path, found)).status == 200
        answer = await world.request("POST", PLACE, config("a"))
        assert answer.status == 500
        # The certificate of the server here is not for that name, which is what has to be found out.
        assert ("s.n.svc" in answer.json["message"]) == is_mapped

    for is_mapped in (False, True):
        where = hooks.url.removeprefix("https://")
        monkeypatch.setenv("MUSTER_WEBHOOK_SERVICES", f"n/s={where}" if is_mapped else "")
        in_world(story, catalog=everything())


def test_webhooks_are_not_asked_about_webhooks(hooks: Hooks) -> None:
    async def story(world: World) -> None:
        everything_there_is = hook("/deny", resources=("*/*",))
        await configured(world, hooks, mutating=(everything_there_is,), validating=(everything_there_is,))
        hooks.asked.clear()
        for kind in ("mutating", "validating"):
            assert (await world.request("DELETE", f"{GROUP}/{kind}webhookconfigurations/default")).status == 200
        assert not hooks.asked

    in_world(story, catalog=everything())


def queue(version: str) -> Json:
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "LocalQueue",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"clusterQueue": "c"},
    }


@pytest.mark.parametrize(("policy", "want"), [("Equivalent", ["v1beta1"]), ("Exact", [])])
def test_a_webhook_for_another_version_sees_that_version(hooks: Hooks, policy: str, want: list[str]) -> None:
    async def story(world: World) -> None:
        rule = {"operations": ["*"], "apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["v1beta1"], "resources": ["*"]}
        older = {**hook("/label/seen/yes"), "rules": [rule], "matchPolicy": policy}
        await configured(world, hooks, mutating=(older,))
        place = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues"
        made = (await world.request("POST", place, queue("v1beta2"))).json
        assert [request["object"]["apiVersion"].partition("/")[2] for _, request in hooks.asked] == want
        assert [request["requestKind"]["version"] for _, request in hooks.asked] == ["v1beta2"] * len(want)
        assert made["apiVersion"] == "kueue.x-k8s.io/v1beta2"
        assert ("labels" in made["metadata"]) == bool(want)

    in_world(story, catalog=everything())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"admissionReviewVersions": ["v9"]}, "webhooks[0].admissionReviewVersions"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"failurePolicy": "Perhaps"}, "webhooks[0].failurePolicy"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"clientConfig": {"url": "http://x/"}}, "webhooks[0].clientConfig.url"),
        ({"matchConditions": [{"name": "c", "expression": "1 +"}]}, "webhooks[0].matchConditions[0].expression"),
        ({"matchConditions": [{"name": "c", "expression": "1"}]}, "webhooks[0].matchConditions[0].expression"),
        ({"rules": [{"operations": ["SING"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]},
         "webhooks[0].rules[0].operations[0]"),
        ({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}]},
         "webhooks[0].rules[0].resources"),
    ],
)  # fmt: skip
def test_a_configuration_that_is_wrong_is_refused(hooks: Hooks, change: Json, field: str) -> None:
    async def story(world: World) -> None:
        path, body = configurations(Story(requests=(), validating=(hook("/allow"),)), "default", hooks)[1]
        body["webhooks"] = [{**body["webhooks"][0], **change}]
        answer = await world.request("POST", path, body)
        assert answer.status == 422
        assert [one["field"] for one in answer.json["details"]["causes"]] == [field]

    in_world(story, catalog=everything())
