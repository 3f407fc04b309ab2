"""The schemas of the served kinds as OpenAPI v3, made from the tables of facts. Called by the routes below /openapi/v3.

`Documents(kinds).index()` is what clients ask for first; it names a document for each group and version, which
`document("apis/batch/v1")` gives. Both are bytes that are made once. There are no descriptions in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from muster.apiserver.facts import META, TYPES, Field, Kind, Shape, type_of, version

Json = dict[str, Any]
Names = tuple[str, str, str]  # group, version and kind

_PLACE = "#/components/schemas/"
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_ANSWERS = ("application/json", "application/yaml")
# What the tables call a scalar, and the type of that name in published schemas.
_NAMED_SCALARS: dict[str, tuple[str, Json]] = {
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "intorstring": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "time": (META + "Time", {"type": "string", "format": "date-time"}),
    "microtime": (META + "MicroTime", {"type": "string", "format": "date-time"}),
    "raw": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
}
_SCALARS: dict[str, Json] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_LIST_PARAMETERS = (
    "allowWatchBookmarks:boolean",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit:integer",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents:boolean",
    "timeoutSeconds:integer",
    "watch:boolean",
)
_DELETE_PARAMETERS = ("dryRun", "gracePeriodSeconds:integer", "propagationPolicy")
_META_TYPES = ("DeleteOptions", "Status", "APIResourceList")


class Documents:
    """The documents of some kinds, each made when it is first asked for."""

    def __init__(self, kinds: Iterable[Kind], schemas: Mapping[Names, Json] | None = None) -> None:
        self._schemas = schemas or {}  # of the kinds that definitions describe
        self._kinds: dict[str, list[Kind]] = {}
        for kind in kinds:
            self._kinds.setdefault(_path_of(kind), []).append(kind)
        self._made: dict[str, bytes] = {}

    def index(self) -> bytes:
        """Where the document of each group and version is."""
        if "" not in self._made:
            paths = {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_digest(kinds, self._schemas)}"}
                for path, kinds in sorted(self._kinds.items())
            }
            self._made[""] = msgspec.json.encode({"paths": paths})
        return self._made[""]

    def document(self, path: str) -> bytes | None:
        """The document of a group and version such as `api/v1` or `apis/batch/v1`; `None` where there is none."""
        kinds = self._kinds.get(path)
        if kinds is None:
            return None
        if path not in self._made:
            self._made[path] = msgspec.json.encode(_document(kinds, self._schemas))
        return self._made[path]


def _path_of(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _digest(kinds: list[Kind], custom: Mapping[Names, Json]) -> str:
    """What changes when a document does: clients keep documents under it."""
    named = [version(), *(f"{kind.kind} {' '.join(kind.verbs)} {' '.join(kind.subresources)}" for kind in kinds)]
    digest = hashlib.sha256("\n".join(named).encode())
    for kind in kinds:
        if (schema := custom.get(names_of(kind))) is not None:
            digest.update(msgspec.json.encode(schema))
    return digest.hexdigest().upper()


def names_of(kind: Kind) -> Names:
    """What tells a kind from all others."""
    return kind.group, kind.version, kind.kind


def _document(kinds: list[Kind], custom: Mapping[Names, Json]) -> Json:
    schemas: Json = {}
    for kind in kinds:
        _add_kind(schemas, kind, custom.get(names_of(kind)))
    for name in _META_TYPES:
        _add_type(schemas, META + name)
    schemas[META + "Patch"] = {"type": "object"}
    major, minor = version().removeprefix("v").split(".")[:2]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"{major}.{minor}"},
        "paths": {path: item for kind in kinds for path, item in _paths(kind)},
        "components": {"schemas": schemas},
    }


# Schemas -------------------------------------------------------------------------------------------------------------


def _add_kind(schemas: Json, kind: Kind, own: Json | None) -> None:
    """A kind, the list of it and all that they hold; `own` is its schema where a definition has it."""
    if not kind.type_name:
        schemas[_schema_name(kind)] = _custom_schema(kind, _dialect_schema(kind) if own is None else own)
        schemas[_list_name(kind)] = _list_schema(kind)
        _add_type(schemas, META + "ObjectMeta")
        _add_type(schemas, META + "ListMeta")
        _add_parts(schemas, kind)
        return
    _add_type(schemas, kind.type_name)
    schemas[kind.type_name] = {**schemas[kind.type_name], **_stamp(kind, kind.kind)}
    list_name = type_of(kind.group, kind.version, f"{kind.kind}List")
    if list_name:
        _add_type(schemas, list_name)
        schemas[list_name] = {**schemas[list_name], **_stamp(kind, f"{kind.kind}List")}
    _add_parts(schemas, kind)


def _add_parts(schemas: Json, kind: Kind) -> None:
    for subresource in kind.subresources.values():
        name = type_of(subresource.group, subresource.version, subresource.kind)
        if name and name not in schemas:
            _add_type(schemas, name)
            where = {"group": subresource.group, "kind": subresource.kind, "version": subresource.version}
            schemas[name] = {**schemas[name], "x-kubernetes-group-version-kind": [where]}


def _stamp(kind: Kind, name: str) -> Json:
    return {"x-kubernetes-group-version-kind": [{"group": kind.group, "kind": name, "version": kind.version}]}


def _schema_name(kind: Kind) -> str:
    """What the schema of a kind is called; for one that is not built in, its group backwards."""
    return kind.type_name or ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _list_name(kind: Kind) -> str:
    return type_of(kind.group, kind.version, f"{kind.kind}List") or f"{_schema_name(kind)}List"


def _dialect_schema(kind: Kind) -> Json:
    """The schema of one of a dialect's kinds."""
    from muster.dialects.kueue.kinds import KINDS  # Only when a document of these kinds is asked for.
    from muster.model.shapes_open_api import open_api_of

    schema: Json = {"type": "object"}
    if kind.kind in KINDS and kind.version in KINDS[kind.kind].shapes:
        schema = open_api_of(KINDS[kind.kind].shapes[kind.version])
    return schema


