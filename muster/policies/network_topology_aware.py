"""network-topology-aware: pods of a group stand near each other, and others fill domains in use. Volcano's plugin.

Domains are tried from the nearest tier on, up to the one that a group allows. Of several domains the fullest is taken,
so that big groups find whole ones; pods that stand already draw the rest of their group near.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.engine.node_table_rows import FloatArray, IntArray
from muster.engine.policy import Hooks, Policy, argument
from muster.engine.session import Session
from muster.engine.session_domains import DomainNode
from muster.engine.session_queues import need_of
from muster.engine.standing import PodStanding, Standing, SubStanding
from muster.engine.vectors import MEMORY, Vector, total_of
from muster.model.groups import ENDED, PodStatus
from muster.model.resources import CPU

BEST = 100
_PREFIX = "hypernode.binpack.resources."


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How much it counts, what each resource weighs, and how much less a wider tier counts for pods of no group."""

    weight: int = argument(1, least=0)
    cpu: int = argument(1, least=0, alias="hypernode.binpack.cpu")
    memory: int = argument(1, least=0, alias="hypernode.binpack.memory")
    listed: str = argument("", alias="hypernode.binpack.resources")
    resources: Mapping[str, int] = field(default_factory=dict, metadata=argument({}, prefix=_PREFIX).metadata)
    scores_others: bool = argument(True, alias="hypernode.binpack.normal-pod.enable")
    fading: float = argument(0.8, least=0, most=1, alias="hypernode.binpack.normal-pod.fading")

    @property
    def weights(self) -> dict[str, int]:
        """The weight of every resource that counts."""
        listed = dict.fromkeys((name.strip() for name in self.listed.split(",") if name.strip()), 1)
        return {CPU: self.cpu, MEMORY: self.memory, **listed, **self.resources}


def build(arguments: Arguments) -> Hooks:
    return Hooks(open=lambda session: _Topology(session, arguments).hooks())


