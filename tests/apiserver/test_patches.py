"""Patches: what each kind of them does, what it refuses, and what it may cost."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver import merge_json
from muster.apiserver.facts import KINDS
from muster.apiserver.merge_strategic import merged
from muster.apiserver.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    apply_patch,
    content_types,
    read_patched,
)
from muster.apiserver.statuses import Problem
from muster.model.errors import InvalidObject

DEPLOYMENT = KINDS["apps", "v1", "Deployment"]
POD_SPEC = "io.k8s.api.core.v1.PodSpec"


def applied(content_type, before, patch, kind=DEPLOYMENT):
    return apply_patch(content_type, deepcopy(before), json.dumps(patch).encode(), kind)


def refusal(content_type, before, patch, kind=DEPLOYMENT):
    with pytest.raises(Problem) as caught:
        applied(content_type, before, patch, kind)
    return caught.value.code


@pytest.mark.parametrize(
    ("before", "operations", "want"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
        ({"a": {"b": 1}}, [{"op": "replace", "path": "/a/b", "value": None}], {"a": {"b": None}}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
        ({"a": {"b": [1]}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": [1]}, "c": {"b": [1]}}),
        ({"x/y": {"m~n": 1}}, [{"op": "test", "path": "/x~1y/m~0n", "value": 1}], {"x/y": {"m~n": 1}}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
        ({"": 1}, [{"op": "remove", "path": "/"}], {}),
    ],
)
def test_operations(before, operations, want):
    assert applied(JSON_PATCH, before, operations) == want


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "test", "path": "/t", "value": 1}], 422),
        ([{"op": "remove", "path": "/b"}], 422),
        ([{"op": "add", "path": "/b/c", "value": 1}], 422),
        ([{"op": "add", "path": "/l/9", "value": 1}], 422),
        ([{"op": "add", "path": "/l/" + "9" * 5000, "value": 1}], 422),
        ([{"op": "add", "path": "/l/one", "value": 1}], 422),
        ([{"op": "add", "path": "", "value": {}}], 422),
        ([{"op": "add", "value": {}}], 422),
        ([{"op": "move", "from": "/l", "path": "/l/0"}], 422),
        ([{"op": "fly", "path": "/a"}], 422),
        ([{"path": "/a"}], 422),
        (["add"], 400),
        ({"op": "add"}, 400),
        ([{"op": "add", "path": "/b", "value": 1}] * 10_001, 413),
        ([{"op": "copy", "from": "/l", "path": "/l/-"}] * 30, 413),
    ],
)
def test_operations_that_are_refused(operations, code):
    assert refusal(JSON_PATCH, {"a": 1, "t": True, "l": []}, operations) == code


def test_a_copy_does_not_share_what_it_copies():
    operations = [
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/x", "value": 1},
    ]
    assert applied(JSON_PATCH, {"a": {}}, operations) == {"a": {}, "b": {"x": 1}}


@pytest.mark.parametrize(
    ("before", "patch", "want"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c", "d": "e"}}, {"a": {"b": None}}, {"a": {"d": "e"}}),
        ({"a": "b"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": [1]}, {"a": [None]}, {"a": [None]}),
    ],
)
def test_merging(before, patch, want):
    assert applied(MERGE_PATCH, before, patch) == want


@pytest.mark.parametrize("content_type", [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b'"text"', b"[" * 200_000, b"\xff"])
def test_what_is_no_patch_is_a_bad_request(content_type, body):
    with pytest.raises(Problem) as caught:
        apply_patch(content_type, {}, body, DEPLOYMENT)
    assert caught.value.code == 400


def test_only_kinds_with_tables_merge_strategically():
    assert content_types(None) == (JSON_PATCH, MERGE_PATCH)
    assert refusal(STRATEGIC_PATCH, {}, {}, None) == 415
    assert refusal("text/plain", {}, {}) == 415
    assert applied("application/merge-patch+json; charset=utf-8", {}, {"a": 1}) == {"a": 1}


MAIN, SIDE = {"name": "main", "image": "m"}, {"name": "side", "image": "s"}


@pytest.mark.parametrize(
    ("before", "patch", "want"),
    [
        pytest.param([MAIN, SIDE], [{"name": "side", "tty": True}], [MAIN, {**SIDE, "tty": True}], id="by key"),
        pytest.param([MAIN], [SIDE], [SIDE, MAIN], id="new ones come first"),
        pytest.param([MAIN, SIDE], [{"name": "main", "$patch": "delete"}], [SIDE], id="deleted"),
        pytest.param([MAIN], [{"$patch": "replace"}, SIDE], [SIDE], id="replaced"),
        pytest.param([MAIN], [{"name": "main", "image": None}], [{"name": "main"}], id="null deletes"),
        pytest.param([MAIN], None, None, id="all of it"),
    ],
)
def test_keyed_lists(before, patch, want):
    after = merged({"containers": before}, {"containers": patch}, POD_SPEC)
    assert after.get("containers") == want


def test_the_order_that_a_patch_asks_for():
    order = {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]}
    assert merged({"containers": [MAIN, SIDE]}, order, POD_SPEC) == {"containers": [SIDE, MAIN]}
    third = {"name": "third"}
    patch = {**order, "containers": [{"name": "main", "image": "n"}]}
    after = merged({"containers": [third, MAIN, SIDE]}, patch, POD_SPEC)
    assert [one["name"] for one in after["containers"]] == ["third", "side", "main"]


def test_plain_lists_merge_only_where_the_tables_say_so():
    meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    assert merged({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, meta) == {"finalizers": ["b", "a"]}
    patch = {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}
    assert merged({"finalizers": ["a", "b"]}, patch, meta)["finalizers"] == ["c", "b"]
    container = "io.k8s.api.core.v1.Container"
    assert merged({"args": ["a"]}, {"args": ["b"]}, container) == {"args": ["b"]}


def test_keys_that_are_retained():
    strategy = "io.k8s.api.apps.v1.DeploymentStrategy"
    before = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    assert merged(before, {"$retainKeys": ["type"], "type": "Recreate"}, strategy) == {"type": "Recreate"}
    with pytest.raises(Problem, match="retainKeys"):
        merged(before, {"$retainKeys": ["type"], "rollingUpdate": {}}, strategy)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab$/~", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


@given(OBJECTS, OBJECTS)
def test_merging_twice_changes_nothing_more(before, patch):
    once = merge_json.merged(before, patch)
    assert merge_json.merged(once, patch) == once
    assert merge_json.merged(once, {}) == once


@given(OBJECTS, OBJECTS)
def test_from_nothing_a_patch_is_itself_without_its_nulls(before, patch):
    assert merge_json.merged({}, patch) == without_nulls(patch)
    assert merged({}, patch, "") == merged(merged({}, patch, ""), {}, "")


ITEMS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("vwxyz")}, optional={"image": st.sampled_from("ij")}),
    unique_by=lambda item: item["name"],
    max_size=5,
)


@given(ITEMS, ITEMS)
def test_a_keyed_merge_has_every_item_once(before, patch):
    after = merged({"containers": before}, {"containers": patch}, POD_SPEC).get("containers") or []
    names = [one["name"] for one in after]
    assert sorted(names) == sorted({one["name"] for one in [*before, *patch]})
    kept = [name for name in names if name in {one["name"] for one in patch}]
    assert kept == [one["name"] for one in patch], "the patch's own order stays"


def test_what_a_patch_leaves_must_be_of_its_kind():
    sound = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}, "odd": 1}
    assert read_patched(sound, DEPLOYMENT).unknown == ["odd"]
    for change in ({"kind": "Pod"}, {"spec": {"replicas": "many"}}, {"apiVersion": None}):
        with pytest.raises(InvalidObject) as caught:
            read_patched({**sound, **change}, DEPLOYMENT)
        assert caught.value.path == "patch"
