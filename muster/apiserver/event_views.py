"""Events of events.k8s.io and of the core are the same objects under two sets of names. The core's are stored.

Used as the conversion of the resource `events`.
"""

from __future__ import annotations

from muster.store.kinds import Object

CORE, NEWER = "v1", "events.k8s.io/v1"
# In the core's words, in the newer ones. Names that are the same in both are not listed.
_NAMES = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
)
_LEFT_OUT = ("reportingController", "reportingInstance")  # in the newer form, where there is none
_TO_NEWER = dict(_NAMES)
_TO_CORE = {newer: core for core, newer in _NAMES}


def convert(given: Object, api_version: str) -> Object:
    """An event in the other version."""
    names = _TO_CORE if api_version == CORE else _TO_NEWER
    found = {names.get(name, name): value for name, value in given.items()} | {"apiVersion": api_version}
    if api_version == NEWER:
        found = {name: value for name, value in found.items() if value or name not in _LEFT_OUT}
    return found
