"""predicates: the kube-scheduler's rules about nodes and other pods, each of which can be turned off. Volcano's plugin.

Without this policy a session follows none of them: pods go wherever their amounts fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from muster.engine.policy import Hooks, Policy, argument
from muster.model.pod_rules import NodeRules, PodRules


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
        return replace(
            rules,
            nodes=nodes if nodes != NodeRules() else NodeRules(),
            ports=rules.ports if arguments.node_ports else frozenset(),
            affinity=rules.affinity if arguments.pod_affinity else (),
            anti_affinity=rules.anti_affinity if arguments.pod_affinity else (),
            spread=rules.spread if arguments.spread else tuple(one for one in rules.spread if not one.is_required),
        )

    return Hooks(keep=keep, foresee=True)


POLICY = Policy(name="predicates", arguments=Arguments, build=build)
