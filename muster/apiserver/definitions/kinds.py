"""A definition at work: its versions with their schemas, and the rules that the store applies to its objects.

Made by `establishing` for each definition that is in force. `served_of` gives what the catalog serves of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from muster.apiserver.definitions.columns import columns_of
from muster.apiserver.definitions.conversion import ByWebhook, Converter, converter_of
from muster.apiserver.definitions.rules import Rules, compile_rules
from muster.apiserver.definitions.scales import ScalePaths, scale_paths, scale_problems
from muster.apiserver.definitions.schemas import Schema, compile_schema
from muster.apiserver.definitions.shaping import read_metadata, settle_numbers, shape
from muster.apiserver.definitions.validation import ABSENT, embedded_of, problems_of
from muster.apiserver.facts import Kind, Subresource
from muster.apiserver.field_checks import Mismatch
from muster.apiserver.kinds.problems import invalid, raise_all, required
from muster.apiserver.served import Served
from muster.apiserver.table_cells import Shown
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.labels import label_key_problem, label_value_problem
from muster.store.kinds import KindRules
from muster.store.objects import decode
from muster.store.records import Record

Json = dict[str, Any]
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_OF_PARTS = ("get", "patch", "update")


@dataclass(slots=True, kw_only=True)
class CustomKind:
    """One version of a definition."""

    api_version: str
    definition: Definition
    schema: Schema
    open_api: Json  # the schema as it was given
    rules: Rules
    columns: tuple[Shown, ...]
    has_status: bool
    scale: ScalePaths | None
    selectable: tuple[str, ...]
    warning: str  # for each request that uses the version
    is_served: bool

    def read(self, given: Json) -> list[str]:
        """Bring a body into the form of the schema; gives its unknown fields. Raises Mismatch."""
        return [*shape(given, self.schema), *read_metadata(given)]

    def show(self, record: Record) -> Json:
        """A stored object in this version."""
        return self.definition.convert(self.definition.shaped(decode(record)), self.api_version)

    async def prepare(self, records: Iterable[Record]) -> None:
        """Have a webhook asked for what it takes to show some records, all at once."""
        converter = self.definition.converter
        if isinstance(converter, ByWebhook):
            found = [self.definition.shaped(decode(one)) for one in records if not self.is_as_stored(one)]
            others = [one for one in found if one.get("apiVersion") != self.api_version]
            await converter.prepare(others, self.api_version)

    def fields_of(self, record: Record) -> Json:
        """What selectors look at; where a webhook would have to be asked, the object in the version that is stored."""
        shaped = self.definition.shaped(decode(record))
        is_apart = isinstance(self.definition.converter, ByWebhook)
        return shaped if is_apart else self.definition.convert(shaped, self.api_version)

    def is_as_stored(self, record: Record) -> bool:
        """Whether the bytes of a record are what this version shows."""
        definition = self.definition
        return self.api_version == definition.storage and record.revision > definition.since

    def check(self, new: Json, before: Json | None) -> None:
        """Raise all that is wrong with an object of this version."""
        had = ABSENT if before is None else before
        problems = problems_of(new, self.schema, had)
        if self.scale is not None:
            problems += scale_problems(new, self.scale)
        inside = [(path, one) for path, one in embedded_of(new, self.schema) if path]
        problems += [problem for path, one in inside for problem in _embedded_problems(one, path)]
        raise_all([*problems, *self.rules.problems(new, before, problems)])


@dataclass(slots=True, kw_only=True)
class Definition:
    """All versions of one definition."""

    name: str  # of the definition, and of the resource in keys
    storage: str  # the apiVersion that its objects are written in
    converter: Converter
    versions: dict[str, CustomKind] = field(default_factory=dict)  # by apiVersion
    since: int = 2**63  # what was written after this revision is in the form of the present schema
    is_terminating: bool = False

    def convert(self, given: Json, api_version: str) -> Json:
        """An object in another version, without the fields that it does not have there."""
        if given.get("apiVersion") == api_version:
            return given
        converted = self.converter.converted(given, api_version)
        if (kind := self.versions.get(api_version)) is not None:
            shape_after_conversion(converted, kind.schema)
        return converted

    def shaped(self, stored: Json) -> Json:
        """A stored object in the form of the present schema of its version."""
        if (kind := self.versions.get(stored.get("apiVersion") or "")) is not None:
            shape(stored, kind.schema)
        return stored

    def revive(self, stored: Json) -> Json:
        """The same in the version that is written now."""
        return self.convert(self.shaped(stored), self.storage)


def shape_after_conversion(given: Json, schema: Schema) -> None:
    """Prune what a conversion has left; its defaults are those of the version that it came from."""
    shape(given, replace(schema, has_defaults=False))


def _embedded_problems(given: Json, path: str) -> Iterator[InvalidObject]:
    for name in ("apiVersion", "kind"):
        if not given.get(name):
            yield required(f"{path}.{name}")
        elif not isinstance(given[name], str):
            yield invalid(f"{path}.{name}", given[name], "must be a string")
    try:
        metadata = Fields.of(given.get("metadata"), f"{path}.metadata")
        labels, annotations = metadata.text_map("labels"), metadata.text_map("annotations")
    except InvalidObject as problem:
        yield problem
        return
    for key, value in labels.items():
        if why := label_key_problem(key):
            yield invalid(metadata.at("labels"), key, why)
        if why := label_value_problem(value):
            yield invalid(metadata.at("labels"), value, why)
    for key in annotations:
        if why := label_key_problem(key.lower()):
            yield invalid(metadata.at("annotations"), key, why)


# From the object of a definition -------------------------------------------------------------------------------------


def definition_of(given: Json) -> Definition:
    """The definition that an object of that kind describes, with all its schemas compiled."""
    spec = given["spec"]
    group = spec["group"]
    storage = next(one["name"] for one in spec["versions"] if one["storage"])
    made = Definition(
        name=given["metadata"]["name"],
        storage=f"{group}/{storage}",
        converter=converter_of(spec),
        is_terminating=given["metadata"].get("deletionTimestamp") is not None,
    )
    for version in spec["versions"]:
        kind = _custom_kind(spec, version, made)
        made.versions[kind.api_version] = kind
    return made


def _custom_kind(spec: Json, version: Json, definition: Definition) -> CustomKind:
    parts = version.get("subresources") or {}
    open_api = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    schema = compile_schema(open_api)
    api_version = f"{spec['group']}/{version['name']}"
    warning = ""
    if version.get("deprecated"):
        plain = f"{api_version} {spec['names']['kind']} is deprecated"
        warning = version.get("deprecationWarning") or plain
    return CustomKind(
        api_version=api_version,
        definition=definition,
        schema=schema,
        open_api=open_api,
        rules=compile_rules(schema, open_api),
        columns=columns_of(version),
        has_status=parts.get("status") is not None,
        scale=scale_paths(parts["scale"]) if parts.get("scale") else None,
        selectable=tuple(one["jsonPath"].removeprefix(".") for one in version.get("selectableFields") or ()),
        warning=warning,
        is_served=bool(version.get("served")),
    )


# What is served of it ------------------------------------------------------------------------------------------------


def served_of(given: Json, definition: Definition) -> list[Served]:
    """A definition's versions as the catalog serves them, the best first."""
    names = (given.get("status") or {}).get("acceptedNames") or {}
    spec = given["spec"]
    accepted = {**spec["names"], **{name: value for name, value in names.items() if value}}
    rules = rules_of(spec, definition)
    found = []
    for version in sorted(spec["versions"], key=lambda one: version_order(one["name"])):
        kind = definition.versions[f"{spec['group']}/{version['name']}"]
        if kind.is_served:
            found.append(Served(_kind_facts(spec, version["name"], kind, accepted), rules, kind))
    return found


