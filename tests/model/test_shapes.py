"""The language of shapes: problems, defaults, unknown fields, pruning."""

from __future__ import annotations

from typing import Any

import pytest

from muster.model.shapes import (
    Amount,
    Anything,
    Duration,
    Flag,
    IntOrText,
    ListOf,
    MapOf,
    Moment,
    Number,
    Schema,
    Struct,
    Text,
    Whole,
    is_moment,
    pruned,
    shape_problems,
    unknown_fields,
    with_defaults,
)
from muster.model.texts import CONDITION_REASON, DNS_LABEL, DNS_SUBDOMAIN, KIND_NAME, QUALIFIED_NAME, nearest

NAMED = Struct(fields={"name": Text(), "count": Whole(least=0)}, required=("name",), defaults={"count": 1})


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        pytest.param(Text(), "a", "", id="text"),
        pytest.param(Text(), 5, "p: is 5; give a string", id="a number is no text"),
        pytest.param(Text(), None, "p: is null; give a string", id="a null item is no text"),
        pytest.param(Text(most=2), "abc", "p: has 3 characters; give at most 2", id="too long"),
        pytest.param(Text(least=1), "", "p: is empty; give at least 1 character", id="empty"),
        pytest.param(Text(choices=("On", "Off")), "on", "p: is 'on'; did you mean On?", id="nearly a choice"),
        pytest.param(Text(choices=("On", "Off")), "zzz", "p: is 'zzz'; give one of On, Off", id="no choice"),
        pytest.param(Text(most=253, form=DNS_SUBDOMAIN), "a.b", "", id="a name"),
        pytest.param(
            Text(form=DNS_SUBDOMAIN),
            "A",
            "p: is 'A'; give a name of lower-case letters, digits, inner dashes and dots",
            id="capitals in a name",
        ),
        pytest.param(Whole(), 3.0, "", id="3.0 is whole"),
        pytest.param(Whole(), True, "p: is True; give a whole number", id="a flag is no number"),
        pytest.param(Whole(), "3", "p: is '3'; give a whole number", id="text is no number"),
        pytest.param(Whole(), 2**31, "p: is 2147483648; give a number from -2147483648 to 2147483647", id="32 bits"),
        pytest.param(Whole(is_long=True), 2**31, "", id="64 bits"),
        pytest.param(
            Whole(is_long=True),
            10**5000,
            "p: is a number of more than 77 digits; give a number from -9223372036854775808 to 9223372036854775807",
            id="five thousand digits",
        ),
        pytest.param(Whole(least=1), 0, "p: is 0; give a number from 1 to 2147483647", id="below the least"),
        pytest.param(Flag(), "true", "p: is 'true'; give true or false", id="text is no flag"),
        pytest.param(Number(), float("inf"), "p: is inf; give a finite number", id="no infinity"),
        pytest.param(Amount(), "2Gi", "", id="a quantity"),
        pytest.param(Amount(), -1, "p: is -1; give 0 or more", id="negative"),
        pytest.param(Amount(), "-1E30", "p: is '-1E30'; give 0 or more", id="very negative"),
        pytest.param(Amount(), "-0", "", id="minus zero is zero"),
        pytest.param(Amount(), 2**63 - 1, "", id="the largest"),
        pytest.param(
            Amount(), 2**63, "p: is 9223372036854775808; give at most 9223372036854775807", id="above the largest"
        ),
        pytest.param(
            Amount(), "1e999999999", "p: is '1e999999999'; give at most 9223372036854775807", id="a huge exponent"
        ),
        pytest.param(Amount(), "1n", "", id="a billionth"),
        pytest.param(Amount(), 1.5, 'p: is the number 1.5; give it as text: "1.5"', id="a fraction as a number"),
        pytest.param(Amount(), 2.0, "", id="a whole fraction"),
        pytest.param(Amount(is_free=True), -1, "", id="a pod's quantity may be what it is"),
        pytest.param(Amount(is_free=True), 0.5, "", id="a pod's fraction"),
        pytest.param(Moment(), "2030-01-31T12:00:00Z", "", id="a moment"),
        pytest.param(Moment(), "today", "p: is 'today'; give a time such as 2030-01-31T12:00:00Z", id="no moment"),
        pytest.param(Duration(), "1m", "", id="a duration"),
        pytest.param(IntOrText(), "http", "", id="a port by name"),
        pytest.param(IntOrText(), [], "p: is a list; give a whole number or a string", id="no port"),
        pytest.param(Anything(), object(), "", id="anything goes"),
        pytest.param(ListOf(item=Text()), {}, "p: is an object; give a list", id="an object is no list"),
        pytest.param(ListOf(item=Text(), least=1), [], "p: has 0 items; give at least 1", id="too few"),
        pytest.param(ListOf(item=Text(), most=1), [1, 2], "p: has 2 items; give at most 1", id="too many"),
        pytest.param(
            ListOf(item=Text(), is_set=True), ["a", "a"], "p[1]: repeats 'a'; each may be there once", id="twice"
        ),
        pytest.param(
            ListOf(item=NAMED, keys=("name",)),
            [{"name": "a"}, {"name": "a"}],
            "p[1].name: repeats 'a'; each may be there once",
            id="two of a name",
        ),
        pytest.param(ListOf(item=NAMED), [None], "p[0].name: is missing; give it a value", id="a null item"),
        pytest.param(MapOf(item=Text()), {1: "a"}, "p: has the key 1; give a string as key", id="a key of no text"),
        pytest.param(MapOf(item=Text()), {"a": None}, "", id="a null value is absent"),
        pytest.param(MapOf(item=Text(), most=1), {"a": "", "b": ""}, "p: has 2 entries; give at most 1", id="entries"),
        pytest.param(MapOf(item=Text()), "x", "p: is 'x'; give an object", id="text is no object"),
        pytest.param(NAMED, {"count": None}, "p.name: is missing; give it a value", id="a required field"),
        pytest.param(NAMED, [], "p: is a list; give an object", id="a list is no object"),
    ],
)
def test_shape(schema: Schema, value: Any, problem: str) -> None:
    assert "\n".join(map(str, shape_problems(schema, value, "p"))) == problem


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2030-01-31T12:00:00Z", True),
        ("2030-01-31t12:00:00z", True),
        ("2030-01-31T12:00:00.123456789Z", True),
        ("2030-01-31T12:00:00+02:00", True),
        ("2030-01-31T12:00:00", False),
        ("2030-01-31 12:00:00Z", False),
        ("2030-02-31T12:00:00Z", False),
        ("2030-01-31T12:00:00.Z", False),
        ("2030-01-31T12:00:00,5Z", False),
        ("20300131T120000Z", False),
        ("2030-01-31T25:00:00Z", False),
        ("٢030-01-31T12:00:00Z", False),
        ("", False),
    ],
)
def test_moments(text: str, want: bool) -> None:
    assert is_moment(text) is want


