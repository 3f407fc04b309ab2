"""Selectors of requests: the grammar of labels and fields, and what they select."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver.facts import KINDS
from muster.apiserver.selectors import read_labels, read_selection
from muster.apiserver.served import Served
from muster.apiserver.statuses import Problem
from muster.store.records import Key, Record

PODS = Served(KINDS["", "v1", "Pod"], None)


@pytest.mark.parametrize(
    ("text", "labels", "is_selected"),
    [
        ("", {}, True),
        ("a=1", {"a": "1"}, True),
        ("a = 1 , b", {"a": "1", "b": ""}, True),
        ("a==1", {"a": "2"}, False),
        ("a=", {"a": ""}, True),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("example.com/a in (x, y)", {"example.com/a": "y"}, True),
        ("a in (x,)", {"a": ""}, True),
        ("a notin (x)", {}, True),
        ("a notin(x)", {"a": "x"}, False),
        ("!a", {}, True),
        ("! a", {"a": ""}, False),
        ("a>1", {"a": "2"}, True),
        ("a>1", {"a": "1"}, False),
        ("a<1", {"a": "-2"}, True),
        ("a<1", {"a": "no number"}, False),
        ("a<1", {}, False),
        ("in in (in)", {"in": "in"}, True),
        ("notin", {"notin": "x"}, True),
    ],
)
def test_labels(text, labels, is_selected):
    assert read_labels(text).matches(labels) is is_selected


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a,",
        ",a",
        "a=1 b=2",
        "a in",
        "a in (",
        "a in (x",
        "a in x",
        "a in (x))",
        "a===1",
        "=1",
        "!",
        "!!a",
        "a>",
        "a>x",
        "a b",
        "a=b=c",
        "-a=1",
        "a=b/c",
        "a=" + "x" * 64,
        "x" * 64,
        "a=é",
    ],
)
def test_labels_that_say_nothing(text):
    with pytest.raises(Problem) as refused:
        read_labels(text)
    assert refused.value.code == 400


WORDS = st.text("ab1-._/", max_size=5)
SYMBOLS = st.sampled_from(["=", "==", "!=", "!", ",", "(", ")", " in ", " notin ", " ", ">", "<"])


@given(st.lists(st.one_of(WORDS, SYMBOLS), max_size=12).map("".join))
def test_whatever_is_written_is_read_or_refused(text):
    with suppress(Problem):
        read_labels(text).matches({"a": "1", "b": ""})


def record(**fields) -> Record:
    item = {"metadata": {"name": "p", "namespace": "n"}, **fields}
    return Record(Key("pods", "n", "p"), "u", 1, 1, msgspec.json.encode(item))


@pytest.mark.parametrize(
    ("text", "item", "is_selected"),
    [
        ("metadata.name=p", {}, True),
        ("metadata.namespace!=n", {}, False),
        ("spec.nodeName=", {"spec": {}}, True),
        ("spec.nodeName=", {}, True),
        ("spec.nodeName=n1", {"spec": {"nodeName": "n1"}}, True),
        ("spec.nodeName==n1,status.phase!=Failed", {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}, True),
        ("spec.hostNetwork=true", {"spec": {"hostNetwork": True}}, True),
        ("spec.hostNetwork=false", {"spec": {}}, True),
        ("spec.hostNetwork!=true", {"spec": {"hostNetwork": True}}, False),
        ("spec.schedulerName=a\\,b", {"spec": {"schedulerName": "a,b"}}, True),
        ("spec.schedulerName=a\\=b", {"spec": {"schedulerName": "a=b"}}, True),
        ("spec.schedulerName=a\\\\b", {"spec": {"schedulerName": "a\\b"}}, True),
        ("spec.nodeName=n1", {"metadata": {"labels": {"x": "n1"}}, "spec": {"nodeName": "n2"}}, False),
        (",", {}, True),
    ],
)
def test_fields(text, item, is_selected):
    assert read_selection("", text, PODS).matches(record(**item)) is is_selected


@pytest.mark.parametrize("text", ["x", "spec.nope=1", "metadata.name=a\\b", "metadata.name=a=b", "metadata.name=a\\"])
def test_fields_that_say_nothing(text):
    with pytest.raises(Problem) as refused:
        read_selection("", text, PODS)
    assert refused.value.code == 400
