"""The kinds of jobs that Kueue's configuration can turn on, by the names it has for them."""

from __future__ import annotations

# name in the file: kind.version.group
FRAMEWORKS = {
    "batch/job": "Job.v1.batch",
    "kubeflow.org/mpijob": "MPIJob.v2beta1.kubeflow.org",
    "ray.io/rayjob": "RayJob.v1.ray.io",
    "ray.io/rayservice": "RayService.v1.ray.io",
    "ray.io/raycluster": "RayCluster.v1.ray.io",
    "jobset.x-k8s.io/jobset": "JobSet.v1alpha2.jobset.x-k8s.io",
    "kubeflow.org/paddlejob": "PaddleJob.v1.kubeflow.org",
    "kubeflow.org/pytorchjob": "PyTorchJob.v1.kubeflow.org",
    "kubeflow.org/tfjob": "TFJob.v1.kubeflow.org",
    "kubeflow.org/xgboostjob": "XGBoostJob.v1.kubeflow.org",
    "kubeflow.org/jaxjob": "JAXJob.v1.kubeflow.org",
    "trainer.kubeflow.org/trainjob": "TrainJob.v1alpha1.trainer.kubeflow.org",
    "workload.codeflare.dev/appwrapper": "AppWrapper.v1beta2.workload.codeflare.dev",
    "sparkoperator.k8s.io/sparkapplication": "SparkApplication.v1beta2.sparkoperator.k8s.io",
    "pod": "Pod.v1.",
    "deployment": "Deployment.v1.apps",
    "statefulset": "StatefulSet.v1.apps",
    "leaderworkerset.x-k8s.io/leaderworkerset": "LeaderWorkerSet.v1.leaderworkerset.x-k8s.io",
}


def is_group_version_kind(text: str) -> bool:
    """Whether a text names a kind, a version and a group, joined by dots."""
    parts = text.split(".", 2)
    return len(parts) == 3 and all(parts)
