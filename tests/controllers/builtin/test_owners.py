"""What an owner has, takes and lets go."""

from __future__ import annotations

from typing import Any

import pytest

from muster.controllers.builtin.owners import claims, orphan_terms, plain_selector_of, reference_to, selector_of
from tests.controllers.builtin.workload_cluster import workload

OWNER = workload("ReplicaSet")
OWNER["metadata"]["uid"] = "u"
LEAVING = {**OWNER, "metadata": {**OWNER["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
MINE = reference_to(OWNER)
OTHERS = {**MINE, "uid": "other"}
PLAIN = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}


def pod(*owners: Any, app: str = "a", **more: Any) -> Any:
    return {"metadata": {"name": "p", "namespace": "x", "labels": {"app": app}, "ownerReferences": [*owners], **more}}


@pytest.mark.parametrize(
    ("owner", "one", "want"),
    [
        pytest.param(OWNER, pod(MINE), (1, 0, 0), id="kept"),
        pytest.param(OWNER, pod(), (0, 1, 0), id="taken"),
        pytest.param(OWNER, pod(PLAIN), (0, 1, 0), id="taken beside a plain owner"),
        pytest.param(OWNER, pod(OTHERS), (0, 0, 0), id="somebody else's"),
        pytest.param(OWNER, pod(MINE, app="b"), (0, 0, 1), id="let go"),
        pytest.param(OWNER, pod(app="b"), (0, 0, 0), id="of no concern"),
        pytest.param(OWNER, pod(deletionTimestamp="x"), (0, 0, 0), id="one that leaves is not taken"),
        pytest.param(LEAVING, pod(), (0, 0, 0), id="who leaves takes nothing"),
        pytest.param(LEAVING, pod(MINE, app="b"), (0, 0, 0), id="who leaves lets nothing go"),
    ],
)
def test_claims(owner, one, want):
    selector = selector_of(owner)
    assert selector is not None
    found = claims(owner, selector, [one])
    assert (len(found.kept), len(found.taken), len(found.released)) == want
    for taken in found.taken:
        assert taken["metadata"]["ownerReferences"][-1] == MINE
    for released in found.released:
        assert MINE not in released["metadata"]["ownerReferences"]


def test_orphans_are_found_by_their_namespace():
    assert list(orphan_terms(pod(PLAIN))) == ["x"]
    assert list(orphan_terms(pod(MINE))) == []


def test_a_plain_selector_without_labels_takes_nothing():
    assert plain_selector_of({"spec": {}}) is None
    selector = plain_selector_of({"spec": {"selector": {"app": "a"}}})
    assert selector is not None
    assert selector.matches({"app": "a", "b": "c"})
