"""The shape of Kueue's Configuration file in both versions: every field it may have, and the defaults it gets."""

from __future__ import annotations

from collections.abc import Mapping

from muster.model.shapes import Amount, Duration, Flag, ListOf, MapOf, Number, Schema, Struct, Text, Whole
from muster.model.shapes_notation import fields, listed
from muster.model.shapes_pod import LABEL_SELECTOR

HUB = "v1beta2"
OLDER = "v1beta1"

_DURATION = Duration()
_TEXTS = ListOf(item=Text())
_REQUEUING = Struct(
    fields={
        "timestamp": Text(),
        "backoffLimitCount": Whole(),
        "backoffBaseSeconds": Whole(),
        "backoffMaxSeconds": Whole(),
    },
    defaults={"timestamp": "Eviction", "backoffBaseSeconds": 60, "backoffMaxSeconds": 3600},
)
_LEADER_ELECTION = Struct(
    fields={
        "leaderElect": Flag(),
        "leaseDuration": _DURATION,
        "renewDeadline": _DURATION,
        "retryPeriod": _DURATION,
        "resourceLock": Text(),
        "resourceName": Text(),
        "resourceNamespace": Text(),
    },
    defaults={
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
        "resourceLock": "leases",
        "resourceName": "c1f6bfd2.kueue.x-k8s.io",
    },
)
_EXEC = fields(
    "command args[] apiVersion installHint provideClusterInfo:bool interactiveMode",
    env=listed(fields("name value")),
)
_PROVIDERS = listed(fields("name", execConfig=_EXEC))
_SELECTED_DEVICES = fields("", cel=fields("expression"))
_DEVICE_SOURCE = fields("name driver", deviceSelector=_SELECTED_DEVICES)
_TRANSFORMATION = Struct(
    fields={
        "input": Text(),
        "strategy": Text(),
        "multiplyBy": Text(),
        "outputs": MapOf(item=Amount()),
    },
    defaults={"strategy": "Retain"},
)


def _metrics(version: str) -> Struct:
    label: dict[str, Schema] = {"name": Text(), "sourceLabelKey": Text(), "sourceAnnotationKey": Text()}
    if version == HUB:
        label |= {"sourceKind": Text(), "trackedValues": _TEXTS}
    return Struct(
        fields={
            "bindAddress": Text(),
            "enableClusterQueueResources": Flag(),
            "localQueueMetrics": fields("enable:bool=false", localQueueSelector=LABEL_SELECTOR),
            "customLabels": ListOf(
                item=Struct(fields=label, defaults={"sourceKind": "ClusterQueue"} if version == HUB else {})
            ),
        },
        defaults={"bindAddress": ":8443", "localQueueMetrics": {"enable": True}},
    )


def _wait_for_pods_ready(version: str) -> Struct:
    parts: dict[str, Schema] = {
        "timeout": _DURATION,
        "blockAdmission": Flag(),
        "recoveryTimeout": _DURATION,
        "requeuingStrategy": _REQUEUING,
    }
    if version == HUB:
        return Struct(fields=parts, defaults={"timeout": "30m", "blockAdmission": False, "requeuingStrategy": {}})
    return Struct(
        fields={**parts, "enable": Flag()},
        defaults={"enable": False, "timeout": "5m", "blockAdmission": True, "requeuingStrategy": {}},
    )


def _fair_sharing(version: str) -> Struct:
    parts: dict[str, Schema] = {"preemptionStrategies": _TEXTS}
    if version == HUB:
        return Struct(fields=parts)
    return Struct(fields={**parts, "enable": Flag()}, defaults={"enable": False})


def _integrations(version: str) -> Struct:
    parts: dict[str, Schema] = {
        "frameworks": _TEXTS,
        "externalFrameworks": _TEXTS,
        "labelKeysToCopy": _TEXTS,
    }
    if version == OLDER:
        parts["podOptions"] = fields("", namespaceSelector=LABEL_SELECTOR, podSelector=LABEL_SELECTOR)
    return Struct(fields=parts)