def _kind_facts(spec: Json, version: str, kind: CustomKind, names: Json) -> Kind:
    group = spec["group"]
    parts = {}
    if kind.has_status:
        parts["status"] = Subresource(group=group, version=version, kind=names["kind"], verbs=_OF_PARTS)
    if kind.scale is not None:
        parts["scale"] = Subresource(group="autoscaling", version="v1", kind="Scale", verbs=_OF_PARTS)
    return Kind(
        group=group,
        version=version,
        kind=names["kind"],
        type_name="",
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        is_namespaced=spec["scope"] == "Namespaced",
        verbs=_VERBS,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=MappingProxyType(parts),
        field_selectors=("metadata.name", "metadata.namespace", *kind.selectable),
    )


def rules_of(spec: Json, definition: Definition) -> KindRules:
    """The rules for objects of a definition: those of the version that is written, and those of each other one."""
    every = {api_version: _version_rules(spec, kind) for api_version, kind in definition.versions.items()}
    stored = definition.versions[definition.storage]

    def default(given: Json, _before: Json | None) -> Json:
        try:
            stored.read(given)
        except Mismatch as problem:
            raise invalid("metadata", "", str(problem)) from None
        return given

    # Whoever writes without a version of the API has not been through a body, and gets the defaults here.
    return replace(every[definition.storage], default=default, versions=every)


def _version_rules(spec: Json, kind: CustomKind) -> KindRules:
    definition = kind.definition

    def validate(new: Json, before: Json | None) -> None:
        if isinstance(definition.converter, ByWebhook):
            settle_numbers(new)  # what is converted here is what is shown after the write
        had = definition.convert(before, kind.api_version) if before is not None else None
        kind.check(definition.convert(new, kind.api_version), had)
        settle_numbers(new)

    return KindRules(
        resource=definition.name,
        kind=spec["names"]["kind"],
        api_version=definition.storage,
        is_namespaced=spec["scope"] == "Namespaced",
        has_status=kind.has_status,
        convert=definition.convert,
        revive=definition.revive,
        validate=validate,
    )


def version_order(name: str) -> tuple[int, int, int, str]:
    """Versions of Kubernetes' kind go first, stable before beta before alpha, the newest before the older."""
    stage, major, minor = 3, 0, 0
    for rank, word in enumerate(("", "beta", "alpha")):
        head, found, tail = name.removeprefix("v").partition(word) if word else (name[1:], "", "")
        if name.startswith("v") and head.isdigit() and (bool(found) == bool(word)) and (not word or tail.isdigit()):
            stage, major, minor = rank, -int(head), -int(tail or 0)
            break
    return stage, major, minor, name
