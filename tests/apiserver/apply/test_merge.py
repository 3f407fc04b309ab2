"""What is applied becomes part of an object by its schema, and fields go without what is beside them."""

from __future__ import annotations

import pytest

from muster.apiserver.apply.compare import compare, fields_of
from muster.apiserver.apply.merge import merged, problems_of, removed
from muster.apiserver.apply.schema import DEDUCED, builtin_type, type_from_schema

POD = builtin_type("v1", "Pod")
SERVICE = builtin_type("v1", "Service")
CUSTOM = type_from_schema(
    {
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name", "kind"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "kind": {"type": "string", "default": "plain"},
                                "size": {"x-kubernetes-int-or-string": True},
                            },
                        },
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "plain": {"type": "array", "items": {"type": "integer"}},
                    "one": {
                        "type": "object",
                        "properties": {"a": {"type": "string"}},
                        "x-kubernetes-map-type": "atomic",
                    },
                },
            }
        }
    }
)


def containers(*names):
    return {"spec": {"containers": [{"name": name} for name in names]}}


@pytest.mark.parametrize(
    ("live", "applied", "want"),
    [
        ("abc", "cb", "acb"),
        ("abc", "xa", "xabc"),
        ("abcd", "dxb", "acdxb"),
        ("ab", "yz", "abyz"),
        ("", "ab", "ab"),
        ("ab", "", "ab"),
        ("abcde", "edcba", "edcba"),
    ],
)
def test_the_order_of_what_is_applied_counts(live, applied, want):
    result = merged(POD, containers(*live), containers(*applied))
    assert "".join(one["name"] for one in result["spec"]["containers"]) == want


@pytest.mark.parametrize(
    ("live", "applied", "want"),
    [
        ({"names": ["a", "b"]}, {"names": ["c", "a"]}, {"names": ["c", "a", "b"]}),
        ({"plain": [1, 2]}, {"plain": [3]}, {"plain": [3]}),
        ({"one": {"a": "x"}}, {"one": {}}, {"one": {}}),
        (
            {"free": {"x": {"y": 1}, "l": [1]}},
            {"free": {"x": {"z": 2}, "l": [2]}},
            {"free": {"x": {"y": 1, "z": 2}, "l": [2]}},
        ),
        (
            {"parts": [{"name": "a", "kind": "plain", "size": 1}]},
            {"parts": [{"name": "a", "size": "2"}, {"name": "a", "kind": "odd"}]},
            {"parts": [{"name": "a", "kind": "plain", "size": "2"}, {"name": "a", "kind": "odd"}]},
        ),
        ({"free": {"a": 1}}, {"free": None}, {"free": {"a": 1}}),
    ],
)
def test_each_type_has_its_way(live, applied, want):
    assert merged(CUSTOM, {"spec": live}, {"spec": applied}) == {"spec": want}


def test_fields_of_what_is_applied():
    given = {"spec": {"names": ["b"], "parts": [{"name": "a", "size": 1}], "free": {"x": [1]}, "plain": [], "one": {}}}
    assert fields_of(CUSTOM, given) == {
        "f:spec": {
            "f:names": {'v:"b"': {}},
            "f:parts": {'k:{"kind":"plain","name":"a"}': {".": {}, "f:name": {}, "f:size": {}}},
            "f:free": {"f:x": {}},
            "f:plain": {},
            "f:one": {},
        }
    }


def test_a_change_is_told_by_fields():
    before = {"spec": {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 81}], "selector": {"a": "b"}}}
    after = {"spec": {"ports": [{"port": 80, "name": "x"}], "selector": {"a": "c"}, "type": "NodePort"}}
    found = compare(SERVICE, before, after)
    assert found.added == {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:name": {}}}, "f:type": {}}}
    assert found.modified == {"f:spec": {"f:selector": {}}}
    gone = {
        'k:{"port":80,"protocol":"TCP"}': {"f:protocol": {}},
        'k:{"port":81,"protocol":"TCP"}': {".": {}, "f:port": {}},
    }
    assert found.removed == {"f:spec": {"f:ports": gone}}


def test_items_of_one_name_are_one_value():
    before, after = containers("a", "a"), containers("a", "a", "b")
    found = compare(POD, before, after)
    assert found.added == {"f:spec": {"f:containers": {'k:{"name":"b"}': {".": {}, "f:name": {}}}}}
    assert not found.modified and not found.removed


def test_removing_leaves_what_is_beside():
    given = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b"}], "nodeName": "n"}}
    gone = {"f:spec": {"f:containers": {'k:{"name":"a"}': {"f:image": {}}, 'k:{"name":"b"}': {}}, "f:nodeName": {}}}
    assert removed(POD, given, gone) == {"spec": {"containers": [{"name": "a"}]}}
    assert removed(DEDUCED, {"a": {"b": 1}}, {"f:a": {"f:b": {}}}) == {"a": None}


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"names": ["a", "a"]}, ['.spec.names: duplicate entries for key [="a"]']),
        ({"names": [{}]}, [".spec.names: element 0: associative list without keys has an element that's a map type"]),
        ({"names": "a"}, [".spec.names: expected list, got &{a}"]),
        ({"plain": [1, "a"]}, [".spec.plain[1]: expected numeric (int or float), got string"]),
        ({"odd": 1}, [".spec.odd: field not declared in schema"]),
        (
            {"parts": [{"size": 1}]},
            [
                (
                    '.spec.parts: element 0: associative list with keys has an element that omits key field "name" '
                    "(and doesn't have default value)"
                )
            ],
        ),
        (
            {"parts": [{"name": "a", "size": []}]},
            ['.spec.parts[kind="plain",name="a"].size: expected any scalar, got &{[]}'],
        ),
        ({"free": {"anything": [{"at": "all"}]}}, []),
    ],
)
def test_what_does_not_fit_is_told(spec, problems):
    assert list(problems_of(CUSTOM, {"metadata": {"name": "x"}, "spec": spec})) == problems
