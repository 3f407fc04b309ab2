"""Manifest text: what is read as what, what is refused with which place, and at what cost."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model import documents
from muster.model.documents import MOST_BYTES, Document, parse_documents, parse_value
from muster.model.errors import InvalidObject
from tests.stopwatch import is_done_within


@pytest.fixture(params=["libyaml", "pure"], autouse=True)
def parser(request, monkeypatch):
    """Everything holds with either of PyYAML's parsers, speed apart."""
    if request.param == "libyaml" and not documents.HAS_C_PARSER:
        pytest.skip("PyYAML has no libyaml here")
    monkeypatch.setattr(documents, "HAS_C_PARSER", request.param == "libyaml")
    return request.param


def value_of(text: str) -> object:
    return parse_value(f"a: {text}\n", "x.yaml")["a"]


def refusal(text: str | bytes, source: str = "x.yaml") -> InvalidObject:
    with pytest.raises(InvalidObject) as caught:
        parse_documents(text, source)
    return caught.value


# What Kubernetes' reader makes of a scalar.
@pytest.mark.parametrize(
    ("text", "want"),
    [
        *[(word, True) for word in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")],
        *[(word, False) for word in ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")],
        *[(word, None) for word in ("", "~", "null", "Null", "NULL")],
        *[(word, word) for word in ("yEs", "nO", "tRUE", "oN", "nULL", "None", "NaN", "Infinity", "t", "o")],
        ("0", 0),
        ("-0", 0),
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("010", 8),
        ("-010", -8),
        ("0o10", 8),
        ("0x10", 16),
        ("0X1f", 31),
        ("0b101", 5),
        ("08", 8),
        ("1_000", 1000),
        ("0x", "0x"),
        ("0b2", "0b2"),
        ("1a", "1a"),
        ("+", "+"),
        ("--1", "--1"),
        ("9223372036854775808", 2**63),
        ("99999999999999999999", 99999999999999999999),
        ("1.5", 1.5),
        ("-1.5", -1.5),
        (".5", 0.5),
        ("+.5", 0.5),
        ("1.", 1),
        ("3.0", 3),
        ("1e3", 1000),
        ("1e+3", 1000),
        ("1E-3", 0.001),
        ("1e999", "1e999"),
        ("1e", "1e"),
        (".", "."),
        ("1.2.3", "1.2.3"),
        ("500m", "500m"),
        ("1Gi", "1Gi"),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("2001-12-14", "2001-12-14"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("2001-12-14T21:59:43Z", "2001-12-14T21:59:43Z"),
        ("١٢", "١٢"),
        ("'yes'", "yes"),
        ('"010"', "010"),
        ("! 5", 5),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("!!float 3", 3.0),
        ("!!bool yes", True),
        ("!!null ~", None),
        ("!!timestamp 2001-12-14", "2001-12-14"),
        ("!!binary aGk=", "hi"),
        ("!!map {b: 1}", {"b": 1}),
        ("!!seq [1]", [1]),
        ("<<", "<<"),
    ],
)
def test_scalars_mean_what_kubernetes_reads(text, want):
    got = value_of(text)
    assert got == want and type(got) is type(want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("1: a", {"1": "a"}, id="a whole number"),
        pytest.param("010: a", {"8": "a"}, id="an octal"),
        pytest.param("-3: a", {"-3": "a"}, id="a negative"),
        pytest.param("yes: a", {"true": "a"}, id="a word"),
        pytest.param("off: a", {"false": "a"}, id="the other word"),
        pytest.param("1.5: a", {"1.5": "a"}, id="a fraction"),
        pytest.param("0.1: a", {"0.1": "a"}, id="a fraction in 32 bits"),
        pytest.param("1234567.5: a", {"1.2345675e+06": "a"}, id="a large fraction"),
        pytest.param("0.00001: a", {"1e-05": "a"}, id="a small fraction"),
        pytest.param("1.5e300: a", {".inf": "a"}, id="a fraction beyond 32 bits"),
        pytest.param("&k key: a\nb: {*k : c}", {"key": "a", "b": {"key": "c"}}, id="an alias"),
        pytest.param('"<<": a', {"<<": "a"}, id="a quoted merge sign"),
    ],
)
def test_keys_become_text(text, want):
    assert parse_value(text, "x") == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("x: &x {a: 1, b: 2}\nz: {<<: *x, b: 3}", {"a": 1, "b": 3}, id="a key after it wins"),
        pytest.param("x: &x {a: 1, b: 2}\nz: {b: 3, <<: *x}", {"a": 1, "b": 2}, id="it wins over a key before it"),
        pytest.param("z: {<<: {a: 1}, <<: {b: 2}}", {"a": 1, "b": 2}, id="twice"),
        pytest.param("z: {<<: [{a: 1, b: 1}, {b: 2, c: 2}]}", {"a": 1, "b": 1, "c": 2}, id="first of a list wins"),
        pytest.param("z: {!!merge <<: {a: 1}}", {"a": 1}, id="tagged"),
    ],
)
def test_merge_keys(text, want):
    assert parse_value(text, "x")["z"] == want