class _Topology:
    """The domains of one session."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self.session = session
        self.arguments = arguments
        self.weights = arguments.weights
        self._used_at = -1
        self._used: dict[str, dict[str, float]] = {}

    def hooks(self) -> Hooks:
        return Hooks(gradient=self.gradient, score_domains=self.score_domains, score_pod=self.score_pod)

    # Where to try ----------------------------------------------------------------------------------------------------

    def gradient(self, who: Standing | SubStanding, below: DomainNode, evicts: bool) -> list[list[DomainNode]]:
        """Domains of the allowed tiers, the nearest tier first; near those that stand already.

        For a group that stands nowhere yet, those are left out that have too little for what it needs at least.
        """
        tier = who.near.tier if who.near is not None else None
        if tier is None:
            return [[below]]
        root: DomainNode | None = below
        before = self.session.domains.nodes.get(who.domain)
        if before is not None:
            allowed = [one for one in before.ancestors() if one.tier <= tier]
            root = _narrower(allowed[-1], below) if allowed else None
        if root is None:
            return []
        need = need_of(who) if isinstance(who, Standing) and before is None else {}
        by_tier: dict[int, list[DomainNode]] = {}
        for one in root.below():
            if one.tier <= tier and (not need or self._could_hold(one, need, evicts)):
                by_tier.setdefault(one.tier, []).append(one)
        return [by_tier[key] for key in sorted(by_tier)]

    def _could_hold(self, domain: DomainNode, need: Vector, evicts: bool) -> bool:
        """Whether a domain has, or will have, what is needed of everything but cards; or had, if others left."""
        used, total = self._use_of(domain)
        known = [name for name in need if self.session.placer.table.column_of(name) is not None]
        return all(total.get(name, 0) - (0 if evicts else used.get(name, 0)) >= need[name] for name in known)

    # How good domains are --------------------------------------------------------------------------------------------

    def score_domains(self, sub: SubStanding, domains: Sequence[DomainNode]) -> Mapping[str, float]:
        """By how full a domain is with the sub group; among the best those where more of its pods are already."""
        asked = total_of(pod.requests for pod in sub.pods.values() if pod.status is PodStatus.PENDING)
        shares = {one.name: self._fullness(one, asked) for one in domains}
        best = max(shares.values(), default=0.0)
        ties = [name for name, value in shares.items() if value == best]
        if len(ties) > 1:
            for name in ties:
                shares[name] += self._part_in(sub, self.session.domains.nodes[name])
        return {name: BEST * self.arguments.weight * value for name, value in shares.items()}

    def _fullness(self, domain: DomainNode, asked: Vector) -> float:
        """The mean of the parts of a domain that are used once what is asked for is there; nothing where it is not."""
        used, total = self._use_of(domain)
        whole = weights = 0.0
        for name, weight in self.weights.items():
            wanted = asked.get(name, 0)
            if not wanted or not weight:
                continue
            weights += weight
            have, taken = total.get(name, 0), used.get(name, 0) + wanted
            if taken > have:
                return 0.0
            whole += weight * taken / have
        return whole / weights if weights else 0.0

    def _use_of(self, domain: DomainNode) -> tuple[Vector, Vector]:
        """What of a domain is used, and what there is of it."""
        if self._used_at != self.session.version:
            self._used.clear()
            self._used_at = self.session.version
        nodes = self.session.snapshot.nodes
        if f"{domain.name} used" not in self._used:
            table = self.session.placer.table
            rows = [table.row_of(name) for name in domain.nodes]
            used = (table.total[:, rows] - table.free[:, rows]).sum(axis=1) if rows else []
            self._used[f"{domain.name} used"] = dict(zip(table.resources, map(float, used), strict=bool(rows)))
            self._used[f"{domain.name} total"] = total_of(nodes[name].allocatable for name in domain.nodes)
        return self._used[f"{domain.name} used"], self._used[f"{domain.name} total"]

    def _part_in(self, sub: SubStanding, domain: DomainNode) -> float:
        """Which part of a sub group's pods stands in a domain."""
        there = sum(pod.node in domain.nodes for pod in sub.pods.values() if pod.status not in ENDED and pod.node)
        return there / max(1, len(sub.pods))

    # How good nodes are ----------------------------------------------------------------------------------------------

    def score_pod(self, pod: PodStanding, rows: IntArray) -> FloatArray | None:
        """Near the rest of its group, or for a pod of no near group, in domains that are in use."""
        names = self.session.placer.table.names
        if pod.owner.near is None and pod.sub.near is None:
            if not self.arguments.scores_others or not self.session.domains.is_any:
                return None
            values = [self._normal_score(pod, names[row]) for row in rows.tolist()]
        else:
            values = self._near_scores(pod, [names[row] for row in rows.tolist()])
        return np.array(values) * (BEST * self.arguments.weight)

    def _near_scores(self, pod: PodStanding, nodes: list[str]) -> list[float]:
        domains = self.session.domains
        home = domains.nodes.get(pod.owner.domain or pod.sub.domain)
        if home is None:
            return [0.0] * len(nodes)
        leaves = [domains.leaf_of(node) for node in nodes]
        values = [self._nearness(home, leaf) for leaf in leaves]
        best = max(values)
        if values.count(best) > 1:
            standing = Counter(
                domains.leaf_of(one.node).name
                for one in pod.owner.pods.values()
                if one.node and one.status not in ENDED
            )
            count = max(1, len(pod.owner.pods))
            values = [
                value + standing[leaf.name] / count if value == best else value
                for value, leaf in zip(values, leaves, strict=True)
            ]
        return values

    def _nearness(self, home: DomainNode, leaf: DomainNode) -> float:
        if leaf is home:
            return 1.0
        domains = self.session.domains
        common = domains.common(home.name, leaf.name) or domains.top
        widest, nearest = domains.top.tier, domains.tier_least
        return (widest - common.tier) / max(1, widest - nearest)

    def _normal_score(self, pod: PodStanding, node: str) -> float:
        """The mean over tiers of how full the node's domains are; a tier in which it stands nowhere counts as full."""
        domains = self.session.domains
        by_tier = {one.tier: one for one in domains.leaf_of(node).ancestors()}
        whole = weights = 0.0
        for tier in sorted({one.tier for one in domains.nodes.values()}):
            weight = self.arguments.fading ** (tier - 1) if tier > 1 else 1.0
            weights += weight
            whole += weight * (self._fullness(by_tier[tier], pod.requests) if tier in by_tier else 1.0)
        return whole / weights if weights else 0.0


def _narrower(first: DomainNode, second: DomainNode) -> DomainNode | None:
    """The lower of two domains, one of which is below the other; `None` where neither is."""
    if second in first.ancestors():
        return first
    return second if first in second.ancestors() else None


POLICY = Policy(name="network-topology-aware", arguments=Arguments, build=build)
