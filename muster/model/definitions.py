"""Custom resource definitions made from shapes: names, versions, columns and rules between fields. Dialects call it.

A dialect says what its kinds are called and what each version of them looks like; `definition_object` gives the object
that a cluster takes. Nothing here depends on a dialect, and nothing is read from anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.model.shapes import Anything, Schema, Struct, Text
from muster.model.shapes_open_api import open_api_of

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the table that `kubectl get` shows; those of priority 1 only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


AGE = Column(name="Age", path=".metadata.creationTimestamp", type="date")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule between fields in the language of Kubernetes (CEL), and what somebody is told who breaks it."""

    expression: str
    message: str


Rules = Mapping[str, tuple[Rule, ...]]  # by the path of the part that `self` is, such as spec.podSets[]
Words = Mapping[str, str]  # by the path of a field: what it is for


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a kind."""

    name: str
    shape: Struct
    is_stored: bool = True
    has_status: bool = True  # whether the status is written apart from the rest
    warning: str = ""  # what everybody is told who uses a version that is going away
    columns: tuple[Column, ...] = ()
    rules: Rules = field(default_factory=dict)
    selectable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A kind: what it is called, where it lives, and its versions."""

    group: str
    kind: str
    plural: str
    is_namespaced: bool
    versions: tuple[Version, ...]
    short_names: tuple[str, ...] = ()
    words: Words = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


def root(*, spec: Struct | None = None, status: Struct | None = None, **others: Schema) -> Struct:
    """The outermost object of a kind; metadata has its own checks."""
    fields: dict[str, Schema] = {"apiVersion": Text(), "kind": Text(), "metadata": Anything(), **others}
    if spec is not None:
        fields["spec"] = spec
    if status is not None:
        fields["status"] = status
    return Struct(fields=fields)


def definition_object(definition: Definition, *, conversion: Object | None = None) -> Object:
    """The CustomResourceDefinition; `conversion` says who translates between versions where there are several."""
    names: Object = {
        "kind": definition.kind,
        "listKind": f"{definition.kind}List",
        "plural": definition.plural,
        "singular": definition.kind.lower(),
    }
    if definition.short_names:
        names["shortNames"] = list(definition.short_names)
    spec: Object = {
        "group": definition.group,
        "scope": "Namespaced" if definition.is_namespaced else "Cluster",
        "names": names,
    }
    if conversion is not None:
        spec["conversion"] = conversion
    spec["versions"] = [_version(one, definition.words) for one in definition.versions]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name},
        "spec": spec,
    }


def _version(version: Version, words: Words) -> Object:
    stated: Object = {"name": version.name, "served": True, "storage": version.is_stored}
    if version.warning:
        stated |= {"deprecated": True, "deprecationWarning": version.warning}
    if version.columns:
        stated["additionalPrinterColumns"] = [_column(one) for one in version.columns]
    if version.selectable:
        stated["selectableFields"] = [{"jsonPath": path} for path in version.selectable]
    if version.has_status:
        stated["subresources"] = {"status": {}}
    schema = open_api_of(version.shape)
    _describe(schema, words)
    for path, rules in version.rules.items():
        stated_rules = [{"rule": rule.expression, "message": rule.message} for rule in rules]
        _part(schema, path)["x-kubernetes-validations"] = stated_rules
    stated["schema"] = {"openAPIV3Schema": schema}
    return stated


def _column(column: Column) -> Object:
    stated: Object = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return stated | ({"priority": column.priority} if column.priority else {})


def _describe(schema: Object, words: Words) -> None:
    """Write what each field is for where the schema has the field; the versions of a kind do not have them all."""
    for path, text in words.items():
        found = _found(schema, path)
        if found is not None:
            found["description"] = text


def _part(schema: Object, path: str) -> Object:
    found = _found(schema, path)
    assert found is not None, f"a rule is written for {path}, which the kind does not have"
    return found


def _found(schema: Object, path: str) -> Object | None:
    """The part of a schema at a path such as spec.tasks[].name; the empty path is the whole."""
    part: Object | None = schema
    for word in path.split(".") if path else ():
        name = word.removesuffix("[]")
        part = part.get("properties", {}).get(name) if part is not None else None
        if part is not None and word.endswith("[]"):
            part = part["items"]
    return part