def test_aliases_do_not_share_their_values():
    value = parse_value("a: &a {b: [1]}\nc: *a", "x")
    value["a"]["b"].append(2)
    assert value["c"] == {"b": [1]}


def test_documents_keep_their_place_and_empty_ones_go():
    text = "# heading\n---\n---\nkind: A\n---\n~\n---\n\nkind: B\n...\n"
    assert parse_documents(text, "x") == [Document({"kind": "A"}, "x", 4), Document({"kind": "B"}, "x", 9)]


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n---\n", b"\xef\xbb\xbf", "null"])
def test_nothing_is_no_document(text):
    assert parse_documents(text, "x") == []


def test_lists_stand_for_their_items():
    inner = {"apiVersion": "v1", "kind": "List", "items": [{"kind": "B"}]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}, inner, {"kind": "C"}]}
    got = parse_documents(json.dumps(outer), "x")
    assert [document.value["kind"] for document in got] == ["A", "B", "C"]
    assert parse_documents("{apiVersion: v1, kind: List}", "x") == []
    assert len(parse_documents("{apiVersion: example.com/v1, kind: List, items: []}", "x")) == 1


def test_json_texts():
    assert parse_value('{"a": [1, 2.0, "\\ud83d\\ude00", null, true]}', "x") == {"a": [1, 2.0, "😀", None, True]}
    two = parse_documents('{"kind": "A"}\n\n{"kind": "B"}', "x.json")
    assert [(document.value["kind"], document.line) for document in two] == [("A", 1), ("B", 3)]
    assert parse_value('\t{\n\t"a": "x: \\/ y"}', "x") == {"a": "x: / y"}
    assert parse_value("{a: yes}", "x") == {"a": True}, "a flow mapping begins as JSON does"
    assert parse_value("7", "x") == 7


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab:{}[]\"\\é "), inner),
))  # fmt: skip
def test_json_comes_back_as_it_was(value):
    assert parse_value(json.dumps({"a": value}), "x") == {"a": value}


@given(st.binary(max_size=60) | st.text("ab:-[]{}&*!|>'\"%#?,<\n \t\\01.~", max_size=60))
def test_any_text_is_read_or_refused(text):
    for read in (parse_documents, parse_value):
        try:
            read(text, "x")
        except InvalidObject:
            continue


BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
CHAIN = "a: &a " + "[" * 60 + "]" * 60 + "\nb: " + "[" * 60 + "*a" + "]" * 60


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", "line 3, column 1: the key 'a' is given twice", id="repeated key"),
        pytest.param("a: {b: 1, b: 2}", "line 1, column 11: the key 'b' is given twice", id="repeated in flow"),
        pytest.param("1: a\n'1': b", "line 2, column 1: the key '1' is given twice", id="repeated as text"),
        pytest.param("<<: {a: 1}\na: 2\na: 3", "line 3, column 1: the key 'a' is", id="repeated past merge"),
        pytest.param('{"a": 1,\n "b": {"a": 2},\n "a": 3}', "line 3, column 2: the key 'a'", id="repeated in JSON"),
        pytest.param('[{"a": 1}, {"a": "a:", "a": 2}]', "column 24: the key 'a'", id="repeated in a JSON list"),
        pytest.param(BOMB, "aliases expand more than 100 times", id="bomb"),
        pytest.param(f"a: &a {'x' * 100_000}\nb: [{'*a,' * 11}]", "more than 1048576 characters", id="long aliases"),
        pytest.param(CHAIN, "line 2, column 64: is nested deeper than 100", id="deep through an alias"),
        pytest.param("a: &a [*a]", "line 1, column 8: *a stands inside itself", id="self reference"),
        pytest.param("a: &a {<<: *a}", "*a stands inside itself", id="merge loop"),
        pytest.param("a: *b", "line 1, column 4: *b names no anchor before it", id="unknown alias"),
        pytest.param("a: &a 1\n---\nb: *a", "line 3, column 4: *a names no anchor", id="alias across documents"),
        pytest.param("<<: 1", "<< merges what is not an object", id="merge of a number"),
        pytest.param("<<: [1]", "<< merges what is not an object", id="merge of numbers"),
        pytest.param("a: !!python/object/apply:os.system ['true']", "has the tag !!python/", id="python tag"),
        pytest.param("a: !!python/name:os.system ''", "has the tag !!python/", id="python tag on text"),
        pytest.param("a: !mine {b: 1}", "has the tag !mine", id="unknown tag"),
        pytest.param("a: !!set {b}", "has the tag !!set", id="set"),
        pytest.param("a: !!int x", "is tagged !!int and is not one", id="tag that lies"),
        pytest.param("a: !!int yes", "is tagged !!int and is not one", id="word tagged as number"),
        pytest.param("a: !!float x", "is tagged !!float and is not one", id="float that is none"),
        pytest.param("a: !!float 1" + "0" * 399, "too large for a float", id="float too large"),
        pytest.param("a: !!binary '###'", "is not base64 of text", id="binary that is none"),
        pytest.param("a: !!binary AA==", "is not base64 of text", id="binary NUL"),
        pytest.param("a: .inf", "line 1, column 4: is .inf", id="infinity"),
        pytest.param("a: -.INF", "is -.INF", id="negative infinity"),
        pytest.param("a: .nan", "is .nan", id="not a number"),
        pytest.param('{"a": "NaN",\n "b": NaN}', "line 2, column 7: is NaN", id="NaN in JSON"),
        pytest.param('{"a": -Infinity}', "is -Infinity", id="infinity in JSON"),
        pytest.param('{"a": 1e999}', "line 1, column 7: is 1e999", id="overflow in JSON"),
        pytest.param("a: " + "9" * 401, "is a number of 401 digits", id="long number"),
        pytest.param('{"a": ' + "9" * 5000 + "}", "line 1, column 7: is a number of 5000 digits", id="long in JSON"),
        pytest.param("a: '\ud800'", "line 1, column 5: holds the lone surrogate U+D800", id="surrogate"),
        pytest.param('{"a": "\\ud800"}', "holds the lone surrogate U+D800", id="surrogate escape in JSON"),
        pytest.param('{"\\udfff": 1}', "holds the lone surrogate U+DFFF", id="surrogate key in JSON"),
        pytest.param("a: 1\nb: \0", "line 2, column 4: holds a NUL", id="NUL"),
        pytest.param('a: "\\0"', "holds a NUL", id="NUL escape"),
        pytest.param('{"a": ["\\u0000"]}', "holds a NUL", id="NUL escape in JSON"),
        pytest.param(b"a: 1\nb: \xff", "line 2, column 4: the byte 0xff is not UTF-8", id="not UTF-8"),
        pytest.param("\ufeff".encode("utf-16") + "a: 1".encode("utf-16"), "is not UTF-8", id="UTF-16"),
        pytest.param("a: \x07", "line 1, column 4: holds the control character U+0007", id="control character"),
        pytest.param("~: a", "is a key that is empty", id="empty key"),
        pytest.param("{[a]: 1}", "is a key that is a list or an object", id="list as key"),
        pytest.param("9223372036854775808: a", "is a key that is a number", id="key beyond 64 bits"),
        pytest.param("- a", "line 1, column 1: is a list; give an object", id="a list"),
        pytest.param("hello", "is text; give an object", id="text"),
        pytest.param("7", "is a number; give an object", id="a number"),
        pytest.param("yes", "is true or false; give an object", id="a boolean"),
        pytest.param("kind: List\nitems: 3", "items: is a number; give a list", id="List of no list"),
        pytest.param("kind: List\nitems: [~]", "items[0]: is empty; give an object", id="List of nothing"),
        pytest.param("kind: List\nitems: [{a: 1}, [1]]", "items[1]: is a list; give an object", id="List of lists"),
        pytest.param("%TAG !e! x:\n" * 17 + "---\na: 1", "more than 16 %TAG directives", id="tag directives"),
        pytest.param("%YAML 1." + "9" * 5000 + "\n---\na: 1", "is not YAML", id="endless version"),
        pytest.param('a: "\\Uffffffff"', "is not YAML", id="escape beyond Unicode"),
        pytest.param("a: !%ED%A0%80 1", "is not YAML", id="surrogate in a tag"),
    ],
)  # fmt: skip
def test_refused(text, says):
    problem = refusal(text)
    assert says in str(problem) and str(problem).startswith("x.yaml") and problem.hint


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        pytest.param(
            "tasks:\n- name: a\n    replicas: 2\n", "line 3, column 13",
            "expected 'replicas' at column 3, below 'name: a' of line 2; it is at column 5", id="too deep",
        ),
        pytest.param("a: b: c", "line 1, column 5", "expected one key on this line", id="two keys on a line"),
        pytest.param("a\nb: 1", "line 2, column 2", "line 1 ('a') needs ': ' after its key", id="no colon above"),
        pytest.param("a:\n    b: 1\n  c: 2\n", "line 3, column 3", "expected a key at column 1", id="between levels"),
        pytest.param("- a\nb: 1", "line 2, column 1", "at column 1, as in line 1 ('a')", id="key among items"),
        pytest.param("a:\n\tb: 1", "line 2, column 1", "expected spaces", id="tab"),
        pytest.param("a: @b", "line 1, column 4", "text that starts with @ in quotes", id="reserved character"),
        pytest.param("a: 'b\nc: d\n", "line 3, column 1", "closing quote of the text that starts at line", id="quote"),
        pytest.param("a: [1, 2\nb: 3\n", "line 2, column 2", "a comma or ], which closes", id="list left open"),
        pytest.param("a: {b: 1\nc: 3\n", "line 2, column 2", "a comma or }, which closes", id="object left open"),
        pytest.param("a: 1\nbcd\ne: 2\n", "line 3, column 1", "': ' and a value after 'bcd'", id="no colon"),
        pytest.param('a: "\\q"', "line 1, column", "write \\\\ for a backslash", id="escape"),
        pytest.param("a: 1\n...\nb: 2\n", "line 3, column 1", "after a line ---", id="two documents"),
        pytest.param("a: * b", "line 1, column 5", "expected the end of what starts at line 1", id="anything else"),
    ],
)  # fmt: skip
def test_what_was_expected(text, place, expected):
    problem = refusal(text)
    assert place in problem.path and expected in problem.hint


