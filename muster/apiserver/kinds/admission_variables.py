"""The variables that expressions about writes know, with their types. Used by the rules of webhooks and policies."""

from __future__ import annotations

from muster.apiserver.cel import AUTHORIZER, DYN, Type, type_of_schema

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_NUMBER = {"type": "integer"}
_MOMENT = {"type": "string", "format": "date-time"}
_ANYTHING = {"x-kubernetes-int-or-string": True}  # which no type is known of


def _texts_of(*names: str) -> dict[str, object]:
    return {"type": "object", "properties": dict.fromkeys(names, _TEXT)}


_KIND, _RESOURCE = _texts_of("group", "version", "kind"), _texts_of("group", "version", "resource")
_USER = {
    "type": "object",
    "properties": {
        "username": _TEXT,
        "uid": _TEXT,
        "groups": _TEXTS,
        "extra": {"type": "object", "additionalProperties": _TEXTS},
    },
}
_REQUEST = {
    "type": "object",
    "properties": {
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "userInfo": _USER,
        "dryRun": {"type": "boolean"},
        "options": _ANYTHING,
        **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), _TEXT),
    },
}
_TEXT_MAP = {"type": "object", "additionalProperties": _TEXT}
_NAMESPACE = {
    "type": "object",
    "properties": {
        "metadata": {
            "type": "object",
            "properties": {
                **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), _TEXT),
                **dict.fromkeys(("labels", "annotations"), _TEXT_MAP),
                **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _MOMENT),
                **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _NUMBER),
                "finalizers": _TEXTS,
            },
        },
        "spec": {"type": "object", "properties": {"finalizers": _TEXTS}},
        "status": _texts_of("phase"),
    },
}

OF_CONDITIONS: dict[str, Type] = {
    "object": DYN,
    "oldObject": DYN,
    "request": type_of_schema(_REQUEST),
    "authorizer": AUTHORIZER,
}
OF_POLICIES: dict[str, Type] = {**OF_CONDITIONS, "namespaceObject": type_of_schema(_NAMESPACE)}


def own_variables(known: list[str]) -> Type:
    """The type of the variables that a policy has defined itself."""
    return type_of_schema({"type": "object", "properties": dict.fromkeys(known, _ANYTHING)})
