"""The plan as a whole: how far it runs, that it changes nothing, and that it is the same each time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.app import plan as planning
from muster.app.config import parse_configuration
from muster.app.manifests import read_manifests
from muster.app.plan import Admitted, Evicted, PlanOptions, PlanReport, latest_moment, plan_objects
from muster.model.documents import Document, parse_documents
from muster.model.reason import Code
from tests import support

NOW = 1_767_254_400.0
EXAMPLE = support.ROOT / "examples" / "worked-example"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: solo}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 10}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs}
spec: {clusterQueue: solo}
"""


def job(name: str, pods: int, cpu: int = 1) -> Document:
    containers = [{"name": "main", "image": "example.com/x:1", "resources": {"requests": {"cpu": cpu}}}]
    value: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "jobs"}},
        "spec": {
            "parallelism": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": containers}},
        },
    }
    return Document(value, f"{name}.yaml", 1)


def planned(*jobs: Document, config: str = "") -> PlanReport:
    options = PlanOptions(now=NOW)
    if config:
        options = replace(options, configuration=parse_configuration(config, "config"))
    return plan_objects([*parse_documents(QUEUES, "queues.yaml"), *jobs], options)


def test_jobs_go_in_the_order_in_which_they_are_given():
    report = planned(job("b", 6), job("a", 6))
    assert [step.workload.split("-")[1] for step in report.steps] == ["b"]
    assert [one.verdict.workload.split("-")[1] for one in report.waiting] == ["a"]


def test_as_many_cycles_as_it_takes():
    report = planned(*(job(f"job-{number}", 1) for number in range(12)))
    assert len(report.steps) == 10
    assert report.is_settled
    assert [one.verdict.code for one in report.waiting] == [Code.WAITING_FOR_QUOTA, Code.ALIKE_WAITS]
    (queue,) = report.queues
    assert (queue.holding, queue.waiting) == (10, 2)


def test_a_plan_that_never_settles_is_cut_short(monkeypatch):
    monkeypatch.setattr(planning, "CYCLES_MOST", 3)
    report = planned(*(job(f"job-{number}", 1) for number in range(5)))
    assert (report.cycles, report.is_settled, len(report.steps)) == (3, False, 3)


def test_nothing_at_all_is_a_plan_too():
    report = plan_objects([], PlanOptions(now=NOW))
    assert (report.steps, report.waiting, report.queues, report.cycles) == ((), (), (), 0)


def test_the_documents_are_left_as_they_are():
    documents = [*parse_documents(QUEUES, "queues.yaml"), job("a", 6), job("b", 6)]
    before = repr(documents)
    plan_objects(documents, PlanOptions(now=NOW))
    assert repr(documents) == before


def test_amounts_are_those_at_the_end():
    report = planned(job("large", 9), job("larger", 8), job("small", 1))
    (waiting,) = report.waiting
    (shortage,) = waiting.verdict.shortages
    assert (shortage.asked, shortage.free) == (8000, 0), "the small one went past it and took what was free"
    assert len(shortage.holders) == 2


