"""Builders for the fit filters: nodes by their labels, pods as Kubernetes writes them, and a placer that knows both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import Demand, TableNode, demand
from muster.engine.policy import Hooks
from muster.model.fields import Fields
from muster.model.labels import NodeTerms, Taint
from muster.model.pod_rules import PodRules, read_pod_rules
from muster.model.topology import HOSTNAME, Node

ZONE = "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node(name: str, labels: Mapping[str, str] | None = None, *taints: Taint, **fields: Any) -> Node:
    """A node with its host name as a label; a zone is written as the part of the name before the dash."""
    zone = {ZONE: name.partition("-")[0]} if "-" in name else {}
    return Node(name=name, labels={HOSTNAME: name, **zone, **(labels or {})}, taints=taints, **fields)


def world(*nodes: Node, hooks: Iterable[Hooks] = (), cpu: int = 10_000, pods: int = 100) -> Placer:
    """A placer for these nodes."""
    table = NodeTable(TableNode(name=one.name, amounts={"cpu": cpu, "memory": 10_000, "pods": pods}) for one in nodes)
    return Placer(table, list(hooks), PodsOnNodes(NodeFacts(nodes)))


def rules(
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    *,
    namespace: str = "team",
    volumes: tuple[NodeTerms, ...] = (),
    **metadata: Any,
) -> PodRules:
    """The rules of a pod with these labels and this spec."""
    pod = {"metadata": {"namespace": namespace, "labels": labels or {}, **metadata}, "spec": spec or {}}
    return read_pod_rules(Fields.of(pod), volumes=volumes)


def asks(one: PodRules, cpu: int = 100) -> Demand:
    return replace(demand({"cpu": cpu, "pods": 1}), rules=one)


def names(placer: Placer, one: PodRules) -> str:
    """The nodes that a pod fits on, as "a b"."""
    fits = placer.fits(asks(one)).tolist()
    return " ".join(name for name, is_fit in zip(placer.table.names, fits, strict=True) if is_fit)


def put(placer: Placer, name: str, one: PodRules, count: int = 1) -> None:
    """So many pods with these rules run on a node."""
    placer.charge(placer.table.row_of(name), asks(one), *[()] * count)


# Parts of a pod's spec -----------------------------------------------------------------------------------------------


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def near(key: str = ZONE, selector: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """One term of pod affinity; without a selector it is about no pod."""
    return {"topologyKey": key, **({} if selector is None else {"labelSelector": selector}), **fields}


def app(name: str) -> dict[str, Any]:
    return {"matchLabels": {"app": name}}


def affinity(kind: str, *terms: Mapping[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: list(terms)}}}


def likes(kind: str, *terms: tuple[int, Mapping[str, Any]]) -> dict[str, Any]:
    weighed = [{"weight": weight, "podAffinityTerm": term} for weight, term in terms]
    return {"affinity": {kind: {PREFERRED: weighed}}}


def spread(key: str = ZONE, selector: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": HARD}
    return {**base, **({} if selector is None else {"labelSelector": selector}), **fields}


def spreads(*constraints: Mapping[str, Any]) -> dict[str, Any]:
    return {"topologySpreadConstraints": list(constraints)}


def ports(*wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {"containers": [{"ports": list(wanted)}]}
