"""What lint finds in small sets of objects, rule by rule, and in the worked scenario."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from muster.app.manifests import read_manifests
from muster.dialects.kueue.lint import Severity, lint
from muster.dialects.kueue.lint_fix import fixed
from tests import support
from tests.dialects.kueue.lint_examples import (
    CLEAN,
    FINDINGS,
    PRIORITY,
    QUEUE_NAME,
    cohort,
    job,
    local,
    made,
    queue,
    scenario,
    sourced,
)


def test_a_clean_set_has_no_findings_and_stays_as_it_is():
    assert lint(sourced(*CLEAN)) == []
    assert fixed(sourced(*CLEAN)) == sourced(*CLEAN)


@pytest.mark.parametrize(("objects", "want"), FINDINGS)
def test_findings(objects, want):
    found = lint(sourced(*objects))
    assert [finding.code for finding in found] == [code for code, _, _ in want], [str(finding) for finding in found]
    for finding, (_, path, write) in zip(found, want, strict=True):
        assert path in finding.path and write in finding.what_to_write
        assert finding.problem and finding.source.endswith(".yaml") and " " in finding.reference


def test_findings_name_the_object_and_its_file():
    found = lint([("queue.yaml", local()), ("jobs.yaml", job(parallelism=2, completions=1)), ("queue.yaml", queue())])
    assert [finding.source for finding in found] == ["queue.yaml", "jobs.yaml"], "in the order of the files"
    said = "is 1, which caps the 2 pods of parallelism at 1; write completions: 2, or leave it out"
    assert str(found[1]) == f"jobs.yaml: Job team-a/train: spec.completions: {said}"


def test_what_may_be_elsewhere_is_only_a_note():
    alone = lint(sourced(job()))
    assert [(finding.code, finding.severity) for finding in alone] == [("missing-local-queue", Severity.NOTE)]
    among_others = lint(sourced(*CLEAN[:4], job(metadata={"labels": {QUEUE_NAME: "other"}})))
    assert [finding.severity for finding in among_others] == [Severity.WARNING]


@pytest.mark.parametrize("junk", [None, 7, -1.5, "text", True, [], {}, [None], {"": None}, [[]], {"a": {"b": [1]}}])
def test_wrong_shapes_are_passed_over(junk):
    """Every field of every object of a set, one after the other, holds something else."""
    objects = [
        *CLEAN,
        cohort("root"),
        queue("shared-queue", limits={"borrowingLimit": 1}, preemption={"reclaimWithinCohort": "Any"}),
        local("s", to="shared-queue"),
        local("s", "team-b", to="shared-queue"),
        job(
            "j", metadata={"labels": {QUEUE_NAME: "s"}, "annotations": {PRIORITY: "high"}}, parallelism=2, completions=1
        ),
        made("PriorityClass", "high", "scheduling.k8s.io/v1", value=9, globalDefault=True),
    ]
    for number, one in enumerate(objects):
        for path in paths_of(one):
            changed = copy.deepcopy(objects)
            holder: Any = changed[number]
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = junk
            lint(sourced(*changed))
            fixed(sourced(*changed))
        lint(sourced(*objects[:number], junk, *objects[number + 1 :]))
        fixed(sourced(*objects[:number], junk, *objects[number + 1 :]))


def paths_of(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every field and item below a value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path for key in keys for path in ((*before, key), *paths_of(value[key], (*before, key)))]


def test_every_fault_of_the_scenario_is_named():
    found = {
        (finding.code, finding.source.removeprefix("scenario-").removesuffix(".yaml")) for finding in lint(scenario())
    }
    assert found == {
        ("limit-without-cohort", "clusterqueue"),
        ("preemption-without-cohort", "clusterqueue"),
        ("flavor-lacks-resource", "clusterqueue"),
        ("shared-queue", "clusterqueue"),
        ("selector-shuts-out", "clusterqueue"),
        ("quota-contradicts-cards", "clusterqueue"),
        ("uncovered-resource", "job-llm-training"),
        ("uncovered-resource", "job-model-inference"),
        ("priority-in-annotation", "job-model-inference"),
        ("wrong-priority-class", "job-model-inference"),
        ("completions-below-parallelism", "job-llm-training"),
        ("completions-below-parallelism", "job-model-inference"),
        ("missing-claim", "job-llm-training"),
    }


def test_the_worked_example_has_two_mistakes_on_purpose():
    documents = read_manifests([str(support.ROOT / "examples" / "worked-example")])
    found = lint((document.source.rpartition("/")[2], document.value) for document in documents)
    assert [(finding.code, finding.reference) for finding in found] == [
        ("selector-shuts-out", "ClusterQueue speech"),
        ("missing-local-queue", "Workload vision/sketch"),
    ]
