"""Files of Kueue's, Volcano's, YuniKorn's and plain objects give one plan in which nothing is sold twice: I1 to I5.

I1, I3 and I5 are checked by the library of the simulator on the objects as they would be once the plan is carried out;
I2 and I4 by what the engine has counted and by the groups themselves. The bounds of queues that are not Kueue's are
restated here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import muster.app.plan
from muster.app.plan import Admitted, PlanOptions, PlanReport, plan_objects
from muster.engine.invariants import node_facts
from muster.engine.slots import NodeSlots
from muster.engine.state import EngineState
from muster.model.documents import Document
from muster.sim.invariants_places import crowded_cards, crowded_nodes, wrong_cards
from muster.sim.invariants_quota import Quotas
from tests.properties.mixed_files import GPU, Object, mixed_file
from tests.properties.plan_outcome import Outcome
from tests.support import proof_count

BLOCK = 50


def violations(objects: list[Object], report: PlanReport, slots: NodeSlots) -> Iterator[str]:
    """Everything that must not be in the outcome of a plan."""
    outcome: Any = Outcome(objects, report)
    yield from Quotas().violations(outcome, [])
    yield from _bounds_of_others(objects, report, outcome)
    yield from _given_back(outcome, slots)
    yield from crowded_nodes(outcome)
    yield from _broken_gangs(objects, report)
    yield from crowded_cards(outcome)
    yield from wrong_cards(outcome)


def _bounds_of_others(objects: list[Object], report: PlanReport, outcome: Outcome) -> Iterator[str]:
    """I1 for the queues of Volcano and YuniKorn: no more starts than they may have, beside what runs."""
    bounds = dict[str, dict[str, int]]()
    for one in objects:
        if one["kind"] == "Queue" and "capability" in one["spec"]:
            bounds[one["metadata"]["name"]] = {name: int(text) for name, text in one["spec"]["capability"].items()}
        if one["metadata"]["name"] == "yunikorn-configs":
            [first, _] = json.loads(one["data"]["queues.yaml"])["partitions"][0]["queues"][0]["queues"]
            most = first["resources"]["max"]
            bounds["root.first"] = {"cpu": int(most["vcore"]), GPU: int(most[GPU])}
    queue_of = {group.key: group.queue for group in report.groups}
    queue_of |= {step.workload: step.queue for step in report.steps if isinstance(step, Admitted)}
    held, added = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    new = {change.key for change in outcome.changes}
    for key, pod in outcome.by_resource.get("pods", {}).items():
        queue = queue_of.get(_owner(key.name, pod), "")
        for resource in bounds.get(queue, ()):
            amount = int(pod["spec"]["containers"][0]["resources"]["limits"].get(resource, 0))
            held[queue, resource] += amount
            added[queue, resource] += amount if key in new else 0
    for (queue, resource), amount in held.items():
        if amount > bounds[queue][resource] and added[queue, resource]:
            yield f"I1: {queue} gives out {amount} of {resource} and has {bounds[queue][resource]}"


def _owner(name: str, pod: Object) -> str:
    """The workload or group that a pod of an outcome is of."""
    group = pod["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name")
    if group:
        return f"ns/{group}"
    return f"ns/{name.rpartition('.')[0]}" if "." in name else f"ns/{name.rpartition('-w-')[0]}"


def _given_back(outcome: Outcome, slots: NodeSlots) -> Iterator[str]:
    """I2: the table has taken what the pods hold that are there, and nothing of those that went."""
    held = outcome.held()
    for name, facts in node_facts(slots).items():
        want, taken = held.get(name, Counter()), facts.taken
        if any(want[resource] != taken.get(resource, 0) for resource in ("cpu", "pods")):
            yield f"I2: {name} has given out {taken}, and its pods hold {want}"


def _broken_gangs(objects: list[Object], report: PlanReport) -> Iterator[str]:
    """I4: all that has to start together does, or nothing of it."""
    running = Counter(_owner(one["metadata"]["name"], one) for one in objects if one["kind"] == "Pod")
    for group in report.groups:
        stay = running[group.key] - len(group.evicted)
        for word, count in (("starts", len(group.binds)), ("is promised", len(group.slots))):
            if count and count + stay < group.minimum:
                yield f"I4: {group.key} {word} {count} beside {stay} and needs {group.minimum}"
    for step in report.steps:
        for pod_set in step.pod_sets if isinstance(step, Admitted) else ():
            if len(pod_set.slots) != pod_set.count:
                yield f"I4: {step.workload} has {len(pod_set.slots)} places for {pod_set.count} pods"


def check(chance: Random, monkeypatch: pytest.MonkeyPatch) -> PlanReport:
    """Plan one random file and look at what comes of it."""
    kept: list[NodeSlots] = []

    def keeping(snapshot: Any, slots: Any = None) -> EngineState:
        kept.append(slots)
        return EngineState(snapshot, slots)

    monkeypatch.setattr(muster.app.plan, "EngineState", keeping)
    objects = mixed_file(chance)
    report = plan_objects([Document(value, "test", 1) for value in objects], PlanOptions(now=0.0))
    assert not report.refused, [str(one) for one in report.refused]
    assert report.is_settled
    found = list(violations(objects, report, kept[-1]))
    assert not found, "\n".join(found)
    return report


@pytest.mark.prove
@pytest.mark.parametrize("block", range(proof_count(10_000) // BLOCK))
def test_nothing_is_sold_twice_in_mixed_files(block, monkeypatch):
    for seed in range(BLOCK * block, BLOCK * (block + 1)):
        try:
            check(Random(seed), monkeypatch)
        except Exception as problem:
            raise AssertionError(f"seed {seed}: {type(problem).__name__}: {problem}") from problem


def test_work_of_all_four_is_placed_on_cards_and_slices(monkeypatch):
    """A proof about plans that place nothing would prove nothing."""
    started: Counter[tuple[str, bool]] = Counter()
    for seed in range(40):
        report = check(Random(seed), monkeypatch)
        placed = [(group.key, group.slots.values()) for group in report.groups]
        for step in report.steps:
            if isinstance(step, Admitted):
                placed += [(report.owners[step.workload].partition(" ")[2], one.slots) for one in step.pod_sets]
        for key, slots in placed:
            for slot in slots:
                started[key.partition("/")[2][0], slot.slices is not None] += 1
    assert all(started[kind, is_sliced] >= 5 for kind in "kvyp" for is_sliced in (True, False)), started
