"""The training kinds of Kubeflow: replica types in their order and in any case, and the class of all pods."""

from __future__ import annotations

from typing import Any

import pytest

from muster.app.plugins import integrations
from muster.dialects.kueue.job_workloads import Surroundings, workload_of
from muster.engine.contracts import Ending
from muster.model.errors import InvalidObjects
from muster.model.fields import Fields

POD = {"spec": {"containers": [{"name": "main"}]}}
KINDS = {
    "tfjob": ("tfReplicaSpecs", ["Worker", "PS", "Chief", "Evaluator"], ["chief", "ps", "worker", "evaluator"]),
    "pytorchjob": ("pytorchReplicaSpecs", ["Worker", "Master"], ["master", "worker"]),
    "xgboostjob": ("xgbReplicaSpecs", ["Worker", "Master"], ["master", "worker"]),
    "paddlejob": ("paddleReplicaSpecs", ["worker", "MASTER"], ["master", "worker"]),
    "jaxjob": ("jaxReplicaSpecs", ["Worker"], ["worker"]),
    "mpijob": ("mpiReplicaSpecs", ["Worker", "Launcher"], ["launcher", "worker"]),
}


def job(specs: str, names: list[str], **spec: Any) -> Fields:
    replicas = {name: {"replicas": 2, "template": POD} for name in names}
    return Fields({"metadata": {"name": "train"}, "spec": {specs: replicas, **spec}})


@pytest.mark.parametrize("kind", KINDS)
def test_roles_come_in_the_order_of_their_kind(kind):
    specs, given, want = KINDS[kind]
    integration = integrations()[f"kubeflow.org/{kind}"]
    sets = integration.pod_sets(job(specs, given))
    assert [(one.name, one.count) for one in sets] == [(name, 2) for name in want]
    assert all(one.index_label == "training.kubeflow.org/replica-index" for one in sets)
    assert integration.gvk.version == ("v2beta1" if kind == "mpijob" else "v1")


@pytest.mark.parametrize(
    ("names", "want"),
    [([], "spec.pytorchReplicaSpecs"), (["Master", "Boss"], "spec.pytorchReplicaSpecs[Boss]")],
    ids=["none", "a type that it has not"],
)
def test_mistakes(names, want):
    with pytest.raises(InvalidObjects) as caught:
        integrations()["kubeflow.org/pytorchjob"].pod_sets(job("pytorchReplicaSpecs", names))
    assert [one.path for one in caught.value.problems] == [want]


def test_the_class_of_the_run_comes_before_those_of_pods():
    value = job("jaxReplicaSpecs", ["Worker"], runPolicy={"schedulingPolicy": {"priorityClass": "high"}})
    made = workload_of(value, integrations()["kubeflow.org/jaxjob"], Surroundings(pod_classes={"high": 7}))
    assert (made.obj["spec"]["priority"], made.obj["spec"]["priorityClassRef"]["name"]) == (7, "high")


def test_a_failure_says_why():
    condition = {"type": "Failed", "status": "True", "message": "worker 1 was lost"}
    failed = Fields({"status": {"conditions": [{"type": "Running", "status": "False"}, condition]}})
    assert integrations()["kubeflow.org/tfjob"].finished(failed) == Ending(False, "worker 1 was lost")
