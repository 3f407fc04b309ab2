"""The makers of cards as HAMi's device configuration has them, where one is given. Called by `muster plan`.

The configuration is the key `device-config.yaml` of a ConfigMap. What it does not say has HAMi's defaults; a section
that cannot be read is told of, and has its defaults too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.app.intake import Remark
from muster.app.plugins import discover, vendors
from muster.engine.contracts import Vendor, VendorSettings
from muster.model.documents import Document, parse_documents
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

KEY = "device-config.yaml"
VOLCANO = "volcano-"  # the beginning of the names of Volcano's ConfigMaps, whose plugin has such a key too


@dataclass(frozen=True, slots=True)
class KnownVendors:
    """The makers of cards, and what was wrong with what was said of them."""

    vendors: tuple[Vendor, ...]
    refused: tuple[Remark, ...] = ()


def known_vendors(documents: Iterable[Document]) -> KnownVendors:
    """The makers of cards under the names, defaults and templates of the last configuration that is given."""
    found = [(document, text) for document in documents if (text := _text_of(document))]
    if not found:
        return KnownVendors(tuple(vendors().values()))
    document, text = found[-1]
    refused: list[Remark] = []

    def refuse(problem: InvalidObject) -> None:
        name = f"ConfigMap {Fields.of(document.value.get('metadata'), 'metadata').text('name')}"
        path = f"data[{KEY}]: {problem.path}"
        refused.append(
            Remark(source=document.source, object=name, path=path, problem=problem.problem, hint=problem.hint)
        )

    sections = discover("vendors", "SETTINGS", VendorSettings)
    try:
        parsed = parse_documents(text, KEY)
        given = Fields.of(parsed[0].value if parsed else None)
    except InvalidObject as problem:
        refuse(problem)
        given = Fields({})
    known: list[Vendor] = []
    for section in sections.values():
        try:
            made = section.read(given)
            _check(made, known)
        except InvalidObject as problem:
            refuse(problem)
            made = section.read(Fields({}))
        known.extend(made)
    for name in given.values:
        if name not in sections:
            refuse(
                InvalidObject(
                    str(name)[:80], "is no section of a device configuration", f"known are {', '.join(sections)}"
                )
            )
    return KnownVendors(tuple(known), tuple(refused))


def vendors_by(device_config: Mapping[str, Any], path: str) -> tuple[Vendor, ...]:
    """The makers of cards under a device configuration; raises `InvalidObject` with the first that is wrong in it."""
    if not device_config:
        return tuple(vendors().values())
    data = {KEY: json.dumps(device_config)}
    known = known_vendors([Document({"kind": "ConfigMap", "metadata": {"name": path}, "data": data}, path, 1)])
    if known.refused:
        first = known.refused[0]
        raise InvalidObject(f"{path}: {first.path}", first.problem, first.hint)
    return known.vendors


def _text_of(document: Document) -> str:
    data, metadata = document.value.get("data"), document.value.get("metadata")
    if isinstance(metadata, dict) and str(metadata.get("name")).startswith(VOLCANO):
        return ""
    text = data.get(KEY) if document.value.get("kind") == "ConfigMap" and isinstance(data, dict) else None
    return text if isinstance(text, str) else ""


def _check(made: Iterable[Vendor], known: Iterable[Vendor]) -> None:
    """Whether each maker of cards has resources of its own."""
    taken = {name: one.name for one in known for name in one.resources.names}
    for vendor in made:
        for name in sorted(vendor.resources.names):
            if taken.setdefault(name, vendor.name) != vendor.name:
                hint = "name each resource once"
                raise InvalidObject(vendor.name, f"has the resource {name}, which is {taken[name]}'s", hint)