def _custom_schema(kind: Kind, schema: Json) -> Json:
    """The schema of a kind that is not built in, with what all objects have."""
    metadata = {"allOf": [{"$ref": _PLACE + META + "ObjectMeta"}]}
    texts = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    properties = {**texts, "metadata": metadata, **schema.get("properties", {})}
    return {**schema, "properties": {**properties, "metadata": metadata}, **_stamp(kind, kind.kind)}


def _list_schema(kind: Kind) -> Json:
    items = {"type": "array", "items": {"allOf": [{"$ref": _PLACE + _schema_name(kind)}]}}
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"allOf": [{"$ref": _PLACE + META + "ListMeta"}]},
        "items": items,
    }
    stamp = _stamp(kind, f"{kind.kind}List")
    return {"type": "object", "required": ["items"], "properties": properties, **stamp}


def _add_type(schemas: Json, name: str) -> None:
    """A type and all types that it holds, each once."""
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in schemas:
            continue
        found = TYPES[current]
        fields = found.fields.values()
        schemas[current] = {"type": "object", "properties": {field.name: _field(field) for field in fields}}
        if needed := sorted(field.name for field in fields if field.is_required):
            schemas[current]["required"] = needed
        if found.map_type:
            schemas[current]["x-kubernetes-map-type"] = found.map_type
        if found.unions:
            schemas[current]["x-kubernetes-unions"] = [dict(one) for one in found.unions]
        for held in (_held(field.shape) for field in fields):
            if held.type_name:
                waiting.append(held.type_name)
            elif held.kind in _NAMED_SCALARS:
                scalar, schema = _NAMED_SCALARS[held.kind]
                schemas[scalar] = schema


def _held(shape: Shape) -> Shape:
    return _held(shape.of) if shape.of is not None else shape


def _field(field: Field) -> Json:
    schema = _shape(field.shape)
    if field.shape.kind == "object" and not field.is_pointer:
        schema["default"] = {}
    if field.default is not None:
        schema["default"] = field.default
    if field.enum:
        (schema["items"] if field.shape.kind == "list" else schema)["enum"] = list(field.enum)
    extensions = {
        "list-type": field.list_type,
        "list-map-keys": list(field.list_map_keys),
        "map-type": field.map_type,
        "patch-merge-key": field.patch_merge_key,
        "patch-strategy": ",".join(field.patch_strategy),
    }
    return schema | {f"x-kubernetes-{name}": value for name, value in extensions.items() if value}


