"""A sample of each kind of job, and what its own operator would say of it. Used by the story that all of them play."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from muster.engine.job_forms import Steps
from muster.store.kinds import Object
from tests.support import is_full_proof, shared

STAMP = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One job, the pods it asks for, and the states that its operator reports."""

    kind: str  # the name of its integration
    api: str
    resource: str
    spec: Any
    counts: dict[str, int]  # of its pod sets, in their order
    selectors: tuple[Steps, ...]  # where the nodes of its pods are written
    switch: Steps = ("spec", "suspend")
    ready: Any = field(default_factory=dict)
    stopped: Any = field(default_factory=dict)
    done: Any = None  # None: it never ends by itself
    others: tuple[Object, ...] = ()  # what has to be there before
    definitions: tuple[str, ...] = ()  # beside its own

    @property
    def job(self) -> Object:
        labels = {"kueue.x-k8s.io/queue-name": "main"}
        metadata = {"name": "train", "namespace": "default", "labels": labels}
        return {"apiVersion": self.api, "kind": self.kind_name, "metadata": metadata, "spec": self.spec}

    @property
    def kind_name(self) -> str:
        return KIND_NAMES[self.kind]


KIND_NAMES = {
    "batch/job": "Job",
    "jobset.x-k8s.io/jobset": "JobSet",
    "kubeflow.org/tfjob": "TFJob",
    "kubeflow.org/pytorchjob": "PyTorchJob",
    "kubeflow.org/xgboostjob": "XGBoostJob",
    "kubeflow.org/paddlejob": "PaddleJob",
    "kubeflow.org/jaxjob": "JAXJob",
    "kubeflow.org/mpijob": "MPIJob",
    "trainer.kubeflow.org/trainjob": "TrainJob",
    "ray.io/rayjob": "RayJob",
    "ray.io/raycluster": "RayCluster",
    "ray.io/rayservice": "RayService",
    "sparkoperator.k8s.io/sparkapplication": "SparkApplication",
    "workload.codeflare.dev/appwrapper": "AppWrapper",
}


def definition(name: str) -> Object:
    """The definition that users of a kind have; skips where it is not at hand."""
    found: Object = yaml.load(shared(f"crds/{name}.yaml").read_bytes(), yaml.CSafeLoader)
    return found


def template(name: str = "main", **spec: Any) -> Object:
    """Pods that ask for one CPU."""
    container = {"name": name, "image": "example.com/train:1", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"labels": {"app": "train"}}, "spec": {"containers": [container], **spec}}


def condition(name: str, message: str = "") -> Object:
    """A condition that is true."""
    return {"type": name, "status": "True", "reason": name, "message": message, "lastTransitionTime": STAMP}


def training(kind: str, specs: str, counts: dict[str, int], version: str = "v1") -> Sample:
    """A kind of Kubeflow's."""
    replicas = {name: {"replicas": count, "template": template()} for name, count in counts.items()}
    statuses = {name: {"active": count} for name, count in counts.items()}
    ended = {name: {"succeeded": count} for name, count in counts.items()}
    return Sample(
        kind=f"kubeflow.org/{kind}",
        api=f"kubeflow.org/{version}",
        resource=f"{kind}s.kubeflow.org",
        spec={specs: replicas, "runPolicy": {}},
        switch=("spec", "runPolicy", "suspend"),
        counts={name.lower(): count for name, count in counts.items()},
        selectors=tuple(("spec", specs, name, "template", "spec") for name in counts),
        ready={"conditions": [condition("Running")], "replicaStatuses": statuses},
        stopped={"conditions": [condition("Suspended")], "replicaStatuses": {name: {} for name in counts}},
        done={"conditions": [condition("Succeeded", "train is successfully completed")], "replicaStatuses": ended},
    )


def _ray_cluster() -> Object:
    workers = {"groupName": "small", "replicas": 1, "numOfHosts": 2, "minReplicas": 1, "maxReplicas": 1}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": template()},
        "workerGroupSpecs": [{**workers, "rayStartParams": {}, "template": template()}],
    }


def _ray_selectors(*way: str) -> tuple[Steps, ...]:
    head = (*way, "headGroupSpec", "template", "spec")
    return (head, (*way, "workerGroupSpecs", 0, "template", "spec"))


def _replicated(name: str, replicas: int, parallelism: int) -> Object:
    spec = {"parallelism": parallelism, "completions": parallelism, "template": template(restartPolicy="Never")}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def _set_status(**states: int) -> Object:
    """Two jobs of a JobSet in one state, none in the others."""
    names = ("active", "failed", "ready", "succeeded", "suspended")
    counts = dict.fromkeys(names, 0) | states
    return [{"name": "leader", **counts}, {"name": "workers", **counts}]


