"""What a write may do to an object: tables of objects before and after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.model.errors import InvalidObject, InvalidObjects
from muster.store.errors import Conflict
from muster.store.kinds import Propagation
from muster.store.metadata import FOREGROUND, ORPHAN
from muster.store.records import Key
from muster.store.rules import Deletion, check_same, created, deleted, is_gone, status_updated, updated
from tests.store.kinds import BIRTH, CONFIGS, NODES, PODS, START_S, a_config, a_pod

STORED = {**created(a_pod(), PODS, BIRTH)}
STORED["metadata"] = {**STORED["metadata"], "resourceVersion": "7"}


def stored(**more):
    """The stored pod with other fields in its metadata, or another spec or status."""
    found = {**STORED, "metadata": dict(STORED["metadata"])}
    for part in ("spec", "status"):
        if part in more:
            found[part] = {**found[part], **more.pop(part)}
    found["metadata"].update(more)
    return found


# Creation ------------------------------------------------------------------------------------------------------------


def test_a_new_object_gets_what_only_the_store_decides():
    given = a_pod(
        uid="mine",
        generation=7,
        creationTimestamp="x",
        deletionTimestamp="x",
        selfLink="/x",
        deletionGracePeriodSeconds=1,
    )
    assert created(given, PODS, BIRTH)["metadata"] == {
        "name": "a",
        "namespace": "default",
        "uid": "uid-1",
        "creationTimestamp": "2023-11-14T22:13:20Z",
        "generation": 1,
    }
    assert given["metadata"]["uid"] == "mine", "what the writer holds is left alone"


def test_defaults_come_after_the_status_is_dropped():
    new = created(a_pod(status={"phase": "Running"}), PODS, BIRTH)
    assert new["status"] == {"phase": "Pending"} and new["spec"]["priority"] == 0


def test_some_kinds_keep_their_status_and_some_have_no_generation():
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"x": 1}}
    assert created(node, NODES, BIRTH)["status"] == {"x": 1}
    assert "generation" not in created(a_config("c"), CONFIGS, BIRTH)["metadata"]


def test_other_versions_are_converted_before_all_else():
    given = {**a_pod(), "apiVersion": "v1old", "spec": {"boxes": [{"name": "main"}]}}
    new = created(given, PODS, BIRTH)
    assert new["apiVersion"] == "v1" and new["spec"]["containers"] == [{"name": "main"}]
    with pytest.raises(InvalidObject, match="kind: is 'Job'"):
        created({**a_pod(), "kind": "Job"}, PODS, BIRTH)
    with pytest.raises(InvalidObject, match="apiVersion: is None"):
        created({"kind": "Pod", "metadata": {"name": "a"}}, PODS, BIRTH)


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        pytest.param({"generateName": "run-"}, "run-abcde", id="a prefix"),
        pytest.param({"generateName": "x" * 80}, "x" * 58 + "abcde", id="a long prefix"),
        pytest.param({"generateName": "run-", "name": "b"}, "b", id="a name wins"),
    ],
)
def test_names_are_generated(metadata, want):
    given = a_pod()
    given["metadata"] = {"namespace": "default", **metadata}
    assert created(given, PODS, BIRTH)["metadata"]["name"] == want


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param({"name": ""}, "metadata.name: Required value", id="no name"),
        pytest.param({"name": "A_b"}, 'metadata.name: Invalid value: "A_b": has characters', id="a bad name"),
        pytest.param({"name": 3}, "metadata.name: is 3", id="a name that is no text"),
        pytest.param({"name": "", "generateName": 3}, "metadata.generateName: is 3", id="a prefix that is no text"),
        pytest.param({"namespace": ""}, "metadata.namespace: Required value", id="no namespace"),
        pytest.param(
            {"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b": has characters', id="a bad namespace"
        ),
        pytest.param({"resourceVersion": "3"}, "metadata.resourceVersion: is set", id="a revision"),
        pytest.param({"labels": {"a b": "x"}}, 'metadata.labels: Invalid value: "a b"', id="a bad label"),
        pytest.param({"labels": {"a": "x y"}}, 'metadata.labels: Invalid value: "x y"', id="a bad value"),
        pytest.param({"labels": ["a"]}, "metadata.labels: is a list", id="labels that are a list"),
        pytest.param({"annotations": {"/": "x"}}, 'metadata.annotations: Invalid value: "/"', id="a bad annotation"),
        pytest.param({"annotations": {"a": "x" * 2**18}}, "annotations: Too long", id="too many annotations"),
        pytest.param({"finalizers": ["a b"]}, 'metadata.finalizers: Invalid value: "a b"', id="a bad finalizer"),
        pytest.param(
            {"finalizers": [ORPHAN, FOREGROUND]}, "orphan and foregroundDeletion cannot be both set", id="both"
        ),
        pytest.param({"ownerReferences": [{"uid": "u"}]}, 'ownerReferences.apiVersion: Invalid value: ""', id="half"),
        pytest.param(
            {"ownerReferences": [dict(apiVersion="v1", kind="X", name="x", uid=uid, controller=True) for uid in "ab"]},
            "only one reference can be the controller, not x, x",
            id="two controllers",
        ),
    ],
)
def test_metadata_that_is_refused(metadata, message):
    with pytest.raises(InvalidObject, match=message):
        created(a_pod(**metadata), PODS, BIRTH)


def test_all_mistakes_are_told_at_once():
    with pytest.raises(InvalidObjects) as raised:
        created(a_pod(name="A", labels={"b c": "d e"}), PODS, BIRTH)
    assert len(raised.value.problems) == 3


def test_kinds_of_the_whole_cluster_have_no_namespace():
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "x"}}
    with pytest.raises(InvalidObject, match="not allowed on a Node"):
        created(node, NODES, BIRTH)
    with pytest.raises(InvalidObject, match="metadata: is missing"):
        created({"apiVersion": "v1", "kind": "Node"}, NODES, BIRTH)


def test_the_kind_has_its_say():
    with pytest.raises(InvalidObject, match=r"spec\.containers: is missing"):
        created(a_pod(spec={"containers": []}), PODS, BIRTH)


# Updates -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "generation"),
    [
        pytest.param(stored(), 1, id="nothing"),
        pytest.param(stored(labels={"a": "b"}), 1, id="labels"),
        pytest.param(stored(status={"phase": "Running"}), 1, id="status"),
        pytest.param(stored(spec={"priority": 3}), 2, id="spec"),
        pytest.param({**stored(), "extra": 1}, 2, id="anything else"),
    ],
)
def test_the_generation_counts_what_was_asked_for(given, generation):
    assert updated(STORED, given, PODS)["metadata"]["generation"] == generation


def test_the_store_keeps_what_it_alone_decides():
    given = a_pod(uid="other", generation=9, creationTimestamp="then", deletionTimestamp="now")
    assert updated(STORED, given, PODS)["metadata"] == STORED["metadata"]


def test_each_write_has_its_half():
    given = stored(spec={"priority": 5}, status={"phase": "Running"}, labels={"a": "b"})
    main = updated(STORED, given, PODS)
    assert (main["spec"]["priority"], main["status"], main["metadata"]["labels"]) == (5, STORED["status"], {"a": "b"})
    status = status_updated(STORED, given, PODS)
    assert status == {**STORED, "status": {"phase": "Running"}}
    without = {name: value for name, value in given.items() if name != "status"}
    assert status_updated(STORED, without, PODS)["status"] == {"phase": "Pending"}, "as a kind has it by default"


def test_a_kind_says_what_of_the_metadata_goes_with_its_status():
    rules = replace(PODS, status_metadata=("labels", "finalizers"))
    given = stored(labels={"a": "b"}, annotations={"c": "d"}, finalizers=["x/y"], generation=9)
    metadata = status_updated(STORED, given, rules)["metadata"]
    assert metadata == {**STORED["metadata"], "labels": {"a": "b"}, "finalizers": ["x/y"]}
    with pytest.raises(InvalidObject, match=r"metadata\.labels"):
        status_updated(STORED, stored(labels={"a b": "c"}), rules)


def test_a_kind_without_a_status_of_its_own_has_one_half():
    rules = replace(PODS, has_status=False)
    assert updated(STORED, stored(status={"phase": "Running"}), rules)["status"] == {"phase": "Running"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(stored(spec={"nodeName": "n"}), "spec.nodeName: is changed to 'n'", id="immutable"),
        pytest.param(stored(spec={"deep": {"er": 1}}), "spec.deep.er: is changed to 1", id="immutable, deep"),
        pytest.param(stored(name="b"), "metadata.name: is 'b', and the object's is 'a'", id="name"),
        pytest.param(stored(namespace="b"), "metadata.namespace: is 'b'", id="namespace"),
        pytest.param(stored(spec={"containers": []}), "spec.containers: is missing", id="the kind's rule"),
        pytest.param(stored(labels={"a b": ""}), "metadata.labels", id="labels"),
    ],
)
def test_updates_that_are_refused(given, message):
    with pytest.raises(InvalidObject, match=message):
        updated(STORED, given, PODS)


@pytest.mark.parametrize(
    ("uid", "revision", "is_conflict"),
    [
        pytest.param("", "", False, id="nothing asked"),
        pytest.param("uid-1", "7", False, id="both right"),
        pytest.param("uid-2", "", True, id="another object of the name"),
        pytest.param("", "6", True, id="an earlier state"),
    ],
)
def test_preconditions(uid, revision, is_conflict):
    key = Key("pods", "default", "a")
    if not is_conflict:
        check_same(key, STORED, uid=uid, revision=revision)
        return
    with pytest.raises(Conflict):
        check_same(key, STORED, uid=uid, revision=revision)


# Deletion ------------------------------------------------------------------------------------------------------------

GONE = "gone"
BOUND = {"nodeName": "n"}
LEAVING = {"deletionTimestamp": "2023-11-14T22:13:50Z", "deletionGracePeriodSeconds": 30, "generation": 2}


def deletion_of(before, deletion=Deletion(), rules=PODS):  # noqa: B008
    new = deleted(before, deletion, rules, START_S)
    metadata = new["metadata"]
    at = metadata["deletionTimestamp"].partition("T")[2]
    return GONE if is_gone(new) else (at, metadata["deletionGracePeriodSeconds"], metadata.get("finalizers", []))


@pytest.mark.parametrize(
    ("before", "deletion", "want"),
    [
        pytest.param(stored(), Deletion(), GONE, id="at once"),
        pytest.param(stored(spec=BOUND), Deletion(), ("22:13:50Z", 30, []), id="with grace"),
        pytest.param(stored(spec=BOUND), Deletion(grace_s=5), ("22:13:25Z", 5, []), id="with the grace asked for"),
        pytest.param(stored(spec=BOUND), Deletion(grace_s=0), GONE, id="now"),
        pytest.param(stored(spec=BOUND, **LEAVING), Deletion(), ("22:13:50Z", 30, []), id="again"),
        pytest.param(stored(spec=BOUND, **LEAVING), Deletion(grace_s=60), ("22:13:50Z", 30, []), id="never longer"),
        pytest.param(stored(spec=BOUND, **LEAVING), Deletion(grace_s=10), ("22:13:30Z", 10, []), id="shorter"),
        pytest.param(stored(spec=BOUND, **LEAVING), Deletion(grace_s=0), GONE, id="now after all"),
        pytest.param(stored(finalizers=["x/y"]), Deletion(), ("22:13:20Z", 0, ["x/y"]), id="held"),
        pytest.param(
            stored(finalizers=["x/y"], **LEAVING | {"deletionGracePeriodSeconds": 0}),
            Deletion(grace_s=0),
            ("22:13:50Z", 0, ["x/y"]),
            id="held, again",
        ),
        pytest.param(stored(), Deletion(propagation=Propagation.ORPHAN), ("22:13:20Z", 0, [ORPHAN]), id="orphan"),
        pytest.param(
            stored(finalizers=["x/y", ORPHAN]),
            Deletion(propagation=Propagation.FOREGROUND),
            ("22:13:20Z", 0, ["x/y", FOREGROUND]),
            id="foreground instead of orphan",
        ),
        pytest.param(stored(finalizers=[ORPHAN]), Deletion(propagation=Propagation.BACKGROUND), GONE, id="background"),
        pytest.param(stored(finalizers=[ORPHAN]), Deletion(), ("22:13:20Z", 0, [ORPHAN]), id="chosen before"),
    ],
)
def test_deletion(before, deletion, want):
    assert deletion_of(before, deletion) == want


def test_a_kind_may_have_another_propagation():
    rules = replace(PODS, propagation=Propagation.ORPHAN)
    assert deletion_of(stored(), rules=rules) == ("22:13:20Z", 0, [ORPHAN])


def test_what_nothing_can_belong_to_goes_without_asking_others():
    rules = replace(PODS, can_own=False)
    assert deletion_of(stored(), Deletion(propagation=Propagation.ORPHAN), rules) == GONE


def test_a_deletion_counts_as_something_asked_for():
    assert deleted(stored(spec=BOUND), Deletion(), PODS, START_S)["metadata"]["generation"] == 2
    assert deleted(stored(spec=BOUND, **LEAVING), Deletion(grace_s=9), PODS, START_S)["metadata"]["generation"] == 2


def test_while_it_is_deleted_finalizers_only_go():
    before = stored(finalizers=["x/y"], **LEAVING)
    with pytest.raises(InvalidObject, match="and x/z is new"):
        updated(before, stored(finalizers=["x/y", "x/z"]), PODS)
    assert "finalizers" not in updated(before, stored(), PODS)["metadata"]
