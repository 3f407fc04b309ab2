"""Nobody gives away what they do not have, at any price. The words are compared with a real server elsewhere."""

from __future__ import annotations

from tests.apiserver.rights.guarded import RBAC, ROBOT, Guarded, guarded
from tests.kubernetes.comparison import samples
from tests.stopwatch import is_done_within

MERGE = {"content-type": "application/merge-patch+json"}
HERE = f"{RBAC}/namespaces/default"
ROLES = {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]}
WRITE = {**ROLES, "verbs": ["create", "update", "patch"]}
SECRETS = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}


def role(*rules: dict, name: str = "r") -> dict:
    return {"metadata": {"name": name}, "rules": list(rules)}


def test_every_way_to_write_a_role_is_checked():
    async def story(world: Guarded) -> None:
        token = await world.account()
        await world.grant(ROBOT, WRITE)
        assert (await world.ask(token, "POST", f"{HERE}/roles", role(SECRETS))).status == 403
        assert (await world.ask(token, "PUT", f"{HERE}/roles/r", role(SECRETS))).status == 403
        assert (await world.ask(token, "POST", f"{HERE}/roles", role())).status == 201
        assert (await world.ask(token, "PUT", f"{HERE}/roles/r", role(SECRETS))).status == 403
        assert (await world.ask(token, "PATCH", f"{HERE}/roles/r", {"rules": [SECRETS]}, **MERGE)).status == 403
        patch = [{"op": "add", "path": "/rules", "value": [SECRETS]}]
        json_patch = {"content-type": "application/json-patch+json"}
        assert (await world.ask(token, "PATCH", f"{HERE}/roles/r", patch, **json_patch)).status == 403
        assert not (await world.admin("GET", f"{HERE}/roles/r")).json.get("rules")
        await world.grant(ROBOT, SECRETS, name="secrets")
        assert (await world.ask(token, "PATCH", f"{HERE}/roles/r", {"rules": [SECRETS]}, **MERGE)).status == 200

    guarded(story)


CERTIFICATES = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ALL_REQUESTS = {
    "verbs": ["*"],
    "apiGroups": ["certificates.k8s.io"],
    "resources": ["certificatesigningrequests", "certificatesigningrequests/approval"],
}


def test_who_approves_a_certificate_needs_its_signers_trust():
    async def story(world: Guarded) -> None:
        token = await world.account()
        await world.grant(ROBOT, ALL_REQUESTS)
        asked = next(one for one in samples() if one["kind"] == "CertificateSigningRequest")
        assert (await world.ask(token, "POST", CERTIFICATES, asked)).status == 201
        approval, condition = f"{CERTIFICATES}/ann/approval", {"type": "Approved", "status": "True", "reason": "x"}
        approved = {"status": {"conditions": [condition]}}
        refused = await world.ask(token, "PATCH", approval, approved, **MERGE)
        assert refused.status == 403
        told = 'user not permitted to approve requests with signerName "kubernetes.io/kube-apiserver-client"'
        assert refused.json["message"].endswith(told)
        signers = {"verbs": ["approve"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"]}
        await world.grant(ROBOT, {**signers, "resourceNames": ["kubernetes.io/*"]}, name="signers")
        assert (await world.ask(token, "PATCH", approval, approved, **MERGE)).status == 200

    guarded(story)


def test_who_may_escalate_may():
    async def story(world: Guarded) -> None:
        token = await world.account()
        await world.grant(ROBOT, ROLES)
        assert (await world.ask(token, "POST", f"{HERE}/roles", role(SECRETS))).status == 201

    guarded(story)


def test_a_new_right_counts_at_once():
    async def story(world: Guarded) -> None:
        token = await world.account()
        secrets = "/api/v1/namespaces/default/secrets"
        for number in range(20):
            assert (await world.ask(token, "GET", secrets)).status == 403
            await world.grant(ROBOT, {**SECRETS, "verbs": ["list"]}, name=f"n{number}")
            assert (await world.ask(token, "GET", secrets)).status == 200
            assert (await world.admin("DELETE", f"{RBAC}/clusterroles/n{number}")).status == 200

    guarded(story)


def test_a_role_of_countless_rights_is_refused_soon():
    async def story(world: Guarded) -> None:
        token = await world.account()
        await world.grant(ROBOT, WRITE)
        many = [f"x{number}" for number in range(5_000)]
        rule = {"verbs": many, "apiGroups": many, "resources": many, "resourceNames": many}
        answer = await world.ask(token, "POST", f"{HERE}/roles", role(rule))
        assert answer.status == 403
        assert "split it" in answer.json["message"]

    assert is_done_within(5.0, lambda: guarded(story))
