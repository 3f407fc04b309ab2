"""Placement through the whole engine: workloads taken in, cycles with quota, nodes and cards, plans applied.

`python -m bench.engine_places` prints the figures: gangs of one-card pods on eight-card nodes, and the public trace
pod by pod. Nothing is left out: what it costs to learn of workloads and to let them go is counted.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Iterable, Sequence

from bench.nodes import AMOUNTS, CARDS, GANG, GIB, NODES, PODS_IN_ALL
from bench.openb import hooks_for
from bench.openb_trace import SEEDS, Trace, read_trace
from muster.app.placement import NO_QUEUE, with_plain_queue
from muster.app.policies import build_tiers
from muster.engine.decide import decide
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import Demand
from muster.engine.policy import Hooks
from muster.engine.profile import DEFAULT
from muster.engine.slots import CardKinds, NodeSlots
from muster.engine.state import EngineState
from muster.model.podspec import PodShape
from muster.model.resources import CPU
from muster.model.settings import Settings
from muster.model.slices import CardRequests
from muster.model.snapshot import Snapshot
from muster.model.topology import Node
from muster.model.workload import PodSet, Workload
from muster.policies import fgd

INSTANT_S = 1e-6  # nobody runs into a deadline here
GPU = "nvidia.com/gpu"
MODEL_LABEL = "nvidia.com/gpu.product"
KINDS = CardKinds(counts=(GPU,), resources=frozenset((GPU,)), model_label=MODEL_LABEL)


def state_on(nodes: Iterable[Node], hooks: Sequence[Hooks]) -> EngineState:
    """A state that places on these nodes and counts no quota."""
    snapshot = Snapshot(
        nodes={node.name: node for node in nodes}, namespaces={"default": {}}, settings=Settings(needs_slots=True)
    )
    snapshot = with_plain_queue(snapshot, DEFAULT, ())
    slots = NodeSlots(Placer(NodeTable(), hooks, PodsOnNodes(NodeFacts())), flavors=snapshot.flavors, cards=KINDS)
    return EngineState(snapshot, slots)


def default_hooks() -> Sequence[Hooks]:
    """The policies of the default profile."""
    return build_tiers(DEFAULT.tiers).hooks


def _workload(name: str, pod_sets: tuple[PodSet, ...], kind: str, at: float) -> Workload:
    return Workload(
        key=f"default/{name}",
        uid=name,
        namespace="default",
        queue=NO_QUEUE,
        pod_sets=pod_sets,
        kind_key=kind,
        queued_at=at,
    )


def _pod_set(name: str, requests: dict[str, int], *, count: int = 1, cards: CardRequests | None = None) -> PodSet:
    shape = PodShape(requests=requests)
    return PodSet(name=name, count=count, count_least=count, requests=requests, shape=shape, cards=cards)


def _one_card(kind: int) -> dict[str, int]:
    return {CPU: 4_000 + kind % 8_000, "memory": 8 * GIB + kind, GPU: 1}


def gang_rate(*, is_alike: bool, nodes: int = NODES, pods: int = PODS_IN_ALL) -> float:
    """Pods per CPU-second in gangs of a hundred; in a full cluster one starts when the oldest has ended."""
    amounts = {**AMOUNTS, GPU: CARDS}
    state = state_on((Node(name=f"node-{n:05}", allocatable=amounts) for n in range(nodes)), [fgd.POLICY.hooks()])
    gc.collect()
    started = time.process_time()
    running: list[str] = []
    for gang in range(pods // GANG):
        if is_alike:
            pod_sets = (_pod_set("main", _one_card(gang), count=GANG),)
        else:
            pod_sets = tuple(_pod_set(f"p{n}", _one_card(gang * GANG + n)) for n in range(GANG))
        workload = _workload(f"gang-{gang}", pod_sets, f"kind {gang}", float(gang))
        if len(running) == nodes * CARDS // GANG:
            state.drop(running.pop(0))
        state.take(workload)
        assert _run_cycle(state, gang * INSTANT_S), "there is room for every gang"
        running.append(workload.key)
    return pods / (time.process_time() - started)


def _run_cycle(state: EngineState, now: float) -> bool:
    """One cycle; whether somebody was admitted."""
    state.begin_cycle(now)
    plan = decide(state)
    state.apply(plan)
    return bool(plan.reserves)


def openb_rate(policy: str, trace: Trace) -> tuple[float, float]:
    """The share of cards given out in per cent, and pods per CPU-second, every pod a workload of its own.

    Reading the trace into workloads does not count; taking them in does.
    """
    workloads = [_openb_workload(number, pod) for number, pod in enumerate(trace.arrivals)]
    gc.collect()
    started = time.process_time()
    nodes = (
        # Ties go to the earlier name, and the experiment has an order of its own.
        Node(name=f"{rank:05} {one.name}", allocatable={**one.amounts, GPU: one.cards}, labels={MODEL_LABEL: one.model})
        for rank, one in enumerate(trace.nodes)
    )
    # The default has to learn what is typical; the experiment tells fgd.
    state = state_on(nodes, default_hooks() if policy == "default" else [hooks_for(policy, trace)])
    given = 0
    for number, (workload, pod) in enumerate(zip(workloads, trace.arrivals, strict=True)):
        state.take(workload)
        if _run_cycle(state, number * INSTANT_S):
            given += pod.card_milli
        else:
            state.drop(workload.key)  # the experiment has no queue: a pod is placed at once or never
    rate = len(trace.arrivals) / (time.process_time() - started)
    return 100 * given / trace.card_milli, rate


def _openb_workload(number: int, pod: Demand) -> Workload:
    cards = CardRequests(cards=pod.cards, milli=pod.milli, models=pod.models) if pod.cards else None
    pod_set = _pod_set("main", dict(pod.amounts), cards=cards)
    return _workload(f"pod-{number}", (pod_set,), str(hash((pod.amounts, cards))), float(number))


def main() -> int:
    print(f"gangs of {GANG}, alike: {gang_rate(is_alike=True):,.0f} pods per CPU-second (at least 20,000)", flush=True)
    print(f"gangs of {GANG}, all different: {gang_rate(is_alike=False):,.0f} pods per CPU-second (at least 3,000)")
    share, rate = openb_rate("fgd", read_trace(42))
    print(f"openb, fgd, seed 42: {share:.3f} % given out, {rate:,.0f} pods per CPU-second (at least 3,000)", flush=True)
    shares = [openb_rate("default", read_trace(seed))[0] for seed in SEEDS]
    print(f"openb, default, told nothing, seeds {SEEDS[0]}-{SEEDS[-1]}: {statistics.mean(shares):.3f} % given out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
