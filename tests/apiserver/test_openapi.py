"""The published schemas: what clients look for is there, and every reference leads somewhere."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from muster.apiserver.facts import KINDS
from muster.apiserver.openapi import Documents

DOCUMENTS = Documents(KINDS.values())


def document(path):
    return json.loads(DOCUMENTS.document(path))


def references(value):
    if isinstance(value, dict):
        for name, one in value.items():
            if name == "$ref" and isinstance(one, str):
                yield one.rpartition("/")[2]
            else:
                yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def test_the_index_names_a_document_for_each_group_and_version():
    paths = json.loads(DOCUMENTS.index())["paths"]
    assert paths.keys() == {f"apis/{k.group}/{k.version}" if k.group else f"api/{k.version}" for k in KINDS.values()}
    assert paths["apis/batch/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/batch/v1?hash=")
    assert DOCUMENTS.document("apis/batch/v9") is None


@pytest.mark.parametrize("path", sorted(json.loads(DOCUMENTS.index())["paths"]))
def test_every_reference_leads_somewhere(path):
    found = document(path)
    assert set(references(found)) <= found["components"]["schemas"].keys()
    assert b'"description":"OK"' in DOCUMENTS.document(path), "no text but what the format asks for"


def test_a_document_is_made_once():
    assert DOCUMENTS.document("apis/apps/v1") is DOCUMENTS.document("apis/apps/v1")
    assert DOCUMENTS.index() is DOCUMENTS.index()


def test_kubectl_finds_that_the_server_checks_fields():
    patch = document("apis/apps/v1")["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    names = {one["name"] for one in patch["parameters"]}
    assert {"fieldValidation", "dryRun", "fieldManager"} <= names
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "kind": "Deployment", "version": "v1"}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_schemas_say_how_lists_merge():
    schemas = document("api/v1")["components"]["schemas"]
    ports = schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert (ports["x-kubernetes-patch-merge-key"], ports["x-kubernetes-patch-strategy"]) == ("containerPort", "merge")
    stamped = [one for one in schemas.values() if {"kind": "Pod", "group": "", "version": "v1"} in _stamps(one)]
    assert len(stamped) == 1
    assert schemas["io.k8s.api.core.v1.Container"]["required"] == ["name"]


def _stamps(schema):
    return schema.get("x-kubernetes-group-version-kind", [])


def test_a_kind_without_tables_takes_its_schema_from_its_dialect():
    template = KINDS["scheduling.k8s.io", "v1", "PriorityClass"]
    queue = replace(
        template,
        group="kueue.x-k8s.io",
        version="v1beta2",
        kind="ClusterQueue",
        type_name="",
        plural="clusterqueues",
        subresources={},
    )
    found = json.loads(Documents([queue]).document("apis/kueue.x-k8s.io/v1beta2"))
    schema = found["components"]["schemas"]["io.x-k8s.kueue.v1beta2.ClusterQueue"]
    assert "resourceGroups" in schema["properties"]["spec"]["properties"]
    assert set(references(found)) <= found["components"]["schemas"].keys()
    patch = found["paths"]["/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
