"""Which of Kueue's kinds an object is, and in which version it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.dialects.kueue.kinds import KINDS, VERSIONS, Kind
from muster.dialects.kueue.names import GROUP
from muster.model.fields import Fields, shown
from muster.model.texts import nearest


def identity_of(obj: Mapping[str, Any]) -> tuple[Kind, str]:
    """The kind of an object and its version; raises `InvalidObject` for anything that is not Kueue's."""
    fields = Fields.of(obj)
    group, _, version = fields.text("apiVersion").rpartition("/")
    if group != GROUP or version not in VERSIONS:
        choices = " or ".join(f"{GROUP}/{known}" for known in VERSIONS)
        raise fields.error("apiVersion", f"is {shown(fields.text('apiVersion'))}", f"give {choices}")
    name = fields.text("kind")
    if name not in KINDS:
        close = nearest(name, KINDS)
        raise fields.error("kind", f"is {shown(name)}", f"did you mean {close}?" if close else "give a kind of Kueue's")
    return KINDS[name], version


def api_version(version: str) -> str:
    """The `apiVersion` of Kueue's kinds in a version."""
    return f"{GROUP}/{version}"
