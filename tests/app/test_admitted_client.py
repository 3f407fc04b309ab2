"""What controllers write meets users' policies and webhooks as everybody's writes do, and costs nothing without any."""

from __future__ import annotations

from typing import Any

import pytest

from muster.app.admitted_client import AdmittedClient
from muster.store.binding import Binding
from muster.store.client import PlainClient
from muster.store.errors import Conflict, Forbidden
from muster.store.objects import Part
from muster.store.records import Key
from tests.apiserver.admission.test_rows import everything
from tests.apiserver.webhooks.hooks import running
from tests.apiserver.webhooks.policy_stories import BINDINGS, POLICIES, policy, rule
from tests.apiserver.webhooks.stories import GROUP, config, hook, pod
from tests.apiserver.world import World, in_world

CONFIGS, PODS = "configmaps", "pods"


def client_of(world: World) -> AdmittedClient:
    plain = PlainClient(world.front, world.objects, "controller", complete=world.api.admission.complete_new)
    return AdmittedClient(world.api, plain, "controller")


def placed(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], "namespace": "default"}}


async def bind_policy(world: World, spec: dict[str, Any]) -> None:
    assert (await world.request("POST", POLICIES, {"metadata": {"name": "p"}, "spec": spec})).status == 201
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    assert (await world.request("POST", BINDINGS, {"metadata": {"name": "p"}, "spec": binding})).status == 201


def test_a_policy_has_a_say_in_each_sort_of_write() -> None:
    async def story(world: World) -> None:
        client = client_of(world)
        made = await client.create(CONFIGS, placed(config("kept")))
        await client.create(PODS, placed(pod("p")))
        rules = (
            rule(CONFIGS, operations=("*",)),
            rule("pods/binding", operations=("CREATE",)),
            rule("pods/status", operations=("UPDATE",)),
        )
        told = "request.userInfo.username != 'controller'"
        await bind_policy(world, policy(told, rules=rules))
        with pytest.raises(Forbidden, match="denied request"):
            await client.create(CONFIGS, placed(config("new")))
        with pytest.raises(Forbidden, match="denied request"):
            await client.update(Key(CONFIGS, "default", "kept"), {**made, "data": {"a": "b"}})
        with pytest.raises(Forbidden, match="denied request"):
            await client.delete(Key(CONFIGS, "default", "kept"))
        with pytest.raises(Forbidden, match="denied request"):
            await client.bind(Binding(key=Key(PODS, "default", "p"), node="n"))
        bare = await client.create(PODS, placed(pod("q")))  # no rule names pods themselves
        running_pod = {**bare, "status": {**bare["status"], "phase": "Running"}}
        with pytest.raises(Forbidden, match="denied request"):
            await client.update(Key(PODS, "default", "q"), running_pod, Part.STATUS)
        await client.delete(Key(PODS, "default", "q"))

    in_world(story, catalog=everything())


def test_a_webhook_changes_what_a_controller_makes(tmp_path) -> None:
    async def story(world: World) -> None:
        with running(tmp_path) as hooks:
            webhook = hook("/label/a/b", "CREATE", resources=(PODS,), name="label.example.com")
            webhook["clientConfig"] = hooks.client_config(webhook.pop("path"))
            configuration = {"metadata": {"name": "label"}, "webhooks": [webhook]}
            path = f"{GROUP}/mutatingwebhookconfigurations"
            assert (await world.request("POST", path, configuration)).status == 201
            made = await client_of(world).create(PODS, placed(pod("p")))
            assert [path for path, _ in hooks.asked] == ["/label/a/b"]
            assert hooks.asked[0][1]["userInfo"]["username"] == "controller"
            assert made["metadata"]["labels"] == {"a": "b"}

    in_world(story, catalog=everything())


def test_a_write_to_what_has_changed_is_still_a_conflict() -> None:
    async def story(world: World) -> None:
        client = client_of(world)
        made = await client.create(CONFIGS, placed(config("c")))
        await bind_policy(world, policy("true"))
        await client.update(Key(CONFIGS, "default", "c"), {**made, "data": {"a": "b"}})
        with pytest.raises(Conflict):
            await client.update(Key(CONFIGS, "default", "c"), {**made, "data": {"a": "c"}})

    in_world(story, catalog=everything())
