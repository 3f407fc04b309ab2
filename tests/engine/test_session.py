"""Sessions: what is placed, promised and told to go adds up, and every change can be undone."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from muster.dialects.volcano.configuration import default_tiers
from muster.engine.profile import PolicyUse
from muster.engine.session import Session, phase_at_close
from muster.engine.stages.groups import GROUP_STAGES, run_stages
from muster.engine.vectors import total_of
from muster.model.groups import HOLDING, GroupPhase, PodStatus
from tests.groups import group, node, pod, queue, session, snapshot, standing
from tests.support import proof_count

COUNTED = HOLDING | {PodStatus.PIPELINED}
STAGES = tuple(GROUP_STAGES)
DEFAULT = tuple(use for tier in default_tiers() for use in tier.policies)
QUEUE_POLICIES = ("proportion", "capacity", PolicyUse(name="capacity", arguments={"hierarchy": True}))


def random_session(seed: int) -> Session:
    """Nodes, queues, groups and pods of which some run, leave or have ended."""
    chance = Random(seed)
    nodes = [node(f"n{index}", chance.randint(1, 8)) for index in range(chance.randint(1, 5))]
    above = queue("team", capability={"cpu": chance.randint(4, 20) * 1000} if chance.random() < 0.5 else None)
    queues = [
        queue(
            f"q{index}",
            parent="team" if chance.random() < 0.5 else "",
            weight=chance.randint(1, 3),
            priority=chance.randint(0, 1),
            capability={"cpu": chance.randint(1, 20) * 1000} if chance.random() < 0.3 else None,
            deserved={"cpu": chance.randint(0, 8) * 1000} if chance.random() < 0.5 else {},
            is_open=chance.random() < 0.9,
            is_reclaimable=chance.random() < 0.8,
        )
        for index in range(chance.randint(1, 3))
    ]
    groups, pods = [], []
    free = {one.name: one.allocatable["cpu"] for one in nodes}
    for index in range(chance.randint(1, 6)):
        count = chance.randint(1, 5)
        least = chance.randint(0, count)
        phase = chance.choice([GroupPhase.PENDING, GroupPhase.INQUEUE, GroupPhase.RUNNING])
        asked = {"cpu": least * 1000} if chance.random() < 0.7 else None
        groups.append(
            group(
                f"g{index}",
                minimum=least,
                queue=chance.choice(queues).name,
                priority=chance.randint(0, 3),
                phase=phase,
                resources_least=asked,
            )
        )
        for number in range(count):
            cpu = chance.choice([0, 0.5, 1, 2])
            fitting = [name for name, left in free.items() if left >= cpu * 1000]
            name = chance.choice(fitting) if fitting and phase is GroupPhase.RUNNING else ""
            if name:
                free[name] -= int(cpu * 1000)
            how = {"status": PodStatus.RELEASING} if name and chance.random() < 0.1 else {}
            one = pod(f"g{index}-w-{number}", f"g{index}", cpu=cpu, node=name, priority=chance.randint(0, 2), **how)
            pods.append(one)
    tail = chance.choice(QUEUE_POLICIES)
    policies = [use for use in DEFAULT if use.name != "proportion"]
    return session(snapshot(nodes, [*queues, above], groups, pods), *policies, tail)


def facts(given: Session) -> tuple[object, ...]:
    """All that a session counts."""
    return (
        {key: (one.status, one.node, one.row, one.held) for key, one in given.pods.items()},
        {key: (+one.by_status, one.idle_best_effort, dict(one.allocated)) for key, one in given.groups.items()},
        {name: (dict(one.allocated), [dict(total) for total in one.totals]) for name, one in given.queues.items()},
        given.leaving.facts(),
        {row: set(pods) for row, pods in given.on_row.items() if pods},
        given.placer.table.free.tolist(),
        sorted(given.outcome.evicted),
    )


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(proof_count(2000)))
def test_whatever_is_decided_adds_up(seed):
    given = random_session(seed)
    running = {key for key, one in given.pods.items() if one.status is PodStatus.RUNNING}
    run_stages(given, STAGES)
    check(given, running)


def check(given: Session, running: set[str]) -> None:
    """No node is given twice, no count is off, no group starts below its minimum, only running pods are told to go."""
    for name, known in given.snapshot.nodes.items():
        on_node = [one for one in given.pods.values() if one.node == name]
        held = total_of(one.requests for one in on_node if one.status in HOLDING)
        soon = total_of(one.requests for one in on_node if one.status in COUNTED)
        assert held.get("cpu", 0) <= known.allocatable["cpu"], f"{name} is given twice"
        assert soon.get("cpu", 0) <= known.allocatable["cpu"], f"{name} is promised twice"
    for one in given.groups.values():
        assert +one.by_status == Counter(each.status for each in one.pods.values())
        assert one.allocated == total_of(each.requests for each in one.pods.values() if each.status in COUNTED)
        starts = [each for each in one.pods.values() if each.status is PodStatus.BINDING]
        assert not starts or one.ready + one.idle_best_effort >= one.count_least, f"{one.key} starts below its minimum"
    for name, standing_queue in given.queues.items():
        of_queue = [one for one in given.pods.values() if one.owner.queue == name and one.status in COUNTED]
        assert standing_queue.allocated == total_of(one.requests for one in of_queue)
    counted = {id(total): total for one in given.queues.values() for total in one.totals}
    for key, total in counted.items():
        members = [one for one in given.queues.values() if any(id(each) == key for each in one.totals)]
        assert total == total_of(one.allocated for one in members), "a branch of queues does not add up"
    assert set(given.outcome.evicted) <= running
    assert set(given.outcome.binds) == {key for key, one in given.pods.items() if one.status is PodStatus.BINDING}


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(proof_count(1000)))
def test_a_rollback_restores_everything(seed):
    given, chance = random_session(seed), Random(seed)
    marks = []
    for _ in range(20):
        marks.append((given.checkpoint(), facts(given)))
        one = chance.choice(list(given.pods.values()))
        row = chance.randrange(given.rows)
        if one.status is PodStatus.PENDING:
            chance.choice([given.allocate, given.pipeline])(one, row, ())
        elif one.status is PodStatus.RUNNING and one.row >= 0:
            given.evict(one)
        if chance.random() < 0.2:
            mark, before = marks[chance.randrange(len(marks))]
            given.rollback(mark)
            assert facts(given) == before
            marks = [entry for entry in marks if entry[0][0] < mark[0]]


def test_the_same_snapshot_gives_the_same_plan():
    outcomes = []
    for _ in range(2):
        given = random_session(7)
        run_stages(given, STAGES)
        outcomes.append(facts(given))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("ready", "least", "phase", "is_short", "want"),
    [
        pytest.param(0, 2, GroupPhase.PENDING, True, GroupPhase.PENDING, id="waits"),
        pytest.param(0, 2, GroupPhase.INQUEUE, True, GroupPhase.INQUEUE, id="taken up"),
        pytest.param(2, 2, GroupPhase.INQUEUE, False, GroupPhase.RUNNING, id="runs"),
        pytest.param(1, 2, GroupPhase.RUNNING, True, GroupPhase.UNKNOWN, id="some run, the others cannot"),
        pytest.param(0, 0, GroupPhase.PENDING, False, GroupPhase.COMPLETED, id="nothing to wait for"),
    ],
)
def test_phases_at_the_end(ready, least, phase, is_short, want):
    one = standing("a", least=least, ready=ready)
    one.phase = phase
    assert phase_at_close(one, is_unschedulable=is_short) is want
