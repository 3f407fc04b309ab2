"""Kueue's Configuration file as typed settings. Read by `app`, so that a file written for Kueue works as it is.

Fields that change decisions or which objects are managed become typed data here. The rest (ports, certificates,
metrics) is accepted, checked and kept in `rest`. Durations are seconds. Muster's own settings for Kueue's objects
have a block of their own, because Kueue would refuse them in its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from muster.dialects.kueue.configuration_checks import configuration_problems
from muster.dialects.kueue.configuration_schema import CONFIGURATIONS, HUB, OLDER, ONLY_IN_OLDER
from muster.dialects.kueue.gates import FeatureGates, read_feature_gates
from muster.dialects.kueue.transformations import RequestRules, Transformation
from muster.dialects.kueue.warning import ObjectWarning
from muster.model.durations import NANOSECONDS, duration_ns
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown
from muster.model.labels import Operator, Requirement, Selector, read_selector
from muster.model.plain import copied, without_nulls
from muster.model.resources import amount_of
from muster.model.shapes import Flag, Struct, shape_problems, unknown_fields, with_defaults

GROUP = "config.kueue.x-k8s.io"
DEFAULT_NAMESPACE = "kueue-system"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"
INCREMENTAL_DISPATCHER = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
IGNORE_UNDECLARED = "IgnoreUndeclared"
DEFAULT_STEP_SIZE = 3
_TYPED = frozenset(
    {
        "apiVersion",
        "kind",
        "namespace",
        "manageJobsWithoutQueueName",
        "managedJobsNamespaceSelector",
        "waitForPodsReady",
        "integrations",
        "multiKueue",
        "fairSharing",
        "admissionFairSharing",
        "resources",
        "featureGates",
        "objectRetentionPolicies",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForPodsReady:
    """All pods of an admitted workload must be ready in time, or it is evicted and waits longer each time."""

    timeout_s: float = 1800.0
    blocks_admission: bool = False  # nothing is admitted while an admitted workload is not ready
    recovery_timeout_s: float | None = None  # how long it may stay unready once it was ready; None: for ever
    queues_by_eviction: bool = True  # afterwards; else by its creation
    requeues_most: int | None = None  # then it is deactivated; None: never
    backoff_base_s: int = 60
    backoff_most_s: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFairSharing:
    """The submit queues of one queue take turns by what they have used."""

    usage_half_life_s: float = 0.0  # 0: past usage is forgotten at once
    usage_sampling_s: float = 300.0
    resource_weights: Mapping[str, float] = field(default_factory=dict)  # 1 for a resource that is not named


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSource:
    """What of a device is counted: one of its counters, or one dimension of its capacity."""

    is_counter: bool
    name: str
    driver: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClassMapping:
    """Claims for devices of these classes are counted as this resource."""

    name: str
    device_classes: tuple[str, ...]
    sources: tuple[DeviceSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrations:
    """Which kinds of jobs are managed."""

    frameworks: tuple[str, ...] = ("batch/job",)
    external_frameworks: tuple[str, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiKueueSettings:
    """How workloads are handed to other clusters."""

    gc_interval_s: float = 60.0  # 0: no garbage collection
    origin: str = "multikueue"
    worker_lost_timeout_s: float = 900.0
    dispatcher: str = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
    step_size: int = DEFAULT_STEP_SIZE  # clusters that the incremental dispatcher adds in a round
    external_frameworks: tuple[str, ...] = ()

    @property
    def is_incremental(self) -> bool:
        return self.dispatcher == INCREMENTAL_DISPATCHER


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicies:
    """When finished and deactivated workloads are deleted; `None` keeps them."""

    after_finished_s: float | None = None
    after_deactivated_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueConfiguration:
    """Kueue's Configuration after defaulting."""

    version: str  # that it was written in
    namespace: str
    manages_jobs_without_queue: bool
    managed_namespaces: Selector
    wait_for_pods_ready: WaitForPodsReady | None  # None: off
    fair_sharing_strategies: tuple[str, ...] | None  # None: queues do not share by weight
    admission_fair_sharing: AdmissionFairSharing | None  # None: off
    ignores_undeclared: bool  # a resource that no group covers does not hold a workload back
    request_rules: RequestRules
    device_class_mappings: tuple[DeviceClassMapping, ...]
    integrations: Integrations
    multikueue: MultiKueueSettings
    feature_gates: FeatureGates
    retention: RetentionPolicies
    rest: Mapping[str, Any]  # what has no part in decisions, by its name in the file


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraSettings:
    """Muster's own settings for Kueue's objects."""

    strict_validation: bool = False  # refuse what Kueue refuses, even where the meaning is plain


