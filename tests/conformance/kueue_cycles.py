"""Full-cycle cases: run cycles over all objects; compare what holds quota, waits, is parked and was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.dialects.kueue.write import (
    Event,
    events_of,
    events_of_failure,
    requests_object,
    status_after_amend,
    status_after_eviction,
    status_after_finish,
    status_after_refusal,
    status_after_reserve,
)
from muster.engine.decide import decide
from muster.engine.second_pass import FIRST_DELAY_S
from muster.engine.state import EngineState
from muster.model.plan import Amend, Evict, Finish, Plan, Requeue, Reserve, Return
from tests.conformance.cases import Case, expect_equal
from tests.conformance.kueue_objects import admission_numbers, clock_of, resource_amounts, snapshot_for


class World:
    """The engine's state and the objects as a client would see them."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.now = clock_of(case)
        self.fails = bool((case.body.get("config") or {}).get("admissionError"))
        self.state = EngineState(snapshot_for(case))
        self.objects = {_key(obj): obj for obj in case.body["objects"] if obj["kind"] == "Workload"}
        self.looks_for_places = any(workload.needs_place for workload in self.state.workloads.values())
        self.had_quota = {key for key, w in self.state.workloads.items() if w.admission is not None}

    def run_cycle(self) -> Plan:
        """One cycle: plan, write, and act on what was written."""
        self.state.begin_cycle(self.now + (FIRST_DELAY_S if self.looks_for_places else 0))
        plan = decide(self.state)
        if self.fails:
            self._apply_failure(plan)
            return plan
        self.state.apply(plan)
        for decision in plan.decisions:
            self._write(plan, decision)
        return plan

    def events(self, plan: Plan) -> list[Event]:
        """What a client would be told; where writes fail, that the place of a workload could not be written."""
        if not self.fails:
            return list(events_of(plan))
        error = self.case.body["config"]["admissionError"]
        return [event for decision in plan.decisions for event in events_of_failure(decision, error)]

    def _apply_failure(self, plan: Plan) -> None:
        """Every write fails: nothing is given, and those chosen are tried again."""
        moves = []
        for decision in plan.decisions:
            if isinstance(decision, Reserve):
                queue = decision.admission.queue
                moves.append(Requeue(workload=decision.workload, queue=queue, why=Return.FAILED_AFTER_NOMINATION))
            elif isinstance(decision, Requeue):
                moves.append(decision)
        self.state.apply(Plan(cycle=plan.cycle, decisions=tuple(moves)))

    def _write(self, plan: Plan, decision: object) -> None:
        if isinstance(decision, Reserve):
            status = status_after_reserve(self.objects[decision.workload], decision, self.now)
        elif isinstance(decision, Amend):
            status = status_after_amend(self.objects[decision.workload], decision, self.now)
        elif isinstance(decision, Evict):
            status = status_after_eviction(self.objects[decision.workload], decision, self.now)
        elif isinstance(decision, Finish):
            status = status_after_finish(self.objects[decision.workload], decision, self.now)
        elif isinstance(decision, Requeue):
            workload = self.state.workloads[decision.workload]
            requests = requests_object(workload.pod_sets)
            verdict = plan.verdicts[decision.workload]
            status = status_after_refusal(self.objects[decision.workload], verdict, requests, self.now)
        else:
            return
        self.objects[decision.workload] = {**self.objects[decision.workload], "status": status}

    def admitted(self) -> dict[str, object]:
        """Every admission held, victims on their way out included."""
        return {
            key: admission_numbers(obj["status"]["admission"])
            for key, obj in self.objects.items()
            if (obj.get("status") or {}).get("admission") and _is_true(obj, "QuotaReserved")
        }


def run_one_cycle(case: Case) -> None:
    """TestSchedule and its kin: one cycle over all objects."""
    world = World(case)
    plan = world.run_cycle()
    expect = case.body["expect"]
    want_admitted = {key: admission_numbers(value) for key, value in expect["admitted"].items()}
    expect_equal("admitted", world.admitted(), want_admitted)
    new = {key for key in world.admitted() if key not in world.had_quota}
    expect_equal("new admissions", new, set(expect["newAdmissions"]))
    expect_equal("evicted", _evicted(world.objects, plan), expect["evicted"])
    _expect_queues(world.state, expect)
    _expect_workloads(world.objects, expect["workloads"])
    if "events" in expect:
        got = [(event.type, event.object, event.reason) for event in events_of(plan)]
        want = [(event["type"], event["object"], event["reason"]) for event in expect["events"]]
        expect_equal("events", got, want)
    _expect_counts("skipped preemptions", plan.skipped_preemptions, expect.get("skippedPreemptions"))
    if "preemptionTargetRecomputations" in expect:
        counts = expect["preemptionTargetRecomputations"]
        want = {(queue, outcome): n for queue, row in counts.items() for outcome, n in row.items() if n}
        got = {key: n for key, n in plan.recomputed_targets.items() if key[0] in counts}
        expect_equal("recomputed targets", got, want)


def _expect_counts(what: str, got: Mapping[str, int], want: Mapping[str, int] | None) -> None:
    if want is not None:
        expect_equal(what, {k: v for k, v in got.items() if v}, {k: v for k, v in want.items() if v})