def _runtime() -> Object:
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    node = {"metadata": {"labels": labels}, "spec": {"template": template("node")}}
    inner = {"replicatedJobs": [{"name": "node", "template": node}]}
    spec = {"mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}}, "template": {"spec": inner}}
    api = "trainer.kubeflow.org/v1alpha1"
    return {"apiVersion": api, "kind": "ClusterTrainingRuntime", "metadata": {"name": "torch"}, "spec": spec}


def _train_status(**states: int) -> Object:
    counts = dict.fromkeys(("active", "failed", "ready", "succeeded", "suspended"), 0) | states
    return {"jobsStatus": [{"name": "node", **counts}]}


def _wrapped() -> Object:
    spec = {"parallelism": 2, "completions": 2, "template": template(restartPolicy="Never")}
    inner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"}, "spec": spec}
    return {"template": inner, "podSets": [{"path": "template.spec.template", "replicas": 2}]}


SAMPLES = (
    Sample(
        kind="jobset.x-k8s.io/jobset",
        api="jobset.x-k8s.io/v1alpha2",
        resource="jobsets.jobset.x-k8s.io",
        spec={"replicatedJobs": [_replicated("leader", 1, 1), _replicated("workers", 1, 2)]},
        counts={"leader": 1, "workers": 2},
        selectors=tuple(("spec", "replicatedJobs", at, "template", "spec", "template", "spec") for at in (0, 1)),
        ready={"replicatedJobsStatus": _set_status(active=1, ready=1)},
        stopped={"replicatedJobsStatus": _set_status(suspended=1)},
        done={
            "replicatedJobsStatus": _set_status(succeeded=1),
            "conditions": [condition("Completed", "jobset completed successfully")],
        },
    ),
    training("tfjob", "tfReplicaSpecs", {"Chief": 1, "PS": 1, "Worker": 2}),
    training("pytorchjob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 2}),
    training("xgboostjob", "xgbReplicaSpecs", {"Master": 1, "Worker": 2}),
    training("paddlejob", "paddleReplicaSpecs", {"Master": 1, "Worker": 2}),
    training("jaxjob", "jaxReplicaSpecs", {"Worker": 3}),
    training("mpijob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 2}, "v2beta1"),
    Sample(
        kind="trainer.kubeflow.org/trainjob",
        api="trainer.kubeflow.org/v1alpha1",
        resource="trainjobs.trainer.kubeflow.org",
        spec={"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 3}},
        counts={"node": 3},
        selectors=(("spec", "podSpecOverrides", 0),),
        ready=_train_status(active=1, ready=1),
        stopped=_train_status(suspended=1),
        done={**_train_status(succeeded=1), "conditions": [condition("Complete", "jobset completed successfully")]},
        others=(_runtime(),),
        definitions=("clustertrainingruntimes.trainer.kubeflow.org",),
    ),
    Sample(
        kind="ray.io/rayjob",
        api="ray.io/v1",
        resource="rayjobs.ray.io",
        spec={
            "entrypoint": "python train.py",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": _ray_cluster(),
            "submitterPodTemplate": template(restartPolicy="Never"),
        },
        counts={"head": 1, "small": 2, "submitter": 1},
        selectors=(*_ray_selectors("spec", "rayClusterSpec"), ("spec", "submitterPodTemplate", "spec")),
        ready={"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "rayClusterStatus": {"state": "ready"}},
        stopped={"jobDeploymentStatus": "Suspended"},
        done={"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "Job finished successfully."},
    ),
    Sample(
        kind="ray.io/raycluster",
        api="ray.io/v1",
        resource="rayclusters.ray.io",
        spec=_ray_cluster(),
        counts={"head": 1, "small": 2},
        selectors=_ray_selectors("spec"),
        ready={"state": "ready"},
        stopped={"state": "suspended"},
    ),
    Sample(
        kind="ray.io/rayservice",
        api="ray.io/v1",
        resource="rayservices.ray.io",
        spec={"rayClusterConfig": _ray_cluster()},
        counts={"head": 1, "small": 2},
        selectors=_ray_selectors("spec", "rayClusterConfig"),
        ready={"conditions": [condition("Ready")], "activeServiceStatus": {"rayClusterName": "train-1"}},
        stopped={"conditions": [], "activeServiceStatus": {}},
    ),
    Sample(
        kind="sparkoperator.k8s.io/sparkapplication",
        api="sparkoperator.k8s.io/v1beta2",
        resource="sparkapplications.sparkoperator.k8s.io",
        spec={
            "type": "Scala",
            "mode": "cluster",
            "sparkVersion": "3.5.0",
            "image": "example.com/spark:1",
            "mainApplicationFile": "local:///app.jar",
            "driver": {"cores": 1, "memory": "512m"},
            "executor": {"cores": 1, "memory": "512m", "instances": 2},
        },
        counts={"driver": 1, "executor": 2},
        selectors=(("spec", "driver"), ("spec", "executor")),
        ready={"applicationState": {"state": "RUNNING"}, "driverInfo": {}},
        stopped={"applicationState": {"state": "SUSPENDED"}, "driverInfo": {}},
        done={"applicationState": {"state": "COMPLETED"}, "driverInfo": {}},
    ),
    Sample(
        kind="workload.codeflare.dev/appwrapper",
        api="workload.codeflare.dev/v1beta2",
        resource="appwrappers.workload.codeflare.dev",
        spec={"components": [_wrapped()]},
        counts={"train-0": 2},
        selectors=(("spec", "components", 0, "podSetInfos", 0),),
        ready={"phase": "Running", "conditions": [condition("QuotaReserved"), condition("PodsReady")]},
        stopped={"phase": "Suspended", "conditions": []},
        done={"phase": "Succeeded", "conditions": [condition("PodsReady")]},
    ),
)

# One of each form: the others differ from these in names alone.
FORMS = ("JobSet", "PyTorchJob", "TrainJob", "RayJob", "SparkApplication", "AppWrapper")


def played(kinds: tuple[str, ...] = FORMS) -> list[Sample]:
    """The samples that play a life now: all of them in a full proof, else a few."""
    return [one for one in SAMPLES if is_full_proof() or one.kind_name in kinds]
