"""`muster plan`: what would be admitted, evicted and left waiting, and why, from manifests alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from muster.cli.groups import group_object, write_groups
from muster.cli.inputs import Config, Files, Now, Profile, Strict, configured, gather, moment_given
from muster.cli.output import Exit, Form, FormOption, Page, complain, write_object
from muster.cli.places import fit_object, jobs_in_parts, slot_object, slots_text

if TYPE_CHECKING:
    from muster.app.plan import Admitted, Ended, Evicted, PlanReport, QueueView, Shrunk, Step, Waiting
    from muster.model.reason import Reason

LABEL = 9
INDENT = 5


def plan(
    files: Files,
    form: FormOption = Form.TABLE,
    config: Config = "",
    profile: Profile = "",
    strict: Strict = False,
    now: Now = "",
) -> None:
    """Say what would happen to the jobs and workloads of some manifests, and why. Nothing is changed anywhere."""
    given = moment_given(now)
    configuration = configured(config, profile=profile, strict=strict)
    documents, has_failed = gather(files)
    from muster.app.plan import PlanOptions, latest_moment, plan_objects

    moment = given if given is not None else latest_moment(documents)
    options = PlanOptions(
        now=moment if moment is not None else float(int(time.time())),
        configuration=configuration,
    )
    report = plan_objects(documents, options)
    complain(*report.refused)
    complain(*report.warnings, label="warning: ")
    if form is Form.TABLE:
        write_page(report, Page(sys.stdout))
    else:
        write_object(report_object(report), form)
    if has_failed or report.refused:
        raise typer.Exit(Exit.REFUSED)


# For people -------------------------------------------------------------------------------------------------------


def write_page(report: PlanReport, page: Page) -> None:
    """The report as sections of text."""
    from muster.model.times import moment_text

    counts = [
        f"{sum(_verb(step) == verb for step in report.steps)} {said}"
        for verb, said in COUNTED
        if verb == "admit" or any(_verb(step) == verb for step in report.steps)
    ]
    counts.append(f"{len(report.waiting)} waiting")
    page.line(f"As of {moment_text(report.now)}: {', '.join(counts)}; cycles: {report.cycles}.", "bold")
    if not report.is_settled:
        page.sentence("The plan was cut short: more would change in further cycles.")
    if report.steps:
        page.line()
        page.line("DECISIONS", "bold")
        for number, step in enumerate(report.steps, 1):
            _write_step(step, number, report, page)
    if report.waiting:
        page.line()
        page.line("WAITING", "bold")
        for waiting in report.waiting:
            _write_waiting(waiting, report, page)
    parts = jobs_in_parts(report)
    if parts:
        page.line()
        page.line("JOBS POD BY POD", "bold")
        page.table(("NAME", "PODS WITH NODES", "PODS WAITING"), parts, indent=2)
    write_groups(report.groups, page)
    _write_rest(report, page)


def _verb(step: Step) -> str:
    from muster.app.plan import Admitted, Evicted, Shrunk

    if isinstance(step, Admitted):
        return "admit" if step.is_started else "reserve"
    if isinstance(step, Shrunk):
        return "shrink"
    return "evict" if isinstance(step, Evicted) else "end"


STYLES = {"admit": "green", "reserve": "yellow", "evict": "red", "shrink": "red", "end": "dim"}
COUNTED = (
    ("admit", "admitted"),
    ("reserve", "with quota"),
    ("evict", "told to go"),
    ("shrink", "told to shrink"),
    ("end", "ended"),
)


def _called(key: str, owners: Mapping[str, str]) -> str:
    return f"{key} ({owners[key]})" if key in owners else key


def _part(page: Page, label: str, text: str) -> None:
    page.sentence(text, indent=INDENT, label=label.ljust(LABEL))


def _write_step(step: Step, number: int, report: PlanReport, page: Page) -> None:
    from muster.app.plan import Admitted, Shrunk

    verb = _verb(step)
    page.sentence(_called(step.workload, report.owners), label=f"{number:3d}. {verb} ", style=STYLES[verb])
    if isinstance(step, Admitted):
        _write_admitted(step, page)
        return
    _part(page, "queue", step.queue)
    _part(page, "for", _called(step.in_favour_of, report.owners))
    _part(page, "why", step.reason.text)
    if isinstance(step, Shrunk):
        _part(page, "nodes", slots_text([slot for slots in step.slots.values() for slot in slots]))
    if verb == "evict":
        _part(page, "note", "it keeps its quota until its pods are gone")


def _write_admitted(step: Admitted, page: Page) -> None:
    is_counted = step.reason.code.value != "Placed"
    if is_counted:
        _part(page, "queue", step.queue)
    for pod_set in step.pod_sets:
        asked = step.asked.get(pod_set.name, pod_set.count)
        several = "pod" if asked == 1 else "pods"
        pods = f"{asked} {several}" if asked == pod_set.count else f"{pod_set.count} of {asked} {several}"
        by_flavor: dict[str, dict[str, int]] = {}
        for resource, amount in pod_set.usage.items():
            by_flavor.setdefault(pod_set.flavors.get(resource, ""), {})[resource] = amount
        paid = "; ".join(f"{amounts_text(amounts)} in {flavor}" for flavor, amounts in by_flavor.items())
        _part(page, "pods", f"{pod_set.name}: {pods}" + (f", {paid}" if paid and is_counted else ""))
        if pod_set.slots:
            _part(page, "nodes", slots_text(pod_set.slots))
    if step.borrowed:
        borrowed = (f"{amounts_text({resource: n})} in {flavor}" for (flavor, resource), n in step.borrowed.items())
        _part(page, "borrows", "; ".join(borrowed))
    _part(page, "why", step.reason.text)
    for reason in dict.fromkeys(one.text for one in step.considered):
        _part(page, "passed", reason)
    if not step.is_started:
        _part(page, "note", "it starts when its checks are passed")


def _write_waiting(waiting: Waiting, report: PlanReport, page: Page) -> None:
    from muster.app.intake import NO_QUEUE

    verdict = waiting.verdict
    page.sentence(_called(verdict.workload, report.owners), indent=2, style="yellow")
    place = f", in queue {verdict.queue}" if verdict.queue != NO_QUEUE else ""
    _part(page, "code", verdict.code.value + place)
    _part(page, "why", verdict.reason.text)
    if waiting.needs:
        _part(page, "asks", amounts_text(waiting.needs))
    if waiting.fits and verdict.code.value == "AlikeWaits":
        return  # the one that it is like is told how all nodes fare
    for shortage in verdict.shortages:
        _part(page, "short", shortage.text)
    # What is short is said above with its holders.
    said = {"ShortOfQuota", "AboveMaximum"} if verdict.shortages else set()
    for text in dict.fromkeys(reason.text for reason in verdict.details if reason.code.value not in said):
        _part(page, "passed", text)
    for name, fit in waiting.fits.items():
        _part(page, "nodes", f"one pod of {name}: {fit.text}")
    for text in verdict.unblocked_by:
        _part(page, "helps", text)


def _write_rest(report: PlanReport, page: Page) -> None:
    if report.queues:
        page.line()
        page.line("QUEUES", "bold")
        rows = [
            (one.name, one.cohort or "-", _activity(one), str(one.holding), str(one.waiting)) for one in report.queues
        ]
        page.table(("NAME", "COHORT", "STATE", "HOLDING", "WAITING"), rows, indent=2)
        for one in report.queues:
            if one.inactive_because:
                page.sentence(f"{one.name} is inactive: {one.inactive_because}", indent=2)
    if report.not_managed:
        page.line()
        page.line("NOT MANAGED", "bold")
        for left in report.not_managed:
            page.sentence(f"{left.object}: {left.why}", indent=2)
    if report.passed_over:
        page.line()
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.passed_over.items()))
        page.sentence(f"Without a part in the plan: {kinds}.")


def _activity(queue: QueueView) -> str:
    return "inactive" if queue.inactive_because else "active"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Amounts in the order of their names: cpu 3, memory 600Mi."""
    from muster.model.resources import amount_text

    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(amounts.items()))