Notes = tuple[ObjectWarning, ...]


def read_configuration(document: Mapping[str, Any]) -> tuple[KueueConfiguration, Notes]:
    """A whole Configuration file; raises `InvalidObjects` with everything that is wrong with it."""
    fields = Fields.of(document)
    group, _, version = fields.text("apiVersion").rpartition("/")
    if group != GROUP or version not in CONFIGURATIONS:
        hint = f"give {GROUP}/{HUB} or {GROUP}/{OLDER}"
        raise fields.error("apiVersion", f"is {shown(fields.text('apiVersion'))}", hint)
    if fields.text("kind") != "Configuration":
        raise fields.error("kind", f"is {shown(fields.text('kind'))}", "give Configuration")
    return _read(document, version)


def default_configuration() -> KueueConfiguration:
    """What holds when no file is given."""
    return _read({}, HUB)[0]


def read_configuration_fragment(document: Mapping[str, Any]) -> tuple[KueueConfiguration, Notes]:
    """Part of a Configuration, without apiVersion and kind; it is the older version if only that has its fields."""
    fields = Fields.of(document)
    if fields.has("apiVersion") or fields.has("kind"):
        return read_configuration(document)
    given_away = next((path for path in ONLY_IN_OLDER if _has(document, path)), None)
    version = OLDER if given_away else HUB
    configuration, notes = _read(document, version)
    because = f"because of {'.'.join(given_away)}" if given_away else "the newest"
    note = ObjectWarning("apiVersion", f"is missing; read as {version}, {because}", f"give {GROUP}/{version}")
    return configuration, (note, *notes)


def read_extra_settings(document: Mapping[str, Any] | None, path: str = "kueue") -> ExtraSettings:
    """Muster's own settings for Kueue's objects; unknown ones are refused."""
    values = {} if document is None else without_nulls(document)
    shape = Struct(fields={"strictValidation": Flag()})
    _raise_any((*shape_problems(shape, values, path), *unknown_fields(shape, values, path)))
    return ExtraSettings(strict_validation=Fields(values, path).flag("strictValidation"))


def _has(document: Any, path: tuple[str, ...]) -> bool:
    value = document
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value is not None


def _raise_any(problems: tuple[InvalidObject, ...]) -> None:
    if problems:
        raise InvalidObjects(problems)


def _read(document: Mapping[str, Any], version: str) -> tuple[KueueConfiguration, Notes]:
    shape = CONFIGURATIONS[version]
    plain = without_nulls(document)
    # Kueue decodes strictly: an unknown field stops it, and so it stops us.
    _raise_any((*shape_problems(shape, plain, ""), *unknown_fields(shape, plain, "")))
    gates, notes = read_feature_gates(plain.get("featureGates"))
    values = _settled(with_defaults(shape, plain), version)
    _raise_any(tuple(configuration_problems(Fields(values), gates)))
    return _typed(Fields(values), version, gates), (*notes, *_dropped_notes(plain, version))


