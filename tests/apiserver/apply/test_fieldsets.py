"""Sets of fields obey the laws of sets, and are written as Kubernetes writes them."""

from __future__ import annotations

import json
from random import Random

import pytest

from muster.apiserver.apply.fieldsets import (
    InvalidFields,
    difference,
    fitted,
    has,
    intersection,
    ordered,
    path_text,
    paths_of,
    read,
    union,
    with_named_fields,
    without,
)
from muster.apiserver.apply.schema import builtin_type, type_from_schema
from tests.stopwatch import is_done_within
from tests.support import assert_sound, proof_count

SETS = 2_000
NAMES = ("f:a", "f:b", "f:c", 'k:{"name":"x"}', 'k:{"name":"y"}', 'v:"1"', "v:1", "i:0")


def some_set(random: Random, depth: int = 3):
    """A set of random paths."""
    result = {}
    for _ in range(random.randint(0, 6)):
        path = [random.choice(NAMES) for _ in range(random.randint(1, depth))]
        result = union(result, one_path(path))
    return result


def one_path(path):
    node = {}
    for name in reversed(path):
        node = {name: node}
    return node


def members(given):
    return set(paths_of(given))


@pytest.mark.prove
def test_sets_are_sets():
    def check(random: Random) -> None:
        one, other = some_set(random), some_set(random)
        mine, theirs = members(one), members(other)
        assert members(union(one, other)) == mine | theirs
        assert members(intersection(one, other)) == mine & theirs
        assert members(difference(one, other)) == mine - theirs
        apart = {path for path in mine if not any(path[: len(top)] == top for top in theirs)}
        assert members(without(one, other)) == apart
        assert all(has(one, path) for path in mine)
        for made in (union(one, other), intersection(one, other), difference(one, other), without(one, other)):
            assert read(json.loads(json.dumps(made))) == made, "a set is in the one form that is read"

    assert_sound(check, range(proof_count(SETS)))


@pytest.mark.prove
def test_what_is_written_is_read_again():
    def check(random: Random) -> None:
        given = some_set(random)
        text = json.dumps(ordered(given))
        assert read(json.loads(text)) == given
        assert json.dumps(ordered(read(json.loads(text)))) == text

    assert_sound(check, range(proof_count(SETS)))


def test_names_come_in_kubernetes_order():
    names = [
        'v:"b"',
        "v:10",
        "v:9",
        "i:10",
        "i:9",
        'k:{"port":80}',
        'k:{"port":9}',
        'k:{"port":"a"}',
        "f:b",
        "f:B",
        ".",
    ]
    wanted = [
        ".",
        "f:B",
        "f:b",
        'k:{"port":9}',
        'k:{"port":80}',
        'k:{"port":"a"}',
        "v:9",
        "v:10",
        'v:"b"',
        "i:9",
        "i:10",
    ]
    assert list(ordered({name: {} for name in names})) == wanted


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (None, {}),
        ({}, {}),
        ({"f:a": {".": {}}}, {"f:a": {}}),
        ({"f:a": {}, "x:later": {"f:b": {}}}, {"f:a": {}}),
        ({'k:{ "b": 1, "a": "x" }': {}}, {'k:{"a":"x","b":1}': {}}),
        ({'v: "x"': {}}, {'v:"x"': {}}),
    ],
)
def test_other_forms_are_read_into_the_one(given, want):
    assert read(given) == want


@pytest.mark.parametrize(
    "given", ["text", [], {"q": {}}, {"fa": {}}, {"k:[1]": {}}, {"k:{": {}}, {"v:": {}}, {"i:x": {}}, {"f:a": 3}]
)
def test_what_is_no_set_is_refused(given):
    with pytest.raises(InvalidFields):
        read(given)


def test_hostile_sets_end_soon():
    wide = {f"f:{number}": {"f:a": {}} for number in range(10_000)}
    assert is_done_within(5, lambda: difference(union(read(wide), wide), ordered(wide)))
    with pytest.raises(InvalidFields):
        read({"k:" + "[" * 10_000: {}})


def test_paths_are_written_as_in_messages():
    given = {"f:spec": {"f:list": {'k:{"a":1,"b":"x"}': {"f:c": {}}, 'v:"y"': {}}, "f:other": {"i:3": {}}}}
    texts = [path_text(path) for path in paths_of(given)]
    assert texts == ['.spec.list[="y"]', '.spec.list[a=1,b="x"].c', ".spec.other[3]"]


def test_only_named_fields_are_added():
    given = {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:containers": {'k:{"name":"x"}': {"f:image": {}}}}}
    want = {
        "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:containers": {".": {}, 'k:{"name":"x"}': {"f:image": {}}}},
    }
    assert with_named_fields(given, builtin_type("v1", "Pod")) == want


def test_a_set_follows_a_schema_that_became_atomic():
    spec = {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"}
    type_ = type_from_schema({"properties": {"spec": spec}})
    assert fitted({"f:spec": {".": {}, "f:a": {}}}, type_) == {"f:spec": {}}
    kept = {"f:spec": {}, "f:metadata": {"f:labels": {"f:a": {}}}}
    assert fitted(kept, type_) is kept
