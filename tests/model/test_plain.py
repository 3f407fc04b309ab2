"""Copies and comparisons that never recurse."""

from __future__ import annotations

from typing import Any

import pytest

from muster.model.plain import copied, is_same, without_nulls


def nested(depth: int, leaf: Any = 1) -> Any:
    value = leaf
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


def test_copy_shares_nothing() -> None:
    original: Any = {"a": [{"b": 1}], "c": {}}
    copy = copied(original)
    copy["a"][0]["b"] = 2
    copy["c"]["d"] = 1
    assert original == {"a": [{"b": 1}], "c": {}}


def test_nulls_of_objects_go_and_those_of_lists_stay() -> None:
    assert without_nulls({"a": None, "b": [None, {"c": None}], "d": {"e": None}}) == {"b": [None, {}], "d": {}}


def test_depth_does_not_matter() -> None:
    deep = nested(50_000)
    assert is_same(copied(deep), without_nulls(deep))
    assert not is_same(deep, nested(50_000, leaf=2))


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        pytest.param({"a": None}, {}, True, id="null is absent"),
        pytest.param([1], [1, 2], False, id="lists of different length"),
        pytest.param({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}, True, id="quantities count by value"),
        pytest.param({"requests": {"cpu": 1}}, {"requests": {"cpu": "1"}}, True, id="numbers are quantities too"),
        pytest.param({"requests": {"cpu": "x"}}, {"requests": {"cpu": "y"}}, False, id="no quantities at all"),
        pytest.param({"value": "1"}, {"value": "1000m"}, False, id="elsewhere texts are texts"),
        pytest.param({"a": 1}, {"a": True}, False, id="a flag is no number"),
        pytest.param({"limits": {"a": 10**5000}}, {"limits": {"a": "1"}}, False, id="numbers beyond printing"),
        pytest.param({"a": {}}, {"a": []}, False, id="an object is no list"),
    ],
)
def test_sameness(one: Any, other: Any, want: bool) -> None:
    assert is_same(one, other) is want
    assert is_same(other, one) is want