def _settled(values: dict[str, Any], version: str) -> dict[str, Any]:
    """The newer version's meaning, and the defaults that depend on other fields."""
    settled = dict(values)
    if version == OLDER:
        settled = _as_newer(settled)
    elif _is_zero(settled["waitForPodsReady"]["timeout"]):
        settled["waitForPodsReady"] = settled["waitForPodsReady"] | {"timeout": "30m"}
    settled.setdefault("namespace", DEFAULT_NAMESPACE)
    if not settled["integrations"].get("frameworks"):
        settled["integrations"] = settled["integrations"] | {"frameworks": ["batch/job"]}
    if not settled["multiKueue"].get("origin"):
        settled["multiKueue"] = settled["multiKueue"] | {"origin": "multikueue"}
    certificates = settled["internalCertManagement"]
    if certificates["enable"]:
        names = {"webhookServiceName": "kueue-webhook-service", "webhookSecretName": "kueue-webhook-server-cert"}
        settled["internalCertManagement"] = names | certificates
    sharing = settled.get("admissionFairSharing")
    if sharing is not None and _is_zero(sharing["usageSamplingInterval"]):
        settled["admissionFairSharing"] = sharing | {"usageSamplingInterval": "5m"}
    return settled


def _is_zero(duration: str) -> bool:
    return duration_ns(duration, "") == 0


def _as_newer(values: dict[str, Any]) -> dict[str, Any]:
    """v1beta1: blocks have a switch, and what was off is left out. Defaults of v1beta2 are not applied to the rest."""
    newer = {name: value for name, value in values.items() if name not in ("queueVisibility",)}
    for name in ("waitForPodsReady", "fairSharing"):
        block = newer.pop(name, None)
        if block is not None and block["enable"]:
            newer[name] = {key: value for key, value in block.items() if key != "enable"}
    if "fairSharing" in newer and not newer["fairSharing"].get("preemptionStrategies"):
        newer["fairSharing"]["preemptionStrategies"] = [FINAL_SHARE, INITIAL_SHARE]
    newer["integrations"] = {key: value for key, value in newer["integrations"].items() if key != "podOptions"}
    return newer


def _dropped_notes(plain: Mapping[str, Any], version: str) -> Notes:
    if version == HUB:
        return ()
    dropped = (path for path in (("queueVisibility",), ("integrations", "podOptions")) if _has(plain, path))
    return tuple(ObjectWarning(".".join(path), "has no effect any more", "take it out") for path in dropped)


# Typed data -------------------------------------------------------------------------------------------------------


def _seconds(fields: Fields, name: str) -> float:
    return duration_ns(fields.raw(name), fields.at(name)) / NANOSECONDS


def _seconds_or_none(fields: Fields, name: str) -> float | None:
    return _seconds(fields, name) if fields.has(name) else None


def _typed(fields: Fields, version: str, gates: FeatureGates) -> KueueConfiguration:
    resources = fields.child("resources")
    namespace = fields.text("namespace")
    strategy = resources.text("quotaCheckStrategy") if gates.is_on("QuotaCheckStrategy") else ""
    return KueueConfiguration(
        version=version,
        namespace=namespace,
        manages_jobs_without_queue=fields.flag("manageJobsWithoutQueueName"),
        managed_namespaces=read_selector(fields, "managedJobsNamespaceSelector") or _default_namespaces(namespace),
        wait_for_pods_ready=_wait_for_pods_ready(fields, version, gates),
        fair_sharing_strategies=(
            fields.child("fairSharing").texts("preemptionStrategies") if fields.has("fairSharing") else None
        ),
        admission_fair_sharing=_admission_fair_sharing(fields, gates),
        ignores_undeclared=strategy == IGNORE_UNDECLARED,
        request_rules=_request_rules(resources),
        device_class_mappings=tuple(_device_class(item) for item in resources.children("deviceClassMappings")),
        integrations=_integrations(fields.child("integrations")),
        multikueue=_multikueue(fields.child("multiKueue"), gates),
        feature_gates=gates,
        retention=_retention(fields.child("objectRetentionPolicies").child("workloads")),
        rest=MappingProxyType({name: copied(value) for name, value in fields.values.items() if name not in _TYPED}),
    )


def _default_namespaces(namespace: str) -> Selector:
    return Selector((Requirement(NAMESPACE_LABEL, Operator.NOT_IN, frozenset({"kube-system", namespace})),))


