"""v1beta1 and v1beta2: what converts to what, what Kueue loses, and that we lose nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.dialects.kueue.kinds import HUB, KINDS, OLDER
from muster.dialects.kueue.preserved import ANNOTATION
from muster.dialects.kueue.validate import problems_of
from muster.dialects.kueue.versions import to_hub, to_version
from muster.model.errors import InvalidObject
from muster.model.plain import without_nulls
from tests.dialects.kueue.objects import NOW, obj, objects, pod_set, seed_topology
from tests.support import is_full_proof, shared


def body(made: dict[str, Any]) -> dict[str, Any]:
    """What an object says, its identity and annotations aside."""
    return {key: value for key, value in made.items() if key not in ("apiVersion", "kind", "metadata")}


HISTORY = {"consumedResources": {"cpu": 1}, "lastUpdate": NOW}

# kind, v1beta1, v1beta2; both ways give the other.
BOTH_WAYS = [
    pytest.param("ClusterQueue", {"spec": {"cohort": "a"}}, {"spec": {"cohortName": "a"}}, id="cohort"),
    pytest.param(
        "ClusterQueue",
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["f"]}]}}},
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["f"]}]}}},
        id="rules of checks",
    ),
    pytest.param(
        "LocalQueue",
        {"status": {"flavorUsage": [{"name": "f", "resources": []}], "fairSharing": {"weightedShare": 1}}},
        {"status": {"flavorsUsage": [{"name": "f", "resources": []}], "fairSharing": {"weightedShare": 1}}},
        id="usage by flavor",
    ),
    pytest.param(
        "LocalQueue",
        {"status": {"fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": HISTORY}}},
        {"status": {"fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": HISTORY}}},
        id="usage history of a submit queue",
    ),
    pytest.param(
        "Workload",
        {"spec": {"priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass", "priorityClassName": "high"}},
        {"spec": {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}}},
        id="a class of Kueue's",
    ),
    pytest.param(
        "Workload",
        {"spec": {"priorityClassSource": "scheduling.k8s.io/priorityclass", "priorityClassName": "high"}},
        {"spec": {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}},
        id="a class of Kubernetes'",
    ),
    pytest.param(
        "Workload",
        {"status": {"accumulatedPastExexcutionTimeSeconds": 3}},
        {"status": {"accumulatedPastExecutionTimeSeconds": 3}},
        id="a name with a slip of the pen",
    ),
    pytest.param(
        "MultiKueueCluster",
        {"spec": {"kubeConfig": {"location": "s", "locationType": "Secret"}}},
        {"spec": {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}}},
        id="credentials",
    ),
    pytest.param(
        "ResourceFlavor", {"spec": {"nodeLabels": {"a": "b"}}}, {"spec": {"nodeLabels": {"a": "b"}}}, id="same"
    ),
    pytest.param("WorkloadPriorityClass", {"value": 5}, {"value": 5}, id="no spec at all"),
    pytest.param("Topology", {"spec": {"levels": []}}, {"spec": {"levels": []}}, id="topologies"),
]


@pytest.mark.parametrize(("kind", "older", "newer"), BOTH_WAYS)
def test_both_ways(kind: str, older: dict[str, Any], newer: dict[str, Any]) -> None:
    for preserve in (False, True):
        hub = to_hub(obj(kind, version=OLDER) | older, preserve=preserve)
        assert hub == obj(kind, version=HUB) | newer
        assert to_version(hub, OLDER, preserve=preserve) == obj(kind, version=OLDER) | older


# kind, from, what it says, what Kueue makes of it in the other version
LOST = [
    pytest.param(
        "ClusterQueue",
        OLDER,
        {"spec": {"admissionChecks": ["a", "b"], "admissionChecksStrategy": {"admissionChecks": [{"name": "z"}]}}},
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}},
        id="a list of checks replaces the rules",
    ),
    pytest.param(
        "ClusterQueue",
        OLDER,
        {"spec": {"admissionChecks": [], "admissionChecksStrategy": {"admissionChecks": [{"name": "z"}]}}},
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "z"}]}}},
        id="an empty list does not",
    ),
    pytest.param(
        "ClusterQueue",
        OLDER,
        {"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}},
        {"spec": {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}},
        id="old names of fungibility",
    ),
    pytest.param(
        "ClusterQueue",
        OLDER,
        {"status": {"pendingWorkloadsStatus": {"lastChangeTime": NOW}, "pendingWorkloads": 1}},
        {"status": {"pendingWorkloads": 1}},
        id="the list of who waits",
    ),
    pytest.param(
        "ClusterQueue",
        OLDER,
        {"status": {"fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": HISTORY}}},
        {"status": {"fairSharing": {"weightedShare": 1}}},
        id="usage history of a queue",
    ),
    pytest.param(
        "Cohort",
        OLDER,
        {"status": {"fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": HISTORY}}},
        {"status": {"fairSharing": {"weightedShare": 1}}},
        id="usage history of a cohort",
    ),
    pytest.param(
        "ClusterQueue",
        HUB,
        {"spec": {"concurrentAdmissionPolicy": {"migration": {"mode": "RetainFirstAdmission"}}}},
        {"spec": {}},
        id="concurrent admission",
    ),
    pytest.param("LocalQueue", OLDER, {"status": {"flavors": [{"name": "f"}]}}, {"status": {}}, id="its flavors"),
    pytest.param("Workload", OLDER, {"spec": {"priorityClassName": "high"}}, {"spec": {}}, id="a class without source"),
    pytest.param(
        "Workload",
        HUB,
        {"spec": {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "PriorityClass", "name": "n"}}},
        {"spec": {}},
        id="a class of no known pair",
    ),
    pytest.param(
        "Workload",
        HUB,
        {
            "spec": {"preemptionGates": [{"name": "g"}]},
            "status": {"preemptionGates": [{"name": "g", "position": "Open", "lastTransitionTime": NOW}]},
        },
        {"spec": {}, "status": {}},
        id="preemption gates",
    ),
    pytest.param(
        "Workload",
        HUB,
        {
            "spec": {
                "podSets": [
                    pod_set(
                        topologyRequest={
                            "required": "rack",
                            "podsetSliceRequiredTopologyConstraints": [{"topology": "host", "size": 2}],
                        }
                    )
                ]
            }
        },
        {"spec": {"podSets": [pod_set(topologyRequest={"required": "rack"})]}},
        id="layers of slices",
    ),
    pytest.param(
        "MultiKueueCluster",
        HUB,
        {"spec": {"clusterSource": {"clusterProfileRef": {"name": "p"}}}},
        {"spec": {"kubeConfig": {"location": "", "locationType": ""}, "clusterProfileRef": {"name": "p"}}},
        id="a cluster by its profile",
    ),
    pytest.param(
        "MultiKueueCluster", OLDER, {"spec": {"kubeConfig": {"location": "", "locationType": "Path"}}}, {"spec": {}},
        id="credentials from nowhere",
    ),
    pytest.param(
        "AdmissionCheck",
        OLDER,
        {"spec": {"controllerName": "c", "retryDelayMinutes": 7}},
        {"spec": {"controllerName": "c"}},
        id="retry delay",
    ),
    pytest.param(
        "MultiKueueConfig",
        HUB,
        {"spec": {"clusters": ["a"], "quotaManagement": "Manual"}},
        {"spec": {"clusters": ["a"]}},
        id="who manages quota",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "version", "said", "becomes"), LOST)
def test_what_kueue_loses_we_keep(kind: str, version: str, said: dict[str, Any], becomes: dict[str, Any]) -> None:
    original = obj(kind, version=version) | said
    other = OLDER if version == HUB else HUB
    assert body(to_version(original, other, preserve=False)) == becomes
    kept = to_version(original, other)
    assert body(kept) == becomes
    assert to_version(kept, version) == original


def test_the_input_is_not_touched() -> None:
    original = obj("ClusterQueue", {"cohort": "a", "admissionChecks": ["c"]}, version=OLDER)
    before = copy.deepcopy(original)
    hub = to_hub(original)
    to_version(hub, OLDER)["spec"]["admissionChecks"].append("d")
    to_version(original, OLDER)["spec"]["admissionChecks"].append("d")
    assert original == before


def test_fields_of_the_other_version_do_not_slip_through() -> None:
    assert to_hub(obj("ClusterQueue", {"cohortName": "a"}, version=OLDER))["spec"] == {}
    assert to_version(obj("ClusterQueue", {"cohort": "a"}), OLDER)["spec"] == {}


@pytest.mark.parametrize(
    "broken",
    [
        {"apiVersion": "kueue.x-k8s.io/v1alpha1", "kind": "ClusterQueue"},
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Pod"},
        obj("ClusterQueue", [], version=OLDER),
        obj("ClusterQueue", {"admissionChecks": [5]}, version=OLDER),
        obj("Workload", {"priorityClassName": 5}, version=OLDER),
        obj("Workload", version=OLDER, status={"admission": []}),
        obj("MultiKueueCluster", {"kubeConfig": "x"}, version=OLDER),
        obj("Workload", {"podSets": {}}, version=OLDER),
    ],
)
def test_what_cannot_be_understood_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidObject):
        to_hub(broken)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [OLDER, HUB])
def test_random_objects_make_the_round_trip(kind: str, version: str) -> None:
    seed_topology(version)
    other = OLDER if version == HUB else HUB

    @settings(max_examples=2000 if is_full_proof() else 40)
    @given(objects(kind, version))
    def check(original: dict[str, Any]) -> None:
        there = to_version(original, other)
        back = to_version(there, version)
        assert normal(back) == normal(original)
        assert normal(to_version(back, other)) == normal(there)
        plain = to_version(original, other, preserve=False)
        # Kueue's own conversion loses things once, and then nothing more.
        assert to_version(to_version(plain, version, preserve=False), other, preserve=False) == plain

    check()


def normal(made: dict[str, Any]) -> dict[str, Any]:
    """Nulls are absent, and so is a source of priority that is empty, which is its default."""
    result: dict[str, Any] = without_nulls(made)
    for name in ("priorityClassName", "priorityClassSource"):
        if result.get("spec", {}).get(name) == "":
            del result["spec"][name]
    return result


@pytest.mark.prove
def test_recorded_objects_make_the_round_trip() -> None:
    count = 0
    for path in sorted(shared("conformance/kueue").glob("*.json")):
        for case in json.loads(path.read_text()):
            for original in case.get("objects", []):
                if not str(original.get("apiVersion", "")).startswith("kueue.x-k8s.io/v1beta"):
                    continue
                count += 1
                assert to_hub(to_version(original, OLDER)) == without_nulls(original)
                if count % 50 == 0:
                    problems_of(original)
    assert count > 1000


# The annotation ---------------------------------------------------------------------------------------------------


def kept_queue(**spec: Any) -> dict[str, Any]:
    """A stored queue that was written in v1beta1."""
    return to_hub(
        obj(
            "ClusterQueue",
            {"admissionChecks": ["a"], "flavorFungibility": {"whenCanBorrow": "Borrow"}} | spec,
            version=OLDER,
        )
    )


def test_a_place_changed_meanwhile_is_not_restored_and_the_others_are() -> None:
    hub = kept_queue()
    hub["spec"]["admissionChecksStrategy"]["admissionChecks"].append({"name": "b"})
    spec = to_version(hub, OLDER)["spec"]
    assert "admissionChecks" not in spec
    assert spec["admissionChecksStrategy"] == {"admissionChecks": [{"name": "a"}, {"name": "b"}]}
    assert spec["flavorFungibility"] == {"whenCanBorrow": "Borrow"}


def test_other_annotations_stay() -> None:
    original = obj("ClusterQueue", {"admissionChecks": ["a"]}, version=OLDER, metadata={"annotations": {"a": "b"}})
    hub = to_hub(original)
    assert set(hub["metadata"]["annotations"]) == {"a", ANNOTATION}
    assert to_version(hub, OLDER) == original


def test_without_preserving_annotations_are_left_alone() -> None:
    hub = kept_queue()
    assert to_version(hub, OLDER, preserve=False)["metadata"] == hub["metadata"]


def forged(kind: str, version: str, at: list[list[str]], values: list[Any], **more: Any) -> dict[str, Any]:
    """An object whose annotation somebody wrote by hand, with the right digest of what is there now."""
    honest = to_version(obj("ClusterQueue", {"concurrentAdmissionPolicy": {"migration": {"mode": "x"}}}), OLDER)
    seen = json.loads(honest["metadata"]["annotations"][ANNOTATION])["fields"][0]["seen"]  # of one absent value
    target = OLDER if version == HUB else HUB
    payload = {"version": target, "fields": [{"at": at, "values": values, "seen": seen}]}
    return obj(kind, version=version, metadata={"annotations": {ANNOTATION: json.dumps(payload)}}) | more


@pytest.mark.parametrize(
    ("kind", "version", "at", "value", "more"),
    [
        pytest.param(
            "ClusterQueue", OLDER, ["spec", "stopPolicy"], "Hold", {"spec": {}}, id="a place that is never kept"
        ),
        pytest.param(
            "ClusterQueue",
            OLDER,
            ["spec", "concurrentAdmissionPolicy"],
            5,
            {"spec": {}},
            id="a value of no right shape",
        ),
        pytest.param(
            "ClusterQueue",
            OLDER,
            ["spec", "concurrentAdmissionPolicy"],
            {"migration": {"mode": "RetainFirstAdmission"}},
            {},
            id="a place without a parent",
        ),
        pytest.param(
            "Workload",
            OLDER,
            ["spec", "priorityClassRef"],
            {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "top"},
            {"spec": {}},
            id="something the version it comes from would show",
        ),
    ],
)
def test_forged_annotations_change_nothing(kind: str, version: str, at: list[str], value: Any, more: Any) -> None:
    assert body(to_hub(forged(kind, version, [at], [value], **more))) == more


def test_a_forged_annotation_cannot_move_pods() -> None:
    domains = {"levels": ["host"], "domains": [{"values": ["n1"], "count": 1}]}
    elsewhere = {
        "levels": ["host"],
        "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "n2"}], "podCounts": {"universal": 1}}],
    }
    status = {"admission": {"podSetAssignments": [{"name": "main", "topologyAssignment": domains}]}}
    honest = to_hub(obj("Workload", version=OLDER, status=status))
    there = to_version(honest, OLDER)
    hub_form = honest["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]
    two = {"levels": ["host"], "slices": [*hub_form["slices"], *hub_form["slices"]]}
    honest["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = two
    payload = json.loads(to_version(honest, OLDER)["metadata"]["annotations"][ANNOTATION])
    payload["fields"][0]["values"] = [elsewhere]
    there["metadata"] = {"name": "x", "namespace": "team", "annotations": {ANNOTATION: json.dumps(payload)}}
    found = to_hub(there)["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"]
    assert found == hub_form


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "5", "null", '{"version":"v1beta2"}', '{"version":"v1beta2","fields":5}'),
        '{"version":"v1beta2","fields":[5,{},{"at":[],"values":[],"seen":""},{"at":[5],"values":[1],"seen":"a"}]}',
        *("[" * 100_000, "{" + '"a":{' * 5000, '{"a":' + "1" * 70_000 + "}", "\ud800"),
    ],
)
def test_malformed_annotations_are_as_good_as_none(text: str) -> None:
    original = obj("ClusterQueue", {"cohort": "a"}, version=OLDER, metadata={"annotations": {ANNOTATION: text}})
    assert to_hub(original)["spec"] == {"cohortName": "a"}


def test_too_much_to_carry_is_lost_as_kueue_loses_it() -> None:
    flavors = [{"name": "f", "nodeLabels": {"a": "x" * 40_000}}]
    hub = to_hub(obj("LocalQueue", version=OLDER, status={"flavors": flavors}))
    assert "annotations" not in hub["metadata"]


def test_too_deep_to_carry_is_lost_too() -> None:
    deep: Any = {}
    for _ in range(30_000):
        deep = {"a": deep}
    older = to_version(obj("ClusterQueue", {"concurrentAdmissionPolicy": deep}), OLDER)
    assert older["spec"] == {}
    assert "annotations" not in older["metadata"]


@given(st.text(max_size=40))
def test_any_annotation_is_survived(text: str) -> None:
    to_hub(obj("ClusterQueue", {}, version=OLDER, metadata={"annotations": {ANNOTATION: text}}))