def _multikueue(version: str) -> Struct:
    parts: dict[str, Schema] = {
        "gcInterval": _DURATION,
        "origin": Text(),
        "workerLostTimeout": _DURATION,
        "dispatcherName": Text(),
        "externalFrameworks": listed(fields("name")),
    }
    if version == HUB:
        parts["clusterProfile"] = fields("", accessProviders=_PROVIDERS, credentialsProviders=_PROVIDERS)
        parts["incrementalDispatcherConfig"] = fields("stepSize:int")
    return Struct(
        fields=parts,
        defaults={
            "gcInterval": "1m",
            "workerLostTimeout": "15m",
            "dispatcherName": "kueue.x-k8s.io/multikueue-dispatcher-all-at-once",
        },
    )


def _resources(version: str) -> Struct:
    mapping: dict[str, Schema] = {"name": Text(), "deviceClassNames": _TEXTS}
    parts: dict[str, Schema] = {
        "excludeResourcePrefixes": _TEXTS,
        "transformations": ListOf(item=_TRANSFORMATION),
    }
    if version == HUB:
        parts["quotaCheckStrategy"] = Text()
        mapping["sources"] = listed(fields("", counter=_DEVICE_SOURCE, capacity=_DEVICE_SOURCE))
    return Struct(fields={**parts, "deviceClassMappings": ListOf(item=Struct(fields=mapping))})


def _configuration(version: str) -> Struct:
    parts: dict[str, Schema] = {
        "apiVersion": Text(),
        "kind": Text(),
        "namespace": Text(),
        "manageJobsWithoutQueueName": Flag(),
        "managedJobsNamespaceSelector": LABEL_SELECTOR,
        "webhook": Struct(fields={"port": Whole(), "host": Text(), "certDir": Text()}, defaults={"port": 9443}),
        "leaderElection": _LEADER_ELECTION,
        "metrics": _metrics(version),
        "health": fields("healthProbeBindAddress=:8081 readinessEndpointName=readyz livenessEndpointName=healthz"),
        "pprofBindAddress": Text(),
        "controller": Struct(
            fields={"groupKindConcurrency": MapOf(item=Whole(is_long=True)), "cacheSyncTimeout": Whole(is_long=True)}
        ),
        "tls": fields("minVersion", cipherSuites=_TEXTS, curvePreferences=ListOf(item=Whole())),
        "internalCertManagement": fields("enable:bool=true webhookServiceName webhookSecretName"),
        "clientConnection": Struct(fields={"qps": Number(), "burst": Whole()}, defaults={"qps": 300, "burst": 500}),
        "waitForPodsReady": _wait_for_pods_ready(version),
        "integrations": _integrations(version),
        "multiKueue": _multikueue(version),
        "fairSharing": _fair_sharing(version),
        "admissionFairSharing": Struct(
            fields={
                "usageHalfLifeTime": _DURATION,
                "usageSamplingInterval": _DURATION,
                "resourceWeights": MapOf(item=Number()),
            },
            defaults={"usageHalfLifeTime": "0s", "usageSamplingInterval": "5m"},
        ),
        "resources": _resources(version),
        "featureGates": MapOf(item=Flag()),
        "objectRetentionPolicies": fields(
            "", workloads=Struct(fields={"afterFinished": _DURATION, "afterDeactivatedByKueue": _DURATION})
        ),
    }
    blocks = ("webhook", "leaderElection", "metrics", "health", "internalCertManagement", "clientConnection")
    defaults: dict[str, object] = {name: {} for name in (*blocks, "integrations", "multiKueue")}
    if version == HUB:
        parts["visibilityServer"] = Struct(
            fields={"bindAddress": Text(), "bindPort": Whole()}, defaults={"bindAddress": "0.0.0.0", "bindPort": 8082}
        )
        # Presence means on, and the newer version fills the block in.
        defaults |= {"waitForPodsReady": {}, "visibilityServer": {}}
    else:
        parts["queueVisibility"] = fields("updateIntervalSeconds:int", clusterQueues=fields("maxCount:int"))
    return Struct(fields=parts, defaults=defaults)


CONFIGURATIONS: Mapping[str, Struct] = {version: _configuration(version) for version in (OLDER, HUB)}

# Fields by which a fragment without apiVersion gives itself away as the older version.
ONLY_IN_OLDER = (
    ("queueVisibility",),
    ("waitForPodsReady", "enable"),
    ("fairSharing", "enable"),
    ("integrations", "podOptions"),
)