def _wait_for_pods_ready(fields: Fields, version: str, gates: FeatureGates) -> WaitForPodsReady | None:
    if not fields.has("waitForPodsReady") or gates.is_on("DisableWaitForPodsReady"):
        return None
    block = fields.child("waitForPodsReady")
    requeuing = block.child("requeuingStrategy")
    timeout = _seconds(block, "timeout")
    # The older version never gave recovery a limit of its own.
    recovery = (
        _seconds_or_none(block, "recoveryTimeout") if version == OLDER or block.has("recoveryTimeout") else timeout
    )
    return WaitForPodsReady(
        timeout_s=timeout,
        blocks_admission=block.flag("blockAdmission"),
        recovery_timeout_s=recovery or None,  # "0s" turns it off
        queues_by_eviction=requeuing.text("timestamp") == "Eviction",
        requeues_most=requeuing.integer("backoffLimitCount") if requeuing.has("backoffLimitCount") else None,
        backoff_base_s=requeuing.integer("backoffBaseSeconds"),
        backoff_most_s=requeuing.integer("backoffMaxSeconds"),
    )


def _admission_fair_sharing(fields: Fields, gates: FeatureGates) -> AdmissionFairSharing | None:
    if not fields.has("admissionFairSharing") or not gates.is_on("AdmissionFairSharing"):
        return None
    block = fields.child("admissionFairSharing")
    weights = block.child("resourceWeights")
    return AdmissionFairSharing(
        usage_half_life_s=_seconds(block, "usageHalfLifeTime"),
        usage_sampling_s=_seconds(block, "usageSamplingInterval"),
        resource_weights=MappingProxyType({name: weights.number(name) for name in weights.values}),
    )


def _request_rules(resources: Fields) -> RequestRules:
    return RequestRules(
        excluded_prefixes=resources.texts("excludeResourcePrefixes"),
        transformations=tuple(
            Transformation(
                input=item.text("input"),
                outputs={name: amount_of(name, quantity) for name, quantity in item.quantities("outputs").items()},
                replaces=item.text("strategy") == "Replace",
                multiplied_by=item.text("multiplyBy"),
            )
            for item in resources.children("transformations")
        ),
    )


def _device_class(mapping: Fields) -> DeviceClassMapping:
    sources = []
    for source in mapping.children("sources"):
        is_counter = source.has("counter")
        part = source.child("counter" if is_counter else "capacity")
        expression = part.child("deviceSelector").child("cel").text("expression")
        sources.append(
            DeviceSource(
                is_counter=is_counter, name=part.text("name"), driver=part.text("driver"), expression=expression
            )
        )
    return DeviceClassMapping(
        name=mapping.text("name"), device_classes=mapping.texts("deviceClassNames"), sources=tuple(sources)
    )


def _integrations(block: Fields) -> Integrations:
    return Integrations(
        frameworks=block.texts("frameworks"),
        external_frameworks=block.texts("externalFrameworks"),
        label_keys_to_copy=block.texts("labelKeysToCopy"),
    )


def _multikueue(block: Fields, gates: FeatureGates) -> MultiKueueSettings:
    step_size = block.child("incrementalDispatcherConfig").integer("stepSize", DEFAULT_STEP_SIZE)
    return MultiKueueSettings(
        gc_interval_s=_seconds(block, "gcInterval"),
        origin=block.text("origin"),
        worker_lost_timeout_s=_seconds(block, "workerLostTimeout"),
        dispatcher=block.text("dispatcherName"),
        step_size=step_size if gates.is_on("MultiKueueIncrementalDispatcherConfig") else DEFAULT_STEP_SIZE,
        external_frameworks=tuple(item.text("name") for item in block.children("externalFrameworks")),
    )


def _retention(block: Fields) -> RetentionPolicies:
    return RetentionPolicies(
        after_finished_s=_seconds_or_none(block, "afterFinished"),
        after_deactivated_s=_seconds_or_none(block, "afterDeactivatedByKueue"),
    )
