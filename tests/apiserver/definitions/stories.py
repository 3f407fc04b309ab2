"""Definitions with one thing wrong each, and what a real server says of them. Used here and against a real server.

`stories()` gives each with a name of its own; `tests/kubernetes/test_definitions.py` compares the verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

Json = dict[str, Any]
GROUP = "stories.example.com"


def definition(schema: Json | None = None, **more: Any) -> Json:
    """A definition of one version; more fields of that version by name, and `spec` for those of the whole."""
    spec = more.pop("spec", {})
    plural = more.pop("plural", "widgets")
    name = more.pop("version", "v1")
    version = {"name": name, "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": schema if schema is not None else {"type": "object"}}
    kind = plural.rstrip("s").capitalize() or "K"
    made = {"group": GROUP, "names": {"plural": plural, "kind": kind}, "scope": "Namespaced"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {**made, "versions": [{**version, **more}], **spec},
    }


def with_field(schema: Json, **more: Any) -> Json:
    """A definition whose objects have one field of their own."""
    return definition({"type": "object", "properties": {"spec": schema, **more}})


def changed(path: str, value: Any, given: Json | None = None) -> Json:
    """A definition with another value at a dotted path; `...` takes the field away."""
    made = deepcopy(given or definition())
    place: Any = made
    *names, last = [int(one) if one.isdigit() else one for one in path.split(".")]
    for name in names:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return made


def two_versions(first: Json | None = None, second: Json | None = None, **spec: Any) -> Json:
    made = definition(spec=spec)
    version = made["spec"]["versions"][0]
    made["spec"]["versions"] = [
        {**version, **(first or {})},
        {**version, "name": "v2", "storage": False, **(second or {})},
    ]
    return made


STRING = {"type": "string"}
ITEM = {"type": "object", "required": ["name"], "properties": {"name": STRING, "value": STRING}}
KEYED = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": ITEM}
HOOK = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:8443/convert"}}


def _of_names() -> Iterator[tuple[str, Json]]:
    yield "plain", definition()
    yield "name differs", changed("metadata.name", "others.stories.example.com")
    yield "name bad", changed("metadata.name", "Widgets.stories.example.com")
    yield "no group", changed("spec.group", "")
    yield "group without a dot", changed("metadata.name", "widgets.example", changed("spec.group", "example"))
    yield "group bad", changed("spec.group", "Stories.example.com")
    yield "group of Kubernetes", changed("metadata.name", "widgets.a.k8s.io", changed("spec.group", "a.k8s.io"))
    yield "no scope", changed("spec.scope", "")
    yield "scope unknown", changed("spec.scope", "Global")
    yield "no plural", changed("spec.names.plural", "")
    yield "plural bad", changed("spec.names.plural", "Widgets_")
    yield "no kind", changed("spec.names.kind", "")
    yield "kind bad", changed("spec.names.kind", "Wid get")
    yield "kind with capitals", changed("spec.names.kind", "WiDGet")
    yield "singular bad", changed("spec.names.singular", "Wid_get")
    yield "list kind bad", changed("spec.names.listKind", "wid_getList")
    yield "kind is list kind", changed("spec.names.listKind", "Widget")
    yield "short name bad", changed("spec.names.shortNames", ["W_", "w"])
    yield "category bad", changed("spec.names.categories", ["All_"])
    yield "preserves unknown", changed("spec.preserveUnknownFields", True)
    yield "group of a family", changed("metadata.annotations", {"api-approved.kubernetes.io": "x"})


def _of_versions() -> Iterator[tuple[str, Json]]:
    yield "no versions", changed("spec.versions", [])
    yield "version without a name", changed("spec.versions.0.name", "")
    yield "version bad", changed("spec.versions.0.name", "V_1")
    yield "no storage", changed("spec.versions.0.storage", False)
    yield "two storages", two_versions(second={"storage": True})
    yield "same version twice", two_versions(second={"name": "v1"})
    yield "no schema", changed("spec.versions.0.schema", ...)
    yield "empty schema", changed("spec.versions.0.schema", {})
    yield "nothing served", changed("spec.versions.0.served", False)
    yield "two versions", two_versions()
    yield "two schemas, one bad", two_versions(second={"schema": {"openAPIV3Schema": {"type": "strange"}}})
    yield "warning without deprecation", changed("spec.versions.0.deprecationWarning", "old")
    yield "warning too long", definition(deprecated=True, deprecationWarning="x" * 257)
    yield "warning empty", definition(deprecated=True, deprecationWarning="")
    yield "warning with a line", definition(deprecated=True, deprecationWarning="a\nb")
    yield "conversion unknown", changed("spec.conversion", {"strategy": "Magic"})
    yield "conversion without a strategy", changed("spec.conversion", {"strategy": ""})
    yield "conversion none with a webhook", changed("spec.conversion", {"strategy": "None", "webhook": HOOK})
    yield "webhook missing", changed("spec.conversion", {"strategy": "Webhook"})
    for title, hook in {
        "good": HOOK,
        "no client": {"conversionReviewVersions": ["v1"]},
        "no review versions": {"clientConfig": HOOK["clientConfig"]},
        "unknown review versions": {**HOOK, "conversionReviewVersions": ["v9"]},
        "bad review version": {**HOOK, "conversionReviewVersions": ["v1", "V_1"]},
        "review version twice": {**HOOK, "conversionReviewVersions": ["v1", "v1"]},
        "empty client": {**HOOK, "clientConfig": {}},
        "http": {**HOOK, "clientConfig": {"url": "http://127.0.0.1/convert"}},
        "no host": {**HOOK, "clientConfig": {"url": "https:///convert"}},
        "user": {**HOOK, "clientConfig": {"url": "https://" + "a:b@127.0.0.1/convert"}},
        "query": {**HOOK, "clientConfig": {"url": "https://127.0.0.1/convert?a=b"}},
        "fragment": {**HOOK, "clientConfig": {"url": "https://127.0.0.1/convert#a"}},
        "both": {**HOOK, "clientConfig": {"url": "https://127.0.0.1/c", "service": {"namespace": "a", "name": "b"}}},
        "service": {**HOOK, "clientConfig": {"service": {"namespace": "a", "name": "b", "path": "/c"}}},
        "service without a name": {**HOOK, "clientConfig": {"service": {"namespace": "a", "name": ""}}},
        "service path": {**HOOK, "clientConfig": {"service": {"namespace": "a", "name": "b", "path": "c"}}},
        "service path steps": {**HOOK, "clientConfig": {"service": {"namespace": "a", "name": "b", "path": "/c//d"}}},
        "service port": {**HOOK, "clientConfig": {"service": {"namespace": "a", "name": "b", "port": 70000}}},
        "authority bad": {**HOOK, "clientConfig": {"url": "https://127.0.0.1/c", "caBundle": "aGVsbG8="}},
    }.items():
        yield f"webhook {title}", changed("spec.conversion", {"strategy": "Webhook", "webhook": hook})


def _of_parts() -> Iterator[tuple[str, Json]]:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    yield "scale", definition(subresources={"status": {}, "scale": scale})
    for title, change in {
        "no spec path": {"specReplicasPath": ""},
        "no status path": {"statusReplicasPath": ""},
        "spec path elsewhere": {"specReplicasPath": ".status.replicas"},
        "status path elsewhere": {"statusReplicasPath": ".spec.replicas"},
        "selector elsewhere": {"labelSelectorPath": ".metadata.selector"},
        "spec path of a list": {"specReplicasPath": ".spec.list[0]"},
        "path without a dot": {"specReplicasPath": "spec.replicas"},
    }.items():
        yield f"scale {title}", definition(subresources={"scale": {**scale, **change}})
    column = {"name": "A", "type": "string", "jsonPath": ".spec.a"}
    for title, change in {
        "good": {},
        "no name": {"name": ""},
        "no type": {"type": ""},
        "type unknown": {"type": "text"},
        "format unknown": {"format": "strange"},
        "no path": {"jsonPath": ""},
        "path without a dot": {"jsonPath": "spec.a"},
        "path of a filter": {"jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
        "path that is open": {"jsonPath": ".spec.a["},
        "date": {"type": "date"},
        "priority": {"priority": 1, "format": "int64", "type": "integer"},
    }.items():
        yield f"column {title}", definition(additionalPrinterColumns=[{**column, **change}])
    fields = {"type": "object", "properties": {"color": STRING, "count": {"type": "integer"}, "list": KEYED}}
    schema = {"type": "object", "properties": {"spec": fields}}
    for title, paths in {
        "good": [".spec.color", ".spec.count"],
        "without a dot": ["spec.color"],
        "empty": [""],
        "of nothing": [".spec.weight"],
        "of an object": [".spec"],
        "of a list": [".spec.list"],
        "of metadata": [".metadata.name"],
        "twice": [".spec.color", ".spec.color"],
        "of an item": [".spec.list[0].name"],
        "too many": [f".spec.color{number}" for number in range(9)],
    }.items():
        yield f"selectable {title}", definition(schema, selectableFields=[{"jsonPath": one} for one in paths])


def _of_schemas() -> Iterator[tuple[str, Json]]:
    for title, schema in {
        "root without a type": {},
        "root of a text": {"type": "string"},
        "root list": {"type": "array", "items": STRING},
        "root preserves": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "metadata described": {"type": "object", "properties": {"metadata": {"type": "object"}}},
        "metadata of a name": {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}},
        },
        "metadata of labels": {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
        },
        "metadata of a text": {"type": "object", "properties": {"metadata": STRING}},
        "kind of a number": {"type": "object", "properties": {"kind": {"type": "integer"}}},
        "root required": {"type": "object", "required": ["spec"]},
        "root nullable": {"type": "object", "nullable": True},
        "root default": {"type": "object", "default": {}},
        "root embedded": {"type": "object", "x-kubernetes-embedded-resource": True},
    }.items():
        yield f"schema {title}", definition(schema)
    for title, schema in _FIELDS.items():
        yield f"field {title}", with_field(schema)


_FIELDS: dict[str, Json] = {
    "without a type": {"minLength": 1},
    "of an unknown type": {"type": "strange"},
    "of null": {"type": "null"},
    "list without items": {"type": "array"},
    "list of items without a type": {"type": "array", "items": {"minLength": 1}},
    "items are a list": {"type": "array", "items": [STRING]},
    "unique items": {"type": "array", "items": STRING, "uniqueItems": True},
    "additional false": {"type": "object", "additionalProperties": False},
    "additional true": {"type": "object", "additionalProperties": True},
    "additional and properties": {"type": "object", "additionalProperties": STRING, "properties": {"a": STRING}},
    "additional without a type": {"type": "object", "additionalProperties": {"minLength": 1}},
    "additional items": {"type": "array", "items": STRING, "additionalItems": STRING},
    "pattern properties": {"type": "object", "patternProperties": {"a": STRING}},
    "definitions": {"type": "object", "definitions": {"a": STRING}},
    "dependencies": {"type": "object", "dependencies": {"a": ["b"]}},
    "reference": {"$ref": "#/definitions/a"},
    "id": {"type": "string", "id": "a"},
    "schema of schemas": {"type": "string", "$schema": "a"},
    "pattern bad": {"type": "string", "pattern": "a("},
    "pattern looking ahead": {"type": "string", "pattern": "a(?=b)"},
    "format unknown": {"type": "string", "format": "strange"},
    "int or string": {"x-kubernetes-int-or-string": True},
    "int or string with a type": {"type": "string", "x-kubernetes-int-or-string": True},
    "int or string with both": {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    },
    "int or string in all": {
        "x-kubernetes-int-or-string": True,
        "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "a"}],
    },
    "int or string that preserves": {
        "x-kubernetes-int-or-string": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "both types without the word": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    "preserves without a type": {"x-kubernetes-preserve-unknown-fields": True},
    "preserves false": {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
    "embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "embedded of a text": {"type": "string", "x-kubernetes-embedded-resource": True},
    "embedded of nothing": {"type": "object", "x-kubernetes-embedded-resource": True},
    "embedded metadata": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
    },
    "type in any": {"type": "string", "anyOf": [{"type": "string"}]},
    "default in any": {"type": "string", "anyOf": [{"default": "a"}]},
    "nullable in all": {"type": "string", "allOf": [{"nullable": True}]},
    "additional in one": {"type": "object", "oneOf": [{"additionalProperties": STRING}]},
    "title in not": {"type": "string", "not": {"title": "a", "description": "b"}},
    "properties in any that are there": {
        "type": "object",
        "properties": {"a": STRING},
        "anyOf": [{"properties": {"a": {"minLength": 1}}}],
    },
    "properties in any that are not there": {"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]},
    "items in all that are not there": {"type": "object", "allOf": [{"items": {"minLength": 1}}]},
    "preserves in any": {"type": "object", "anyOf": [{"x-kubernetes-preserve-unknown-fields": True}]},
    "rules in any": {"type": "object", "anyOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]},
    "list type unknown": {"type": "array", "items": STRING, "x-kubernetes-list-type": "bag"},
    "list type of an object": {"type": "object", "x-kubernetes-list-type": "set"},
    "set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    "set of objects": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
    "set of atomic objects": {
        "type": "array",
        "items": {"type": "object", "x-kubernetes-map-type": "atomic"},
        "x-kubernetes-list-type": "set",
    },
    "set of lists": {"type": "array", "items": {"type": "array", "items": STRING}, "x-kubernetes-list-type": "set"},
    "set of nulls": {"type": "array", "items": {"type": "string", "nullable": True}, "x-kubernetes-list-type": "set"},
    "set with keys": {**KEYED, "x-kubernetes-list-type": "set"},
    "keyed": KEYED,
    "keyed without keys": {**KEYED, "x-kubernetes-list-map-keys": []},
    "keyed by what is not there": {**KEYED, "x-kubernetes-list-map-keys": ["other"]},
    "keyed by what need not be there": {**KEYED, "x-kubernetes-list-map-keys": ["value"]},
    "keyed by what has a default": {
        **KEYED,
        "items": {"type": "object", "properties": {"name": {"type": "string", "default": "a"}}},
    },
    "keyed twice": {**KEYED, "x-kubernetes-list-map-keys": ["name", "name"]},
    "keyed by an object": {
        **KEYED,
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "object"}}},
    },
    "keyed texts": {**KEYED, "items": STRING},
    "keyed nulls": {**KEYED, "items": {**ITEM, "nullable": True}},
    "keyed by what may be null": {
        **KEYED,
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "nullable": True}}},
    },
    "keys without a list type": {"type": "array", "items": ITEM, "x-kubernetes-list-map-keys": ["name"]},
    "map type unknown": {"type": "object", "x-kubernetes-map-type": "bag"},
    "map type of a text": {"type": "string", "x-kubernetes-map-type": "atomic"},
    "default good": {"type": "object", "properties": {"a": {"type": "string", "default": "b"}}},
    "default of another type": {"type": "string", "default": 5},
    "default not allowed": {"type": "string", "enum": ["a"], "default": "b"},
    "default too short": {"type": "string", "minLength": 3, "default": "b"},
    "default with unknown fields": {"type": "object", "properties": {"a": STRING}, "default": {"b": 1}},
    "default of null": {"type": "string", "default": None},
    "default of null where it may": {"type": "string", "nullable": True, "default": None},
    "default repeats": {**KEYED, "default": [{"name": "a"}, {"name": "a"}]},
    "default below a default": {
        "type": "object",
        "default": {},
        "properties": {"a": {"type": "string", "default": "b"}},
        "required": ["a"],
    },
    "default that lacks": {"type": "object", "default": {}, "properties": {"a": STRING}, "required": ["a"]},
    "default embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "default": {"metadata": {"name": "a"}},
    },
    "enum": {"type": "string", "enum": ["a", "b"]},
    "enum of other types": {"type": "string", "enum": [1, None]},
    "enum twice": {"type": "string", "enum": ["a", "a"]},
    "bounds the wrong way": {"type": "integer", "minimum": 5, "maximum": 1},
    "lengths the wrong way": {"type": "string", "minLength": 5, "maxLength": 1},
    "negative length": {"type": "string", "minLength": -1},
    "multiple of zero": {"type": "integer", "multipleOf": 0},
    "bounds of a text": {"type": "string", "minimum": 5},
    "items of a text": {"type": "string", "items": STRING},
    "properties of a text": {"type": "string", "properties": {"a": STRING}},
    "nested problems": {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "list"}}}}},
    },
    "rule without a text": {"type": "object", "x-kubernetes-validations": [{"rule": ""}]},
}


def _of_rules() -> Iterator[tuple[str, Json]]:
    fields = {"a": {"type": "string", "maxLength": 9}, "l": {"type": "array", "maxItems": 5, "items": STRING}}
    for title, rule in {
        "good": {"rule": "self.a == 'x'"},
        "of a field that is not there": {"rule": "self.b == 1"},
        "that is no answer": {"rule": "self.a"},
        "that ends too early": {"rule": "self.a =="},
        "of what was": {"rule": "self.a == oldSelf.a"},
        "with a message of nothing": {"rule": "true", "message": " "},
        "with a message of two lines": {"rule": "true", "message": "a\nb"},
        "of two lines": {"rule": "true\n || true"},
        "with a message that does not compile": {"rule": "true", "messageExpression": "self.b"},
        "with a message that is no text": {"rule": "true", "messageExpression": "5"},
        "with a message of blanks": {"rule": "true", "messageExpression": " "},
        "with an unknown reason": {"rule": "true", "reason": "Nope"},
        "about a field": {"rule": "true", "fieldPath": ".a"},
        "about no path": {"rule": "true", "fieldPath": "a"},
        "about an unknown field": {"rule": "true", "fieldPath": ".b"},
        "about an item": {"rule": "true", "fieldPath": ".l[0]"},
        "that may have nothing before": {"rule": "oldSelf.hasValue()", "optionalOldSelf": True},
        "that has nothing before": {"rule": "true", "optionalOldSelf": True},
    }.items():
        schema = {"type": "object", "properties": fields, "x-kubernetes-validations": [rule]}
        yield f"rule {title}", with_field(schema)
    items = {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    yield "rule of an item that cannot be followed", with_field({"type": "array", "maxItems": 3, "items": items})


def stories() -> Iterator[tuple[str, Json]]:
    """Each definition with its name."""
    for family in (_of_names, _of_versions, _of_parts, _of_schemas, _of_rules):
        yield from family()
