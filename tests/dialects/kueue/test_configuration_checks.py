"""Kueue's Configuration file: everything that is refused, and that nothing else escapes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from muster.dialects.kueue.configuration import read_configuration, read_configuration_fragment
from muster.dialects.kueue.configuration_frameworks import FRAMEWORKS
from muster.dialects.kueue.configuration_schema import CONFIGURATIONS, HUB, OLDER
from muster.model.errors import InvalidObject, InvalidObjects
from tests.dialects.kueue.objects import complete, paths, replaced

NAME = "kubernetes.io/metadata.name"
BOTH_SHARES = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


def document(version: str = HUB, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration"} | fields


def refused(version: str = HUB, **fields: Any) -> list[str]:
    """The places of what is wrong; none when the file is fine."""
    try:
        read_configuration(document(version, **fields))
    except InvalidObjects as caught:
        return [problem.path for problem in caught.problems]
    return []


SELECTOR = {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["kube-system", "kueue-system"]}]}
EXEC = {"command": "c", "apiVersion": "v1", "interactiveMode": "Never"}


def mapping(name: str = "gpus", *classes: str, **more: Any) -> Any:
    return {"name": name, "deviceClassNames": list(classes) or ["gpu.example.com"]} | more


def source(kind: str = "counter", name: str = "c", driver: str = "d", expression: str = "true") -> Any:
    return {kind: {"name": name, "driver": driver, "deviceSelector": {"cel": {"expression": expression}}}}


def devices(*mappings: Any) -> Any:
    return {"resources": {"deviceClassMappings": list(mappings)}}


def label(name: str = "a", **more: Any) -> Any:
    return {"name": name} | more


def labels(*items: Any) -> Any:
    return {"metrics": {"customLabels": list(items)}}


def election(**fields: Any) -> Any:
    return {"leaderElection": fields}


DEVICES = "resources.deviceClassMappings"
LABELS = "metrics.customLabels"


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, [], id="the empty file"),
        pytest.param({"unknown": 1}, ["unknown"], id="an unknown field"),
        pytest.param({"waitForPodsReady": {"enable": True}}, ["waitForPodsReady.enable"], id="a field of before"),
        pytest.param({"metrics": None, "tls": None}, [], id="nulls"),
        # waiting for pods
        pytest.param({"waitForPodsReady": {"timeout": 5}}, ["waitForPodsReady.timeout"], id="a number of minutes"),
        pytest.param(
            {"waitForPodsReady": {"timeout": "-1s", "recoveryTimeout": "-1s"}},
            ["waitForPodsReady.timeout", "waitForPodsReady.recoveryTimeout"],
            id="times below zero",
        ),
        pytest.param(
            {
                "waitForPodsReady": {
                    "requeuingStrategy": {
                        "timestamp": "eviction",
                        "backoffLimitCount": -1,
                        "backoffBaseSeconds": -1,
                        "backoffMaxSeconds": -1,
                    }
                }
            },
            [
                f"waitForPodsReady.requeuingStrategy.{name}"
                for name in ("timestamp", "backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds")
            ],
            id="a bad way to wait",
        ),
        pytest.param(
            {"waitForPodsReady": {"requeuingStrategy": {"backoffBaseSeconds": 9, "backoffMaxSeconds": 1}}}, [],
            id="a base above the most",
        ),
        # integrations
        pytest.param({"integrations": {"frameworks": list(FRAMEWORKS)}}, [], id="all frameworks"),
        pytest.param({"integrations": {"frameworks": ["job"]}}, ["integrations.frameworks[0]"], id="no framework"),
        pytest.param(
            {"integrations": {"frameworks": ["pod", "pod"]}}, ["integrations.frameworks[1]"], id="a framework twice"
        ),
        pytest.param({"integrations": {"externalFrameworks": ["Foo.v1.example.com"]}}, [], id="an external one"),
        pytest.param(
            {"integrations": {"externalFrameworks": ["Foo", "Job.v1.batch", "A.v1.b", "A.v1.b"]}},
            [f"integrations.externalFrameworks[{index}]" for index in (0, 1, 3)],
            id="no external ones",
        ),
        pytest.param({"managedJobsNamespaceSelector": SELECTOR}, [], id="the usual namespaces"),
        pytest.param(
            {"managedJobsNamespaceSelector": SELECTOR, "namespace": "other"}, ["managedJobsNamespaceSelector"],
            id="its own namespace",
        ),
        pytest.param(
            {"managedJobsNamespaceSelector": {}}, ["managedJobsNamespaceSelector"] * 2, id="all namespaces"
        ),
        pytest.param(
            {"managedJobsNamespaceSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]}},
            ["managedJobsNamespaceSelector.matchExpressions[0].operator"],
            id="no selector",
        ),
        # other clusters
        pytest.param(
            {"multiKueue": {"gcInterval": "-1s", "workerLostTimeout": "-1s", "origin": "a b"}},
            ["multiKueue.gcInterval", "multiKueue.workerLostTimeout", "multiKueue.origin"],
            id="a bad way to hand over",
        ),
        pytest.param(
            {"multiKueue": {"externalFrameworks": [{"name": n} for n in ("x", "Job.v1.batch", "A.v1.b", "A.v1.b")]}},
            [f"multiKueue.externalFrameworks[{index}].name" for index in (0, 1, 3)],
            id="no adapters",
        ),
        pytest.param(
            {"multiKueue": {"incrementalDispatcherConfig": {"stepSize": 0}}},
            ["multiKueue.incrementalDispatcherConfig", "multiKueue.incrementalDispatcherConfig.stepSize"],
            id="steps of another dispatcher",
        ),
        pytest.param(
            {"multiKueue": {"clusterProfile": {"accessProviders": [{"name": "a", "execConfig": EXEC}]}}}, [],
            id="a provider",
        ),
        pytest.param(
            {"multiKueue": {"clusterProfile": {"accessProviders": [], "credentialsProviders": []}}},
            ["multiKueue.clusterProfile"],
            id="two lists of providers",
        ),
        pytest.param(
            {"multiKueue": {"clusterProfile": {"accessProviders": [{"execConfig": {"env": [{"value": "x"}]}}]}}},
            [
                "multiKueue.clusterProfile.accessProviders[0].name",
                *(
                    f"multiKueue.clusterProfile.accessProviders[0].execConfig.{name}"
                    for name in ("command", "apiVersion", "interactiveMode", "env[0].name")
                ),
            ],
            id="half a provider",
        ),
        # sharing
        *(
            pytest.param({"fairSharing": {"preemptionStrategies": strategies}}, want, id=f"shares {strategies}")
            for strategies, want in [
                (BOTH_SHARES, []),
                (BOTH_SHARES[:1], []),
                (BOTH_SHARES[1:], []),
                (BOTH_SHARES[::-1], ["fairSharing.preemptionStrategies"]),
                ([], ["fairSharing.preemptionStrategies"]),
                (["x"], ["fairSharing.preemptionStrategies"]),
            ]
        ),
        pytest.param({"fairSharing": {}}, ["fairSharing.preemptionStrategies"], id="shares of no kind"),
        pytest.param(
            {
                "admissionFairSharing": {
                    "usageHalfLifeTime": "-1s",
                    "usageSamplingInterval": "-1s",
                    "resourceWeights": {"cpu": -1},
                }
            },
            [
                "admissionFairSharing.usageHalfLifeTime",
                "admissionFairSharing.usageSamplingInterval",
                "admissionFairSharing.resourceWeights.cpu",
            ],
            id="usage below zero",
        ),
        # resources
        pytest.param(
            {"resources": {"transformations": [{"input": "a", "strategy": "x"}, {"input": "a"}]}},
            ["resources.transformations[0].strategy", "resources.transformations[1].input"],
            id="a resource transformed twice",
        ),
        pytest.param(
            {"resources": {"quotaCheckStrategy": "Ignore"}}, ["resources.quotaCheckStrategy"], id="no strategy"
        ),
        pytest.param(
            {"resources": {"quotaCheckStrategy": "IgnoreUndeclared", "excludeResourcePrefixes": ["a"]}},
            ["resources.excludeResourcePrefixes"],
            id="ignored in two ways",
        ),
        pytest.param(devices(mapping()), [], id="a device class"),
        pytest.param(devices(*(mapping(f"g{i}", f"c{i}") for i in range(17))), [DEVICES], id="17 mappings"),
        pytest.param(
            devices(mapping("a b"), mapping("g", "c"), mapping("g", "d")),
            [f"{DEVICES}[0].name", f"{DEVICES}[2].name"],
            id="bad names",
        ),
        pytest.param(
            devices({"name": "g"}, mapping("h", *(f"c{i}" for i in range(9)))),
            [f"{DEVICES}[0].deviceClassNames", f"{DEVICES}[1].deviceClassNames"],
            id="too few and too many classes",
        ),
        pytest.param(
            devices(mapping("g", "a b", "c", "c")),
            [f"{DEVICES}[0].deviceClassNames[0]", f"{DEVICES}[0].deviceClassNames[2]"],
            id="bad classes",
        ),
        pytest.param(
            devices(mapping("g", "c"), mapping("h", "c")), [f"{DEVICES}[1].deviceClassNames[0]"],
            id="a class in two mappings",
        ),
        pytest.param(
            devices(
                mapping("g", "c", sources=[source(name="x")]), mapping("h", "c", sources=[source(name="y")])
            ),
            [],
            id="a class with two counters",
        ),
        pytest.param(
            devices(mapping("g", "c", sources=[source()]), mapping("h", "c", sources=[source()])),
            [f"{DEVICES}[1].deviceClassNames[0]"],
            id="a class with one counter twice",
        ),
        pytest.param(
            devices(mapping(sources=[{}, source() | source("capacity")])),
            [f"{DEVICES}[0].sources[0]", f"{DEVICES}[0].sources[1]"],
            id="neither or both",
        ),
        pytest.param(
            devices(mapping(sources=[source(name="A", driver="B", expression="")])),
            [
                f"{DEVICES}[0].sources[0].counter.{part}"
                for part in ("name", "driver", "deviceSelector.cel.expression")
            ],
            id="half a counter",
        ),
        pytest.param(
            devices(mapping(sources=[source(driver="d" * 64)])), [f"{DEVICES}[0].sources[0].counter.driver"],
            id="a long driver",
        ),
        pytest.param(
            devices(mapping(sources=[source("capacity", name="mem")])), [f"{DEVICES}[0].sources[0].capacity"],
            id="capacity without its gate",
        ),
        pytest.param(
            devices(mapping(sources=[source("capacity", name="a.io/mem")]))
            | {"featureGates": {"KueueDRAIntegrationConsumableCapacity": True}},
            [],
            id="capacity with its gate",
        ),
        pytest.param(
            devices(mapping(sources=[source("capacity", name="A.io/mem"), source("capacity", name="a-b"), source()]))
            | {"featureGates": {"KueueDRAIntegrationConsumableCapacity": True}},
            [
                f"{DEVICES}[0].sources[0].capacity.name",
                f"{DEVICES}[0].sources[1].capacity.name",
                f"{DEVICES}[0].sources",
            ],
            id="bad capacities, and a mixture",
        ),
        pytest.param(
            devices(mapping(sources=[source()]))
            | {"featureGates": {"KueueDRAIntegrationPartitionableDevices": False}},
            [f"{DEVICES}[0].sources[0].counter"],
            id="a counter without its gate",
        ),
        # the rest
        pytest.param(
            {"objectRetentionPolicies": {"workloads": {"afterFinished": "-1s", "afterDeactivatedByKueue": "-1s"}}},
            [f"objectRetentionPolicies.workloads.{name}" for name in ("afterFinished", "afterDeactivatedByKueue")],
            id="kept for less than no time",
        ),
        pytest.param(
            {"internalCertManagement": {"webhookServiceName": "1a", "webhookSecretName": "A"}},
            ["internalCertManagement.webhookServiceName", "internalCertManagement.webhookSecretName"],
            id="no names",
        ),
        pytest.param({"internalCertManagement": {"enable": False, "webhookServiceName": "1a"}}, [], id="names unused"),
        pytest.param(election(leaseDuration="137s", renewDeadline="107s", retryPeriod="26s"), [], id="a patient lease"),
        pytest.param(
            election(leaseDuration="10.9s", retryPeriod="9s"),
            ["leaderElection.renewDeadline", "leaderElection.leaseDuration"],
            id="a lease that ends too early",
        ),
        pytest.param(election(retryPeriod="0s"), ["leaderElection.retryPeriod"], id="no pause between renewals"),
        pytest.param(election(resourceLock="endpoints"), ["leaderElection.resourceLock"], id="no lock"),
        pytest.param(election(leaderElect=False, leaseDuration="1s"), [], id="a lease unused"),
        pytest.param({"tls": {"minVersion": "1.2"}}, ["tls.minVersion"], id="no version of TLS"),
        pytest.param(
            {"tls": {"minVersion": "VersionTLS13", "cipherSuites": ["TLS_AES_128_GCM_SHA256"]}}, ["tls.cipherSuites"],
            id="suites of TLS 1.3",
        ),
        pytest.param({"tls": {"cipherSuites": ["RC4"]}}, ["tls.cipherSuites[0]"], id="no suite"),
        pytest.param(
            {"visibilityServer": {"bindAddress": "localhost", "bindPort": 0}},
            ["visibilityServer.bindAddress", "visibilityServer.bindPort"],
            id="no address",
        ),
        pytest.param(labels(label(sourceLabelKey="a.io/b")), [], id="a label of metrics"),
        pytest.param(labels(*(label(f"l{i}") for i in range(21))), [LABELS], id="21 labels"),
        pytest.param(labels(*(label(f"l{i}") for i in range(7))), [LABELS], id="7 labels of one kind"),
        pytest.param(
            labels(*(label(f"l{i}", sourceKind="Workload", trackedValues=["x"]) for i in range(3))), [LABELS],
            id="3 labels of workloads",
        ),
        pytest.param(
            labels(label("1a"), label(""), label("b"), label("b"), label("é")),
            [f"{LABELS}[{index}].name" for index in (0, 1, 3, 4)],
            id="bad names of labels",
        ),
        pytest.param(
            labels(label(sourceLabelKey="a b", sourceAnnotationKey="c d")),
            [f"{LABELS}[0].{name}" for name in ("sourceAnnotationKey", "sourceLabelKey", "sourceAnnotationKey")],
            id="two bad sources",
        ),
        pytest.param(labels(label(sourceKind="Pod")), [f"{LABELS}[0].sourceKind"], id="no source"),
        pytest.param(labels(label(sourceKind="Workload")), [f"{LABELS}[0].trackedValues"], id="nothing tracked"),
        pytest.param(labels(label(trackedValues=["x", "x"])), [f"{LABELS}[0].trackedValues"], id="tracked twice"),
        pytest.param({"featureGates": {"Nope": True}}, ["featureGates.Nope"], id="no gate"),
        pytest.param({"featureGates": {"PriorityBoost": "on"}}, ["featureGates[PriorityBoost]"], id="no flag"),
    ],
)  # fmt: skip
def test_checks(fields: Any, want: list[str]) -> None:
    assert refused(**fields) == want


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"visibilityServer": {}}, ["visibilityServer"]),
        ({"resources": {"quotaCheckStrategy": "BlockUndeclared"}}, ["resources.quotaCheckStrategy"]),
        (devices(mapping(sources=[])), [f"{DEVICES}[0].sources"]),
        (labels(label(sourceKind="Workload")), [f"{LABELS}[0].sourceKind"]),
        ({"multiKueue": {"clusterProfile": {}}}, ["multiKueue.clusterProfile"]),
        ({"multiKueue": {"incrementalDispatcherConfig": {}}}, ["multiKueue.incrementalDispatcherConfig"]),
        (labels(label()), []),
    ],
)
def test_the_older_version_lacks_what_came_later(fields: Any, want: list[str]) -> None:
    assert refused(OLDER, **fields) == want


@pytest.mark.parametrize(
    "value",
    [None, [], {}, {"apiVersion": "v1"}, document("v1"), document() | {"kind": "Configuraton"}, {"apiVersion": 5}],
)
def test_what_is_no_configuration(value: Any) -> None:
    with pytest.raises(InvalidObject):
        read_configuration(value)


@pytest.mark.parametrize("version", [OLDER, HUB])
def test_nothing_but_refusals_escapes(version: str) -> None:
    full = complete(CONFIGURATIONS[version]) | document(version)
    hostile: tuple[Any, ...] = (None, "", -1, 10**5000, 1.5, float("nan"), True, [], [None], {}, {5: 1}, "\ud800")
    for index, path in enumerate(paths(full)):
        for turn in range(4):
            mutant = replaced(full, path, hostile[(index + turn) % len(hostile)])
            fragment = {key: mutant[key] for key in mutant if key not in ("apiVersion", "kind")}
            with suppress(InvalidObject):
                read_configuration(mutant)
            with suppress(InvalidObject):
                read_configuration_fragment(fragment)


def test_an_unknown_field_names_the_nearest() -> None:
    with pytest.raises(InvalidObject, match="did you mean waitForPodsReady"):
        read_configuration(document(waitForPodReady={}))
