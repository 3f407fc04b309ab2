"""Tables show what `kubectl get` is known to show. tests/kubernetes compares the same stories with a real server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from muster.apiserver.facts import KINDS
from muster.apiserver.table_cells import shown
from muster.apiserver.table_texts import human_duration, selector_text, shortened, since_text
from muster.apiserver.tables import Include, table
from muster.model.times import parse_moment
from tests.apiserver.table_stories import CREATED, NOW, kueue_stories, stories

POD = ("", "v1", "Pod")
NOW_S = parse_moment(NOW, "")
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def told(story):
    item = story.object
    return f"{item['kind']}: {item['metadata'].get('annotations', {}).get('story', story.name)}"


@pytest.mark.parametrize("story", [*stories(), *kueue_stories()], ids=told)
def test_a_row_shows(story):
    answer = table(story.kind, [story.stored], now_s=NOW_S, metadata={})
    by_name = dict(zip([one["name"] for one in answer["columnDefinitions"]], answer["rows"][0]["cells"], strict=True))
    assert by_name.pop("Name", story.name).removesuffix(" (default)") == story.name
    assert by_name.pop("Age", "3d3h") == "3d3h"
    assert list(by_name.values()) == story.cells


def test_default_classes_say_so():
    named = {story.name: story for story in stories() if story.object["kind"] in ("StorageClass", "IngressClass")}
    cells = {
        name: table(one.kind, [one.stored], now_s=0, metadata={})["rows"][0]["cells"] for name, one in named.items()
    }
    assert {row[0] for row in cells.values()} == {"plain", "standard (default)", "older (default)", "web (default)"}


@pytest.mark.parametrize("kind", list(KINDS), ids=lambda kind: "-".join(filter(None, kind)))
def test_every_column_of_every_kind_can_be_shown(kind):
    answer = table(kind, [{"metadata": {"name": "bare"}}], now_s=NOW_S, metadata={})
    definitions = answer["columnDefinitions"]
    assert [one["name"] for one in definitions] == [one.column.name for one in shown(*kind)]
    assert len(answer["rows"][0]["cells"]) == len(definitions)
    if KINDS[kind].columns:
        assert [one["priority"] for one in definitions] == [one.priority for one in KINDS[kind].columns]


def test_a_kind_that_nothing_is_known_of_shows_its_name_and_age():
    item = {"metadata": {"name": "a", "creationTimestamp": CREATED}}
    answer = table(("example.com", "v1", "Thing"), [item], now_s=NOW_S, metadata={"resourceVersion": "7"})
    assert answer["rows"][0]["cells"] == ["a", "3d3h"]
    assert answer["columnDefinitions"][1] == {
        "name": "Age", "type": "date", "format": "", "description": "", "priority": 0,
    }  # fmt: skip
    assert (answer["kind"], answer["apiVersion"], answer["metadata"]) == (
        "Table", "meta.k8s.io/v1", {"resourceVersion": "7"},
    )  # fmt: skip


def test_the_scale_of_an_object_has_a_table_too():
    item = {"metadata": {"name": "a", "creationTimestamp": CREATED}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    answer = table(("autoscaling", "v1", "Scale"), [item], now_s=NOW_S, metadata={})
    assert answer["rows"][0]["cells"] == ["a", 3, 2, "3d3h"]


@pytest.mark.parametrize(
    ("include", "carried"),
    [
        (Include.NONE, None),
        (
            Include.METADATA,
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}},
        ),
        (Include.OBJECT, {"kind": "Pod", "metadata": {"name": "a"}}),
    ],
)
def test_rows_carry_what_is_asked_for(include, carried):
    item = {"kind": "Pod", "metadata": {"name": "a"}}
    assert table(POD, [item], now_s=0, include=include, metadata={})["rows"][0]["object"] == carried


@pytest.mark.parametrize(("phase", "reasons"), [("Running", []), ("Succeeded", ["Succeeded"]), ("Failed", ["Failed"])])
def test_rows_of_finished_pods_say_so(phase, reasons):
    item = {"kind": "Pod", "metadata": {"name": "a"}, "status": {"phase": phase}}
    row = table(POD, [item], now_s=0, metadata={})["rows"][0]
    assert [one["reason"] for one in row.get("conditions", ())] == reasons


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-10, "<invalid>"),
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (1, "1s"),
        (119.9, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 1, "2m1s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 61, "3h1m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 34 * DAY, "2y34d"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR, "8y"),
        (1e30, "292y"),
    ],
)
def test_durations(seconds, text):
    assert human_duration(seconds) == text


@given(some.floats(min_value=0, max_value=10 * YEAR), some.floats(min_value=0, max_value=10 * YEAR))
def test_a_longer_duration_never_reads_as_a_shorter_one(one, other):
    assert (read(human_duration(one)) <= read(human_duration(other))) or one > other


def read(text):
    """The seconds of a duration's text."""
    units, total, digits = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}, 0, ""
    for letter in text:
        total, digits = (total, digits + letter) if letter.isdigit() else (total + int(digits) * units[letter], "")
    return total


@pytest.mark.parametrize(("text", "shown"), [(None, "<unknown>"), ("", "<unknown>"), ("yesterday", "<unknown>")])
def test_a_moment_that_is_not_there_is_unknown(text, shown):
    assert since_text(text, NOW_S) == shown


@pytest.mark.parametrize(
    ("texts", "shown"),
    [([], ""), (["a", "b"], "a,b"), (["a", "b", "c"], "a,b,c"), (list("abcde"), "a,b,c + 2 more...")],
)
def test_long_lists_are_shortened(texts, shown):
    assert shortened(texts, 3) == shown


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["y", "x"]}]}, "a notin (x,y)"),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}], "matchLabels": {"a": "1"}}, "a=1,!a"),
    ],
)
def test_selectors(selector, text):
    assert selector_text(selector) == text
