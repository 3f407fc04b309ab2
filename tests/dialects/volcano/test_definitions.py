"""Our definitions of Volcano's kinds against those that users have."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.volcano.definitions import KINDS, definitions
from muster.model.definitions import definition_object
from tests.definitions import comparable, original, ruled_places


def without_conditions(given: Any) -> Any:
    """A definition without what ours takes beside: the conditions of a job's policies."""
    if isinstance(given, list):
        return [without_conditions(one) for one in given]
    if not isinstance(given, dict):
        return given
    is_policy = {"action", "condition", "exitCode"} <= given.keys()
    return {name: without_conditions(one) for name, one in given.items() if not (is_policy and name == "condition")}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_definitions_say_what_the_originals_say(kind) -> None:
    ours, theirs = without_conditions(definition_object(kind)), original(kind.name)
    assert comparable(ours) == comparable(theirs)
    assert ruled_places(ours) == ruled_places(theirs)


def test_all_kinds_of_volcano_are_there() -> None:
    assert [one["metadata"]["name"] for one in definitions()] == [kind.name for kind in KINDS]
    assert len({kind.name for kind in KINDS}) == 9
