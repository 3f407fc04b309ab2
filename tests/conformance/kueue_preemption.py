"""Preemption cases: for an incoming workload with given flavors, who has to leave?"""

from __future__ import annotations

from muster.dialects.kueue.read_workloads import WorkloadReader
from muster.engine.fair_victims import find_fair_victims
from muster.engine.holders import Holder
from muster.engine.state import EngineState
from muster.engine.tree import QuotaNode
from muster.engine.victims import Preemptor, VictimSearch, candidate_order
from muster.model.fields import Fields
from muster.model.queue import Queue
from muster.model.resources import FlavorResource
from tests.conformance.cases import Case, expect_equal
from tests.conformance.kueue_flavors import incoming_workload
from tests.conformance.kueue_objects import options_for, state_for


def run_targets(case: Case) -> None:
    """Compare victims and reasons; those told to go before the case began are counted only."""
    state = state_for(case)
    search, preemptor = _search(state), _preemptor(case, state)
    is_fair = state.settings.fair_sharing is not None
    victims = find_fair_victims(search, preemptor) if is_fair else search.find(preemptor)
    told = {v.holder.workload.key: v.code.value for v in victims if not v.holder.workload.is_evicted}
    expect_equal("targets", told, case.body["expect"]["targets"])
    expect_equal("targets count", len(victims), case.body["expect"]["targetsCount"])


def _search(state: EngineState) -> VictimSearch:
    return VictimSearch(holders=state.holders, ledger=state.ledger, settings=state.settings, now=state.now)


def _preemptor(case: Case, state: EngineState) -> Preemptor:
    workload = incoming_workload(case)
    requests: dict[FlavorResource, int] = {}
    contested = set()
    given = {row["name"]: row for row in case.body["assignment"]["podSets"]}
    admitted = {g.name: g.usage for g in workload.admission.pod_sets} if workload.admission is not None else {}
    for pod_set in workload.pod_sets:
        row = given.get(pod_set.name)
        if row is None:
            continue
        totals = admitted.get(pod_set.name) or {r: a * pod_set.count for r, a in pod_set.requests.items()}
        for resource, cell in row["flavors"].items():
            key = (cell["flavor"], resource)
            requests[key] = requests.get(key, 0) + totals.get(resource, 0)
            if cell["mode"] == "Preempt":
                contested.add(key)
    queue = state.tree.nodes[case.body["targetClusterQueue"]]
    return Preemptor(workload=workload, queue=queue, requests=requests, contested=frozenset(contested))


def run_candidates_ordering(case: Case) -> None:
    """Sort candidates by who goes first."""
    options = options_for(case)
    reader = WorkloadReader(settings=options.settings)
    holders, used = [], {}
    for row in case.body["candidates"]:
        name = row["clusterQueue"]
        node = QuotaNode(Queue(name=name, title=name, is_leaf=True))
        holder = Holder(reader.read(Fields.of(row["workload"])), node, {}, frozenset())
        holders.append(holder)
        is_used = case.body["config"]["admissionFairSharingEnabled"]
        used[holder.workload.key] = row.get("localQueueFairSharingUsage", 0.0) if is_used else 0.0
    own = case.body["preemptorClusterQueue"]
    ordered = sorted(holders, key=lambda h: candidate_order(h, own, options.now, used[h.workload.key]))
    got = [holder.workload.key.removeprefix("/") for holder in ordered]
    expect_equal("order", got, case.body["expect"]["order"])
