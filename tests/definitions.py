"""Definitions compared with those that users have installed. Imported by the tests of the dialects' definitions."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from tests.support import shared

Object = dict[str, Any]


@cache
def original(name: str) -> Any:
    """The definition that users have, such as queues.scheduling.volcano.sh; skips without the reference material."""
    text = shared(f"crds/{name}.yaml").read_text()
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def comparable(definition: Any) -> Object:
    """What a definition says less what may be said in other words: descriptions and rules; empty parts are none."""
    spec = _stripped(definition["spec"])
    spec.pop("conversion", None)  # ours names our own server
    for version in spec["versions"]:
        if not version.get("subresources"):
            version.pop("subresources", None)
        if "deprecationWarning" in version:
            version["deprecationWarning"] = "in our own words"
    found: Object = spec
    return found


def ruled_places(definition: Any) -> dict[str, set[str]]:
    """Where each version of a definition has rules between fields."""
    return {
        version["name"]: set(_ruled(version["schema"]["openAPIV3Schema"], ""))
        for version in definition["spec"]["versions"]
    }


def _ruled(schema: Any, path: str) -> list[str]:
    found = [path] if "x-kubernetes-validations" in schema else []
    for name, part in schema.get("properties", {}).items():
        found += _ruled(part, f"{path}.{name}")
    if "items" in schema:
        found += _ruled(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        found += _ruled(schema["additionalProperties"], f"{path}{{}}")
    return found


def _stripped(part: Any, *, is_named: bool = False) -> Any:
    """A copy without descriptions and rules; a field may well be called description."""
    if isinstance(part, list):
        return [_stripped(item) for item in part]
    if not isinstance(part, dict):
        return part
    if is_named:
        return {name: _stripped(item) for name, item in part.items()}
    return {
        name: _stripped(item, is_named=name == "properties")
        for name, item in part.items()
        if name not in ("description", "x-kubernetes-validations")
    }
