"""What the training kinds of Kubeflow share: replica types with a template each, a run policy, and conditions.

Used by their files in `jobs`, which differ in the names of their replica types.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.contracts import Ending, GroupVersionKind, Integration
from muster.engine.job_forms import Role, TemplateForm, ended_by_condition, has_true_condition
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

GROUP = "kubeflow.org"
INDEX_LABEL = "training.kubeflow.org/replica-index"
RUN_POLICY = ("spec", "runPolicy")
NAMES_MOST = 16  # replica types of one job that are looked at; none has as many


def training_kind(kind: str, specs: str, replica_types: tuple[str, ...], version: str = "v1") -> Integration:
    """A kind of training job: where it has its replicas, and their types in the order in which they are counted."""
    by_name = {name.lower(): number for number, name in enumerate(replica_types)}

    def roles(job: Fields) -> Iterator[Role]:
        replicas = job.child("spec").child(specs)
        # The operator reads the names of types in any case.
        for name in sorted(replicas.values, key=lambda one: by_name.get(one.lower(), len(by_name))):
            count = replicas.child(name).integer("replicas", 1, least=0)
            at = ("spec", specs, name, "template")
            yield Role(name=name.lower(), count=count, at=at, index_label=INDEX_LABEL)

    def problems(job: Fields) -> Iterator[InvalidObject]:
        replicas = job.child("spec").child(specs)
        if not replicas.values:
            yield job.child("spec").error(specs, "is missing", "give " + " or ".join(replica_types))
        for name in list(replicas.values)[:NAMES_MOST]:
            if name.lower() not in by_name:
                hint = "give " + ", ".join(replica_types)
                yield InvalidObject(f"{replicas.path}[{name[:NAMES_MOST]}]", f"is no replica type of a {kind}", hint)

    form = TemplateForm(roles=roles, problems=problems, switch=(*RUN_POLICY, "suspend"))
    return Integration(
        name=f"{GROUP}/{kind.lower()}",
        gvk=GroupVersionKind(GROUP, version, kind),
        plural=f"{kind.lower()}s",
        pod_sets=form.pod_sets,
        is_suspended=form.is_suspended,
        hold=form.hold,
        start=form.start,
        suspend=form.suspend,
        restore=form.restore,
        finished=_finished,
        is_active=_is_active,
        is_ready=lambda job: has_true_condition(job.child("status"), "Running"),
        priority_class=(*RUN_POLICY, "schedulingPolicy", "priorityClass"),
        managed_by=(*RUN_POLICY, "managedBy"),
        own_controller="kubeflow.org/mpi-operator" if kind == "MPIJob" else "kubeflow.org/training-operator",
    )


def _finished(job: Fields) -> Ending | None:
    return ended_by_condition(job, "Succeeded")


def _is_active(job: Fields) -> bool:
    replicas = job.child("status").child("replicaStatuses")
    return any(replicas.child(name).integer("active") > 0 for name in replicas.values)
