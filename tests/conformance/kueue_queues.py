"""Cases of quota numbers and of queue order."""

from __future__ import annotations

from muster.dialects.kueue.names import cohort_name
from muster.dialects.kueue.read_workloads import WorkloadReader
from muster.engine.assignment import Assignment
from muster.engine.fairness import share_of
from muster.engine.lines import Line, is_backing_off, stays_in_line
from muster.engine.order import Entry, entry_order
from muster.engine.quota import free_for, is_borrowing, is_borrowing_any, potential
from muster.engine.stages.reserve import held_for_later
from muster.engine.usage_history import UsageHistory
from muster.model.fields import Fields
from muster.model.plan import Return, ScanProgress
from muster.model.queue import Order
from tests.conformance.cases import Case, expect_equal
from tests.conformance.kueue_objects import amounts_of, clock_of, options_for, settings_for, snapshot_for, state_for


def run_available(case: Case) -> None:
    state = state_for(case)
    expect = case.body["expect"]
    for name, function in (("available", free_for), ("potentiallyAvailable", potential)):
        for queue, rows in expect[name].items():
            node = state.tree.nodes[queue]
            got = {(r["flavor"], r["resource"]): function(node, (r["flavor"], r["resource"])) for r in rows}
            want = {(r["flavor"], r["resource"]): r["amount"] for r in rows}
            expect_equal(f"{name} of {queue}", got, want)


def run_is_borrowing_on(case: Case) -> None:
    node = state_for(case).tree.nodes[case.body["clusterQueue"]]
    expect = case.body["expect"]
    requested = [(row["flavor"], row["resource"]) for row in case.body["requested"]]
    expect_equal("borrowing", is_borrowing(node), expect["borrowing"])
    expect_equal("borrowing on requested", is_borrowing_any(node, requested), expect["borrowingOnRequested"])


def run_resources_to_reserve(case: Case) -> None:
    node = state_for(case).tree.nodes[case.body["clusterQueue"]]
    given = case.body["assignment"]
    assignment = Assignment(pod_sets=(), usage=amounts_of(given["usage"]), level=given["borrowingLevel"])
    held = assignment.usage if given["mode"] == "Fit" else held_for_later(node, assignment)
    got = {key: amount for key, amount in held.items() if amount}
    expect_equal("reserved", got, amounts_of(case.body["expect"]["reserved"]))


def _reader(case: Case) -> WorkloadReader:
    options = options_for(case)
    return WorkloadReader(settings=options.settings, queued_by_eviction=options.queued_by_eviction)


def run_entry_ordering(case: Case) -> None:
    settings, reader = settings_for(case), _reader(case)
    entries = [
        Entry(
            workload=reader.read(Fields.of(row["workload"])),
            is_preemptor=row["isPreemptor"],
            assignment=Assignment(pod_sets=(), usage={}, level=row["borrowingLevel"]),
        )
        for row in case.body["entries"]
    ]
    ordered = sorted(entries, key=lambda entry: entry_order(entry, settings))
    got = [entry.workload.key.split("/")[-1] for entry in ordered]
    expect_equal("order", got, case.body["expect"]["order"])


def run_head(case: Case) -> None:
    reader = _reader(case)
    line = Line(Order(case.body["config"]["queueingStrategy"]))
    for obj in case.body["objects"]:
        line.add(reader.read(Fields.of(obj)), clock_of(case))
    head = line.head()
    expect_equal("head", head.key if head is not None else "", case.body["expect"]["head"])


def run_backoff(case: Case) -> None:
    workload = _reader(case).read(Fields.of(case.body["objects"][0]))
    expect_equal("expired", not is_backing_off(workload, clock_of(case)), case.body["expect"]["expired"])


def run_requeue(case: Case) -> None:
    """Whether a workload put back for a reason is parked, and whether it sticks to the head."""
    order = Order(case.body["config"]["queueingStrategy"])
    why = Return(case.body["requeueReason"])
    tried = case.body.get("lastTriedFlavorIdx")
    progress = None
    if tried is not None:
        progress = ScanProgress(tried=tuple(tried), generation=0, kind_key="", cycle=0)
    expect = case.body["expect"]
    stays = stays_in_line(order, why, progress)
    expect_equal("inadmissible", not stays, expect["inadmissible"])
    if "sticky" in expect:
        reader = WorkloadReader(settings=settings_for(case))
        line = Line(order)
        line.add(reader.read(Fields.of({"metadata": {"name": "w"}})), 0.0)
        if stays:
            line.keep("/w", why)
        expect_equal("sticky", bool(line.sticky), expect["sticky"])


def run_shares(case: Case) -> None:
    """The weighted share of queues and cohorts, with a further request where the case has one."""
    state = state_for(case)
    more = case.body.get("additionalRequest")
    for row in case.body["expect"]["shares"]:
        is_queue = row["kind"] == "ClusterQueue"
        node = state.tree.nodes[row["name"] if is_queue else cohort_name(row["name"])]
        mark = state.ledger.checkpoint()
        if more and row["name"] == "cq":
            state.ledger.charge(node, amounts_of(more))
        share = share_of(node)
        state.ledger.rollback(mark)
        got = (share.is_borrowing, share.resource, share.shown)
        expect_equal(f"share of {row['name']}", got, (row["borrowing"], row["dominantResource"], row["weightedShare"]))


def run_fair_head(case: Case) -> None:
    """Which workload goes first where submit queues take turns."""
    snapshot = snapshot_for(case, needs_objects=False)
    queue = next(queue for queue in snapshot.queues.values() if queue.is_leaf)
    fairness = snapshot.settings.usage_fairness
    assert fairness is not None, "the case says how submit queues take turns"
    history = UsageHistory(fairness, snapshot.submit_queues.values())
    line = Line(queue.order, history.used_by if queue.is_usage_ordered else None)
    for workload in snapshot.workloads.values():
        line.add(workload, snapshot.now)
    head = line.head()
    expect_equal("head", head.key if head is not None else "", case.body["expect"]["head"])
