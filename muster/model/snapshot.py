"""The snapshot: everything that a decision may depend on, as read from objects at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.model.flavor import Flavor
from muster.model.queue import Queue, SharedLimit, SubmitQueue
from muster.model.settings import Settings
from muster.model.topology import BoundPod, Node
from muster.model.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Queues, flavors, workloads and settings at one moment; `now` and `seed` are the only time and chance there is."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    submit_queues: Mapping[str, SubmitQueue] = field(default_factory=dict)
    shared_limits: Mapping[str, SharedLimit] = field(default_factory=dict)
    flavors: Mapping[str, Flavor] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    bound_pods: Mapping[str, BoundPod] = field(default_factory=dict)  # those that no admission accounts for
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # their labels
    settings: Settings = field(default_factory=Settings)
    now: float = 0.0
    seed: int = 0
