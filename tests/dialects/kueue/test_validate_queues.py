"""ClusterQueue, Cohort and LocalQueue: every rule with what it takes and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.gates import DEFAULT_GATES, FeatureGates
from muster.dialects.kueue.kinds import HUB, OLDER
from muster.dialects.kueue.validate import problems_of
from tests.dialects.kueue.objects import cluster_queue, flavor, group, obj, quota

GROUPS = "spec.resourceGroups"
FIRST = "spec.resourceGroups[0].flavors[0].resources[0]"
CONCURRENT = FeatureGates({"ConcurrentAdmission": True})
STRICT_FLAVORS = FeatureGates({"RejectUpdatesToCQWithInvalidOnFlavors": True})
STOP_EARLY = {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
TRY_ALL = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}


def refused(made: Any, *, old: Any = None, gates: FeatureGates = DEFAULT_GATES, strict: bool = True) -> list[str]:
    """The places of what is wrong."""
    return [error.path for error in problems_of(made, old=old, gates=gates, strict=strict)[0]]


def checks(*names: str, flavors: list[str] | None = None) -> Any:
    more = {"onFlavors": flavors} if flavors else {}
    return {"admissionChecks": [{"name": name} | more for name in names]}


def many(flavors: int, resources: int, groups: int = 1) -> list[Any]:
    """So many groups of so many flavors and resources each."""
    made = []
    for g in range(groups):
        covered = tuple(f"r{g}-{index}" for index in range(resources))
        quotas = [quota(name, 1) for name in covered]
        made.append(group(*(flavor(*quotas, name=f"f{g}-{index}") for index in range(flavors)), covered=covered))
    return made


def policy(mode: str = "TryPreferredFlavors", last: str = "") -> Any:
    constraints = {"constraints": {"lastAcceptableFlavorName": last}} if last else {}
    return {"migration": {"mode": mode} | constraints}


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(cluster_queue(), [], id="the plain queue"),
        pytest.param(obj("ClusterQueue"), [], id="no spec"),
        pytest.param(obj("ClusterQueue", {"namespaceSelector": {}}), [], id="no groups"),
        # names
        pytest.param(
            cluster_queue(group(flavor(quota("a b")), covered=("a b",))), [f"{GROUPS}[0].coveredResources[0]"],
            id="a resource of no valid name",
        ),
        pytest.param(
            cluster_queue(group(), group(flavor(name="other"))), [f"{GROUPS}[1].coveredResources[0]"],
            id="a resource covered twice",
        ),
        pytest.param(
            cluster_queue(group(), group(flavor(quota("gpu")), covered=("gpu",))), [f"{GROUPS}[1].flavors[0].name"],
            id="a flavor in two groups",
        ),
        pytest.param(
            cluster_queue(group(flavor(quota("cpu"), quota("gpu")), covered=("gpu", "cpu"))),
            [f"{FIRST}.name", f"{GROUPS}[0].flavors[0].resources[1].name"],
            id="resources in another order",
        ),
        pytest.param(
            cluster_queue(group(flavor(quota(), quota("gpu")))), [f"{GROUPS}[0].flavors[0].resources"],
            id="more resources than covered",
        ),
        pytest.param(cluster_queue(cohortName="A"), ["spec.cohortName"], id="a cohort of no valid name"),
        # quotas
        pytest.param(cluster_queue(group(flavor(quota(nominal=0)))), [], id="no quota"),
        pytest.param(cluster_queue(group(flavor(quota(nominal="-1")))), [f"{FIRST}.nominalQuota"], id="below zero"),
        pytest.param(cluster_queue(group(flavor(quota(nominal=None)))), [f"{FIRST}.nominalQuota"], id="null quota"),
        pytest.param(cluster_queue(group(flavor(quota(nominal="1 Gi")))), [f"{FIRST}.nominalQuota"], id="no quantity"),
        pytest.param(
            cluster_queue(group(flavor(quota(nominal="9223372036854775807")))), [], id="the largest quota"
        ),
        pytest.param(
            cluster_queue(group(flavor(quota(nominal="10E")))), [f"{FIRST}.nominalQuota"], id="beyond the largest"
        ),
        pytest.param(
            cluster_queue(group(flavor(quota(borrowingLimit=-1, lendingLimit="-1m")))),
            [f"{FIRST}.borrowingLimit", f"{FIRST}.lendingLimit"],
            id="limits below zero",
        ),
        pytest.param(cluster_queue(group(flavor(quota(lendingLimit=10)))), [], id="all may be lent"),
        pytest.param(
            cluster_queue(group(flavor(quota(lendingLimit="10001m")))), [f"{FIRST}.lendingLimit"],
            id="more lent than there is",
        ),
        pytest.param(cluster_queue(group(flavor(quota(borrowingLimit=99)))), [], id="more borrowed than there is"),
        # sizes
        pytest.param(cluster_queue(*many(2, 64, groups=4)), [], id="256 resources"),
        pytest.param(
            cluster_queue(*many(1, 60, groups=5)), [GROUPS], id="too many resources"
        ),
        pytest.param(cluster_queue(*many(60, 1, groups=5)), [GROUPS], id="too many flavors"),
        pytest.param(cluster_queue(*many(16, 32)), [], id="512 quotas in a group"),
        pytest.param(cluster_queue(*many(27, 19)), [f"{GROUPS}[0].flavors"], id="too many quotas in a group"),
        pytest.param(cluster_queue(*many(65, 1)), [f"{GROUPS}[0].flavors"], id="65 flavors in a group"),
        pytest.param(cluster_queue(*many(1, 1, groups=17)), [GROUPS], id="17 groups"),
        # weight
        pytest.param(cluster_queue(fairSharing={"weight": 0}), [], id="weight 0"),
        pytest.param(cluster_queue(fairSharing={"weight": "1e7"}), [], id="a large weight"),
        pytest.param(cluster_queue(fairSharing={"weight": "2n"}), [], id="a small weight"),
        pytest.param(cluster_queue(fairSharing={"weight": "1n"}), ["spec.fairSharing.weight"], id="too small a weight"),
        pytest.param(cluster_queue(fairSharing={"weight": -1}), ["spec.fairSharing.weight"], id="a negative weight"),
        # selector
        pytest.param(
            cluster_queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}),
            [],
            id="a selector",
        ),
        pytest.param(
            cluster_queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
            ["spec.namespaceSelector.matchExpressions[0].operator"],
            id="no operator",
        ),
        pytest.param(
            cluster_queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
            ["spec.namespaceSelector.matchExpressions[0].values"],
            id="in nothing",
        ),
        pytest.param(
            cluster_queue(namespaceSelector={"matchLabels": {"a b": "c d"}}),
            ["spec.namespaceSelector.matchLabels", "spec.namespaceSelector.matchLabels[a b]"],
            id="no labels",
        ),
        pytest.param(
            cluster_queue(
                namespaceSelector={"matchExpressions": [{"key": "a b", "operator": "In", "values": ["c d"]}]}
            ),
            [
                "spec.namespaceSelector.matchExpressions[0].key",
                "spec.namespaceSelector.matchExpressions[0].values[0]",
            ],
            id="no label in an expression",
        ),
        # preemption and fungibility
        pytest.param(
            cluster_queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
            ["spec.preemption.borrowWithinCohort.policy"],
            id="borrow without reclaim",
        ),
        pytest.param(
            cluster_queue(
                preemption={"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}
            ),
            [],
            id="borrow and reclaim",
        ),
        pytest.param(
            cluster_queue(flavorFungibility=STOP_EARLY | {"preference": "BorrowingOverPreemption"}),
            ["spec.flavorFungibility.preference"],
            id="a preference that may not count",
        ),
        pytest.param(
            cluster_queue(flavorFungibility=TRY_ALL | {"preference": "BorrowingOverPreemption"}), [],
            id="a preference",
        ),
        pytest.param(
            cluster_queue(flavorFungibility={"whenCanBorrow": "Borrow"}), ["spec.flavorFungibility.whenCanBorrow"],
            id="an old name in the newer version",
        ),
        pytest.param(
            cluster_queue(flavorFungibility={"whenCanBorrow": "Borrow"}, version=OLDER), [],
            id="an old name in the older version",
        ),
        # checks
        pytest.param(cluster_queue(admissionChecksStrategy=checks("a", flavors=["standard"])), [], id="a check"),
        pytest.param(
            cluster_queue(admissionChecksStrategy=checks("a", flavors=["other"])),
            ["spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]"],
            id="a check on a foreign flavor",
        ),
        pytest.param(
            cluster_queue(admissionChecks=["b"], admissionChecksStrategy=checks("a", flavors=["o"]), version=OLDER),
            [],
            id="the plain list wins over rules",
        ),
        pytest.param(
            cluster_queue(admissionChecksStrategy={"admissionChecks": []}),
            ["spec.admissionChecksStrategy.admissionChecks"],
            id="a strategy without checks",
        ),
        pytest.param(
            cluster_queue(admissionChecksStrategy=checks("a", "a")),
            ["spec.admissionChecksStrategy.admissionChecks[1].name"],
            id="a check twice",
        ),
        # choices
        pytest.param(cluster_queue(stopPolicy="hold"), ["spec.stopPolicy"], id="no stop policy"),
        pytest.param(cluster_queue(queueingStrategy="LIFO"), ["spec.queueingStrategy"], id="no order"),
        pytest.param(
            cluster_queue(admissionScope={"admissionMode": "x"}), ["spec.admissionScope.admissionMode"], id="no mode"
        ),
        pytest.param(cluster_queue(admissionScope={"admissionMode": "x"}, version=OLDER), [], id="any mode before"),
    ],
)  # fmt: skip
def test_cluster_queues(made: Any, want: list[str]) -> None:
    assert refused(made) == want


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(cluster_queue(concurrentAdmissionPolicy=policy()), [], id="one group"),
        pytest.param(
            cluster_queue(*many(1, 1, groups=2), concurrentAdmissionPolicy=policy()),
            ["spec.concurrentAdmissionPolicy"],
            id="two groups",
        ),
        pytest.param(
            cluster_queue(*many(17, 1), concurrentAdmissionPolicy=policy()),
            ["spec.concurrentAdmissionPolicy"],
            id="17 flavors",
        ),
        pytest.param(
            cluster_queue(concurrentAdmissionPolicy=policy(), queueingStrategy="StrictFIFO"),
            ["spec.queueingStrategy"],
            id="strict order",
        ),
        pytest.param(cluster_queue(concurrentAdmissionPolicy=policy(last="standard")), [], id="a last flavor"),
        pytest.param(
            cluster_queue(concurrentAdmissionPolicy=policy(last="other")),
            ["spec.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName"],
            id="a foreign last flavor",
        ),
        pytest.param(
            cluster_queue(concurrentAdmissionPolicy=policy("RetainFirstAdmission", last="standard")),
            ["spec.concurrentAdmissionPolicy.migration.constraints"],
            id="constraints for another mode",
        ),
    ],
)
def test_concurrent_admission(made: Any, want: list[str]) -> None:
    assert refused(made, gates=CONCURRENT) == want
    assert refused(made) == []


STALE = cluster_queue(admissionChecksStrategy=checks("a", flavors=["gone"]))
ON_FLAVORS = "spec.admissionChecksStrategy.admissionChecks[0].onFlavors"


@pytest.mark.parametrize(
    ("old", "new", "gates", "want"),
    [
        pytest.param(STALE, STALE, DEFAULT_GATES, [], id="a stale check may stay"),
        pytest.param(STALE, STALE, STRICT_FLAVORS, [f"{ON_FLAVORS}[0]"], id="unless the gate forbids it"),
        pytest.param(
            STALE,
            cluster_queue(admissionChecksStrategy=checks("a", flavors=["gone", "too"])),
            DEFAULT_GATES,
            [f"{ON_FLAVORS}[0]", f"{ON_FLAVORS}[1]"],
            id="a changed check is looked at",
        ),
        pytest.param(
            STALE,
            cluster_queue(group(flavor(name="new")), admissionChecksStrategy=checks("a", flavors=["gone"])),
            DEFAULT_GATES,
            [f"{ON_FLAVORS}[0]"],
            id="and so is one whose queue changed",
        ),
        pytest.param(
            cluster_queue(),
            cluster_queue(concurrentAdmissionPolicy=policy()),
            DEFAULT_GATES,
            ["spec.concurrentAdmissionPolicy"],
            id="concurrent admission is for creation",
        ),
        pytest.param(
            cluster_queue(concurrentAdmissionPolicy=policy()),
            cluster_queue(version=OLDER),
            DEFAULT_GATES,
            [],
            id="an older client does not see it",
        ),
        pytest.param(
            cluster_queue(queueingStrategy="StrictFIFO"), cluster_queue(), DEFAULT_GATES, [], id="order may change"
        ),
    ],
)
def test_cluster_queue_updates(old: Any, new: Any, gates: FeatureGates, want: list[str]) -> None:
    assert refused(new, old=old, gates=gates) == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, [], id="empty"),
        pytest.param({"parentName": "root"}, [], id="a parent"),
        pytest.param({"parentName": "x"}, ["spec.parentName"], id="its own parent"),
        pytest.param(
            {"parentName": "root", "resourceGroups": [group(flavor(quota(lendingLimit=99)))]}, [],
            id="more lent than declared is fine here",
        ),
        pytest.param(
            {"resourceGroups": [group(), group()]},
            [f"{GROUPS}[1].coveredResources[0]", f"{GROUPS}[1].flavors[0].name"],
            id="the same twice",
        ),
        pytest.param({"fairSharing": {"weight": "1n"}}, ["spec.fairSharing.weight"], id="too small a weight"),
        pytest.param({"resourceGroups": many(27, 19)}, [], id="sizes are for queues"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", [OLDER, HUB])
def test_cohorts(spec: Any, want: list[str], version: str) -> None:
    assert refused(obj("Cohort", spec, version=version)) == want


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({"clusterQueue": "a"}, {"clusterQueue": "a", "stopPolicy": "Hold"}, [], id="hold it"),
        pytest.param({"clusterQueue": "a"}, {"clusterQueue": "b"}, ["spec.clusterQueue"], id="another queue"),
        pytest.param({}, {"clusterQueue": "b"}, [], id="a first queue"),
        pytest.param({"clusterQueue": "a"}, {"fairSharing": {"weight": 2}}, [], id="none any more"),
    ],
)
@pytest.mark.parametrize("version", [OLDER, HUB])
def test_local_queue_updates(old: Any, new: Any, want: list[str], version: str) -> None:
    assert refused(obj("LocalQueue", new, version=version), old=obj("LocalQueue", old)) == want
