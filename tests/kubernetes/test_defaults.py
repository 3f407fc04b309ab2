"""Objects of every kind with rules come out of Muster as they come out of the real server, defaults and all."""

from __future__ import annotations

import pytest

from tests.kubernetes.agreement import Agreement
from tests.kubernetes.comparison import Ours, Theirs, label_of, samples


@pytest.mark.parametrize("item", samples(), ids=label_of)
def test_an_object_gets_the_same_defaults(plane, item):
    agreement = Agreement()
    ours = Ours().create(item)
    assert ours.code == 201, ours.message
    agreement.add(item["kind"], label_of(item), ours, Theirs(plane.client).create(item))
    agreement.check(label_of(item))
