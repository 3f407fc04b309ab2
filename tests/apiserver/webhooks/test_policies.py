"""Policies in effect: each request gets the answer that a real API server has been recorded to give."""

from __future__ import annotations

import json

import pytest

from muster.apiserver.rights.audit import AuditLog
from tests.apiserver.admission.test_rows import everything
from tests.apiserver.rights.guarded import Guarded, guarded
from tests.apiserver.webhooks.policy_stories import (
    BINDINGS,
    NAMED,
    POLICIES,
    STORIES,
    TOLD,
    Json,
    configurations,
    policy,
)
from tests.apiserver.webhooks.stories import config, told
from tests.apiserver.world import World, in_world


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_the_same_as_in_kubernetes(name: str) -> None:
    async def story(world: World) -> None:
        namespace = f"policy-{list(STORIES).index(name)}"
        await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for path, body in configurations(STORIES[name], namespace):
            answer = await world.request("POST", path, body)
            assert answer.status == 201, answer.body
        answers = []
        for method, path, body, *form in STORIES[name].requests:
            headers = {"content-type": form[0]} if form else {}
            answers.append(told(await world.request(method, path.format(ns=namespace), body, headers=headers)))
        assert answers == json.loads(TOLD.read_text())[name]

    in_world(story, catalog=everything())


async def _bound(world: World, spec: Json, *actions: str) -> None:
    assert (await world.request("POST", POLICIES, {"metadata": {"name": "p"}, "spec": spec})).status == 201
    binding = {"policyName": "p", "validationActions": [*actions]}
    assert (await world.request("POST", BINDINGS, {"metadata": {"name": "p"}, "spec": binding})).status == 201


def test_quotas_have_the_last_word() -> None:
    async def story(world: World) -> None:
        configs, quotas = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/resourcequotas"
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "0"}}}
        assert (await world.request("POST", quotas, quota)).status == 201
        await _bound(world, policy(NAMED), "Deny")
        assert "denied request" in (await world.request("POST", configs, config("bad"))).json["message"]
        assert "exceeded quota: q" in (await world.request("POST", configs, config("good"))).json["message"]
        assert (await world.request("GET", f"{quotas}/q")).json["status"]["used"] == {"count/configmaps": "0"}

    in_world(story, catalog=everything())


def test_what_a_policy_notes_is_in_the_audit_log(tmp_path) -> None:
    audit = AuditLog(tmp_path)

    async def story(world: Guarded) -> None:
        annotations = [{"key": "name", "valueExpression": "'it is ' + object.metadata.name"}]
        for path, body in (
            (POLICIES, {"metadata": {"name": "p"}, "spec": policy(NAMED, auditAnnotations=annotations)}),
            (BINDINGS, {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Audit"]}}),
            ("/api/v1/namespaces/default/configmaps", config("bad")),
        ):
            assert (await world.admin("POST", path, body)).status == 201

    guarded(story, audit)
    audit.close()
    noted = json.loads((tmp_path / "audit.log").read_text().splitlines()[-1])["annotations"]
    assert noted["p/name"] == "it is bad"
    (failure,) = json.loads(noted["validation.policy.admission.k8s.io/validation_failure"])
    assert (failure["policy"], failure["binding"], failure["validationActions"]) == ("p", "b", ["Audit"])
    assert failure["message"] == f"failed expression: {NAMED}"
