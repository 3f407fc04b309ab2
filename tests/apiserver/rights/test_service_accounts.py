"""Tokens for service accounts: good as long as what they are bound to is there, and for nobody else."""

from __future__ import annotations

import base64
import json

import pytest

from muster.apiserver.rights.tokens import SigningKey, signing_key_in
from tests.apiserver.rights.guarded import Guarded, guarded
from tests.apiserver.world import pod

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
HERE = "/api/v1/namespaces/default"
ISSUER = "https://kubernetes.default.svc"


async def is_known(world: Guarded, token: str) -> bool:
    return (await world.ask(token, "POST", SELF, {})).status == 201


def test_a_token_says_who_it_is_for():
    async def story(world: Guarded) -> None:
        token = await world.account()
        info = (await world.ask(token, "POST", SELF, {})).json["status"]["userInfo"]
        assert info["username"] == "system:serviceaccount:default:robot"
        groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
        assert info["groups"] == groups
        assert info["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")

    guarded(story)


@pytest.mark.parametrize("kind", ["ServiceAccount", "Pod", "Secret"])
def test_a_token_ends_with_what_it_is_bound_to_even_if_another_has_its_name(kind):
    async def story(world: Guarded) -> None:
        plural = f"{kind.lower()}s"
        place = f"{HERE}/{plural}"
        name = "robot" if kind == "ServiceAccount" else "it"
        given = pod("it", spec={"serviceAccountName": "robot"}) if kind == "Pod" else {"metadata": {"name": name}}
        bound = {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": "it"}} if name == "it" else {}
        if bound:
            assert (await world.admin("POST", place, given)).status == 201
        token = await world.account(**bound)
        assert await is_known(world, token)
        assert (await world.admin("DELETE", f"{place}/{name}?gracePeriodSeconds=0")).status == 200
        assert not await is_known(world, token)
        assert (await world.admin("POST", place, given)).status == 201
        assert not await is_known(world, token)

    guarded(story)


def test_a_token_has_an_end_and_an_audience():
    async def story(world: Guarded) -> None:
        token = await world.account(expirationSeconds=600)
        world.clock.advance(599)
        assert await is_known(world, token)
        world.clock.advance(1)
        assert not await is_known(world, token)
        token = await world.account(audiences=["vault", "x"])
        assert not await is_known(world, token)

        async def reviewed(*audiences: str) -> dict:
            spec = {"token": token, "audiences": list(audiences)}
            return (await world.admin("POST", REVIEWS, {"spec": spec})).json["status"]

        assert (await reviewed("vault", "other"))["audiences"] == ["vault"]
        problem = f'token audiences ["vault" "x"] is invalid for the target audiences ["{ISSUER}"]'
        assert (await reviewed())["error"] == f"[invalid bearer token, {problem}]"

    guarded(story)


def test_who_may_not_is_not_given_a_token():
    async def story(world: Guarded) -> None:
        token = await world.account()
        answer = await world.ask(token, "POST", f"{HERE}/serviceaccounts/robot/token", {})
        assert answer.status == 403
        assert 'cannot create resource "serviceaccounts/token"' in answer.json["message"]

    guarded(story)


def altered(token: str, part: int, value: dict) -> str:
    parts = token.split(".")
    parts[part] = base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    return ".".join(parts)


def test_nothing_that_a_token_says_of_itself_is_believed():
    key = SigningKey.new()
    token = key.signed({"sub": "a"})
    assert key.claims(token) == {"sub": "a"}
    head = {"alg": "none", "kid": key.id}
    others = [
        altered(token, 1, {"sub": "b"}),
        altered(token, 0, head),
        altered(token, 0, head).rpartition(".")[0] + ".",
        altered(token, 0, {"alg": "HS256", "kid": key.id}),
        SigningKey.new().signed({"sub": "a"}),
        token[:-4],
        token + "AAAA",
        token.replace(".", ""),
        token + "." * 100_000,
        "",
        "..",
        "a.b.ö",
    ]
    assert [key.claims(one) for one in others] == [None] * len(others)


def test_the_key_stays_the_same(tmp_path):
    first = signing_key_in(tmp_path / "sa.key")
    assert (tmp_path / "sa.key").stat().st_mode & 0o777 == 0o600
    assert signing_key_in(tmp_path / "sa.key").claims(first.signed({"a": 1})) == {"a": 1}


def test_others_can_check_tokens_too():
    async def story(world: Guarded) -> None:
        found = (await world.admin("GET", "/.well-known/openid-configuration", host="example.com:6443")).json
        assert (found["issuer"], found["jwks_uri"]) == (ISSUER, "https://example.com:6443/openid/v1/jwks")
        keys = (await world.admin("GET", "/openid/v1/jwks")).json["keys"]
        assert (keys[0]["kid"], keys[0]["alg"]) == (world.api.key.id, "ES256")

    guarded(story)
