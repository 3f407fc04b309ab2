"""A server notes who owns which field, through every way of writing; wrong sets and bodies end at a bounded cost."""

from __future__ import annotations

import json
from random import Random

import pytest

from muster.store.objects import Part
from muster.store.records import Key
from tests.apiserver.direct import direct
from tests.kubernetes.apply_steps import APPLY, MERGE, steps, with_change
from tests.stopwatch import is_done_within
from tests.support import assert_sound, proof_count

CONFIGS = "/api/v1/namespaces/default/configmaps"
FLAVORS = "/apis/kueue.x-k8s.io/{}/resourceflavors"
QUEUES = "/apis/kueue.x-k8s.io/{}/clusterqueues"
SEQUENCES = 400


def config(name="c", **more):
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


@pytest.fixture
def server():
    with direct() as running:
        yield running


def applied(server, path, body, manager="a", more=""):
    return server.request("PATCH", f"{path}?fieldManager={manager}{more}", body, APPLY)


def owners(found):
    entries = found["metadata"].get("managedFields", [])
    return {(one.get("manager", ""), one["operation"], one.get("subresource", "")): one["fieldsV1"] for one in entries}


def test_the_program_of_a_client_is_its_name(server):
    for agent, name in (
        ("kubectl/v1.36 (linux)", "kubectl"),
        ("a\x01b", "ab"),
        ("", "unknown"),
        ("x" * 200, "x" * 128),
    ):
        headers = {"user-agent": agent} if agent else {}
        body = config(f"c{len(agent)}", data={"a": "b"})
        _, found = server.request("POST", CONFIGS, body, headers=headers)
        assert list(owners(found)) == [(name, "Update", "")]


def test_what_changes_nothing_is_no_write(server):
    _, first = applied(server, f"{CONFIGS}/c", config(data={"a": "b"}))
    server.world.clock.advance(100)
    _, again = applied(server, f"{CONFIGS}/c", config(data={"a": "b"}))
    assert again == first
    _, put = server.request("PUT", f"{CONFIGS}/c?fieldManager=x", first)
    assert put == first


def test_a_field_goes_with_its_last_owner(server):
    applied(server, f"{CONFIGS}/c", config(data={"a": "1", "b": "1", "c": "1"}))
    applied(server, f"{CONFIGS}/c", config(data={"b": "1"}), "other")
    server.request("PATCH", f"{CONFIGS}/c?fieldManager=tool", {"data": {"d": "1"}}, MERGE)
    _, found = applied(server, f"{CONFIGS}/c", config(data={"a": "1"}))
    assert found["data"] == {"a": "1", "b": "1", "d": "1"}
    assert owners(found)["other", "Apply", ""] == {"f:data": {"f:b": {}}}
    _, found = applied(server, f"{CONFIGS}/c", config())
    assert found["data"] == {"b": "1", "d": "1"}
    assert ("a", "Apply", "") not in owners(found)


def test_an_update_takes_what_it_changes(server):
    applied(server, f"{CONFIGS}/c", config(data={"a": "1", "b": "1"}))
    _, found = server.request("PATCH", f"{CONFIGS}/c?fieldManager=tool", {"data": {"a": "2"}}, MERGE)
    assert owners(found) == {
        ("a", "Apply", ""): {"f:data": {"f:b": {}}},
        ("tool", "Update", ""): {"f:data": {"f:a": {}}},
    }


def test_writes_of_the_server_itself_are_noted(server):
    applied(server, f"{CONFIGS}/c", config(data={"a": "1"}))
    key = Key("configmaps", "default", "c")
    server.world.store.write(server.world.objects.modify(key, lambda one: {**one, "data": {"a": "2"}}))
    _, found = server.request("GET", f"{CONFIGS}/c")
    assert owners(found) == {("muster", "Update", ""): {"f:data": {"f:a": {}}}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}}}
    server.world.store.write(server.world.objects.create("nodes", node))
    change = server.world.objects.modify(
        Key("nodes", "", "n"), lambda one: {**one, "status": {"nodeInfo": {"osImage": "x"}}}, part=Part.STATUS
    )
    server.world.store.write(change)
    _, found = server.request("GET", "/api/v1/nodes/n")
    assert list(owners(found)) == [("muster", "Update", ""), ("muster", "Update", "status")]


# Kinds with a schema of their own ------------------------------------------------------------------------------------


def queue(version, **spec):
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": spec,
    }


