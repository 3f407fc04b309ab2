"""What lint's repairs make of a set: clean, and what its author meant."""

from __future__ import annotations

import pytest

from muster.dialects.kueue.lint import lint
from muster.dialects.kueue.lint_fix import fixed
from muster.dialects.kueue.lint_view import ObjectSet
from tests.dialects.kueue.lint_examples import (
    CORES,
    FINDINGS,
    GPU,
    KUEUE,
    MEMORY,
    PRIORITY,
    QUEUE_NAME,
    flavor,
    job,
    local,
    made,
    namespace,
    queue,
    scenario,
    sourced,
)

NOT_REPAIRED = {
    "missing-cluster-queue", "missing-flavor", "missing-check", "unused-flavor", "cohort-cycle", "repeated-object",
    "missing-priority-class", "missing-pod-priority-class",
}  # fmt: skip
UNDECIDED = {"a flavor without a resource", "a queue without quota", "a root cohort lends to nobody"}


@pytest.mark.parametrize(("objects", "want"), FINDINGS)
def test_repairs_leave_only_what_needs_a_decision(objects, want, request):
    original = sourced(*objects)
    result = fixed(original)
    assert original == sourced(*objects), "the originals stay as they are"
    left = {finding.code for finding in lint(result)}
    if request.node.callspec.id not in UNDECIDED:
        assert left <= NOT_REPAIRED
    assert left <= {code for code, _, _ in want}, "a repair brings nothing new"
    assert fixed(result) == result, "what is repaired stays repaired"


def test_a_shared_queue_becomes_one_for_each_team():
    limits = {"borrowingLimit": 3, "lendingLimit": 4}
    quotas = {"plain": {GPU: 9, "cpu": 9, "memory": "3Gi"}}
    by_label = {"matchLabels": {"team": "a"}}
    shared = queue("shared-queue", quotas=quotas, limits=limits, namespaceSelector=by_label, stopPolicy="None")
    workload = made("Workload", "w", KUEUE, namespace="team-b", status={"admission": {"clusterQueue": "shared-queue"}})
    result = fixed(sourced(
        namespace(team="a"), namespace("team-b", team="b"), flavor(), shared, local(to="shared-queue"),
        local(namespace="team-b", to="shared-queue"), workload,
    ))  # fmt: skip
    known = ObjectSet(result)
    first, second = known.of(("kueue.x-k8s.io", "ClusterQueue"))
    assert [one.name for one in (first, second)] == ["shared-team-a", "shared-team-b"]
    assert [one.spec["cohortName"] for one in (first, second)] == ["shared", "shared"]
    assert [one.spec["namespaceSelector"]["matchLabels"] for one in (first, second)] == [{"team": "a"}, {"team": "b"}]
    assert [[line.value["nominalQuota"] for line in one.quota_lines] for one in (first, second)] == [
        [5, "4500m", "1536Mi"],
        [4, "4500m", "1536Mi"],
    ]
    assert [next(iter(one.quota_lines)).value["lendingLimit"] for one in (first, second)] == [2, 2]
    assert first.spec["preemption"] == {"reclaimWithinCohort": "Any"} and first.spec["stopPolicy"] == "None"
    assert [one.spec["clusterQueue"] for one in known.of(("kueue.x-k8s.io", "LocalQueue"))] == [
        "shared-team-a",
        "shared-team-b",
    ]
    assert result[-1][1]["status"]["admission"]["clusterQueue"] == "shared-team-b"


def test_teams_without_labels_are_told_apart_by_name():
    result = fixed(sourced(
        queue(limits={"borrowingLimit": 1}), flavor(), local(), local(namespace="team-b")
    ))  # fmt: skip
    selectors = [one["spec"]["namespaceSelector"] for _, one in result if one["kind"] == "ClusterQueue"]
    assert selectors == [{"matchLabels": {"kubernetes.io/metadata.name": name}} for name in ("team-a", "team-b")]