# For programs -----------------------------------------------------------------------------------------------------


def report_object(report: PlanReport) -> dict[str, Any]:
    """The report as plain data; docs/commands.md says what each field means."""
    from muster.model.times import moment_text

    return {
        "now": moment_text(report.now),
        "cycles": report.cycles,
        "settled": report.is_settled,
        "placed": report.is_placed,
        "decisions": [_step_object(step, report.owners) for step in report.steps],
        "waiting": [_waiting_object(one, report.owners) for one in report.waiting],
        "heldBefore": list(report.held_before),
        "queues": [
            {
                "name": one.name,
                "cohort": one.cohort,
                "active": not one.inactive_because,
                "inactiveBecause": one.inactive_because,
                "holding": one.holding,
                "waiting": one.waiting,
            }
            for one in report.queues
        ],
        "groups": [group_object(one) for one in report.groups],
        "notManaged": [{"source": one.source, "object": one.object, "why": one.why} for one in report.not_managed],
        "passedOver": dict(sorted(report.passed_over.items())),
        "refused": [_remark_object(one) for one in report.refused],
        "warnings": [_remark_object(one) for one in report.warnings],
    }


def _step_object(step: Step, owners: Mapping[str, str]) -> dict[str, Any]:
    from muster.app.plan import Admitted

    common = {
        "decision": _verb(step),
        "cycle": step.cycle,
        "workload": step.workload,
        "job": owners.get(step.workload, ""),
        "queue": step.queue,
        "reason": _reason_object(step.reason),
    }
    return {**common, **(_admitted_object(step) if isinstance(step, Admitted) else _leaving_object(step))}