def _expect_queues(state: EngineState, expect: Mapping[str, Any]) -> None:
    waiting, parked = {}, {}
    for name, line in state.lines.items():
        if keys := {workload.key for workload in line.waiting()}:
            waiting[name] = keys
        if keys := {workload.key for workload in line.parked()}:
            parked[name] = keys
    expect_equal("pending", waiting, {name: set(keys) for name, keys in expect["pending"].items()})
    expect_equal("inadmissible", parked, {name: set(keys) for name, keys in expect["inadmissible"].items()})


def _expect_workloads(objects: Mapping[str, Any], want: list[Any]) -> None:
    expect_equal("workloads", set(objects), {_key(obj) for obj in want})
    for obj in want:
        expect_equal(f"status of {_key(obj)}", _comparable(objects[_key(obj)]), _comparable(obj))


def _comparable(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A workload's status without wording; a condition is its type, status, reason and the generation seen."""
    status = obj.get("status") or {}
    return {
        "spec": obj.get("spec"),
        "admission": admission_numbers(status.get("admission")),
        "conditions": sorted(
            (c["type"], c["status"], c["reason"], c.get("observedGeneration"), c["lastTransitionTime"])
            for c in status.get("conditions") or ()
        ),
        "resourceRequests": {
            item["name"]: resource_amounts(item.get("resources")) for item in status.get("resourceRequests") or ()
        },
        "evictions": (status.get("schedulingStats") or {}).get("evictions") or [],
        "checks": {(c["name"], c["state"]) for c in status.get("admissionChecks") or ()},
        "requeueState": status.get("requeueState"),
        "reclaimablePods": status.get("reclaimablePods"),
    }


def _evicted(objects: Mapping[str, Any], plan: Plan) -> dict[str, object]:
    result: dict[str, object] = {}
    for decision in plan.evictions:
        reasons = {
            "evictionReason": _reason(objects[decision.workload], "Evicted"),
            "preemptionReason": _reason(objects[decision.workload], "Preempted"),
        }
        result[decision.workload] = {name: reason for name, reason in reasons.items() if reason}
    return result


def run_topology_cycle(case: Case) -> None:
    """One cycle with topologies: new admissions with their places, queues, events, and objects where they are given."""
    world = World(case)
    before = {key for key, w in world.state.workloads.items() if w.is_admitted and not w.unhealthy_nodes}
    plan = world.run_cycle()
    expect = case.body["expect"]
    got = {key: value for key, value in world.admitted().items() if key not in before}
    want = {key: admission_numbers(value) for key, value in expect["newAdmissions"].items()}
    expect_equal("new admissions", got, want)
    _expect_queues(world.state, expect)
    events = [(event.type, event.object, event.reason) for event in world.events(plan)]
    wanted = [(event["type"], event["object"], event["reason"]) for event in expect["events"]]
    if not expect["eventsOrdered"]:
        events, wanted = sorted(events), sorted(wanted)
    expect_equal("events", events, wanted)
    if "evicted" in expect:
        expect_equal("evicted", _evicted(world.objects, plan), expect["evicted"])
    if "workloads" in expect:
        _expect_workloads(world.objects, expect["workloads"])


def run_cycles(case: Case) -> None:
    """As many cycles as the case has workloads; only the objects at the end count."""
    world = World(case)
    for _ in range(case.body["cycles"]):
        world.run_cycle()
    _expect_workloads(world.objects, case.body["expect"]["workloads"])


def run_last_scheduling_context(case: Case) -> None:
    """A cycle, deletions, parked workloads called back, another cycle."""
    world = World(case)
    expect = case.body["expect"]
    for step in case.body["steps"]:
        if "cycle" in step:
            world.run_cycle()
            if step["cycle"] == 1:
                _expect_workloads(world.objects, expect["afterCycle1"]["workloads"])
        for key in step.get("deleteWorkloads") or ():
            world.state.drop(key)
            world.objects.pop(key, None)
        if step.get("requeueInadmissible"):
            world.state.flush_all()
    want = {key: admission_numbers(value) for key, value in expect["afterCycle2"]["admitted"].items()}
    expect_equal("admitted after cycle 2", world.admitted(), want)


def run_scan_progress(case: Case) -> None:
    """Several cycles; which flavor each workload ended in."""
    world = World(case)
    for step in case.body["steps"]:
        if "cycle" in step:
            world.run_cycle()
        if step.get("requeueInadmissible"):
            world.state.flush_all()
    for key, flavor in case.body["expect"]["admittedFlavor"].items():
        workload = world.state.workloads[key]
        given = workload.admission.pod_sets[0].flavors.values() if workload.admission is not None else ()
        expect_equal(f"flavor of {key}", next(iter(given), ""), flavor)


def _key(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata") or {}
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _is_true(obj: Mapping[str, Any], type_: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c["type"] == type_ and c["status"] == "True" for c in conditions)


def _reason(obj: Mapping[str, Any], type_: str) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((c["reason"] for c in conditions if c["type"] == type_), "")
