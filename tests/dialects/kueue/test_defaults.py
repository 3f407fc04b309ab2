"""Defaults of every kind: those of the definitions and those the webhooks add."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings

from muster.dialects.kueue.defaults import IN_USE_FINALIZER, apply_defaults, with_schema_defaults
from muster.dialects.kueue.gates import DEFAULT_GATES, FeatureGates
from muster.dialects.kueue.kinds import HUB, KINDS, OLDER, VERSIONS
from muster.model.errors import InvalidObject
from tests.dialects.kueue.objects import obj, objects, pod_set, seed_topology
from tests.support import is_full_proof

QUEUE_DEFAULTS = {
    "queueingStrategy": "BestEffortFIFO",
    "stopPolicy": "None",
    "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    "preemption": {
        "reclaimWithinCohort": "Never",
        "withinClusterQueue": "Never",
        "borrowWithinCohort": {"policy": "Never"},
    },
}
RETRIES = {"backoffBaseSeconds": 60, "backoffLimitCount": 3, "backoffMaxSeconds": 1800}


@pytest.mark.parametrize(
    ("kind", "version", "spec", "want"),
    [
        pytest.param("ClusterQueue", HUB, {}, QUEUE_DEFAULTS, id="a queue"),
        pytest.param("ClusterQueue", OLDER, {}, QUEUE_DEFAULTS, id="an older queue"),
        pytest.param(
            "ClusterQueue",
            HUB,
            {"preemption": None, "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}},
            QUEUE_DEFAULTS
            | {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}},
            id="null and half a block",
        ),
        pytest.param(
            "ClusterQueue", HUB, {"fairSharing": {}}, QUEUE_DEFAULTS | {"fairSharing": {"weight": 1}}, id="a weight"
        ),
        pytest.param("Cohort", HUB, {"fairSharing": {}}, {"fairSharing": {"weight": 1}}, id="a cohort's weight"),
        pytest.param("Cohort", HUB, {}, {}, id="no block, no weight"),
        pytest.param("LocalQueue", HUB, {"clusterQueue": "q"}, {"clusterQueue": "q", "stopPolicy": "None"}, id="queue"),
        pytest.param("Workload", HUB, {}, {"active": True}, id="a workload"),
        pytest.param("Workload", OLDER, {}, {"active": True, "priorityClassSource": ""}, id="an older workload"),
        pytest.param(
            "Workload",
            HUB,
            {"active": False, "podSets": [{"template": {}}]},
            {"active": False, "podSets": [{"template": {}, "name": "main", "count": 1}]},
            id="a pod set",
        ),
        pytest.param("AdmissionCheck", OLDER, {}, {"retryDelayMinutes": 15}, id="an older check"),
        pytest.param("AdmissionCheck", HUB, {}, {}, id="a check"),
        pytest.param(
            "MultiKueueCluster",
            OLDER,
            {"kubeConfig": {"location": "s"}},
            {"kubeConfig": {"location": "s", "locationType": "Secret"}},
            id="older credentials",
        ),
        pytest.param(
            "MultiKueueCluster",
            HUB,
            {"clusterSource": {"kubeConfig": {"location": "s"}}},
            {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}},
            id="credentials",
        ),
        pytest.param("ProvisioningRequestConfig", HUB, {}, {"retryStrategy": RETRIES}, id="retries"),
        pytest.param(
            "ProvisioningRequestConfig",
            OLDER,
            {"retryStrategy": {"backoffLimitCount": 0}},
            {"retryStrategy": RETRIES | {"backoffLimitCount": 0}},
            id="some retries",
        ),
        pytest.param("ResourceFlavor", HUB, {"nodeLabels": {"a": "b"}}, {"nodeLabels": {"a": "b"}}, id="a flavor"),
    ],
)
def test_schema_defaults(kind: str, version: str, spec: Any, want: Any) -> None:
    assert with_schema_defaults(obj(kind, spec, version=version))["spec"] == want


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("creating", [True, False])
def test_finalizers_are_added_on_create(kind: str, creating: bool) -> None:
    filled = apply_defaults(obj(kind, metadata={"finalizers": ["a/b"]}), creating=creating)
    is_kept = creating and kind in ("ClusterQueue", "ResourceFlavor")
    assert filled["metadata"]["finalizers"] == ["a/b", *([IN_USE_FINALIZER] if is_kept else [])]
    assert apply_defaults(filled, creating=creating) == filled


@pytest.mark.parametrize("kind", KINDS)
def test_namespaced_objects_get_a_namespace(kind: str) -> None:
    bare = obj(kind, metadata={"namespace": ""})
    filled = apply_defaults(bare)["metadata"]
    assert filled["namespace"] == ("default" if KINDS[kind].is_namespaced else "")


def test_without_partial_admission_minimums_go_on_create() -> None:
    whole = FeatureGates({"PartialAdmission": False})
    made = obj("Workload", {"podSets": [pod_set(minCount=1)]})
    assert "minCount" not in apply_defaults(made, whole)["spec"]["podSets"][0]
    assert apply_defaults(made, whole, creating=False)["spec"]["podSets"][0]["minCount"] == 1
    assert apply_defaults(made, DEFAULT_GATES)["spec"]["podSets"][0]["minCount"] == 1
    assert "podSets" not in apply_defaults(obj("Workload", {}), whole)["spec"]


@pytest.mark.parametrize("broken", [obj("ClusterQueue", metadata={"finalizers": 5}), {"kind": "ClusterQueue"}])
def test_what_cannot_be_understood_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidObject):
        apply_defaults(broken)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_defaults_are_settled_after_one_pass(kind: str, version: str) -> None:
    seed_topology(version)

    @settings(max_examples=500 if is_full_proof() else 15)
    @given(objects(kind, version))
    def check(original: dict[str, Any]) -> None:
        before = copy.deepcopy(original)
        once = apply_defaults(original)
        assert original == before
        assert apply_defaults(once) == once

    check()
