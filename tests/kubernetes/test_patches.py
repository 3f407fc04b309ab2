"""Patches of three kinds do to an object what they do to it on the real server, or are refused as they are there."""

from __future__ import annotations

import pytest

from muster.apiserver.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.kubernetes.agreement import Agreement
from tests.kubernetes.comparison import Ours, Question, Theirs, asked, broken, kept, label_of, samples
from tests.support import is_full_proof

EVERY = 12  # in an ordinary run
BY_LABEL = {label_of(item): item for item in samples()}
WEB, POD, MAP = "Deployment web", "Pod plain", "ConfigMap settings"


def container(**fields):
    return {"spec": {"template": {"spec": {"containers": [fields]}}}}


def pod_spec(**fields):
    return {"spec": {"template": {"spec": fields}}}


def op(name, path, **fields):
    return {"op": name, "path": path, **fields}


STRATEGIC = [
    (WEB, container(name="main", image="nginx:2")),
    (WEB, container(name="side", image="side:1")),
    (WEB, container(image="nameless")),
    (WEB, container(name="main", **{"$patch": "delete"})),
    (WEB, container(name="main", **{"$patch": "unknown"})),
    (WEB, {"spec": {"template": {"spec": {"containers": [{"$patch": "replace"}, {"name": "only", "image": "o"}]}}}}),
    (WEB, {"spec": {"template": {"spec": {"containers": [{"$patch": "merge"}, {"name": "only", "image": "o"}]}}}}),
    (WEB, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    (WEB, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": {}}}}),
    (WEB, {"spec": {"strategy": {"$retainKeys": "type"}}}),
    (WEB, {"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}}),
    (WEB, {"spec": {"strategy": {"$patch": "delete"}}}),
    (WEB, {"spec": {"strategy": None, "replicas": 5}}),
    (WEB, {"spec": {"replicas": "many"}}),
    (WEB, {"spec": {"replicas": -1}}),
    (WEB, {"spec": {"selector": {"matchLabels": {"new": "one"}}}}),
    (WEB, {"spec": {"unknown": 1}}),
    (WEB, {"metadata": {"labels": {"a": "b", "c": None}, "annotations": {"x": "y"}}}),
    (WEB, {"metadata": {"finalizers": ["example.com/a"], "$deleteFromPrimitiveList/finalizers": ["example.com/b"]}}),
    (WEB, []),
    (WEB, "text"),
    (
        WEB,
        pod_spec(
            **{"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]},
            containers=[{"name": "side", "image": "side"}],
        ),
    ),
    (
        WEB,
        pod_spec(**{"$setElementOrder/containers": [{"name": "main"}]}, containers=[{"name": "side", "image": "side"}]),
    ),
    (WEB, pod_spec(**{"$setElementOrder/containers": [{"name": "gone"}, {"name": "main"}]})),
    (WEB, pod_spec(**{"$setElementOrder": []})),
    (WEB, pod_spec(**{"$deleteFromPrimitiveList": []})),
    (WEB, container(name="main", ports=[{"containerPort": 80, "name": "http"}])),
    (WEB, container(name="main", ports=[{"containerPort": 81}, {"containerPort": 80, "$patch": "delete"}])),
    (WEB, container(name="main", env=[{"name": "A", "value": "1"}, {"name": "B", "valueFrom": None}])),
    (WEB, container(name="main", command=["a"], args=None)),
    (WEB, pod_spec(tolerations=[{"key": "a", "operator": "Exists"}])),
    (WEB, pod_spec(volumes=[{"name": "tmp", "emptyDir": {}}])),
    (WEB, pod_spec(nodeSelector={"disk": "ssd"})),
    (WEB, pod_spec(containers=None)),
    (WEB, pod_spec(containers={"name": "main"})),
    (WEB, pod_spec(containers=["main"])),
    (POD, {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}),
    (POD, {"spec": {"containers": [{"name": "other", "image": "nginx:2"}]}}),
    (POD, {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
    (POD, {"spec": {"nodeName": "node-1"}}),
    (POD, {"spec": {"activeDeadlineSeconds": 10}}),
    (POD, {"metadata": {"labels": {"a": "Not Valid!"}}}),
    (MAP, {"data": {"b": None, "d": "new"}}),
    (MAP, {"data": {"$patch": "replace", "only": "this"}}),
    (MAP, {"data": None, "binaryData": None}),
    (MAP, {"data": {"a.txt": 3}}),
    ("Service web", {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
    ("Service web", {"spec": {"ports": [{"port": 81, "name": "more"}]}}),
    ("Service web", {"spec": {"clusterIP": "10.96.3.4"}}),
    ("Node node-1", {"spec": {"unschedulable": True}}),
    ("Node node-1", {"spec": {"taints": [{"key": "more", "effect": "NoExecute"}]}}),
    ("Node node-1", {"status": {"capacity": {"cpu": "16"}}}),
]
MERGE = [
    (WEB, {"spec": {"replicas": 4, "template": {"metadata": {"labels": {"extra": "1"}}}}}),
    (WEB, {"spec": {"template": {"spec": {"containers": [{"name": "only", "image": "o"}]}}}}),
    (WEB, {"spec": {"strategy": None}}),
    (WEB, {"spec": {"template": {"metadata": {"labels": None}}}}),
    (WEB, {"spec": None}),
    (WEB, {"spec": "text"}),
    (WEB, {"metadata": {"labels": {"new": {"deep": None}}}}),
    (WEB, {"metadata": {"annotations": {"a": None, "b": "c"}}}),
    (WEB, []),
    (WEB, 3),
    (WEB, {"kind": "Pod"}),
    (MAP, {"data": {"a.txt": None, "e": "f"}}),
    (MAP, {"immutable": True}),
    (POD, {"spec": {"terminationGracePeriodSeconds": 5}}),
    (POD, {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}]}}),
    ("Job plain", {"spec": {"suspend": True}}),
    ("Job plain", {"spec": {"parallelism": 3, "completions": 3}}),
    ("Job plain", {"spec": {"template": {"spec": {"containers": None}}}}),
    ("Secret keys", {"stringData": {"more": "text"}}),
    ("Secret keys", {"type": "other"}),
]
OPERATIONS = [
    (WEB, [op("replace", "/spec/replicas", value=7)]),
    (WEB, [op("test", "/spec/replicas", value=1), op("replace", "/spec/replicas", value=2)]),
    (WEB, [op("test", "/spec/replicas", value=9), op("replace", "/spec/replicas", value=2)]),
    (WEB, [op("test", "/spec/nothing", value=None)]),
    (WEB, [op("add", "/metadata/labels", value={"a": "b"}), op("add", "/metadata/labels/c", value="d")]),
    (WEB, [op("add", "/metadata/labels/c", value="d")]),
    (WEB, [op("add", "/spec/template/spec/containers/-", value={"name": "side", "image": "s"})]),
    (WEB, [op("add", "/spec/template/spec/containers/0", value={"name": "first", "image": "s"})]),
    (WEB, [op("add", "/spec/template/spec/containers/5", value={"name": "far", "image": "s"})]),
    (WEB, [op("remove", "/spec/template/spec/containers/0")]),
    (WEB, [op("remove", "/spec/minReadySeconds")]),
    (WEB, [op("remove", "/spec/nothing")]),
    (WEB, [op("replace", "/spec/nothing", value=1)]),
    (WEB, [op("replace", "/spec/template/metadata/annotations/a", value="z")]),
    (WEB, [op("add", "/metadata/annotations", value={}), op("add", "/metadata/annotations/x~1y~0z", value="1")]),
    (WEB, [op("move", "/metadata/labels", **{"from": "/spec/template/metadata/annotations"})]),
    (WEB, [op("copy", "/metadata/labels", **{"from": "/spec/template/metadata/labels"})]),
    (WEB, [op("copy", "/metadata/labels", **{"from": "/spec/nothing"})]),
    (WEB, [op("move", "/spec/template/spec", **{"from": "/spec/nothing"})]),
    (WEB, [op("unknown", "/spec")]),
    (WEB, [op("replace", "/spec/replicas", value="many")]),
    (WEB, [op("add", "/spec/more", value=1)]),
    (WEB, {"op": "add"}),
    (WEB, [3]),
    (WEB, []),
    (MAP, [op("add", "/data/new", value="x"), op("remove", "/data/b")]),
    (MAP, [op("replace", "/data", value=None)]),
    (MAP, [op("add", "/data/new", value="x")] * 10_001),
    (POD, [op("replace", "/spec/containers/0/image", value="nginx:3")]),
    (POD, [op("replace", "/spec/containers/-1/image", value="nginx:3")]),
]
WRITTEN = [
    (label, form, patch)
    for form, rows in ((STRATEGIC_PATCH, STRATEGIC), (MERGE_PATCH, MERGE), (JSON_PATCH, OPERATIONS))
    for label, patch in rows
]


def generated(item):
    """What is odd about a broken object, as patches that would break the sound one."""
    for what, one in broken(item):
        part = what.split(" ")[0].split(".")[0].split("[")[0]
        if part not in ("metadata", "") and part in one:
            for form in (STRATEGIC_PATCH, MERGE_PATCH):
                yield Question(f"{label_of(item)}: {what} ({form})", item, form, {part: one[part]})


def compared(ours, theirs, item, questions, agreement):
    with kept(ours, theirs, item):
        verdicts = asked(lambda one: theirs.patch(one.item, one.content_type, one.patch), questions)
        for question, real in zip(questions, verdicts, strict=True):
            mine = ours.patch(item, question.content_type, question.patch)
            agreement.add(item["kind"], question.what, mine, real)


def test_written_patches_do_the_same(plane):
    ours, theirs, agreement = Ours(), Theirs(plane.client), Agreement()
    for label in dict.fromkeys(label for label, _, _ in WRITTEN):
        item = BY_LABEL[label]
        rows = [(form, patch) for of, form, patch in WRITTEN if of == label]
        questions = [Question(f"{label}: {str(patch)[:200]} ({form})", item, form, patch) for form, patch in rows]
        compared(ours, theirs, item, questions, agreement)
    agreement.check("written patches")


@pytest.mark.prove
def test_generated_patches_do_the_same(plane):
    ours, theirs, agreement = Ours(), Theirs(plane.client), Agreement()
    for item in samples():
        questions = list(generated(item))
        compared(ours, theirs, item, questions if is_full_proof() else questions[::EVERY], agreement)
    agreement.check("generated patches")
