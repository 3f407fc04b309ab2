"""Bodies of every built-in kind, with something in every field, go from Go to Muster and back unchanged."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
import yaml

from muster.apiserver.facts import all_kinds
from muster.apiserver.protobuf import CONTENT_TYPE, decode, encode
from tests.apiserver import samples


def converted(program, lines, *flags):
    """What Go makes of objects: for each its JSON and its protobuf."""
    answer = subprocess.run([program, "protobuf", *flags], input="\n".join(lines), capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    return [(row["object"], b64decode(row["protobuf"])) for row in rows]


@pytest.fixture(scope="module")
def full_objects():
    return [samples.full(group_version, kind) for group_version, kind in all_kinds()]


def test_go_knows_every_field_of_the_tables(real_program, full_objects):
    assert [item for item, _ in converted(real_program, map(json.dumps, full_objects))] == full_objects


def test_what_go_sends_is_read(real_program, full_objects):
    sent = [body for _, body in converted(real_program, map(json.dumps, full_objects))]
    assert [decode(body) for body in sent] == full_objects


def test_what_is_written_go_reads(real_program, full_objects):
    bodies = [b64encode(encode(item)).decode() for item in full_objects]
    assert [item for item, _ in converted(real_program, bodies, "-decode")] == full_objects


def test_the_samples_are_what_go_makes_of_the_written_objects(real_program):
    path = Path(samples.__file__).with_name("protobuf_objects.yaml")
    objects = [json.dumps(item) for item in yaml.safe_load_all(path.read_text())]
    assert converted(real_program, objects) == samples.written()


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces",
        "/api/v1/namespaces/default/services/kubernetes",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/apps/v1/deployments/nobody",
    ],
)
def test_the_server_says_the_same_in_both_forms(plane, path):
    binary = plane.client.request("GET", path, accept=CONTENT_TYPE)
    assert binary.headers["content-type"] == CONTENT_TYPE
    said, meant = decode(binary.body), plane.client.request("GET", path).json
    assert samples.without_nulls(said) == samples.without_nulls(meant)


def test_the_server_takes_what_is_written(plane):
    name = "sent-as-protobuf"
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "ü", "b": ""}}
    path = "/api/v1/namespaces/default/configmaps"
    made = plane.client.request("POST", path, encode(item), content_type=CONTENT_TYPE, accept="application/json")
    assert (made.status, made.json["data"]) == (201, item["data"])
    assert plane.client.request("DELETE", f"{path}/{name}").status == 200