def test_managers_may_use_other_versions(server):
    older, newer = QUEUES.format("v1beta1"), QUEUES.format("v1beta2")
    status, found = applied(server, f"{older}/q", queue("v1beta1", cohort="team", queueingStrategy="StrictFIFO"), "old")
    assert (status, owners(found)) == (
        201,
        {("old", "Apply", ""): {"f:spec": {"f:cohort": {}, "f:queueingStrategy": {}}}},
    )
    status, said = applied(server, f"{newer}/q", queue("v1beta2", cohortName="other"), "new")
    assert (status, said["message"]) == (409, 'Apply failed with 1 conflict: conflict with "old": .spec.cohort')
    status, found = applied(server, f"{newer}/q", queue("v1beta2", cohortName="other"), "new", "&force=true")
    assert (status, found["spec"]["cohortName"]) == (200, "other")
    assert owners(found) == {
        ("old", "Apply", ""): {"f:spec": {"f:queueingStrategy": {}}},
        ("new", "Apply", ""): {"f:spec": {"f:cohortName": {}}},
    }
    # The same manager in another version: what it applied before is still its own to let go.
    _, found = applied(server, f"{older}/q", queue("v1beta1", queueingStrategy="StrictFIFO"), "new")
    assert "cohortName" not in found["spec"] and "cohort" not in found["spec"]


def test_lists_of_dialects_merge_by_their_keys(server):
    flavors = FLAVORS.format("v1beta2")

    def flavor(*taints):
        spec = {"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": one, "effect": "NoSchedule"} for one in taints]}
        version = "kueue.x-k8s.io/v1beta2"
        return {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": spec}

    status, _ = applied(server, f"{flavors}/f", flavor("x"))
    assert status == 201
    status, said = applied(server, f"{flavors}/f", flavor("y"), "b")
    assert (status, said["details"]["causes"][0]["field"]) == (409, ".spec.nodeTaints")


# Properties ----------------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_to_apply_twice_is_to_apply_once(server):
    def check(random: Random) -> None:
        name = f"o{random.randrange(10**9)}"
        for step in steps(random, name, 8):
            body = step.body
            if body is None:
                status, found = server.request("GET", step.path.partition("?")[0])
                body = with_change(found, step.change) if status == 200 else {}
            status, first = server.request(step.method, step.path, body, step.content_type)
            is_kept = status < 300 and "dryRun" not in step.path
            # An object without any manager gets one for what it had before, at the next apply.
            if step.content_type == APPLY and is_kept and owners(first):
                server.world.clock.advance(5)
                _, second = server.request(step.method, step.path, body, step.content_type)
                assert second == first, f"{step.path} {json.dumps(body)}"

    assert_sound(check, range(proof_count(SEQUENCES)))


# Hostile bodies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": '
        + b'{"a":' * 5_000
        + b"1"
        + b"}" * 5_002,
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c, *c, *c]\n" * 50,
        b"\xff\xfe",
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": 3}',
        b'{"apiVersion": 1, "kind": [], "metadata": {}}',
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": []}}',
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": {}}}',
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "ownerReferences": [{"uid": {}}]}}',
    ],
    ids=range(9),
)
def test_odd_bodies_are_refused(server, body):
    status, said = applied(server, f"{CONFIGS}/c", body)
    assert status in (400, 422, 500) and "server's log" not in said["message"], said


def test_a_wide_object_is_applied_in_time(server):
    data = {f"k{number}": "x" for number in range(10_000)}
    body = config(data=data, metadata={"finalizers": [f"x.io/{number}" for number in range(2_000)]})

    def apply_twice():
        for manager in ("a", "b"):
            status, _ = applied(server, f"{CONFIGS}/c", body, manager)
            assert status < 300

    assert is_done_within(10, apply_twice)


@pytest.mark.parametrize(
    "entries",
    [
        [{"manager": "x"}],
        [3],
        [{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"k:" + "[" * 5000: {}}}],
        [{"operation": "Update", "apiVersion": {}, "fieldsType": "FieldsV1", "fieldsV1": {}}],
        [{"manager": [], "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}],
        [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": "b"}}],
        [{"time": "yesterday", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}],
    ],
    ids=range(7),
)
def test_wrong_managers_change_nothing(server, entries):
    applied(server, f"{CONFIGS}/c", config(data={"a": "1"}))
    patch = {"metadata": {"managedFields": entries}}
    status, _ = server.request("PATCH", f"{CONFIGS}/c?fieldManager=x", patch, MERGE)
    assert status in (200, 400, 422)
    _, found = server.request("GET", f"{CONFIGS}/c")
    assert owners(found) == {("a", "Apply", ""): {"f:data": {"f:a": {}}}}