def test_broken_json_is_explained_as_json_where_the_name_says_so():
    assert "line 1, column 9: is not JSON: found '}'" in str(refusal('{"a": 1,}}', "x.json"))
    assert "found the end" in str(refusal('{"a": ', "x.json"))
    assert "is not YAML" in str(refusal('{"a": 1,}}', "x.yaml"))


def test_one_value_is_one_document():
    assert parse_value("", "x") is None
    with pytest.raises(InvalidObject, match="is a second document"):
        parse_value("a: 1\n---\nb: 2", "x")


def test_size_is_counted_in_bytes():
    assert parse_documents("# " + "x" * 1000, "x") == []
    for text in ("#" * (MOST_BYTES + 1), b"#" * (MOST_BYTES + 1), "#" + "é" * (MOST_BYTES // 2)):
        assert "is longer than" in refusal(text).problem


def test_the_pure_parser_gets_less_text(parser):
    text = "# " + "x" * documents.MOST_BYTES_WITHOUT_C
    if parser == "libyaml":
        assert parse_documents(text, "x") == []
    else:
        assert "has no libyaml" in refusal(text).problem


def is_read_within(limit_s: float, text: str) -> bool:
    """Whether one of a few readings, refused or not, takes no more CPU time than that."""

    def read() -> None:
        with contextlib.suppress(InvalidObject):
            parse_documents(text, "x.yaml")

    return is_done_within(limit_s, read)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: " + "[" * 3_000, id="flow"),
        pytest.param("a: " + "[" * 100_000 + "]" * 100_000, id="flow, closed"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="JSON lists"),
        pytest.param('{"a":' * 100_000 + "1" + "}" * 100_000, id="JSON objects"),
        pytest.param("- " * 100_000, id="block"),
        pytest.param("".join("  " * depth + "a:\n" for depth in range(1_000)), id="indented"),
        pytest.param(BOMB, id="bomb"),
        pytest.param("".join(f"%TAG !a{number}! x\n" for number in range(10_000)), id="directives"),
    ],
)
def test_refused_at_once(text, parser):
    problem = refusal(text)
    assert problem.hint and is_read_within(0.05 if parser == "libyaml" else 2, text)


JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {kueue.x-k8s.io/queue-name: team-a}}
spec:
  parallelism: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: example.com/train:1.0
        resources:
          requests: {cpu: 500m, memory: 2Gi}
          limits:
            nvidia.com/gpu: 1
---
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(JOB * (MOST_BYTES // len(JOB)), id="jobs"),
        pytest.param("a: [" + "0," * (MOST_BYTES // 2 - 4) + "]", id="numbers"),
        pytest.param("---\n" * (MOST_BYTES // 4), id="documents"),
        pytest.param('{"a": ["' + '\\"' * (MOST_BYTES // 2 - 8), id="JSON without end"),
    ],
)
def test_the_largest_texts_stay_within_their_time(text, parser):
    if parser == "pure":
        pytest.skip("the pure parser gets less text")
    assert is_read_within(5, text)
