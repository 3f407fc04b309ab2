"""What every namespace and every role made of others has, whatever happens to it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable

from muster.controllers.accounts import Accounts
from muster.controllers.aggregation import Aggregation
from muster.controllers.following import Following
from muster.store.errors import Unavailable
from tests.apiserver.rights.guarded import RBAC, Guarded, guarded

HERE = "/api/v1/namespaces/default"
AUTHORITY = "the authority"
MERGE = {"content-type": "application/merge-patch+json"}
TOKENS = "kubernetes.io/service-account-token"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def loop_of(world: Guarded) -> Following:
    accounts = Accounts(world.objects, authority=AUTHORITY, token_for=world.api.accounts.lasting_token)
    return Following(world.front, world.clock, (accounts, Aggregation(world.objects)))


def followed(story: Callable[[Guarded, Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
    """Run a story beside the loop; what it is given waits until the loop has nothing more to do."""

    async def whole(world: Guarded) -> None:
        task = asyncio.create_task(loop_of(world).run())

        async def settled() -> None:
            revision = -1
            while revision != world.store.revision:
                revision = world.store.revision
                for _ in range(50):
                    await asyncio.sleep(0)

        try:
            await settled()
            await story(world, settled)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    guarded(whole)


def test_every_namespace_has_an_account_and_the_authority():
    async def story(world: Guarded, settled) -> None:
        await world.admin("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
        await settled()
        for name in ("new", "default", "kube-system"):
            place = f"/api/v1/namespaces/{name}"
            assert (await world.admin("GET", f"{place}/serviceaccounts/default")).status == 200
            found = (await world.admin("GET", f"{place}/configmaps/kube-root-ca.crt")).json
            assert found["data"] == {"ca.crt": AUTHORITY}
        first = (await world.admin("DELETE", f"{HERE}/serviceaccounts/default")).json["metadata"]["uid"]
        await world.admin("PATCH", f"{HERE}/configmaps/kube-root-ca.crt", {"data": {"ca.crt": "x"}}, **MERGE)
        await settled()
        again = (await world.admin("GET", f"{HERE}/serviceaccounts/default")).json
        assert again["metadata"]["uid"] != first
        assert (await world.admin("GET", f"{HERE}/configmaps/kube-root-ca.crt")).json["data"] == {"ca.crt": AUTHORITY}
        await world.admin("DELETE", f"{HERE}/configmaps/kube-root-ca.crt")
        await settled()
        assert (await world.admin("GET", f"{HERE}/configmaps/kube-root-ca.crt")).status == 200

    followed(story)


def secret(name: str, account: str) -> dict:
    annotations = {"kubernetes.io/service-account.name": account}
    return {"metadata": {"name": name, "annotations": annotations}, "type": TOKENS}


def test_a_secret_for_a_token_gets_one_and_goes_with_its_account():
    async def story(world: Guarded, settled) -> None:
        await world.admin("POST", f"{HERE}/serviceaccounts", {"metadata": {"name": "robot"}})
        await world.admin("POST", f"{HERE}/secrets", secret("token", "robot"))
        await world.admin("POST", f"{HERE}/secrets", secret("lost", "nobody"))
        await settled()
        assert (await world.admin("GET", f"{HERE}/secrets/lost")).status == 404
        data = (await world.admin("GET", f"{HERE}/secrets/token")).json["data"]
        token = base64.b64decode(data["token"]).decode()
        assert base64.b64decode(data["ca.crt"]).decode() == AUTHORITY
        info = (await world.ask(token, "POST", SELF, {})).json["status"]["userInfo"]
        assert info["username"] == "system:serviceaccount:default:robot"
        world.clock.advance(10 * 365 * 86_400)
        assert (await world.ask(token, "POST", SELF, {})).status == 201
        await world.admin("DELETE", f"{HERE}/serviceaccounts/robot")
        await settled()
        assert (await world.admin("GET", f"{HERE}/secrets/token")).status == 404
        assert (await world.ask(token, "POST", SELF, {})).status == 401

    followed(story)


def test_a_secret_that_is_deleted_takes_its_token_along():
    async def story(world: Guarded, settled) -> None:
        await world.admin("POST", f"{HERE}/secrets", secret("token", "default"))
        await settled()
        data = (await world.admin("GET", f"{HERE}/secrets/token")).json["data"]
        token = base64.b64decode(data["token"]).decode()
        await world.admin("DELETE", f"{HERE}/secrets/token")
        assert (await world.ask(token, "POST", SELF, {})).status == 401

    followed(story)


def test_roles_made_of_others_follow_them():
    async def story(world: Guarded, settled) -> None:
        async def resources(name: str) -> set[str]:
            rules = (await world.admin("GET", f"{RBAC}/clusterroles/{name}")).json["rules"]
            return {one for rule in rules for one in rule["resources"]}

        assert "pods" in await resources("view") and "secrets" not in await resources("view")
        assert await resources("view") < await resources("edit") < await resources("admin")
        labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        rule = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]}
        part = {"metadata": {"name": "things", "labels": labels}, "rules": [rule]}
        await world.admin("POST", f"{RBAC}/clusterroles", part)
        await settled()
        for name in ("view", "edit", "admin"):
            assert "things" in await resources(name)
        await world.admin("DELETE", f"{RBAC}/clusterroles/things")
        await settled()
        for name in ("view", "edit", "admin"):
            assert "things" not in await resources(name)

    followed(story)


def test_a_store_that_cannot_write_is_waited_for(monkeypatch):
    async def story(world: Guarded) -> None:
        write, failures = world.front.write, 0

        async def failing(change):
            nonlocal failures
            failures += 1
            if failures == 1:
                raise Unavailable("the disk is full")
            return await write(change)

        monkeypatch.setattr(world.front, "write", failing)
        task = asyncio.create_task(loop_of(world).run())
        while failures < 1:
            await asyncio.sleep(0)
        while world.clock.next_due_s() is None:
            await asyncio.sleep(0)
        world.clock.advance(1)
        async with asyncio.timeout(5):
            while (await world.admin("GET", f"{HERE}/serviceaccounts/default")).status != 200:
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    guarded(story)