def test_a_job_that_starts_smaller_says_what_it_asked_for():
    small = job("elastic", 14)
    small.value["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "4"}
    (step,) = planned(small).steps
    assert isinstance(step, Admitted)
    assert (step.pod_sets[0].count, step.asked) == (10, {"main": 14})


def test_gates_of_the_configuration_are_followed():
    small = job("elastic", 14)
    small.value["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "4"}
    report = planned(small, config="featureGates: {PartialAdmission: false}")
    assert [one.verdict.code for one in report.waiting] == [Code.EXCEEDS_MAX_QUOTA]


@pytest.mark.parametrize("depth", [1, 1000])
def test_long_chains_of_cohorts(depth):
    cohort = "kind: Cohort\napiVersion: kueue.x-k8s.io/v1beta2\nmetadata: {name: c%d}\nspec: {parentName: c%d}\n"
    chain = parse_documents("---\n".join(cohort % (number, number + 1) for number in range(depth)), "chain.yaml")
    queues = parse_documents(QUEUES.replace("namespaceSelector: {}", "namespaceSelector: {}\n  cohortName: c0"), "q")
    report = plan_objects([*queues, *chain, job("train", 3)], PlanOptions(now=NOW))
    assert [step.workload.split("-")[1] for step in report.steps] == ["train"]


@pytest.mark.parametrize("size", [2, 1000])
def test_a_ring_of_cohorts_stops_its_queues(size):
    cohort = "kind: Cohort\napiVersion: kueue.x-k8s.io/v1beta2\nmetadata: {name: c%d}\nspec: {parentName: c%d}\n"
    ring = parse_documents("---\n".join(cohort % (number, (number + 1) % size) for number in range(size)), "ring.yaml")
    queues = parse_documents(QUEUES.replace("namespaceSelector: {}", "namespaceSelector: {}\n  cohortName: c0"), "q")
    report = plan_objects([*queues, *ring, job("train", 3)], PlanOptions(now=NOW))
    assert [one.verdict.code for one in report.waiting] == [Code.QUEUE_INACTIVE]


# The worked example and the reference manifests ----------------------------------------------------------------------


@pytest.fixture
def example():
    return read_manifests([str(EXAMPLE)])


def test_the_worked_example(example):
    now = latest_moment(example)
    report = plan_objects(example, PlanOptions(now=now))
    assert plan_objects(example, PlanOptions(now=now)) == report, "the same each time"
    assert not report.refused and report.is_settled
    assert {type(step) for step in report.steps} == {Admitted, Evicted}
    codes = {one.verdict.code for one in report.waiting}
    assert {Code.WAITING_FOR_QUOTA, Code.WAITING_FOR_PREEMPTED_WORKLOADS} <= codes
    for one in report.waiting:
        assert one.verdict.unblocked_by, f"{one.verdict.workload} is told what would help"


def reference(*names: str) -> list[Document]:
    folder = support.shared("manifests")
    return read_manifests([str(folder / name) for name in names])


def outcome(documents: list[Document], config: str = "") -> PlanReport:
    options = PlanOptions(now=NOW)
    if config:
        options = replace(options, configuration=parse_configuration(config, "config"))
    return plan_objects(documents, options)


def test_the_quickstart_is_admitted():
    report = outcome(reference("kueue-quickstart-queues.yaml", "kueue-quickstart-job.yaml"))
    (step,) = report.steps
    assert isinstance(step, Admitted)
    assert (step.pod_sets[0].count, set(step.pod_sets[0].flavors.values())) == (3, {"default-flavor"})
    assert (report.waiting, report.refused, report.warnings) == ((), (), ())


@pytest.mark.parametrize(
    ("file", "inactive", "warned"),
    [
        ("kueue-clusterqueue-admission-checks.yaml", "provisioning-check, security-scan", ["spec.namespaceSelector"]),
        ("kueue-clusterqueue-ai-training.yaml", "gpu-flavor", ["lendingLimit"]),
        ("kueue-clusterqueue-gpu.yaml", "gpu-v100", ["spec.namespaceSelector"]),
        ("kueue-clusterqueue-ml-training.yaml", "gpu-a100", ["spec.namespaceSelector"]),
        ("kueue-clusterqueue-prod.yaml", "default-flavor", []),
        ("kueue-clusterqueue-production.yaml", "gpu-nodes", ["spec.namespaceSelector"]),
        ("kueue-clusterqueue-safe.yaml", "standard-nodes", ["spec.namespaceSelector"]),
        ("kueue-clusterqueue-team-a.yaml", "default", []),
        ("kueue-clusterqueue-tenant-a.yaml", "standard-nodes", ["borrowingLimit", "flavors[0].resources"]),
        ("kueue-clusterqueue-vgpu.yaml", "nvidia-gpu-flavor", ["spec.namespaceSelector"]),
    ],
)
def test_queues_alone_are_inactive_and_say_why(file, inactive, warned):
    report = outcome(reference(file))
    (queue,) = report.queues
    assert inactive in queue.inactive_because
    assert not report.refused
    paths = [one.path for one in report.warnings]
    assert len(paths) == len(warned)
    assert all(any(path.endswith(part) for path in paths) for part in warned)


@pytest.mark.parametrize(
    ("files", "code"),
    [
        pytest.param(["kueue-job-sample.yaml"], Code.QUEUE_MISSING, id="a job alone"),
        pytest.param(["kueue-job-ml-training.yaml"], Code.QUEUE_MISSING, id="another"),
        pytest.param(["kueue-job-queue-name-annotation.yaml"], Code.QUEUE_MISSING, id="named in an annotation"),
        pytest.param(["kueue-pod-managed.yaml"], Code.QUEUE_MISSING, id="a pod"),
        pytest.param(["kueue-workload-replicas.yaml"], Code.QUEUE_MISSING, id="a workload"),
    ],
)
def test_jobs_alone_have_no_queue(files, code):
    assert [one.verdict.code for one in outcome(reference(*files)).waiting] == [code]


def test_replicas_are_read_as_count():
    report = outcome(reference("kueue-workload-replicas.yaml", "kueue-quickstart-queues.yaml"))
    (step,) = report.steps
    assert isinstance(step, Admitted) and step.pod_sets[0].count == 3


@pytest.mark.parametrize("name", ["kueue-job-after-admission.yaml", "pod-external.yaml"])
def test_what_names_no_queue_is_not_managed(name):
    report = outcome(reference(name))
    assert not report.waiting and [one.why for one in report.not_managed] == ["names no queue"]


def test_the_scenario_says_what_keeps_each_job_out():
    report = outcome(reference(*(path.name for path in sorted(support.shared("manifests").glob("scenario-*.yaml")))))
    codes = {report.owners[one.verdict.workload]: one.verdict.code for one in report.waiting}
    assert codes == {
        "Job ai-production/model-inference-prod": Code.NAMESPACE_NOT_ADMITTED,
        "Job ai-research/llm-training-research": Code.NO_MATCHING_FLAVOR,
    }
    assert not report.refused


def test_the_scenario_runs_as_far_as_it_can_when_undeclared_resources_are_ignored():
    files = [path.name for path in sorted(support.shared("manifests").glob("scenario-*.yaml"))]
    report = outcome(reference(*files), config="resources: {quotaCheckStrategy: IgnoreUndeclared}")
    assert [report.owners[step.workload] for step in report.steps] == ["Job ai-research/llm-training-research"]
    assert [one.verdict.code for one in report.waiting] == [Code.NAMESPACE_NOT_ADMITTED]


@pytest.mark.parametrize("strict", [False, True])
def test_every_reference_manifest_is_planned_or_refused(strict):
    config = f"kueue: {{strictValidation: {str(strict).lower()}}}"
    for path in sorted(support.shared("manifests").glob("*.yaml")):
        assert outcome(read_manifests([str(path)]), config).is_settled
