"""The runtime of a TrainJob: what is kept of it on the job, and the pods that the two of them ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from muster.engine.contracts import Find
from muster.engine.job_forms import Role, with_value
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.json_text import begins_as_json

GROUP = "trainer.kubeflow.org"
CLUSTER_WIDE = "ClusterTrainingRuntime"
RESOURCES = {"TrainingRuntime": f"trainingruntimes.{GROUP}", CLUSTER_WIDE: f"clustertrainingruntimes.{GROUP}"}
KEPT = "muster.dev/runtime"
KEPT_DEPTH, KEPT_MOST = 40, 200_000
STEP_LABEL = f"{GROUP}/trainjob-ancestor-step"
TRAINER, TRAINER_CONTAINER = "trainer", "node"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"


def with_runtime(job: Fields, find: Find) -> dict[str, Any]:
    """A job with what its pods are described by; raises where there is no such runtime."""
    reference, metadata = job.child("spec").child("runtimeRef"), job.child("metadata")
    kind, name = reference.text("kind", CLUSTER_WIDE), reference.text("name")
    resource = RESOURCES.get(kind)
    if resource is None:
        raise reference.error("kind", f"is {shown(kind)}", "give " + " or ".join(RESOURCES))
    found = find(resource, "" if kind == CLUSTER_WIDE else metadata.text("namespace"), name)
    if found is None:
        raise reference.error("name", f"names the {kind} {shown(name)}, which is not there", "create it first")
    spec = Fields.of(found).child("spec")
    kept = {
        "mlPolicy": spec.child("mlPolicy").values,
        "replicatedJobs": spec.child("template").child("spec").items("replicatedJobs"),
    }
    text = json.dumps(kept, separators=(",", ":"), sort_keys=True)
    if len(text) > KEPT_MOST:
        raise reference.error("name", f"names a runtime of {len(text)} characters", f"give one of at most {KEPT_MOST}")
    return with_value(job, ("metadata", "annotations"), {**metadata.text_map("annotations"), KEPT: text})


def kept_runtime(job: Fields) -> Fields:
    """What was kept of the runtime when the job was made."""
    text = job.child("metadata").text_map("annotations").get(KEPT, "")
    if begins_as_json(text[:KEPT_MOST], KEPT_DEPTH):
        try:
            return Fields.of(json.loads(text), "spec.runtimeRef")
        except ValueError:
            pass  # as good as none
    raise InvalidObject(f"metadata.annotations[{KEPT}]", "is missing", "make the job anew: it is written then")


def roles_of(job: Fields, runtime: Fields) -> Iterator[Role]:
    """One role for each job of the runtime; as many trainers as the job or else the runtime asks for nodes."""
    policy, trainer = runtime.child("mlPolicy"), job.child("spec").child("trainer")
    nodes = trainer.integer("numNodes", policy.integer("numNodes", 1, least=1), least=1)
    mpi = policy.child("mpi")
    for one in runtime.children("replicatedJobs"):
        template = one.child("template")
        spec = template.child("spec")
        pod = spec.child("template")
        replicas, count = one.integer("replicas", 1, least=0), spec.integer("parallelism", 1, least=0)
        is_trainer = template.child("metadata").text_map("labels").get(STEP_LABEL) == TRAINER
        if is_trainer:
            count = 1 if mpi.flag("runLauncherAsNode") and one.text("name") != TRAINER_CONTAINER else nodes
        elif one.text("name") == TRAINER_CONTAINER:
            count = nodes - 1 if mpi.flag("runLauncherAsNode") else nodes  # the nodes that a launcher starts work on
        yield Role(
            name=one.text("name"),
            count=replicas * count,
            template=_pod(pod, trainer if is_trainer or one.text("name") == TRAINER_CONTAINER else Fields({})),
            index_label=INDEX_LABEL,
            group_label=JOB_INDEX_LABEL,
            group_count=replicas,
        )


def _pod(template: Fields, trainer: Fields) -> Mapping[str, Any]:
    """The template with what the job says of the image and the amounts of its trainers."""
    given: dict[str, Any] = {}
    if trainer.has("image"):
        given["image"] = trainer.text("image")
    if trainer.has("resourcesPerNode"):
        given["resources"] = trainer.child("resourcesPerNode").values
    spec = template.child("spec")
    containers = [
        {**one.values, **given} if one.text("name") == TRAINER_CONTAINER else one.values
        for one in spec.children("containers")
    ]
    return {**template.values, "spec": {**spec.values, "containers": containers}}
