"""Kinds: what is kept of a kind of workload changes no decision; every search could as well start from nothing."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from muster.engine.cycle import Cycle
from muster.engine.decide import decide
from muster.engine.flavors import FlavorSearch
from muster.engine.state import EngineState
from muster.model.flavor import Flavor
from muster.model.labels import Taint
from muster.model.plan import Plan
from muster.model.queue import Queue, ResourceGroup
from muster.model.snapshot import Snapshot
from muster.model.workload import Workload
from tests.engine.builders import let_go
from tests.properties.strategies import a_contention, maybe, of_its_kind
from tests.support import proof_count

STATES = 5_000
BLOCKS = 5
CYCLES = 8
ALIKE = 3


def many_alike(chance: Random) -> Snapshot:
    """A contention state with several waiting workloads of each kind, of one to three pod sets."""
    snapshot = a_contention(chance)
    workloads: dict[str, Workload] = {}
    for key, one in snapshot.workloads.items():
        if one.admission is not None:
            workloads[key] = one
            continue
        first = one.pod_sets[0]
        parts = (first,) if maybe(chance, one_in=2) else tuple(replace(first, name=name) for name in ("a", "b", "c"))
        kind = of_its_kind(replace(one, pod_sets=parts))
        for number in range(ALIKE):
            name = f"{key}-{number}"
            workloads[name] = replace(kind, key=name, uid=name, queued_at=float(chance.randint(0, 9)))
    is_split = maybe(chance, one_in=2)
    queues = {name: split(one) if is_split else one for name, one in snapshot.queues.items()}
    flavors = {name: tainted(one) if maybe(chance, one_in=4) else one for name, one in snapshot.flavors.items()}
    return replace(snapshot, workloads=workloads, queues=queues, flavors=flavors)


def split(one: Queue) -> Queue:
    """The same queue with a group for each resource."""
    groups = (ResourceGroup((name,), group.flavors) for group in one.groups for name in group.resources)
    return replace(one, groups=tuple(groups))


def tainted(one: Flavor) -> Flavor:
    return replace(one, taints=(Taint("reserved", "", "NoSchedule"),))


def play(number: int) -> list[Plan]:
    """Cycles in which workloads come, go and come again; the plans, but for the tries they took."""
    chance = Random(number)
    state = EngineState(many_alike(chance))
    plans: list[Plan] = []
    for cycle in range(CYCLES):
        state.begin_cycle(state.now + 1)
        plan = decide(state)
        state.apply(plan)
        let_go(state, plan.evictions)
        plans.append(replace(plan, steps=0))
        for key in [key for key in sorted(state.workloads) if state.workloads[key].admission is not None]:
            if maybe(chance, one_in=4):
                done = state.workloads[key]
                state.drop(key)
                name = f"{key.partition('+')[0]}+{cycle}"
                state.take(replace(done, key=name, uid=name, admission=None, is_admitted=False, is_evicted=False))
    return plans


def forget_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every search start from nothing."""
    victims_for = Cycle.victims_for

    def asked_anew(cycle, *asked):
        cycle.asked.clear()
        return victims_for(cycle, *asked)

    monkeypatch.setattr(FlavorSearch, "_kind", FlavorSearch._new_kind)
    monkeypatch.setattr(Cycle, "victims_for", asked_anew)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_is_kept_of_a_kind_changes_nothing(block, monkeypatch):
    numbers = range(block, proof_count(STATES), BLOCKS)
    kept = [play(number) for number in numbers]
    forget_everything(monkeypatch)
    for number, plans in zip(numbers, kept, strict=True):
        assert play(number) == plans, f"play({number}) is another one when every search starts from nothing"
