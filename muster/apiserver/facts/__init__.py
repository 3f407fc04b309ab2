"""What is known of Kubernetes' built-in types and kinds, as tables. Used by patches, discovery, schemas and protobuf.

`TYPES["io.k8s.api.core.v1.Container"].fields["ports"]` and `KINDS["apps", "v1", "Deployment"]`. The tables are written
by tools/kubernetes_facts.py; a file of them is read when something in it is first asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

FOLDER = Path(__file__).parent
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"

_VARINTS = frozenset({"bool", "int32", "int64"})


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value looks like: a scalar's name, "list" or "map" of another shape, or "object" of a named type."""

    kind: str
    type_name: str = ""  # of an object
    of: Shape | None = None  # of a list or a map, whose keys are strings
    is_boxed: bool = False  # a list that is a message of its own on the wire

    @property
    def wire(self) -> str:
        """How protobuf carries one such value."""
        if self.kind in _VARINTS:
            return "varint"
        return "fixed64" if self.kind == "float64" else "bytes"

    @property
    def item(self) -> Shape:
        """What a list or a map holds."""
        assert self.of is not None, f"a {self.kind} holds nothing"
        return self.of


@cache
def shape(text: str) -> Shape:
    """Read the short form of a shape: `[]string`, `map[string]quantity`, `io.k8s.api.core.v1.Pod`."""
    if text.startswith("box "):
        return Shape("list", of=shape(text.removeprefix("box []")), is_boxed=True)
    if text.startswith("[]"):
        return Shape("list", of=shape(text.removeprefix("[]")))
    if text.startswith("map[string]"):
        return Shape("map", of=shape(text.removeprefix("map[string]")))
    return Shape("object", type_name=text) if "." in text else Shape(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a type: its name in JSON, its number in protobuf, and how patches merge it."""

    name: str
    shape: Shape
    number: int = 0  # 0: not on the wire
    is_required: bool = False
    is_pointer: bool = False  # Go tells its zero from its absence
    keeps_empty: bool = False  # Go writes it to JSON even when it is empty
    omits_zero: bool = False  # Go leaves it out of JSON even where it is an object, when nothing is in it
    patch_strategy: tuple[str, ...] = ()  # merge, replace, retainKeys
    patch_merge_key: str = ""
    list_type: str = ""  # atomic, map or set
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    enum: tuple[str, ...] = ()
    default: Any = None  # the published one, where it is not the empty value


@dataclass(frozen=True, kw_only=True)
class Type:
    """An object of the API or a part of one."""

    name: str
    own: Mapping[str, Field]
    inlined: tuple[Field, ...] = ()  # messages of their own on the wire whose fields JSON has here
    map_type: str = ""
    unions: tuple[Mapping[str, Any], ...] = ()

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """The fields as JSON has them, those of inlined types too."""
        inlined = {name: field for one in self.inlined for name, field in TYPES[one.shape.type_name].fields.items()}
        return MappingProxyType({**self.own, **inlined})


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table that `kubectl get` shows."""

    name: str
    type: str
    format: str = ""
    description: str = ""
    priority: int = 0  # above 0: only where a wide table is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A part of a kind that is asked for by itself, and what is sent to it."""

    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind that the API serves."""

    group: str
    version: str
    kind: str
    type_name: str
    plural: str
    singular: str
    is_namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource]
    field_selectors: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()


def version() -> str:
    """The version of Kubernetes that the tables were read from."""
    return str(_kinds_table()["version"])


def type_of(group: str, version: str, kind: str) -> str:
    """The type of a kind, be it served, a list of served ones or only ever sent; empty for one that is not built in."""
    table = _kinds_table()
    named = table["groupVersions"].get(f"{group}/{version}" if group else version)
    if named is None:
        return ""
    if kind in named["kinds"]:
        return f"{named['package']}.{kind}"
    return META + kind if kind in table["everywhere"] else ""


def all_kinds() -> Iterator[tuple[str, str]]:
    """The version and kind of everything that has a type, as objects name them: `apps/v1` and `Deployment`."""
    table = _kinds_table()
    for group_version, named in table["groupVersions"].items():
        yield from ((group_version, kind) for kind in named["kinds"])
    yield from (("v1", kind) for kind in table["everywhere"])


class _Types(Mapping[str, Type]):
    """Every type by its published name."""

    def __getitem__(self, name: str) -> Type:
        return _type(name)

    def __iter__(self) -> Iterator[str]:
        for path in sorted((FOLDER / "types").glob("*.json")):
            yield from (f"{path.stem}.{name}" for name in _types_table(path.stem))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Kinds(Mapping[tuple[str, str, str], Kind]):
    """Every served kind by group, version and kind."""

    def __getitem__(self, key: tuple[str, str, str]) -> Kind:
        return _kind(*key)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        return iter(_kind_rows())

    def __len__(self) -> int:
        return len(_kind_rows())


TYPES: Mapping[str, Type] = _Types()
KINDS: Mapping[tuple[str, str, str], Kind] = _Kinds()


@cache
def _kinds_table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads((FOLDER / "kinds.json").read_bytes())
    return table


@cache
def _kind_rows() -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["group"], row["version"], row["kind"]): row for row in _kinds_table()["kinds"]}


@cache
def _types_table(package: str) -> dict[str, Any]:
    path = FOLDER / "types" / f"{package}.json"
    table: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return table


@cache
def _type(name: str) -> Type:
    package, _, short_name = name.rpartition(".")
    row = _types_table(package).get(short_name)
    if row is None:
        raise KeyError(name)
    return Type(
        name=name,
        own=MappingProxyType({one: _field(one, facts) for one, facts in row["fields"].items()}),
        inlined=tuple(_field(one, facts) for one, facts in row.get("inlined", {}).items()),
        map_type=row.get("mapType", ""),
        unions=tuple(row.get("unions", ())),
    )


def _field(name: str, row: dict[str, Any]) -> Field:
    return Field(
        name=name,
        shape=shape(row["type"]),
        number=row.get("number", 0),
        is_required=row.get("required", False),
        is_pointer=row.get("pointer", False),
        keeps_empty=row.get("keepsEmpty", False),
        omits_zero=row.get("omitsZero", False),
        patch_strategy=tuple(filter(None, row.get("patchStrategy", "").split(","))),
        patch_merge_key=row.get("patchMergeKey", ""),
        list_type=row.get("listType", ""),
        list_map_keys=tuple(row.get("listMapKeys", ())),
        map_type=row.get("mapType", ""),
        enum=tuple(row.get("enum", ())),
        default=row.get("default"),
    )


@cache
def _kind(group: str, version: str, kind: str) -> Kind:
    row = _kind_rows()[group, version, kind]
    subresources = {
        name: Subresource(
            group=one.get("group", group),
            version=one.get("version", version),
            kind=one["kind"],
            verbs=tuple(one["verbs"]),
        )
        for name, one in row.get("subresources", {}).items()
    }
    return Kind(
        group=group,
        version=version,
        kind=kind,
        type_name=type_of(group, version, kind),
        plural=row["plural"],
        singular=row["singular"],
        is_namespaced=row["namespaced"],
        verbs=tuple(row["verbs"]),
        short_names=tuple(row.get("shortNames", ())),
        categories=tuple(row.get("categories", ())),
        subresources=MappingProxyType(subresources),
        field_selectors=tuple(row.get("fieldSelectors", ())),
        columns=tuple(Column(**one) for one in row.get("columns", ())),
    )
