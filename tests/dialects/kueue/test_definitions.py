"""Our definitions of Kueue's kinds against those that users have."""

from __future__ import annotations

import pytest

from muster.dialects.kueue.definitions import definitions
from tests.definitions import comparable, original, ruled_places

DEFINITIONS = definitions(None)


@pytest.mark.parametrize("ours", DEFINITIONS, ids=lambda one: one["metadata"]["name"])
def test_definitions_say_what_the_originals_say(ours) -> None:
    theirs = original(ours["metadata"]["name"])
    assert comparable(ours) == comparable(theirs)
    assert ruled_places(ours) == ruled_places(theirs)


def test_translation_is_said_by_the_caller() -> None:
    conversion = {"strategy": "Webhook"}
    assert all(one["spec"]["conversion"] is conversion for one in definitions(conversion))
    assert not any("conversion" in one["spec"] for one in DEFINITIONS)
