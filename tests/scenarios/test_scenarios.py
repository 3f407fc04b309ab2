"""Golden scenarios: objects in, plan out, through the same pipeline as `muster plan`.

A scenario is a YAML file: `story` says what it shows, `objects` are objects or names of files in the folder `objects`
beside it, `config` is a configuration file's content, and `want` is the whole outcome:

    admit:       by workload, the pods, flavors and what is borrowed; `reserve` is the same with checks to be passed
    evict:       by victim, in whose favour and with which code
    wait:        by workload, the code, or the code and further parts of the verdict
    inactive:    by queue, a part of the sentence
    not_managed: by object, a part of the sentence
    refused:     by object, the paths
    warned:      by object, the paths

Workloads are named by the job they are for, as namespace/name. What `want` leaves out did not happen, and of a
workload only the parts that are given are compared; `warned` is compared only where it is given.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.app.config import Configuration, parse_configuration
from muster.app.plan import Admitted, Evicted, PlanOptions, PlanReport, latest_moment, plan_objects
from muster.dialects.kueue.kinds import KINDS
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.versions import to_version
from muster.model.documents import Document, parse_documents
from muster.model.reason import Code
from muster.model.resources import amount_text

FOLDER = Path(__file__).parent
STORIES = sorted(FOLDER.glob("*/*.yaml"))
NAMES = [f"{path.parent.name}/{path.stem}" for path in STORIES]


class Scenario:
    """One file: its story, its objects and the outcome wanted."""

    def __init__(self, path: Path) -> None:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
        unknown = set(body) - {"story", "objects", "config", "want"}
        assert not unknown, f"{path.name} has {unknown}"
        self.story: str = body["story"]
        self.want: dict[str, Any] = body["want"]
        self.documents: list[Document] = []
        for one in body["objects"]:
            if isinstance(one, str):
                file = path.parent / "objects" / one
                self.documents += parse_documents(file.read_bytes(), one)
            else:
                self.documents.append(Document(one, path.name, 1))
        config = yaml.safe_dump(body["config"]) if "config" in body else ""
        self.configuration = parse_configuration(config, "config") if config else Configuration()

    def plan(self, documents: list[Document] | None = None) -> PlanReport:
        documents = self.documents if documents is None else documents
        now = latest_moment(documents)
        assert now is not None, "a scenario's objects say when they came"
        return plan_objects(documents, PlanOptions(now=now, configuration=self.configuration))


def outcome_of(report: PlanReport, want: dict[str, Any]) -> dict[str, Any]:
    """The report in the form of `want`, with the parts that it asks for."""
    names = {key: owner.split(" ", 1)[1] for key, owner in report.owners.items()}
    got: dict[str, Any] = {"admit": {}, "reserve": {}, "evict": {}, "wait": {}}
    for step in report.steps:
        name = names.get(step.workload, step.workload)
        if isinstance(step, Admitted):
            verb = "admit" if step.is_started else "reserve"
            got[verb][name] = chosen(admission_of(step), (want.get(verb) or {}).get(name))
        elif isinstance(step, Evicted):
            got["evict"][name] = {
                "for": names.get(step.in_favour_of, step.in_favour_of),
                "code": step.reason.code.value,
            }
    for one in report.waiting:
        name = names.get(one.verdict.workload, one.verdict.workload)
        wanted = (want.get("wait") or {}).get(name)
        verdict = verdict_of(one, names)
        got["wait"][name] = verdict["code"] if isinstance(wanted, str | None) else chosen(verdict, wanted)
    got["inactive"] = {one.name: one.inactive_because for one in report.queues if one.inactive_because}
    got["not_managed"] = {one.object: one.why for one in report.not_managed}
    got["refused"] = paths_by_object(report.refused)
    if "warned" in want:
        got["warned"] = paths_by_object(report.warnings)
    return {name: value for name, value in got.items() if value}


def chosen(got: dict[str, Any], wanted: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in got.items() if name in (wanted or got)}


def admission_of(step: Admitted) -> dict[str, Any]:
    return {
        "pods": sum(one.count for one in step.pod_sets),
        "flavors": sorted({flavor for one in step.pod_sets for flavor in one.flavors.values()}),
        "borrows": {resource: amount_text(resource, amount) for (_, resource), amount in step.borrowed.items()},
        "passed": sorted({reason.code.value for reason in step.considered}),
    }


def verdict_of(one: Any, names: dict[str, str]) -> dict[str, Any]:
    verdict = one.verdict
    return {
        "code": verdict.code.value,
        "text": verdict.reason.text,
        "short": {
            f"{short.flavor}/{short.resource}": amount_text(short.resource, short.short) for short in verdict.shortages
        },
        "held_by": [names.get(key, key) for short in verdict.shortages[:1] for key in short.holders],
        "flavors": sorted({reason.code.value for reason in verdict.details}),
        "helps": list(verdict.unblocked_by),
        "asks": {name: amount_text(name, amount) for name, amount in one.needs.items()},
    }


def paths_by_object(remarks: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in remarks:
        found.setdefault(one.object, []).append(one.path)
    return found


def with_parts(got: Any, want: Any) -> Any:
    """What was got with each text replaced by the wanted part that it holds."""
    if isinstance(got, dict) and isinstance(want, dict):
        return {name: with_parts(value, want.get(name)) for name, value in got.items()}
    if isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        return [with_parts(one, part) for one, part in zip(got, want, strict=True)]
    return want if isinstance(got, str) and isinstance(want, str) and want and want in got else got


@pytest.mark.parametrize("path", STORIES, ids=NAMES)
def test_scenario(path):
    scenario = Scenario(path)
    report = scenario.plan()
    assert report.is_settled
    assert with_parts(outcome_of(report, scenario.want), scenario.want) == scenario.want, scenario.story


@pytest.mark.parametrize("path", STORIES, ids=NAMES)
def test_the_order_of_the_files_does_not_matter(path):
    scenario = Scenario(path)
    report, reversed_report = scenario.plan(), scenario.plan(scenario.documents[::-1])
    assert (report.steps, report.waiting, report.queues) == (
        reversed_report.steps,
        reversed_report.waiting,
        reversed_report.queues,
    )


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("path", STORIES, ids=NAMES)
def test_both_versions_give_the_same_plan(path, version):
    scenario = Scenario(path)
    report = scenario.plan()
    rewritten = [in_version(one, version) for one in scenario.documents]
    again = scenario.plan(rewritten)
    assert replace(again, warnings=()) == replace(report, warnings=())


def in_version(document: Document, version: str) -> Document:
    group, _, _ = document.value["apiVersion"].rpartition("/")
    if group != GROUP or document.value["kind"] not in KINDS or is_refused_by_itself(document):
        return document
    return replace(document, value=to_version(document.value, version))


def is_refused_by_itself(document: Document) -> bool:
    """Whether an object is wrong on purpose: its paths are those of the version that it is written in."""
    now = latest_moment([document]) or 0.0
    return bool(plan_objects([document], PlanOptions(now=now)).refused)


def test_the_common_verdicts_have_scenarios():
    told = {name for path in STORIES for name in codes_in(Scenario(path).want)}
    common = {
        Code.ADMISSION_GATED,
        Code.ALIKE_WAITS,
        Code.BACKING_OFF,
        Code.BEHIND_ANOTHER,
        Code.CHECK_FAILED,
        Code.EXCEEDS_MAX_QUOTA,
        Code.MISCONFIGURED,
        Code.NAMESPACE_NOT_ADMITTED,
        Code.NO_MATCHING_FLAVOR,
        Code.QUEUE_INACTIVE,
        Code.QUEUE_MISSING,
        Code.SUSPENDED,
        Code.WAITING_FOR_CHECKS,
        Code.WAITING_FOR_PODS_READY,
        Code.WAITING_FOR_PREEMPTED_WORKLOADS,
        Code.WAITING_FOR_QUOTA,
    }
    assert {code.value for code in common} <= told


def codes_in(want: dict[str, Any]) -> set[str]:
    return {one if isinstance(one, str) else one["code"] for one in (want.get("wait") or {}).values()}