def _shape(shape: Shape) -> Json:
    match shape.kind:
        case "list":
            return {"type": "array", "items": _shape(shape.item)}
        case "map":
            return {"type": "object", "additionalProperties": _shape(shape.item)}
        case "object":
            return {"allOf": [{"$ref": _PLACE + shape.type_name}]}
        case kind if kind in _NAMED_SCALARS:
            return {"allOf": [{"$ref": _PLACE + _NAMED_SCALARS[kind][0]}]}
        case kind:
            return dict(_SCALARS.get(kind, {}))


# Paths ---------------------------------------------------------------------------------------------------------------


def _paths(kind: Kind) -> Iterator[tuple[str, Json]]:
    start = "/" + _path_of(kind)
    where = "/namespaces/{namespace}" if kind.is_namespaced else ""
    names = ["namespace"] if kind.is_namespaced else []
    collection = f"{start}{where}/{kind.plural}"
    one, many = _schema_name(kind), _list_name(kind)
    operations = {"get": ("list", many), "post": ("create", one), "delete": ("deletecollection", META + "Status")}
    yield collection, _item(kind, operations, names)
    if kind.is_namespaced and "list" in kind.verbs:
        yield f"{start}/{kind.plural}", _item(kind, {"get": ("list", many)}, [])
    verbs = {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
    yield f"{collection}/{{name}}", _item(kind, {m: (verb, one) for m, verb in verbs.items()}, [*names, "name"])
    for name, part in kind.subresources.items():
        schema = type_of(part.group, part.version, part.kind) or one
        methods = {"get": "get", "put": "update", "patch": "patch", "post": "create"}
        given = {method: (verb, schema) for method, verb in methods.items() if verb in part.verbs}
        if given:
            yield f"{collection}/{{name}}/{name}", _item(kind, given, [*names, "name"], verbs=part.verbs)


def _item(kind: Kind, operations: Json, names: list[str], *, verbs: tuple[str, ...] | None = None) -> Json:
    """The operations on one path, of those that the kind has."""
    known = kind.verbs if verbs is None else verbs
    item: Json = {
        method: _operation(kind, verb, schema) for method, (verb, schema) in operations.items() if verb in known
    }
    item["parameters"] = [{"name": name, "in": "path", "required": True, **_typed("string")} for name in names]
    return item


def _operation(kind: Kind, verb: str, schema: str) -> Json:
    stamp = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    reference = {"schema": {"$ref": _PLACE + schema}}
    operation: Json = {
        "parameters": [_parameter(text) for text in _parameters(verb)],
        "responses": {"200": {"description": "OK", "content": dict.fromkeys(_ANSWERS, reference)}},
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        "x-kubernetes-group-version-kind": stamp,
    }
    if verb == "patch":
        patch = {"schema": {"$ref": f"{_PLACE}{META}Patch"}}
        forms = _PATCHES if kind.type_name else _PATCHES[:3]
        operation["requestBody"] = {"content": dict.fromkeys(forms, patch), "required": True}
    elif verb in ("create", "update"):
        operation["requestBody"] = {"content": {"*/*": reference}, "required": True}
    elif verb in ("delete", "deletecollection"):
        options = {"schema": {"$ref": f"{_PLACE}{META}DeleteOptions"}}
        operation["requestBody"] = {"content": {"*/*": options}}
    return operation


def _parameters(verb: str) -> tuple[str, ...]:
    match verb:
        case "create" | "update":
            return _WRITE_PARAMETERS
        case "patch":
            return (*_WRITE_PARAMETERS, "force:boolean")
        case "delete":
            return _DELETE_PARAMETERS
        case "deletecollection":
            return (*_DELETE_PARAMETERS, *_LIST_PARAMETERS)
        case "list":
            return _LIST_PARAMETERS
        case _:
            return ()


def _parameter(text: str) -> Json:
    name, _, kind = text.partition(":")
    return {"name": name, "in": "query", **_typed(kind or "string")}


def _typed(kind: str) -> Json:
    return {"schema": {"type": kind, "uniqueItems": True}}
