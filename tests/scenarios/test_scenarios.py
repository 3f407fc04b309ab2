"""Golden scenarios: objects in, plan out, through the same pipeline as `muster plan`.

A scenario is a YAML file: `story` says what it shows, `objects` are objects, names of files in the folder `objects`
beside it, or folders of the examples, `config` is a configuration file's content, and `want` is the whole outcome; a
story that differs by profile has `profiles` instead, the outcome under each:

    admit:       by workload, the pods, flavors, nodes, cards and what is borrowed; `reserve` with checks to be passed
    parts:       by job whose pods were decided on one by one, how many have which nodes and how many wait
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

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.app.config import Configuration, parse_configuration
from muster.app.manifests import read_manifests
from muster.app.plan import Admitted, Evicted, PlanOptions, PlanReport, latest_moment, plan_objects
from muster.cli.places import jobs_in_parts
from muster.dialects.kueue.kinds import KINDS
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.versions import to_version
from muster.model.documents import Document, parse_documents
from muster.model.reason import Code
from muster.model.resources import amount_text
from muster.model.workload import Slot
from tests import support

FOLDER = Path(__file__).parent
EXAMPLES = "examples/"


class Scenario:
    """One file under one profile: its story, its objects and the outcome wanted."""

    def __init__(self, path: Path, profile: str = "") -> None:
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
        unknown = set(body) - {"story", "objects", "config", "want", "profiles"}
        assert not unknown, f"{path.name} has {unknown}"
        self.story: str = body["story"]
        self.profiles: list[str] = list(body.get("profiles", ("",)))
        self.want: dict[str, Any] = body["profiles"][profile] if profile else body.get("want", {})
        self.documents: list[Document] = []
        for one in body["objects"]:
            if isinstance(one, str) and one.startswith(EXAMPLES):
                self.documents += read_manifests([str(support.ROOT / one)])
            elif isinstance(one, str):
                file = path.parent / "objects" / one
                self.documents += parse_documents(file.read_bytes(), one)
            else:
                self.documents.append(Document(one, path.name, 1))
        config = yaml.safe_dump(body["config"]) if "config" in body else ""
        self.configuration = parse_configuration(config, "config") if config else Configuration()
        if profile:
            self.configuration = self.configuration.with_profile(profile, "profile")

    def plan(self, documents: list[Document] | None = None) -> PlanReport:
        documents = self.documents if documents is None else documents
        now = latest_moment(documents)
        assert now is not None, "a scenario's objects say when they came"
        return plan_objects(documents, PlanOptions(now=now, configuration=self.configuration))


STORIES = [(path, profile) for path in sorted(FOLDER.glob("*/*.yaml")) for profile in Scenario(path).profiles]
NAMES = [f"{path.parent.name}/{path.stem}" + (f" under {profile}" if profile else "") for path, profile in STORIES]


def outcome_of(report: PlanReport, want: dict[str, Any]) -> dict[str, Any]:
    """The report in the form of `want`, with the parts that it asks for."""
    names = {key: owner.split(" ", 1)[1] for key, owner in report.owners.items()}
    got: dict[str, Any] = {"admit": {}, "reserve": {}, "evict": {}, "wait": {}, "parts": parts_of(report)}
    for step in report.steps:
        name = names.get(step.workload, step.workload)
        if name in got["parts"]:
            continue
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
        if name in got["parts"]:
            continue
        wanted = (want.get("wait") or {}).get(name)
        verdict = verdict_of(one, names)
        got["wait"][name] = verdict["code"] if isinstance(wanted, str | None) else chosen(verdict, wanted)
    got["inactive"] = {one.name: one.inactive_because for one in report.queues if one.inactive_because}
    got["not_managed"] = {one.object: one.why for one in report.not_managed}
    got["refused"] = paths_by_object(report.refused)
    if "warned" in want:
        got["warned"] = paths_by_object(report.warnings)
    return {name: value for name, value in got.items() if value}


def parts_of(report: PlanReport) -> dict[str, dict[str, Any]]:
    """The jobs whose pods were decided on one by one."""
    parts: dict[str, dict[str, Any]] = {}
    for job, _, waiting in jobs_in_parts(report):
        steps = [step for step in report.steps if report.owners.get(step.workload) == job]
        nodes = Counter(slot.node for step in steps for slot in slots_of(step))
        parts[job.split(" ", 1)[1]] = {"nodes": dict(nodes), "waiting": int(waiting)}
    return parts


def slots_of(step: Any) -> list[Slot]:
    return [slot for one in step.pod_sets for slot in one.slots]


def chosen(got: dict[str, Any], wanted: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in got.items() if name in (wanted or got)}


def admission_of(step: Admitted) -> dict[str, Any]:
    return {
        "pods": sum(one.count for one in step.pod_sets),
        "flavors": sorted({flavor for one in step.pod_sets for flavor in one.flavors.values()}),
        "borrows": {resource: amount_text(resource, amount) for (_, resource), amount in step.borrowed.items()},
        "passed": sorted({reason.code.value for reason in step.considered}),
        "nodes": dict(Counter(slot.node for slot in slots_of(step))),
        "cards": [
            f"{slot.node}/{card}"
            for slot in slots_of(step)
            for card in (slot.cards if slot.slices is None else [share.uuid for share in slot.slices.shares])
        ],
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
        "nodes": "; ".join(fit.text for fit in one.fits.values()),
        "passed": "; ".join(reason.text for reason in verdict.details),
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


@pytest.mark.parametrize(("path", "profile"), STORIES, ids=NAMES)
def test_scenario(path, profile):
    scenario = Scenario(path, profile)
    report = scenario.plan()
    assert report.is_settled
    assert with_parts(outcome_of(report, scenario.want), scenario.want) == scenario.want, scenario.story


@pytest.mark.parametrize(("path", "profile"), STORIES, ids=NAMES)
def test_the_order_of_the_files_does_not_matter(path, profile):
    scenario = Scenario(path, profile)
    report, reversed_report = scenario.plan(), scenario.plan(scenario.documents[::-1])
    assert (report.steps, report.waiting, report.queues) == (
        reversed_report.steps,
        reversed_report.waiting,
        reversed_report.queues,
    )


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize(("path", "profile"), STORIES, ids=NAMES)
def test_both_versions_give_the_same_plan(path, profile, version):
    scenario = Scenario(path, profile)
    report = scenario.plan()
    rewritten = [in_version(one, version) for one in scenario.documents]
    again = scenario.plan(rewritten)
    assert replace(again, warnings=()) == replace(report, warnings=())


def in_version(document: Document, version: str) -> Document:
    group, _, _ = document.value.get("apiVersion", "").rpartition("/")
    if group != GROUP or document.value["kind"] not in KINDS or is_refused_by_itself(document):
        return document
    return replace(document, value=to_version(document.value, version))


def is_refused_by_itself(document: Document) -> bool:
    """Whether an object is wrong on purpose: its paths are those of the version that it is written in."""
    now = latest_moment([document]) or 0.0
    return bool(plan_objects([document], PlanOptions(now=now)).refused)


def test_the_common_verdicts_have_scenarios():
    told = {name for path, profile in STORIES for name in codes_in(Scenario(path, profile).want)}
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
        Code.WAITING_FOR_NODES,
        Code.WAITING_FOR_PODS_READY,
        Code.WAITING_FOR_PREEMPTED_WORKLOADS,
        Code.WAITING_FOR_QUOTA,
    }
    assert {code.value for code in common} <= told


def codes_in(want: dict[str, Any]) -> set[str]:
    return {one if isinstance(one, str) else one["code"] for one in (want.get("wait") or {}).values()}
