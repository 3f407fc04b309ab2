"""Kueue's feature gates: the table of all of them, and which are on. Built from the configuration's `featureGates`.

Those that change decisions are honoured. A known gate without meaning here is accepted with a note, so that a
configuration file can be taken over as it is; an unknown one is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from muster.dialects.kueue.warning import ObjectWarning
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields
from muster.model.texts import nearest


class Stage(Enum):
    """How far a gate has come."""

    ALPHA = "Alpha"
    BETA = "Beta"
    GENERAL = "GA"
    DEPRECATED = "Deprecated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One switch: its default, and whether turning it changes what is decided, placed or accepted here."""

    name: str
    default: bool
    stage: Stage
    has_meaning: bool
    is_locked: bool = False  # it can no longer be changed
    needs: tuple[str, ...] = ()


_STAGES = {"A": Stage.ALPHA, "B": Stage.BETA, "G": Stage.GENERAL, "D": Stage.DEPRECATED}
_TAS = "TopologyAwareScheduling"
_REPLACEMENT = "TASFailedNodeReplacement"
_DRA = "KueueDRAIntegration"
_LOCKED = frozenset({"ManagedJobsNamespaceSelectorAlwaysRespected"})

# name, default and stage. First those that change decisions, placements or what is accepted.
_WITH_MEANING = """
    AdmissionFairSharing on B                  AdmissionGatedBy on B
    ConcurrentAdmission off A                  DisableWaitForPodsReady off A
    ElasticJobsViaWorkloadSlices on B          ElasticJobsViaWorkloadSlicesWithTAS off A
    FairSharingPreemptWithinNominal on B       FairSharingPrioritizeNonBorrowing on B
    FastQuotaReleaseInPodIntegration off A     FinishOrphanedWorkloads on B
    FlavorFungibility on B                     FlavorFungibilityPreserveScanProgress on B
    KueueDRAIntegration on B                   KueueDRAIntegrationConsumableCapacity off A
    KueueDRAIntegrationExtendedResource on B   KueueDRAIntegrationPartitionableDevices on B
    KueueDRARejectWorkloadsWhenDRADisabled on B  LWSImmutableGroupSize on B
    ManagedJobsNamespaceSelectorAlwaysRespected on G  MultiKueue on B
    MultiKueueAdaptersForCustomJobs on B       MultiKueueIncrementalDispatcherConfig on B
    MultiKueueIncrementalDispatcherRespectConfigOrder on B  MultiKueueKubeConfigPathValidation on B
    MultiKueueManagerQuotaAutomation off A     MultiKueueOrchestratedPreemption off A
    PartialAdmission on B                      PrioritizePreemptorWorkloads off A
    PriorityBoost off A                        PrioritySortingWithinCohort on B
    QuotaCheckStrategy on B                    ReclaimablePods on B
    RecomputeAssignmentUponPreemptionTargetsOverlap on B  RejectUpdatesToCQWithInvalidOnFlavors off A
    SchedulerLibraryIntegration off A          SchedulingEquivalenceHashing on B
    SkipAncestorCheckForDeletedWorkloads on B  SkipReassignmentForPodOwnedWorkloads on B
    TASBalancedPlacement off A                 TASFailedNodeReplacement on B
    TASFailedNodeReplacementFailFast on B      TASHandleOverlappingFlavors on B
    TASMultiLayerTopology on B                 TASProfileMixed on B
    TASRecomputeAssignmentWithinSchedulingCycle on B  TASReplaceNodeDueToNotReadyOverFixedTime off D
    TASReplaceNodeOnNodeTaints on B            TASReplaceNodeOnPodTermination on B
    TASRespectNodeAffinityPreferred off A      TASValidateWorkloadSliceSize on B
    TopologyAwareScheduling on B               ValidateRayAndSparkJobUpdates on B
    WorkloadIdentifierAnnotations on B         WorkloadPriorityClassDefaulting on B
    WorkloadValidateResourcesAreNonNegative on B  WorkloadValidationForPodSetMetadata on B
"""
# These switch metrics, wire forms, caches, integrations and status wording of Kueue's own program.
_WITHOUT_MEANING = """
    AssignQueueLabelsForPods on B              CleanupProvisioningRequestsOnEviction on B
    CustomMetricLabels off A                   DeferRayServiceFinalizationForRedisCleanup on B
    FailureRecoveryPolicy off A                LocalQueueMetrics on B
    MetricForWorkloadCreationLatency on B      MetricsForCohorts on B
    MultiKueueClusterProfile off A             MultiKueueRemoteSpecSync on B
    PodIntegrationValidateGroupOwner on B      RemoveFinalizersWithStrictPatch on B
    ShortWorkloadNames off A                   SparkApplicationIntegration off A
    TASAssignmentsEncodingByHostnamePrefix on B  TASCacheNodeMatchResults on B
    TASCacheTopologyTree on B                  TASCachingRemainingResources on B
    TLSOptions on G                            UnadmittedWorkloadsExplicitStatus off B
    UnadmittedWorkloadsObservability on B      VectorizedResourceRequests on B
    VisibilityOnDemand on B                    WorkloadRequestUseMergePatch off A
"""
_NEEDS: dict[str, tuple[str, ...]] = {
    "TASProfileMixed": (_TAS,),
    "TASBalancedPlacement": (_TAS,),
    "TASMultiLayerTopology": (_TAS,),
    "TASRespectNodeAffinityPreferred": (_TAS,),
    "TASHandleOverlappingFlavors": (_TAS,),
    "TASRecomputeAssignmentWithinSchedulingCycle": (_TAS,),
    "TASFailedNodeReplacement": (_TAS,),
    "TASFailedNodeReplacementFailFast": (_TAS, _REPLACEMENT),
    "TASReplaceNodeOnPodTermination": (_TAS, _REPLACEMENT),
    "TASReplaceNodeDueToNotReadyOverFixedTime": (_TAS, _REPLACEMENT),
    "TASReplaceNodeOnNodeTaints": (_TAS,),
    "ElasticJobsViaWorkloadSlicesWithTAS": ("ElasticJobsViaWorkloadSlices", _TAS),
    "KueueDRAIntegrationExtendedResource": (_DRA,),
    "KueueDRAIntegrationPartitionableDevices": (_DRA,),
    "KueueDRAIntegrationConsumableCapacity": (_DRA,),
    "FlavorFungibilityPreserveScanProgress": ("FlavorFungibility",),
    "UnadmittedWorkloadsExplicitStatus": ("UnadmittedWorkloadsObservability",),
}