def _admitted_object(step: Admitted) -> dict[str, Any]:
    from muster.model.resources import amount_text

    return {
        "podSets": [
            {
                "name": one.name,
                "count": one.count,
                "asked": step.asked.get(one.name, one.count),
                "flavors": dict(one.flavors),
                "usage": {name: amount_text(name, amount) for name, amount in one.usage.items()},
                "slots": [slot_object(slot) for slot in one.slots],
            }
            for one in step.pod_sets
        ],
        "borrowed": [
            {"flavor": flavor, "resource": resource, "amount": amount_text(resource, amount)}
            for (flavor, resource), amount in step.borrowed.items()
        ],
        "passedOver": [_reason_object(one) for one in step.considered],
    }


def _leaving_object(step: Evicted | Shrunk | Ended) -> dict[str, Any]:
    from muster.app.plan import Shrunk

    leaving: dict[str, Any] = {"inFavourOf": step.in_favour_of}
    if isinstance(step, Shrunk):
        leaving["slots"] = {name: [slot_object(slot) for slot in slots] for name, slots in step.slots.items()}
    return leaving


def _waiting_object(waiting: Waiting, owners: Mapping[str, str]) -> dict[str, Any]:
    from muster.model.resources import amount_text

    verdict = waiting.verdict
    return {
        "workload": verdict.workload,
        "job": owners.get(verdict.workload, ""),
        "queue": verdict.queue,
        **_reason_object(verdict.reason),
        "asks": {name: amount_text(name, amount) for name, amount in waiting.needs.items()},
        "shortages": [
            {
                "flavor": one.flavor,
                "resource": one.resource,
                "asked": amount_text(one.resource, one.asked),
                "free": amount_text(one.resource, one.free),
                "short": amount_text(one.resource, one.short),
                "most": amount_text(one.resource, one.most),
                "heldBy": list(one.holders),
            }
            for one in verdict.shortages
        ],
        "flavors": [_reason_object(one) for one in verdict.details],
        "nodes": {name: fit_object(fit) for name, fit in waiting.fits.items()},
        "unblockedBy": list(verdict.unblocked_by),
    }


def _reason_object(reason: Reason) -> dict[str, Any]:
    return {"code": reason.code.value, "text": reason.text}


def _remark_object(remark: Any) -> dict[str, Any]:
    return {name: getattr(remark, name) for name in ("source", "object", "path", "problem", "hint")}
