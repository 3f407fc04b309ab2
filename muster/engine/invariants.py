"""Invariants: what must hold after every step, as checks that tests, `muster plan` and a running system share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.engine.holders import places_of
from muster.engine.places import Use
from muster.engine.quota import fits
from muster.engine.slot_asks import SlotUse
from muster.engine.state import EngineState
from muster.engine.tree import QuotaNode
from muster.model.device import DeviceUse
from muster.model.plan import Amend, Plan, Reserve
from muster.model.pod_rules import PodIdentity
from muster.model.resources import FlavorResource
from muster.model.workload import Slot, Workload

if TYPE_CHECKING:
    from muster.engine.node_table_rows import Demand
    from muster.engine.slots import NodeSlots


def violations(state: EngineState) -> Iterator[str]:
    """Everything about a state that must not be, one sentence each."""
    for node in state.tree.nodes.values():
        yield from _node_violations(node)
    yield from _holder_violations(state)
    yield from _place_violations(state)
    if state.places.slots is not None:
        yield from _gang_violations(state)
        yield from _slot_violations(state, state.places.slots)


def _node_violations(node: QuotaNode) -> Iterator[str]:
    """Usage is never negative, and a parent uses what its children have above their reserves."""
    for key, used in node.usage.items():
        if used < 0:
            yield f"{node.name} uses {used} of {key}"
    if node.queue.is_leaf:
        return
    keys: dict[FlavorResource, None] = dict.fromkeys(node.usage)
    for child in node.children:
        keys.update(dict.fromkeys(child.usage))
    for key in keys:
        above = sum(max(0, child.usage.get(key, 0) - child.cell(key).reserved) for child in node.children)
        if above != node.usage.get(key, 0):
            yield f"{node.name} uses {node.usage.get(key, 0)} of {key}, its children {above}"


def _holder_violations(state: EngineState) -> Iterator[str]:
    """A queue uses what its workloads hold, no more and no less."""
    for node in state.tree.nodes.values():
        if not node.queue.is_leaf:
            continue
        held: dict[FlavorResource, int] = {}
        for holder in state.holders.in_queue(node.name).values():
            for key, amount in holder.usage.items():
                held[key] = held.get(key, 0) + amount
        if {key: amount for key, amount in held.items() if amount} != node.usage:
            yield f"{node.name} uses {node.usage}, its workloads hold {held}"


def _place_violations(state: EngineState) -> Iterator[str]:
    """Nobody is lost and nobody is in two places."""
    lines = state.lines
    for key, workload in state.workloads.items():
        is_waiting = any(line.get(key) is not None for line in lines.values())
        is_holding = state.holders.get(key) is not None
        if not is_waiting and not is_holding and state.should_wait(workload):
            yield f"{key} should wait in {workload.queue} and is nowhere"
        if is_waiting and is_holding:
            yield f"{key} waits and holds quota"
        if workload.is_finished and (is_waiting or is_holding):
            yield f"{key} has finished and is still there"


def unsafe_reserves(state: EngineState, plan: Plan) -> Iterator[str]:
    """Decisions that would take more than there is, in the order in which they are carried out."""
    mark = state.ledger.checkpoint()
    for decision in plan.decisions:
        if not isinstance(decision, Reserve):
            continue
        node = state.tree.leaf(decision.admission.queue)
        if node is None:
            yield f"{decision.workload} is given quota of {decision.admission.queue}, which is not there"
            continue
        workload = state.workloads[decision.workload]
        older = state.older_slice(workload)
        if older is not None:
            state.ledger.release(older.queue, older.usage)
        usage = decision.admission.usage()
        if not fits(node, usage):
            yield f"{decision.workload} is given {usage}, which {node.name} does not have"
        state.ledger.charge(node, usage)
    state.ledger.rollback(mark)


# Nodes and cards -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """All that is held of one node: equal for two states that know the same, however they came to know it."""

    is_present: bool
    taken: Mapping[str, int]  # by resource
    kinds: tuple[int, ...]  # pods by how they use cards
    cards: tuple[int, ...]  # thousandths that are free, of cards that are only counted
    by_card: Mapping[str, DeviceUse]  # of those that are known one by one
    rules: Mapping[PodIdentity, int]  # pods that others can tell apart


def node_facts(slots: NodeSlots) -> dict[str, NodeFacts]:
    """What is held of every node; nodes that are gone and of which nothing is held are left out."""
    table, pods = slots.placer.table, slots.placer.pods
    on_rows = pods.by_row() if pods is not None else {}
    found = {}
    for row, name in enumerate(table.names):
        held = (table.total[:, row] - table.free[:, row]).tolist()
        # What a node that is gone had of cards, only who has seen it knows.
        is_present, is_known = bool(table.is_present[row]), table.slices.is_known(row)
        one = NodeFacts(
            is_present=is_present,
            taken={resource: amount for resource, amount in zip(table.resources, held, strict=True) if amount},
            kinds=_without_end(table.kinds[row].tolist()) if is_present else (),
            cards=_without_end(table.cards[row].tolist()) if is_present and not is_known else (),
            by_card={one.device.uuid: one.use for one in table.slices.cards_of(row)} if is_present else {},
            rules=on_rows.get(row, {}),
        )
        if one.is_present or one.taken:
            found[name] = one
    return found


def _without_end(numbers: list[int]) -> tuple[int, ...]:
    """Numbers without the zeros at the end: how wide a table is depends on what it once held."""
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def differences(state: EngineState, fresh: EngineState) -> Iterator[str]:
    """Where a state differs from one that was made from the same objects: something was not given back, or twice."""
    for name, node in fresh.tree.nodes.items():
        used = state.tree.nodes[name].usage
        if used != node.usage:
            yield f"{name} uses {used}, and {node.usage} by its objects"
    if state.places.slots is None or fresh.places.slots is None:
        return
    now, want = node_facts(state.places.slots), node_facts(fresh.places.slots)
    for name in sorted(now.keys() | want.keys()):
        if now.get(name) != want.get(name):
            yield f"{name} is {now.get(name)}, and {want.get(name)} by its objects"


def unsafe_places(state: EngineState, plan: Plan) -> Iterator[str]:
    """Decisions that would put pods where there is no room, in the order in which they are carried out."""
    if state.places.slots is None:
        return
    mark = state.ledger.checkpoint()
    for decision in plan.decisions:
        if not isinstance(decision, Reserve | Amend):
            continue
        workload, holder = state.workloads[decision.workload], state.holders.get(decision.workload)
        before = holder.places if holder is not None else ()
        after = list(places_of(workload, decision.admission, state.places))
        state.ledger.release_places(before)
        state.ledger.charge_places(after)
        kept = Counter(slot for use in before if isinstance(use, SlotUse) for slot in use.slots)
        for node in _crowded(state.places.slots, after, kept):
            yield f"{decision.workload} is put on {node}, which has no room for it"
    state.ledger.rollback(mark)


def _crowded(slots: NodeSlots, uses: list[Use], kept: Counter[Slot]) -> Iterator[str]:
    """The nodes that pods come to and that have given out more than they have of what those pods hold."""
    table = slots.placer.table
    for use in uses:
        if not isinstance(use, SlotUse):
            continue
        come = use._replace(slots=tuple((Counter(use.slots) - kept).elements()))
        for node, held in come.by_node():
            row = table.find_row(node)
            if row is None or not table.is_present[row] or not _is_within(slots, row, use.demand, held):
                yield node


def _is_within(slots: NodeSlots, row: int, demand: Demand, held: list[Slot]) -> bool:
    return slots.placer.table.is_within(row, demand, *(slots.held_by(slot, row) for slot in held))


def _gang_violations(state: EngineState) -> Iterator[str]:
    """All pods of a pod set have slots or none has; a gang that holds slots holds its minimum, and fills it in time."""
    for holder in state.holders.all():
        workload, admission = holder.workload, holder.workload.admission
        if admission is None or not workload.slot_count:
            continue
        least = {one.name: max(0, one.count_least - one.finished_pods) for one in workload.pod_sets}
        for given in admission.pod_sets:
            if len(given.slots) != given.count and not given.is_delayed:
                yield f"{workload.key} has {len(given.slots)} slots for the {given.count} pods of {given.name}"
            staying = len(given.slots) - len(workload.leaving_slots.get(given.name, ()))
            if not given.is_delayed and not workload.is_evicted and staying < least.get(given.name, 0):
                yield f"{workload.key} is left with {staying} of {given.name} and needs {least[given.name]}"
        if workload.key in state.deadlines.overdue and workload.is_short_of_pods:
            yield f"{workload.key} has {workload.pods_bound} of {workload.slot_count} pods bound after its deadline"


def _slot_violations(state: EngineState, slots: NodeSlots) -> Iterator[str]:
    """What is given out of a node is what the slots on it add up to, each once; slots are where a topology said."""
    want: dict[str, Counter[str]] = {}
    uses = [(key, use) for key, (_, use) in slots.foreign.items()]
    for holder in state.holders.all():
        uses.extend((holder.workload.key, use) for use in holder.places if isinstance(use, SlotUse))
        yield from _place_count_violations(holder.workload)
    for key, use in uses:
        for slot in use.slots:
            want.setdefault(slot.node, Counter()).update(dict(use.demand.amounts))
            if slot.slices is None and len(slot.cards) != use.demand.cards:
                yield f"{key} holds {len(slot.cards)} cards of {slot.node} in place of {use.demand.cards}"
    facts = node_facts(slots)
    for name in sorted(facts.keys() | want.keys()):
        taken = facts[name].taken if name in facts else {}
        if want.get(name, Counter()) != taken:
            yield f"{name} has given out {taken}, and its pods hold {want.get(name)}"


def _place_count_violations(workload: Workload) -> Iterator[str]:
    for given in workload.admission.pod_sets if workload.admission is not None else ():
        if given.place is not None and given.slots and given.place.count != len(given.slots):
            yield f"{workload.key} is given {given.place.count} places and {len(given.slots)} slots for {given.name}"
