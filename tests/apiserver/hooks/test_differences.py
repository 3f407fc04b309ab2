"""A patch makes one object of another, whatever they are."""

from __future__ import annotations

import json
from copy import deepcopy
from random import Random

import pytest

from muster.apiserver.hooks.differences import patch_between
from muster.apiserver.patches import JSON_PATCH, apply_patch
from tests.support import assert_sound, proof_count


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {}, [{"op": "remove", "path": "/a"}]),
        ({}, {"a/b~c": 1}, [{"op": "add", "path": "/a~1b~0c", "value": 1}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [{"op": "replace", "path": "/a/1", "value": 3}]),
        ({"a": [1]}, {"a": [1, 3]}, [{"op": "replace", "path": "/a", "value": [1, 3]}]),
        ({"a": None}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]),
    ],
)
def test_patches(before, after, want):
    assert patch_between(before, after) == want


def _value(random: Random, depth: int = 0):
    match random.randrange(6 if depth < 3 else 4):
        case 0:
            return random.randrange(3)
        case 1:
            return random.choice(["", "a", "b/c", "d~e"])
        case 2:
            return random.choice([True, False])
        case 3:
            return None
        case 4:
            return [_value(random, depth + 1) for _ in range(random.randrange(4))]
    return _object(random, depth + 1)


def _object(random: Random, depth: int = 0):
    return {name: _value(random, depth) for name in ("a", "b", "c/d", "e~f", "~1") if random.random() < 0.6}


def _check(random: Random) -> None:
    before, after = _object(random), _object(random)
    operations = patch_between(before, after)
    made = apply_patch(JSON_PATCH, deepcopy(before), json.dumps(operations).encode(), None)
    assert json.dumps(made, sort_keys=True) == json.dumps(after, sort_keys=True)
    assert patch_between(made, after) == []


@pytest.mark.prove
def test_every_patch_leads_to_its_object():
    assert_sound(_check, range(proof_count(20_000)))
