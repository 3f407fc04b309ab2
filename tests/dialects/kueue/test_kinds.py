"""Our shapes against Kueue's own definitions, and hostile values at every place of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

import pytest
import yaml

from muster.dialects.kueue.defaults import apply_defaults
from muster.dialects.kueue.forgiving import forgive
from muster.dialects.kueue.kinds import HUB, KINDS, VERSIONS
from muster.dialects.kueue.validate import problems_of, unknown_fields_of
from muster.dialects.kueue.versions import to_version
from muster.model.errors import InvalidObject
from muster.model.shapes import shape_problems
from muster.model.shapes_open_api import open_api_of
from tests.dialects.kueue.objects import complete_object, paths, replaced
from tests.support import is_full_proof, shared

CASES = [(kind, version) for kind in KINDS for version in VERSIONS]


@cache
def definition(kind: str) -> Any:
    text = shared(f"crds/{KINDS[kind].plural}.kueue.x-k8s.io.yaml").read_text()
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def real_schema(kind: str, version: str) -> Any:
    versions = definition(kind)["spec"]["versions"]
    return next(item["schema"]["openAPIV3Schema"] for item in versions if item["name"] == version)


def without_rules(schema: Any) -> Any:
    """A real schema less the rules between fields, which are code with us."""
    if isinstance(schema, dict):
        return {key: without_rules(item) for key, item in schema.items() if key != "x-kubernetes-validations"}
    return [without_rules(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_shapes_are_those_of_the_real_definitions(kind: str, version: str) -> None:
    assert open_api_of(KINDS[kind].shapes[version]) == without_rules(real_schema(kind, version))


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_those_of_the_real_definitions(kind: str) -> None:
    spec = definition(kind)["spec"]
    assert spec["names"]["plural"] == KINDS[kind].plural
    assert tuple(spec["names"]["shortNames"]) == KINDS[kind].short_names
    assert (spec["scope"] == "Namespaced") is KINDS[kind].is_namespaced


# Hostile values ---------------------------------------------------------------------------------------------------

HOSTILE: tuple[Any, ...] = (
    None,
    "",
    "\ud800",
    "x" * 400,
    -1,
    2**70,
    10**5000,
    1.5,
    float("nan"),
    True,
    [],
    [None],
    [[]],
    {},
    {"a": None},
    {5: "x"},
    [{"name": "a"}, {"name": "a"}],
)


Place = tuple[Any, ...]


def mutants(full: Any, each: int) -> Iterator[tuple[Place, Any]]:
    """An object with hostile values at each of its places: all of them in a full proof, else so many, in turn."""
    each = len(HOSTILE) if is_full_proof() else each
    for index, path in enumerate(paths(full)):
        for turn in range(each):
            yield path, replaced(full, path, HOSTILE[(index * each + turn) % len(HOSTILE)])


def tried(act: Callable[[], Any]) -> None:
    """Runs something that may refuse its object and may not fail in any other way."""
    with suppress(InvalidObject):
        act()


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_nothing_but_refusals_escapes(kind: str, version: str) -> None:
    full = complete_object(kind, version)
    other = next(known for known in VERSIONS if known != version)
    for _, mutant in mutants(full, each=2):
        problems_of(mutant, old=full)
        problems_of(full, old=mutant, strict=True)
        unknown_fields_of(mutant)
        forgive(mutant)
        tried(partial(apply_defaults, mutant))
        tried(partial(to_version, mutant, other))
        tried(partial(to_version, mutant, other, preserve=False))


def test_nothing_but_refusals_escapes_from_a_whole_pod() -> None:
    full = complete_object("Workload", HUB, whole_pod=True)
    cases = list(mutants(full, each=1))
    for _, mutant in cases[:: 1 if is_full_proof() else 10]:
        problems_of(mutant)


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_complete_objects_have_the_right_shape(kind: str, version: str) -> None:
    full = complete_object(kind, version)
    assert not list(shape_problems(KINDS[kind].shapes[version], full, ""))
    assert not unknown_fields_of(full)


@pytest.mark.parametrize("value", [None, 5, "x", [], True, {}, {"apiVersion": 5}, {"apiVersion": "v1", "kind": "Pod"}])
def test_what_is_none_of_ours_is_refused(value: Any) -> None:
    errors, warnings = problems_of(value)
    assert len(errors) == 1
    assert not warnings


def test_a_misspelt_kind_names_the_nearest() -> None:
    errors, _ = problems_of({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueu"})
    assert str(errors[0]) == "kind: is 'ClusterQueu'; did you mean ClusterQueue?"


# The real definitions as an oracle: an independent reading of their language ------------------------------------------


NOT_JUDGED = object()


def schema_at(schema: Any, place: Place) -> Any:
    """The part of a definition for a place; quantities are judged elsewhere, and metadata by other rules."""
    for step in place:
        if schema.get("x-kubernetes-int-or-string") and "pattern" in schema:
            return NOT_JUDGED
        if isinstance(step, int):
            schema = schema["items"]
        elif "properties" in schema:
            schema = schema["properties"][step]
        elif "additionalProperties" in schema:
            schema = schema["additionalProperties"]
        else:
            return NOT_JUDGED
    return NOT_JUDGED if "pattern" in schema and "anyOf" in schema else schema


def is_accepted(schema: Any, value: Any) -> bool:
    """Whether a definition takes a value; null is absent."""
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    checks = {"object": accepts_object, "array": accepts_array, "string": accepts_string, "integer": accepts_integer}
    check = checks.get(schema["type"])
    return check(schema, value) if check else isinstance(value, bool)


def accepts_object(schema: Any, value: Any) -> bool:
    if not isinstance(value, dict) or len(value) > schema.get("maxProperties", len(value)):
        return False
    present = {key: item for key, item in value.items() if item is not None}
    if any(name not in present for name in schema.get("required", ())):
        return False
    each = schema.get("additionalProperties")
    if each is not None:
        return all(isinstance(key, str) and is_accepted(each, item) for key, item in present.items())
    known = schema.get("properties", {})
    return all(is_accepted(known[key], item) for key, item in present.items() if key in known)


def accepts_array(schema: Any, value: Any) -> bool:
    if not isinstance(value, list) or not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9):
        return False
    items = [{} if item is None and schema["items"].get("type") == "object" else item for item in value]
    if not all(is_accepted(schema["items"], item) for item in items):
        return False
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys:
        items = [[item.get(key, "") for key in keys] for item in items]
    return not (keys or schema.get("x-kubernetes-list-type") == "set") or len(items) == len({*map(repr, items)})


def accepts_string(schema: Any, value: Any) -> bool:
    if not isinstance(value, str) or value not in schema.get("enum", [value]):
        return False
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9):
        return False
    if schema.get("format") == "date-time" and value != "2030-01-31T12:00:00Z":
        return False
    pattern = schema.get("pattern", "").replace("^(?i)", "(?i)^")
    return re.search(pattern.replace("$", r"\Z"), value) is not None


def accepts_integer(schema: Any, value: Any) -> bool:
    bits = 63 if schema.get("format") == "int64" else 31
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return bool(max(-(2**bits), schema.get("minimum", -(2**bits))) <= value < 2**bits)


@pytest.mark.parametrize(("kind", "version"), CASES)
def test_shapes_refuse_what_the_real_definitions_refuse(kind: str, version: str) -> None:
    real, shape = real_schema(kind, version), KINDS[kind].shapes[version]
    for place, mutant in mutants(complete_object(kind, version), each=6):
        if place[0] == "metadata" or schema_at(real, place) is NOT_JUDGED or holds_quantities(mutant, place):
            continue
        problems = [str(problem) for problem in shape_problems(shape, mutant, "")]
        assert is_accepted(real, mutant) is (not problems), (place, problems)


def holds_quantities(mutant: Any, place: Place) -> bool:
    """Whether the hostile value came to stand for an object of quantities, whose items are judged elsewhere."""
    value = mutant
    for step in place:
        value = value[step]
    return place[-1] in ("resources", "resourceUsage", "consumedResources", "requests", "limits") and bool(value)
