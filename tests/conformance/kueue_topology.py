"""Topology search cases: nodes, pods on them, usage and pod sets lead to which domains?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.dialects.kueue.gates import FeatureGates
from muster.dialects.kueue.read_queues import read_flavor, read_topology_levels
from muster.dialects.kueue.read_workloads import read_topology_request
from muster.dialects.kueue.settings import settings_of
from muster.engine.topology import PlacedUse, Topologies
from muster.model.fields import Fields
from muster.model.flavor import Flavor
from muster.model.labels import read_preferred_terms, read_required_terms, read_tolerations
from muster.model.podspec import PodShape
from muster.model.topology import (
    HOSTNAME,
    PlacedPods,
    Placement,
    PlacementAsk,
    PlacementRefusal,
    TopologyAssignment,
    TopologyRules,
    read_bound_pod,
    read_node,
)
from muster.model.workload import TopologyRequest
from tests.conformance.cases import Case, Mismatch, expect_equal
from tests.conformance.kueue_objects import resource_amounts

Object = Mapping[str, Any]

GROUP_WORKLOAD = "kueue.x-k8s.io/is-group-workload"


def run_topology_search(case: Case) -> None:
    """Search as the case says, and compare place by place; of a refusal only that there is one."""
    gates = _gates(case)
    rules = settings_of(gates).topology_rules
    flavor = _flavor(case)
    topologies = Topologies([flavor], rules)
    for obj in case.body["objects"]:
        feed(topologies, obj)
    for row in _usage_rows(case, flavor, rules):
        use = TopologyAssignment((), (PlacedPods(tuple(row["values"]), row["count"]),))
        topologies.charge(PlacedUse(flavor.name, use, resource_amounts(row["singlePodRequests"])))
    topologies.commit()
    asks = {flavor.name: [_ask(pod_set, gates) for pod_set in case.body["podSets"]]}
    found = _search(case, topologies, asks, gates)
    for wanted in case.body["expect"]["podSets"]:
        _compare(wanted, found.get(wanted["podSet"]))


def feed(topologies: Topologies, obj: Object) -> None:
    """Nodes, and pods that no assignment accounts for; other objects have no part in the search."""
    if obj["kind"] == "Node":
        topologies.put_node(read_node(Fields.of(obj)))
    elif obj["kind"] == "Pod":
        pod = read_bound_pod(Fields.of(obj), limits_as_requests=False)
        if pod is not None:
            topologies.put_pod(pod)


def _gates(case: Case) -> FeatureGates:
    return FeatureGates(dict((case.body.get("config") or {}).get("featureGates") or {}))


def _flavor(case: Case) -> Flavor:
    objects = [Fields.of(obj) for obj in case.body["objects"]]
    topologies = {
        obj.child("metadata").text("name"): read_topology_levels(obj)
        for obj in objects
        if obj.text("kind") == "Topology"
    }
    return next(read_flavor(obj, topologies) for obj in objects if obj.text("kind") == "ResourceFlavor")


def _usage_rows(case: Case, flavor: Flavor, rules: TopologyRules) -> Iterable[Object]:
    """The usage that counts: what is gathered over flavors replaces the flavor's own where hosts are shared."""
    shared = ("priorSiblingFlavorUsage", "aggregatedDomainUsages")
    is_shared = rules.merges_flavors and flavor.topology_levels[-1] == HOSTNAME
    names = [name for name in shared if name in case.body] if is_shared else []
    return [row for name in names or ["priorOwnUsage"] for row in case.body.get(name) or ()]


def _ask(pod_set: Object, gates: FeatureGates) -> PlacementAsk:
    fields, previous = Fields.of(pod_set), pod_set.get("previousAssignment")
    affinity = Fields.of({"affinity": {"nodeAffinity": pod_set.get("nodeAffinity")}})
    return PlacementAsk(
        name=fields.text("name"),
        count=fields.integer("count"),
        shape=PodShape(
            requests=resource_amounts(pod_set["singlePodRequests"]),
            node_selector=fields.text_map("nodeSelector"),
            affinity=read_required_terms(affinity),
            preferred=read_preferred_terms(affinity),
            tolerations=read_tolerations(fields),
        ),
        request=_request(pod_set),
        previous=_assignment(previous) if previous and gates.is_on("ElasticJobsViaWorkloadSlicesWithTAS") else None,
    )


def _request(pod_set: Object) -> TopologyRequest | None:
    if pod_set.get("topologyRequest") is None:
        return None
    group = pod_set.get("podSetGroupName")
    grouped = {"podSetGroupName": group} if group else {}
    return read_topology_request(Fields.of({**pod_set["topologyRequest"], **grouped}))


def _assignment(assignment: Object) -> TopologyAssignment:
    domains = tuple(PlacedPods(tuple(domain["values"]), domain["count"]) for domain in assignment["domains"])
    return TopologyAssignment(tuple(assignment["levels"]), domains)


def _search(
    case: Case, topologies: Topologies, asks: Mapping[str, list[PlacementAsk]], gates: FeatureGates
) -> Mapping[str, Placement]:
    workload = case.body.get("workload") or {}
    unhealthy = (workload.get("status") or {}).get("unhealthyNodes") or ()
    if not unhealthy:
        return topologies.find(asks)
    current = {name: _assignment(given) for name, given in case.body["workloadTopologyDomains"].items()}
    if gates.is_on("SkipReassignmentForPodOwnedWorkloads") and is_pod_owned(workload):
        return current
    return topologies.replace(asks, current, unhealthy[0]["name"])


def is_pod_owned(workload: Object) -> bool:
    """Whether a workload is one pod, which no assignment can move."""
    metadata = workload["metadata"]
    owners = metadata.get("ownerReferences") or ()
    is_group = (metadata.get("annotations") or {}).get(GROUP_WORKLOAD) == "true"
    return len(owners) == 1 and (owners[0]["kind"], owners[0]["apiVersion"]) == ("Pod", "v1") and not is_group


def _compare(wanted: Object, got: Placement | None) -> None:
    pod_set, assignment = wanted["podSet"], wanted.get("assignment")
    if assignment is not None:
        expect_equal(f"the places of pod set {pod_set!r}", got, _assignment(assignment))
    elif not isinstance(got, PlacementRefusal):
        raise Mismatch(f"the places of pod set {pod_set!r}\n      got  {got}\n      want none: {wanted.get('reason')}")
