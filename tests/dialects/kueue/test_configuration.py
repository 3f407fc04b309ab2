"""Kueue's Configuration file: what each version means."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.configuration import (
    AdmissionFairSharing,
    DeviceClassMapping,
    DeviceSource,
    ExtraSettings,
    KueueConfiguration,
    WaitForPodsReady,
    default_configuration,
    read_configuration,
    read_configuration_fragment,
    read_extra_settings,
)
from muster.dialects.kueue.configuration_schema import HUB, OLDER
from muster.dialects.kueue.transformations import Transformation
from muster.model.election import Election
from muster.model.errors import InvalidObject, InvalidObjects

NAME = "kubernetes.io/metadata.name"
BOTH_SHARES = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"


def document(version: str = HUB, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration"} | fields


def read(version: str = HUB, **fields: Any) -> KueueConfiguration:
    return read_configuration(document(version, **fields))[0]


def refused(version: str = HUB, **fields: Any) -> list[str]:
    """The places of what is wrong; none when the file is fine."""
    try:
        read(version, **fields)
    except InvalidObjects as caught:
        return [problem.path for problem in caught.problems]
    return []


# Meaning ----------------------------------------------------------------------------------------------------------


def test_no_file_means_the_defaults() -> None:
    found = default_configuration()
    assert found == read()
    assert found.namespace == "kueue-system"
    assert found.wait_for_pods_ready == WaitForPodsReady(timeout_s=1800, recovery_timeout_s=1800)
    assert found.fair_sharing_strategies is None
    assert found.admission_fair_sharing is None
    assert found.integrations.frameworks == ("batch/job",)
    assert found.multikueue.origin == "multikueue"
    assert not found.multikueue.is_incremental
    assert not found.manages_jobs_without_queue
    assert not found.ignores_undeclared
    assert [found.managed_namespaces.matches({NAME: name}) for name in ("a", "kube-system", "kueue-system")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("version", "block", "want"),
    [
        pytest.param(HUB, None, WaitForPodsReady(timeout_s=1800, recovery_timeout_s=1800), id="on by default"),
        pytest.param(OLDER, None, None, id="off by default before"),
        pytest.param(OLDER, {}, None, id="off unless enabled before"),
        pytest.param(OLDER, {"enable": False, "timeout": "1m"}, None, id="off when disabled"),
        pytest.param(
            OLDER, {"enable": True}, WaitForPodsReady(timeout_s=300, blocks_admission=True), id="enabled before"
        ),
        pytest.param(
            OLDER,
            {"enable": True, "timeout": "10m", "recoveryTimeout": "3m", "blockAdmission": False},
            WaitForPodsReady(timeout_s=600, recovery_timeout_s=180),
            id="enabled with values",
        ),
        pytest.param(HUB, {"timeout": "0s"}, WaitForPodsReady(timeout_s=1800, recovery_timeout_s=1800), id="0 is none"),
        pytest.param(
            HUB, {"timeout": "5m"}, WaitForPodsReady(timeout_s=300, recovery_timeout_s=300), id="recovery too"
        ),
        pytest.param(HUB, {"recoveryTimeout": "0s"}, WaitForPodsReady(timeout_s=1800), id="no recovery"),
        pytest.param(
            HUB,
            {"requeuingStrategy": {"timestamp": "Creation", "backoffLimitCount": 0, "backoffMaxSeconds": 5}},
            WaitForPodsReady(
                timeout_s=1800, recovery_timeout_s=1800, queues_by_eviction=False, requeues_most=0, backoff_most_s=5
            ),
            id="requeuing",
        ),
    ],
)
def test_waiting_for_pods(version: str, block: Any, want: WaitForPodsReady | None) -> None:
    assert read(version, waitForPodsReady=block).wait_for_pods_ready == want


def test_a_gate_turns_waiting_for_pods_off() -> None:
    gates = {"DisableWaitForPodsReady": True}
    assert read(featureGates=gates).wait_for_pods_ready is None
    assert refused(featureGates=gates, waitForPodsReady={"timeout": "-1m"}) == []


@pytest.mark.parametrize(
    ("version", "block", "want"),
    [
        pytest.param(HUB, None, None, id="off"),
        pytest.param(HUB, {"preemptionStrategies": BOTH_SHARES}, tuple(BOTH_SHARES), id="on"),
        pytest.param(OLDER, {"enable": True}, tuple(BOTH_SHARES), id="enabled before"),
        pytest.param(OLDER, {"enable": True, "preemptionStrategies": []}, tuple(BOTH_SHARES), id="with none"),
        pytest.param(OLDER, {"enable": False, "preemptionStrategies": ["x"]}, None, id="disabled before"),
    ],
)
def test_fair_sharing(version: str, block: Any, want: Any) -> None:
    assert read(version, fairSharing=block).fair_sharing_strategies == want


def test_admission_fair_sharing() -> None:
    block = {"usageHalfLifeTime": "1h", "usageSamplingInterval": "0s", "resourceWeights": {"cpu": 0, "gpu": 2.5}}
    want = AdmissionFairSharing(usage_half_life_s=3600, resource_weights={"cpu": 0, "gpu": 2.5})
    assert read(admissionFairSharing=block).admission_fair_sharing == want
    assert read(admissionFairSharing={}).admission_fair_sharing == AdmissionFairSharing()
    assert read(admissionFairSharing={}, featureGates={"AdmissionFairSharing": False}).admission_fair_sharing is None


def test_resources() -> None:
    rules = {
        "excludeResourcePrefixes": ["example.com/"],
        "transformations": [
            {"input": "gpumem", "strategy": "Replace", "multiplyBy": "gpu", "outputs": {"total": "1", "cpu": "500m"}},
            {"input": "other"},
        ],
        "deviceClassMappings": [
            {
                "name": "gpus",
                "deviceClassNames": ["gpu.example.com"],
                "sources": [
                    {"counter": {"name": "c", "driver": "d", "deviceSelector": {"cel": {"expression": "true"}}}}
                ],
            }
        ],
    }
    found = read(resources=rules)
    assert found.request_rules.excluded_prefixes == ("example.com/",)
    assert found.request_rules.transformations == (
        Transformation(input="gpumem", outputs={"total": 1, "cpu": 500}, replaces=True, multiplied_by="gpu"),
        Transformation(input="other", outputs={}),
    )
    source = DeviceSource(is_counter=True, name="c", driver="d", expression="true")
    assert found.device_class_mappings == (
        DeviceClassMapping(name="gpus", device_classes=("gpu.example.com",), sources=(source,)),
    )


@pytest.mark.parametrize(
    ("strategy", "gates", "want"),
    [
        (None, {}, False),
        ("BlockUndeclared", {}, False),
        ("IgnoreUndeclared", {}, True),
        ("IgnoreUndeclared", {"QuotaCheckStrategy": False}, False),
        ("anything", {"QuotaCheckStrategy": False}, False),
    ],
)
def test_undeclared_resources(strategy: Any, gates: Any, want: bool) -> None:
    assert read(resources={"quotaCheckStrategy": strategy}, featureGates=gates).ignores_undeclared is want


def test_other_clusters() -> None:
    block = {"dispatcherName": INCREMENTAL, "incrementalDispatcherConfig": {"stepSize": 7}, "origin": ""}
    found = read(multiKueue=block | {"gcInterval": "0s", "externalFrameworks": [{"name": "A.v1.b.c"}]}).multikueue
    assert (found.is_incremental, found.step_size, found.origin, found.gc_interval_s) == (True, 7, "multikueue", 0)
    assert found.external_frameworks == ("A.v1.b.c",)
    off = read(multiKueue=block, featureGates={"MultiKueueIncrementalDispatcherConfig": False})
    assert off.multikueue.step_size == 3


def test_elections() -> None:
    assert read().election == Election()
    found = read(
        leaderElection={"leaseDuration": "60s", "renewDeadline": "40s", "resourceNamespace": "muster"}
    ).election
    assert (found.lease_s, found.renew_deadline_s, found.retry_s, found.namespace) == (60, 40, 2, "muster")
    assert not read(leaderElection={"leaderElect": False, "leaseDuration": "1s"}).election.is_on


def test_what_decides_nothing_is_kept() -> None:
    found = read(metrics={"bindAddress": ":1"}, tls={"minVersion": "VersionTLS12"}, pprofBindAddress="x")
    assert found.rest["metrics"]["bindAddress"] == ":1"
    assert found.rest["tls"] == {"minVersion": "VersionTLS12"}
    assert found.rest["health"]["readinessEndpointName"] == "readyz"
    assert "waitForPodsReady" not in found.rest


def test_scope_and_retention() -> None:
    found = read(
        namespace="muster",
        manageJobsWithoutQueueName=True,
        managedJobsNamespaceSelector={"matchLabels": {"team": "a"}},
        integrations={"frameworks": [], "labelKeysToCopy": ["a"]},
        objectRetentionPolicies={"workloads": {"afterFinished": "0s"}},
    )
    assert found.manages_jobs_without_queue
    assert found.managed_namespaces.matches({"team": "a"})
    assert found.integrations.frameworks == ("batch/job",)
    assert (found.retention.after_finished_s, found.retention.after_deactivated_s) == (0, None)


def test_notes() -> None:
    _, notes = read_configuration(
        document(
            OLDER,
            queueVisibility={"updateIntervalSeconds": 5},
            integrations={"podOptions": {}},
            featureGates={"ShortWorkloadNames": True},
        )
    )
    assert [note.path for note in notes] == [
        "featureGates.ShortWorkloadNames",
        "queueVisibility",
        "integrations.podOptions",
    ]


# Fragments and our own settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fragment", "version"),
    [
        ({"waitForPodsReady": {"timeout": "1m"}}, HUB),
        ({"waitForPodsReady": {"enable": True}}, OLDER),
        ({"fairSharing": {"enable": True}}, OLDER),
        ({"queueVisibility": {}}, OLDER),
        ({"integrations": {"podOptions": {}}}, OLDER),
        ({}, HUB),
        (document(OLDER), OLDER),
    ],
)
def test_fragments_give_their_version_away(fragment: Any, version: str) -> None:
    assert read_configuration_fragment(fragment)[0].version == version


def test_own_settings_are_apart() -> None:
    assert read_extra_settings(None) == ExtraSettings()
    assert read_extra_settings({"strictValidation": True}).strict_validation
    assert not read_extra_settings({"strictValidation": None}).strict_validation
    with pytest.raises(InvalidObject, match="did you mean strictValidation"):
        read_extra_settings({"strictValidaton": True})
    with pytest.raises(InvalidObject):
        read_extra_settings({"strictValidation": "yes"})
    with pytest.raises(InvalidObject):
        read_extra_settings([])  # type: ignore[arg-type]
    assert refused(strictValidation=True) == ["strictValidation"]
