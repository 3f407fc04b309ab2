"""A case of Volcano's as a session: its objects read, its configuration built, its own tier flags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster.app.policies import Catalogue, build_tiers
from muster.dialects.volcano.configuration import SchedulerConfiguration, read_configuration
from muster.dialects.volcano.read import read
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.policy import Policy
from muster.engine.session import Session
from muster.engine.slots import NodeSlots
from muster.model.fields import Fields
from muster.model.groups import GroupSnapshot, MeasuredUse, NetworkDomain, Sharding
from muster.model.times import parse_moment
from tests.conformance.cases import Case, Mismatch

NOON = 12 * 3600.0  # no case's window is about noon


def open_session(case: Case, test_policies: tuple[Policy[Any], ...] = ()) -> tuple[Session, SchedulerConfiguration]:
    """The session of a case, before any action."""
    body = case.body
    conf = body["conf"]
    configuration = read_configuration(
        Fields.of({name: conf[name] for name in ("actions", "tiers", "configurations") if name in conf}),
        absent_flags=False,
    )
    reading = read([Fields.of(obj) for obj in body["objects"]], NOON)
    if reading.refused:
        raise Mismatch(f"objects were refused: {[(name, str(problem)) for name, problem in reading.refused]}")
    snapshot = _overridden(reading.snapshot, body)
    catalogue = Catalogue()
    for policy in test_policies:
        catalogue.policies[policy.name] = policy
    tiers = build_tiers(configuration.tiers, catalogue)
    slots = NodeSlots(Placer(NodeTable(), (), PodsOnNodes(NodeFacts())), flavors={})
    return Session(snapshot, slots, tiers.tiers, configuration.options), configuration


def _measured(given: dict[str, Any]) -> MeasuredUse:
    cpu, memory = (next(iter(given[name].values()), 0) for name in ("CPUUsageAvg", "MEMUsageAvg"))
    day = given["MetricsTime"]
    at = 0.0 if day.startswith("0001") else parse_moment(day[:19] + "Z", "MetricsTime")
    return MeasuredUse(cpu_percent=float(cpu), memory_percent=float(memory), measured_at=at)


def _overridden(snapshot: GroupSnapshot, body: dict[str, Any]) -> GroupSnapshot:
    """What a case gives beside its objects."""
    sharding = body["conf"].get("sharding")
    if sharding:
        shard = Sharding(nodes=frozenset(sharding["nodesInShard"]), is_hard=sharding["mode"] == "hard")
        snapshot = replace(snapshot, sharding=shard)
    usage = body["expect"].get("nodeUsage")
    if usage:
        measured = {node: _measured(one) for node, one in usage.items()}
        now = max(one.measured_at or 0.0 for one in measured.values())
        snapshot = replace(snapshot, measured=measured, now=now)
    override = body.get("hyperNodeOverride")
    if override:
        tiers = {name: int(tier) for tier, names in override["byTier"].items() for name in names}
        known = snapshot.domains
        domains = {
            name: NetworkDomain(
                name=name,
                tier=tiers.get(name, known[name].tier if name in known else 1),
                tier_name=known[name].tier_name if name in known else "",
                domains=known[name].domains if name in known else (),
                nodes=tuple(nodes),
            )
            for name, nodes in override["realNodes"].items()
        }
        snapshot = replace(snapshot, domains=domains)
    names = body.get("hyperNodeTierNames")
    if names:
        by_tier = {tier: name for name, tier in names.items()}
        snapshot = replace(
            snapshot,
            domains={key: replace(one, tier_name=by_tier.get(one.tier, "")) for key, one in snapshot.domains.items()},
        )
    return snapshot
