"""Our definitions of Kueue's kinds against those that users have, and what ours let pass on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.definitions import definitions
from tests.definitions import comparable, original, ruled_places

STRICT = definitions(None, is_strict=True)


@pytest.mark.parametrize("ours", STRICT, ids=lambda one: one["metadata"]["name"])
def test_strict_definitions_say_what_the_originals_say(ours) -> None:
    theirs = original(ours["metadata"]["name"])
    assert comparable(ours) == comparable(theirs)
    assert ruled_places(ours) == ruled_places(theirs)


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """The places at which two definitions differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            place
            for key in sorted(one.keys() | other.keys())
            for place in differences(one.get(key), other.get(key), f"{path}.{key}".replace(".properties.", "."))
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [place for index in range(len(one)) for place in differences(one[index], other[index], f"{path}[]")]
    return [] if one == other else [path.partition("openAPIV3Schema.")[2]]


def test_only_what_is_forgiven_differs_from_strict_definitions() -> None:
    """A borrowing limit without a cohort, a resource that a flavor leaves out, and replicas for count."""
    found = {
        one["spec"]["names"]["kind"]: set(differences(one, strict))
        for one, strict in zip(definitions(None), STRICT, strict=True)
    }
    of_groups = {f"spec.resourceGroups.items.x-kubernetes-validations[].{part}" for part in ("message", "rule")}
    assert {kind: places for kind, places in found.items() if places} == {
        "ClusterQueue": {"spec.x-kubernetes-validations", *of_groups},
        "Cohort": of_groups,
        "Workload": {"spec.podSets.items.replicas"},
    }


def test_translation_is_said_by_the_caller() -> None:
    conversion = {"strategy": "Webhook"}
    assert all(one["spec"]["conversion"] is conversion for one in definitions(conversion))
    assert not any("conversion" in one["spec"] for one in definitions(None))
