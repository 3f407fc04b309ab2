"""Every route with every sort of credential: nobody without good ones gets further than the door."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.apiserver.rights.service_accounts import ISSUER, Bound, ServiceAccounts
from muster.apiserver.rights.tokens import SigningKey
from muster.apiserver.served import Catalog, Served
from muster.app.kinds import catalog
from muster.store.records import Key
from tests.apiserver.rights.guarded import ADMIN, Guarded, guarded

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ABOUT_THE_SERVER = (
    "/",
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/batch",
    "/apis/batch/v1",
    "/healthz",
    "/healthz/ping",
    "/livez",
    "/metrics",
    "/muster/backup",
    "/nope",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
)
HEALTH = ("/healthz", "/livez", "/readyz")
# What everybody may who is known: Kubernetes' roles for discovery and for questions about oneself.
OPEN = ("/api", "/apis", "/openapi/", "/version", "/.well-known/", "/openid/", *HEALTH)
OF_ONESELF = ("selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews")


def paths_of(served: Served) -> Iterator[str]:
    kind = served.kind
    start = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    within = f"{start}/namespaces/default" if kind.is_namespaced else start
    if kind.is_namespaced:
        yield f"{start}/{kind.plural}"
    yield f"{within}/{kind.plural}"
    yield f"{within}/{kind.plural}/one"
    for part in served.subresources:
        yield f"{within}/{kind.plural}/one/{part}"


def routes(found: Catalog) -> list[tuple[str, str]]:
    of_kinds = [path for served in found.all for path in paths_of(served)]
    return [(method, path) for path in (*of_kinds, *ABOUT_THE_SERVER) for method in METHODS]


ROUTES = routes(catalog())


def is_open(method: str, path: str) -> bool:
    """Whether somebody who is known and has no rights may ask this."""
    if any(name in path.split("/") for name in OF_ONESELF):
        return method == "POST"
    is_of_kind = path not in ABOUT_THE_SERVER
    return not is_of_kind and method == "GET" and path.startswith(OPEN) and path != "/healthz/ping"


async def stranger(world: Guarded) -> str:
    """A token that another server has signed for an account of the same name."""
    await world.account()
    record = world.store.get(Key("serviceaccounts", "default", "robot"))
    other = ServiceAccounts(world.store, SigningKey.new(), world.clock)
    return other.token(Bound(record), (ISSUER,), 3_600)[0]


def test_there_are_routes_for_every_kind():
    assert len(ROUTES) > 1_000
    assert ("PUT", "/api/v1/namespaces/default/pods/one/status") in ROUTES
    assert ("POST", "/api/v1/namespaces/default/serviceaccounts/one/token") in ROUTES


@pytest.mark.parametrize(
    "sort", ["none", "bad", "expired", "another server's", "for others", "of an account that is gone"]
)
def test_without_good_credentials(sort):
    async def story(world: Guarded) -> None:
        token = ""
        if sort == "bad":
            token = "wrong"
        elif sort == "expired":
            token = await world.account()
            world.clock.advance(3_601)
        elif sort == "another server's":
            token = await stranger(world)
        elif sort == "for others":
            token = await world.account(audiences=["vault"])
        elif sort == "of an account that is gone":
            token = await world.account()
            await world.admin("DELETE", "/api/v1/namespaces/default/serviceaccounts/robot")
        for method, path in ROUTES:
            answer = await world.ask(token, method, path, {} if method != "GET" else None)
            wanted = (200, 405) if path in HEALTH else (401,)
            assert answer.status in wanted, f"{method} {path}: {answer.status}"

    guarded(story)


def test_with_the_credentials_of_somebody_who_may_nothing():
    async def story(world: Guarded) -> None:
        token = await world.account()
        for method, path in ROUTES:
            answer = await world.ask(token, method, path, {} if method != "GET" else None)
            assert answer.status != 401, f"{method} {path}"
            assert (answer.status == 403) is not is_open(method, path), f"{method} {path}: {answer.status}"

    guarded(story)


def test_with_the_right_credentials():
    async def story(world: Guarded) -> None:
        for method, path in ROUTES:
            if method == "DELETE" and "/one" not in path:
                continue  # there would soon be nothing left
            answer = await world.ask(ADMIN, method, path, {} if method != "GET" else None)
            assert answer.status not in (401, 403, 500), f"{method} {path}: {answer.status} {answer.body!r}"
            if method == "GET" and path in ABOUT_THE_SERVER and path not in ("/metrics", "/muster/backup", "/nope"):
                assert answer.status == 200, f"{method} {path}"

    guarded(story)
