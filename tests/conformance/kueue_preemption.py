"""Preemption cases: for an incoming workload with given flavors, who has to leave?"""

from __future__ import annotations

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
from muster.dialects.kueue.read_workloads import WorkloadReader


def run_targets(case: Case) -> None:
    """Compare victims and reasons; those told to go before the case began are counted only."""
    state = state_for(case)
    victims = _search(state).find(_preemptor(case, state))
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
    holders = []
    for row in case.body["candidates"]:
        name = row["clusterQueue"]
        node = QuotaNode(Queue(name=name, title=name, is_leaf=True))
        holders.append(Holder(reader.read(Fields.of(row["workload"])), node, {}, frozenset()))
    own = case.body["preemptorClusterQueue"]
    ordered = sorted(holders, key=lambda holder: candidate_order(holder, own, options.now))
    got = [holder.workload.key.removeprefix("/") for holder in ordered]
    expect_equal("order", got, case.body["expect"]["order"])