def test_all_problems_come_at_once() -> None:
    shape = Struct(fields={"a": Whole(), "b": Flag(), "c": NAMED}, required=("d",))
    found = [str(problem) for problem in shape_problems(shape, {"a": "x", "b": "y", "c": {}}, "")]
    assert found == [
        "d: is missing; give it a value",
        "a: is 'x'; give a whole number",
        "b: is 'y'; give true or false",
        "c.name: is missing; give it a value",
    ]


def test_defaults_fill_what_is_absent_or_null() -> None:
    shape = Struct(fields={"inner": NAMED, "list": ListOf(item=NAMED)}, defaults={"inner": {}})
    filled = with_defaults(shape, {"inner": None, "list": [{"name": "a", "count": 0}, {}], "other": [1]})
    assert filled == {"inner": {"count": 1}, "list": [{"name": "a", "count": 0}, {"count": 1}], "other": [1]}


def test_defaults_leave_wrong_types_alone() -> None:
    assert with_defaults(NAMED, "x") == "x"
    assert with_defaults(ListOf(item=NAMED), {"a": 1}) == {"a": 1}


def test_a_default_is_not_shared() -> None:
    shape = Struct(fields={"inner": Anything()}, defaults={"inner": {"a": []}})
    with_defaults(shape, {})["inner"]["a"].append(1)
    assert with_defaults(shape, {}) == {"inner": {"a": []}}


def test_unknown_fields_name_the_nearest() -> None:
    shape = Struct(fields={"items": ListOf(item=NAMED), "labels": MapOf(item=NAMED)})
    value = {"items": [{"cuont": 1}], "labels": {"a": {"nam": 1}}, "zzz": 1, 7: 1}
    assert [str(problem) for problem in unknown_fields(shape, value, "")] == [
        "items[0].cuont: is not a known field; did you mean count?",
        "labels['a'].nam: is not a known field; did you mean name?",
        "zzz: is not a known field; take it out",
        "7: is not a known field; take it out",
    ]
    assert pruned(shape, value) == {"items": [{}], "labels": {"a": {}}}


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (DNS_LABEL, ["a", "a-1"], ["", "-a", "a-", "A", "a.b", "ä"]),
        (DNS_SUBDOMAIN, ["a.b-c.d"], ["", "a..b", ".a", "a/b"]),
        (QUALIFIED_NAME, ["a", "A_b.c", "example.com/x"], ["", "/x", "a/", "a/b/c", "-a", "Example.com/x"]),
        (KIND_NAME, ["Job", "job-2"], ["", "2job", "job-", "K\u212a"]),
        (CONDITION_REASON, ["Ready", "A_b,c:d", "A_"], ["", "1A", "A,", "a b"]),
    ],
)
def test_forms(form: Any, good: list[str], bad: list[str]) -> None:
    assert all(form.holds(text) for text in good)
    assert not any(form.holds(text) for text in bad)


def test_a_long_name_is_compared_with_none() -> None:
    assert nearest("a" * 100_000, ["aaa"]) == ""
