"""A server that asks who is there: with all kinds, the first roles, and tokens. Used by the tests of rights."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from muster.apiserver.asgi import App
from muster.apiserver.authentication import Tokens
from muster.apiserver.rights.audit import AuditLog
from muster.apiserver.rights.first_roles import first_roles
from muster.app.kinds import catalog
from tests.apiserver.world import World, namespace
from tests.kubernetes.client import Answer

Json = dict[str, Any]
ADMIN = "right"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Guarded(World):
    """A world where nobody gets in without a token."""

    def __init__(self, audit: AuditLog | None = None) -> None:
        super().__init__(catalog=catalog())
        self.app = App(self.api, Tokens(ADMIN, self.api.accounts), audit=audit)
        for name in ("kube-system", "kube-public"):
            self.store.write(self.objects.create("namespaces", namespace(name)))
        self.store.write(first_roles(self.objects))

    async def ask(self, token: str, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Send a request with a token, or without any."""
        given = {"authorization": f"Bearer {token}"} if token else {}
        return await self.request(method, path, body, headers={**given, **headers})

    async def admin(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        return await self.ask(ADMIN, method, path, body, **headers)

    async def account(self, name: str = "robot", **spec: Any) -> str:
        """A token for a service account, which is made where there is none."""
        place = "/api/v1/namespaces/default/serviceaccounts"
        await self.admin("POST", place, {"metadata": {"name": name}})
        answer = await self.admin("POST", f"{place}/{name}/token", {"spec": spec})
        assert answer.status == 201, answer.body
        return str(answer.json["status"]["token"])

    async def grant(self, user: Json, *rules: Json, name: str = "granted") -> None:
        """Give somebody rights everywhere."""
        role = {"metadata": {"name": name}, "rules": list(rules)}
        assert (await self.admin("POST", f"{RBAC}/clusterroles", role)).status == 201
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [user]}
        assert (await self.admin("POST", f"{RBAC}/clusterrolebindings", binding)).status == 201


ROBOT = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}


def guarded(test: Callable[[Guarded], Awaitable[None]], audit: AuditLog | None = None) -> None:
    """Run a test's coroutine with a world of its own."""

    async def run() -> None:
        await test(Guarded(audit))

    asyncio.run(run())
