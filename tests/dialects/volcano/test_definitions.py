"""Our definitions of Volcano's kinds against those that users have."""

from __future__ import annotations

import pytest

from muster.dialects.volcano.definitions import KINDS, definitions
from muster.model.definitions import definition_object
from tests.definitions import comparable, original, ruled_places


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_definitions_say_what_the_originals_say(kind) -> None:
    ours, theirs = definition_object(kind), original(kind.name)
    assert comparable(ours) == comparable(theirs)
    assert ruled_places(ours) == ruled_places(theirs)


def test_all_kinds_of_volcano_are_there() -> None:
    assert [one["metadata"]["name"] for one in definitions()] == [kind.name for kind in KINDS]
    assert len({kind.name for kind in KINDS}) == 9
