"""The copies of a workload and its job in another cluster: which there should be, and what they look like.

Called by the controller of each cluster. Copies follow from what the workload's own cluster has written down, so that
whatever is left over, of a cluster that was away or of a manager that was stopped, goes by the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.dialects.kueue import names
from muster.dialects.kueue.defaults import IN_USE_FINALIZER
from muster.dialects.kueue.identity import api_version
from muster.dialects.kueue.job_starts import pod_sets_in
from muster.dialects.kueue.job_steps import WORKLOADS, Step, Verb, without_finalizer
from muster.dialects.kueue.job_workloads import PREBUILT
from muster.dialects.kueue.kinds import HUB
from muster.dialects.kueue.multikueue import DIGEST, Copy, digest_of, has_room, is_copy_of, is_wanted
from muster.dialects.kueue.validate_workload import has_condition
from muster.engine.contracts import Integration
from muster.engine.job_forms import fields_at, with_value
from muster.model.fields import Fields

_KEPT_S = "ttlSecondsAfterFinished"  # after which a job is deleted; its copy stays until its end is known here
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirroring:
    """A workload and its job here, and what one cluster has of them."""

    copy: Copy
    origin: str
    workload: Fields | None = None  # None: there is none here
    job: Fields | None = None
    kind: Integration | None = None

    @property
    def is_chosen(self) -> bool:
        return self._status.text("clusterName") == self.copy.cluster

    @property
    def is_offered(self) -> bool:
        return self.copy.cluster in self._status.texts("nominatedClusterNames")

    @property
    def is_wanted(self) -> bool:
        return self.workload is not None and is_wanted(self.workload)

    @property
    def is_ending(self) -> bool:
        """Whether it has ended there, and that is not written down here yet."""
        here, there = self.workload, self.copy.workload
        if here is None or there is None or has_condition(here, "Finished"):
            return False
        return self.is_chosen and has_condition(there, "Finished")

    @property
    def _status(self) -> Fields:
        return Fields({}) if self.workload is None else self.workload.child("status")


def next_copy_step(case: Mirroring) -> Step | None:
    """The write that brings a cluster's copies on; `None` when there is nothing to do but wait."""
    if case.is_ending:
        return None
    keeps_job = case.is_wanted and case.is_chosen
    if case.copy.job is not None and not keeps_job:
        # In the state that was seen: one that ends at this moment is not taken for one that did not.
        return _deleted(case.copy.job, case.kind.resource) if case.kind is not None else None
    there = case.copy.workload
    if there is not None:
        return _kept(case, there, keeps_job=keeps_job)
    if case.workload is None or not case.is_wanted or not (case.is_chosen or case.is_offered):
        return None
    # One that was given away and is gone there is sent anew, wherever that will be.
    return None if case.is_chosen else Step(Verb.CREATE, WORKLOADS, copied_workload(case.workload, case.origin))


def _kept(case: Mirroring, there: Fields, *, keeps_job: bool) -> Step | None:
    here = case.workload
    if there.child("metadata").has("deletionTimestamp"):
        return None if case.copy.job is not None else without_finalizer(WORKLOADS, there, IN_USE_FINALIZER)
    if here is None or not case.is_wanted or not (case.is_chosen or case.is_offered) or not is_copy_of(here, there):
        return _deleted(there, WORKLOADS) if case.copy.job is None else None
    if not keeps_job or case.copy.job is not None or case.job is None or case.kind is None:
        return None
    if not has_room(here, there):
        return None
    return Step(Verb.CREATE, case.kind.resource, copied_job(case.job, case.kind, here, case.origin))


def _deleted(obj: Fields, resource: str) -> Step | None:
    return None if obj.child("metadata").has("deletionTimestamp") else Step(Verb.DELETE, resource, dict(obj.values))


# What copies look like -----------------------------------------------------------------------------------------------


def copied_workload(workload: Fields, origin: str) -> dict[str, Any]:
    """The workload as another cluster gets it."""
    metadata = workload.child("metadata")
    labels = {key: value for key, value in metadata.text_map("labels").items() if key != names.JOB_UID}
    return {
        "apiVersion": api_version(HUB),
        "kind": "Workload",
        "metadata": {
            "name": metadata.text("name"),
            "namespace": metadata.text("namespace"),
            "labels": {**labels, names.MULTIKUEUE_ORIGIN: origin},
            "annotations": {**metadata.text_map("annotations"), DIGEST: digest_of(workload)},
        },
        "spec": dict(workload.child("spec").values),
    }


def copied_job(job: Fields, kind: Integration, workload: Fields, origin: str) -> dict[str, Any]:
    """The job as another cluster gets it: held back, as it was before it ever started, and with its workload's name."""
    plain = Fields(kind.portable(Fields(kind.hold(Fields(kind.restore(job, pod_sets_in(workload)))))))
    spec = _without(_without(plain, kind.managed_by), ("spec", _KEPT_S))
    spec = _without(spec, ("spec", "runPolicy", _KEPT_S))
    metadata = job.child("metadata")
    annotations = plain.child("metadata").text_map("annotations")
    return {
        "apiVersion": kind.gvk.api_version,
        "kind": kind.gvk.kind,
        "metadata": {
            "name": metadata.text("name"),
            "namespace": metadata.text("namespace"),
            "labels": {
                **metadata.text_map("labels"),
                PREBUILT: workload.child("metadata").text("name"),
                names.MULTIKUEUE_ORIGIN: origin,
            },
            "annotations": {key: value for key, value in annotations.items() if key != _APPLIED},
        },
        "spec": dict(spec.child("spec").values),
    }


def _without(job: Fields, at: tuple[str, ...]) -> Fields:
    """The job without the value at the end of a way."""
    above = fields_at(job, at[:-1]).values if at else {}
    if not at or at[-1] not in above:
        return job
    return Fields(with_value(job, at[:-1], {name: value for name, value in above.items() if name != at[-1]}))
