"""Settings that change decisions, typed, each with one meaning. Dialects fill them from their own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.model.topology import TopologyRules


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharing:
    """Queues share by weight instead of first come, first served."""

    strategies: tuple[str, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    spares_nominal_comparison: bool = True  # within its own share a queue takes back without comparing shares
    favours_non_borrowing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFairness:
    """Submit queues of one queue take turns by what they have used; past use fades."""

    half_life_s: float = 0.0  # after which half of past use is forgotten; 0: all at once
    sampling_s: float = 300.0
    resource_weights: Mapping[str, float] = field(default_factory=dict)  # 1 unless given


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionGuards:
    """Named limits on preemption, all off by default; a workload may also be marked as not preemptible."""

    run_time_least_s: float = 0.0  # a workload that has run for less than this is no victim
    queue_cool_down_s: float = 0.0  # between two preemptions on behalf of one queue
    workload_cool_down_s: float = 0.0  # between two preemptions of one workload
    honours_marks: bool = False  # workloads marked as not preemptible are no victims
    repeat_most: int = 3  # how often unchanged contenders may preempt one workload; 0: no bound

    @property
    def is_any_on(self) -> bool:
        return bool(self.run_time_least_s or self.queue_cool_down_s or self.workload_cool_down_s or self.honours_marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the engine decides; the defaults are Kueue's."""

    partial_admission: bool = True
    searches_flavors: bool = True  # the queue's flavor rules count; else the first best flavor is taken
    keeps_scan_progress: bool = True  # a flavor search goes on where it stopped although usage changed
    orders_by_priority: bool = True  # the heads of different queues, not only those within one
    preemptors_first: bool = False
    recomputes_overlap: bool = True  # a preemptor whose victims were taken searches again in the same cycle
    parks_alike: bool = True  # a workload that cannot start parks those of its kind with it
    releases_finished_pods: bool = True
    ignores_undeclared: bool = False  # a resource that no group covers is neither checked nor counted
    eviction_moves_back: bool = True  # a workload evicted for slow pods queues by its eviction time
    priority_boost: bool = False
    concurrent_admission: bool = False
    preemption_gates: bool = False
    admission_gates: bool = True
    elastic_slices: bool = True
    topology: bool = True
    topology_rules: TopologyRules = field(default_factory=TopologyRules)
    recomputes_places: bool = True  # a place that was taken in the same cycle is sought anew at once
    replaces_nodes: bool = True  # pods of a failed node are moved to another one
    replaces_nodes_fast: bool = True  # and the workload is evicted when the first try finds none
    blocks_until_ready: bool = False  # no admission while an admitted workload's pods are not ready
    fair_sharing: FairSharing | None = None
    usage_fairness: UsageFairness | None = None
    guards: PreemptionGuards = field(default_factory=PreemptionGuards)
    cycle_steps_most: int = 20_000_000  # tries of one cycle before it is cut short
    needs_slots: bool = False  # admission also needs a node, and a share of cards, for every pod
    places_queued_pods: bool = (
        True  # else workloads of queues need quota alone, and their pods look for nodes one by one
    )
    schedulers: frozenset[str] | None = None  # whose pods get their nodes here; None: everybody's
    gang_deadline_s: float = 300.0  # after which a gang that is not wholly bound, or whose victims stay, gives all back
