"""Objects of a custom kind: what is pruned, filled in and refused, and in which words."""

from __future__ import annotations

import pytest

from tests.apiserver.definitions.servers import DEFINITIONS, MERGE, TABLE, Here
from tests.apiserver.definitions.stories import GROUP, definition
from tests.stopwatch import is_done_within

WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
TEXT = {"type": "string"}
SPEC = {
    "type": "object",
    "required": ["title"],
    "properties": {
        "title": TEXT,
        "count": {"type": "integer", "minimum": 1, "maximum": 10, "format": "int32"},
        "share": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "short": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a"},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "since": {"type": "string", "format": "date-time"},
        "either": {"x-kubernetes-int-or-string": True},
        "few": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 2},
        "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {"type": "object", "required": ["key"], "properties": {"key": TEXT, "value": TEXT}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
        "maybe": {"type": "string", "nullable": True},
        "one": {
            "type": "object",
            "properties": {"a": TEXT, "b": TEXT},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "not": {"type": "string", "not": {"enum": ["bad"]}},
        "inner": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 3}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "object": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.count) || self.count != 7", "message": "seven is taken"},
        {
            "rule": "!has(self.maybe) || self.maybe == oldSelf.maybe",
            "fieldPath": ".maybe",
            "reason": "FieldValueForbidden",
        },
    ],
}
STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": TEXT}}
COLUMNS = [
    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
    {"name": "Ready", "type": "string", "jsonPath": ".spec.keyed[?(@.key=='ready')].value", "priority": 1},
    {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "description": "how many"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
SCALE = {
    "specReplicasPath": ".spec.count",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


@pytest.fixture(scope="module")
def here():
    server = Here()
    made = definition(
        {"type": "object", "properties": {"spec": SPEC, "status": STATUS}},
        subresources={"status": {}, "scale": SCALE},
        additionalPrinterColumns=COLUMNS,
        selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.count"}],
    )
    assert server.request("POST", DEFINITIONS, made).status == 201
    yield server
    server.close()


def widget(name="w", **spec):
    metadata = {"name": name, **spec.pop("metadata", {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": metadata, "spec": {"title": "t", **spec}}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"title": 5}, 'spec.title: Invalid value: "integer": spec.title in body must be of type string: "integer"'),
        ({"title": None}, "spec.title: Required value"),
        ({"count": 0}, "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1"),
        ({"count": 2**31}, "Checked value must be of type integer with format int32 in spec.count"),
        ({"share": 0}, "spec.share: Invalid value: 0: spec.share in body should be greater than 0"),
        ({"short": "a"}, 'spec.short: Invalid value: "a": spec.short in body should be at least 2 chars long'),
        ({"short": "aaaaa"}, "spec.short: Too long: may not be more than 4 bytes"),
        ({"short": "bb"}, "spec.short: Invalid value: \"bb\": spec.short in body should match '^a'"),
        ({"color": "green"}, 'spec.color: Unsupported value: "green": supported values: "red", "blue"'),
        ({"since": "now"}, 'spec.since: Invalid value: "now": spec.since in body must be of type date-time: "now"'),
        ({"either": 1.5}, 'spec.either in body must be of type integer,string: "number"'),
        ({"few": []}, "spec.few: Invalid value: 0: spec.few in body should have at least 1 items"),
        ({"few": ["a", "b", "c"]}, "spec.few: Too many: 3: must have at most 2 items"),
        ({"set": ["a", "a"]}, 'spec.set[1]: Duplicate value: "a"'),
        ({"keyed": [{"key": "a"}, {"key": "a"}]}, 'spec.keyed[1]: Duplicate value: {"key":"a"}'),
        ({"keyed": [{}]}, "spec.keyed[0].key: Required value"),
        ({"map": {"a": 1, "b": 2}}, "spec.map: Too many: 2: must have at most 1 item"),
        ({"map": {"a": "x"}}, 'spec.map.a in body must be of type integer: "string"'),
        ({"one": {}}, '"spec.one" must validate one and only one schema (oneOf). Found none valid'),
        ({"one": {"a": "", "b": ""}}, "Found 2 valid alternatives"),
        ({"not": "bad"}, '"spec.not" must not validate the schema (not)'),
        ({"object": {"kind": "A"}}, "spec.object.apiVersion: Required value"),
        ({"count": 7}, "spec: Invalid value: seven is taken"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_said_as_kubernetes_says_it(here, spec, problem):
    answer = here.request("POST", WIDGETS, widget(**spec))
    assert answer.status == 422
    assert problem in answer.json["message"]


def test_unknown_fields_go_nulls_too_and_defaults_come(here):
    spec = {"maybe": None, "few": None, "color": None, "strange": 1, "inner": {"y": 1}, "free": {"any": {"x": None}}}
    answer = here.request("POST", f"{WIDGETS}?dryRun=All", widget(**spec))
    assert answer.status == 201
    assert answer.json["spec"] == {
        "title": "t",
        "maybe": None,
        "color": "red",
        "inner": {"x": 3},
        "free": {"any": {"x": None}},
    }


@pytest.mark.parametrize(
    ("level", "status", "told"), [("Strict", 400, "strict decoding error"), ("Warn", 201, ""), ("Ignore", 201, "")]
)
def test_unknown_fields_are_told_as_asked(here, level, status, told):
    given = {**widget(strange=1), "other": 2}
    answer = here.request("POST", f"{WIDGETS}?dryRun=All&fieldValidation={level}", given)
    assert answer.status == status
    assert told in answer.json.get("message", "")
    assert ("warning" in answer.headers) is (level == "Warn")


def test_metadata_that_is_none_is_refused_and_what_is_unknown_of_it_goes(here):
    wrong = here.request("POST", WIDGETS, widget(metadata={"labels": {"a": 1}}))
    assert (wrong.status, "ObjectMeta.labels of type string" in wrong.json["message"]) == (400, True)
    answer = here.request("POST", f"{WIDGETS}?dryRun=All", widget(metadata={"strange": 1}))
    assert "strange" not in answer.json["metadata"]


def test_status_and_spec_are_written_apart_and_generation_counts_the_spec_alone(here):
    made = here.request("POST", WIDGETS, {**widget("apart"), "status": {"replicas": 3}}).json
    assert "status" not in made
    path = f"{WIDGETS}/apart"
    body = {"spec": {"count": 3}, "status": {"replicas": 2, "selector": "a=b"}}
    answer = here.request("PATCH", f"{path}/status", body, content_type=MERGE).json
    assert (answer["status"]["replicas"], "count" in answer["spec"], answer["metadata"]["generation"]) == (2, False, 1)
    answer = here.request("PATCH", path, body | {"status": {"replicas": 9}}, content_type=MERGE).json
    assert (answer["status"]["replicas"], answer["spec"]["count"], answer["metadata"]["generation"]) == (2, 3, 2)
    scale = here.request("GET", f"{path}/scale").json
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "a=b"})
    scaled = here.request("PATCH", f"{path}/scale", {"spec": {"replicas": 5}}, content_type=MERGE)
    assert (scaled.status, here.request("GET", path).json["spec"]["count"]) == (200, 5)
    refused = here.request("PATCH", f"{path}/scale", {"spec": {"replicas": -1}}, content_type=MERGE)
    assert {one["field"] for one in refused.json["details"]["causes"]} == {"spec.count", ".spec.count"}


def test_a_scale_of_what_wants_no_count_is_not_there(here):
    here.request("POST", WIDGETS, widget("countless"))
    answer = here.request("GET", f"{WIDGETS}/countless/scale")
    assert (answer.status, 'field ".spec.count" does not exist' in answer.json["message"]) == (500, True)


def test_tables_have_the_columns_of_the_definition(here):
    keyed = [{"key": "ready", "value": "yes"}, {"key": "other"}]
    here.request("POST", WIDGETS, widget("shown", count=4, keyed=keyed))
    table = here.request("GET", f"{WIDGETS}/shown", accept=TABLE).json
    assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "Color", "Ready", "Count", "Age"]
    assert table["columnDefinitions"][3]["description"] == "how many"
    assert table["rows"][0]["cells"] == ["shown", "red", "yes", 4, "0s"]


def test_objects_are_selected_by_the_fields_that_the_definition_names(here):
    here.request("POST", WIDGETS, widget("blue", color="blue", count=9))
    for selector, names in (("spec.color=blue", ["blue"]), ("spec.count=9", ["blue"]), ("spec.count=8", [])):
        found = here.request("GET", f"{WIDGETS}?fieldSelector={selector}").json["items"]
        assert [one["metadata"]["name"] for one in found] == names, selector
    assert here.request("GET", f"{WIDGETS}?fieldSelector=spec.title=t").status == 400


def test_a_rule_about_a_change_sees_what_was(here):
    here.request("POST", WIDGETS, widget("bound", maybe="a"))
    answer = here.request("PATCH", f"{WIDGETS}/bound", {"spec": {"maybe": "b"}}, content_type=MERGE)
    (cause,) = answer.json["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueForbidden", "spec.maybe")
    assert here.request("PATCH", f"{WIDGETS}/bound", {"spec": {"count": 2}}, content_type=MERGE).status == 200


def test_patches_that_need_more_than_the_schema_are_refused(here):
    here.request("POST", WIDGETS, widget("patched"))
    kind = "application/strategic-merge-patch+json"
    assert here.request("PATCH", f"{WIDGETS}/patched", {"spec": {}}, content_type=kind).status == 415
    answer = here.request("PATCH", f"{WIDGETS}/patched", {"kind": "Other"}, content_type=MERGE)
    assert (answer.status, answer.json["message"]) == (
        422,
        'Other.stories.example.com "patched" is invalid: kind: Invalid value: "Other": must be Widget',
    )


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param({"set": [str(one) for one in range(50_000)]}, id="a long set"),
        pytest.param({"keyed": [{"key": str(one)} for one in range(20_000)]}, id="a long list with keys"),
        pytest.param({"short": "a" * 1_000_000}, id="a long text"),
        pytest.param({"free": {str(one): {} for one in range(50_000)}}, id="many fields"),
    ],
)
def test_cost_grows_with_the_object(here, hostile):
    assert is_done_within(3, lambda: here.request("POST", f"{WIDGETS}?dryRun=All", widget(**hostile)))
