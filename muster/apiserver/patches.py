"""Patches of any kind applied to an object. Called by the routes, within the write, with the object as it then is.

What comes back is raw: the caller reads it into its type (`field_checks`), and the store's rules judge it.
"""

from __future__ import annotations

import json
from typing import Any

from muster.apiserver import merge_json, merge_strategic
from muster.apiserver.facts import Kind
from muster.apiserver.field_checks import MOST_DEPTH, Mismatch, Read, read
from muster.apiserver.kinds.problems import invalid
from muster.apiserver.statuses import Problem, bad_request
from muster.model.errors import InvalidObject
from muster.model.json_text import begins_as_json

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
CONTENT_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)

Object = dict[str, Any]


def content_types(kind: Kind | None) -> tuple[str, ...]:
    """The patches that a kind takes: one without tables cannot be merged strategically."""
    return CONTENT_TYPES if kind is not None else (JSON_PATCH, MERGE_PATCH)


def refuse_unknown_form(content_type: str, kind: Kind | None) -> None:
    """Refuse a patch of a form that a kind does not take."""
    if content_type not in content_types(kind):
        raise Problem(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})


def apply_patch(content_type: str, before: Object, body: bytes, kind: Kind | None) -> Object:
    """The object after the patch; `before` belongs to the patch. Raises Problem."""
    form = content_type.partition(";")[0].strip()
    refuse_unknown_form(form, kind)
    patch = _decoded(body)
    if form == JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request("error decoding patch: json: cannot unmarshal a patch that is not a list")
        after = merge_json.operated(before, patch)
    else:
        if not isinstance(patch, dict):
            raise bad_request("error decoding patch: json: cannot unmarshal a patch that is not an object")
        is_merge = form == MERGE_PATCH
        after = merge_json.merged(before, patch) if is_merge else _strategic(before, patch, kind)
    if not isinstance(after, dict):
        raise bad_result("the result is not an object")
    return after


def read_patched(after: Object, kind: Kind) -> Read:
    """What a patch has left, as its type has it; what is no object of its kind is the patch's mistake."""
    api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    if (after.get("apiVersion"), after.get("kind")) != (api_version, kind.kind):
        raise bad_result(f"the result is not a {kind.kind} of {api_version}")
    try:
        return read(after, kind.type_name)
    except Mismatch as problem:
        raise bad_result(str(problem)) from None


def bad_result(why: str) -> InvalidObject:
    """The refusal of a patch for what it would make of the object."""
    return invalid("patch", "", why)


def _strategic(before: Object, patch: Object, kind: Kind | None) -> Object:
    assert kind is not None, "a kind without tables takes no strategic merge patch"
    return merge_strategic.merged(before, patch, kind.type_name)


def _decoded(body: bytes) -> Any:
    try:
        text = body.decode()
        if text.lstrip().startswith(("{", "[")) and not begins_as_json(text, MOST_DEPTH):
            raise ValueError(f"nesting deeper than {MOST_DEPTH}")
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError as problem:
        raise bad_request(f"error decoding patch: {problem}") from None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
