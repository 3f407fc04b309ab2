"""Kueue's feature gates and configuration as the engine's settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.dialects.kueue.gates import FeatureGates
from muster.model.settings import FairSharing, PreemptionGuards, Settings, UsageFairness
from muster.model.topology import TopologyRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What the configuration file says beside the gates."""

    fair_sharing_strategies: tuple[str, ...] | None = None  # None: queues do not share by weight
    ignores_undeclared: bool = False
    blocks_until_ready: bool = False
    usage_fairness: UsageFairness | None = None
    guards: PreemptionGuards = field(default_factory=PreemptionGuards)


def settings_of(gates: FeatureGates, configured: Configured | None = None) -> Settings:
    """The settings that gates and configuration amount to."""
    given = configured or Configured()
    fair_sharing = None
    if given.fair_sharing_strategies is not None:
        fair_sharing = FairSharing(
            strategies=given.fair_sharing_strategies,
            spares_nominal_comparison=gates.is_on("FairSharingPreemptWithinNominal"),
            favours_non_borrowing=gates.is_on("FairSharingPrioritizeNonBorrowing"),
        )
    return Settings(
        partial_admission=gates.is_on("PartialAdmission"),
        searches_flavors=gates.is_on("FlavorFungibility"),
        keeps_scan_progress=gates.is_on("FlavorFungibilityPreserveScanProgress"),
        orders_by_priority=gates.is_on("PrioritySortingWithinCohort"),
        preemptors_first=gates.is_on("PrioritizePreemptorWorkloads"),
        recomputes_overlap=gates.is_on("RecomputeAssignmentUponPreemptionTargetsOverlap"),
        parks_alike=gates.is_on("SchedulingEquivalenceHashing"),
        releases_finished_pods=gates.is_on("ReclaimablePods"),
        ignores_undeclared=given.ignores_undeclared and gates.is_on("QuotaCheckStrategy"),
        priority_boost=gates.is_on("PriorityBoost"),
        concurrent_admission=gates.is_on("ConcurrentAdmission"),
        preemption_gates=gates.is_on("MultiKueueOrchestratedPreemption") or gates.is_on("ConcurrentAdmission"),
        admission_gates=gates.is_on("AdmissionGatedBy"),
        elastic_slices=gates.is_on("ElasticJobsViaWorkloadSlices"),
        topology=gates.is_on("TopologyAwareScheduling"),
        topology_rules=_topology_rules(gates),
        recomputes_places=gates.is_on("TASRecomputeAssignmentWithinSchedulingCycle"),
        replaces_nodes=gates.is_on("TASFailedNodeReplacement"),
        replaces_nodes_fast=gates.is_on("TASFailedNodeReplacementFailFast"),
        blocks_until_ready=given.blocks_until_ready and not gates.is_on("DisableWaitForPodsReady"),
        fair_sharing=fair_sharing,
        usage_fairness=given.usage_fairness if gates.is_on("AdmissionFairSharing") else None,
        guards=given.guards,
    )


def _topology_rules(gates: FeatureGates) -> TopologyRules:
    return TopologyRules(
        packs_unconstrained=gates.is_on("TASProfileMixed"),
        is_balanced=gates.is_on("TASBalancedPlacement"),
        has_layers=gates.is_on("TASMultiLayerTopology"),
        follows_preferred_affinity=gates.is_on("TASRespectNodeAffinityPreferred"),
        merges_flavors=gates.is_on("TASHandleOverlappingFlavors"),
    )
