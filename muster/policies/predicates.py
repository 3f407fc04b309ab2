"""predicates: the kube-scheduler's rules about nodes and other pods, each of which can be turned off. Volcano's plugin.

Without this policy a session follows none of them: pods go wherever their amounts fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from muster.engine.fit_nodes import CORDONED
from muster.engine.node_table_rows import BoolArray
from muster.engine.policy import FitPod, Hooks, Policy, argument
from muster.engine.session import Session
from muster.engine.standing import PodStanding
from muster.model.labels import Toleration, tolerates
from muster.model.pod_rules import NodeRules, PodRules

ANY_TAINT = Toleration(operator="Exists")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Which rules are kept; what concerns volumes that are not bound yet is decided when the pod is bound."""

    node_affinity: bool = argument(True, alias="predicate.NodeAffinityEnable")
    node_ports: bool = argument(True, alias="predicate.NodePortsEnable")
    taints: bool = argument(True, alias="predicate.TaintTolerationEnable")
    pod_affinity: bool = argument(True, alias="predicate.PodAffinityEnable")
    volume_limits: bool = argument(True, alias="predicate.NodeVolumeLimitsEnable")
    volume_zone: bool = argument(True, alias="predicate.VolumeZoneEnable")
    spread: bool = argument(True, alias="predicate.PodTopologySpreadEnable")
    volume_binding: bool = argument(True, alias="predicate.VolumeBindingEnable")
    device_claims: bool = argument(False, alias="predicate.DynamicResourceAllocationEnable")
    caches: bool = argument(False, alias="predicate.CacheEnable")


def build(arguments: Arguments) -> Hooks:
    def keep(rules: PodRules) -> PodRules:
        nodes = rules.nodes
        if not arguments.node_affinity:
            nodes = replace(nodes, selector=(), affinity=None)
        if not arguments.volume_zone:
            nodes = replace(nodes, volumes=())
        if not arguments.taints:
            nodes = replace(nodes, tolerations=(ANY_TAINT,))
        return replace(
            rules,
            nodes=nodes if nodes != NodeRules() else NodeRules(),
            ports=rules.ports if arguments.node_ports else frozenset(),
            affinity=rules.affinity if arguments.pod_affinity else (),
            anti_affinity=rules.anti_affinity if arguments.pod_affinity else (),
            spread=rules.spread if arguments.spread else tuple(one for one in rules.spread if not one.is_required),
        )

    if arguments.taints:
        return Hooks(keep=keep, foresee=True)
    return Hooks(keep=keep, open=lambda session: Hooks(keep=keep, foresee=True, fit_pod=_uncordoned(session)))


def _uncordoned(session: Session) -> FitPod:
    """Which rows take new pods: whoever minds no taint may still not go to nodes that are being emptied."""
    nodes = session.snapshot.nodes
    names = session.placer.table.names
    open_rows = np.array([name not in nodes or nodes[name].is_schedulable for name in names], np.bool_)

    def fit(pod: PodStanding) -> BoolArray | None:
        is_welcome = any(tolerates(one, CORDONED) for one in pod.pod.rules.nodes.tolerations)
        return None if is_welcome else open_rows

    return fit


POLICY = Policy(name="predicates", arguments=Arguments, build=build)