def test_a_shared_queue_stays_where_the_new_names_are_taken():
    objects = [queue(limits={"borrowingLimit": 1}), queue("main-team-a"), local(), local(namespace="team-b")]
    assert [one["metadata"]["name"] for _, one in fixed(sourced(*objects))][:2] == ["main-queue", "main-team-a"]


def test_new_objects_stand_beside_what_needs_them():
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    result = fixed([
        ("classes.yaml", made("PriorityClass", "high", "scheduling.k8s.io/v1", value=9, description="first")),
        ("classes.yaml", made("PriorityClass", "low", "scheduling.k8s.io/v1", value=1, globalDefault=True)),
        ("queue.yaml", queue()),
        ("jobs.yaml", job("a", metadata={"labels": {QUEUE_NAME: "q"}, "annotations": {PRIORITY: "high", "x": "y"}})),
        ("jobs.yaml", job("b", metadata={"labels": {QUEUE_NAME: "q"}}, pod={"volumes": [volume, volume]})),
    ])  # fmt: skip
    assert [(source, one["kind"], one["metadata"]["name"]) for source, one in result] == [
        ("classes.yaml", "WorkloadPriorityClass", "high"),
        ("classes.yaml", "PriorityClass", "high"),
        ("classes.yaml", "WorkloadPriorityClass", "low"),
        ("classes.yaml", "PriorityClass", "low"),
        ("queue.yaml", "ClusterQueue", "main-queue"),
        ("jobs.yaml", "LocalQueue", "q"),
        ("jobs.yaml", "Job", "a"),
        ("jobs.yaml", "PersistentVolumeClaim", "data"),
        ("jobs.yaml", "Job", "b"),
    ]
    assert result[0][1] == made("WorkloadPriorityClass", "high", KUEUE, value=9, description="first")
    assert result[6][1]["metadata"]["labels"][PRIORITY] == "high"
    assert result[6][1]["metadata"]["annotations"] == {"x": "y"}
    assert result[8][1]["metadata"]["labels"][PRIORITY] == "low", "the cluster's default, now said aloud"


def test_the_repaired_scenario_is_clean_and_is_what_was_wanted():
    result = fixed(scenario())
    assert lint(result) == []
    known = ObjectSet(result)
    queues = known.of(("kueue.x-k8s.io", "ClusterQueue"))
    assert len(queues) == 2 and len({one.spec["cohort"] for one in queues}) == 1
    totals: dict[tuple[str, str], int] = {}
    for line in (line for one in queues for line in one.quota_lines):
        assert line.nominal is not None
        totals[line.flavor, line.resource] = totals.get((line.flavor, line.resource), 0) + line.nominal
    v100, a100 = "gpu-v100-32gb", "gpu-a100-80gb"
    assert [totals[v100, one] for one in (GPU, MEMORY, CORES)] == [32, 1_024_000, 3_200]
    assert [totals[a100, one] for one in (GPU, MEMORY, CORES)] == [16, 1_280_000, 1_600]
    for view in known.jobs:
        behind = known.queue_behind(view)
        assert behind is not None and set(view.requests) <= behind.covered
        assert behind.spec["preemption"]["reclaimWithinCohort"] == "LowerPriority"
        limits = [line.value.get("borrowingLimit") for line in behind.quota_lines if line.resource == GPU]
        assert limits == [16, None], "either may use all the cards while the other is idle"
    by_name = {view.item.name: view for view in known.jobs}
    research, production = by_name["llm-training-research"], by_name["model-inference-prod"]
    classes = {one.name: one.value["value"] for one in known.of(("kueue.x-k8s.io", "WorkloadPriorityClass"))}
    assert classes[production.item.labels[PRIORITY]] > classes[research.item.labels[PRIORITY]]
    assert [view.requests[MEMORY] for view in (research, production)] == [16_000, 8_000]
    assert [view.requests[CORES] for view in (research, production)] == [50, 30]
    assert [view.pods for view in (research, production)] == [2, 4]