def _gates(table: str, *, has_meaning: bool) -> Iterator[Gate]:
    words = iter(table.split())
    for name, default, stage in zip(words, words, words, strict=True):
        yield Gate(
            name=name,
            default=default == "on",
            stage=_STAGES[stage],
            has_meaning=has_meaning,
            is_locked=name in _LOCKED,
            needs=_NEEDS.get(name, ()),
        )


GATES: Mapping[str, Gate] = MappingProxyType(
    {
        gate.name: gate
        for gate in (*_gates(_WITH_MEANING, has_meaning=True), *_gates(_WITHOUT_MEANING, has_meaning=False))
    }
)
# Kubernetes' gate library has these two for every program: they set all gates of a stage that are not set by name.
_WHOLE_STAGES = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which gates are on: the defaults, and what the configuration changed."""

    changed: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        unknown = sorted(self.changed.keys() - GATES.keys())
        assert not unknown, f"no such gates: {unknown}; read them with read_feature_gates"

    def is_on(self, name: str) -> bool:
        """Whether a gate is on; the name must be a known one."""
        assert name in GATES, f"no such gate: {name}"
        return self.changed.get(name, GATES[name].default)


DEFAULT_GATES = FeatureGates()


def read_feature_gates(
    wanted: Mapping[str, object] | None, path: str = "featureGates"
) -> tuple[FeatureGates, tuple[ObjectWarning, ...]]:
    """The gates as a configuration sets them, with notes on those that do nothing here; raises `InvalidObjects`."""
    fields = Fields.of(wanted, path)
    problems: list[InvalidObject] = []
    named: dict[str, bool] = {}
    for name in fields.values:
        try:
            if fields.has(name) and _is_settable(fields, name):
                named[name] = fields.flag(name)
        except InvalidObject as problem:
            problems.append(problem)
    gates = FeatureGates(MappingProxyType(_spread(named)))
    problems += _broken_needs(gates, path)
    if problems:
        raise InvalidObjects(tuple(problems))
    return gates, tuple(_notes(named, path))


def _is_settable(fields: Fields, name: object) -> bool:
    """Whether the gate is known and may have the value; raises otherwise."""
    if not isinstance(name, str):
        raise InvalidObject(fields.path, "has a key that is no text", "give names of feature gates")
    if name in _WHOLE_STAGES:
        return True
    if name not in GATES:
        close = nearest(name, GATES)
        shown = name if len(name) <= 60 else name[:60] + "…"
        raise fields.error(shown, "is no feature gate", f"did you mean {close}?" if close else "take it out")
    gate = GATES[name]
    if gate.is_locked and fields.flag(name) is not gate.default:
        raise fields.error(name, "is locked: it can no longer be changed", "take it out")
    return True


def _spread(named: Mapping[str, bool]) -> dict[str, bool]:
    """The gates named one by one, and those that a whole stage sets."""
    spread: dict[str, bool] = {}
    for group, stage in _WHOLE_STAGES.items():
        if group in named:
            spread |= {gate.name: named[group] for gate in GATES.values() if gate.stage is stage}
    return spread | {name: value for name, value in named.items() if name in GATES}


def _broken_needs(gates: FeatureGates, path: str) -> Iterator[InvalidObject]:
    for gate in GATES.values():
        missing = [name for name in gate.needs if not gates.is_on(name)]
        if gates.is_on(gate.name) and missing:
            hint = f"turn {' and '.join(missing)} on, or {gate.name} off"
            yield InvalidObject(f"{path}.{gate.name}", f"is on and needs {' and '.join(missing)}", hint)


def _notes(named: Mapping[str, bool], path: str) -> Iterator[ObjectWarning]:
    for name in sorted(named):
        gate = GATES.get(name)
        if gate is None:
            continue
        if gate.stage is Stage.DEPRECATED:
            yield ObjectWarning(f"{path}.{name}", "is deprecated in Kueue", "plan to do without it")
        elif gate.is_locked:
            yield ObjectWarning(f"{path}.{name}", "is always on", "take it out")
        elif not gate.has_meaning:
            yield ObjectWarning(f"{path}.{name}", "is known and changes nothing here", "it may stay or go")
