"""What is read as meant, with a warning, where Kueue refuses or passes over it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from muster.dialects.kueue.forgiving import forgive, queue_name_of_job
from muster.dialects.kueue.kinds import HUB, OLDER
from muster.dialects.kueue.validate import check, problems_of, unknown_fields_of
from muster.model.errors import InvalidObject, InvalidObjects
from tests.dialects.kueue.objects import cluster_queue, flavor, group, obj, pod_set, quota, workload

NO_COHORT = "has no effect as long as spec.{0} is empty; give spec.{0}, or take the limit out"
UNLIMITED = "says nothing of cpu, which is covered: it is unlimited in this flavor; add cpu with a nominalQuota"
RESOURCES = "spec.resourceGroups[0].flavors[0].resources"
TWO = ("cpu", "memory")

# object, warnings, errors when strict
FORGIVEN = [
    pytest.param(
        workload({"name": "main", "replicas": 3, "template": {"spec": {"containers": [{"name": "c"}]}}}),
        ["spec.podSets[0].replicas: is read as count; write count"],
        ["spec.podSets[0].replicas: is not a known field; did you mean count?"],
        id="replicas for count",
    ),
    pytest.param(
        workload(pod_set(replicas=3)),
        ["spec.podSets[0].replicas: has no effect beside count; take it out"],
        ["spec.podSets[0].replicas: is not a known field; did you mean count?"],
        id="replicas beside count",
    ),
    pytest.param(
        cluster_queue(group(flavor(quota(borrowingLimit=1))), cohortName=None),
        [f"{RESOURCES}[0].borrowingLimit: {NO_COHORT.format('cohortName')}"],
        [f"{RESOURCES}[0].borrowingLimit: is set although spec.cohortName is empty; give spec.cohortName"],
        id="borrowing from nobody",
    ),
    pytest.param(
        cluster_queue(group(flavor(quota(lendingLimit=1))), cohort=None, version=OLDER),
        [f"{RESOURCES}[0].lendingLimit: {NO_COHORT.format('cohort')}"],
        [f"{RESOURCES}[0].lendingLimit: is set although spec.cohort is empty; give spec.cohort"],
        id="lending to nobody",
    ),
    pytest.param(
        obj("Cohort", {"resourceGroups": [group(flavor(quota(borrowingLimit=1)))]}),
        [f"{RESOURCES}[0].borrowingLimit: {NO_COHORT.format('parentName')}"],
        [f"{RESOURCES}[0].borrowingLimit: is set although spec.parentName is empty; give spec.parentName"],
        id="a cohort without a parent",
    ),
    pytest.param(
        cluster_queue(group(flavor(quota("memory")), covered=TWO)),
        [f"{RESOURCES}: {UNLIMITED}"],
        [
            f"{RESOURCES}: has 1 items for 2 covered resources; give exactly 'cpu', 'memory'",
            f"{RESOURCES}[0].name: is 'memory'; give 'cpu' here: the order is that of coveredResources",
        ],
        id="a resource left out",
    ),
    pytest.param(
        cluster_queue(namespaceSelector=None),
        ["spec.namespaceSelector: is missing: the queue admits nobody; write {} to let every namespace in"],
        [],
        id="a queue for nobody",
    ),
]


@pytest.mark.parametrize(("made", "warnings", "errors"), FORGIVEN)
def test_accepted_with_a_warning_and_refused_when_strict(made: Any, warnings: list[str], errors: list[str]) -> None:
    before = copy.deepcopy(made)
    refused, warned = problems_of(made)
    assert not refused
    assert [str(warning) for warning in warned] == warnings
    assert [str(error) for error in problems_of(made, strict=True)[0]] == errors
    assert not unknown_fields_of(made)
    assert made == before


def test_replicas_become_the_count() -> None:
    read_as, _ = forgive(workload({"replicas": 3}))
    assert read_as["spec"]["podSets"] == [{"count": 3}]


def test_strict_names_replicas_as_unknown() -> None:
    assert [problem.path for problem in unknown_fields_of(workload(pod_set(replicas=3)), strict=True)] == [
        "spec.podSets[0].replicas"
    ]


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param([quota("memory"), quota("cpu")], id="the wrong order"),
        pytest.param([quota("gpu")], id="a resource that is not covered"),
        pytest.param([quota("cpu"), quota("memory"), quota("gpu")], id="one too many"),
    ],
)
def test_other_differences_from_what_is_covered_are_refused(resources: list[Any]) -> None:
    errors, warnings = problems_of(cluster_queue(group(flavor(*resources), covered=TWO)))
    assert errors
    assert not warnings


@pytest.mark.parametrize(
    "broken",
    [
        obj("ClusterQueue", 5),
        obj("ClusterQueue", {"resourceGroups": 5, "cohortName": []}),
        obj("ClusterQueue", {"resourceGroups": [5, {"flavors": [{"resources": [5]}], "coveredResources": 5}]}),
        obj("Workload", {"podSets": [5, None, {"replicas": None}]}),
        obj("Cohort"),
        {"kind": ["x"]},
        {},
    ],
)
def test_forgiving_never_fails(broken: dict[str, Any]) -> None:
    assert forgive(broken)[0] == broken or broken["kind"] == "Workload"


# Queue names of jobs ----------------------------------------------------------------------------------------------

QUEUE_NAME = "kueue.x-k8s.io/queue-name"


@pytest.mark.parametrize(
    ("metadata", "want", "warned"),
    [
        pytest.param({"labels": {QUEUE_NAME: "a"}}, "a", False, id="the label"),
        pytest.param({"annotations": {QUEUE_NAME: "b"}}, "b", True, id="the annotation"),
        pytest.param({"labels": {QUEUE_NAME: "a"}, "annotations": {QUEUE_NAME: "b"}}, "a", False, id="the label wins"),
        pytest.param({}, "", False, id="none"),
        pytest.param(None, "", False, id="no metadata"),
    ],
)
def test_queue_of_a_job(metadata: Any, want: str, warned: bool) -> None:
    name, warnings = queue_name_of_job({"metadata": metadata})
    assert name == want
    assert bool(warnings) is warned


def test_strict_reads_no_annotation() -> None:
    name, warnings = queue_name_of_job({"metadata": {"annotations": {QUEUE_NAME: "b"}}}, strict=True)
    assert name == ""
    assert len(warnings) == 1


def test_labels_of_the_wrong_type_are_refused() -> None:
    with pytest.raises(InvalidObject):
        queue_name_of_job({"metadata": {"labels": [QUEUE_NAME]}})


def test_check_raises_what_is_wrong_and_returns_what_is_odd() -> None:
    assert check(cluster_queue()) == ()
    assert len(check(cluster_queue(namespaceSelector=None))) == 1
    with pytest.raises(InvalidObjects) as caught:
        check(cluster_queue(stopPolicy="x", queueingStrategy="y"))
    assert len(caught.value.problems) == 2
    assert HUB in cluster_queue()["apiVersion"]
