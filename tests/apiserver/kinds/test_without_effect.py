"""Kinds that are kept and nothing more: who writes one is told, and who asks for a certificate cannot say who he is."""

from __future__ import annotations

import pytest

from tests.apiserver.definitions.servers import Here
from tests.kubernetes.comparison import kind_of, path_of, samples

KINDS = ("APIService", "FlowSchema", "MutatingAdmissionPolicy", "CertificateSigningRequest")
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture
def here():
    server = Here()
    yield server
    server.close()


def sample(kind):
    return next(one for one in samples() if one["kind"] == kind)


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_writes_one_is_told(here, kind):
    item = sample(kind)
    path = path_of(kind_of(item))
    made = here.request("POST", path, item)
    assert made.status == 201
    assert f"{kind} objects are kept, but have no effect here" in made.headers["warning"]
    assert "warning" not in here.request("GET", f"{path}/{item['metadata']['name']}").headers


def test_who_asks_for_a_certificate_is_what_the_server_knows(here):
    item = sample("CertificateSigningRequest")
    item = {**item, "spec": {**item["spec"], "username": "somebody else", "groups": ["system:masters"]}}
    path = path_of(kind_of(item))
    made = here.request("POST", path, item).json
    assert made["spec"]["username"] not in ("", "somebody else")
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]}}
    answer = here.request("PATCH", f"{path}/{item['metadata']['name']}/approval", approved, content_type=STRATEGIC)
    assert answer.status == 200
    assert answer.json["status"]["conditions"][0]["type"] == "Approved"
    assert answer.json["spec"] == made["spec"]


def test_scales_are_merged_strategically_too(here):
    item = sample("Deployment")
    path = path_of(kind_of(item))
    here.request("POST", path, item)
    scale = {"spec": {"replicas": 3}}
    answer = here.request("PATCH", f"{path}/{item['metadata']['name']}/scale", scale, content_type=STRATEGIC)
    assert (answer.status, answer.json["spec"]["replicas"]) == (200, 3)
