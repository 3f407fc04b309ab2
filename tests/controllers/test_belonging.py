"""Which changes of a pod concern whoever gives pods places."""

from __future__ import annotations

from typing import Any

import pytest

from muster.controllers.belonging import is_placed_alike
from muster.controllers.view import Seen
from muster.store.records import Key

POD = {
    "metadata": {"namespace": "n", "name": "p", "uid": "u", "labels": {"a": "1"}, "resourceVersion": "1"},
    "spec": {"nodeName": "x"},
    "status": {"phase": "Pending"},
}


def changed(**parts: dict[str, Any]) -> dict[str, Any]:
    return {name: {**part, **parts.get(name, {})} for name, part in POD.items()}


@pytest.mark.parametrize(
    ("before", "now", "wanted"),
    [
        pytest.param(POD, changed(status={"phase": "Running"}, metadata={"resourceVersion": "2"}), True, id="it runs"),
        pytest.param(POD, changed(metadata={"managedFields": [{}]}), True, id="others own fields"),
        pytest.param(POD, changed(status={"phase": "Failed"}), False, id="it is over"),
        pytest.param(POD, changed(spec={"nodeName": "y"}), False, id="another node"),
        pytest.param(POD, changed(metadata={"labels": {"a": "2"}}), False, id="other labels"),
        pytest.param(POD, changed(metadata={"annotations": {"a": "2"}}), False, id="other annotations"),
        pytest.param(POD, changed(metadata={"ownerReferences": [{"uid": "o"}]}), False, id="another owner"),
        pytest.param(POD, changed(metadata={"deletionTimestamp": "2023-11-14T22:13:20Z"}), False, id="on its way out"),
        pytest.param(POD, changed(metadata={"uid": "v"}), False, id="another of its name"),
        pytest.param(None, POD, False, id="new"),
        pytest.param(POD, None, False, id="gone"),
    ],
)
def test_what_changes_the_place_of_a_pod(before, now, wanted):
    assert is_placed_alike(Seen(Key("pods", "n", "p"), before, now)) is wanted
