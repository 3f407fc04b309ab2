"""Definitions with one thing wrong each get the verdict that a real server gave: code, fields and reasons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.apiserver.definitions.servers import DEFINITIONS, Here
from tests.apiserver.definitions.stories import stories, two_versions
from tests.stopwatch import is_done_within

VERDICTS = [json.loads(line) for line in Path(__file__).with_name("verdicts.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def here():
    server = Here()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("name", "definition", "code", "causes"),
    [
        pytest.param(name, definition, code, causes, id=name)
        for (name, definition), (recorded, code, causes) in zip(stories(), VERDICTS, strict=True)
        if name == recorded
    ],
)
def test_the_verdict_is_that_of_a_real_server(here, name, definition, code, causes):
    answer = here.request("POST", f"{DEFINITIONS}?dryRun=All", definition)
    told = (answer.json.get("details") or {}).get("causes") or ()
    assert (answer.status, sorted([one["field"], one["reason"]] for one in told)) == (code, causes), name


def test_every_story_was_told_to_the_real_server():
    assert [name for name, _ in stories()] == [row[0] for row in VERDICTS]


def test_names_and_conversion_have_defaults(here):
    spec = here.request("POST", f"{DEFINITIONS}?dryRun=All", two_versions()).json["spec"]
    assert spec["names"] == {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    assert spec["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize("word", ["items", "additionalProperties"])
def test_what_is_no_schema_within_a_schema_is_refused(here, word):
    for wrong in (5, "text", {"type": 5}, {"properties": []}):
        kind = "array" if word == "items" else "object"
        schema = {"type": "object", "properties": {"spec": {"type": kind, word: wrong}}}
        definition = two_versions(first={"schema": {"openAPIV3Schema": schema}})
        answer = here.request("POST", DEFINITIONS, definition)
        assert 400 <= answer.status < 500, answer.json


def test_a_huge_schema_is_judged_in_time_that_grows_with_it(here):
    inner = {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(50)}}
    schema = {"type": "object", "properties": {f"p{number}": inner for number in range(200)}}
    definition = two_versions(first={"schema": {"openAPIV3Schema": schema}})
    assert is_done_within(3, lambda: here.request("POST", f"{DEFINITIONS}?dryRun=All", definition))
